"""Seal a run in one archive, and verify that nothing in it was changed."""
