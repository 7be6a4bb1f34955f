"""A post as the rules read it: what was found in it, and what of that nothing excuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.attribution import matches
from tribunal.nodes.rehearsal.excuses import excuse_of
from tribunal.nodes.rehearsal.layout import lay_out
from tribunal.nodes.rehearsal.matches import Match
from tribunal.nodes.rehearsal.protection import protected_by
from tribunal.prompts.policy import Policy

if TYPE_CHECKING:
    from tribunal.models.question import Question

MOST_WEIGHED = 200  # matches in one post whose excuses are looked at


@dataclass(frozen=True, slots=True)
class Reading:
    """A post in one spelling, what was found in it, and whether it names a group that the policy protects."""

    text: str
    matches: tuple[Match, ...]
    names_protected: bool

    @property
    def direct(self) -> list[Match]:
        """The open attacks: those without an excuse first, then the gravest, then in the order of the post."""
        found = (match for match in self.matches if match.type == "Direct")
        return sorted(found, key=lambda match: (match.excuse is not None, -match.kind.gravity))

    @property
    def implied(self) -> list[Match]:
        """What is implied: without an excuse first, then the strong ones, then in the order of the post."""
        found = (match for match in self.matches if match.type != "Direct")
        return sorted(found, key=lambda match: (match.excuse is not None, not match.kind.strong))

    @property
    def unexcused(self) -> list[Match]:
        """What nothing excuses, open attacks first; a faint sign that stands alone is left out."""
        ranked = (*self.direct, *self.implied)
        return [match for match in ranked if match.excuse is None and not self.stands_alone(match)]

    @property
    def gravest(self) -> Match | None:
        """The first of what nothing excuses."""
        return next(iter(self.unexcused), None)

    def stands_alone(self, match: Match) -> bool:
        """Whether a faint sign is all there is: no second one, nothing stronger."""
        return not match.kind.strong and len({found.kind.name for found in self.matches}) < 2


@lru_cache(maxsize=256)
def read(text: str, policy: Policy) -> Reading:
    """What the rules find in a post, under a policy. Pure, and linear in the length of the text."""
    layout = lay_out(text, policy)
    kept: dict[tuple[str, str], Match] = {}
    weighed = 0
    for match in matches(layout):
        place = (match.key, match.kind.name)
        if (place in kept and kept[place].excuse is None) or weighed >= MOST_WEIGHED:
            continue
        weighed += 1
        excuse = excuse_of(layout, match)
        if place not in kept or excuse is None:
            kept[place] = replace(match, excuse=excuse)
    names_protected = any(protected_by(policy, mention.key) for mention in layout.mentions)
    return Reading(layout.text, tuple(kept.values()), names_protected)


def reading_of(question: Question) -> Reading:
    """The post that a call is about."""
    return read(question.post.text, question.policy)
