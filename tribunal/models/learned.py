"""What servers have shown of their models so far, so that what was refused isn't sent each time.

Nothing of it holds for ever. A lesson is of one model; of the format and its bounds it is of one role too, since a
server may refuse one form's grammar and take another's. It is forgotten when the server takes what it refused, and from
time to time a call is sent in full to see whether it does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tribunal.models.exchange import RUNGS, Exchange, Part
from tribunal.models.providers import ModelName, Rung
from tribunal.models.turns import Turns

# After so many calls without a part, one is sent in full; each time that it is refused again, after twice as many.
AGAIN_AFTER, AGAIN_AT_THE_LATEST = 32, 1024
# So many calls have to show that bare 500s are for the format, with none in between that was answered in it.
BELIEVED = 3
# A server that has answered in a format knows it; so many bare 500s in a row say that it may be another by now.
OUTAGE = 20


@dataclass
class Lesson:
    """A part of the request that was refused; of the format, `rung` is the one that was taken instead."""

    rung: Rung = "json_schema"
    asked: int = 0
    patience: int = AGAIN_AFTER

    def is_due(self) -> bool:
        """Whether this call is the one that is sent in full."""
        self.asked += 1
        if self.asked < self.patience:
            return False
        self.asked, self.patience = 0, min(2 * self.patience, AGAIN_AT_THE_LATEST)
        return True


@dataclass
class Learned:
    """What servers have shown of their models so far.

    Attributes:
        sighted: models that have taken an image.
        contexts: how many tokens a model's context has.
        turns: how many requests to a model are under way at a time.
    """

    sighted: set[ModelName] = field(default_factory=set)
    contexts: dict[ModelName, int] = field(default_factory=dict)
    turns: defaultdict[ModelName, Turns] = field(default_factory=lambda: defaultdict(Turns))
    _lessons: dict[tuple[Part, ModelName, str], Lesson] = field(default_factory=dict)
    _bare_500s: dict[tuple[Rung, ModelName, str], int] = field(default_factory=dict)  # since the last answer
    _shown: dict[tuple[ModelName, str], int] = field(default_factory=dict)

    def drop_objects(self, numbers: set[int]) -> None:
        """Forget the lessons of model objects that are gone."""
        if not numbers:
            return
        self.sighted = {model for model in self.sighted if model.number not in numbers}
        self.contexts = {model: size for model, size in self.contexts.items() if model.number not in numbers}
        for model in [each for each in self.turns if each.number in numbers]:
            del self.turns[model]
        self._lessons = {at: lesson for at, lesson in self._lessons.items() if at[1].number not in numbers}
        self._bare_500s = {at: count for at, count in self._bare_500s.items() if at[1].number not in numbers}
        self._shown = {at: count for at, count in self._shown.items() if at[0].number not in numbers}

    def leaves_out(self, part: Part, exchange: Exchange) -> bool:
        """Whether a call is to be sent without this part."""
        lesson = self._lessons.get(_about(part, exchange)) if self._lessons else None
        return lesson is not None and not lesson.is_due()

    def rung(self, exchange: Exchange) -> Rung:
        """The response format to ask a call's answer in."""
        if exchange.question.role.plain or not exchange.provider.takes_schema:
            return "prompt"
        return self._lessons[_about("format", exchange)].rung if self.leaves_out("format", exchange) else RUNGS[0]

    def refused(self, part: Part, exchange: Exchange) -> Lesson:
        """Take note that a server has named this part as one that it doesn't take."""
        return self._lessons.setdefault(_about(part, exchange), Lesson())

    def may_be_the_format(self, exchange: Exchange) -> bool:
        """Count a bare 500; says whether the format may be why: not where the server has answered in it."""
        at = (exchange.rung, *_of(exchange))
        if at in self._bare_500s:
            self._bare_500s[at] += 1
        return self._bare_500s.get(at, OUTAGE) >= OUTAGE

    def from_answer(self, exchange: Exchange) -> None:
        """Take note of what has just been answered to."""
        if exchange.image and not exchange.blind:
            self.sighted.add(exchange.model)
        if exchange.stream and not exchange.last_prompt_tokens:
            exchange.refused.add("stream")  # it may say what was used of a whole answer alone
            exchange.stream = False
        if self._lessons or exchange.refused:
            sent = exchange.sent()
            for part in sent - {"format"}:
                self._lessons.pop(_about(part, exchange), None)
            for part in exchange.refused - sent:
                self.refused(part, exchange)
        if not exchange.question.role.plain:
            self._from_format(exchange)

    def _from_format(self, exchange: Exchange) -> None:
        of, rung = _of(exchange), exchange.rung
        self._bare_500s[rung, *of] = 0
        if rung == RUNGS[0]:
            self._lessons.pop(_about("format", exchange), None)
            self._shown.pop(of, None)
            return
        if exchange.stood_the_test:
            exchange.stood_the_test = False
            self._shown[of] = self._shown.get(of, 0) + 1
        if "format" in exchange.refused or self._shown.get(of, 0) >= BELIEVED:
            self.refused("format", exchange).rung = rung


def _about(part: Part, exchange: Exchange) -> tuple[Part, ModelName, str]:
    model, role = _of(exchange)
    return part, model, role if part in ("format", "bounds") else ""


def _of(exchange: Exchange) -> tuple[ModelName, str]:
    return exchange.model, exchange.question.role.name
