"""Run by Alembic: migrations on the connection that `tribunal.store.engine.upgrade` gives, in its transaction."""

from __future__ import annotations

from alembic import context

from tribunal.store.tables import METADATA

_connection = context.config.attributes["connection"]
context.configure(
    connection=_connection,
    target_metadata=METADATA,
    render_as_batch=_connection.dialect.name == "sqlite",
)
context.run_migrations()
