"""The messages: one for each endpoint, written down in the same transaction as what it tells of."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any, Literal

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.service.webhooks.coop import CoopTarget, callback
from tribunal.service.webhooks.payload import EventType, Told, body
from tribunal.store.audit import OPERATOR, Entry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import batches, cases, deliveries, webhooks

Status = Literal["waiting", "delivered", "dead"]
# Locked against removal until the transaction ends, which would else fail with it.
_IN_FORCE = select(webhooks).where(webhooks.c.disabled.is_(None)).with_for_update(read=True, key_share=True)


def new_message_id() -> str:
    """An id such as `msg-0198…`; later ones sort after earlier ones."""
    return f"msg-{int(time.time() * 1000):011x}{uuid.uuid4().hex[:12]}"


def _body(row: Any, event: EventType, whole: JSON, without: JSON, told: Told) -> str | None:
    """What an endpoint is sent; None where it is told nothing of this."""
    if row["coop"] is None:
        return body(event, whole if row["with_record"] else without)
    said = callback(event, told, CoopTarget.model_validate(row["coop"]))
    return None if said is None else json.dumps(said)


class Outbox:
    """The messages, as one replica sees them.

    Args:
        store: the database.
        public_url: what links in messages begin with.

    Attributes:
        put: set when a message may have become due; whoever sends them looks then.
    """

    _asked_for = False  # whether any endpoint has asked for a message of this process

    def __init__(self, store: Store, public_url: str | None = None) -> None:
        self._store, self._public_url = store, (public_url or "").rstrip("/")
        self.put = asyncio.Event()

    def link(self, case_id: str) -> str:
        """Where a case is shown."""
        return f"{self._public_url}/v1/cases/{case_id}"

    async def announce(self, connection: AsyncConnection, event: EventType, told: Told) -> None:
        """Write down a message for every endpoint that asked for this type. Call `send` once the transaction is done.

        Args:
            connection: the transaction in which the case ends.
            event: the type.
            told: what is said; its record only goes where the endpoint was added so.
        """
        in_force = (await connection.execute(_IN_FORCE)).mappings()
        if not (wanted := [row for row in in_force if event in row["events"]]):
            return
        self._asked_for = True
        if await self._of_a_passing_batch(connection, told.id):
            told = told.without_words()
        whole = told.dump()
        without = {**whole, "record": None}
        now = time.time()
        bodies = {row["id"]: _body(row, event, whole, without, told) for row in wanted}
        made = [
            {
                "id": new_message_id(),
                "webhook_id": row["id"],
                "case_id": told.id,
                "event": event,
                "body": bodies[row["id"]],
                "created": now,
                "status": "waiting",
                "due": now,
                "attempts": 0,
                "attempts_before": 0,
            }
            for row in wanted
            if bodies[row["id"]] is not None
        ]
        if made:
            await connection.execute(deliveries.insert(), made)

    def send(self) -> None:
        """What was announced is to be sent: its transaction is done."""
        if self._asked_for:
            self.put.set()

    async def _of_a_passing_batch(self, connection: AsyncConnection, case_id: str) -> bool:
        """Whether a case is a row of a batch that is not to be kept. The row itself is, for a day."""
        batch = select(cases.c.batch_id).where(cases.c.id == case_id).scalar_subquery()
        kept = (await connection.execute(select(batches.c.keep).where(batches.c.id == batch))).scalar()
        return kept is False

    async def listed(
        self, *, status: Status | None = None, webhook_id: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[JSON]:
        """Messages without their bodies, the newest first.

        Args:
            status: only these.
            webhook_id: only those to this endpoint.
            before: the id after which the last page ended.
            limit: how many.
        """
        columns = [column for column in deliveries.c if column.name not in ("body", "attempts_before")]
        query = select(*columns).order_by(deliveries.c.id.desc()).limit(limit)
        for column, value in ((deliveries.c.status, status), (deliveries.c.webhook_id, webhook_id)):
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            query = query.where(deliveries.c.id < before)
        async with self._store.reading() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]

    async def replay(self, message_id: str | None = None, by: Who = OPERATOR) -> int:
        """Send dead messages again, from the start of the schedule and under the ids that they have.

        Args:
            message_id: which; None: all whose endpoints are in force.
            by: who asks, for the audit log.

        Returns:
            how many.

        Raises:
            BadInput: there is no such dead message, or its endpoint is disabled.
        """
        in_force = select(webhooks.c.id).where(webhooks.c.disabled.is_(None))
        dead = (deliveries.c.status == "dead") & deliveries.c.webhook_id.in_(in_force)
        if message_id is not None:
            dead &= deliveries.c.id == message_id
        fresh = {"status": "waiting", "due": time.time(), "attempts_before": deliveries.c.attempts, "finished": None}
        async with self._store.transaction() as connection:
            done = await connection.execute(update(deliveries).where(dead).values(**fresh))
            if done.rowcount:
                told = Entry(kind="delivery.replayed", subject=message_id or "all", details={"messages": done.rowcount})
                await append(connection, by, told)
        if message_id is not None and not done.rowcount:
            raise BadInput(
                f"delivery: {message_id[:80]}: there is no dead one of this id whose webhook is in force; "
                "tribunal webhooks dead shows them, and tribunal webhooks enable sends to a webhook again"
            )
        self.put.set()
        return int(done.rowcount)
