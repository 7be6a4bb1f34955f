"""A system of one's own, as an installed package has it: named, listed, set and refused as ours are."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tribunal
from tests import PROJECT
from tribunal import plugins
from tribunal.commands import app
from tribunal.docket.records import protocol
from tribunal.errors import BadInput, Problem
from tribunal.eval.protocols import protocol as protocol_files
from tribunal.graphs import GRAPHS, code_of, graph, named_graphs
from tribunal.pieces import System
from tribunal.prompts.sets import prompts_with_system, shipped_prompts
from tribunal.runner.pins import describe_surroundings
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.routes.judge import check_graph
from tribunal.settings import systems
from tribunal.settings.base import GRAPH_SETTINGS, PLACES
from tribunal.settings.contents import remembered_text
from tribunal.settings.context import settings_of
from tribunal.settings.systems import OUR_PROMPTS
from tribunal.testing import ScriptedModel

EXAMPLE = PROJECT / "examples" / "system"
ANNOTATOR, ADJUDICATOR = "# Your part: an annotator", "# Your part: the adjudicator"
POST = "Well done, you parked on my foot."


def forget_packages() -> None:
    """Let the next look find what is installed by then."""
    files = (protocol_files.load_protocols,)
    for cached in (plugins._declared, plugins.load_all, prompts_with_system, *files):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, with the example and a system that can't be loaded."""
    folder = tmp_path / "packages"
    for name, place in (
        ("two_annotators", "two_annotators.court:graph"),
        ("broken", "broken_package:graph"),
    ):
        about = folder / f"{name}-0.1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (about / "entry_points.txt").write_text(f"[tribunal.graphs]\n{name} = {place}\n")
    (folder / "broken_package.py").write_text("raise RuntimeError('half\\nof it is missing')")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(EXAMPLE)
    forget_packages()
    yield folder
    forget_packages()


def called(*words: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, words)


def test_an_installed_system_is_named_listed_and_drawn() -> None:
    assert list(named_graphs()) == [*GRAPHS, "broken", "two_annotators"]
    assert named_graphs()["two_annotators"].startswith(
        "two annotators label a post apart from each other"
    )
    drawn = called("graphs", "two_annotators").stdout
    assert drawn.startswith("%% two_annotators: two annotators label a post")
    assert "adjudicator(adjudicator)" in drawn
    assert graph("two_annotators") is graph("two_annotators.court:graph")


def test_what_cannot_be_loaded_is_said_and_does_not_keep_others_away() -> None:
    with pytest.raises(
        BadInput,
        match="graph: broken: broken_package:graph can't be loaded: RuntimeError: half of it is",
    ):
        graph("broken")
    with pytest.raises(
        BadInput,
        match=r"did you mean two_annotators\? The graphs are tribunal, .*, two_annotators, a f",
    ):
        graph("two_anotators")
    with pytest.raises(BadInput, match="is a StateGraph, and not a CompiledStateGraph"):
        graph("two_annotators.court:builder")


def test_both_annotators_are_asked_apart_and_agree(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(ANNOTATOR, {"explanation": "A dig at one driver.", "category": "NotHate"})
    record = tribunal.judge(POST, graph="two_annotators")
    assert (record.outcome, record.category, record.explanation) == (
        "verdict",
        "NotHate",
        "A dig at one driver.",
    )
    assert {call.seat for call in record.calls} == {"first", "second"}
    assert not any("dig at one driver" in words for words in scripted_model.told(ANNOTATOR))
    assert not scripted_model.told(ADJUDICATOR)


def test_the_adjudicator_is_shown_both_where_they_differ(scripted_model: ScriptedModel) -> None:
    one = {"explanation": "A dig at one driver.", "category": "NotHate"}
    other = {"explanation": "A dig at all drivers.", "category": "OtherHate"}
    scripted_model.answer(ANNOTATOR, one, other)
    scripted_model.answer(
        ADJUDICATOR, {"explanation": "One driver is no group.", "category": "NotHate"}
    )
    record = tribunal.judge(POST, graph="two_annotators", seats={"adjudicator": "openai:large"})
    [shown] = scripted_model.told(ADJUDICATOR)
    assert all(each["explanation"] in shown for each in (one, other))
    assert (record.explanation, record.calls[-1].model) == (
        "One driver is no group.",
        "openai:large",
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"rounds": 2},
            "rounds: 2: is a setting of the graphs tribunal, .*, and two_annotators has no use for it",
        ),
        ({"task": "sarcasm"}, "task: 'sarcasm': is a setting of the graphs mv_debate"),
        (
            {"seats": {"judge": "rehearsal"}},
            r"seats\.judge: nobody of that name sits in two_annotators; it is a seat",
        ),
        (
            {"seats": {"frist": "rehearsal"}},
            "there is no seat 'frist'; the seats are triage, gatekeeper",
        ),
        ({"temperatures": {"first": 3}}, "first: 3.0 is not between 0 and 2"),
    ],
)
def test_what_it_does_not_heed_is_refused(
    settings: Any, says: str, scripted_model: ScriptedModel
) -> None:
    with pytest.raises(BadInput, match=says):
        tribunal.judge(POST, graph="two_annotators", **settings)
    assert not scripted_model.requests


