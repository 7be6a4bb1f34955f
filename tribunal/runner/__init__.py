"""The one place where a case is tried, whoever asked for it."""
