"""Precedents: cases that people decided, which the court is reminded of."""