def test_studio_offers_what_it_heeds() -> None:
    graph("two_annotators")
    form = settings_of("two_annotators").model_json_schema()["properties"]
    assert {"model", "scheme", "seats", "max_calls", "judge_model"} <= {*form}
    assert not {"rounds", "web", "mode"} & {*form}
    assert list(form["seats"]["properties"]) == ["first", "second", "adjudicator"]
    shown = {name: field["default"] for name, field in form.items() if field["group"] == "Prompts"}
    assert shown.keys() == {"prompt_two_annotators_adjudicate", "prompt_two_annotators_annotate"}
    edited = shown | {"prompt_two_annotators_annotate": "Label it."}
    assert settings_of("two_annotators")(**edited).prompt_texts == {
        "two_annotators/annotate": "Label it."
    }
    assert graph("two_annotators").context_schema is settings_of("two_annotators")
    assert (form["judge_model"]["langgraph_nodes"], form["aux_model"]["langgraph_nodes"]) == (
        ["adjudicator"],
        ["first", "second"],
    )


def test_its_prompts_are_its_own_hashed_and_replaced(
    scripted_model: ScriptedModel, tmp_path: Path
) -> None:
    usual = tribunal.judge(POST, graph="two_annotators")
    assert (usual.prompts["name"], usual.prompts["sha"]) == (
        "two_annotators",
        prompts_with_system("two_annotators").sha,
    )
    assert usual.prompts["sha"] != shipped_prompts().sha
    (tmp_path / "mine" / "two_annotators").mkdir(parents=True)
    file = tmp_path / "mine" / "two_annotators" / "annotate.md"
    file.write_text(f"{ANNOTATOR}\n\nLabel it in my words.")
    mine = tribunal.judge(POST, graph="two_annotators", prompts=str(tmp_path / "mine"))
    assert "in my words" in scripted_model.told(ANNOTATOR)[-1]
    assert mine.prompts["name"] == "mine"
    assert mine.prompts["sha"] != usual.prompts["sha"]
    with pytest.raises(BadInput, match=r"annotate\.md: no prompt is called so"):
        tribunal.judge(POST, graph="arcade", prompts=str(tmp_path / "mine"))


def test_its_prompts_are_listed_shown_and_checked(tmp_path: Path) -> None:
    assert "two_annotators/annotate" in called("prompts", "show").stdout
    assert called("prompts", "show", "two_annotators/annotate").stdout.startswith(ANNOTATOR)
    (tmp_path / "mine" / "two_annotators").mkdir(parents=True)
    (tmp_path / "mine" / "two_annotators" / "adjudicate.md").write_text("Decide on {{ first }}.")
    done = called("prompts", "check", str(tmp_path / "mine"), "--graph", "two_annotators")
    assert done.exit_code == 2
    assert "leaves out second; put it in" in done.stderr


def test_a_record_names_its_code(scripted_model: ScriptedModel) -> None:
    assert {*code_of("two_annotators")} == {"two_annotators/__init__.py", "two_annotators/court.py"}
    assert code_of("arcade") == {}
    assert code_of("some/where.py:graph") == {"some/where.py": Path("some/where.py")}
    record = tribunal.judge(POST, graph="two_annotators")
    text = remembered_text("protocol", record.protocol or "")
    assert json.loads(text or "{}")["code_sha256"]
    assert protocol({}, "two_annotators") != protocol({}, "arcade")


