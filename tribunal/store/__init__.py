"""The database of cases and keys: SQLite by default, PostgreSQL where one is named."""
