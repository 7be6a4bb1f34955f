"""A checkout without symbolic links, as Git makes one on Windows: each link is a file that holds its target's path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT

ROOMS = ("commands", "eval", "experiments", "graphs", "nodes", "prompts", "retrievers", "service")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the project's source as `git -c core.symlinks=false clone` writes it."""
    folder = tmp_path / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "tribunal", folder / "tribunal", symlinks=True, ignore=unwanted)
    for room in ROOMS:
        shutil.copytree(PROJECT / room, folder / room, ignore=unwanted)
        link = folder / "tribunal" / room
        target = link.readlink()
        link.unlink()
        link.write_text(str(target))
    return folder


def run_in(checkout: Path, *words: str) -> str:
    """Return what Python prints in a checkout that it imports."""
    command = [sys.executable, "-c", "import tribunal; tribunal.main()", *words]
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "TRIBUNAL_DATA": str(checkout / "data"),
    }
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_checkout_without_links_judges(checkout: Path) -> None:
    record = json.loads(
        run_in(checkout, "judge", "Immigrants are vermin.", "--graph", "arcade", "--json")
    )
    assert (record["outcome"], record["rehearsed"]) == ("verdict", True)


@pytest.mark.long
def test_a_checkout_without_links_finds_its_prompts_policies_and_experiments(
    checkout: Path,
) -> None:
    assert "arcade/judge" in run_in(checkout, "prompts", "show")
    assert "[[fine]]" in run_in(checkout, "policy", "h-vli")
    assert "antihate-table2" in run_in(checkout, "experiment", "show")
