"""What a service promises under load and outage: each column and table is told of in `tribunal.store.tables`."""

from __future__ import annotations

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add them."""
