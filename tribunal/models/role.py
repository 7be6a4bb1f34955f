"""What a seat is asked to do in one call: a role is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from tribunal.prompts.policy import Policy
from tribunal.schema import Scheme

Filled = TypeVar("Filled", bound=BaseModel)


@dataclass(frozen=True)
class Role(Generic[Filled]):
    """What a seat is asked to do in one call.

    Attributes:
        name: what the record calls it.
        seat: who is asked.
        prompt: the prompt file, as `folder/name`.
        form: makes the form of the answer from the policy and the scheme in force.
        temperature: the published one; None leaves it to the model.
        temperature_of: another seat, whose temperature it takes where one is set for that seat and none for its own.
        falls_to: the setting whose model sits here when the seat has none of its own.
        system: whose standing instructions it gets.
        final: whether it is asked even when the budget is spent.
        plain: for a role that answers in words: reads them, or finds fault with them (ValueError).
        max_output_tokens: takes the place of that setting, where a system sets its own.
        cut_is_fine: whether that limit is never raised: an answer that ran into it is taken where it can be read as it
            is, and asked for again within the limit where it can't.
        drawn_alike: whether it is one of several draws at one temperature: the one that is set for the seat, else the
            setting `draw_temperature`.
        tries: takes the place of the setting `attempts`.
        text: the words of the prompt, for one that is no file of a set of prompts.
    """

    name: str
    seat: str
    prompt: str
    form: Callable[[Policy, Scheme], type[Filled]]
    temperature: float | None
    falls_to: Literal["aux_model", "judge_model", "triage"] = "aux_model"
    system: str = "court"
    final: bool = False
    plain: Callable[[str], Filled] | None = None
    max_output_tokens: int | None = None
    cut_is_fine: bool = False
    temperature_of: str = ""
    drawn_alike: bool = False
    tries: int | None = None
    text: str = ""
