"""Search engines, one a file, and the chain that asks them in turn."""
