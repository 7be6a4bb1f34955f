"""A docket that is damaged, foreign or tampered with: one line with the way out, and no code of its own."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from tests.service.conftest import check_exit
from tribunal.commands import app
from tribunal.docket.checkpoints import PlainSerializer

JUDGE = ("judge", "post-words", "--model", "rehearsal")
ALL = (*JUDGE, "--review", "--set", "review_rule=all", "--json")


def run(*arguments: str) -> Result:
    """The command in this process; whatever escapes it fails the test."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code in (0, 2, 4, 5), done.stderr
    if done.exit_code == 2:
        assert done.stderr.startswith("tribunal: error: ")
        assert done.stderr.count("\n") == 1
    return done


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A docket with a case that waits and one that is decided."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIBUNAL_DATA", str(folder))
        for _ in range(2):
            thread = json.loads(run(*ALL).stdout)["thread"]
        assert run("review", "decide", thread, "--accept").exit_code == 0
    return folder / "service.sqlite"


@pytest.fixture
def docket(sound: Path) -> Path:
    """A copy of it in the data folder."""
    folder = Path(os.environ["TRIBUNAL_DATA"])
    folder.mkdir()
    return Path(shutil.copy(sound, folder))


def threads(sound: Path) -> dict[str, str]:
    with sqlite3.connect(sound) as held:
        status = "CASE WHEN question IS NULL THEN 'decided' ELSE 'pending' END"
        found = dict(held.execute(f"SELECT {status}, id FROM cases").fetchall())
    held.close()
    return found


def every_command(sound: Path) -> list[Result]:
    waiting, decided = threads(sound)["pending"], threads(sound)["decided"]
    return [
        run("review", "list", "--decided"),
        run("review", "show", waiting),
        run("review", "show", decided, "--json"),
        run("review", "resume", waiting),
        run("review", "decide", decided, "--category", "1"),
        run("review", "decide", waiting, "--accept"),
    ]


def altered(docket: Path, *statements: str) -> None:
    with sqlite3.connect(docket) as held:
        for statement in statements:
            held.execute(statement)
    held.close()


def replaced(docket: Path, make: Callable[[Path], object]) -> None:
    docket.unlink()
    make(docket)


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as held:
        held.execute("CREATE TABLE letters (words TEXT)")
    held.close()


NO_DOCKET: dict[str, Callable[[Path], object]] = {
    "a text": lambda path: path.write_text("not a database at all, but a text of some length" * 40),
    "a folder": lambda path: replaced(path, Path.mkdir),
    "a pipe": lambda path: replaced(path, os.mkfifo),
    "a pipe beside it": lambda path: os.mkfifo(f"{path}-wal"),
    "a device": lambda path: replaced(path, lambda made: made.symlink_to("/dev/zero")),
    "somebody else's": lambda path: replaced(path, foreign),
    "a newer version": lambda path: altered(
        path,
        "UPDATE alembic_version SET version_num = '9999'",
        "ALTER TABLE cases DROP COLUMN answer",
    ),
    "cut in the header": lambda path: os.truncate(path, 60),
    "one table less": lambda path: altered(path, "DROP TABLE cases"),
    "one column less": lambda path: altered(path, "ALTER TABLE cases DROP COLUMN record"),
}
ROWS: dict[str, Callable[[Path], object]] = {
    "settings that are no JSON": lambda path: altered(path, "UPDATE cases SET settings = '{'"),
    "a time that is none": lambda path: altered(path, "UPDATE cases SET created = 'yesterday'"),
    "a post that is none": lambda path: altered(path, "UPDATE cases SET post = '7'"),
    "a state that is none": lambda path: altered(path, "UPDATE cases SET status = 'lost'"),
    "words that are no text": lambda path: altered(
        path, "UPDATE cases SET record = CAST(x'ff00fe' AS TEXT)"
    ),
}


@pytest.mark.parametrize("damage", [*NO_DOCKET, *ROWS])
def test_what_is_no_docket_is_told_with_the_way_out(damage: str, docket: Path, sound: Path) -> None:
    (NO_DOCKET | ROWS)[damage](docket)
    for done in every_command(sound):
        assert done.exit_code == 2
        assert str(docket) in done.stderr
        assert "set TRIBUNAL_DATA to another folder" in done.stderr


@pytest.mark.parametrize("damage", NO_DOCKET)
def test_a_new_verdict_is_printed_and_the_line_and_the_status_say_that_it_was_not_kept(
    damage: str, docket: Path
) -> None:
    NO_DOCKET[damage](docket)
    assert run(*JUDGE, "--json").exit_code == 0, "it isn't to be kept"
    for how, line in (
        ("--review", "not kept, so no person will be asked: "),
        ("--keep", "not kept: "),
    ):
        done = run(*JUDGE, "--json", how)
        assert (done.exit_code, json.loads(done.stdout)["outcome"]) == (4, "verdict")
        assert done.stderr.startswith(f"tribunal: {line}")
        assert (str(docket) in done.stderr, done.stderr.count("\n")) == (True, 1)
        assert "set TRIBUNAL_DATA to another folder" in done.stderr


