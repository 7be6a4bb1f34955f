"""Finding a case that is to be explained: in the service's database, in the docket, or as a record in JSON."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.explained.making import explanation
from tribunal.explained.shape import Explanation
from tribunal.models.image import kept_file, picture
from tribunal.parsed import from_json
from tribunal.schema import JSON, Record

if TYPE_CHECKING:
    from tribunal.explained.costs import Price
    from tribunal.store.engine import Store

_EDGE = 1024  # pixels of the image on a page
_MARKED = "case-"


class AtHand(NamedTuple):
    """A case, and what is at hand of it. `post` is what was asked: text, image, language, earlier."""

    record: Record
    post: JSON | None = None
    policy_text: str | None = None
    decided_at: str | None = None
    case: str | None = None
    settings: JSON | None = None
    erased: str | None = None


def is_case(named: str) -> bool:
    """Whether a name is that of a case, and not of a file."""
    return named.startswith(_MARKED) and not Path(named).is_file()


async def in_store(store: Store, case_id: str) -> AtHand | None:
    """A case of the service's database; None where there is none of this id.

    Raises:
        BadInput: it isn't at its end, has no outcome, or its record isn't kept.
    """
    from sqlalchemy import select

    from tribunal.store.tables import cases

    async with store.reading() as connection:
        row = (await connection.execute(select(cases).where(cases.c.id == case_id))).mappings().first()
    return None if row is None else await of_row(store, dict(row))


async def of_row(store: Store, row: JSON) -> AtHand:
    """A case from its row.

    Raises:
        BadInput: as `in_store`.
    """
    from tribunal.kept.texts import text_of

    held, case_id = row["record"], row["id"]
    if row["status"] == "cancelled":
        raise BadInput(f"case: {case_id}: ended without an outcome: {(held or {}).get('cancelled')}")
    if held is None:
        kept = "its record isn't kept" if row["outcome"] else "has no outcome yet; look again once it has been tried"
        raise BadInput(f"case: {case_id}: {kept}")
    record = Record.model_validate(held)
    text = await text_of(store, record.policy.get("sha"), "policy") if record.policy else None
    erased = _moment(row.get("erased"))
    post = row["post"] if erased is None else None
    # The time of a case that waits is when it was put before a person: the court has decided then.
    return AtHand(record, post, text, _moment(row["finished"]), case_id, row["settings"], erased)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


async def in_docket(thread: str) -> AtHand:
    """A case of the docket, which waits or is decided.

    Raises:
        BadInput: there is none, or its trial isn't over.
    """
    from tribunal.cases.docket import docket_here
    from tribunal.cases.session import record
    from tribunal.context import context_from

    docket = await docket_here()
    entry, state = await docket.entry(thread), await docket.state(thread)
    made = record(state, entry.graph, context_from(entry.settings))
    post = state["post"]
    image = (post.get("image") or {}).get("ref")
    given = {"text": post.get("text"), "image": image, "earlier": post.get("earlier") or ()}
    text = (state.get("context") or {}).get("policy")
    return AtHand(made, given, text if made.policy else None, None, thread, entry.settings)


def in_json(text: str, named: str) -> AtHand:
    """A record as `tribunal judge --json` prints it, or a case as `GET /v1/cases/ID` gives it.

    Raises:
        BadInput: the text is neither.
    """
    try:
        held = from_json(text)
    except ValueError as error:
        raise BadInput(f"case: {named}: is not JSON: {error}; give what tribunal judge --json prints") from error
    if not isinstance(held, dict):
        raise BadInput(f"case: {named}: is no record; give what tribunal judge --json prints")
    whole = held if isinstance(held.get("record"), dict) else {}
    try:
        record = Record.model_validate(whole.get("record") or held)
    except ValidationError as error:
        raise BadInput(
            f"case: {named}: is no record: {describe(error)}; give what tribunal judge --json prints"
        ) from error
    post, finished = whole.get("post"), whole.get("finished")
    return AtHand(
        record,
        post if isinstance(post, dict) else None,
        decided_at=_moment(finished) if isinstance(finished, int | float) else None,
        case=whole.get("id") if isinstance(whole.get("id"), str) else record.kept,
    )


async def explained(
    at_hand: AtHand, price: Price | None = None, *, files: bool = True, policy_text: str | None = None
) -> Explanation:
    """A case that was found, for an auditor, with its image in it where that is on this machine.

    Args:
        at_hand: the case.
        price: what a call cost, by a price table.
        files: whether the image may be a file of this machine that the post names; else only one of the data folder.
        policy_text: the policy's text, in the place of the one that was found.

    Raises:
        BadInput: as `explanation`.
    """
    source, size, absent = await shown_image(at_hand.record, at_hand.post, files=files)
    # The shipped policies may have to be read.
    return await asyncio.to_thread(
        explanation,
        at_hand.record,
        post=at_hand.post,
        image=source,
        image_size=size,
        image_absent=absent,
        policy_text=policy_text or at_hand.policy_text,
        price=price,
        decided_at=at_hand.decided_at,
        case=at_hand.case,
        erased=at_hand.erased,
    )


async def shown_image(record: Record, post: JSON | None, *, files: bool) -> tuple[str | None, tuple[int, int], str]:
    """The image of a post as a data URI of its pixels alone, its size, and why there is none.

    An address of the web isn't fetched: that would tell the other side that somebody looks, and may bring another
    picture.
    """
    ref = (post or {}).get("image")
    ref = ref.get("ref") if isinstance(ref, dict) else ref
    kept = await asyncio.to_thread(kept_file, record.image_sha256) if record.image_sha256 and post else None
    if kept is not None:
        ref = str(kept)
    elif not ref:
        return None, (1000, 1000), "The image isn't at hand."
    elif not (ref.startswith("data:") or (files and not ref.startswith(("http://", "https://")))):
        return None, (1000, 1000), "The image isn't kept here."
    try:
        found = await picture(ref, _EDGE, sha256=record.image_sha256)
    except BadInput as error:
        return None, (1000, 1000), f"The image can't be shown: {error}."
    return found.data_uri, (found.image.width, found.image.height), ""
