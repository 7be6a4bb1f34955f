"""The examples of docs/composing.md and docs/own_agents.md, run one after the other in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import PROJECT
from tests.dev_server import dev_server

PAGE = "".join(
    (PROJECT / "docs" / name).read_text("utf-8") for name in ("composing.md", "own_agents.md")
)
ADDRESS = "http://127.0.0.1:2024"  # of `langgraph dev`
# What others copy from the page.
COPIED = ("feed.py", "graphs/hybrid.py", "ask.py", "own_model.py", "fork.py", "client.py")
_BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<file>[\w/.]+)")?\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A block of the page: a file with a title, a command, or what the block before it prints."""

    kind: str
    file: str | None
    text: str


BLOCKS = [Block(*found.group("kind", "file", "text")) for found in _BLOCK.finditer(PAGE)]


def output_after(number: int) -> str | None:
    """What the page says that a block prints; None if it says nothing."""
    after = BLOCKS[number + 1 : number + 2]
    return after[0].text if after and after[0].kind == "text" else None


def write_files(folder: Path) -> None:
    """Write each file where its title says."""
    for block in BLOCKS:
        if block.file:
            path = folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.with_name("__init__.py").touch()
            path.write_text(block.text, "utf-8")


def environment_of(folder: Path) -> dict[str, str]:
    """The rooms of this repository lie on the path here, and not where the wheel is installed: the example's first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}


@pytest.mark.long
def test_every_example_runs(tmp_path: Path) -> None:
    """Commands are run as they stand, and print what the page shows."""
    assert len(BLOCKS) == PAGE.count("\n```") / 2
    write_files(tmp_path)
    for number, block in enumerate(BLOCKS):
        if block.kind != "sh":
            assert block.file or block.kind == "text", block.text
            continue
        command = ["sh", "-ec", block.text]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment_of(tmp_path), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        assert output_after(number) in (None, done.stdout), block.text


@pytest.mark.server
@pytest.mark.xdist_group("server composing")
def test_the_deployment_answers_its_client(tmp_path: Path) -> None:
    write_files(tmp_path)
    [number] = [number for number, block in enumerate(BLOCKS) if block.file == "client.py"]
    assert ADDRESS in BLOCKS[number].text
    with dev_server(tmp_path, tmp_path) as url:
        client = [sys.executable, "-c", BLOCKS[number].text.replace(ADDRESS, url)]
        done = subprocess.run(client, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (output_after(number), 0), done.stderr


@pytest.mark.parametrize("file", COPIED)
def test_what_others_copy_is_short_and_shows_its_output(file: str) -> None:
    [number] = [number for number, block in enumerate(BLOCKS) if block.file == file]
    assert BLOCKS[number].text.count("\n") <= 30
    shown = number if BLOCKS[number + 1].kind == "text" else number + 1
    assert output_after(shown)
