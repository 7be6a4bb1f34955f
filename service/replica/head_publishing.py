"""Publish the head of the audit log where whoever writes to the database can't change it.

A file gets a line each, a webhook a message, and a time-stamp server (RFC 3161) a request, whose answer goes into the
file. Of several replicas one publishes a head; a file is each machine's own.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import aiohttp
from sqlalchemy import select, update

from tribunal.cases.outbox import message_body
from tribunal.errors import BadInput
from tribunal.files import open_to_append
from tribunal.plugins import require_extra
from tribunal.schema import Frozen
from tribunal.service.replica.webhooks import check_url, open_session, post_message
from tribunal.store.audit import Head, read_written_head
from tribunal.store.audit_heads import PublishedHead, publish_form
from tribunal.store.engine import Store
from tribunal.store.tables import published_heads
from tribunal.store.time_stamps import MOST_ANSWER, make_request, read_answer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LOG = logging.getLogger(__name__)
_EVENT = "audit.head"
_SHORTEST_SECRET = 24  # bytes, by the specification of Standard Webhooks
_RETRY_SECONDS = 60.0  # before a publication that failed is tried again


class HeadTarget(Frozen):
    """A place where heads are published: a file by its path, a webhook or a time-stamp server by its address."""

    kind: Literal["file", "webhook", "rfc3161"]
    place: str

    def name(self) -> str:
        """Return what a log may say of the place: of an address its host alone."""
        return f"file:{self.place}" if self.kind == "file" else f"{self.kind} at {urlsplit(self.place).hostname}"

    def key(self) -> str:
        """Return the name of its row. A file is this machine's."""
        machine = socket.gethostname() if self.kind == "file" else ""
        return hashlib.sha256(f"{self.kind} {machine} {self.place}".encode()).hexdigest()


def parse_targets(given: Sequence[str], *, http: bool = False) -> tuple[HeadTarget, ...]:
    """Return the places that are named as `file:PATH`, `https://…` or `rfc3161:URL`; with `http` also `http://…`.

    Raises:
        BadInput: one is none of these, can't be written, or keeps no time-stamps.
    """
    targets = tuple(_parse_target(each.strip(), http) for each in given)
    if any(each.kind == "rfc3161" for each in targets):
        require_extra("publish_head", "audit")
        if not any(each.kind == "file" for each in targets):
            raise BadInput("publish_head: rfc3161: its time-stamps have to be kept; name a file:PATH, too")
    return targets


def _parse_target(given: str, http: bool) -> HeadTarget:
    kind, _, place = given.partition(":")
    if kind == "file" and place:
        path = Path(place).absolute()
        try:
            open_to_append(path).close()
        except (OSError, ValueError) as error:
            raise BadInput(f"publish_head: {given[:200]}: can't be written: {error}") from None
        return HeadTarget(kind="file", place=str(path))
    if kind == "rfc3161":
        check_url(place, http=True)  # what it answers is signed
        return HeadTarget(kind="rfc3161", place=place)
    if kind in ("https", "http"):
        check_url(given, http=http)
        return HeadTarget(kind="webhook", place=given)
    raise BadInput(f"publish_head: {given[:100]!r}: is no place; write file:PATH, https://… or rfc3161:URL")


def check_secret(secret: str | None) -> None:
    """Check the secret that heads are signed with for webhooks; raise BadInput if it is none."""
    if secret is None:
        return
    try:
        length = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
    except ValueError:
        length = 0
    if length < _SHORTEST_SECRET or not secret.startswith("whsec_"):
        raise BadInput(
            f"publish_secret: is no secret of a webhook; it is whsec_ and base64 of {_SHORTEST_SECRET} bytes or more"
        )


