"""A replica's sending: due messages taken up so that no other replica has them, and what becomes of each."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import Field
from sqlalchemy import and_, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen
from tribunal.service.webhooks.outbox import Outbox
from tribunal.service.webhooks.sending import Answer, Sender
from tribunal.store.engine import Store
from tribunal.store.tables import deliveries, webhooks

_LOG = logging.getLogger(__name__)
_LOOK = 1.0  # seconds between two looks at what is due
_TIDY = 60.0  # seconds between two looks at what is old
_AT_A_TIME = 4  # messages to one endpoint, so that a slow one holds up no other
_DAY = 86_400.0
_JITTER = 0.2  # of a pause; endpoints that failed together are not asked again together


class Taken(Frozen):
    """A message that this replica sends now; `attempts` is its proof that it still has it."""

    id: str
    webhook_id: str
    attempts: int
    attempts_before: int
    body: str
    url: str
    secret: str = Field(repr=False)


class Deliverer:
    """Sends what is due.

    Args:
        store: the database.
        outbox: the messages.
        retries: seconds before the second attempt, the third, …; after the last of them a message is dead.
        timeout: seconds for one attempt.
        days: how long a delivered message is kept, and how long a dead one.
    """

    def __init__(
        self, store: Store, outbox: Outbox, retries: Sequence[float], timeout: float, days: tuple[float, float]
    ) -> None:
        self._store, self._outbox, self._retries, self._days = store, outbox, retries, days
        self._sender = Sender(timeout)
        # A replica that ended while it sent leaves the message to the others after this time. It is longer than an
        # attempt can take, so that the two are never under way together.
        self._lease = 2 * timeout
        self._sends: dict[asyncio.Task[None], str] = {}

    async def run(self) -> None:
        """Send until cancelled."""
        tidied = 0.0
        while True:
            self._outbox.put.clear()
            try:
                begun = await self._begin()
                if time.monotonic() - tidied > _TIDY:
                    await self._tidy()
                    tidied = time.monotonic()
            except Exception as error:  # noqa: BLE001 (the database may come back)
                _LOG.warning("webhooks could not be looked after: %s", type(error).__name__)
                begun = 0
            if not begun:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._outbox.put.wait(), _LOOK)

    async def _begin(self) -> int:
        """Take up what is due, as far as there is room; gives how many."""
        busy = Counter(self._sends.values())
        some_due = exists().where(self._due(webhooks.c.id))
        wanted = select(webhooks.c.id, webhooks.c.url, webhooks.c.secret).where(webhooks.c.disabled.is_(None), some_due)
        async with self._store.reading() as connection:
            endpoints = (await connection.execute(wanted)).all()
        begun = 0
        for webhook_id, url, secret in endpoints:
            room = _AT_A_TIME - busy[webhook_id]
            for row in await self._take_up(webhook_id, room) if room > 0 else ():
                taken = Taken(**row, url=url, secret=secret)
                send = asyncio.create_task(self._deliver(taken), name=taken.id)
                self._sends[send] = webhook_id
                send.add_done_callback(self._done)
                begun += 1
        return begun

    def _done(self, send: asyncio.Task[None]) -> None:
        del self._sends[send]
        self._outbox.put.set()  # there is room

    def _due(self, webhook_id: Any) -> Any:
        return and_(
            deliveries.c.webhook_id == webhook_id, deliveries.c.status == "waiting", deliveries.c.due <= time.time()
        )

    async def _take_up(self, webhook_id: str, limit: int) -> list[JSON]:
        first = select(deliveries.c.id).where(self._due(webhook_id)).order_by(deliveries.c.due).limit(limit)
        first_due = first.with_for_update(skip_locked=True).cte("first_due")  # SQLite has one writer at a time anyway
        columns = [deliveries.c[name] for name in ("id", "webhook_id", "attempts", "attempts_before", "body")]
        taken = (
            update(deliveries)
            .where(deliveries.c.id.in_(select(first_due.c.id)), self._due(webhook_id))
            .values(attempts=deliveries.c.attempts + 1, due=time.time() + self._lease)
            .returning(*columns)
        )
        async with self._store.transaction() as connection:
            return [dict(row) for row in (await connection.execute(taken)).mappings()]

    async def _deliver(self, taken: Taken) -> None:
        try:
            answer = await self._sender.send(taken.url, taken.secret, taken.id, taken.body)
            await self._settle(taken, answer)
        except asyncio.CancelledError:
            async with self._store.transaction() as connection:
                await connection.execute(update(deliveries).where(_mine(taken)).values(due=time.time()))
            raise
        except Exception as error:  # noqa: BLE001 (it is due again after a while)
            _LOG.warning("webhook %s: message %s: %s", taken.webhook_id, taken.id, type(error).__name__)

    async def _settle(self, taken: Taken, answer: Answer) -> None:
        now = time.time()
        values: JSON = {"answered": answer.status, "error": answer.error}
        pause = self._pause(taken, answer)
        if answer.error is None:
            values |= {"status": "delivered", "finished": now}
        elif answer.status == 410 or pause is None:
            values |= {"status": "dead", "finished": now}
        else:
            values["due"] = now + pause
        async with self._store.transaction() as connection:
            if answer.status == 410:  # its row first, so that two such answers don't wait for each other
                await connection.execute(update(webhooks).where(webhooks.c.id == taken.webhook_id).values(disabled=now))
            await connection.execute(update(deliveries).where(_mine(taken)).values(**values))
            if answer.status == 410:
                await self._give_up(connection, taken.webhook_id, now)
        if answer.error is not None:
            _LOG.warning("webhook %s: message %s: %s", taken.webhook_id, taken.id, answer.error)

    def _pause(self, taken: Taken, answer: Answer) -> float | None:
        """Seconds until the next attempt; None: that was the last one."""
        failed = taken.attempts - taken.attempts_before
        if failed > len(self._retries):
            return None
        return max(self._retries[failed - 1] * random.uniform(1.0, 1.0 + _JITTER), answer.retry_after or 0.0)

    async def _give_up(self, connection: AsyncConnection, webhook_id: str, now: float) -> None:
        """It doesn't want messages any more: those that wait for it are dead, too."""
        waiting = (deliveries.c.webhook_id == webhook_id) & (deliveries.c.status == "waiting")
        gone = {"status": "dead", "finished": now, "error": "its webhook answered 410 and is disabled"}
        await connection.execute(update(deliveries).where(waiting).values(**gone))
        _LOG.warning("webhook %s: answered 410; it is disabled", webhook_id)

    async def _tidy(self) -> None:
        """Delete what is old, so that the table doesn't grow for ever."""
        now = time.time()
        async with self._store.transaction() as connection:
            for status, days in zip(("delivered", "dead"), self._days, strict=True):
                old = (deliveries.c.status == status) & (deliveries.c.finished < now - days * _DAY)
                await connection.execute(delete(deliveries).where(old))

    async def stop(self, seconds: float) -> None:
        """Let what is being sent end, for so long; what is left is due at once, for any replica."""
        if sends := list(self._sends):
            await asyncio.wait(sends, timeout=seconds)
        for send in sends:
            send.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        await self._sender.close()


def _mine(taken: Taken) -> Any:
    return and_(deliveries.c.id == taken.id, deliveries.c.status == "waiting", deliveries.c.attempts == taken.attempts)
