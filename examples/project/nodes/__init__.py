"""Nodes of the project."""
