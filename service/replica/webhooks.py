"""Webhooks: the endpoints, which the operator has added; and what sends the messages of the outbox to them.

Due ones are taken up so that no other replica has them, signed and posted.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from pydantic import Field
from sqlalchemy import Delete, Update, and_, bindparam, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from standardwebhooks import Webhook

from tribunal import __version__
from tribunal.core.times import DAY, database_datetime, database_now, new_id, seconds_until_retry
from tribunal.docket.outbox import (
    EVENTS,
    FIRST_EVENTS,
    TEST,
    Outbox,
    events_of_webhook,
    message_body,
)
from tribunal.errors import BadInput, Problem
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, sha
from tribunal.store.engine import Store
from tribunal.store.group_commit import Group, GroupCommit
from tribunal.store.tables import deliveries, webhooks

MAX_URL = 2000  # characters of an address
_SECRET_PREFIX = "whsec_"  # noqa: S105 (the mark of one, by which scanners know it)


async def add_webhook(
    store: Store,
    url: str,
    events: Sequence[str] | None = None,
    *,
    with_record: bool = False,
    http: bool = False,
    by: Who = OPERATOR,
) -> tuple[str, str]:
    """Add an endpoint.

    Args:
        store: the database.
        url: where messages are sent.
        events: the types that are sent there; None: all.
        with_record: whether the whole record is sent, the post's words among it.
        http: whether an address without TLS is taken.
        by: who adds it, for the audit log.

    Returns:
        its id, and its secret whole, for the only time.

    Raises:
        BadInput: the address or an event is wrong.
    """
    check_url(url, http)
    if events is None:
        events = EVENTS
    unknown = next((each for each in events if each not in EVENTS), None)
    if unknown is not None or not events:
        raise BadInput(
            f"event: {unknown or 'none'}: is no type of message; they are {', '.join(EVENTS)}"
        )
    webhook_id = f"hook-{secrets.token_hex(6)}"
    secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    wanted = list(dict.fromkeys(events))
    # A replica of the release before reads `events` and knows only the first types.
    first = [each for each in wanted if each in FIRST_EVENTS]
    later = [each for each in wanted if each not in FIRST_EVENTS] or None
    row = {"id": webhook_id, "url": url, "secret": secret, "events": first, "later_events": later}
    async with store.transaction() as connection:
        await connection.execute(
            webhooks.insert().values(**row, with_record=with_record, created=database_now())
        )
        details = {
            "host": urlsplit(url).hostname,
            "url_sha": sha(url),
            "events": wanted,
            "with_record": with_record,
        }
        await append(
            connection, by, LogEntry(kind="webhook.added", subject=webhook_id, details=details)
        )
    return webhook_id, secret


def check_url(url: str, http: bool) -> None:
    """Check the address of an endpoint; raise BadInput if it is none, or has no TLS and `http` isn't allowed."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
        parts = urlsplit("")
    if (
        not host
        or parts.scheme not in ("https", "http")
        or not url.isprintable()
        or " " in url
        or len(url) > MAX_URL
    ):
        raise BadInput(f"url: {url[:100]!r}: is no web address; write https://host/path")
    if parts.username is not None or parts.password is not None:
        raise BadInput("url: holds a user or a password; leave it out: each message is signed")
    if parts.fragment:
        raise BadInput(f"url: {url[:100]!r}: leave out the part after #")
    if parts.scheme == "http" and not http:
        raise BadInput(f"url: {url[:100]!r}: has no TLS; write https://, or allow http")


async def list_webhooks(store: Store) -> list[JSON]:
    """Return every endpoint without its secret, the oldest first."""
    shown = [column for column in webhooks.c if column.name != "secret"]
    return [
        _as_shown(row)
        for row in await store.fetch_rows(select(*shown).order_by(webhooks.c.created))
    ]


async def find_webhook(store: Store, webhook_id: str) -> JSON:
    """Return an endpoint, its secret included; raise Problem if there is none."""
    row = await store.fetch_row(select(webhooks).where(webhooks.c.id == webhook_id))
    if row is None:
        raise _unknown_webhook(webhook_id)
    return _as_shown(row)


def _as_shown(row: JSON) -> JSON:
    return {**row, "events": events_of_webhook(row), "later_events": None}


async def remove_webhook(store: Store, webhook_id: str, by: Who = OPERATOR) -> None:
    """Remove an endpoint, and every message to it that is left; raise Problem if there is none."""
    await _change_webhook(
        store, delete(webhooks), LogEntry(kind="webhook.removed", subject=webhook_id), by
    )


async def enable_webhook(store: Store, webhook_id: str, by: Who = OPERATOR) -> None:
    """Send again to an endpoint that had answered 410; raise Problem if there is none."""
    enabling = update(webhooks).values(disabled=None)
    await _change_webhook(store, enabling, LogEntry(kind="webhook.enabled", subject=webhook_id), by)


