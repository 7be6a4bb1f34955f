"""Where the service keeps its cases and keys: SQLite by default, PostgreSQL where one is named."""
