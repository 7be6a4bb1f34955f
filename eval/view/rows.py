"""A line of results.jsonl as a row of the index: the columns to filter and sort by, and the words in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from tribunal.eval.measures.columns import GROUPS, NO_LABEL, result_numbers, values_of_fields
from tribunal.eval.runs.results import Result

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices
    from tribunal.schema import JSON

# How a verdict stands to the gold label; a sample is filtered by the short name.
KINDS = {
    "true-positive": "true positive",
    "true-negative": "true negative",
    "false-positive": "false positive",
    "false-negative": "false negative",
    "other-category": "right side, other category",
    "no-verdict": "no verdict",
    "no-gold": "no gold label",
}
_KINDS = tuple(KINDS)
RIGHT = (_KINDS.index("true-positive"), _KINDS.index("true-negative"))
# By what samples are filtered, and what a reader sees as its name. Every one may have several values, or none.
FACETS = {
    "outcome": "Outcome",
    "gold": "Gold label",
    "verdict": "Verdict",
    "clause": "Clause",
    "uncertain": "Uncertain",
    "person": "Decided by a person",
    "track": "Track",
    "pattern": "SMI pattern",
    "difficulty": "Difficulty",
    "functionality": "Functionality",
    "target": "Target group",
    "implicit": "Implicit",
    "dataset": "Data set",
    "language": "Language",
    "model": "Model",
    "image": "Image",
    "fault": "Fault",
    "repeat": "Repeat",
}
# The facets that are fields of the data set, and by which fields.
_FIELDS = {**{name.removeprefix("by_"): fields for name, fields in GROUPS.items()}, "dataset": ("dataset",)}
_LONGEST_VALUE = 200  # characters of a facet's value
_ACTIONS = {None: "open", "accept": "accepted", "edit": "changed"}


class SampleRow(NamedTuple):
    """A sample as it is filtered and sorted. Labels are -1 where there is none, numbers None where nobody knows."""

    post: str
    repeat: int
    ended: int  # place in OUTCOMES
    fine: int  # place in KINDS, labels compared as they are
    coarse: int  # the same, labels folded to yes and no
    folded: bool  # this sample's labels can be compared only when they are folded
    gold: int
    positive: int
    label: int
    yes: int
    confidence: float | None
    seconds: float
    calls: int
    tokens: int
    money: float | None
    facets: dict[str, tuple[str, ...]]
    words: str


def parse_line(line: bytes) -> Any:
    """Return what a line holds; quicker than `tribunal.text`, since a run has many.

    Raises:
        ValueError: it is no JSON.
    """
    return from_json(line)


def sample_row(held: Any, prices: Prices | None = None) -> SampleRow:
    """Return a line as a row of the index.

    Args:
        held: what `parsed` gives of it.
        prices: what calls cost; without them `money` is None.

    Raises:
        ValueError: it is no result.
    """
    result = Result.model_validate(held)
    try:
        return _row_from_result(held, result, prices)
    except (TypeError, AttributeError) as error:  # what a measure never reads may be anything
        raise ValueError(f"is of another shape than a result: {error}") from error


def _row_from_result(held: JSON, result: Result, prices: Prices | None) -> SampleRow:
    gold, calls, numbers = result.gold, result.calls, result_numbers(result)
    label = numbers["label"]
    return SampleRow(
        post=result.post_id,
        repeat=result.repeat,
        ended=numbers["outcome"],
        fine=_kind_index(numbers, right=numbers["gold"] == label),
        coarse=_kind_index(numbers, right=numbers["positive"] == numbers["hateful"]),
        folded=gold is not None and (gold.scheme != "fine" or result.scheme != "fine"),
        gold=numbers["gold"],
        positive=numbers["positive"],
        label=label,
        yes=numbers["hateful"],
        confidence=result.confidence,
        seconds=result.seconds,
        calls=result.usage.calls,
        tokens=result.usage.prompt_tokens + result.usage.completion_tokens,
        money=prices.cost_of_calls(result.calls) if prices else None,
        facets={
            "outcome": (result.outcome,),
            "gold": (gold.name,) if gold else (),
            "verdict": (result.category or str(label),) if result.outcome == "verdict" else (result.outcome,),
            "clause": result.clauses,
            "uncertain": ("yes" if result.uncertain else "no",),
            "person": _review_state(held),
            "track": _text_value(held.get("track")),
            "language": _text_value(held.get("language")),
            "model": tuple(sorted({call.model for call in calls if call.model})),
            "image": _image_state(result),
            "fault": _text_value((held.get("fault") or {}).get("kind")),
            "repeat": (str(result.repeat),),
            **{
                name: tuple(dict.fromkeys(value[:_LONGEST_VALUE] for value in values_of_fields(result.fields, fields)))
                for name, fields in _FIELDS.items()
            },
        },
        words="\n".join(each for each in searched_words(held) if each),
    )


def searched_words(held: JSON) -> Iterator[str]:
    """Yield what is searched of a line: the post's words where they are kept, the explanation, and what was argued."""
    yield kept_text(held) or ""
    yield str(held.get("explanation") or "")
    for turn in held.get("transcript") or ():
        yield turn.get("text") or ""
        for cue in turn.get("cues") or ():
            yield f"{cue.get('claim', '')} {cue.get('target_group', '')} {cue.get('justification', '')}"
        for argument in turn.get("arguments") or ():
            yield argument.get("argument") or ""
    for opinion in held.get("opinions") or ():
        yield opinion.get("reason") or ""
    for vote in held.get("votes") or ():
        yield vote.get("explanation") or ""


def kept_text(held: JSON) -> str | None:
    """Return the post's words where the run kept them."""
    text = held.get("text")
    return text if isinstance(text, str) else None


def _kind_index(numbers: dict[str, int], *, right: bool) -> int:
    """Return how a verdict stands to the gold label, as a place in KINDS."""
    yes = numbers["hateful"]
    if numbers["gold"] == NO_LABEL:
        kind = "no-gold"
    elif numbers["label"] == NO_LABEL:
        kind = "no-verdict"
    elif right:
        kind = "true-positive" if numbers["positive"] else "true-negative"
    elif numbers["positive"] == yes:
        kind = "other-category"
    else:
        kind = "false-positive" if yes else "false-negative"
    return _KINDS.index(kind)


def _review_state(held: JSON) -> tuple[str, ...]:
    review = held.get("review")
    return (_ACTIONS.get(review.get("action"), "waits"),) if isinstance(review, dict) else ()


def _image_state(result: Result) -> tuple[str, ...]:
    if result.has_image is None:
        return ()
    if not result.has_image:
        return ("missing",)
    shown = ["image" in call.shown for call in result.calls if call.shown]
    if not any(shown):
        return ("not shown to a model",)
    return ("shown",) if all(shown) else ("shown to some models",)


def _text_value(given: Any) -> tuple[str, ...]:
    return (given[:_LONGEST_VALUE],) if isinstance(given, str) and given else ()
