"""The web: search, guarded fetching, reading, and the archive of all that was looked up."""
