"""The shape of the house: who may import whom, and what stands in the files that name things twice."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from tests import PROJECT
from tests.dev_server import variables_of
from tribunal.graphs import GRAPHS, graph

# The floors, from the ground up: each room imports only rooms that stand before it here. A room is a
# folder, or a file beside the folders.
FLOORS = (
    "", "__main__", "errors", "typed_names", "core", "process", "trust", "plugins", "settings", "exhibit", "schema",
    "events", "tracing", "store", "store.migrations", "store.migrations.versions", "prompts", "models.providers",
    "models", "models.embeddings", "retrievers.indexes", "retrievers.perspectives", "retrievers.precedents",
    "retrievers.web.fetch", "retrievers.web.search", "retrievers.web", "retrievers", "nodes", "nodes.arcade",
    "nodes.predict", "nodes.antihate", "nodes.mv_debate", "nodes.peers", "nodes.court", "nodes.rehearsal", "graphs",
    "pieces", "explanations", "docket", "runner", "review", "testing", "eval.datasets", "eval.protocols", "eval.runs",
    "eval.ray", "eval.measures", "eval.report", "eval", "eval.annotation", "eval.cascade", "eval.experiments",
    "eval.export", "eval.compare", "service.telemetry", "service.replica", "service.routes", "service.dropins",
    "service.desk", "service", "commands",
)  # fmt: skip
ROOMS = ("prompts", "retrievers", "nodes", "graphs", "eval", "experiments", "service", "commands")
# Rooms that nothing else imports, each with the modules that may: its command. Ray is loaded by name alone.
OWN_ROOMS: dict[str, tuple[str, ...]] = {
    "eval.ray": (),
    "eval.annotation": ("commands.annotate",),
    "eval.cascade": ("commands.cascade",),
    "eval.export": ("commands.results",),
    "eval.compare": ("commands.compare",),
}
# A file that may be longer, with the reason. This list may only shrink.
LONGER: dict[str, str] = {
    "tribunal/docket/case_store.py": "the queue of cases, which is read as one",
    "tribunal/store/tables.py": "the tables of the database, one after the other",
}
MOST_LINES = 500
# Pages that tests write, and nobody else.
WRITTEN = ("docs/reference/commands.md", "tests/golden/")


def modules() -> dict[str, Path]:
    """Every module of the package by its name within `tribunal`; the package itself is the empty name."""
    folders = [PROJECT / "tribunal", *(PROJECT / room for room in ROOMS)]
    found = {}
    for folder in folders:
        base = folder if folder.name == "tribunal" else PROJECT
        for path in sorted(folder.rglob("*.py*")):
            if path.suffix not in (".py", ".pyi"):
                continue
            if not any(parent.is_symlink() for parent in path.parents):
                name = ".".join(path.relative_to(base).with_suffix("").parts)
                found[name.removesuffix("__init__").rstrip(".")] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    """The folder that a module lies in."""
    return (
        module
        if MODULES[module].name == "__init__.py" or "." not in module
        else module.rpartition(".")[0]
    )


def imports(module: str) -> set[str]:
    """The modules of ours that a module imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are absolute"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        else:
            continue
        for each in named:
            top, _, rest = each.partition(".")
            assert top not in ROOMS, (
                f"{module}: {each}: everything of ours is imported from `tribunal`"
            )
            if top == "tribunal":
                found.add(rest if rest in MODULES else rest.rpartition(".")[0])
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_each_floor_imports_only_floors_below(module: str) -> None:
    """The package itself is the door of the house: it names what lies on every floor, and loads it when it is used."""
    own = room(module)
    higher = [each for each in imports(module) if FLOORS.index(room(each)) > FLOORS.index(own)]
    assert not higher, f"{module} imports upward: {', '.join(higher)}"


@pytest.mark.long
@pytest.mark.parametrize("own", OWN_ROOMS)
def test_a_room_of_its_own_is_imported_by_its_command_alone(own: str) -> None:
    allowed = {*OWN_ROOMS[own], *(each for each in MODULES if room(each) in (own, "eval.bench"))}
    inside = {each for each in MODULES if room(each) == own}
    strangers = {
        each for each in MODULES if each and each not in allowed and imports(each) & inside
    }
    assert not strangers, f"{own} is imported by {', '.join(sorted(strangers))}; load it by name"


@pytest.mark.long
def test_no_files_import_each_other_in_a_circle() -> None:
    order = TopologicalSorter(
        {module: imports(module) for module in MODULES if module}
    ).static_order()
    try:
        assert len(list(order)) >= len(MODULES) - 1
    except CycleError as circle:
        pytest.fail(" → ".join(circle.args[1]))


def test_no_file_is_too_long_to_be_read_in_one_go() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [
        name
        for name in tracked
        if (PROJECT / name).is_file() and not name.startswith(("uv.lock", "LICENSE", *WRITTEN))
    ]
    lines = {name: len((PROJECT / name).read_bytes().splitlines()) for name in ours}
    long = {
        name
        for name, number in lines.items()
        if number > MOST_LINES and Path(name).suffix in (".py", ".md", ".jinja")
    }
    assert long == set(LONGER), "split the file, or take it from the list"


