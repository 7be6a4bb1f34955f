"""The shape of the house: who may import whom, and what stands in the files that name things twice."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import PROJECT
from tribunal.graphs import GRAPHS, graph

FLOORS = {"prompts": 0, "ground": 0, "retrievers": 1, "nodes": 2, "graphs": 3, "eval": 4, "commands": 5, "tribunal": 5}
# The ground lies in nodes/, and any floor may stand on it (DESIGN.md).
GROUND = {
    "schema", "context", "model", "errors", "answer", "cache", "faults", "image", "keys", "loops", "openai_chat",
    "providers", "rehearsal", "rehearsal_views", "line_up", "threshold",
}  # fmt: skip


def floor(module: str) -> int | None:
    top, _, rest = module.partition(".")
    if top == "nodes" and rest.partition(".")[0] in GROUND:
        return FLOORS["ground"]
    return FLOORS.get(top)


def modules() -> list[tuple[str, Path]]:
    found = [("tribunal", PROJECT / "tribunal.py")]
    for package in ("prompts", "retrievers", "nodes", "graphs", "eval", "commands"):
        for path in sorted((PROJECT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
            found.append((dotted, path))
    return found


@pytest.mark.parametrize(("module", "path"), modules(), ids=[name for name, _ in modules()])
def test_each_floor_imports_only_floors_below(module: str, path: Path) -> None:
    own = floor(module)
    assert own is not None
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "nodes" else [node.module]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
            assert "eval" not in named, "never `import eval`; import from it"
        else:
            continue
        for each in named:
            other = floor(each)
            assert other is None or other <= own, f"{module} (floor {own}) imports {each} (floor {other})"


def test_nodes_init_stays_empty() -> None:
    assert (PROJECT / "nodes" / "__init__.py").read_text() == ""


def test_langgraph_json_names_every_graph() -> None:
    named = json.loads((PROJECT / "langgraph.json").read_text())["graphs"]
    examples = [path.stem for path in sorted((PROJECT / "examples").glob("*.py"))]
    assert list(named)[: len(GRAPHS)] == list(GRAPHS)
    assert sorted(list(named)[len(GRAPHS) :]) == examples
    for name, place in named.items():
        folder = "graphs" if name in GRAPHS else "examples"
        assert place == f"./{folder}/{name}.py:graph"
        assert graph(name if name in GRAPHS else str(PROJECT / place)).name == name


def test_versions_agree() -> None:
    import tribunal

    assert tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"] == tribunal.__version__


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = ("langgraph", "langchain_core", "pydantic", "rich")
    script = f"import sys, tribunal.commands; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT)
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
        ("reflect", "select"), ("select", "revise"), ("select", "close"), ("select", "__end__"), ("revise", "rescore"),
        ("rescore", "close"), ("close", "__end__"),
    },
    "self_consistency": {
        ("__start__", "receive"), ("receive", "open"), ("open", "sample"), ("sample", "__end__"),
    },
    "symmetric_debate": {
        ("__start__", "receive"), ("receive", "open"), ("open", "next_round"), ("next_round", "speak"),
        ("next_round", "vote"), ("next_round", "__end__"), ("speak", "next_round"), ("vote", "__end__"),
    },
    "baseline": {("__start__", "receive"), ("receive", "classify"), ("classify", "__end__")},
    "tribunal": {
        ("__start__", "receive"), ("receive", "open_case"), ("open_case", "triage"), ("open_case", "gatekeeper"),
        ("open_case", "web"), ("open_case", "perspectives"), ("triage", "gatekeeper"), ("triage", "web"),
        ("triage", "perspectives"), ("triage", "review"), ("triage", "__end__"), ("gatekeeper", "assign"),
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
