"""Cases have what the desk's queue is filtered and grouped by, in columns of its index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
_IN_INDEX = (
    "created", "id", "waits_since", "status", "reason", "policy_name", "language", "confidence", "escalated",
    "claimed_by", "claimed_until", "appeal_id", "category", "model_category", "cited", "severity", "image_sha",
    "same_text",
)  # fmt: skip
_CASES = sa.table(
    "cases", sa.column("id"), sa.column("record", sa.JSON()), sa.column("waits_since"), sa.column("model_category"),
    sa.column("cited"),
)  # fmt: skip


def upgrade() -> None:
    """Add the columns and their indexes; cases that wait have the models' category and clauses from their records.

    Neither their clauses' severity nor their texts' groups are filled in: such a case is a line of its own.
    """
    for name in ("model_category", "cited", "severity", "same_text"):
        op.add_column("cases", sa.Column(name, sa.Text()))
    grouped = sa.text("same_text IS NOT NULL")
    op.create_index("cases_by_same_text", "cases", ["same_text"], postgresql_where=grouped, sqlite_where=grouped)
    _fill_waiting()
    waits = sa.text("waits_since IS NOT NULL")
    op.drop_index("cases_that_wait", "cases", if_exists=True)
    op.create_index("cases_that_wait", "cases", _IN_INDEX, postgresql_where=waits, sqlite_where=waits)


def _fill_waiting() -> None:
    connection = op.get_bind()
    waiting = connection.execute(sa.select(_CASES.c.id).where(_CASES.c.waits_since.is_not(None)))
    for case_id in waiting.scalars().all():
        of_case = _CASES.c.id == case_id
        record = connection.execute(sa.select(_CASES.c.record).where(of_case)).scalar() or {}
        court = (record.get("review") or {}).get("court") or {}
        clauses = court.get("clauses") or ()
        values = {"model_category": court.get("category"), "cited": f" {' '.join(clauses)} " if clauses else None}
        connection.execute(sa.update(_CASES).where(of_case).values(**values))
