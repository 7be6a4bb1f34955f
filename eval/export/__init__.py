"""A run for other tools: flat tables of its posts, calls and turns, and a log for Inspect."""
