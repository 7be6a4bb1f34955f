"""Every path of every command, given something else than the file that is meant: one line, and the command ends."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from typer.testing import Result

from tests.commands.command_paths import (
    DATABASE,
    PASSED_OVER,
    UNREAD,
    Reading,
    path_parameters,
    readings,
)
from tests.commands.pipes import nobody_waits
from tests.commands.sound_files import make_sound_files
from tests.commands.test_judge import run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of sound files."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TRIBUNAL_DATA", str(folder / "data"))
        make_sound_files(folder)
    return folder


def put(path: Path, content: bytes) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


def broken_utf8(raw: bytes) -> bytes:
    """Half of a surrogate pair and a byte that UTF-8 doesn't have, between two letters."""
    at = next(iter(re.finditer(rb"[a-z]{3}", raw[len(raw) // 2 :])), None)
    place = len(raw) // 2 + (at.start() + 1 if at else 0)
    return raw[:place] + b"\xed\xa0\x80\xff" + raw[place:]


def long_number(raw: bytes, digits: int) -> bytes:
    """Each whole number, or the first column, with so many digits."""
    return re.sub(rb"(?<=[ :,\n\[=])\d+(?=[,\n}\] ])", b"9" * digits, raw) or b"9" * digits


def flipped(raw: bytes, bits: int) -> bytes:
    """So many bits turned over, in bytes that hold something; the same ones for the same content."""
    chance, held = random.Random(f"{bits} {len(raw)}"), bytearray(raw)
    places = [place for place, byte in enumerate(raw) if byte]
    for place in chance.choices(places, k=bits if places else 0):
        held[place] ^= 1 << chance.randrange(8)
    return bytes(held)


def turn_bits(bits: int, path: Path) -> None:
    put(path, flipped(path.read_bytes(), bits))


BITS = (1, 2, 5, 12, 30, 80, 300, 2000)
# Instead of the file; it can't be what is meant.
NO_FILE: dict[str, Callable[[Path], object]] = {
    "a pipe": lambda path: replace(path, os.mkfifo),
    "a device": lambda path: replace(path, lambda made: made.symlink_to("/dev/zero")),
    "another kind": lambda path: put(path, b"x") if path.is_dir() else replace(path, Path.mkdir),
}
# Instead of its content.
NO_CONTENT: dict[str, Callable[[Path], object]] = {
    "random bytes": lambda path: put(path, random.Random(1).randbytes(3000)),
    "nesting": lambda path: put(path, b"[" * 100_000),
}
# In its content, which may still be read, or be told.
DAMAGED: dict[str, Callable[[Path], object]] = {
    "no UTF-8": lambda path: put(path, broken_utf8(path.read_bytes())),
    "400 digits": lambda path: put(path, long_number(path.read_bytes(), 400)),
    "5000 digits": lambda path: put(path, long_number(path.read_bytes(), 5000)),
    "nothing": lambda path: put(path, b""),
    "half of it": lambda path: put(path, path.read_bytes()[: path.stat().st_size // 2]),
    **{f"{bits} bits": partial(turn_bits, bits) for bits in BITS},
}

DAMAGES = NO_FILE | NO_CONTENT | DAMAGED


def ended(reading: Reading, names: dict[str, str], folder: Path) -> Result:
    """The command's end, in this process; whatever escapes it fails the test, and so does a pipe that it opened."""
    arguments = [
        each.format(**names) if each.startswith("{") else each for each in reading.arguments
    ]
    with nobody_waits(folder) as waited_at:
        done = run(*arguments, given="")
    assert not waited_at
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"{arguments}: {done.exception!r}") from done.exception
    assert "Traceback" not in done.output
    if done.exit_code == 2 and "Usage: " not in done.stderr:
        *_, last = done.stderr.splitlines()
        assert last.startswith("tribunal: error: "), done.stderr
    return done


def names_of(sound: Path) -> dict[str, str]:
    """The ids of its cases."""
    with sqlite3.connect(sound / DATABASE) as held:
        waiting = held.execute("SELECT id FROM cases WHERE question IS NOT NULL").fetchone()[0]
        decided, policy = held.execute(
            "SELECT id, policy_sha FROM cases WHERE question IS NULL"
        ).fetchone()
    held.close()
    return {"waiting": waiting, "decided": decided, "policy": policy}


# All of them take half an hour: some with the long tests, the rest with the slow ones.
SOME = [
    each if place % 20 == 0 else pytest.param(each, marks=pytest.mark.slow)
    for place, each in enumerate(readings())
]


@pytest.mark.parametrize("reading", SOME, ids=str)
def test_every_path_of_every_command(
    reading: Reading, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_: None)
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", "any-token")
    names, faults, here = names_of(sound), list[str](), tmp_path / "here"
    for target, damage in trials(sound, reading):
        remove(here)
        shutil.copytree(sound, here, symlinks=True)
        monkeypatch.chdir(here)
        monkeypatch.setenv("TRIBUNAL_DATA", str(here / "data"))
        DAMAGES[damage](here / target.relative_to(sound))
        try:
            done = ended(reading, names, here)
            if (
                damage in DAMAGED
                or str(reading) in UNREAD
                or (damage in NO_CONTENT and str(reading) in PASSED_OVER)
            ):
                continue
            if target == sound / reading.path:
                assert done.exit_code != 0, f"status 0: {done.output[-300:]}"
            if done.exit_code == 2:
                told = done.output.replace("\n", " ")
                assert Path(reading.path).name in told or target.name in told, done.output[-500:]
        except AssertionError as error:
            faults.append(f"{damage} as {target.relative_to(sound)}: {str(error)[:600]}")
    assert not faults, "\n".join(faults)


def trials(sound: Path, reading: Reading) -> Iterator[tuple[Path, str]]:
    """What is damaged, and how. What another reading reads by the same code is damaged less."""
    root = sound / reading.path
    inner = sorted(each for each in root.rglob("*") if each.is_file()) if root.is_dir() else []
    for target in [root, *inner]:
        kinds = [*NO_FILE]
        if not target.exists():
            kinds.remove("another kind")
        elif target.is_file():
            few = [
                "random bytes",
                "nothing",
                *[f"{bits} bits" for bits in BITS] * (reading.path == DATABASE),
            ]
            kinds = (
                [*DAMAGES] if reading.first else [*kinds, *few] if target == root else ["a pipe"]
            )
        yield from ((target, each) for each in kinds)


def test_no_path_of_a_command_is_forgotten() -> None:
    assert path_parameters() - {f"{each.command} {each.parameter}" for each in readings()} == set()
