"""What the audit log is told of what left the database."""

from __future__ import annotations

from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, Entry, append
from tribunal.store.engine import Store


async def exported(store: Store, what: str, details: JSON) -> None:
    """Say that cases were written to a file; `what` is the kind of file."""
    async with store.transaction() as connection:
        await append(connection, OPERATOR, Entry(kind="cases.exported", subject=what, details=details))
