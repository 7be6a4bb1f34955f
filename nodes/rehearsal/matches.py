"""What the rules find in a post: attacks and signs, each with what in the post excuses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tribunal.nodes.rehearsal.attacks import Attack
from tribunal.nodes.rehearsal.layout import Mention
from tribunal.nodes.rehearsal.signs import Sign
from tribunal.schema import CueType

ExcuseKind = Literal[
    "unprotected", "denied", "self", "condemned", "reported", "satire", "quoted", "one person", "praised", "nobody"
]
WEAK: tuple[ExcuseKind, ...] = ("quoted", "praised")
_PLEAS: dict[ExcuseKind, str] = {
    "unprotected": "“{words}” stands for no group that the policy protects: hostility to a camp, a trade or an "
    "idea isn't hate speech under it.",
    "denied": "The post denies it: “{words}” stands before the words in question, and turns them round.",
    "self": "The author speaks as one of the group (“{words}”): this is said of oneself, not against others.",
    "condemned": "The post turns against such words: “{words}” is the author's own judgement of them.",
    "reported": "The post reports these words and doesn't assert them: “{words}” ascribes or documents them.",
    "satire": "The post marks itself as satire: “{words}”.",
    "quoted": "“{words}” stands in quotation marks, among the author's own words: it is somebody else who says it.",
    "one person": "“{words}” is one person; nothing is said of the group.",
    "praised": "“{words}” in the same sentence speaks for these people, not against them.",
    "nobody": "The post names no group that the policy protects, and the rules find no attack on one in its words.",
}


@dataclass(frozen=True, slots=True)
class Excuse:
    """What in the post speaks against holding an attack against its author, and the words it lies in."""

    kind: ExcuseKind
    words: str

    @property
    def weak(self) -> bool:
        """Whether a prosecutor has one more answer to it."""
        return self.kind in WEAK

    @property
    def plea(self) -> str:
        """What a defence says of it."""
        return _PLEAS[self.kind].format(words=self.words)


@dataclass(frozen=True, slots=True)
class Match:
    """Words of the post that fit the lexicon, and the group that they are said of.

    `found` are the words that fit, from `at` on; `words` also hold the group's name where it stands near, from `start`
    to `end`, short enough to quote. `key` is the group's place in the lexicon.
    """

    kind: Attack | Sign
    type: CueType
    key: str
    mention: Mention | None
    found: str
    words: str
    at: int
    start: int
    end: int
    excuse: Excuse | None = None

    @property
    def term(self) -> str:
        """The group's name in the post; empty where none is named."""
        return self.mention.term if self.mention else ""

    @property
    def is_figure(self) -> bool:
        """Whether it likens people to something else."""
        return self.type == "Metaphor" or self.kind.name == "dehumanising"

    @property
    def meaning(self) -> str:
        """What it implies of the group, as a clause."""
        return f"they are {self.kind.implies}" if self.is_figure else self.kind.implies

    @property
    def charge(self) -> str:
        """What the words do, to be said after them."""
        return self.kind.what if self.type == "Direct" else f"implies that {self.meaning}"
