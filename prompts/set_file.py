"""The file `set.toml` of a folder of prompts: the models it was tuned for, and how its prompts' answers are read.

[tuned]
for = "qwen3"  # the model family that the prompts were tuned for

[answers."arcade/judge"]  # the prompt has a form of its own for its answer (`AnswerNames`)
fields = {category = "label"}
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError, create_model

from tribunal.core.calls import REHEARSAL
from tribunal.core.text import parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.schema import JSON, Frozen
from tribunal.settings.validation import describe_validation_error

Filled = TypeVar("Filled", bound=BaseModel)

# Fields that an answer may leave open: who reads them takes an empty text, too.
MAY_BE_OPEN = {
    ("predict/response", "stance"),
    *(
        (f"arcade/{each}", "characteristic")
        for each in ("gatekeeper", "indictment", "investigation")
    ),
}


class AnswerNames(Frozen):
    """Say how the answer to one prompt is read as the form that the role asks for.

    Attributes:
        items: the field whose items the answer gives as a bare JSON array.
        words: the field that the whole answer is, which is then no JSON.
        fields: the name in the answer of each field that is called otherwise there; several names are texts that are
            joined.
        values: of a field, what each value of the answer means.
        otherwise: the value of a field that the answer doesn't have.
        open: fields that the answer says nothing of.
    """

    items: str = ""
    words: str = ""
    fields: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    values: dict[str, dict[str, str]] = Field(default_factory=dict)
    otherwise: dict[str, Any] = Field(default_factory=dict)
    open: tuple[str, ...] = ()

    def rename_answer(self, said: str, found: list[Any]) -> list[Any]:
        """Return an answer under our names: the words, or the JSON that was found in them."""
        if not self.words:
            return [self._rename(each) for each in found]
        named = [each for each in found if isinstance(each, dict) and self.words in each]
        return named or [{self.words: said, **self.otherwise}]

    def _rename(self, found: Any) -> Any:
        """Return an answer's JSON, under our names. Fields that have our names already are unchanged."""
        if not self.items:
            return self._rename_fields(found) if isinstance(found, dict) else found
        if isinstance(found, dict) and self.items in found:
            return found
        listed = found if isinstance(found, list) else [found]
        return {
            self.items: [
                self._rename_fields(each) if isinstance(each, dict) else each for each in listed
            ]
        }

    def _rename_fields(self, found: JSON) -> JSON:
        renamed = {**self.otherwise, **found}
        for ours, theirs in self.fields.items():
            if isinstance(theirs, str):
                if theirs in found:
                    renamed[ours] = found[theirs]
            elif texts := [str(found[name]) for name in theirs if found.get(name)]:
                renamed[ours] = "\n".join(texts)
        for ours, meant in self.values.items():
            value = renamed.get(ours)
            if isinstance(value, str | int | float):
                renamed[ours] = meant.get(str(value).strip(), value)
        return renamed

    def check_fields(self, form: type[BaseModel], prompt: str) -> None:
        """Check that the fields are those of the form.

        Raises:
            BadInput: a field isn't; with the name that was probably meant.
        """
        fields = form.model_fields
        whole = [name for name in (self.items, self.words) if name]
        for name in whole:
            _check_name(prompt, "items" if name == self.items else "words", name, list(fields))
        if self.items:
            item = get_args(fields[self.items].annotation)
            if not item or not hasattr(item[0], "model_fields"):
                raise BadInput(
                    f"prompts: set.toml: answers.{prompt}.items: {self.items!r}: is no list of parts"
                )
            fields = item[0].model_fields
        for table in ("fields", "values", "otherwise", "open"):
            for name in getattr(self, table):
                _check_name(prompt, table, name, list(fields))
        for name, meant in self.values.items():
            names = [each for each in get_args(fields[name].annotation) if isinstance(each, str)]
            if names and not set(names) & set(meant.values()):
                raise BadInput(
                    f"prompts: set.toml: answers.{prompt}.values.{name}: {', '.join(meant.values())}: none is of the "
                    f"policy in force; the names are {', '.join(names)}"
                )
        for name in self.open:
            if (prompt, name) not in MAY_BE_OPEN:
                raise BadInput(
                    f"prompts: set.toml: answers.{prompt}.open: {name!r}: can't be left open; say what it is in "
                    "`otherwise`"
                )


@lru_cache(maxsize=64)
def leave_open(form: type[Filled], fields: tuple[str, ...], items: str = "") -> type[Filled]:
    """Return a form in which these fields may be missing, of the form itself or of its items: they are empty then."""
    if not fields:
        return form
    if items:
        listed = form.model_fields[items]
        made: Any = {items: (list[leave_open(get_args(listed.annotation)[0], fields)], listed)}  # type: ignore[misc]
    else:
        made = {name: (form.model_fields[name].annotation, "") for name in fields}
    return create_model(form.__name__, __base__=form, **made)


def _check_name(prompt: str, table: str, name: str, fields: list[str]) -> None:
    if name not in fields:
        way_out = suggest_name(name, fields) or f"the fields are {', '.join(fields)}"
        raise BadInput(
            f"prompts: set.toml: answers.{prompt}.{table}: the answer has no {name!r}; {way_out}"
        )


SET_FILE = "set.toml"


class Tuning(Frozen):
    """The model family that a set was tuned for: a part of its models' names, in which * matches anything."""

    family: str = Field(alias="for", min_length=1, max_length=80, pattern=r"^\S+$")

    def fits_model(self, model: str) -> bool:
        """Return whether a model, as `provider:model`, is of the family; letter case is no difference."""
        return fnmatchcase(model.casefold(), f"*{self.family.casefold()}*")


class SetFile(Frozen):
    """A `set.toml`; a set without one has the defaults."""

    tuned: Tuning | None = None
    answers: dict[str, AnswerNames] = Field(default_factory=dict)

    def check_prompts(self, known: Iterable[str], place: object) -> None:
        """Check that each prompt that it names is one of these.

        Raises:
            BadInput: a prompt isn't; with the name that was probably meant.
        """
        for name in self.answers.keys() - set(known):
            way_out = suggest_name(name, known) or "tribunal prompts list names them all"
            raise BadInput(f"prompts: {place}: answers.{name}: there is no such prompt; {way_out}")


def parse_set_file(text: str, place: object) -> SetFile:
    """Return the content of a `set.toml`.

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
    return [
        f"prompts: {name}: were tuned for {file.tuned.family}; asked with them: {', '.join(others)}"
    ]
