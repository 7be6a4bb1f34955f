"""Files that are whole or not there, locks, SQLite, plugins and the one table of hidden characters."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests import PROJECT
from tribunal.core.text import make_visible, without_hidden
from tribunal.errors import BadInput
from tribunal.models.providers import Provider
from tribunal.plugins import names, plugin
from tribunal.process.database import Database, DatabaseError
from tribunal.process.files import LockHeld, hold_lock, write_atomically, write_whole


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_whole(path, "old")

    def fail_in_the_middle() -> None:
        with write_atomically(path) as file:
            file.write(b"new, but h")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_in_the_middle()
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    write_whole(path, "half a pair: \ud83d")
    assert path.read_text() == "half a pair: ?"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    script = "import pathlib, sys, tribunal.process.files\n"
    script += "with tribunal.process.files.hold_lock(pathlib.Path(sys.argv[1])): print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(LockHeld, match="another process"), hold_lock(lock):
            pass
        other.kill()
        other.wait()
    with hold_lock(lock):  # it went with the process
        pass


def test_a_lock_that_is_somebody_s_letter_is_told_and_left(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("not a lock, but somebody's letter" * 40)
    with pytest.raises(
        OSError, match=r"\.lock: can't be locked: file is not a database; delete it"
    ):
        hold_lock(tmp_path / ".lock").__enter__()


async def test_a_database_is_made_once_by_any_number_of_openers(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.sqlite"
    schema = ["CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, v INTEGER)"]
    opened = await asyncio.gather(*(Database.open(path, schema=schema) for _ in range(8)))
    await asyncio.gather(
        *(each.write("INSERT INTO t VALUES (?, ?)", str(n), n) for n, each in enumerate(opened))
    )
    assert {row["v"] for row in await opened[0].rows("SELECT v FROM t")} == set(range(8))
    with pytest.raises(DatabaseError, match="UNIQUE"):
        await opened[0].write_many("INSERT INTO t VALUES (?, ?)", [("new", 9), ("1", 1)])
    assert not await opened[0].rows("SELECT * FROM t WHERE k = 'new'")
    for each in opened:
        await each.close()
    with pytest.raises(DatabaseError):
        await opened[0].rows("SELECT 1")


async def test_a_foreign_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    path.write_bytes(b"not a database, but somebody's letter" * 100)
    with pytest.raises(DatabaseError, match="not a database"):
        await Database.open(path, schema=["CREATE TABLE t (k)"])
    assert path.read_bytes().startswith(b"not a database")

    def refuse(_: sqlite3.Connection) -> None:
        raise BadInput("theirs")

    other = tmp_path / "other.sqlite"
    with pytest.raises(BadInput, match="theirs"):
        await Database.open(other, prepare=refuse, schema=["CREATE TABLE t (k)"])
    assert other.stat().st_size == 0


def test_the_rehearsal_model_is_registered_as_anybody_s_would_be() -> None:
    assert "rehearsal" in names("tribunal.providers")
    found = plugin("tribunal.providers", "rehearsal", Provider, "model")
    assert found is not None
    assert found.takes_no_key


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no_such_package:X", "can't be loaded"),
        ("os:nothing", "can't be loaded"),
        ("os:getcwd", "is a builtin"),
    ],
)
def test_a_setting_can_not_load_just_anything(place: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        plugin("tribunal.providers", place, Provider, "model")
    assert plugin("tribunal.providers", "openai-like", Provider, "model") is None


def test_every_format_character_is_hidden_or_written_out() -> None:
    for number in range(0x110000):
        character = chr(number)
        if unicodedata.category(character) in ("Cc", "Cf") and character not in "\t\n\r":
            assert character not in make_visible(f"a{character}b"), hex(number)
    assert without_hidden("a\u200bd\u202em\u2066i\U000e0041n") == "admin"
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert without_hidden(persian, joiners=True) == persian
