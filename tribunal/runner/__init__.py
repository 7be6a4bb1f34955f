"""Runs cases for every caller: runs, batches and the service."""
