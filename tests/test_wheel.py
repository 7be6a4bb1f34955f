"""The built wheel, installed into a new environment beside a project that has rooms of the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests import PROJECT
from tests.dev_server import dev_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("wheel")]

MINE = '''
"""A graph of the project's own: a node of its own before the court's deep dive."""

from langgraph.graph import END, START, StateGraph

from nodes.glossary import look_up
from tribunal.graphs import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, receive

builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("look_up", look_up)
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "look_up")
builder.add_edge("look_up", "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)

graph = checked(builder).compile(name="mine")
'''
GLOSSARY = """
from prompts import TITLE
from tribunal.graphs import Case, Evidence, piece


@piece(needs=["post"], writes=["evidence"])
async def look_up(state: Case) -> Case:
    return {"evidence": [Evidence.of("G1", "Said of people, weeds is an old image.", "supports", TITLE)]}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A new environment with the wheel in it. What the wheel depends on is read from this environment, which has it."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    place = "Scripts" if os.name == "nt" else "bin"
    found = str(folder / place / "python")
    install = [found, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, env=clean())
    [site] = {Path(folder, *Path(path).parts[-3:]) for path in [sysconfig.get_path("purelib")]}
    # A path file names the folder alone: what lies in it, our own editable install, isn't looked at.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for room in ("nodes", "graphs", "prompts", "eval", "retrievers", "commands"):
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text("TITLE = 'my glossary'\n" if room == "prompts" else "")
    (folder / "nodes" / "glossary.py").write_text(GLOSSARY)
    (folder / "graphs" / "mine.py").write_text(MINE)
    served = {"dependencies": ["."], "graphs": {"mine": "./graphs/mine.py:graph"}}
    (folder / "langgraph.json").write_text(json.dumps(served))
    return folder


def clean() -> dict[str, str]:
    """An environment in which nothing leads to this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV"))}
    return {**kept, "TRIBUNAL_MODEL": "", "LANGSMITH_TRACING": "false"}


def run(python: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run([python, *arguments], cwd=folder, env=clean(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_one_name_is_installed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"tribunal"}
    # What is no code has to come along: prompts, policies, perspectives, the report's templates.
    for folder, suffix in (("prompts", ".md"), ("prompts", ".toml"), ("retrievers", ".toml"), ("eval", ".jinja")):
        ours = {f"tribunal/{path.relative_to(PROJECT)}" for path in (PROJECT / folder).rglob(f"*{suffix}")}
        assert ours, suffix
        assert ours <= set(names)


def test_a_post_is_judged_beside_rooms_of_the_same_names(python: str, project: Path) -> None:
    script = "import tribunal, graphs; print(tribunal.__file__, graphs.__file__);"
    script += "print(tribunal.judge('Hello').outcome)"
    files, outcome = run(python, project, "-c", script).splitlines()
    assert str(PROJECT) not in files
    assert str(project) in files.split()[1]
    assert outcome == "verdict"
    said = run(python, project, "-m", "tribunal", "judge", "Good morning", "--graph", "graphs/mine.py:graph", "--json")
    assert json.loads(said)["outcome"] == "verdict"


@pytest.fixture(scope="module")
def url(python: str, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dev_server(project, tmp_path_factory.mktemp("server"), python) as address:
        yield address


async def test_the_project_s_own_graph_runs_on_the_dev_server(url: str) -> None:
    async with get_client(url=url) as client:
        thread = await client.threads.create()
        text = "Immigrants: the weeds in our garden."
        done: Any = await client.runs.wait(thread["thread_id"], "mine", input={"text": text})
    assert done["outcome"]["outcome"] == "verdict", done
    assert [each["title"] for each in done["evidence"]] == ["my glossary"]
