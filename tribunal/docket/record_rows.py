"""The row of a case: verdicts kept, what the audit log is told of them, and the texts that they were come to by.

Row and log hold outcomes and hashes; a post's words stand in its post and its record alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from contextlib import suppress
from typing import Literal, get_args

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.text import normalize_text, parse_json
from tribunal.core.times import database_now, new_id
from tribunal.docket.decision_effects import hash_author
from tribunal.docket.erasure import post_without_words, without_words
from tribunal.docket.keeping import KeepOptions, unkept_warning
from tribunal.errors import BadInput
from tribunal.explanations.deciders import recorded_policy
from tribunal.process.loops import PerLoop
from tribunal.prompts.policy_parts import Severity
from tribunal.prompts.sets import PromptSet
from tribunal.schema import JSON, Record
from tribunal.settings.contents import remembered_text
from tribunal.store.audit import OPERATOR, LogEntry, append, sha
from tribunal.store.engine import Store
from tribunal.store.table_versions import DatabaseUnreachable, database_problems
from tribunal.store.tables import cases, contents

_stores: PerLoop[Store] = PerLoop(Store.open, Store.close)


async def store_here(database: str | None = None) -> Store:
    """Return the running event loop's database at this address.

    Raises:
        BadInput: as `Store.open`.
    """
    return await _stores.get(database)


async def check_database(options: KeepOptions) -> None:
    """Check before the first call that verdicts can be kept. A database that is away now may be there later.

    Raises:
        BadInput: its address is wrong, or its tables are of another version.
    """
    with suppress(DatabaseUnreachable):
        await store_here(options.database)


async def keep_record(
    options: KeepOptions, record: Record, post: JSON, settings: JSON, money: float | None = None,
    author: str | None = None,
) -> Record:  # fmt: skip
    """Keep a verdict, or what became of one that waited. One that can't be kept is given back all the same.

    `post` is as a graph takes it, `settings` as a record keeps them, `money` what it cost. Of the author's id only a
    keyed hash is kept, and none without words; a case that waited has it already.

    Returns:
        the record, which names the case that it is kept as (`kept`); or why it isn't kept, among its warnings.
    """
    named = record.model_copy(update={"kept": record.kept or record.thread or new_id()})
    try:
        store = await store_here(options.database)
        with database_problems(store.address, "this verdict"):
            if record.thread is not None:
                await _mark_waiting(store, options, named, money)
            else:
                given = {name: value for name, value in post.items() if value}
                author_sha = await hash_author(store, author if options.text else None)
                await _write(store, options, named, given, settings, money, author_sha)
    except BadInput as error:
        why = unkept_warning(str(error), review=False)
        return record.model_copy(update={"warnings": (*record.warnings, why), "kept": None})
    return named


async def _write(
    store: Store, options: KeepOptions, record: Record, post: JSON, settings: JSON, money: float | None,
    author_sha: str | None,
) -> None:  # fmt: skip
    """Write a verdict down, with the texts that it was come to by, or in the place of what the case was before."""
    now = database_now()
    dumped = record.dump() if options.text else without_words(record.dump())
    changing: JSON = {
        **record_columns(record), "practice": practice_of(record), "finished": now, "record": dumped, "money": money,
        "erased": None if options.text else now,
    }  # fmt: skip
    row: JSON = {
        "id": record.kept, "created": now, "status": "done", "attempt": 1, "attempts_before": 0,
        "graph": record.graph, "settings": settings, "keep": True, "via": options.via, "post_sha": sha(post),
        "author_sha": author_sha, "post": post if options.text else post_without_words(post), **changing,
    }  # fmt: skip
    # Whoever names a case of another way in, as a client of a server may, changes nothing.
    mine = cases.c.via == options.via
    written = store.insert(cases).values(**row)
    async with store.transaction() as connection:
        await store_texts(store, connection, texts_of(record))
        writing = written.on_conflict_do_update(index_elements=["id"], set_=changing, where=mine)
        if (await connection.execute(writing.returning(cases.c.id))).first() is None:
            raise BadInput(f"case {record.kept}: is there already, and came in another way")
        entry = decision_entry(str(record.kept), row["post_sha"], record, dumped, via=options.via)
        await append(connection, OPERATOR, entry)


async def _mark_waiting(
    store: Store, options: KeepOptions, record: Record, money: float | None
) -> None:
    """Note of a case that waits for a person how it came in, and whether its words stay. Its record is written."""
    values = {"via": options.via, "words": options.text, "money": money}
    waits = (
        (cases.c.id == record.thread) & cases.c.question.is_not(None) & (cases.c.via != "service")
    )
    async with store.transaction() as connection:
        await connection.execute(update(cases).where(waits).values(**values))


# What row and audit log say of a record


def record_columns(record: Record, *, keep: bool = True) -> JSON:
    """Return the columns of `tribunal.store.tables.cases` that follow from a record, the record itself aside.

    With `keep` the post may be found by what it is called, and by its image.
    """
    review = record.review
    turned = [each.reviewer for each in record.appeals if each.result != "upheld"]
    decided_by = review.reviewer if review and review.action else None
    same = ("outcome", "category", "hateful", "uncertain", "confidence", "language")
    return {
        **{name: getattr(record, name) for name in same},
        **_hashes(record),
        "policy_name": record.policy.get("name"),
        "reason": review.reason if review else None,
        "reviewer": turned[-1] if turned else decided_by,
        "post_id": record.post_id if keep else None,
        "image_sha": record.image_sha256 if keep else None,
        **policy_columns(record),
    }


def practice_of(record: Record) -> str | None:
    """Return why a case with this record counts nowhere, as in `PRACTICE`; None: it counts."""
    return "rehearsed" if record.rehearsed else None


def policy_columns(record: Record) -> JSON:
    """Return what the models came to, while a person has to decide, and the clauses that the outcome rests on."""
    court: JSON = record.review.court if record.review and record.outcome == "pending" else {}
    cited = record.clauses or court.get("clauses") or ()
    severe: set[str | None] = set()
    with suppress(BadInput):  # a policy that was altered since has no severity that counts
        policy = recorded_policy(record, None) if cited else None
        severe = {each.severity for each in policy.clauses if each.id in cited} if policy else set()
    return {
        "model_category": court.get("category"),
        "cited": f" {' '.join(cited)} " if cited else None,
        "severity": next((each for each in reversed(get_args(Severity)) if each in severe), None),
    }


def same_text_sha(record: Record, post: JSON | None) -> str | None:
    """Return what is equal of cases with the same words (but for case and space), image and policy, whoever tries them.

    None where there is neither word nor image, or the image was not read.
    """
    words = normalize_text(str((post or {}).get("text") or ""))
    image = record.image_sha256
    if not (words or image) or (not image and (post or {}).get("image")):
        return None
    return sha([words, image, record.policy.get("sha")])


def decision_entry(
    case_id: str, post_sha: str, record: Record, dumped: JSON, **more: object
) -> LogEntry:
    """Return the entry of a case that came to its record; `dumped` is the record as it is stored."""
    details: JSON = {
        **{name: getattr(record, name) for name in ("outcome", "category", "hateful", "graph")},
        **_hashes(record),
        "models": sorted({call.model for call in record.calls}),
        "post_sha": post_sha,
        "record_sha": sha(dumped),
        **more,
    }
    if record.review is not None and record.review.action is not None:
        details |= {"reviewer": record.review.reviewer, "action": record.review.action}
    kind = "case.pending" if record.outcome == "pending" else "case.decided"
    return LogEntry.model_validate({"kind": kind, "subject": case_id, "details": details})


def intake_entry(case_id: str, graph: str, post: JSON, settings: JSON, *, keep: bool) -> LogEntry:
    """Return the entry of a request that made a case. A row of a batch is told of with its batch, and when it ends."""
    details = {"graph": graph, "post_sha": sha(post), "settings_sha": sha(settings), "keep": keep}
    return LogEntry(kind="case.taken_in", subject=case_id, details=details)


def answer_entry(case_id: str, reviewer: str, answer: JSON, noted: JSON | None = None) -> LogEntry:
    """Return the entry of what a person said of a case, with what else is `noted` of it.

    Their own words are told by their hash: they may quote the post.
    """
    kind = answer.get("type")
    args = answer.get("args")
    chosen: JSON = (
        (args or {}).get("args") or {} if kind == "edit" else {"note": answer.get("note")}
    )
    category = chosen.get("category") or chosen.get("label")
    action = {"edit": "change", "response": "ask" if args else "retry"}.get(str(kind), "accept")
    details: JSON = {
        "reviewer": reviewer,
        "action": action,
        "category": None if category is None else str(category),
    }
    words = {"question": args if kind == "response" else None, "note": chosen.get("note")}
    details |= {f"{name}_sha": sha(said) for name, said in words.items() if said}
    return LogEntry(kind="case.answered", subject=case_id, details={**details, **(noted or {})})


def cancel_entry(case_id: str, record: JSON) -> LogEntry:
    """Return the entry of a case that ended without an outcome. Why lies with the case: it may quote the post."""
    return LogEntry(kind="case.cancelled", subject=case_id, details={"record_sha": sha(record)})


def _hashes(record: Record) -> JSON:
    return {
        "policy_sha": record.policy.get("sha"),
        "prompts_sha": record.prompts.get("sha"),
        "protocol_sha": record.protocol,
    }


# The texts that cases were tried by


TextKind = Literal["policy", "prompts", "protocol"]
TextName = tuple[TextKind, str]  # its kind, and its hash as records name it


async def text_of(store: Store, sha: str | None, kind: TextKind | None = None) -> str | None:
    """Return the text of a policy, a set of prompts or a protocol by its hash; None where it isn't kept.

    Raises:
        BadInput: what is kept under this hash has another one, so somebody has altered it.
    """
    if not sha:
        return None
    wanted = select(contents).where(contents.c.sha == sha)
    if kind is not None:
        wanted = wanted.where(contents.c.kind == kind)
    row = await store.fetch_row(wanted)
    if row is None:
        return None
    text = str(row["text"])
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if row["kind"] == "prompts":
        found = PromptSet("", parse_json(text)).sha
    if found != sha:
        raise BadInput(
            f"{row['kind']}: {sha}: what is kept under this hash was altered since; {store.address}"
        )
    return text


def texts_of(record: Record) -> set[TextName]:
    """Return the names of the texts that a case was tried by."""
    named: dict[TextKind, str | None] = {
        "policy": record.policy.get("sha"), "prompts": record.prompts.get("sha"), "protocol": record.protocol
    }  # fmt: skip
    return {(kind, sha) for kind, sha in named.items() if sha}


async def store_texts(
    store: Store, connection: AsyncConnection, names: Set[TextName]
) -> set[TextName]:
    """Store the texts that are not stored yet, in the transaction that ends a case.

    Returns:
        those that are there now: this process has met the others' words nowhere. It has if it has made the record.
    """
    texts = {(kind, sha): text for kind, sha in names if (text := remembered_text(kind, sha))}
    wanted = select(contents.c.kind, contents.c.sha).where(
        contents.c.sha.in_([sha for _, sha in texts])
    )
    there: set[TextName] = (
        {(row.kind, row.sha) for row in await connection.execute(wanted)} if texts else set()
    )
    rows = [
        {"kind": kind, "sha": sha, "text": text, "created": database_now()}
        for (kind, sha), text in texts.items()
        if (kind, sha) not in there
    ]
    if rows:
        await connection.execute(store.insert(contents).on_conflict_do_nothing(), rows)
    return there | texts.keys()