class HeadPublisher:
    """Publishes the head of a database's audit log."""

    def __init__(
        self,
        store: Store,
        targets: Sequence[HeadTarget],
        *,
        key: Ed25519PrivateKey | None = None,
        secret: str | None = None,
        seconds: float = 3600.0,
        timeout: float = 20.0,
    ) -> None:
        """Keep what is published where.

        Args:
            store: the database.
            targets: where heads are published.
            key: what each head is signed with.
            secret: what messages to webhooks are signed with.
            seconds: between two publications at one place.
            timeout: seconds for one attempt.
        """
        self._store, self._targets, self._key, self._secret = store, targets, key, secret
        self._seconds, self._timeout = seconds, timeout

    async def publish_due(self, *, stopping: bool = False) -> None:
        """Publish the head wherever it is due and hasn't been; when `stopping`, also before that.

        What fails is logged, and tried again in a minute.
        """
        head = await read_written_head(self._store)
        if head is None or head.seq == 0:
            return
        await asyncio.gather(*(self._publish_if_due(head, each, stopping) for each in self._targets))

    async def _publish_if_due(self, head: Head, target: HeadTarget, stopping: bool) -> None:
        if not await self._claim(target, head, stopping):
            return
        why = await self.publish(head, target)
        pause = self._seconds if why is None else min(self._seconds, _RETRY_SECONDS)
        if why is not None:
            _LOG.warning("audit log: head %d is not published (%s): %s", head.seq, target.name(), why)
        await self._write_result(target, head, time.time() + pause, published=why is None)

    async def publish(self, head: Head, target: HeadTarget) -> str | None:
        """Publish a head at one place now; return why that failed, or None."""
        published = publish_form(head, self._key)
        try:
            if target.kind == "file":
                await asyncio.to_thread(append_line, Path(target.place), published.line())
                return None
            async with open_session() as session:
                if target.kind == "webhook":
                    return await self._send(session, target.place, published)
                await self._stamp(session, target.place, published)
        except TimeoutError:
            return f"no answer within {self._timeout:g} seconds"
        except BadInput as error:
            return str(error)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the text of a client's may hold the address
            return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__
        return None

    async def _send(self, session: aiohttp.ClientSession, url: str, head: PublishedHead) -> str | None:
        body = message_body(_EVENT, head.model_dump(exclude_none=True))
        message_id = f"head-{head.seq}-{head.hash[:16]}"  # the same in every attempt
        return (await post_message(session, self._timeout, url, self._secret, message_id, body)).error

    async def _stamp(self, session: aiohttp.ClientSession, url: str, head: PublishedHead) -> None:
        """Have a head time-stamped, and keep the answer in the file."""
        request, headers = make_request(head.hash), {"Content-Type": "application/timestamp-query"}
        async with (
            asyncio.timeout(self._timeout),
            session.post(url, data=request.as_bytes(), headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise BadInput(f"answered {answer.status}")
            body = bytearray()
            async for part in answer.content.iter_chunked(8192):
                body += part
                if len(body) > MOST_ANSWER:
                    raise BadInput(f"answered over {MOST_ANSWER:,} bytes")
        stamped = head.model_copy(update={"token": read_answer(request, head.hash, bytes(body))})
        file = next(each.place for each in self._targets if each.kind == "file")
        await asyncio.to_thread(append_line, Path(file), stamped.line())

    async def _claim(self, target: HeadTarget, head: Head, stopping: bool) -> bool:
        """Return whether this replica publishes the head here now; no other does."""
        key, now = target.key(), time.time()
        is_due = (published_heads.c.seq < head.seq) & (published_heads.c.due <= now)
        if stopping:
            is_due |= published_heads.c.claimed < head.seq
        mine = (published_heads.c.target == key) & is_due
        row = await self._store.fetch_row(select(published_heads, is_due.label("is_due")).where(
            published_heads.c.target == key
        ))  # fmt: skip
        if row is not None and not row["is_due"]:
            return False
        first = self._store.insert(published_heads).values(target=key, seq=0, claimed=0, due=0.0)
        # A replica that ends meanwhile leaves the head to the others after this time.
        claiming = update(published_heads).where(mine).values(claimed=head.seq, due=now + 2 * self._timeout)
        async with self._store.transaction() as connection:
            await connection.execute(first.on_conflict_do_nothing())
            claimed = await connection.execute(claiming.returning(published_heads.c.target))
            return claimed.first() is not None

    async def _write_result(self, target: HeadTarget, head: Head, due: float, *, published: bool) -> None:
        mine = (published_heads.c.target == target.key()) & (published_heads.c.claimed == head.seq)
        values = {"due": due, **({"seq": head.seq} if published else {"claimed": published_heads.c.seq})}
        async with self._store.transaction() as connection:
            await connection.execute(update(published_heads).where(mine).values(**values))


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, on the disk when this returns; after one that was cut off it begins on a line of its own.

    Raises:
        OSError: it can't be written whole.
    """
    with open_to_append(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
        text = ("" if not size or file.read(1) == b"\n" else "\n") + line + "\n"
        content = text.encode()
        if file.write(content) != len(content):
            raise OSError(None, "the disk is full")
        os.fsync(file.fileno())
