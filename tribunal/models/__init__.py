"""Chat and embedding models: the one door to them."""
