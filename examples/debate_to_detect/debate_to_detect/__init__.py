"""Debate-to-Detect, a debate of two teams before a panel of judges, on hate speech."""
