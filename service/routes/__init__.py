"""The routes, one group a file."""
