"""The archive: what goes in comes out, for many writers and after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT
from tests.archived import Opened, a_hit, a_page, a_run
from tribunal.errors import BadInput
from tribunal.retrievers.web.archive import (
    ArchiveError,
    StoredPage,
    default_archive_path,
    text_hash,
)
from tribunal.retrievers.web.library import Replay

# ----------------------------------------------------------------------------------------------------------- round trip


async def test_a_trail_holds_everything_in_order(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "sub" / "e.sqlite")
    run = await a_run(held)
    trail = await held.load_trail(run)
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
    searches = trail.entries_of("search")
    assert (searches[0].key, searches[0].body["engine"], len(searches[0].body["hits"])) == (
        "q1",
        "searxng",
        2,
    )
    assert searches[1].body["failures"][0]["kind"] == "rate_limit"
    assert [each.key[-1] for each in trail.entries_of("fetch")] == ["b", "a", "c"]
    assert trail.entries_of("reply", "read")[1].body == {"reply": {"n": 2}, "calls": []}
    assert list(trail.pages.values()) == [a_page()]
    assert all(each.at.endswith("+00:00") for each in trail.entries)


async def test_a_page_is_stored_once_however_many_runs_use_it(
    tmp_path: Path, opened: Opened
) -> None:
    held = await opened(tmp_path / "e.sqlite")
    runs = [await a_run(held), await a_run(held, "p2", "another")]
    changed = await held.add_page(a_page(text="It says something else now."))
    assert changed != a_page().id
    for run in runs:
        assert (await held.load_trail(run)).pages == {a_page().id: a_page()}
    await held.close()
    with sqlite3.connect(tmp_path / "e.sqlite") as db:
        assert db.execute("SELECT count(*) FROM pages").fetchone() == (2,)
    db.close()


async def test_runs_are_found_by_their_id_and_by_their_post(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    with pytest.raises(BadInput, match="holds no run yet"):
        await held.load_trail()
    first, second, other = await a_run(held), await a_run(held), await a_run(held, "p2", "other")
    assert [each.run.id for each in await held.list_overviews()] == [first, second, other]
    assert (await held.load_trail()).run.id == other
    assert (await held.load_trail("p1")).run.id == second
    assert (await held.load_trail(first)).run.id == first
    with pytest.raises(BadInput, match="holds no run and no post 'p3'"):
        await held.load_trail("p3")


async def test_the_post_itself_is_not_in_the_file(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await held.begin_run("p1", "words that nobody else may read", {})
    await held.close()
    assert b"nobody else" not in (tmp_path / "e.sqlite").read_bytes()


async def test_the_default_is_in_the_data_folder(tmp_path: Path, opened: Opened) -> None:
    held = await opened()
    assert held.path == default_archive_path() == tmp_path / "data" / "evidence.sqlite"
    assert held.path.exists()


# ---------------------------------------------------------------------------------------------------------------- keys


async def test_no_key_gets_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_1", "plainlookingvalue")
    monkeypatch.setenv("SERPER_API_KEY", "12345678901234")
    leak = "sk-abcdef0123456789 plainlookingvalue 12345678901234 AIzaSyA0123456789"
    held = await opened(tmp_path / "e.sqlite")
    run = await held.begin_run(leak, "t", {"deep": [{"er": leak}], "number": 12345678901234})
    await held.add_search(run, 1, leak, leak, [{"title": leak}])
    await held.add_page(a_page(text="our plainlookingvalue, and their sk-abcdef0123456789"))
    await held.add_fetch(run, 1, f"https://example.org/?k={leak}", None, leak)
    await held.add_reply(run, "p", leak, {"a": leak}, [{"error": leak}])
    await held.add_decision(run, "d", {"a": leak})
    trail = await held.load_trail(run)
    await held.close()
    written = (tmp_path / "e.sqlite").read_bytes()
    assert b"plainlookingvalue" not in written
    assert b"SyA0123456789" not in written
    assert written.count(b"12345678901234") == 1  # a number is no key
    # What a page says about keys of its own stays, so that its passages stay where they are.
    assert written.count(b"sk-abcdef0123456789") == 1
    assert trail.entries_of("decision")[0].body == {"a": "[key] [key] [key] [key]"}


async def test_a_scrubbed_query_and_url_are_still_found_in_a_replay(
    tmp_path: Path, opened: Opened
) -> None:
    held = await opened(tmp_path / "e.sqlite")
    run = await held.begin_run("p", "t", {})
    query, url = 'site:x "sk-abcdef0123456789"', "https://example.org/?api_key=abcdefgh1"
    await held.add_search(run, 1, query, "searxng", [a_hit(query, "a")])
    await held.add_fetch(run, 1, url, await held.add_page(a_page()))
    replay = await Replay.open(held.path, post_text="t")
    assert len((await replay.search(query, 5)).hits) == 1
    assert isinstance(await replay.fetch(url), StoredPage)


async def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    run = await held.begin_run("\ud800", "\ud800", {"a": "\ud800"})
    await held.add_search(run, 1, "q \ud800", "\ud800", [])
    await held.add_page(a_page(text="half \ud800"))
    assert len((await held.load_trail(run)).entries) == 1


# ------------------------------------------------------------------------------------------------- writers and failures

WRITER = """
import asyncio, sys
from tribunal.retrievers.web.archive import Archive

async def write(path, post, count):
    held = await Archive.open(path)
    run = await held.begin_run(post, "text", {})
    print(run, flush=True)
    for number in range(int(count)):
        await held.add_decision(run, "step", {"n": number})
        print(number, flush=True)
    await held.close()

