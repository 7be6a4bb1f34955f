"""What a court may be shown beside the post: opinions, passages and precedents; and what every model here is based on.

The models are part of `tribunal.schema`, and are imported from there.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from tribunal.channel_data import EvidenceData
from tribunal.errors import BadInput

Stance = Literal["hate", "not_hate"]
JSON = dict[str, Any]


class Frozen(BaseModel):
    """The base of every model here: frozen, and strict about names it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def dump(self) -> JSON:
        """The plain JSON form in which state, checkpoints and records carry this."""
        return self.model_dump(mode="json")


class Example(Frozen):
    """A labelled text near a post. `similarity` is the cosine; `row` is its place in the index, -1 where unknown."""

    text: str
    label: Stance
    label_name: str
    similarity: float
    row: int


class Opinion(Frozen):
    """A perspective's stance and reason, and the examples it saw (PREDICT, section 3.1). `id` is the perspective."""

    id: str
    title: str
    language: str
    stance: Stance
    label_name: str
    reason: str
    examples: tuple[Example, ...] = ()


class EvidenceStance(StrEnum):
    """Which way a passage speaks: for the post being hateful, against it, or neither, as what explains a word does."""

    SUPPORTS = "supports"
    REFUTES = "refutes"
    NEUTRAL = "neutral"

    @classmethod
    def of(cls, word: str) -> EvidenceStance:
        """The stance of this name.

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

    id: str
    query: str
    url: str
    page_id: str
    title: str
    passage: str
    stance: EvidenceStance
    window: int
    start: int
    end: int

    @classmethod
    def of(
        cls,
        id: str,
        passage: str,
        stance: EvidenceStance | Literal["supports", "refutes", "neutral"],
        title: str,
        url: str = "",
    ) -> EvidenceData:
        """A passage from a source of one's own, as state carries it.

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
            raise BadInput(f"id: {id!r}: can't be cited; give a capital letter and a number, such as G1")
        if not passage.strip():
            raise BadInput(f"passage: of {id}: is empty; leave the evidence out")
        made = cls(
            id=id, query="", url=url, page_id="", title=title, passage=passage, stance=EvidenceStance.of(stance),
            window=0, start=0, end=len(passage),
        )  # fmt: skip
        return cast("EvidenceData", made.dump())


class Precedent(Frozen):
    """A case that a person decided, as the court was reminded of it. `category` is what was decided, in its words.

    `here` is the category that this is in the policy and scheme in force, None where that has none: then it can't be
    followed. `same_policy` says whether it was decided under the very policy that is in force.

    `text` and `note` are another person's words. Only the state of a case holds them, for as long as its court sits; in
    events and records they are empty, so that they are forgotten where the precedent's own case is forgotten.
    """

    id: str
    case: str = Field(description="the id of the case where it was decided; its words are found there")
    text: str = ""
    category: str
    here: str | None
    hateful: bool | None
    how: Literal["accepted", "changed", "appealed"]
    note: str = ""
    at: str = Field(default="", description="when it was decided; empty where that isn't known")
    policy: str = Field(default="", description="the name of the policy that it was decided under")
    policy_sha: str = ""
    same_policy: bool
    similarity: float
    cited_by: tuple[str, ...] = Field(default=(), description="of a record: the turns that cite it, and the judge")

    def without_words(self, cited_by: tuple[str, ...] = ()) -> Precedent:
        """As events and records name it."""
        return self.model_copy(update={"text": "", "note": "", "cited_by": cited_by})
