"""What the forms of all systems are made of: their base, a choice of names, and the form of a decision.

A form is the schema of a model's answer. A role holds a maker of its form, from the policy and the scheme in force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from tribunal.prompts.policy import Policy
from tribunal.schema import Scheme

Filled = TypeVar("Filled", bound=BaseModel)


class Form(BaseModel):
    """The base of what models fill in. More than was asked for is overlooked; less is not."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class DecisionForm(Form):
    """A decision, and why."""

    category: str
    explanation: str = Field(min_length=1)


def always(form: type[Filled]) -> Callable[[Policy, Scheme], type[Filled]]:
    """A maker of this form, whatever the policy and the scheme."""
    return lambda policy, scheme: form


def one_of(names: Sequence[str]) -> Any:
    """A type of just these strings; spelt with other capitals or dashes, they are taken for what they are."""
    spelt = {_spelling(name): name for name in names}

    def as_named(value: Any) -> Any:
        return spelt.get(_spelling(value), value) if isinstance(value, str) else value

    return Annotated[Literal[tuple(names)], BeforeValidator(as_named)]


def _spelling(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


@lru_cache(maxsize=32)
def decision_form(policy: Policy, scheme: Scheme) -> type[DecisionForm]:
    """The form of a decision: a category of the scheme by its name; its number is taken for it."""
    names = [category.name for category in policy.categories(scheme)]

    def named(value: Any) -> Any:
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        return names[number] if type(number) is int and 0 <= number < len(names) else value

    category: Any = Annotated[one_of(names), BeforeValidator(named)]
    return create_model("Decision", __base__=DecisionForm, category=(category, ...))


@lru_cache(maxsize=32)
def sure_decision_form(policy: Policy, scheme: Scheme) -> type[DecisionForm]:
    """The form of a decision with a `confidence`, from 0 to 1."""
    sure: Any = (float, Field(ge=0, le=1))
    return create_model("SureDecision", __base__=decision_form(policy, scheme), confidence=sure)


def confidence_of(decision: DecisionForm) -> float | None:
    """How sure a decision is, where that was asked for."""
    return getattr(decision, "confidence", None)
