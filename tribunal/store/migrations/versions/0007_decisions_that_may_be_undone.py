"""Decisions on appeals and second opinions wait some seconds, in which they can be undone, and cite clauses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns, which are empty in every row that there is, and the indexes of decisions that wait."""
    held = sa.text("held_until IS NOT NULL")
    for table in ("appeals", "second_opinions"):
        op.add_column(table, sa.Column("answer", sa.JSON(none_as_null=True)))
        op.add_column(table, sa.Column("held_until", sa.Double()))
        op.add_column(table, sa.Column("clauses", sa.JSON(none_as_null=True)))
        op.create_index(f"{table}_held", table, ["held_until"], postgresql_where=held, sqlite_where=held)