def test_a_case_names_no_system_that_is_not_there() -> None:
    with pytest.raises(
        BadInput, match=r"context\.system: 'elsewhere': there is none in this process"
    ):
        prompts_with_system("elsewhere")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "arcade"}, "system: 'arcade': can't be the name of a system"),
        ({"name": "Two Words"}, "system: 'Two Words': can't be the name of a system"),
        ({"name": "court"}, "system: 'court': can't be the name of a system"),
        (
            {"prompts": "no_package:prompts"},
            "no_package:prompts: can't be read: No module named 'no_package'",
        ),
        (
            {"heeds": ("ronds",)},
            "system: mine: heeds 'ronds', which is no setting that it can heed; did you mean rounds?",
        ),
        ({"heeds": ("mode",)}, "heeds 'mode', which is no setting that it can heed"),
        ({"seats": ("Judge!",)}, "seat: 'Judge!': can't be a seat's name"),
    ],
)
def test_a_wrong_declaration_is_refused(fields: Any, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        System(**{"name": "mine", "about": "mine", "seats": ("first",), **fields})
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["An Annotator", "annotate.first", "Annotate", "1st"])
def test_a_prompt_s_name_is_checked_where_the_system_is_declared(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.md").write_text("Label the post.")
    with pytest.raises(BadInput) as caught:
        System(name="mine", about="mine", seats=("first",), prompts=tmp_path)
    assert f"system: mine: prompts: {name}.md: 'mine/{name}' can't be the name of a prompt" in str(
        caught.value
    )
    assert "SYSTEM/PROMPT, in small letters, digits, - and _" in str(caught.value)


def test_no_system_takes_the_name_of_a_folder_of_our_prompts() -> None:
    assert {name.partition("/")[0] for name in shipped_prompts().sources if "/" in name} <= {
        *GRAPHS,
        *OUR_PROMPTS,
    }


def test_a_checkout_that_is_installed_by_an_import_hook_is_found_from_its_parent_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_model: ScriptedModel
) -> None:
    """Python takes the folder `two_annotators` for a namespace package there, and asks no import hook."""
    checkout = tmp_path / "two_annotators"
    shutil.copytree(EXAMPLE, checkout)
    package = checkout / "two_annotators"

    class Hook:
        """What `pip install --editable` installs for a project that is built by setuptools."""

        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return (
                spec_from_file_location(name, package / "__init__.py")
                if name == "two_annotators"
                else None
            )

    for each in [each for each in sys.modules if each.partition(".")[0] == "two_annotators"]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setattr(
        sys, "path", [str(tmp_path), *(each for each in sys.path if each != str(EXAMPLE))]
    )
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook()])
    forget_packages()
    assert importlib.util.find_spec("two_annotators").origin is None  # type: ignore[union-attr]
    assert code_of("two_annotators")["two_annotators/court.py"] == package / "court.py"
    scripted_model.answer(ANNOTATOR, {"explanation": "A dig at one driver.", "category": "NotHate"})
    assert tribunal.judge(POST, graph="two_annotators").explanation == "A dig at one driver."
    assert sys.modules["two_annotators"].__file__ == str(package / "__init__.py")


def test_the_service_decides_by_it() -> None:
    options = ServiceOptions()
    assert check_graph("two_annotators", options) == "two_annotators"
    with pytest.raises(Problem, match=r"they are tribunal, .*, two_annotators"):
        check_graph("two_annotators.court:graph", options)
    assert check_graph(None, ServiceOptions(graph="two_annotators")) == "two_annotators"


def test_its_experiment_stands_among_ours() -> None:
    listed = json.loads(called("experiment", "show", "--json").stdout)
    [found] = [each for each in listed if each["name"] == "two-annotators-table1"]
    assert (found["paper"], found["datasets"], found["runs"]) == ("Two annotators", ["h-vli"], 2)


def test_an_experiment_with_a_fault_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "_systems", {})
    System(name="mine", about="mine", seats=("first",), experiments=tmp_path)
    (tmp_path / "mine-table1.toml").write_text("paper = 'Mine'")
    with pytest.raises(
        BadInput, match=r"experiment: mine-table1 of the system mine: shape: is missing"
    ):
        protocol_files.load_protocols()


def test_a_process_that_decides_posts_finds_the_prompts_that_the_run_was_begun_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether or not it has loaded the graph before."""
    graph("two_annotators")
    begun = describe_surroundings("two_annotators", tribunal.Context())["prompts"]
    monkeypatch.setattr(systems, "_systems", {})
    monkeypatch.delitem(PLACES, "two_annotators.court:graph", raising=False)
    monkeypatch.delitem(GRAPH_SETTINGS, "two_annotators")
    monkeypatch.delitem(sys.modules, "two_annotators.court")
    prompts_with_system.cache_clear()
    assert (
        describe_surroundings("two_annotators.court:graph", tribunal.Context())["prompts"] == begun
    )
