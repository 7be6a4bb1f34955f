"""Add what a service needs for its promises under load and outage: each column is explained in `tables.py`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add them."""
    _add_budgets_and_priority()
    _add_held_cases()
    _add_published_heads()
    _add_ends_of_keys()


def _add_budgets_and_priority() -> None:
    op.add_column("api_keys", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("cases", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("cases", sa.Column("held", sa.Text()))
    op.add_column("cases", sa.Column("held_until", sa.Double()))
    op.add_column("cases", sa.Column("reserved_day", sa.Text()))
    op.add_column("cases", sa.Column("reserved_attempt", sa.Integer()))
    op.add_column("cases", sa.Column("reserved_calls", sa.BigInteger()))
    op.add_column("cases", sa.Column("reserved_tokens", sa.BigInteger()))
    op.add_column("cases", sa.Column("reserved_money", sa.Double()))
    op.add_column("usage", sa.Column("reserved_calls", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("usage", sa.Column("reserved_tokens", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("usage", sa.Column("reserved_money", sa.Double(), nullable=False, server_default="0"))


def _add_held_cases() -> None:
    op.add_column("cases", sa.Column("held_for", sa.Text()))
    op.add_column("cases", sa.Column("deadline", sa.Double()))
    op.add_column("cases", sa.Column("calls_paid", sa.JSON()))
    op.add_column("batches", sa.Column("held_for", sa.Text()))
    held = sa.text("held_for IS NOT NULL")
    op.create_index("cases_held", "cases", ["held_for"], postgresql_where=held, sqlite_where=held)


def _add_published_heads() -> None:
    op.create_table(
        "published_heads",
        sa.Column("target", sa.Text(), primary_key=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("claimed", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
    )


def _add_ends_of_keys() -> None:
    for name in ("expires", "rotated", "old_expires"):
        op.add_column("api_keys", sa.Column(name, sa.Double()))
    op.add_column("api_keys", sa.Column("old_hash", sa.Text()))