asyncio.run(write(*sys.argv[1:]))
"""


def writer(path: Path, post: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), post, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=PROJECT)


async def test_processes_write_into_one_new_file(tmp_path: Path, opened: Opened) -> None:
    writers = [writer(tmp_path / "e.sqlite", f"p{number}", 100) for number in range(3)]
    for each in writers:
        out, _ = await asyncio.to_thread(each.communicate)
        assert each.returncode == 0, out
    held = await opened(tmp_path / "e.sqlite", existing=True)
    for number in range(3):
        steps = (await held.load_trail(f"p{number}")).entries_of("decision", "step")
        assert [each.body["n"] for each in steps] == list(range(100))


@pytest.mark.long
async def test_a_kill_loses_nothing_that_was_finished(tmp_path: Path, opened: Opened) -> None:
    def killed() -> list[str]:
        with writer(tmp_path / "e.sqlite", "p", 10**6) as running:
            assert running.stdout is not None
            said = [running.stdout.readline() for _ in range(200)]
            os.kill(running.pid, signal.SIGKILL)
            return said + running.stdout.readlines()

    run, *numbers = (line.strip() for line in await asyncio.to_thread(killed))
    held = await opened(tmp_path / "e.sqlite")
    written = [each.body["n"] for each in (await held.load_trail(run)).entries_of("decision")]
    assert written[: len(numbers)] == [int(number) for number in numbers]
    assert len(written) - len(numbers) in (0, 1)  # one may have been committed and not yet said
    await held.add_decision(run, "step", {"n": -1})


async def test_a_full_disk_is_an_archive_error_and_what_is_there_stays(
    tmp_path: Path, opened: Opened
) -> None:
    held = await opened(tmp_path / "e.sqlite")
    run = await a_run(held)
    await held._database.write("PRAGMA max_page_count=1")  # SQLite's own "disk is full"
    with pytest.raises(ArchiveError, match="full"):
        await held.add_page(a_page(text="x" * 10**6))
    assert len((await held.load_trail(run)).entries) == 11


async def test_an_archive_that_is_only_read_is_not_written(tmp_path: Path, opened: Opened) -> None:
    await a_run(await opened(tmp_path / "e.sqlite"))
    held = await opened(tmp_path / "e.sqlite", existing=True)
    with pytest.raises(ArchiveError, match="readonly"):
        await held.begin_run("p", "t", {})


async def test_an_archive_that_is_closed_leaves_one_file(tmp_path: Path, opened: Opened) -> None:
    def files() -> list[str]:
        return [path.name for path in tmp_path.glob("e.sqlite*")]

    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    assert len(files()) == 3
    await held.close()
    await held.close()
    assert files() == ["e.sqlite"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
async def test_an_archive_in_a_locked_folder_can_be_read(tmp_path: Path, opened: Opened) -> None:
    folder = tmp_path / "folder"
    held = await opened(folder / "e.sqlite")
    await a_run(held)
    await held.close()
    folder.chmod(0o500)
    try:
        assert await (await opened(folder / "e.sqlite", existing=True)).list_overviews()
        with pytest.raises(BadInput, match="can't be opened"):
            await opened(folder / "new.sqlite")
    finally:
        folder.chmod(0o700)


# ------------------------------------------------------------------------------------------------------------ bad files


@pytest.mark.parametrize("existing", [True, False])
async def test_a_file_that_is_no_archive_is_refused_and_left_alone(
    tmp_path: Path, existing: bool, opened: Opened
) -> None:
    text, foreign, corrupt = (
        tmp_path / "notes.txt",
        tmp_path / "other.sqlite",
        tmp_path / "cut.sqlite",
    )
    text.write_text("not a database " * 100)
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE theirs (a)")
    db.close()
    corrupt.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    for path, words in (
        (text, "not a database"),
        (foreign, "another program"),
        (corrupt, "can't be opened"),
    ):
        before = path.read_bytes()
        with pytest.raises(BadInput, match=f"(?s){path.name}.*{words}.*name another file"):
            await opened(path, existing=existing)
        assert path.read_bytes() == before
    with pytest.raises(BadInput, match=tmp_path.name):
        await opened(tmp_path, existing=existing)


@pytest.mark.parametrize(("version", "age"), [(2, "newer"), (0, "older")])
async def test_an_archive_of_another_version_is_refused(
    tmp_path: Path, version: int, age: str, opened: Opened
) -> None:
    await (await opened(tmp_path / "e.sqlite")).close()
    with sqlite3.connect(tmp_path / "e.sqlite") as db:
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    for existing in (True, False):
        with pytest.raises(BadInput, match=f"{age} version"):
            await opened(tmp_path / "e.sqlite", existing=existing)


async def test_damage_found_later_is_told(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    run = await a_run(held)
    await held.add_page(a_page(text="x" * 100_000))
    await held.close()
    whole = (tmp_path / "e.sqlite").read_bytes()
    (tmp_path / "e.sqlite").write_bytes(whole[:4096] + b"\x00" * (len(whole) - 4096))
    held = await opened(tmp_path / "e.sqlite", existing=True)
    with pytest.raises(BadInput, match="is damaged"):
        await held.load_trail(run)


async def test_an_entry_that_was_tampered_with_is_told(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    for body in ("{", '{"hits": [{}], "engine": null, "failures": []}', "{}"):
        await held._write_row("UPDATE entries SET body = ? WHERE kind = 'search'", (body,))
        with pytest.raises(BadInput, match="is damaged"):
            await Replay.open(held.path)


async def test_a_missing_or_empty_file_is_no_archive_to_read(
    tmp_path: Path, opened: Opened
) -> None:
    with pytest.raises(BadInput, match="no such file"):
        await opened(tmp_path / "none.sqlite", existing=True)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(BadInput, match="is empty"):
        await opened(tmp_path / "empty.sqlite", existing=True)
    await a_run(await opened(tmp_path / "empty.sqlite"))
