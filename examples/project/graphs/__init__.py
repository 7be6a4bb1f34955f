"""Graphs of the project."""
