"""Write `tribunal/typed_names.pyi`: what editors and type checkers know of settings and channels.

Type checkers read no class that is made at run time, so the keywords of `judge`, the JSON of each model and the names
of the channels are written into a file, from the classes that they follow from. Run it after a change of one of these:

    ./run python .ci/write_typed_names.py

`tests/test_typing.py` sees whether the file is as this writes it.
"""

from __future__ import annotations

import subprocess
import types
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tribunal.core.calls import Call
from tribunal.exhibit import Box
from tribunal.nodes import outputs
from tribunal.nodes.state import Case, channel_forms
from tribunal.process.model_objects import FIELDS
from tribunal.schema import (
    Appeal,
    Argument,
    Cue,
    Evidence,
    Example,
    Image,
    Opinion,
    Post,
    Precedent,
    Turn,
)
from tribunal.settings.context import Context
from tribunal.settings.graph_settings import SETTINGS

PATH = Path(__file__).parents[1] / "tribunal" / "typed_names.pyi"
# The outputs of the graphs.
OUTPUTS = (
    "CourtOutput", "BaselineOutput", "PredictOutput", "ResearchOutput", "DebateOutput", "Ruling", "PerspectivesOutput",
    "WebOutput", "RoundOutput", "TrackOutput", "ArguedOutput",
)  # fmt: skip
_HEAD = '''"""What editors and type checkers know: the keywords of `judge`, the channels, and the JSON in them.

Written by .ci/write_typed_names.py, from the settings of all graphs, `tribunal.schema` and the state `Case`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from langchain_core.runnables import Runnable

# provider:model, a chat model or another Runnable of LangChain's from messages to a message, or several in order.
Model: TypeAlias = str | Runnable[Any, Any] | Sequence[str | Runnable[Any, Any]]
'''


def models_in(declared: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, and the models of their fields."""
    if (
        isinstance(declared, type)
        and issubclass(declared, BaseModel)
        and get_origin(declared) is None
    ):
        for hint in get_type_hints(declared, include_extras=True).values():
            yield from models_in(hint)
        yield declared
    for inside in get_args(declared):
        yield from models_in(inside)


def output_hints(name: str) -> dict[str, Any]:
    """Return the type of each channel of an output, as the models behind it."""
    return {channel: channel_forms()[channel] for channel in get_type_hints(getattr(outputs, name))}


def find_models() -> list[type[BaseModel]]:
    """Return every model of a channel that is read in an editor: of the state `Case`, and of the outputs."""
    known = [
        Box,
        Example,
        Image,
        Appeal,
        Post,
        Cue,
        Argument,
        Turn,
        Opinion,
        Evidence,
        Precedent,
        Call,
    ]
    forms = [form for name in OUTPUTS for form in output_hints(name).values()]
    return [*dict.fromkeys([*known, *(model for form in forms for model in models_in(form))])]


def write_type(declared: Any) -> str:
    """Return a type as source code: that of a value's JSON."""
    origin, inside = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return write_type(inside[0])
    if origin in (types.UnionType, Union):
        return " | ".join(map(write_type, inside))
    if origin is Literal:
        return f"Literal[{', '.join(f'{each!r}' for each in inside)}]"
    if origin is tuple:
        return f"list[{write_type(inside[0])}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(write_type, inside))}]"
    if declared is type(None):
        return "None"
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return f"{declared.__name__}Data"
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return "str"
    return "Any" if declared is Any else str(declared.__name__)


def is_always_there(field: FieldInfo) -> bool:
    """Return whether the JSON of a model has a field: it is required, or it tells the models of a union apart."""
    return field.is_required() or len(get_args(field.annotation)) == 1 == (
        get_origin(field.annotation) is Literal
    )


def write_keyword(name: str) -> str:
    """Return a setting as a keyword of `judge`, which may be a model object where the setting names one."""
    if name == "seats":
        return "    seats: Mapping[str, Model]"
    return f"    {name}: {'Model | None' if name in FIELDS else write_type(Context.model_fields[name].annotation)}"


def write_names() -> str:
    """Return the text of the file, before it is formatted."""
    return "\n".join(_write_parts())


def _write_parts() -> Iterator[str]:
    yield _HEAD
    yield '\nclass CallKeywords(TypedDict, total=False):\n    """The settings other than the policy."""\n'
    yield from (write_keyword(name) for name in SETTINGS if name != "policy")
    yield '\n\nclass SettingsKeywords(CallKeywords, total=False):\n    """Every setting."""\n\n    policy: str\n'
    names = ", ".join(f'"{name}"' for name in get_type_hints(Case))
    yield f"\n# The channels of `Case`. Your own state may have others.\nChannel = Literal[{names}]\n"
    for model in find_models():
        article = "An" if model.__name__[0] in "AEIO" else "A"
        yield f'\nclass {model.__name__}Data(TypedDict):\n    """{article} `{model.__name__}` as JSON."""\n'
        hints = get_type_hints(model, include_extras=True)
        for name, field in model.model_fields.items():
            kind = write_type(hints[name])
            yield f"    {name}: {kind if is_always_there(field) else f'NotRequired[{kind}]'}"
        yield ""
    yield "\n# How a case ends.\nOutcomeData: TypeAlias = VerdictData | RefusalData | FailureData\n"
    for output in OUTPUTS:
        yield f'\nclass {output}(TypedDict, total=False):\n    """What a graph gives back."""\n'
        yield from (
            f"    {channel}: {write_type(form)}" for channel, form in output_hints(output).items()
        )
        yield ""


if __name__ == "__main__":
    PATH.write_text(write_names(), "utf-8")
    subprocess.run(["ruff", "format", "-q", str(PATH)], check=True)  # noqa: S603, S607
