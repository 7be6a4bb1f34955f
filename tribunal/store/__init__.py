"""Where the service keeps its cases, keys and deliveries: SQLite by default, PostgreSQL where one is named."""
