"""The messages: one for each endpoint, written down in the same transaction as what it tells of."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Literal

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.cases.webhook_payload import CaseMessage, CoopTarget, EventType, body, coop_callback
from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, LogEntry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import batches, cases, deliveries, webhooks
from tribunal.times import new_id

Status = Literal["waiting", "delivered", "dead"]
# Locked against removal until the transaction ends, which would else fail with it.
_IN_FORCE = select(webhooks).where(webhooks.c.disabled.is_(None)).with_for_update(read=True, key_share=True)


class Outbox:
    """The messages, as one replica sees them.

    Attributes:
        put: set when a message may have become due; whoever sends them looks then.
    """

    def __init__(self, store: Store, public_url: str | None = None) -> None:
        """Use a database; links in messages begin with `public_url`."""
        self._store, self._public_url = store, (public_url or "").rstrip("/")
        self._announced = False  # whether any endpoint has asked for a message of this process
        self.put = asyncio.Event()

    def link(self, case_id: str) -> str:
        """Return where a case is shown."""
        return f"{self._public_url}/v1/cases/{case_id}"

    async def announce(self, connection: AsyncConnection, event: EventType, told: CaseMessage) -> None:
        """Write down a message for every endpoint that asked for this type, in the transaction in which a case ends.

        Its record only goes where the endpoint was added so. Call `send` once the transaction is done.
        """
        in_force = (await connection.execute(_IN_FORCE)).mappings()
        if not (wanted := [row for row in in_force if event in row["events"]]):
            return
        self._announced = True
        # A row of a batch that is not to be kept is kept itself, for a day.
        batch = select(cases.c.batch_id).where(cases.c.id == told.id).scalar_subquery()
        if (await connection.execute(select(batches.c.keep).where(batches.c.id == batch))).scalar() is False:
            told = told.without_words()
        now = time.time()
        common = {
            "case_id": told.id, "event": event, "created": now, "status": "waiting", "due": now, "attempts": 0,
            "attempts_before": 0,
        }  # fmt: skip
        made = [
            {"id": new_id("msg"), "webhook_id": row["id"], "body": text, **common}
            for row in wanted
            if (text := _message_body(row, event, told)) is not None
        ]
        if made:
            await connection.execute(deliveries.insert(), made)

    def send(self) -> None:
        """Have what was announced sent: its transaction is done."""
        if self._announced:
            self.put.set()

    async def list_messages(
        self, *, status: Status | None = None, webhook_id: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[JSON]:
        """Return messages without their bodies, the newest first, from before this id on."""
        columns = [column for column in deliveries.c if column.name not in ("body", "attempts_before")]
        query = select(*columns).order_by(deliveries.c.id.desc()).limit(limit)
        for column, value in ((deliveries.c.status, status), (deliveries.c.webhook_id, webhook_id)):
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            query = query.where(deliveries.c.id < before)
        return await self._store.fetch_rows(query)

    async def replay(self, message_id: str | None = None, by: Who = OPERATOR) -> int:
        """Send dead messages again, from the start of the schedule and under the ids that they have; return how many.

        Without a `message_id`, all whose endpoints are in force.

        Raises:
            BadInput: there is no such dead message, or its endpoint is disabled.
        """
        in_force = select(webhooks.c.id).where(webhooks.c.disabled.is_(None))
        dead = (deliveries.c.status == "dead") & deliveries.c.webhook_id.in_(in_force)
        if message_id is not None:
            dead &= deliveries.c.id == message_id
        fresh = {"status": "waiting", "due": time.time(), "attempts_before": deliveries.c.attempts, "finished": None}
        async with self._store.transaction() as connection:
            number = (await connection.execute(update(deliveries).where(dead).values(**fresh))).rowcount
            if number:
                subject, details = message_id or "all", {"messages": number}
                await append(connection, by, LogEntry(kind="delivery.replayed", subject=subject, details=details))
        if message_id is not None and not number:
            raise BadInput(
                f"delivery: {message_id[:80]}: there is no dead one of this id whose webhook is in force; "
                "tribunal webhooks dead shows them, and tribunal webhooks enable sends to a webhook again"
            )
        self.put.set()
        return int(number)


def _message_body(row: Any, event: EventType, told: CaseMessage) -> str | None:
    """Return what an endpoint is sent; None where it is told nothing of this."""
    if row["coop"] is None:
        whole = told.dump()
        return body(event, whole if row["with_record"] else {**whole, "record": None})
    said = coop_callback(event, told, CoopTarget.model_validate(row["coop"]))
    return None if said is None else json.dumps(said)
