"""Cases that were tried on /try or decided by the rehearsal model are marked, and count nowhere."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
_CASES = sa.table("cases", sa.column("id"), sa.column("record", sa.JSON()), sa.column("practice"))
_IN_INDEX = (
    "finished", "outcome", "category", "hateful", "created", "money", "appeal_id", "reviewer", "practice",
)  # fmt: skip


def upgrade() -> None:
    """Add the column. Earlier cases are marked if their record is the rehearsal's; where one came from is unknown."""
    op.add_column("cases", sa.Column("practice", sa.Text()))
    rehearsed = _CASES.c.record["rehearsed"].as_boolean().is_(True)
    op.execute(sa.update(_CASES).where(rehearsed).values(practice="rehearsed"))
    ended = sa.text("outcome IS NOT NULL")
    op.drop_index("cases_by_end", "cases", if_exists=True)
    op.create_index("cases_by_end", "cases", _IN_INDEX, postgresql_where=ended, sqlite_where=ended)
    practised = sa.text("practice IS NOT NULL")
    op.create_index("cases_of_practice", "cases", ("id",), postgresql_where=practised, sqlite_where=practised)
