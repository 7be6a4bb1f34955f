"""An idempotency key belongs to the client's request, whatever settings the operator adds to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column. It is empty in existing rows: these are compared as before, with the settings of their case."""
    op.add_column("idempotency", sa.Column("client_request", sa.Text()))
