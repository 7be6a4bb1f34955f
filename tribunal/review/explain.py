"""Explaining a case: `tribunal.explain`, and finding the case in a store, in the docket, or as a record in JSON."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from pydantic import ValidationError
from typing_extensions import Unpack

from tribunal import with_arguments_of
from tribunal.core.text import parse_json
from tribunal.core.times import format_date, format_time_left
from tribunal.docket.graph_run import mask_traces
from tribunal.docket.run_config import caller_config, merge_metadata
from tribunal.docket.waiting_cases import (
    SOMEBODY,
    claim_seconds_left,
    names_of_person,
    undo_seconds_left,
)
from tribunal.errors import BadInput
from tribunal.explanations.author_letter import load_image, write_letter
from tribunal.explanations.case_view import AuthorLetter, CaseStatus, CaseView
from tribunal.explanations.deciders import read_reason
from tribunal.explanations.notices import read_mapping
from tribunal.explanations.view_maker import CaseAtHand, view_case
from tribunal.process.model_objects import run_to_end
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Record
from tribunal.settings.context import context_from
from tribunal.settings.validation import describe_validation_error

if TYPE_CHECKING:
    from tribunal.explanations.deciders import PriceOfCall
    from tribunal.store.engine import Store
    from tribunal.typed_names import CallKeywords


async def aexplain(
    record: Record,
    *,
    text: str | None = None,
    image: str | None = None,
    policy: str | None = None,
    told_to: Literal["auditor", "poster"] = "auditor",
    language: str | None = None,
    mapping: str | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[CallKeywords],
) -> CaseView | AuthorLetter:
    """Explain a case.

    Args:
        record: of any graph and any outcome.
        text: the words of the post, which a record doesn't hold; without them nothing is marked.
        image: its image: a path or a data URI.
        policy: the policy's name or file as it was, where this process hasn't met it.
        told_to: `auditor`: all of it, and no model is asked. `poster`: a notice to the person who posted, with nothing
            about anybody else; a model writes what the policy lacks in their language, and it is checked.
        language: of the poster's explanation, as a tag; by default the post's.
        mapping: for `poster`: the file of the measure by category, and of the redress
            (`tribunal dsa statements --example-mapping`).
        config: callbacks, tags and metadata of the one call, as LangChain has them.
        settings: of the one call: the fields of `Context`, such as `model`.

    Returns:
        what is known, as data; `draw_page` and `draw_markdown` of `tribunal.explanations.case_drawing` draw it. A
        notebook shows it by itself.

    Raises:
        BadInput: the policy is another one than the record names, a setting or the mapping is wrong, or the letter
            would have no reason to state.
    """
    post = {"text": text, "image": image} if text is not None or image is not None else None
    at_hand = CaseAtHand(record, post, (await policy_in_force(policy)).source if policy else None)
    context = context_from({**settings})
    run = caller_config(config)
    if told_to == "auditor":
        return await view_with_image(at_hand)
    mask_traces()

    measures = await asyncio.to_thread(read_mapping, Path(mapping)) if mapping else None

    async def explain_to_poster(_: Record) -> AuthorLetter:
        return await write_letter(at_hand, language=language, context=context, mapping=measures)

    about = {"graph": record.graph, "post_id": record.post_id, "policy": record.policy.get("sha")}
    return await RunnableLambda(explain_to_poster).ainvoke(record, merge_metadata(run, about))


@with_arguments_of(aexplain)
def explain(record: Record, **given: Any) -> CaseView | AuthorLetter:
    """Explain a case and wait for it; arguments, result and errors are those of `aexplain`.

    Raises:
        RuntimeError: an event loop runs already, as in a notebook; await `aexplain` there.
    """
    return run_to_end(aexplain, record, **given)


async def view_with_image(
    at_hand: CaseAtHand, price: PriceOfCall | None = None, *, files: bool = True
) -> CaseView:
    """Return the picture of a case that was found, with its image in it where that is on this machine.

    Without `files`, no file of this machine that the post names is read, but one of the data folder alone.

    Raises:
        BadInput: as `view_case`.
    """
    source, size, absent = await load_image(at_hand.record, at_hand.post, files=files)
    known = {name: value for name, value in at_hand._asdict().items() if name != "settings"}
    known |= {"image": source, "image_size": size, "image_absent": absent}
    # The shipped policies may have to be read.
    return await asyncio.to_thread(view_case, **known, price=price)


def is_case_id(name: str) -> bool:
    """Return whether a name is that of a case, and not of a file."""
    return name.startswith("case-") and not Path(name).is_file()


async def find_in_store(store: Store, case_id: str) -> CaseAtHand | None:
    """Return a case of the service's database; None where there is none of this id.

    Raises:
        BadInput: it isn't at its end, has no outcome, or its record isn't kept.
    """
    from sqlalchemy import select

    from tribunal.store.tables import cases

    row = await store.fetch_row(select(cases).where(cases.c.id == case_id))
    return None if row is None else await case_from_row(store, row)


async def add_kept_words(store: Store, at_hand: CaseAtHand) -> CaseAtHand:
    """Return a case that came as a record, with the post and the policy's text of the stored case that it names."""
    from sqlalchemy import select

    from tribunal.docket.record_rows import text_of
    from tribunal.store.tables import cases

    record = at_hand.record
    row = await store.fetch_row(select(cases).where(cases.c.id == (at_hand.case or record.thread)))
    if row is None or row["post_id"] not in (None, record.post_id):
        return at_hand
    erased = None if row["erased"] is None else format_date(row["erased"])
    return at_hand._replace(
        post=at_hand.post or (row["post"] if erased is None else None),
        policy_text=at_hand.policy_text or await text_of(store, record.policy.get("sha"), "policy"),
        case=row["id"], erased=erased, settings=row["settings"],
    )  # fmt: skip


