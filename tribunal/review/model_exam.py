"""The exam of a model: ten plain posts, asked about as the one-call classifier is, and its right answers counted."""

from __future__ import annotations

import time
from typing import NamedTuple

from langgraph.runtime import Runtime

from tribunal.errors import BadInput, CallFailed, ModelError
from tribunal.explanations.quotations import find_spans
from tribunal.models.ask import ask
from tribunal.models.exam_results import POSTS, ExamResult, exam_address
from tribunal.models.registry import current_registry, model_names, provider_of
from tribunal.nodes.peers.single_call import EXAM_POSTS, EXAMINED, ExamForm
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Post
from tribunal.settings.context import context_from

# About what an exam takes, as `tests/commands/test_doctor_exam.py` counts it.
ABOUT_TOKENS = 8_000
EXAM_SETTINGS = ("extra_body", "prompts", "max_output_tokens", "timeout", "attempts")
# Faults that are the model's own, so that they count against it.
_OF_THE_MODEL = ("bad_output", "timeout", "too_long")
_MARKS = " \"'“”„«»‘’"


class Exam(NamedTuple):
    """Hold what an exam came to, and what it took.

    Attributes:
        result: how many posts the model got right.
        calls: its calls, as records hold them.
        warnings: what the calls warned of, each once.
        faults: why posts have no answer in the right form.
    """

    result: ExamResult
    calls: tuple[JSON, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def tokens_per_second(self) -> float:
        """Return how many tokens of answer came in a second, the reading of the prompts included."""
        seconds = sum(call["seconds"] for call in self.calls)
        return sum(call["completion_tokens"] for call in self.calls) / seconds if seconds else 0.0


async def examine_model(model: str, settings: JSON) -> Exam:
    """Ask a model about every post of the exam, one after the other, and count what it gets right.

    Args:
        model: as provider:model.
        settings: those of `EXAM_SETTINGS` that a run would have.

    Raises:
        BadInput: a setting is wrong, or no setting of an exam.
        ModelError: the model can't be asked.
    """
    for name in settings:
        if name not in EXAM_SETTINGS:
            raise BadInput(
                f"set: {name}: plays no part in an exam; these do: {', '.join(EXAM_SETTINGS)}"
            )
    context = context_from({**settings, "model": model})
    policy = await policy_in_force(context.policy)
    names = ", ".join(category.name for category in policy.categories("fine"))
    calls = list[JSON]()
    warnings = dict[str, None]()
    faults = list[str]()
    told_apart = quoted = 0
    for number, post in enumerate(EXAM_POSTS, start=1):
        shown = Post(id=f"exam-{number}", text=post.text, language="en")
        state = {"post": shown.dump(), "context": {"settings": settings | {"model": model}}}
        try:
            answer = await ask(
                EXAMINED, state, Runtime(context=context), categories=operator_words(names)
            )
        except ModelError as error:
            if isinstance(error, CallFailed) and error.kind not in _OF_THE_MODEL:
                raise
            calls += error.calls
            warnings |= dict.fromkeys(error.warnings)
            faults.append(f"post {number}: {error}")
            continue
        calls += answer.log["calls"]
        warnings |= dict.fromkeys(answer.log["warnings"])
        told_apart += (
            policy.is_hate("fine", policy.label("fine", answer.value.category)) == post.is_hateful
        )
        quoted += quotes_post(answer.value, post.text)
    [examined] = model_names(model, "model")
    address = exam_address(provider_of(examined).base_url((await current_registry()).environment))
    result = ExamResult(
        model=str(examined), address=address, at=time.time(), told_apart=told_apart, quoted=quoted,
        in_form=POSTS - len(faults),
    )  # fmt: skip
    return Exam(result, tuple(calls), tuple(warnings), tuple(faults))


def quotes_post(answer: ExamForm, text: str) -> bool:
    """Return whether an answer quotes words of the post, whatever their letter case and the marks around them."""
    return any(find_spans(text, [answer.quote.strip(_MARKS)]))
