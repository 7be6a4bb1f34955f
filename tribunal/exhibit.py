"""The exhibits of a court beside the post: opinions, passages, precedents and parts of the image.

The models are part of `tribunal.schema`, and are imported from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import Field, ValidationError, model_validator

from tribunal.core.calls import Frozen
from tribunal.errors import BadInput

if TYPE_CHECKING:
    from tribunal.typed_names import EvidenceData

Stance = Literal["hate", "not_hate"]


class Example(Frozen):
    """A labelled text near a post. `similarity` is the cosine; `row` is its place in the index, -1 where unknown."""

    text: str = Field(description="a labelled text near the post")
    label: Stance = Field(description="its label")
    label_name: str = Field(description="its label in words")
    similarity: float = Field(description="the cosine to the post")
    row: int = Field(description="its place in the index; -1 where unknown")


class Opinion(Frozen):
    """A perspective's stance and reason, and the examples it saw (PREDICT, section 3.1). `id` is the perspective."""

    id: str = Field(description="the perspective's")
    title: str = Field(description="the perspective")
    language: str = Field(description="the perspective's")
    stance: Stance = Field(description="whether it is hate to them")
    label_name: str = Field(description="the stance in the words of their data set")
    reason: str = Field(description="why")
    examples: tuple[Example, ...] = Field(
        default=(), description="the labelled texts shown to the model"
    )


class EvidenceStance(StrEnum):
    """Which way a passage speaks: for the post being hateful, against it, or neither, as what explains a word does."""

    SUPPORTS = "supports"
    REFUTES = "refutes"
    NEUTRAL = "neutral"

    @classmethod
    def of(cls, word: str) -> EvidenceStance:
        """Return the stance of this name.

        Raises:
            BadInput: there is none.
        """
        try:
            return cls(word)
        except ValueError as error:
            raise BadInput(f"stance: {word!r}: is none; give {', '.join(cls)}") from error


class Evidence(Frozen):
    """A passage of a page, word for word, and which way it speaks (AntiHateAgent, section 3, phase 2).

    `start` and `end` are its place in the page's text, in characters; `window` is the reading window it came from.
    """

    id: str = Field(description="its id within the record")
    query: str = Field(description="what was searched for")
    url: str = Field(description="the page's address")
    page_id: str = Field(description="the page")
    title: str = Field(description="the page's title")
    passage: str = Field(description="its words")
    stance: EvidenceStance = Field(description="supports or refutes that the post is hateful")
    window: int = Field(description="the reading window that it came from")
    start: int = Field(description="where it begins in the page's text, in characters")
    end: int = Field(description="where it ends, exclusive")

    @classmethod
    def of(
        cls,
        id: str,
        passage: str,
        stance: EvidenceStance | Literal["supports", "refutes", "neutral"],
        title: str,
        url: str = "",
    ) -> EvidenceData:
        """Return a passage from a source of one's own, as state carries it.

        Args:
            id: a capital letter and a number, by which the court cites it: G1.
            passage: its words.
            stance: which way it speaks of the post.
            title: of what it is taken from.
            url: its address, where it has one.

        Raises:
            BadInput: the id, the passage or the stance is wrong.
        """
        if not re.fullmatch("[A-Z][0-9]+", id):
            raise BadInput(
                f"id: {id!r}: can't be cited; give a capital letter and a number, such as G1"
            )
        if not passage.strip():
            raise BadInput(f"passage: of {id}: is empty; leave the evidence out")
        made = cls(
            id=id, query="", url=url, page_id="", title=title, passage=passage, stance=EvidenceStance.of(stance),
            window=0, start=0, end=len(passage),
        )  # fmt: skip
        return cast("EvidenceData", made.dump())


class Precedent(Frozen):
    """A case that a person decided, as the court saw it. `category` is its decision.

    `here` is the category that this is in the policy and scheme in force, None where that has none: then it can't be
    followed. `same_policy` says whether it was decided under the very policy that is in force.

    `text` and `note` are another person's words. Only the state of a case holds them, for as long as its court sits; in
    events and records they are empty, so that they are forgotten where the precedent's own case is forgotten.
    """

    id: str = Field(description="its id within the record, by which it is cited")
    case: str = Field(
        description="the id of the case where it was decided; its words are found there"
    )
    text: str = Field(default="", description="empty: the words are found with its case")
    category: str = Field(description="what was decided, by its name then")
    here: str | None = Field(
        description="the same category in the policy in force; null if it has none"
    )
    hateful: bool | None = Field(description="whether it was hate speech; null if unknown")
    how: Literal["accepted", "changed", "appealed"] = Field(
        description="accepted: a person took the court's verdict; changed: decided otherwise; appealed: on an appeal"
    )
    note: str = Field(default="", description="empty: as the text")
    at: str = Field(default="", description="when it was decided; empty where that isn't known")
    policy: str = Field(default="", description="the name of the policy that it was decided under")
    policy_sha: str = Field(default="", description="the hash of that policy's words")
    same_policy: bool = Field(description="whether it was decided under the policy in force")
    similarity: float = Field(description="text similarity of the two posts, up to 1")
    cited_by: tuple[str, ...] = Field(
        default=(), description="of a record: the turns that cite it, and the judge"
    )

    def without_words(self, cited_by: tuple[str, ...] = ()) -> Precedent:
        """Return it as events and records name it."""
        return self.model_copy(update={"text": "", "note": "", "cited_by": cited_by})


EDGES = ("x0", "y0", "x1", "y1")


class Box(Frozen):
    """A part of an image: its left, upper, right and lower edge, each as a part of the image's width or height."""

    x0: float = Field(
        ge=0, le=1, description="the left edge: 0 is that of the image, 1 its right one"
    )
    y0: float = Field(
        ge=0, le=1, description="the upper edge: 0 is that of the image, 1 its lower one"
    )
    x1: float = Field(ge=0, le=1, description="the right edge")
    y1: float = Field(ge=0, le=1, description="the lower edge")

    @model_validator(mode="after")
    def _edges_are_apart(self) -> Self:
        if not (self.x0 < self.x1 and self.y0 < self.y1):
            raise ValueError("x0 is below x1, and y0 below y1")
        return self


def box_of(given: Any) -> Box | None:
    """Return the box that a model gave; None where it gave none.

    Raises:
        ValueError: what it gave is no box of an image.
    """
    if given in (None, "", {}, []):
        return None
    if isinstance(given, list | tuple) and len(given) == len(EDGES):
        given = dict(zip(EDGES, given, strict=True))
    if not isinstance(given, Mapping):
        raise ValueError("is no box")
    try:
        return Box.model_validate({edge: given.get(edge) for edge in EDGES})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        edge = ".".join(map(str, first["loc"]))
        raise ValueError(f"{edge} {first['msg']}".strip().removeprefix("Value error, ")) from error
