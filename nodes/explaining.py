"""Tell the author of a post about the decision: the call, its form, and the material for the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from tribunal.models.role import Role
from tribunal.nodes.forms import Form, Reason, same_form, text_bounds
from tribunal.prompts.marks import Entry, Material, Ours, entries, operator_words, ours

Decision = Literal[
    "hate_speech", "against_rules", "stands", "not_yet_decided", "could_not_be_decided"
]
# those that are against the post
RESTRICTING: tuple[Decision, ...] = (
    "hate_speech",
    "against_rules",
)
MOST_GROUNDS = 8
_SAID: dict[Decision, Ours] = {
    "hate_speech": ours(
        "It was decided that the post is hate speech, which the rules do not allow."
    ),
    "against_rules": ours(
        "It was decided that the post is against the rules, for something else than hate speech."
    ),
    "stands": ours("It was decided that the post is not against the rules. It stands."),
    "not_yet_decided": ours("Nothing is decided yet. A person will look at the post."),
    "could_not_be_decided": ours(
        "The post could not be decided on, for a technical reason. Nothing is held against it."
    ),
}


class Ground(NamedTuple):
    """A ground of a decision: words of the post, the attacked group, its characteristic, and the reason."""

    id: str
    quotes: tuple[str, ...]
    group: str
    characteristic: str
    claim: str
    reason: str


class NamedGround(Form):
    """A ground that the text names, and the words that name it."""

    id: str
    words: Annotated[str, text_bounds(200)]


class PlainForm(Form):
    """An explanation for the person who posted."""

    title: Annotated[str, text_bounds(80, least=1)]
    text: Reason
    grounds: list[NamedGround] = Field(json_schema_extra={"maxItems": MOST_GROUNDS})
    decision: Decision
    category: Annotated[str, text_bounds(60)]


EXPLAINER = Role(
    "explainer",
    "explainer",
    "explained/plain",
    same_form(PlainForm),
    0.0,
    system="explainer",
    final=True,
)


def decision_in_words(decision: Decision) -> Ours:
    """Return the decision, in the words that the model is shown."""
    return _SAID[decision]


def category_in_words(category: str) -> Ours:
    """Return the category of a decision, in the words that the model is shown."""
    return ours("It was decided under the category: {}", operator_words(category))


def category_from(told: str) -> str:
    """Return the category that these words tell, or nothing: the other way round."""
    found = re.search(r"^It was decided under the category: (.*)$", told, re.MULTILINE)
    return found[1].strip() if found else ""


def decision_from(told: str) -> Decision:
    """Return the decision that these words tell: the other way round."""
    return next(each for each in get_args(Decision) if _SAID[each] in told)


def grounds_shown(grounds: Sequence[Ground]) -> Material | Literal[""]:
    """Return grounds as the model is shown them."""
    if not grounds:
        return ""
    return entries(
        "grounds", (Entry(ours("[{}]", each.id), list(fields_of(each))) for each in grounds)
    )


def fields_of(ground: Ground) -> Iterator[tuple[str, str]]:
    """Yield the fields of a ground that the model is shown, by name."""
    for each in ground.quotes:
        yield "words", each
    named = (
        ("group", ground.group),
        ("characteristic", ground.characteristic),
        ("claim", ground.claim),
    )
    for name, text in (*named, ("reason", ground.reason)):
        if text:
            yield name, text
