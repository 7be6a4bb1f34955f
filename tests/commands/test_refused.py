"""A setting that would do nothing is refused: by every graph, on the command line, from Python and in a run."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, get_args

import pytest

import tribunal
import tribunal.settings.graph_settings
import tribunal.settings.mixins
from tests.commands.test_judge import run
from tests.commands.test_options import VALUES, settings_of
from tests.marked import first_then_long
from tribunal.errors import BadInput
from tribunal.eval.protocols.following import RunRequest, follow_protocol
from tribunal.graphs import GRAPHS, graph
from tribunal.settings.base import GRAPH_SETTINGS
from tribunal.settings.context import Context, context_from
from tribunal.settings.graph_settings import MODES, SEATS, SETTINGS
from tribunal.settings.names import KINDS, Mode
from tribunal.settings.systems import seats_in

POST = "Good morning, everybody."
# Each is refused by its own rule, by seat or by mode, below.
BY_VALUE = {"mode", "seats", "temperatures"}
UNHEEDED = {
    name: [
        each
        for each, words in SETTINGS.items()
        if words.graphs and name not in words.graphs and each not in BY_VALUE
    ]
    for name in GRAPHS
}
# For each rule of the classes' `idle_settings`, by its reason: what makes it so, and what makes it otherwise.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing is looked up": ({}, {"web": True}),
    "no perspective is used": ({}, {"perspectives": ["all"]}),
    "triage is off": ({}, {"triage": "rehearsal"}),
    "nothing is reviewed": ({}, {"review": True}),
    "the mode criterion-only shows": ({"mode": "criterion-only"}, {}),
    "the mode base hears": ({"mode": "base"}, {"mode": "single"}),
    "only the mode base has": ({}, {"mode": "base"}),
    "there is no debate": ({"mode": "majority"}, {}),
    "this mode makes one call": ({"mode": "zero-shot"}, {}),
    "only the mode zero-shot has": ({}, {"mode": "zero-shot"}),
    "in the mode zero-shot the classifier": ({"mode": "zero-shot"}, {}),
    "the mode no-search asks": ({"mode": "no-search"}, {}),
    "no SearXNG server": ({"search": "duckduckgo"}, {"search": "none,searxng"}),
    "nothing is replayed": ({}, {"search": "replay:a.sqlite"}),
    "the mode zero-shot is always binary": ({"mode": "zero-shot"}, {}),
    "the judge is drawn once": ({}, {"judge_draws": 3}),
    "nothing is revised": ({"reflection_mode": "none"}, {"reflection_mode": "always"}),
    "no store of precedents": ({}, {"precedents": "ours"}),
    "translations of the policy have": ({"policy_language": "post"}, {}),
    "no gain is asked for": ({"reflection_mode": "always"}, {}),
}
# What must be so besides, in the graph tribunal, before the other reason counts.
BESIDES: dict[str, dict[str, Any]] = {
    "the mode criterion-only shows": {"perspectives": ["all"]},
    "the mode no-search asks": {"web": True},
    "no SearXNG server": {"web": True},
    "nothing is replayed": {"web": True},
}


def value_of(name: str) -> Any:
    if name.startswith("seats."):
        return "rehearsal"
    if name.startswith("temperatures."):
        return 0.5
    return settings_of("--set", f"{name}={VALUES[name]}")[name]


def given(name: str, value: Any, *others: dict[str, Any]) -> dict[str, Any]:
    """Settings with this one, which may be one seat of a table."""
    settings = {key: each for other in others for key, each in other.items()}
    table, dot, seat = name.partition(".")
    if dot:
        return {**settings, table: {**settings.get(table, {}), seat: value}}
    return {**settings, name: value}


# By the command, some in CI; in Python below, all.
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("tribunal", "predict") else pytest.param(name, marks=pytest.mark.slow)
        for name in GRAPHS
    ],
)
def test_the_command_refuses_what_a_graph_would_overlook(name: str) -> None:
    for each in UNHEEDED[name]:
        done = run("judge", POST, "--graph", name, "--set", f"{each}={VALUES[each]}")
        assert (done.exit_code, done.stdout) == (2, ""), each
        assert f"tribunal: error: {each}: " in done.stderr
        assert all(
            heeding in done.stderr
            for heeding in (*SETTINGS[each].graphs, f"{name} has no use for it")
        )


@pytest.mark.parametrize("name", first_then_long(GRAPHS, shown=2))
async def test_python_refuses_it_too_on_the_graph_itself(name: str) -> None:
    for each in UNHEEDED[name]:
        settings = {each: value_of(each)}
        with pytest.raises(BadInput, match=f"^{each}: .* is a setting of the graph"):
            await tribunal.ajudge(POST, graph=name, **settings)
        with pytest.raises(BadInput, match=f"^{each}: "):
            await graph(name).ainvoke({"text": POST}, context=context_from(settings))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_mode_of_another_graph_is_refused_with_the_graphs_that_have_it(name: str) -> None:
    for mode in {*get_args(Mode)} - {*MODES.get(name, ("full",))}:
        done = run("judge", POST, "--graph", name, "--set", f"mode={mode}")
        assert done.exit_code == 2
        assert f"mode: {mode!r}: is a mode of the graph" in done.stderr
        assert all(each in done.stderr for each, modes in MODES.items() if mode in modes)


def test_every_mode_and_every_seat_is_of_some_graph() -> None:
    assert {mode for modes in MODES.values() for mode in modes} == {*get_args(Mode)}
    assert {*KINDS} < {*SEATS}
    assert all(seats_in(name) for name in GRAPHS)
    assert MODES.keys() == {*SETTINGS["mode"].graphs}


@pytest.mark.parametrize("name", first_then_long(GRAPHS, shown=2))
def test_a_seat_of_another_graph_is_refused(name: str) -> None:
    for seat in {*SEATS} - {*seats_in(name)}:
        for options in (["--seat", f"{seat}=rehearsal"], ["--set", f"temperatures.{seat}=0.5"]):
            done = run("judge", POST, "--graph", name, *options)
            assert done.exit_code == 2
            assert (
                f".{seat}: nobody of that name sits in {name}; it is a seat of the graph"
                in done.stderr
            )


@pytest.mark.parametrize("name", GRAPHS)
async def test_the_seats_of_a_graph_are_those_that_are_asked(name: str) -> None:
    asked = set()
    for mode in MODES.get(name, ("full",)):
        if name == "tribunal" or mode in ("single", "leave-out"):
            continue
        for text in (POST, "Immigrants: the weeds in our garden."):
            settings: dict[str, Any] = {
                "mode": mode,
                **(
                    {"search": "none"}
                    if name == "antihate" and mode in ("full", "no-details")
                    else {}
                ),
            }
            record = await tribunal.ajudge(text, graph=name, **settings)
            asked |= {call.seat.partition(":")[0] for call in record.calls}
    if name == "tribunal":
        both: dict[str, Any] = {
            "triage": "rehearsal",
            "perspectives": ["example-harm"],
            "web": True,
            "search": "none",
        }
        for text in (POST, "Immigrants are vermin."):
            asked |= {
                call.seat.partition(":")[0] for call in (await tribunal.ajudge(text, **both)).calls
            }
    assert asked == {*seats_in(name)}


def idle_settings(name: str, reason: str) -> dict[str, str]:
    """The settings that are idle in a graph for a reason where it holds, each with the whole of the reason."""
    besides = BESIDES.get(reason, {}) if name == "tribunal" else {}
    found: dict[str, str] = {}
    for mode in ("full", "no-details", "examples-only"):
        values = {"mode": mode, **besides, **CASES[reason][0]}
        kind = GRAPH_SETTINGS[name]
        own = kind.model_construct(
            **{key: value for key, value in values.items() if key in kind.model_fields}
        )
        rules = [(names, why) for names, why in own.idle_settings() if why.startswith(reason)]
        found |= {each: why for names, why in rules for each in names}
    return found


def test_every_rule_is_tried() -> None:
    held = {
        (reason, name, why)
        for reason in CASES
        for name in GRAPHS
        for why in idle_settings(name, reason).values()
    }
    assert {reason for reason, _, _ in held} == {*CASES}
    sources = [
        inspect.getsource(module)
        for module in (tribunal.settings.graph_settings, tribunal.settings.mixins)
    ]
    rules = sum(
        isinstance(node, ast.Yield) for source in sources for node in ast.walk(ast.parse(source))
    )
    of_modes = 2  # the mode is idle without the web, and without a panel, for the same reason as what it goes with
    assert rules == len({why for _, _, why in held}) + of_modes, "a rule has no case"


@pytest.mark.parametrize("reason", CASES)
def test_a_setting_that_needs_another_is_refused_without_it(reason: str) -> None:
    without_it, with_it = CASES[reason]
    for name in GRAPHS:
        besides = BESIDES.get(reason, {}) if name == "tribunal" else {}
        for each, why in idle_settings(name, reason).items():
            if each == "mode":
                mode = "no-details" if "web" in why else "examples-only"
                refused, taken = {"mode": mode}, {"mode": mode, **with_it}
            else:
                value = value_of(each)
                refused, taken = (
                    given(each, value, besides, case) for case in (without_it, with_it)
                )
            if each == "search" and reason == "nothing is looked up":
                refused["search"] = "none"
            found = dict(GRAPH_SETTINGS[name].find_unused(context_from(refused)))
            assert why in found[each], (name, each, found)
            assert why not in dict(GRAPH_SETTINGS[name].find_unused(context_from(taken))).get(
                each, ""
            ), (name, each)


@pytest.mark.parametrize("name", GRAPHS)
async def test_all_defaults_at_once_are_taken_as_studio_sends_them(name: str) -> None:
    context = Context.model_validate(
        {**Context().model_dump(), **({"search": "none"} if name == "antihate" else {})}
    )
    assert (await graph(name).ainvoke({"text": POST}, context=context))["outcome"][
        "outcome"
    ] == "verdict"


def test_a_run_is_refused_before_its_folder_is_made(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("id,text,label\na,hello,0\n")
    for command in (
        ["eval", "--dataset", "table", "--data", "posts.csv", "--out", "run", "--graph", "arcade"],
        ["batch", "posts.csv", "--out", "run.jsonl", "--graph", "arcade"],
    ):
        done = run(*command, "--set", "tau=0.5")
        assert (done.exit_code, "tau: 0.5: is a setting of the graph mv_debate" in done.stderr) == (
            2,
            True,
        ), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["posts.csv"]


def test_what_a_protocol_sets_gives_way_where_a_run_s_own_setting_leaves_it_without_effect() -> (
    None
):
    asked = RunRequest(dataset="kold", graph="predict", settings={"mode": "base"})
    followed = follow_protocol("predict-table6/four", asked)
    assert followed.settings["mode"] == "base"
    assert not followed.settings.keys() & {"leave_out", "perspectives"}


def test_a_pipeline_of_one_s_own_takes_the_settings_of_its_pieces(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from langgraph.graph import END, START, StateGraph\n"
        "from tribunal.pieces import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, receive\n"
        "builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)\n"
        "for name, node in (('receive', receive), ('trial', deep_trial), ('judge', court_judge)):\n"
        "    builder.add_node(name, node)\n"
        "for start, end in ((START, 'receive'), ('receive', 'trial'), ('trial', 'judge'), ('judge', END)):\n"
        "    builder.add_edge(start, end)\n"
        "graph = checked(builder).compile()\n"
    )
    assert run("judge", POST, "--graph", "own.py:graph", "--set", "turns_shown=none").exit_code == 0
    for name, value in (("tau", "0.5"), ("mode", "majority")):
        done = run("judge", POST, "--graph", "own.py:graph", "--set", f"{name}={value}")
        assert done.exit_code == 2
        assert f"{name}: " in done.stderr
        assert "this graph has no use for it" in done.stderr
