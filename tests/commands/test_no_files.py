"""Pipes, devices and damaged databases where a command reads a file: one line, and nobody waits.

These few are in the short suite. test_command_paths.py tries every path of every command.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.commands.pipes import nobody_waits
from tests.commands.test_judge import run
from tests.court import court_script, part
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tests.result_lines import answers, write_run

REHEARSED = ("judge", "Good morning.", "--model", "rehearsal", "--json")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("report", "results.jsonl"),
        ("report", "run.json"),
        ("report", "prices.json"),
        ("fit", "results.jsonl"),
    ],
)
def test_a_pipe_in_a_run_keeps_nobody_waiting(command: str, name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("0101", "0101"))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with nobody_waits(tmp_path) as waited_at:
        done = run(command, str(folder))
    assert not waited_at
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert name in done.stderr
    assert "is not a regular file" in done.stderr


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")], ids=["pipe", "device"]
)
def test_a_price_table_that_is_no_file_is_refused_before_the_run(
    make: object, tmp_path: Path
) -> None:
    assert callable(make)
    (tmp_path / "posts.csv").write_text("id,text\na,hello\n")
    make(tmp_path / "prices.toml")
    for command in (
        ["batch", "posts.csv", "--out", "out.jsonl"],
        ["eval", "--dataset", "table", "--data", "posts.csv", "--out", "out"],
    ):
        with nobody_waits(tmp_path) as waited_at:
            done = run(*command, "--prices", "prices.toml")
        assert not waited_at
        assert (done.exit_code, "prices.toml: is not a regular file" in done.stderr) == (2, True), (
            done.output
        )


def test_a_device_that_is_named_for_output_stays_one(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text(run(*REHEARSED).stdout)
    (tmp_path / "out.md").symlink_to("/dev/null")
    done = run("explain", str(record), "--out", "out.md")
    assert (done.exit_code, "out.md" in done.stderr) == (2, True), done.output
    assert (tmp_path / "out.md").is_char_device()


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_of_many_digits_is_told_with_its_line(digits: int, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("01", "01"))
    held = (
        (folder / "results.jsonl")
        .read_text("utf-8")
        .replace('"label": 1', f'"label": {"9" * digits}')
    )
    (folder / "results.jsonl").write_text(held, "utf-8")
    done = run("report", str(folder), "--tables")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert "results.jsonl: line 2: " in done.stderr


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a kept verdict."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIBUNAL_DATA", str(folder))
        assert run(*REHEARSED, "--keep").exit_code == 0
    return folder / "service.sqlite"


def damage(database: Path, *replaced: tuple[bytes, bytes]) -> None:
    """Change bytes of a database wherever they stand."""
    raw = database.read_bytes()
    for old, new in replaced:
        assert old in raw
        raw = raw.replace(old, new)
    database.write_bytes(raw)


# What the schema says, which SQLite then repeats in its error, and what a row holds.
SCHEMA = (b"CREATE TABLE cases", b"CREATE TABL\xc2 cases")
ROW = (b'"outcome": "verdict"', b'"outcome"\x01 "verdict"')


@pytest.mark.parametrize(
    ("command", "spot"),
    [
        (["cases", "list"], SCHEMA),
        (["audit", "verify"], SCHEMA),
        (["review", "list"], SCHEMA),
        (["cases", "export", "--out", "out.csv"], ROW),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_damaged_database_is_told_in_one_line(
    command: list[str], spot: tuple[bytes, bytes], kept: Path
) -> None:
    folder = Path(os.environ["TRIBUNAL_DATA"])
    folder.mkdir()
    database = Path(shutil.copy(kept, folder))
    damage(database, spot)
    done = run(*command)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert f"{database}: can't be used: it is damaged" in done.stderr


@pytest.mark.parametrize("how", ["--keep", "--review"])
def test_a_database_that_is_damaged_while_a_post_is_judged_loses_no_verdict(how: str) -> None:
    """The damage is there when the last answer comes, so that the verdict can't be written down."""
    database = Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite"

    said = court_script(
        explicit=True, judge={"category": "Religious", "explanation": "words", "confidence": 0.4}
    )

    def script(request: Request) -> Reply | Fault:
        if part(request) == "judge":
            damage_it()
        return said(request)

    def damage_it() -> None:
        with sqlite3.connect(database) as held:
            held.execute("PRAGMA writable_schema=ON")
            held.execute(
                "UPDATE sqlite_master SET sql = CAST(x'ff00fe' AS TEXT) WHERE name = 'cases'"
            )
            held.execute("PRAGMA schema_version=7")
        held.close()

    assert run("service", "migrate").exit_code == 0
    with OpenAIServer(script):
        done = run("judge", "post-words", "--model", "openai:scripted", how, "--json")
    assert done.exit_code == 4, done.output
    record = json.loads(done.stdout)
    assert (record["outcome"], record["category"]) == ("verdict", "Religious")
    assert any("could not be kept" in each for each in record["warnings"]), record["warnings"]
