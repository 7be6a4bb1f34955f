"""The cases of the database: taken, tried, held, decided, kept and erased."""
