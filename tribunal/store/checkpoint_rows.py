"""Checkpoints in the service's database, by the cases that they are of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import column, delete, table
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.store.checkpoint_tables import names
from tribunal.store.engine import Store


async def forget_checkpoints(store: Store, connection: AsyncConnection, case_ids: Any) -> None:
    """Delete the checkpoints of these cases: a list of ids, or a query for them."""
    for name in names(postgres=store.postgres):
        held = table(name, column("thread_id"))
        await connection.execute(delete(held).where(held.c.thread_id.in_(case_ids)))