async def _change_webhook(
    store: Store, statement: Update | Delete, entry: LogEntry, by: Who
) -> None:
    async with store.transaction() as connection:
        done = await connection.execute(statement.where(webhooks.c.id == entry.subject))
        if not done.rowcount:
            raise _unknown_webhook(entry.subject)
        await append(connection, by, entry)


def _unknown_webhook(webhook_id: str) -> Problem:
    return Problem(
        "not_found",
        f"webhook: {webhook_id[:80]}: there is none; tribunal service webhooks list shows them",
    )


_LOG = logging.getLogger(__name__)
_MAX_AT_A_TIME = 16  # messages to one endpoint, so that a slow one holds up no other
_ENOUGH_ROOM = (
    4  # of these, before more are taken up: each look at what is due costs as much as sending one
)
_MAX_PAUSE = 86_400.0  # seconds that an endpoint may ask us to wait
_JITTER = 0.2  # of a pause; endpoints that failed together are not asked again together


class DeliveryAnswer(NamedTuple):
    """Outcome of an attempt. `error` is None where it was taken."""

    status: int | None
    error: str | None
    retry_after: float | None = None


def open_session() -> aiohttp.ClientSession:
    """Return a session that keeps nothing of one endpoint for another."""
    # No cookies: one endpoint's would go to another on its host.
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


async def post_message(
    session: aiohttp.ClientSession,
    seconds: float,
    url: str,
    secret: str | None,
    message_id: str,
    body: str,
) -> DeliveryAnswer:
    """Send a message once, signed if there is a secret. Redirects aren't followed; only the answer's status is read.

    `seconds`: for the attempt, from the address look-up to the answer's status.
    """
    now = database_datetime()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tribunal/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if secret is not None:
        headers["webhook-signature"] = Webhook(secret).sign(message_id, now, body)
    try:
        async with (
            asyncio.timeout(seconds),
            session.post(url, data=body.encode(), headers=headers, allow_redirects=False) as answer,
        ):
            status = answer.status
            if 200 <= status < 300:
                return DeliveryAnswer(status, None)
            if 300 <= status < 400:
                return DeliveryAnswer(status, f"answered {status}; redirects are not followed")
            pause = seconds_until_retry(answer.headers.get("Retry-After", ""))
            return DeliveryAnswer(
                status, f"answered {status}", None if pause is None else min(pause, _MAX_PAUSE)
            )
    except TimeoutError:
        return DeliveryAnswer(None, f"no answer within {seconds:g} seconds")
    except (aiohttp.ClientError, OSError, ValueError) as error:  # their texts may hold the address
        return DeliveryAnswer(None, f"could not be sent: {type(error).__name__}")


async def send_test_message(store: Store, webhook_id: str, seconds: float) -> DeliveryAnswer:
    """Send one message of the type `webhook.test` to an endpoint, at once and only once.

    Raises:
        Problem: there is no such endpoint.
    """
    row = await find_webhook(store, webhook_id)
    body = message_body(TEST, {"webhook": row["id"]})
    async with open_session() as session:
        return await post_message(session, seconds, row["url"], row["secret"], new_id("msg"), body)


class DueMessage(Frozen):
    """A message that this replica sends now. `attempts` proves that it still has it."""

    id: str
    webhook_id: str
    attempts: int
    attempts_before: int
    body: str
    url: str
    secret: str = Field(repr=False)


