"""A run is tied to the code of its graph: to every module of the graph's project that it imports, and to no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.own_pipelines import JUDGE, RIGHT, post_saying
from tribunal.commands import app
from tribunal.runner.pins import hash_code

# It finds its modules where it lies, wherever it is run from.
IMPORTING = f"""import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import helper  # noqa: E402
{JUDGE.replace("return json", "from parts.later import NAME; return json")}"""
FILES = {
    "pyproject.toml": "",
    "mine.py": IMPORTING,
    "helper.py": "from deeper.inside import WORD\n",
    "deeper/inside.py": "WORD = 'one'\n",  # a folder without an __init__.py
    "parts/__init__.py": "",
    "parts/later.py": "NAME = 'one'\n",
    "parts/by_name.py": "",  # which may be imported by a name that is worked out
    "prompts/mine.md": "Decide.\n",
    "unrelated.py": "",
    "notes.md": "",
}
PINNED = [name for name in FILES if name not in ("pyproject.toml", "unrelated.py", "notes.md")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, words in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words, "utf-8")
    return tmp_path / "project"


def evaluated(project: Path, posts: int) -> Any:
    rows = "".join(
        json.dumps({"id": f"p{n}", "text": post_saying(RIGHT), "label": 1}) + "\n" for n in range(3)
    )
    (project.parent / "posts.jsonl").write_text(rows)
    out = project.parent / "run"
    command = ["eval", "--dataset", "table", "--data", str(project.parent / "posts.jsonl"), "--out", str(out),
               "--graph", f"{project / 'mine.py'}:graph"]  # fmt: skip
    done = CliRunner().invoke(app, command)
    if posts:  # as if it had been stopped there
        lines = (out / "results.jsonl").read_bytes().splitlines(keepends=True)[:posts]
        (out / "results.jsonl").write_bytes(b"".join(lines))
    return done


def test_what_a_graph_is_made_of(project: Path) -> None:
    assert sorted(hash_code(f"{project / 'mine.py'}:graph")) == sorted(PINNED)
    assert hash_code("arcade") == {}


@pytest.mark.parametrize(
    "name", ["helper.py", "deeper/inside.py", "parts/later.py", "prompts/mine.md"]
)
def test_a_changed_module_is_refused_by_name(project: Path, name: str) -> None:
    assert evaluated(project, posts=1).exit_code == 0
    with (project / name).open("a") as file:
        file.write("\n# changed\n")
    refused = evaluated(project, posts=0)
    assert refused.exit_code == 2
    assert f"its run was begun otherwise: {name}: its content differs" in " ".join(
        refused.output.split()
    )


def test_a_file_that_has_no_part_in_it_may_change(project: Path) -> None:
    assert evaluated(project, posts=1).exit_code == 0
    (project / "unrelated.py").write_text("changed = True\n")
    (project / "another.py").write_text("")
    done = evaluated(project, posts=0)
    assert done.exit_code == 0, done.output
    assert "3 decided" in " ".join(done.output.split()) or "1 before" in done.output


def test_a_module_that_is_gone_or_new_is_refused_by_name(project: Path) -> None:
    assert evaluated(project, posts=1).exit_code == 0
    (project / "helper.py").write_text("import unrelated\n")
    words = " ".join(evaluated(project, posts=0).output.split())
    assert "deeper/inside.py: it is imported no more" in words
    assert "helper.py: its content differs" in words
    assert "unrelated.py: it is imported since" in words


def test_a_module_by_name_and_its_package(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(project))
    assert sorted(hash_code("parts.later:graph")) == [
        "parts/__init__.py",
        "parts/by_name.py",
        "parts/later.py",
    ]
