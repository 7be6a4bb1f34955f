"""Run by Alembic: the connection on which migrations are done, one process at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, inspect, text

from tribunal.store.checkpoint_tables import VERSION_IN_POSTGRES, missing_in_postgres
from tribunal.store.tables import METADATA

ONE_AT_A_TIME = 7_481_160_231  # of PostgreSQL's advisory locks


def _migrate() -> None:
    url = context.config.attributes["url"]
    postgres = url.get_backend_name() == "postgresql"
    engine = create_engine(url if postgres else url.set(drivername="sqlite"))
    with engine.begin() as connection:
        if postgres:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({ONE_AT_A_TIME})"))
        context.configure(connection=connection, target_metadata=METADATA, render_as_batch=not postgres)
        context.run_migrations()
        if postgres:  # these have versions of their own, those of the installed library
            made = inspect(connection).has_table("checkpoint_migrations")
            held = connection.execute(text(VERSION_IN_POSTGRES)).scalar() if made else None
            for statement in missing_in_postgres(held):
                connection.exec_driver_sql(statement)
    engine.dispose()


_migrate()
