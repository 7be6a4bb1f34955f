"""The file `set.toml` of a folder of prompts: what the set says of itself.

[tuned]
for = "qwen3"  # the model family that the prompts were tuned for

[answers."arcade/judge"]  # the prompt has a form of its own for its answer (`AnswerNames`)
fields = {category = "label"}
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from pydantic import Field, ValidationError

from tribunal.calls import REHEARSAL
from tribunal.errors import BadInput
from tribunal.prompts.answer_names import AnswerNames
from tribunal.schema import Frozen
from tribunal.text import parse_toml, suggest_name
from tribunal.validation import describe_validation_error

SET_FILE = "set.toml"


class Tuning(Frozen):
    """Name the model family that a set was tuned for: a part of its models' names, in which * stands for anything."""

    family: str = Field(alias="for", min_length=1, max_length=80, pattern=r"^\S+$")

    def fits_model(self, model: str) -> bool:
        """Return whether a model, as `provider:model`, is of the family; letter case is no difference."""
        return fnmatchcase(model.casefold(), f"*{self.family.casefold()}*")


class SetFile(Frozen):
    """Hold what the file says; a set without one has the defaults."""

    tuned: Tuning | None = None
    answers: dict[str, AnswerNames] = Field(default_factory=dict)

    def check_prompts(self, known: Iterable[str], place: object) -> None:
        """Check that each prompt that it names is one of these.

        Raises:
            BadInput: one isn't; with what was meant.
        """
        for name in self.answers.keys() - set(known):
            way_out = suggest_name(name, known) or "tribunal prompts list names them all"
            raise BadInput(f"prompts: {place}: answers.{name}: there is no such prompt; {way_out}")


def parse_set_file(text: str, place: object) -> SetFile:
    """Return what the text of a `set.toml` says.

    Raises:
        BadInput: it isn't TOML, or a field is wrong; with the place, which is its path or its set's name.
    """
    try:
        return SetFile.model_validate(parse_toml(text))
    except ValidationError as error:
        raise BadInput(f"prompts: {place}: {describe_validation_error(error)}") from error
    except ValueError as error:
        raise BadInput(f"prompts: {place}: is not TOML: {error}; mend the file") from error


def warn_of_other_models(name: str, file: SetFile, models: Iterable[object]) -> list[str]:
    """Return a warning if a set was tuned for another model family than these models', else nothing."""
    if file.tuned is None:
        return []
    asked = {str(model) for model in models} - {REHEARSAL}
    others = sorted(model for model in asked if not file.tuned.fits_model(model))
    if not others:
        return []
    return [f"prompts: {name}: were tuned for {file.tuned.family}; asked with them: {', '.join(others)}"]