def test_a_lock_is_waited_for_and_then_told(
    docket: Path, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tribunal.store.engine.WAIT", 0.2)
    with sqlite3.connect(docket, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        listed, shown, *_, decided = every_command(sound)
        assert (listed.exit_code, shown.exit_code) == (0, 0), "whoever only reads waits for nobody"
        check_exit(decided, 2, "locked")
        # a verdict is worth more than its place, and nobody will be asked
        assert run(*ALL).exit_code == 4
    other.close()


def _sealed(state: Any) -> bytes:
    packed = ormsgpack.packb(state)
    return blake2b(packed, digest_size=16).digest() + packed


def rewritten(docket: Path, change: Callable[[Any], Any]) -> None:
    """Every checkpoint changed by someone who knows how they are written."""
    with sqlite3.connect(docket) as held:
        rows = held.execute("SELECT rowid, type, checkpoint FROM checkpoints").fetchall()
        for row, kind, blob in rows:
            state = change(PlainSerializer().loads_typed((kind, blob)))
            held.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (_sealed(state), row)
            )
    held.close()


def channel(name: str, value: Any) -> Callable[[Any], Any]:
    def change(state: Any) -> Any:
        return {**state, "channel_values": {**state["channel_values"], name: value}}

    return change


LOST = {"no checkpoints": "DELETE FROM checkpoints", "no question": "DELETE FROM writes"}
STATES: dict[str, Callable[[Path], object]] = {
    "an empty checkpoint": lambda path: altered(path, "UPDATE checkpoints SET checkpoint = NULL"),
    "another digest": lambda path: altered(
        path, "UPDATE checkpoints SET checkpoint = zeroblob(400)"
    ),
    "a pickle": lambda path: altered(path, "UPDATE checkpoints SET type = 'pickle'"),
    "metadata that is no JSON": lambda path: altered(path, "UPDATE checkpoints SET metadata = '{'"),
    "writes of another kind": lambda path: altered(
        path, "UPDATE writes SET value = x'00', type = 'plain'"
    ),
    "a setting that is none": lambda path: altered(
        path, "UPDATE cases SET settings = '{\"colour\": 1}'"
    ),
    "a graph that is none": lambda path: altered(path, "UPDATE cases SET graph = 'court'"),
    "no state": lambda path: rewritten(path, lambda _: 7),
    "an outcome of another kind": lambda path: rewritten(path, channel("outcome", 7)),
    "a post without its id": lambda path: rewritten(path, channel("post", {"text": "x"})),
}


@pytest.mark.parametrize("damage", STATES)
def test_a_case_that_can_t_be_read_is_told(damage: str, docket: Path, sound: Path) -> None:
    STATES[damage](docket)
    listed, _, _, resumed, _, accepted = every_command(sound)
    assert [done.exit_code for done in (listed, resumed, accepted)] == [0, 2, 2]


@pytest.mark.long
@pytest.mark.parametrize("damage", LOST)
def test_a_case_that_lost_its_trial_is_tried_again(damage: str, docket: Path, sound: Path) -> None:
    altered(docket, LOST[damage])
    waiting = threads(sound)["pending"]
    assert "tribunal review resume" in run("review", "decide", waiting, "--accept").stderr
    assert run("review", "resume", waiting).exit_code == 5
    assert run("review", "decide", waiting, "--accept").exit_code == 0


@pytest.mark.long
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_any_bytes_that_changed_bring_a_line_and_no_traceback(sound: Path, seed: int) -> None:
    """Bits flipped anywhere in the file; what is read is either as it was written, or told."""
    folder = Path(os.environ["TRIBUNAL_DATA"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    chance, held = random.Random(seed), bytearray(sound.read_bytes())
    for _ in range(chance.choice([1, 3, 40])):
        held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        del held[chance.randrange(len(held)) :]
    (folder / "service.sqlite").write_bytes(held)
    waiting = threads(sound)["pending"]
    for command in (("list", "--decided"), ("show", waiting), ("decide", waiting, "--accept")):
        run("review", *command)


OWN = """
import pathlib
pathlib.Path("ran").touch()
from tribunal.graphs.tribunal import graph
"""


def test_a_stored_graph_of_a_file_runs_only_where_the_operator_allows_it(
    docket: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    altered(docket, f"UPDATE cases SET graph = '{own}:graph'")
    (tmp_path / ".env").write_text(f"TRIBUNAL_ALLOW=code={own}:graph")
    *_, resumed, _, accepted = every_command(sound)
    assert (resumed.exit_code, accepted.exit_code) == (2, 2)
    assert f"TRIBUNAL_ALLOW=code={own}:graph" in accepted.stderr
    assert not (tmp_path / "ran").exists()
    # told before it is tried, not when it is to be decided
    assert run(*ALL, "--graph", "own.py:graph").exit_code == 2
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={own}:graph")
    assert run("review", "decide", threads(sound)["pending"], "--accept").exit_code == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["model", "judge_model"])
def test_a_stored_model_of_a_module_runs_only_where_the_operator_allows_it(
    name: str, docket: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"brought_as_{name}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    stored = json.dumps({name: f"{module}:PROVIDER:small", "review": True, "review_rule": ["all"]})
    altered(docket, f"UPDATE cases SET settings = '{stored}'", "DELETE FROM checkpoints")
    done = run("review", "resume", threads(sound)["pending"])
    check_exit(done, 2, f"TRIBUNAL_ALLOW=code={module}:PROVIDER")
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={module}:PROVIDER")
    run("review", "resume", threads(sound)["pending"])
    assert (tmp_path / "ran").exists()


def test_a_checkpoint_makes_no_object_of_its_choice(
    docket: Path, sound: Path, tmp_path: Path
) -> None:
    """As LangGraph's own serializer writes objects: the module, the name, and what it is called with."""
    call = ormsgpack.packb(["pathlib", "Path.touch", str(tmp_path / "ran")])
    with sqlite3.connect(docket) as held:
        for number in range(8):
            blob = _sealed(ormsgpack.Ext(number, call))
            held.execute(
                "UPDATE checkpoints SET checkpoint = ?, type = ?",
                (blob, "plain" if number % 2 else "msgpack"),
            )
            held.commit()
            assert run("review", "decide", threads(sound)["pending"], "--accept").exit_code == 2
    held.close()
    assert not (tmp_path / "ran").exists()
