"""Data sets in, graphs over them, measures and reports out."""