async def case_from_row(store: Store, row: JSON) -> CaseAtHand:
    """Return a case from its row.

    Raises:
        BadInput: as `find_in_store`.
    """
    from tribunal.docket.record_rows import text_of

    fields = row["record"]
    case_id = row["id"]
    if row["status"] == "cancelled":
        raise BadInput(
            f"case: {case_id}: ended without an outcome: {(fields or {}).get('cancelled')}"
        )
    if fields is None:
        why = (
            "its record isn't kept"
            if row["outcome"]
            else "has no outcome yet; look again once it has run"
        )
        raise BadInput(f"case: {case_id}: {why}")
    record = Record.model_validate(fields)
    return CaseAtHand(
        record,
        row["post"] if row["erased"] is None else None,
        await text_of(store, record.policy.get("sha"), "policy"),
        # The time of a case that needs review is when it was sent there: the models have decided then.
        None if row["finished"] is None else format_date(row["finished"]),
        case_id,
        row["settings"],
        None if row["erased"] is None else format_date(row["erased"]),
        case_status(row),
    )


def case_status(row: JSON, *, reviewer: str = "", appeals: tuple[str, ...] = ()) -> CaseStatus:
    """Return where a stored case stands, by its row. A claim of the `reviewer` who reads it is said to be theirs."""
    needs_review = row["status"] == "done" and row["question"] is not None
    line = row["outcome"] or row["status"]
    decided_by = ""
    if needs_review:
        line = f"Needs review: {read_reason(row['reason']) or 'a person has to decide'}"
    elif row["status"] in ("queued", "running") and row["answer"] is not None:
        decided_by = row["answer"]["answer"].get("reviewer") or SOMEBODY
        line = f"Decided by {decided_by}"
        line += ", and can still be undone" if undo_seconds_left(row) > 0 else ", and goes on now"
    left = claim_seconds_left(row["claimed_until"]) if row["claimed_by"] else 0.0
    who = "You are" if row["claimed_by"] in names_of_person(reviewer) else f"{row['claimed_by']} is"
    return CaseStatus(
        open=needs_review,
        line=line[:1].upper() + line[1:],
        decided_by=decided_by,
        claim=f"{who} reviewing this ({format_time_left(left)})." if left > 0 else "",
        escalated=f"Escalated {format_date(row['escalated'])}" if row["escalated"] else "",
        appeals=appeals,
    )


def case_from_json(text: str, name: str) -> CaseAtHand:
    """Return a record as `tribunal judge --json` prints it, or a case as `GET /v1/cases/ID` gives it.

    Raises:
        BadInput: the text of the file of this name is neither.
    """
    way_out = "give what tribunal judge --json prints"
    try:
        value = parse_json(text)
    except ValueError as error:
        raise BadInput(f"case: {name}: is not JSON: {error}; {way_out}") from error
    if not isinstance(value, dict):
        raise BadInput(f"case: {name}: is no record; {way_out}")
    whole = value if isinstance(value.get("record"), dict) else {}
    try:
        record = Record.model_validate(whole.get("record") or value)
    except ValidationError as error:
        raise BadInput(
            f"case: {name}: is no record: {describe_validation_error(error)}; {way_out}"
        ) from error
    post = whole.get("post")
    finished = whole.get("finished")
    case = whole.get("id")
    return CaseAtHand(
        record,
        post if isinstance(post, dict) else None,
        decided_at=format_date(finished) if isinstance(finished, int | float) else None,
        case=case if isinstance(case, str) else record.kept,
    )
