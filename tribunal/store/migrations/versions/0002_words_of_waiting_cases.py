"""Cases of every way in wait in one table: each says whether its words stay once a person has decided it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column, which is true of every case that there is."""
    op.add_column("cases", sa.Column("words", sa.Boolean(), nullable=False, server_default=sa.true()))
