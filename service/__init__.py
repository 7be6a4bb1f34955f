"""The HTTP service: `tribunal serve`."""
