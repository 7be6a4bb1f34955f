"""`tribunal evidence`: the archive of web research, as a person would want to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, Option

from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson
from tribunal.core.times import format_date
from tribunal.process.terminal import print_table, say_json

if TYPE_CHECKING:
    from tribunal.retrievers.web.archive import Archive, Trail
    from tribunal.schema import JSON

File = Annotated[
    Path | None,
    Option(
        "--archive", metavar="FILE", help="The archive file. Default: the one in the data folder."
    ),
]
Result = TypeVar("Result")


LATEST = "latest"


def evidence(
    post: Annotated[
        str | None,
        Argument(
            metavar="[POST]",
            help="The id of a post or of a run, or latest. Without it: a list of the runs.",
        ),
    ] = None,
    archive: File = None,
    as_json: AsJson = False,
) -> None:
    """Show what was searched, read, kept and decided on the way to a verdict."""
    if post is None:
        _list_runs(archive, as_json)
        return
    trail = asyncio.run(
        _read_archive(archive, lambda opened: opened.load_trail(None if post == LATEST else post))
    )
    if as_json:
        say_json(trail.model_dump(mode="json"), indent=2)
    else:
        print_template("evidence", **_trail_values(trail))


def _list_runs(archive: Path | None, as_json: bool) -> None:
    """List the archived runs, the latest last."""
    runs = asyncio.run(_read_archive(archive, lambda opened: opened.list_overviews()))
    names = ("post", "run", "began", "searches", "pages", "verdict")
    rows = [
        (
            each.run.post_id, each.run.id, format_date(each.run.started), each.searches, each.pages,
            _verdict_label(each.verdict or {}),
        )
        for each in runs
    ]  # fmt: skip
    if as_json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows, whole="run")


async def _read_archive(file: Path | None, read: Callable[[Archive], Awaitable[Result]]) -> Result:
    from tribunal.retrievers.web.archive import Archive

    archive = await Archive.open(file, existing=True)
    try:
        return await read(archive)
    finally:
        await archive.close()


def _trail_values(trail: Trail) -> JSON:
    """Return a trail as its template takes it: turn by turn, its entries laid beside each other."""
    from tribunal.core.calls import REHEARSED, was_rehearsed

    verdict = next((each.body for each in reversed(trail.entries_of("decision", "verdict"))), {})
    asked = [call for each in trail.entries_of("reply") for call in each.body.get("calls", [])]
    turns = {
        turn
        for each in trail.entries
        if isinstance(turn := each.body.get("turn"), int) and turn > 0
    }
    passages = _kept_passages(trail)
    return {
        "run": trail.run,
        "rehearsed": REHEARSED if was_rehearsed(asked) or verdict.get("rehearsed") else "",
        "turns": [_turn_values(trail, turn, passages) for turn in sorted(turns)],
        "verdict": verdict,
        "label": _verdict_label(verdict),
        "steps": [each for each in verdict.get("steps") or [] if isinstance(each, dict)],
        "passages": {str(each.get("id")): each for each in passages},
    }


def _turn_values(trail: Trail, turn: int, passages: list[JSON]) -> JSON:
    from tribunal.retrievers.web.search.engine import normal_url

    def decisions(kind: str) -> list[JSON]:
        return [
            each.body
            for each in trail.entries_of("decision", kind)
            if each.body.get("turn") == turn
        ]

    judged = decisions("relevance")
    # Not everything that is relevant is read: `chosen` is what is left within the limit on pages.
    relevant = {
        normal_url(url)
        for each in judged
        for url in _texts_in(each.get("relevant", each.get("chosen")))
    }
    searches = []
    for search in (each for each in trail.entries_of("search") if each.body.get("turn") == turn):
        hits = search.body.get("hits", [])
        marks = [
            "relevant" if normal_url(str(hit.get("url"))) in relevant else "not relevant"
            for hit in hits
        ]
        searches.append(
            {**search.body, "query": search.key, "hits": list(zip(marks, hits, strict=True))}
        )
    fetches = {
        each.key: each.body for each in trail.entries_of("fetch") if each.body.get("turn") == turn
    }
    notes = {str(each.get("url")): each for each in decisions("page")}
    pages = []
    # The order in which they were weighed is the order in which the judgement came about.
    for url in dict.fromkeys([*notes, *fetches]):
        fetched = fetches.get(url, {})
        note = notes.get(url, {})
        page = trail.pages.get(str(fetched.get("page")))
        pages.append(
            {
                "url": url,
                "page": page,
                "failure": fetched.get("failure") or note.get("error"),
                "passages": [each for each in passages if page and each.get("page_id") == page.id],
                "judgements": [each for each in decisions("judgement") if each.get("url") == url],
            }
        )
    plans = [
        {
            "thought": each.get("thought"),
            "named": {kind: _texts_in(each.get(kind)) for kind in ("entities", "claims")},
        }
        for each in decisions("plan")
    ]
    return {
        "number": turn,
        "plans": plans,
        "searches": searches,
        "judged": bool(judged),
        "pages": pages,
        "sufficiency": decisions("sufficiency"),
    }


def _verdict_label(verdict: JSON) -> str:
    if not verdict:
        return "none"
    label = {True: "HATE", False: "NON-HATE"}.get(
        verdict.get("hateful", ""), str(verdict.get("label", "?"))
    )
    if verdict.get("rehearsed"):
        label += " by the rehearsal's rules"
    confidence = verdict.get("confidence")
    return f"{label} ({confidence:.2f})" if isinstance(confidence, float) else label


def _kept_passages(trail: Trail) -> list[JSON]:
    """Return the passages that were kept: a decision each, or held by the decisions on their pages."""
    in_pages = (each.body.get("evidence") for each in trail.entries_of("decision", "page"))
    nested = [
        each
        for held in in_pages
        if isinstance(held, list)
        for each in held
        if isinstance(each, dict)
    ]
    return [*(each.body for each in trail.entries_of("decision", "evidence")), *nested]


def _texts_in(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []
