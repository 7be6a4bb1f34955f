"""The built wheel in a new environment, where the examples run: a project whose rooms are called as ours are, and a
system of one's own, which is a package with a wheel of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from mcp import Client

from tests import PROJECT
from tests.dev_server import dev_server
from tests.doubles import Answer, Request, ScriptedServer
from tests.eval.experiments.small_sets import write_small
from tests.openai_server import OpenAIServer

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("wheel")]

EXAMPLE = PROJECT / "examples" / "project"
SYSTEMS = [
    PROJECT / "examples" / name
    for name in ("system", "guard_models", "debate_to_detect", "debate_peers")
]


def build_wheel(project: Path, folder: Path) -> Path:
    """Return the wheel of a project, built into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(PROJECT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A new environment with the wheel in it, and those of the systems outside the core.

    What the wheel depends on is read from this environment, which has it.
    """
    systems = [str(build_wheel(each, tmp_path_factory.mktemp("system"))) for each in SYSTEMS]
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    place = "Scripts" if os.name == "nt" else "bin"
    found = str(folder / place / "python")
    install = [
        found,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        str(wheel),
        *systems,
    ]
    subprocess.run(install, check=True, env=clean())
    [site] = {Path(folder, *Path(path).parts[-3:]) for path in [sysconfig.get_path("purelib")]}
    # A path file names the folder alone: what lies in it, our own editable install, isn't looked at.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example project, with rooms of its own for all that we have rooms for."""
    folder = tmp_path_factory.mktemp("project") / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for room in ("prompts", "eval", "retrievers", "commands", "service"):
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text("")
    return folder


def clean() -> dict[str, str]:
    """An environment in which nothing leads to this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV"))
    }
    return {**kept, "TRIBUNAL_MODEL": "", "LANGSMITH_TRACING": "false"}


def run(python: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=clean(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_one_name_is_installed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"tribunal"}
    # What is no code has to come along: prompts, policies, perspectives, experiments, the report's templates.
    data = {
        "prompts": (".md", ".toml"),
        "retrievers": (".toml",),
        "eval": (".jinja",),
        "experiments": (".toml",),
    }
    for folder, suffix in (
        (folder, suffix) for folder, suffixes in data.items() for suffix in suffixes
    ):
        ours = {
            f"tribunal/{path.relative_to(PROJECT)}"
            for path in (PROJECT / folder).rglob(f"*{suffix}")
        }
        assert ours, suffix
        assert ours <= set(names)


def test_the_language_model_comes_with_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [
            archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")
        ]
        [licence] = [archive.read(name).decode() for name in names if "/licenses/tribunal/" in name]
    fields = metadata.partition("\n\n")[0].splitlines()
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-3.0" in fields
    assert "License-File: tribunal/core/language_model/LICENSE.md" in fields
    assert "https://creativecommons.org/licenses/by-sa/3.0/" in licence
    assert "tribunal/core/language_model/lid.176.ftz" in names


def test_a_post_is_judged_beside_rooms_of_the_same_names(python: str, project: Path) -> None:
    script = "import tribunal, graphs; print(tribunal.__file__, graphs.__file__);"
    script += "print(tribunal.judge('Hello').outcome)"
    files, outcome = run(python, project, "-c", script).splitlines()
    assert str(PROJECT) not in files
    assert str(project) in files.split()[1]
    assert outcome == "verdict"
    command = [
        "-m",
        "tribunal",
        "judge",
        "Good morning",
        "--graph",
        "graphs/glossary.py:graph",
        "--json",
    ]
    said = run(python, project, *command)
    assert json.loads(said)["outcome"] == "verdict"


def test_the_project_s_own_tests_need_nothing_but_pytest(python: str, project: Path) -> None:
    others = [
        f"no:{name}"
        for name in ("asyncio", "anyio", "socket", "xdist", "timeout", "langsmith_plugin")
    ]
    said = run(
        python,
        project,
        "-m",
        "pytest",
        "-W",
        "error",
        *(word for name in others for word in ("-p", name)),
    )
    assert re.search(r"=== 4 passed in ", said), said


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedServer]:
    """A model that finds hate wherever a post says that others should go home, and data folders of the test's own."""

    def script(request: Request) -> Answer:
        schema: Any = request.schema
        names = schema["properties"]["category"]["enum"]
        return {"explanation": "It says so.", "category": names["go home" in request.text]}

    with OpenAIServer(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        monkeypatch.setenv("TRIBUNAL_DATA", str(tmp_path / "data"))
        yield server


def test_a_system_of_one_s_own_is_treated_as_ours(
    python: str, tmp_path: Path, scripted: ScriptedServer
) -> None:
    asked = ["-m", "tribunal"]
    listed = run(python, tmp_path, *asked, "graphs", "two_annotators")
    assert listed.startswith("%% two_annotators: two annotators label a post apart from each other")

    model = [
        "--graph",
        "two_annotators",
        "--model",
        "openai:scripted",
        "--seat",
        "adjudicator=openai:large",
    ]
    record = json.loads(
        run(python, tmp_path, *asked, "judge", "They should go home.", *model, "--json")
    )
    assert (record["outcome"], record["category"], record["graph"]) == (
        "verdict",
        "Racist",
        "two_annotators",
    )
    assert [call["seat"] for call in record["calls"]] == ["first", "second"]
    assert record["prompts"]["name"] == "two_annotators"

    (tmp_path / "posts.csv").write_text(
        "text,label\nGood morning.,0\nThey should go home.,1\nI like tea.,0\n"
    )
    (tmp_path / "prices.toml").write_text('["openai:scripted"]\ninput = 1.0\noutput = 2.0\n')
    data = ["--dataset", "table", "--data", "posts.csv", "--scheme", "binary", "--out", "run"]
    measured = json.loads(
        run(
            python,
            tmp_path,
            *asked,
            "eval",
            *model,
            *data,
            "--prices",
            "prices.toml",
            "--workers",
            "2",
            "--json",
        )
    )
    assert measured["outcomes"] == {"positive": 1, "negative": 2}
    held = json.loads((tmp_path / "run" / "run.json").read_text())
    files = ("__init__.py", "court.py", "prompts/adjudicate.md", "prompts/annotate.md")
    assert {*held["code"]} == {f"two_annotators/{file}" for file in files}
    assert held["prompts"]["sha"] == record["prompts"]["sha"]
    run(python, tmp_path, *asked, "report", "run")
    assert "two_annotators" in (tmp_path / "run" / "report.md").read_text()

    sets = write_small(tmp_path / "sets")
    table = [
        "two-annotators-table1",
        "--data",
        f"h-vli={sets / 'h-vli'}",
        "--samples",
        "4",
        "--out",
        "runs",
        "--yes",
    ]
    run(python, tmp_path, *asked, "experiment", "run", *table, "--model", "openai:scripted")
    assert "| two annotators | measured here |" in (tmp_path / "runs" / "table.md").read_text()
    assert "[a]" not in (tmp_path / "runs" / "table.md").read_text()


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda path: path.name)
def test_a_system_s_own_tests_pass(python: str, tmp_path: Path, system: Path) -> None:
    shutil.copytree(
        system / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    assert " passed in " in run(
        python, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"
    )


def test_every_example_ends_in_a_verdict(python: str, tmp_path: Path) -> None:
    """CI runs the same script with the oldest and the newest LangGraph that pyproject.toml allows."""
    shutil.copytree(
        PROJECT / "examples",
        tmp_path / "examples",
        ignore=shutil.ignore_patterns("__pycache__", ".*"),
    )
    said = run(python, tmp_path, str(PROJECT / ".ci" / "run_examples.py"), "examples")
    files = {path.name for path in (PROJECT / "examples").glob("*.py")}
    assert files | {
        "debate_to_detect",
        "llama_guard",
        "two_annotators",
        "project/moderator",
    } <= set(said.split())
    assert all(
        ".ci/examples" in (PROJECT / ".ci" / name).read_text() for name in ("core", "lowest")
    )


@pytest.fixture(scope="module")
def url(python: str, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dev_server(project, tmp_path_factory.mktemp("server"), python) as address:
        yield address


async def test_the_project_s_own_graphs_run_on_the_dev_server(url: str) -> None:
    text = "Immigrants: the weeds in our garden."
    async with get_client(url=url) as client:
        done: Any = await client.runs.wait(None, "glossary", input={"text": text})
        message: Any = {"messages": [{"role": "user", "content": text}]}
        asked: Any = await client.runs.wait(None, "moderator", input=message)
    assert done["outcome"]["outcome"] == "verdict", done
    assert {each["id"] for each in done["evidence"]} == {"G1", "D1"}
    assert json.loads(asked["messages"][-1]["content"])["hateful"] is True


async def test_the_project_s_own_graphs_are_tools_for_other_agents(url: str) -> None:
    served = json.loads((EXAMPLE / "langgraph.json").read_text())["graphs"]
    async with Client(f"{url}/mcp") as agent:
        tools = (await agent.list_tools()).tools
        answer = await agent.call_tool("glossary", {"text": "Good morning."})
    assert {tool.name: tool.description for tool in tools} == {
        name: each["description"] for name, each in served.items()
    }
    assert "'outcome': 'verdict'" in answer.content[0].text  # type: ignore[union-attr]
