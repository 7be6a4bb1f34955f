"""The answer cache: what is served from it, what isn't, and what happens when it fails."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import CUT, GOOD, PROSE, classify, png
from tribunal.models.cache import open_cache
from tribunal.models.registry import current_registry
from tribunal.prompts import policy


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "kept" / "calls.db")


def rows(cache: str) -> int:
    database = sqlite3.connect(cache)
    try:
        count = database.execute("SELECT count(*) FROM answers").fetchone()[0]
    finally:
        database.close()
    return int(count)


async def test_the_second_run_costs_nothing(cache: str) -> None:
    async with ScriptedServer(court_script()) as server:
        first = await decide(server, rounds=2, cache=cache)
        asked = len(server.requests)
        second = await decide(server, rounds=2, cache=cache)
    assert asked == len(server.requests) == 6
    assert [call.cached for call in first.calls] == [False] * 6
    assert [(call.cached, call.attempts) for call in second.calls] == [(True, 0)] * 6
    assert second.usage.calls == second.usage.prompt_tokens == 0
    assert second.transcript == first.transcript
    assert second.explanation == first.explanation


@pytest.mark.parametrize(
    "change",
    [
        {"repeat": 1},
        {"temperatures": {"classifier": 0.3}},
        {"model": "openai:other"},
        {"scheme": "binary"},
        {"policy": "own.toml"},
        {"max_output_tokens": 4096},
        {"image": "blue.png"},
        {"image": None},
        {"image_edge": 64},
        {"text": "another post"},
    ],
    ids=str,
)
async def test_what_the_answer_depends_on_is_asked_anew(
    change: dict[str, Any], cache: str, tmp_path: Path
) -> None:
    shipped = (Path(policy.__file__).parent / "policies" / "h-vli.toml").read_text("utf-8")
    (tmp_path / "own.toml").write_text(shipped.replace("demeans", "belittles"), "utf-8")
    png(tmp_path, "blue")
    settings: dict[str, Any] = {"text": "a post", "image": str(png(tmp_path)), "cache": cache}
    answer = {"category": "NotHate", "explanation": "because"}
    async with ScriptedServer(court_script(classifier=answer)) as server:
        for each in (settings, {**settings, **change}, settings, {**settings, **change}):
            record = await decide(server, graph="baseline", **each)
            assert record.outcome == "verdict"
    assert len(server.requests) == 2


async def test_the_cache_knows_the_call_as_it_was_meant(cache: str, tmp_path: Path) -> None:
    """A server that refuses formats, temperatures and images is asked nothing in the next process either."""

    def script(request: Request) -> Reply | Fault:
        if request.images:
            return Fault(400, "image_url is not supported")
        if request.temperature is not None:
            return Fault(400, "temperature is not supported")
        return Fault(400, "response_format") if request.format else court_script()(request)

    image = str(png(tmp_path))
    async with ScriptedServer(script) as server:
        first = await decide(server, rounds=2, cache=cache, image=image)
        asked = len(server.requests)
        opened = await current_registry()
        opened.reset_keys()  # as another process would begin
        second = await decide(server, rounds=2, cache=cache, image=image)
    # Six calls; temperature and image are refused once, and the two formats for each of the five roles.
    assert asked == len(server.requests) == 6 + 2 + 2 * 5
    assert all(call.cached for call in second.calls)
    assert second.warnings == first.warnings != ()
    for then, now in zip(first.calls, second.calls, strict=True):
        assert (now.format, now.temperature, now.prompt_sha) == (
            then.format,
            then.temperature,
            then.prompt_sha,
        )
    assert {call.format for call in second.calls} == {"prompt"}


async def test_only_answers_are_kept(cache: str) -> None:
    for answers in (Reply(PROSE), Reply(refusal="no"), Fault(500, "down"), Reply(CUT, "length")):
        await classify(answers, cache=cache)
        assert rows(cache) == 0
    await classify([PROSE, GOOD], cache=cache)
    assert rows(cache) == 1
    record, _ = await classify(PROSE, cache=cache)
    # another server, another endpoint: nothing of it is taken from there
    assert record.outcome == "failure"


async def test_a_kept_answer_that_no_longer_fits_is_asked_for_again(cache: str) -> None:
    async with ScriptedServer(court_script(classifier=GOOD)) as server:
        await decide(server, graph="baseline", cache=cache)
        database = sqlite3.connect(cache)
        with database:
            database.execute("UPDATE answers SET text = 'gone stale'")
        database.close()
        second = await decide(server, graph="baseline", cache=cache)
        third = await decide(server, graph="baseline", cache=cache)
    assert len(server.requests) == 2
    assert [second.calls[0].cached, third.calls[0].cached] == [False, True]


async def test_posts_at_once_share_a_new_cache(cache: str) -> None:
    async with ScriptedServer(court_script()) as server:
        records = await asyncio.gather(
            *(decide(server, f"post {n}", rounds=1, cache=cache) for n in range(8))
        )
    assert {record.outcome for record in records} == {"verdict"}
    assert {record.warnings for record in records} == {()}
    assert rows(cache) == 32


async def test_a_cache_that_can_t_be_written_costs_a_warning(cache: str) -> None:
    async with ScriptedServer(court_script(classifier=GOOD)) as server:
        await decide(server, "one post", graph="baseline", cache=cache)
        await (await open_cache(cache)).write("PRAGMA query_only = 1")
        record = await decide(server, "another post", graph="baseline", cache=cache)
    assert record.outcome == "verdict"
    assert record.warnings == (
        "an answer could not be kept: cache: attempt to write a readonly database",
    )


async def test_a_cache_that_is_lost_midway_costs_a_warning(cache: str) -> None:
    async with ScriptedServer(court_script(classifier=GOOD)) as server:
        await decide(server, "one post", graph="baseline", cache=cache)
        await (await open_cache(cache)).write("DROP TABLE answers")
        record = await decide(server, "another post", graph="baseline", cache=cache)
    assert record.outcome == "verdict"
    assert record.warnings == (
        "an answer could not be looked up: cache: no such table: answers",
        "an answer could not be kept: cache: no such table: answers",
    )


async def test_a_full_disk_costs_a_warning(cache: str) -> None:
    long = {"category": "Sexist", "explanation": f"because {secrets.token_urlsafe(120_000)}"}
    async with ScriptedServer(court_script(classifier=[GOOD, long])) as server:
        await decide(server, "one post", graph="baseline", cache=cache)
        database = await open_cache(cache)
        [[pages]] = await database.rows("PRAGMA page_count")
        await database.write(f"PRAGMA max_page_count = {pages}")
        record = await decide(server, "another post", graph="baseline", cache=cache)
    assert record.outcome == "verdict"
    assert record.warnings == ("an answer could not be kept: cache: database or disk is full",)
