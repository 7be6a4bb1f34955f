"""One store of cases: the terminal and the desk see the same queue, hold the same lease, and decide the same case."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.at_desk import signed_in
from tests.service.conftest import check_refusal, get_json, opened, serving
from tribunal.commands import app
from tribunal.store.audit import page, verify

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
JUDGE = ("judge", "post-words", "--model", "openai:scripted", "--review", "--json")


async def ran(*arguments: str, ends: int = 0, reviewer: str | None = None) -> str:
    """A command of a person at a terminal; gives what it printed, or the line that it ended with."""
    named = ["--reviewer", reviewer] if reviewer else []
    done = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, *named])
    assert done.exit_code == ends, (done.output, done.stderr, done.exception)
    return done.stderr if ends == 2 else done.stdout


async def listed(*options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await ran("review", "list", "--json", *options))
    return found


@asynccontextmanager
async def both(
    database: str, monkeypatch: pytest.MonkeyPatch, **options: object
) -> AsyncIterator[httpx.AsyncClient]:
    """A service, and a terminal beside it on the same database, before models that are unsure of every post."""
    monkeypatch.setenv("TRIBUNAL_DATABASE", database)
    async with (
        OpenAIServer(court_script(explicit=True, judge=UNSURE)),
        serving(database, settings={"model": "openai:scripted"}, **options) as client,
    ):
        yield client


async def test_a_case_of_the_terminal_is_claimed_and_decided_at_the_desk(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(database, monkeypatch) as client:
        case = json.loads(await ran(*JUDGE, ends=5))["thread"]
        desk = await signed_in(client.app)  # type: ignore[attr-defined]
        assert case in (await desk.get("/desk/queue")).response.text
        claimed = await client.post(f"/v1/cases/{case}/claim", json={"reviewer": "kim"})
        assert claimed.status_code == 200, claimed.text
        [entry] = await listed()
        assert (entry["thread"], entry["status"], entry["holder"]) == (
            case,
            "pending",
            "claimed by kim (operator)",
        )
        late = await ran("review", "decide", case, "--accept", ends=2, reviewer="lee")
        assert "kim (operator) is reviewing this" in late
        said = {"action": "change", "category": "Sexist", "reviewer": "kim", "note": "as I read it"}
        done = (await client.post(f"/v1/cases/{case}/decision?wait=60", json=said)).json()
        assert (done["outcome"], done["category"]) == ("verdict", "Sexist"), done
        assert (
            json.loads(await ran("review", "show", case, "--json"))["review"]["reviewer"]
            == "kim (operator)"
        )
        assert await listed() == []


async def test_a_case_of_the_service_is_claimed_and_decided_at_the_terminal(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(database, monkeypatch) as client:
        asked = {"text": "post-words", "graph": "tribunal", "settings": {"review": True}}
        got = await client.post("/v1/judge?wait=60", json=asked)
        case = got.headers["tribunal-case"]
        assert [each["thread"] for each in await listed()] == [case]
        assert "is yours for 15 min" in await ran("review", "claim", case, reviewer="kim")
        shown = await get_json(client, f"/v1/cases/{case}")
        assert shown["claim"]["by"] == "kim"
        late = await client.post(
            f"/v1/cases/{case}/decision", json={"action": "accept", "reviewer": "lee"}
        )
        check_refusal(late, 409, "kim is reviewing this")
        await ran("review", "claim", case, "--release", reviewer="kim")
        asks = ("review", "decide", case, "--ask", "is it a quotation?", "--json")
        assert json.loads(await ran(*asks, ends=5, reviewer="kim"))["outcome"] == "pending"
        accepts = ("review", "decide", case, "--accept", "--json")
        assert json.loads(await ran(*accepts, reviewer="kim"))["outcome"] == "verdict"
        shown = await get_json(client, f"/v1/cases/{case}")
        assert (shown["status"], shown["record"]["review"]["reviewer"]) == ("done", "kim")
        late = await client.post(
            f"/v1/cases/{case}/decision", json={"action": "accept", "reviewer": "lee"}
        )
        check_refusal(late, 409, "was decided already: accept by kim")
    async with opened(database) as store:
        assert (await verify(store)).fault is None
        kinds = [row["kind"] for row in await page(store, subject=case)]
    assert kinds == [
        "case.taken_in", "case.pending", "case.claimed", "case.given_back", "case.answered",
        "case.pending", "case.answered", "case.decided",
    ]  # fmt: skip


async def test_of_two_who_decide_at_once_one_does(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(database, monkeypatch) as client:
        case = json.loads(await ran(*JUDGE, ends=5))["thread"]
        said = {"action": "change", "category": "Sexist", "reviewer": "kim"}
        over_http, done = await asyncio.gather(
            client.post(f"/v1/cases/{case}/decision?wait=60", json=said),
            asyncio.to_thread(
                CliRunner().invoke, app, ["review", "decide", case, "--accept", "--reviewer", "lee"]
            ),
        )
        assert sorted([over_http.status_code == 200, done.exit_code == 0]) == [False, True], (
            over_http.text,
            done,
        )
        record = await get_json(client, f"/v1/cases/{case}", "record")
        assert record["review"]["reviewer"] == ("lee" if done.exit_code == 0 else "kim (operator)")


_OLD_TABLES = (
    "CREATE TABLE cases (thread TEXT PRIMARY KEY, graph TEXT NOT NULL, settings TEXT NOT NULL, given TEXT NOT NULL,"
    " opened REAL NOT NULL, status TEXT NOT NULL, post_id TEXT, reason TEXT, court TEXT, decided TEXT)",
    "CREATE TABLE leases (thread TEXT PRIMARY KEY, token TEXT NOT NULL, holder TEXT NOT NULL, until REAL NOT NULL)",
    "PRAGMA application_id=1414677059",
    "PRAGMA user_version=1",
)


def as_old_docket(folder: Path) -> None:
    """Put the cases of the database into a docket as the release before had it, and take the database away."""
    with sqlite3.connect(folder / "cases.sqlite") as old:
        for statement in _OLD_TABLES:
            old.execute(statement)
        old.execute("ATTACH ? AS new", (str(folder / "service.sqlite"),))
        for table in ("checkpoints", "writes"):
            [made] = old.execute(
                "SELECT sql FROM new.sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            old.execute(made)
            old.execute(f"INSERT INTO {table} SELECT * FROM new.{table}")
        old.execute(
            "INSERT INTO cases (thread, graph, settings, given, opened, status)"
            " SELECT id, graph, settings, post, created, 'pending' FROM new.cases"
        )
    old.close()
    for file in folder.glob("service.sqlite*"):
        file.unlink()


@pytest.mark.parametrize("by_service", [False, True])
async def test_the_docket_of_an_earlier_release_is_taken_over(by_service: bool) -> None:
    folder = Path(os.environ["TRIBUNAL_DATA"])
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)) as server:
        case = json.loads(await ran(*JUDGE, ends=5))["thread"]
        as_old_docket(folder)
        calls = len(server.requests)
        if by_service:
            async with serving(f"sqlite:///{folder / 'service.sqlite'}"):
                assert not (folder / "cases.sqlite").exists()
        [entry] = await listed()
        assert (entry["thread"], entry["status"], entry["court"]) == (case, "pending", "Religious")
        assert not (folder / "cases.sqlite").exists()
        done = json.loads(await ran("review", "decide", case, "--accept", "--json", reviewer="kim"))
        assert (done["outcome"], len(server.requests)) == ("verdict", calls)


@pytest.mark.long
async def test_a_docket_of_an_earlier_release_beside_another_database_is_told_of_in_a_line(
    database: str,
) -> None:
    file = Path(os.environ["TRIBUNAL_DATA"]) / "cases.sqlite"
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)):
        await ran(*JUDGE, ends=5)
    as_old_docket(file.parent)
    async with opened(database):
        command = (sys.executable, "-m", "tribunal", "review", "list", "--json")
        environment = {**os.environ, "TRIBUNAL_DATABASE": database}
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True
        )
    assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{file}: holds cases of an earlier release")
    assert "tribunal review list moves them" in line
    assert file.exists()


@pytest.mark.parametrize("share", [1.0, 0.0])
async def test_second_opinions_are_sought_of_cases_decided_at_the_terminal(
    share: float, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(database, monkeypatch, second_opinions=share) as client:
        case = json.loads(await ran(*JUDGE, ends=5))["thread"]
        await ran("review", "decide", case, "--accept", reviewer="lee")
        sought = await get_json(client, "/v1/second-opinions", "second_opinions")
        assert len(sought) == share
        for each in sought:
            claim = await client.post(
                f"/v1/second-opinions/{each['id']}/claim", json={"reviewer": "lee"}
            )
            check_refusal(claim, 409, "who decided this case")
            shown = await get_json(client, f"/v1/second-opinions/{each['id']}", "shown")
            assert shown["post"]["text"] == "post-words"


async def test_a_case_that_is_not_kept_waits_in_the_database_that_is_named(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(database, monkeypatch):
        monkeypatch.delenv("TRIBUNAL_DATABASE")
        case = json.loads(await ran(*JUDGE, "--no-keep", "--database", database, ends=5))["thread"]
        [entry] = await listed("--database", database)
        assert (entry["thread"], entry["status"]) == (case, "pending")


async def test_what_is_no_docket_of_an_earlier_release_is_refused_in_a_line() -> None:
    folder = Path(os.environ["TRIBUNAL_DATA"])
    folder.mkdir()
    (folder / "cases.sqlite").write_text("not a database at all, but a text of some length" * 40)
    told = await ran("review", "list", ends=2)
    assert "the docket of an earlier release can't be taken over" in told
    assert told.count("\n") == 1
    assert (folder / "cases.sqlite").exists()
