"""The first tables: a new database is made whole by `tribunal.store.engine`, and never comes here."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: a database of this version has its tables."""
