"""A webhook may have a form of its own, and is told of events that the release before doesn't know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns, which are empty in every webhook that there is: it is told what it was told before."""
    op.add_column("webhooks", sa.Column("form", sa.Text()))
    op.add_column("webhooks", sa.Column("later_events", sa.JSON()))
