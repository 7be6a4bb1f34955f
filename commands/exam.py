"""The exam of `tribunal doctor --try`: asked, printed, and what its figures advise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tribunal.commands.printing import print_template

if TYPE_CHECKING:
    from tribunal.cases.model_exam import Exam
    from tribunal.context import Context
    from tribunal.models.server_slots import ServerSlots
    from tribunal.schema import JSON

# Tokens of a slot that a debate fits into: the rehearsal model's short one asks with 2,700, and models speak longer.
DEBATE_TOKENS = 8_192


class Advice(NamedTuple):
    """A setting to give a run, and why."""

    setting: str
    why: str


class TakenExam(NamedTuple):
    """An exam, what the server says of its slots, and what to set."""

    exam: Exam
    slots: ServerSlots | None
    advice: tuple[Advice, ...]

    def as_json(self) -> JSON:
        """Return it for `--json`."""
        result, slots = self.exam.result, self.slots
        return {
            **result.dump(),
            "passed": result.has_passed,
            "tokens_per_second": round(self.exam.tokens_per_second, 1),
            "slots": slots.total_slots if slots else None,
            "context": slots.context if slots else None,
            "faults": self.exam.faults,
            "warnings": self.exam.warnings,
            "advice": [each._asdict() for each in self.advice],
        }


async def take_exam(model: str, settings: dict[str, Any], environment: Mapping[str, str]) -> TakenExam:
    """Say what an exam costs, examine a model, and keep the result, but for the rehearsal model's.

    Raises:
        BadInput, ModelError: as `examine_model`.
    """
    from tribunal.calls import REHEARSAL
    from tribunal.cases.model_exam import ABOUT_TOKENS, examine_model
    from tribunal.context import context_from
    from tribunal.environment import data_folder
    from tribunal.models.exam_results import POSTS, keep_exam_results
    from tribunal.models.registry import model_names, provider_of
    from tribunal.models.server_slots import read_server_slots

    print_template("exam", aside=True, part="cost", model=model, posts=POSTS, tokens=ABOUT_TOKENS)
    exam = await examine_model(model, settings)
    if model != REHEARSAL:
        keep_exam_results(data_folder(environment), [exam.result])
    provider = provider_of(model_names(model, "model")[0])
    slots = await read_server_slots(provider, environment)
    own_server = provider.address_setting(environment) is not None or (provider.takes_no_key and model != REHEARSAL)
    return TakenExam(exam, slots, advise(exam, slots, context_from(settings), own_server=own_server))


def print_exam(taken: TakenExam) -> None:
    """Print what an exam came to, and what to set."""
    from tribunal.models.exam_results import CRITERION, POSTS

    print_template("exam", part="result", posts=POSTS, criterion=CRITERION, **taken._asdict())


def advise(exam: Exam, slots: ServerSlots | None, context: Context, *, own_server: bool) -> tuple[Advice, ...]:
    """Return what to set, by what the exam and the server have shown. A provider's own servers need nothing set."""
    advice = list[Advice]()
    if not own_server:
        return ()
    if slots:
        advice.append(Advice(f"--concurrency {slots.total_slots}", "the server answers so many requests at a time"))
    else:
        advice.append(Advice("--concurrency 1", "the server doesn't say how many requests it answers at a time"))
    longest = context.max_output_tokens
    if slots and slots.context < DEBATE_TOKENS:
        why = f"a slot has {slots.context:,}; a debate takes up to {DEBATE_TOKENS:,}, prompt and answer"
        advice.append(Advice(f"the server's context to {DEBATE_TOKENS:,} tokens a slot", why))
    if slots and (room := max(256, slots.context // 4)) < longest:
        advice.append(Advice(f"--set max_output_tokens={room}", "the rest of the slot is for the prompt"))
        longest = room
    speed = exam.tokens_per_second
    if speed and longest / speed > context.timeout:
        seconds = math.ceil(longest / speed / 60) * 60
        advice.append(
            Advice(f"--set timeout={seconds}", f"an answer of {longest:,} tokens takes so long at this speed")
        )
    return tuple(advice)
