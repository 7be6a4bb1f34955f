"""The texts that cases were tried by, in full: each stored once, under the hash that records name it by.

A policy is the file's own text. A set of prompts is a JSON object of every prompt by its name. A protocol is a JSON
object that says how a case was tried (`tribunal.cases.protocol`).
"""

from __future__ import annotations

import hashlib
import time
from typing import Literal
from weakref import WeakKeyDictionary

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.contents import met
from tribunal.errors import BadInput
from tribunal.parsed import from_json
from tribunal.prompts.sets import PromptSet
from tribunal.schema import Frozen, Record
from tribunal.store.engine import Store
from tribunal.store.tables import contents

Kind = Literal["policy", "prompts", "protocol"]


class Content(Frozen):
    """A text, and the hash that records name it by."""

    kind: Kind
    sha: str
    text: str


async def text_of(store: Store, sha: str | None, kind: Kind | None = None) -> str | None:
    """The full text of a policy, a set of prompts or a protocol; None where it isn't kept.

    Args:
        store: the database.
        sha: its hash, from a record or a case's `policy_sha`, `prompts_sha` or `protocol_sha`; None: there is none.
        kind: what it is; None: whichever has this hash.

    Raises:
        BadInput: what is kept under this hash has another one, so somebody has altered it.
    """
    if not sha:
        return None
    wanted = select(contents).where(contents.c.sha == sha)
    if kind is not None:
        wanted = wanted.where(contents.c.kind == kind)
    async with store.reading() as connection:
        row = (await connection.execute(wanted)).mappings().first()
    if row is None:
        return None
    if hash_of(row["kind"], row["text"]) != sha:
        raise BadInput(f"{row['kind']}: {sha}: what is kept under this hash was altered since; {store.address}")
    return str(row["text"])


def hash_of(kind: str, text: str) -> str:
    """The hash that records name a text by."""
    if kind == "prompts":
        return PromptSet("", from_json(text)).sha
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def texts_of(record: Record) -> list[Content]:
    """The texts that a case was tried by, as far as this process has met them: it has, where it has made the record."""
    named: tuple[tuple[Kind, str | None], ...] = (
        ("policy", record.policy.get("sha")), ("prompts", record.prompts.get("sha")), ("protocol", record.protocol),
    )  # fmt: skip
    return [Content(kind=kind, sha=sha, text=text) for kind, sha in named if sha and (text := met(kind, sha))]


def missing(store: Store, texts: list[Content]) -> list[Content]:
    """Those of these texts that this process hasn't seen written down yet."""
    there = _stored.get(store, set())
    return [each for each in texts if (each.kind, each.sha) not in there]


async def store_texts(store: Store, connection: AsyncConnection, texts: list[Content]) -> None:
    """Write down those of these texts that aren't there, in a transaction. Say `stored` once it is done."""
    if texts:
        rows = [{**each.model_dump(), "created": time.time()} for each in texts]
        await connection.execute(store.insert(contents).on_conflict_do_nothing(), rows)


def stored(store: Store, texts: list[Content]) -> None:
    """Note that these texts are written down."""
    if texts:
        _stored.setdefault(store, set()).update((each.kind, each.sha) for each in texts)


_stored: WeakKeyDictionary[Store, set[tuple[str, str]]] = WeakKeyDictionary()
