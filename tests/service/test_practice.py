"""What is tried or rehearsed is marked where it is stored, and counts nowhere: every kind by every reader."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from sqlalchemy import select, update

from tests.service.conftest import serving
from tests.service.decided_here import contested, courtroom, decided, judged, ran
from tribunal.docket.decision_effects import count_earlier_decisions
from tribunal.eval.compare.moderation_log import stored_decisions
from tribunal.review.case_tables import (
    cases_decided_by_people,
    decided_cases_in_database,
    export_decided,
)
from tribunal.service.replica.figures import TimeSpan, count_figures
from tribunal.service.replica.near_copies import NearestCases
from tribunal.service.replica.transparency import count_transparency
from tribunal.store.engine import Store
from tribunal.store.tables import PRACTICE, cases

SPAN = TimeSpan(since=0.0, until=1e11)
POST = {"text": "post-words of the author", "author": "author-7", "language": "en"}


class Reader(NamedTuple):
    """A database, and what the tests of its readers need beside it."""

    store: Store
    database: str
    folder: Path
    client: httpx.AsyncClient


async def count_board(at: Reader) -> int:
    figures = await count_figures(at.store, SPAN)
    numbers = (
        sum(figures.outcomes.values()), sum(day.posts for day in figures.days), figures.automated.by_people,
        figures.to_decision.by_people.cases, figures.reversals.reviews.decided, figures.drift.posts,
        figures.desk.all.cases,
    )  # fmt: skip
    [number] = set(numbers)
    return number


async def count_report(at: Reader) -> int:
    report = await count_transparency(at.store, SPAN)
    groups = [
        sum(each.posts or 0 for each in by)
        for by in (report.by_category, report.by_language, report.by_clause)
    ]
    [number] = {report.posts, report.hateful, *groups}
    return number


async def count_statements(at: Reader) -> int:
    mapping = at.folder / "mapping.toml"
    mapping.write_text((await ran("dsa", "statements", "--example-mapping")).stdout)
    command = (
        "dsa",
        "statements",
        "--out",
        str(at.folder / "out"),
        "--mapping",
        str(mapping),
        "--json",
    )
    return int(json.loads((await ran(*command, "--database", at.database)).stdout)["statements"])


async def count_history(at: Reader) -> int:
    sha = await at.store.fetch_value(select(cases.c.author_sha).limit(1))
    return (await count_earlier_decisions(at.store, sha, besides="")).hate


async def count_exported(at: Reader) -> int:
    return (await export_decided(at.store, at.folder / "decided.jsonl", "jsonl")).rows


async def count_compared(at: Reader) -> int:
    return len([each async for each in stored_decisions(at.store)])


async def count_decided(at: Reader) -> int:
    return len([each async for each in cases_decided_by_people(at.store)])


async def count_precedents(at: Reader) -> int:
    return len([each async for each in decided_cases_in_database(at.store)])


async def count_nearest(at: Reader) -> int:
    return len(await NearestCases(at.store).find(POST["text"], besides=""))


READERS: tuple[Callable[[Reader], Awaitable[int]], ...] = (
    count_board, count_report, count_statements, count_history, count_exported, count_compared, count_decided,
    count_precedents, count_nearest,
)  # fmt: skip


async def test_practice_of_every_kind_counts_for_no_reader(sqlite: str, tmp_path: Path) -> None:
    async with courtroom(sqlite) as (client, _):
        store: Store = client.app.state.replica.store  # type: ignore[attr-defined]
        await decided(client, "Racist", "1.1", **POST)
        for number, kind in enumerate((None, *PRACTICE)):
            async with store.transaction() as connection:
                await connection.execute(update(cases).values(practice=kind))
            counts = {}
            for read in READERS:
                folder = tmp_path / f"{number}-{read.__name__}"
                folder.mkdir()
                counts[read.__name__] = await read(Reader(store, sqlite, folder, client))
            # Statements are made last of all for the case that counts, which has one then.
            assert counts == dict.fromkeys(counts, int(kind is None)), kind
            left_out = (await count_figures(store, SPAN)).left_out
            assert left_out == ({} if kind is None else {PRACTICE[kind]: 1})


async def test_what_is_tried_or_rehearsed_is_marked(database: str) -> None:
    async with serving(database, settings={"model": "rehearsal"}, graph="baseline") as client:
        store: Store = client.app.state.replica.store  # type: ignore[attr-defined]
        for text in ("Good morning!", "Good evening!"):
            assert (await client.post("/try", json={"text": text})).status_code == 200
        assert (
            await client.post("/v1/judge?wait=60", json={"text": "Good night!"})
        ).status_code == 200
        await ran("judge", "Good day!", "--model", "rehearsal", "--keep", "--database", database)
        rows = await store.fetch_rows(select(cases.c.via, cases.c.practice))
        marks = [
            ("command", "rehearsed"),
            ("service", "rehearsed"),
            ("service", "tried"),
            ("service", "tried"),
        ]
        assert sorted((row["via"], row["practice"]) for row in rows) == marks


async def test_a_real_model_s_case_counts_and_its_trial_on_the_page_does_not(database: str) -> None:
    async with courtroom(database, second_opinions_of_court=1.0) as (client, _):
        store: Store = client.app.state.replica.store  # type: ignore[attr-defined]
        assert (
            await client.post("/try", json={"text": "post-words", "graph": "tribunal"})
        ).status_code == 200
        await contested(client, None, text="post-words")
        await judged(client)
        rows: list[dict[str, Any]] = await store.fetch_rows(
            select(cases.c.practice, cases.c.outcome)
        )
        assert sorted((str(row["practice"]), row["outcome"]) for row in rows) == [
            ("None", "pending"), ("None", "verdict"), ("tried", "verdict")
        ]  # fmt: skip
        figures = await count_figures(store, SPAN)
        assert figures.outcomes == {"verdict": 1, "pending": 1}
        assert figures.waiting.second_opinions.waiting == 1, (
            "nobody is asked about a post that was tried"
        )