class WebhookSender:
    """Sends what is due. Close it."""

    def __init__(
        self, store: Store, outbox: Outbox, writes: GroupCommit, retries: Sequence[float], timeout: float,
        days: tuple[float, float],
    ) -> None:  # fmt: skip
        """Begin to look after the outbox of a replica.

        Args:
            store: the database.
            outbox: the messages.
            writes: those of the replica.
            retries: seconds before the second attempt, the third, …; after the last of them a message is dead.
            timeout: seconds for one attempt.
            days: how long a delivered message is kept, and how long a dead one.
        """
        self._store = store
        self._outbox = outbox
        self._writes = writes
        self._retries = retries
        self._days = days
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None  # opened with the first message
        # A replica that ended while it sent leaves the message to the others after this time. It is longer than an
        # attempt can take, so that the two are never under way together.
        self._lease = 2 * timeout
        self._sends: dict[asyncio.Task[None], str] = {}

    async def send_due(self) -> int:
        """Take up what is due, as far as there is room, and return how many."""
        busy = Counter(self._sends.values())
        some_due = exists().where(self._is_due(webhooks.c.id))
        query = select(webhooks.c.id, webhooks.c.url, webhooks.c.secret).where(
            webhooks.c.disabled.is_(None), some_due
        )
        started = 0
        for endpoint in await self._store.fetch_rows(query):
            webhook_id = endpoint["id"]
            room = _MAX_AT_A_TIME - busy[webhook_id]
            for row in await self._take_up(webhook_id, room) if room >= _ENOUGH_ROOM else ():
                message = DueMessage(**row, url=endpoint["url"], secret=endpoint["secret"])
                send = asyncio.create_task(self._deliver(message), name=message.id)
                self._sends[send] = webhook_id
                send.add_done_callback(self._forget_send)
                started += 1
        return started

    def _forget_send(self, send: asyncio.Task[None]) -> None:
        del self._sends[send]
        self._outbox.put.set()  # there is room

    def _is_due(self, webhook_id: Any) -> Any:
        return and_(
            deliveries.c.webhook_id == webhook_id,
            deliveries.c.status == "waiting",
            deliveries.c.due <= database_now(),
        )

    async def _take_up(self, webhook_id: str, limit: int) -> list[JSON]:
        first = (
            select(deliveries.c.id)
            .where(self._is_due(webhook_id))
            .order_by(deliveries.c.due)
            .limit(limit)
        )
        # SQLite has one writer at a time anyway
        first_due = first.with_for_update(skip_locked=True).cte("first_due")
        columns = [
            deliveries.c[name]
            for name in ("id", "webhook_id", "attempts", "attempts_before", "body")
        ]
        taken = (
            update(deliveries)
            .where(deliveries.c.id.in_(select(first_due.c.id)), self._is_due(webhook_id))
            .values(attempts=deliveries.c.attempts + 1, due=database_now() + self._lease)
            .returning(*columns)
        )
        async with self._store.transaction() as connection:
            return [dict(row) for row in (await connection.execute(taken)).mappings()]

    async def _deliver(self, message: DueMessage) -> None:
        try:
            self._session = self._session or open_session()
            to = message.url, message.secret, message.id, message.body
            answer = await post_message(self._session, self._timeout, *to)
            await self._write_answer(message, answer)
        except asyncio.CancelledError:
            mine = {"its_id": message.id, "its_attempts": message.attempts}
            async with self._store.transaction() as connection:
                await connection.execute(_ANSWERED, {**mine, "due": database_now()})
            raise
        except Exception as error:  # noqa: BLE001 (it is due again after a while)
            _LOG.warning(
                "webhook %s: message %s: %s", message.webhook_id, message.id, type(error).__name__
            )

    async def _write_answer(self, message: DueMessage, answer: DeliveryAnswer) -> None:
        now = database_now()
        pause = self._next_pause(message, answer)
        is_gone = answer.status == 410
        status = "waiting"
        due = now + (pause or 0.0)
        if answer.error is None or is_gone or pause is None:
            status = "dead" if answer.error else "delivered"
            due = now
        is_over = status != "waiting"
        row = {
            "its_id": message.id, "its_attempts": message.attempts, "status": status, "due": due,
            "finished": now if is_over else None, "answered": answer.status, "error": answer.error,
        }  # fmt: skip

        async def write(group: Group) -> None:
            if is_gone:
                await _disable(group.connection, message.webhook_id, row)
            else:
                group.execute_at_end(_ANSWERED, [row])

        await self._writes.write(write)
        if answer.error is not None:
            more = "; it is disabled" if is_gone else ""
            _LOG.warning(
                "webhook %s: message %s: %s%s", message.webhook_id, message.id, answer.error, more
            )

    def _next_pause(self, message: DueMessage, answer: DeliveryAnswer) -> float | None:
        """Return the seconds until the next attempt; None: that was the last one."""
        failures = message.attempts - message.attempts_before
        if failures > len(self._retries):
            return None
        return max(
            self._retries[failures - 1] * random.uniform(1.0, 1.0 + _JITTER),
            answer.retry_after or 0.0,
        )

    async def delete_old(self) -> None:
        """Delete what is old, so that the table doesn't grow for ever."""
        now = database_now()
        async with self._store.transaction() as connection:
            for status, days in zip(("delivered", "dead"), self._days, strict=True):
                old = (deliveries.c.status == status) & (deliveries.c.finished < now - days * DAY)
                await connection.execute(delete(deliveries).where(old))

    async def stop(self, seconds: float) -> None:
        """Let what is being sent end, for so long; what is left is due at once, for any replica."""
        sends = list(self._sends)
        if sends:
            await asyncio.wait(sends, timeout=seconds)
        for send in sends:
            send.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


# An attempt's answer, if the message is still its own; the parameters are those of `WebhookSender._write_answer`.
_STILL_TAKEN = and_(
    deliveries.c.id == bindparam("its_id"),
    deliveries.c.status == "waiting",
    deliveries.c.attempts == bindparam("its_attempts"),
)
_ANSWERED = update(deliveries).where(_STILL_TAKEN)


async def _disable(connection: AsyncConnection, webhook_id: str, row: JSON) -> None:
    """Send nothing more to an endpoint, whose last answer is `row`."""
    is_waiting = (deliveries.c.webhook_id == webhook_id) & (deliveries.c.status == "waiting")
    dead = {
        "status": "dead",
        "finished": row["finished"],
        "error": "its webhook answered 410 and is disabled",
    }
    # Its own row first, so that two such answers don't wait for each other.
    disabling = update(webhooks).where(webhooks.c.id == webhook_id).values(disabled=row["finished"])
    await connection.execute(disabling)
    await connection.execute(_ANSWERED, [row])
    await connection.execute(update(deliveries).where(is_waiting).values(**dead))
