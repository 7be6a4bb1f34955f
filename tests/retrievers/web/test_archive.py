"""The evidence record: what goes in comes out, for many writers and after a kill, and can be gone through again."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tribunal.errors import BadInput
from tribunal.retrievers.web import fetch, pages
from tribunal.retrievers.web.archive import ArchiveError, Record, Replay, StoredPage, default_path, text_hash
from tribunal.retrievers.web.search import EngineFault, Hit


def a_page(url: str = "https://example.org/a", text: str = "Line one.\nLine two “한국어” 😀.") -> StoredPage:
    got = fetch.FetchedPage(
        url=url,
        final_url="https://example.org/final",
        redirects=(),
        address="192.0.2.1",
        status=200,
        content_type="text/html",
        charset=None,
        body=b"<p>",
        fetched_at=datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC),
    )
    return StoredPage.of(got, pages.Text("Title", text, "en", "2026-01-02"))


def a_hit(query: str, path: str) -> dict[str, Any]:
    url = f"https://example.org/{path}"
    return Hit(query=query, url=url, title=path, snippet="s", engine="searxng", rank=1).dump()


async def a_run(record: Record, post_id: str = "p1", text: str = "the post") -> str:
    """A run with one of everything."""
    run = await record.begin(post_id, text, {"graph": "antihate", "max_turns": 3})
    fault = EngineFault(engine="duckduckgo", kind="rate_limit", message="HTTP 202").dump()
    await record.add_reply(run, "propose", "1", {"queries": ["q1", "q2"]}, [{"role": "researcher.queries"}])
    await record.add_search(run, 1, "q1", "searxng", [a_hit("q1", "a"), a_hit("q1", "b")], [fault])
    await record.add_search(run, 1, "q2", None, [], [fault])
    page = await record.add_page(a_page())
    await record.add_fetch(run, 1, "https://example.org/b", None, "https://example.org/b: dns: has no address")
    await record.add_fetch(run, 1, "https://example.org/a", page)
    await record.add_fetch(run, 1, "https://example.org/c", page)
    await record.add_decision(run, "page", {"turn": 1, "url": "https://example.org/c"})
    await record.add_decision(run, "page", {"turn": 1, "url": "https://example.org/a"})
    await record.add_reply(run, "read", "k", {"n": 1})
    await record.add_reply(run, "read", "k", {"n": 2})
    await record.add_decision(run, "verdict", {"hateful": True, "steps": [{"claim": "c", "evidence": ["E1"]}]})
    return run


# ----------------------------------------------------------------------------------------------------------- round trip


async def test_a_chain_holds_everything_in_order(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "sub" / "e.sqlite")
    run = await a_run(held)
    trail = await held.chain(run)
    assert trail.run.dump() | {"started": ""} == {
        "id": run,
        "post_id": "p1",
        "post_sha": text_hash("the post"),
        "started": "",
        "settings": {"graph": "antihate", "max_turns": 3},
    }
    assert [each.kind for each in trail.entries] == (
        ["reply"] + ["search"] * 2 + ["fetch"] * 3 + ["decision"] * 2 + ["reply"] * 2 + ["decision"]
    )
    searches = trail.of("search")
    assert (searches[0].key, searches[0].body["engine"], len(searches[0].body["hits"])) == ("q1", "searxng", 2)
    assert searches[1].body["failures"][0]["kind"] == "rate_limit"
    assert [each.key[-1] for each in trail.of("fetch")] == ["b", "a", "c"]
    assert trail.of("reply", "read")[1].body == {"reply": {"n": 2}, "calls": []}
    assert list(trail.pages.values()) == [a_page()]
    assert all(each.at.endswith("+00:00") for each in trail.entries)


async def test_a_page_is_stored_once_however_many_runs_use_it(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    runs = [await a_run(held), await a_run(held, "p2", "another")]
    changed = await held.add_page(a_page(text="It says something else now."))
    assert changed != a_page().id
    assert await held.page(a_page().id) == a_page()
    assert await held.page("nothing") is None
    for run in runs:
        assert list((await held.chain(run)).pages) == [a_page().id]
    held.close()
    with sqlite3.connect(tmp_path / "e.sqlite") as db:
        assert db.execute("SELECT count(*) FROM pages").fetchone() == (2,)
    db.close()


async def test_runs_are_found_by_their_id_and_by_their_post(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    assert await held.latest() is None
    first, second, other = await a_run(held), await a_run(held), await a_run(held, "p2", "other")
    assert [each.id for each in await held.runs()] == [first, second, other]
    assert [each.id for each in await held.runs("p1")] == [first, second]
    latest, of_post = await held.latest(), await held.latest("p1")
    assert latest is not None
    assert of_post is not None
    assert (latest.id, of_post.id) == (other, second)
    assert (await held.chain("p1")).run.id == second
    assert (await held.chain(first)).run.id == first
    with pytest.raises(BadInput, match="holds no run and no post 'p3'"):
        await held.chain("p3")


async def test_the_post_itself_is_not_in_the_file(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    await held.begin("p1", "words that nobody else may read", {})
    held.close()
    assert b"nobody else" not in (tmp_path / "e.sqlite").read_bytes()


async def test_the_default_is_in_the_data_folder(tmp_path: Path) -> None:
    held = await Record.open()
    assert held.path == default_path() == tmp_path / "data" / "evidence.sqlite"
    assert held.path.exists()


# ---------------------------------------------------------------------------------------------------------------- keys


async def test_no_key_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_1", "plainlookingvalue")
    monkeypatch.setenv("SERPER_API_KEY", "12345678901234")
    leak = "sk-abcdef0123456789 plainlookingvalue 12345678901234 AIzaSyA0123456789"
    held = await Record.open(tmp_path / "e.sqlite")
    run = await held.begin(leak, "t", {"deep": [{"er": leak}], "number": 12345678901234})
    await held.add_search(run, 1, leak, leak, [{"title": leak}])
    await held.add_page(a_page(text="our plainlookingvalue, and their sk-abcdef0123456789"))
    await held.add_fetch(run, 1, f"https://example.org/?k={leak}", None, leak)
    await held.add_reply(run, "p", leak, {"a": leak}, [{"error": leak}])
    await held.add_decision(run, "d", {"a": leak})
    trail = await held.chain(run)
    held.close()
    written = (tmp_path / "e.sqlite").read_bytes()
    assert b"plainlookingvalue" not in written
    assert b"SyA0123456789" not in written
    assert written.count(b"12345678901234") == 1  # a number is no key
    # What a page says about keys of its own stays, so that its passages stay where they are.
    assert written.count(b"sk-abcdef0123456789") == 1
    assert trail.of("decision")[0].body == {"a": "[key] [key] [key] [key]"}


async def test_a_scrubbed_query_and_url_are_still_found_in_a_replay(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await held.begin("p", "t", {})
    query, url = 'site:x "sk-abcdef0123456789"', "https://example.org/?api_key=abcdefgh1"
    await held.add_search(run, 1, query, "searxng", [a_hit(query, "a")])
    await held.add_fetch(run, 1, url, await held.add_page(a_page()))
    replay = await Replay.open(held.path, post_text="t")
    assert len((await replay.search(query, 5)).hits) == 1
    assert isinstance(await replay.fetch(url), StoredPage)


async def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await held.begin("\ud800", "\ud800", {"a": "\ud800"})
    await held.add_search(run, 1, "q \ud800", "\ud800", [])
    await held.add_page(a_page(text="half \ud800"))
    assert len((await held.chain(run)).entries) == 1


# ------------------------------------------------------------------------------------------------- writers and failures

WRITER = """
import asyncio, sys
from tribunal.retrievers.web.archive import Record

