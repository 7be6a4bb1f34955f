"""The endpoints: whatever the operator has added, and nothing that a request names."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from sqlalchemy import delete, select, update

from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.service.webhooks.coop import EVENTS as OF_COOP
from tribunal.service.webhooks.coop import CoopTarget
from tribunal.service.webhooks.payload import EVENTS
from tribunal.store.audit import OPERATOR, Entry, Who, append, sha
from tribunal.store.engine import Store
from tribunal.store.tables import webhooks

LONGEST = 2000  # characters of an address
_SECRET = "whsec_"  # noqa: S105 (the mark of one, by which scanners know it)


async def add(
    store: Store,
    url: str,
    events: Sequence[str] = EVENTS,
    *,
    with_record: bool = False,
    coop: CoopTarget | None = None,
    http: bool = False,
    by: Who = OPERATOR,
) -> tuple[str, str]:
    """Add an endpoint.

    Args:
        store: the database.
        url: where messages are sent.
        events: the types that are sent there.
        with_record: whether the whole record is sent, the post's words among it.
        coop: tell it in Coop's form, by these names of its own, and of decisions and appeals alone.
        http: whether an address without TLS is taken.
        by: who adds it, for the audit log.

    Returns:
        its id, and its secret whole, for the only time.

    Raises:
        BadInput: the address or an event is wrong.
    """
    _check(url, http)
    if (unknown := next((each for each in events if each not in EVENTS), None)) is not None or not events:
        raise BadInput(f"event: {unknown or 'none'}: is no type of message; they are {', '.join(EVENTS)}")
    if coop is not None:
        if with_record:
            raise BadInput("with_record: Coop's form holds no record; leave one of the two out")
        events = [each for each in events if each in OF_COOP]
        if not events:
            raise BadInput(f"event: Coop's form is for {' and '.join(OF_COOP)}; name one of them, or none")
    webhook_id = f"hook-{secrets.token_hex(6)}"
    secret = _SECRET + base64.b64encode(secrets.token_bytes(32)).decode()
    row = {"id": webhook_id, "url": url, "secret": secret, "events": list(dict.fromkeys(events))}
    form = {"with_record": with_record, "coop": coop and coop.dump()}
    async with store.transaction() as connection:
        await connection.execute(webhooks.insert().values(**row, **form, created=time.time()))
        details = {
            "host": urlsplit(url).hostname,
            "url_sha": sha(url),
            "events": row["events"],
            "with_record": with_record,
            "coop": form["coop"],
        }
        await append(connection, by, Entry(kind="webhook.added", subject=webhook_id, details=details))
    return webhook_id, secret


def _check(url: str, http: bool) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.scheme not in ("https", "http") or not url.isprintable() or " " in url or len(url) > LONGEST:
        raise BadInput(f"url: {url[:100]!r}: is no web address; write https://host/path")
    if parts.username is not None or parts.password is not None:
        raise BadInput("url: holds a user or a password; leave it out: each message is signed")
    if parts.fragment:
        raise BadInput(f"url: {url[:100]!r}: leave out what stands after #")
    if parts.scheme == "http" and not http:
        raise BadInput(f"url: {url[:100]!r}: has no TLS; write https://, or allow http")


async def listed(store: Store) -> list[JSON]:
    """Every endpoint but its secret, the oldest first."""
    async with store.reading() as connection:
        rows = (await connection.execute(select(webhooks).order_by(webhooks.c.created))).mappings()
        return [{name: value for name, value in row.items() if name != "secret"} for row in rows]


async def target(store: Store, webhook_id: str) -> tuple[str, str]:
    """The address and the secret of an endpoint.

    Raises:
        BadInput: there is none.
    """
    wanted = select(webhooks.c.url, webhooks.c.secret).where(webhooks.c.id == webhook_id)
    async with store.reading() as connection:
        row = (await connection.execute(wanted)).first()
    if row is None:
        raise _none(webhook_id)
    return row.url, row.secret


async def remove(store: Store, webhook_id: str, by: Who = OPERATOR) -> None:
    """Remove an endpoint, and every message to it that is left.

    Raises:
        BadInput: there is none.
    """
    async with store.transaction() as connection:
        done = await connection.execute(delete(webhooks).where(webhooks.c.id == webhook_id))
        if done.rowcount:
            await append(connection, by, Entry(kind="webhook.removed", subject=webhook_id))
    if not done.rowcount:
        raise _none(webhook_id)


async def enable(store: Store, webhook_id: str, by: Who = OPERATOR) -> None:
    """Send again to an endpoint that had answered 410.

    Raises:
        BadInput: there is none.
    """
    async with store.transaction() as connection:
        done = await connection.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(disabled=None))
        if done.rowcount:
            await append(connection, by, Entry(kind="webhook.enabled", subject=webhook_id))
    if not done.rowcount:
        raise _none(webhook_id)


def _none(webhook_id: str) -> BadInput:
    return BadInput(f"webhook: {webhook_id[:80]}: there is none; tribunal webhooks list shows them")
