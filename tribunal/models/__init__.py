"""Chat and embedding models. All code of the project that calls a model goes through this package."""