def bound(module: str) -> list[str]:
    """The names that a module binds at its top, once for each time; the overloads of a function count as one."""
    names = []
    for node in ast.parse(MODULES[module].read_text("utf-8")).body:
        if isinstance(node, ast.Assign):
            inside = [
                each
                for target in node.targets
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            ]
            names += [each.id for each in inside if isinstance(each.ctx, ast.Store)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names += (
                []
                if any(ast.unparse(each) == "overload" for each in node.decorator_list)
                else [node.name]
            )
    return names


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_no_name_is_bound_twice(module: str) -> None:
    """The second binding would change what functions above it do; ruff finds this among functions alone."""
    names = bound(module)
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"{module} binds {', '.join(sorted(twice))} more than once"


def test_nodes_init_holds_nothing_but_its_docstring() -> None:
    held = ast.parse((PROJECT / "nodes" / "__init__.py").read_text("utf-8")).body
    assert [type(each) for each in held] == [ast.Expr]


def test_langgraph_json_names_every_graph() -> None:
    named = json.loads((PROJECT / "langgraph.json").read_text())["graphs"]
    examples = [path.stem for path in sorted((PROJECT / "examples").glob("*.py"))]
    assert list(named)[: len(GRAPHS)] == list(GRAPHS)
    assert sorted(list(named)[len(GRAPHS) :]) == examples
    names = set()
    for name, served in named.items():
        place = served["path"]
        assert place == (
            f"./service/server_graphs.py:{name}"
            if name in GRAPHS
            else f"./examples/{name}.py:graph"
        )
        # What Studio shows, and what an agent is told of it as a tool.
        assert served["description"].startswith(
            "Decides whether a social-media post is hate speech, and says why. How: "
        )
        assert served["description"].endswith(f"{GRAPHS.get(name, '')}.")
        # Its name in Studio's list; agents call it as a tool by that name too, which holds for few characters.
        called = graph(name if name in GRAPHS else str(PROJECT / place)).name
        assert re.fullmatch("[A-Z][A-Za-z -]{5,30}", called), name
        names.add(called)
    assert len(names) == len(named)


def test_versions_agree() -> None:
    import tribunal

    assert (
        tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
        == tribunal.__version__
    )


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = ("langgraph", "langchain_core", "pydantic", "rich")
    script = (
        f"import sys, tribunal.commands; print([each for each in {heavy} if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert done.stdout.strip() == "[]"


EDGES = {
    "arcade": {
        ("__start__", "receive"), ("receive", "gatekeeper"), ("gatekeeper", "fast_track"), ("gatekeeper", "deep_dive"),
        ("fast_track", "judge"), ("deep_dive", "judge"), ("deep_dive", "__end__"), ("judge", "__end__"),
    },
    "multiround": {
        ("__start__", "receive"), ("receive", "deep_dive"), ("deep_dive", "judge"), ("deep_dive", "__end__"),
        ("judge", "__end__"),
    },
    "predict": {
        ("__start__", "receive"), ("receive", "convene"), ("convene", "perspectives"), ("convene", "annotate"),
        ("perspectives", "heard"), ("heard", "debate"), ("heard", "vote"), ("heard", "__end__"), ("debate", "judge"),
        ("judge", "__end__"), ("vote", "__end__"), ("annotate", "__end__"),
    },
    "perspectives": {("__start__", "recall"), ("recall", "perspective"), ("perspective", "__end__")},
    "debate": {
        ("__start__", "open_non_hate"), ("open_non_hate", "open_hate"), ("open_hate", "answer_non_hate"),
        ("open_hate", "__end__"), ("answer_non_hate", "answer_hate"), ("answer_hate", "__end__"),
    },
    "antihate": {
        ("__start__", "receive"), ("receive", "begin"), ("begin", "research"), ("begin", "conclude"),
        ("begin", "answer"), ("research", "conclude"), ("conclude", "__end__"), ("answer", "__end__"),
    },
    "research": {
        ("__start__", "propose"), ("propose", "search"), ("propose", "fetch"), ("propose", "__end__"),
        ("search", "choose"), ("choose", "fetch"), ("choose", "enough"), ("fetch", "read"), ("read", "weigh"),
        ("weigh", "read"), ("weigh", "enough"), ("enough", "propose"), ("enough", "__end__"),
    },
    "mv_debate": {
        ("__start__", "receive"), ("receive", "open"), ("open", "debate_round"), ("debate_round", "debate_round"),
        ("debate_round", "summarise"), ("debate_round", "__end__"), ("summarise", "__end__"),
    },
    "debate_round": {
        ("__start__", "call_round"), ("call_round", "view"), ("call_round", "__end__"), ("view", "compare"),
        ("compare", "score"), ("compare", "reflect"), ("compare", "__end__"), ("score", "select"),
        ("reflect", "select"), ("select", "revise"), ("select", "rescore"), ("select", "close"), ("select", "__end__"),
        ("revise", "rescore"),
        ("rescore", "close"), ("close", "__end__"),
    },
    "self_consistency": {
        ("__start__", "receive"), ("receive", "open"), ("open", "draw"), ("draw", "__end__"),
    },
    "symmetric_debate": {
        ("__start__", "receive"), ("receive", "open"), ("open", "next_round"), ("next_round", "speak"),
        ("next_round", "next_round"), ("next_round", "vote"), ("next_round", "__end__"), ("speak", "next_round"),
        ("vote", "__end__"),
    },
    "baseline": {("__start__", "receive"), ("receive", "classify"), ("classify", "__end__")},
    "tribunal": {
        ("__start__", "receive"), ("receive", "open_case"), ("open_case", "triage"), ("open_case", "gatekeeper"),
        ("open_case", "web"), ("open_case", "perspectives"), ("triage", "gatekeeper"), ("triage", "web"),
        ("triage", "perspectives"), ("triage", "review"), ("triage", "__end__"), ("gatekeeper", "assign"),
        ("open_case", "find_precedents"), ("triage", "find_precedents"), ("find_precedents", "assign"),
        ("web", "assign"), ("perspectives", "assign"), ("assign", "fast_track"), ("assign", "deep_dive"),
        ("fast_track", "judge"), ("deep_dive", "judge"), ("deep_dive", "review"), ("deep_dive", "__end__"),
        ("judge", "review"), ("judge", "__end__"), ("review", "gatekeeper"), ("review", "assign"),
        ("review", "__end__"),
    },
    "web": {("__start__", "look_up"), ("look_up", "research"), ("research", "report"), ("report", "__end__")},
    "fast_track": {("__start__", "indict"), ("indict", "defend"), ("defend", "__end__")},
    "deep_dive": {
        ("__start__", "investigate"), ("investigate", "defend"), ("investigate", "dismiss"),
        ("investigate", "__end__"), ("defend", "prosecute"), ("defend", "__end__"), ("defend", "rest"),
        ("prosecute", "defend"), ("prosecute", "rest"), ("rest", "__end__"), ("dismiss", "__end__"),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_wiring(name: str) -> None:
    from importlib import import_module

    drawn = import_module(f"tribunal.graphs.{name}").graph.get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == EDGES[name]


@pytest.mark.parametrize("name", EDGES)
def test_routers_are_functions_of_the_state_alone(name: str) -> None:
    """Whoever edits a case from outside of a run has its routers run with the state, and without a runtime."""
    from importlib import import_module

    branches = import_module(f"tribunal.graphs.{name}").builder.branches
    routers = [branch.path.afunc for each in branches.values() for branch in each.values()]
    assert [list(inspect.signature(router).parameters) for router in routers] == [["state"]] * len(
        routers
    )


@pytest.mark.parametrize("name", EDGES)
def test_every_way_is_drawn_with_what_has_to_be_so(name: str) -> None:
    """A router names conditions, and the wiring says where each leads: both name the same ones."""
    from importlib import import_module

    module = import_module(f"tribunal.graphs.{name}")
    drawn = {
        (edge.source, edge.target): edge.data
        for edge in module.graph.get_graph().edges
        if edge.conditional
    }
    for start, branches in module.builder.branches.items():
        for branch in branches.values():
            for condition, node in branch.ends.items():
                assert len(condition) > 2
                assert condition != node
                assert drawn[start, node] == condition
            said = get_type_hints(branch.path.afunc)["return"]
            named = {
                each
                for part in (said, *get_args(said))
                if get_origin(part) is Literal
                for each in get_args(part)
            }
            listed = any(get_origin(part) is list for part in (said, *get_args(said)))
            assert named <= set(branch.ends)
            assert listed or named == set(branch.ends)


@pytest.mark.long
def test_json_and_toml_of_others_are_read_in_one_place() -> None:
    """Elsewhere a text that is nested too deeply would be a `RecursionError`, which nobody expects."""
    own = ("testing", "commands.doctor")
    loose = []
    for name, path in MODULES.items():
        if name == "core.text" or name.startswith(own):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                spelled = f"{node.value.id}.{node.attr}"
                if spelled in ("json.loads", "json.load", "tomllib.loads", "tomllib.load"):
                    loose.append(f"{name}, line {node.lineno}: {spelled}")
    assert not loose, "use tribunal.core.text: " + "; ".join(loose)


@pytest.mark.long
def test_the_image_that_langgraph_builds_reads_what_langgraph_json_says(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    command = [
        sys.executable,
        "-m",
        "langgraph_cli",
        "dockerfile",
        str(file),
        "-c",
        str(PROJECT / "langgraph.json"),
    ]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    served = variables_of(file)
    assert (
        json.loads(served["LANGSERVE_GRAPHS"]).keys()
        == json.loads((PROJECT / "langgraph.json").read_text())["graphs"].keys()
    )
    assert json.loads(served["LANGGRAPH_HTTP"])["app"].endswith("service/mounted.py:app")
    # The image is built from this folder, without what .dockerignore keeps out.
    let_in = {
        line[1:]
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    paths = [each["path"] for each in json.loads(served["LANGSERVE_GRAPHS"]).values()]
    folders = {path.removeprefix(f"/deps/{PROJECT.name}/").split("/")[0] for path in paths}
    assert folders == {"service", "examples"}
    assert folders <= let_in