async def write(path, post, count):
    held = await Record.open(path)
    run = await held.begin(post, "text", {})
    print(run, flush=True)
    for number in range(int(count)):
        await held.add_decision(run, "step", {"n": number})
        print(number, flush=True)

asyncio.run(write(*sys.argv[1:]))
"""


def writer(path: Path, post: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), post, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=PROJECT)


async def test_processes_write_into_one_new_file(tmp_path: Path) -> None:
    writers = [writer(tmp_path / "e.sqlite", f"p{number}", 100) for number in range(3)]
    for each in writers:
        out, _ = await asyncio.to_thread(each.communicate)
        assert each.returncode == 0, out
    held = await Record.open(tmp_path / "e.sqlite", existing=True)
    for number in range(3):
        steps = (await held.chain(f"p{number}")).of("decision", "step")
        assert [each.body["n"] for each in steps] == list(range(100))


async def test_a_kill_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    def killed() -> list[str]:
        with writer(tmp_path / "e.sqlite", "p", 10**6) as running:
            assert running.stdout is not None
            said = [running.stdout.readline() for _ in range(200)]
            os.kill(running.pid, signal.SIGKILL)
            return said + running.stdout.readlines()

    run, *numbers = (line.strip() for line in await asyncio.to_thread(killed))
    held = await Record.open(tmp_path / "e.sqlite")
    written = [each.body["n"] for each in (await held.chain(run)).of("decision")]
    assert written[: len(numbers)] == [int(number) for number in numbers]
    assert len(written) - len(numbers) in (0, 1)  # one may have been committed and not yet said
    await held.add_decision(run, "step", {"n": -1})


async def test_many_writes_at_once_all_get_in(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await held.begin("p", "t", {})
    await asyncio.gather(*(held.add_decision(run, "d", {"n": number}) for number in range(500)))
    assert len((await held.chain(run)).entries) == 500


async def test_a_full_disk_is_a_record_error_and_what_is_there_stays(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await a_run(held)
    await held._in_thread(lambda: held._db.execute("PRAGMA max_page_count=1"))  # SQLite's own "disk is full"
    with pytest.raises(ArchiveError, match="full"):
        await held.add_page(a_page(text="x" * 10**6))
    assert len((await held.chain(run)).entries) == 11


async def test_a_record_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    await a_run(await Record.open(tmp_path / "e.sqlite"))
    held = await Record.open(tmp_path / "e.sqlite", existing=True)
    with pytest.raises(ArchiveError, match="readonly"):
        await held.begin("p", "t", {})


async def test_a_record_dropped_or_closed_leaves_one_file(tmp_path: Path) -> None:
    def files() -> list[str]:
        return [path.name for path in tmp_path.glob("e.sqlite*")]

    held = await Record.open(tmp_path / "e.sqlite")
    await a_run(held)
    assert len(files()) == 3
    held.close()
    held.close()
    assert files() == ["e.sqlite"]
    held = await Record.open(tmp_path / "e.sqlite")
    await a_run(held)
    threads = held._thread
    del held
    gc.collect()
    await asyncio.to_thread(threads.shutdown)
    assert files() == ["e.sqlite"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
async def test_a_record_in_an_archive_can_be_read(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    held = await Record.open(archive / "e.sqlite")
    await a_run(held)
    held.close()
    archive.chmod(0o500)
    try:
        assert (await (await Record.open(archive / "e.sqlite", existing=True)).latest()) is not None
        with pytest.raises(BadInput, match="can't be opened"):
            await Record.open(archive / "new.sqlite")
    finally:
        archive.chmod(0o700)


# ------------------------------------------------------------------------------------------------------------ bad files


@pytest.mark.parametrize("existing", [True, False])
async def test_a_file_that_is_no_record_is_refused_and_left_alone(tmp_path: Path, existing: bool) -> None:
    text, foreign, corrupt = tmp_path / "notes.txt", tmp_path / "other.sqlite", tmp_path / "cut.sqlite"
    text.write_text("not a database " * 100)
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE theirs (a)")
    db.close()
    corrupt.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    for path, words in ((text, "not a database"), (foreign, "another program"), (corrupt, "can't be opened")):
        before = path.read_bytes()
        with pytest.raises(BadInput, match=f"(?s){path.name}.*{words}.*name another file"):
            await Record.open(path, existing=existing)
        assert path.read_bytes() == before
    with pytest.raises(BadInput, match=tmp_path.name):
        await Record.open(tmp_path, existing=existing)


@pytest.mark.parametrize(("version", "age"), [(2, "newer"), (0, "older")])
async def test_a_record_of_another_version_is_refused(tmp_path: Path, version: int, age: str) -> None:
    (await Record.open(tmp_path / "e.sqlite")).close()
    with sqlite3.connect(tmp_path / "e.sqlite") as db:
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    for existing in (True, False):
        with pytest.raises(BadInput, match=f"{age} version"):
            await Record.open(tmp_path / "e.sqlite", existing=existing)


async def test_damage_found_later_is_told(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await a_run(held)
    await held.add_page(a_page(text="x" * 100_000))
    held.close()
    whole = (tmp_path / "e.sqlite").read_bytes()
    (tmp_path / "e.sqlite").write_bytes(whole[:4096] + b"\x00" * (len(whole) - 4096))
    held = await Record.open(tmp_path / "e.sqlite", existing=True)
    with pytest.raises(BadInput, match="is damaged"):
        await held.chain(run)


async def test_an_entry_that_was_tampered_with_is_told(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    run = await a_run(held)
    for body in ("{", '{"hits": [{}], "engine": null, "failures": []}', "{}"):
        await held._write("UPDATE entries SET body = ? WHERE kind = 'search'", (body,))
        with pytest.raises(BadInput, match="is damaged"):
            await Replay.open(held.path, run=run)


async def test_a_missing_or_empty_file_is_no_record_to_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        await Record.open(tmp_path / "none.sqlite", existing=True)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(BadInput, match="is empty"):
        await Record.open(tmp_path / "empty.sqlite", existing=True)
    await a_run(await Record.open(tmp_path / "empty.sqlite"))


# --------------------------------------------------------------------------------------------------------------- replay


async def test_a_replay_gives_what_was_recorded(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path, post_text="the post")

    found = await replay.search("q1", 5)
    assert ([hit.url[-1] for hit in found.hits], found.engine) == (["a", "b"], "searxng")
    assert found.failures[0].engine == "duckduckgo"
    assert len((await replay.search("q1", 1)).hits) == 1
    assert (await replay.search("q2", 5)).engine is None

    page = await replay.fetch("https://example.org/c")
    assert page == a_page(url="https://example.org/c")  # asked for by another name, and stored once
    assert await replay.fetch("https://example.org/b") == "https://example.org/b: dns: has no address"
    assert await replay.fetch("https://example.org/z") is None
    assert [url[-1] for url in await replay.fetched(1)] == ["c", "a", "b"]
    assert await replay.fetched(2) == []


async def test_replies_come_in_order_and_end(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path, post_id="p1")
    assert [await replay.reply("read", "k") for _ in range(3)] == [{"n": 1}, {"n": 2}, None]
    assert await replay.reply("propose", "1") == {"queries": ["q1", "q2"]}
    assert await replay.reply("propose", "2") is None
    assert await replay.reply("read", "other") is None
    replay.rewind()
    assert await replay.reply("read", "k") == {"n": 1}


async def test_an_unknown_query_finds_nothing_and_is_named_once(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path, post_text="the post")
    for query in ("Q1", "q1", "q1 ", "Q1"):
        await replay.search(query, 5)
    found = await replay.search("Q1", 5)
    assert (found.hits, found.engine) == ((), "replay")
    assert replay.unknown_queries == ["Q1", "q1 "]


async def test_the_run_that_is_replayed_is_the_latest_in_which_a_model_was_asked(tmp_path: Path) -> None:
    held = await Record.open(tmp_path / "e.sqlite")
    first, second = await a_run(held), await a_run(held)
    replayed = await held.begin("p1", "the post", {})
    other = await a_run(held, "p1", "another text of the same id")
    assert (await Replay.open(held.path, post_text="the post")).run.id == second
    assert (await Replay.open(held.path, post_text="the post", post_id="p1")).run.id == second
    assert (await Replay.open(held.path, post_id="p1")).run.id == other
    assert (await Replay.open(held.path)).run.id == other
    assert (await Replay.open(held.path, run=first)).run.id == first
    assert (await Replay.open(held.path, run=replayed)).run.id == replayed
    with pytest.raises(BadInput, match="holds no run of this post"):
        await Replay.open(held.path, post_text="unheard of")
    with pytest.raises(BadInput, match="no such file"):
        await Replay.open(tmp_path / "none.sqlite", post_text="the post")
