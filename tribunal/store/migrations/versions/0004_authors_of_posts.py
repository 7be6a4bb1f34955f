"""A post may name its author: the case has a keyed hash of the id, by which earlier decisions are counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column, which is empty in every case that there is, and its index."""
    op.add_column("cases", sa.Column("author_sha", sa.Text()))
    named = sa.text("author_sha IS NOT NULL")
    op.create_index("cases_by_author", "cases", ["author_sha"], postgresql_where=named, sqlite_where=named)
