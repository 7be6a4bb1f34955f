"""Runs: posts decided by a graph, in a folder that can be read and continued."""
