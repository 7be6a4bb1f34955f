"""What type checkers and editors know of the API: the settings as keywords, and the channels of a case."""

from __future__ import annotations

import functools
import operator
import runpy
import shutil
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

import pytest
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from tests import PROJECT
from tribunal.nodes import outputs
from tribunal.process.model_objects import FIELDS
from tribunal.settings.context import Context

writer = runpy.run_path(str(PROJECT / ".ci" / "write_typed_names.py"))
typed_names: Any = types.SimpleNamespace(
    **runpy.run_path(str(PROJECT / "tribunal" / "typed_names.pyi"))
)

RIGHT = """\
import tribunal
from langchain_core.language_models import BaseChatModel
from tribunal.pieces import Case

def judge(settings: dict[str, object]) -> None:
    record = tribunal.judge("a post", graph="arcade", rounds=2, seats={"judge": "ollama:gemma3:4b"}, web=True)
    print(record.category)

def judge_by(model: BaseChatModel) -> None:
    tribunal.judge("a post", model="rehearsal", seats={"judge": model})
    tribunal.as_tool(model=model)
    tribunal.Context(model=model)

def read(state: Case) -> str:
    return state["transcript"][0]["seat"] + state["post"]["text"]
"""
COMPOSED = """\
from typing import assert_type

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from tribunal import pieces
from tribunal.graphs import builder, graph
from tribunal.pieces import Case, Context, PostInput, Ruling, checked

mine = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
mine.add_node("receive", pieces.receive)
mine.add_node("deep", pieces.deep_trial)
mine.add_node("review", pieces.review)
assert_type(checked(mine), StateGraph[Case, Context, PostInput, Ruling])
assert_type(checked(mine).compile(), CompiledStateGraph[Case, Context, PostInput, Ruling])
assert_type(graph("arcade"), CompiledStateGraph[Case, Context, PostInput, Ruling])
assert_type(builder("arcade"), StateGraph[Case, Context, PostInput, Ruling])
ruling = graph("arcade").invoke({"text": "a post"}, context=Context(rounds=1), version="v2").value
assert_type(ruling, Ruling)
outcome = ruling.get("outcome")
if outcome is not None and outcome["outcome"] == "verdict":
    assert_type(outcome["category"], str)
elif outcome is not None and outcome["outcome"] == "failure":
    assert_type(outcome["error"], str)
assert_type(Context(rounds=1).rounds, int)
"""
WRONG = [
    (
        'import tribunal\ntribunal.judge("a post", rounds="two")',
        'incompatible type "str"; expected "int"',
    ),
    (
        'import tribunal\ntribunal.judge("a post", grph="arcade")',
        'Unexpected keyword argument "grph"',
    ),
    ('import tribunal\ntribunal.as_tool(task="hatred")', "incompatible type"),
    (
        'import tribunal\ntribunal.ajudge("a post", modle="rehearsal")',
        'Unexpected keyword argument "modle"',
    ),
    (
        'import tribunal\ntribunal.trial("a post", rounds="two")',
        'incompatible type "str"; expected "int"',
    ),
    (
        'from tribunal.pieces import Case\ndef read(state: Case) -> str:\n    return state["transcript"][0]["sat"]',
        'has no key "sat"',
    ),
    (
        "from tribunal.pieces import Ruling\ndef read(ruling: Ruling) -> object:\n    return ruling['outcom']",
        'has no key "outcom"',
    ),
    (
        "from tribunal.pieces import Context\nclass Mine(Context): ...",
        'Cannot inherit from final class "Context"',
    ),
]


pytestmark = pytest.mark.xdist_group("mypy")


def json_type(declared: Any) -> Any:
    """Return the type that a field of a model has in JSON."""
    origin, inside = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return json_type(inside[0])
    if origin in (types.UnionType, Union):
        return functools.reduce(operator.or_, map(json_type, inside))
    if origin is tuple:
        return list[json_type(inside[0])]  # type: ignore[misc]
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return getattr(typed_names, f"{declared.__name__}Data")
    return str if isinstance(declared, type) and issubclass(declared, StrEnum) else declared


MODELS: list[type[BaseModel]] = writer["find_models"]()


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
def test_the_data_of_a_channel_is_the_json_of_its_model(model: type[BaseModel]) -> None:
    data = getattr(typed_names, f"{model.__name__}Data")
    declared = get_type_hints(model, include_extras=True)
    assert get_type_hints(data) == {name: json_type(declared[name]) for name in model.model_fields}
    hints = get_type_hints(data, include_extras=True)
    required = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    assert required == {
        name for name, field in model.model_fields.items() if writer["is_always_there"](field)
    }


def test_the_keywords_are_the_fields_of_the_context() -> None:
    Model = str | Runnable[Any, Any] | Sequence[str | Runnable[Any, Any]]
    fields: dict[str, Any] = {
        name: field.annotation for name, field in Context.model_fields.items()
    }
    # objects, of which it holds names
    fields |= dict.fromkeys(FIELDS, Model | None) | {"seats": Mapping[str, Model]}
    assert get_type_hints(typed_names.SettingsKeywords) == fields


def test_the_file_of_typed_names_is_as_it_is_written() -> None:
    written = subprocess.run(
        ["ruff", "format", "--stdin-filename", "typed_names.pyi", "-"],
        input=writer["write_names"](),
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
    )
    assert writer["PATH"].read_text("utf-8") == written.stdout, (
        "run ./run python .ci/write_typed_names.py"
    )


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What mypy says of each snippet, by its file."""
    folder = tmp_path_factory.mktemp("snippets")
    (folder / "right.py").write_text(RIGHT)
    (folder / "composed.py").write_text(COMPOSED)
    shutil.copy(PROJECT / "examples" / "court_with_review.py", folder)
    for number, (snippet, _) in enumerate(WRONG):
        (folder / f"wrong_{number}.py").write_text(snippet + "\n")
    files = sorted(str(file) for file in folder.glob("*.py"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent", *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,  # whose settings count, and whose cache saves a minute
    )
    said = {Path(file).name: "" for file in files}
    for line in checked.stdout.splitlines():
        said[Path(line.partition(":")[0]).name] += line
    return said


@pytest.mark.long
@pytest.mark.parametrize("file", ["right.py", "composed.py", "court_with_review.py"])
def test_what_is_right_passes(file: str, errors: dict[str, str]) -> None:
    assert errors[file] == ""


@pytest.mark.parametrize("output", writer["OUTPUTS"])
def test_the_channels_of_an_output_are_those_that_the_graph_gives(output: str) -> None:
    assert {*get_type_hints(getattr(typed_names, output))} == {
        *get_type_hints(getattr(outputs, output))
    }


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_wrong_fails(number: int, errors: dict[str, str]) -> None:
    assert WRONG[number][1] in errors[f"wrong_{number}.py"]
