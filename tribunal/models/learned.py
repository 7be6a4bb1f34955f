"""What servers have shown of their models so far, so that nothing is tried twice that was refused once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tribunal.models.exchange import RUNGS, Exchange
from tribunal.models.providers import ModelName, Rung
from tribunal.models.turns import Turns


@dataclass
class Learned:
    """What servers have shown of their models so far.

    Attributes:
        rungs: the response format that a model is asked for first, where that isn't the highest.
        blind: models that take no image.
        sighted: models that have taken one.
        no_temperature: models that take no temperature.
        no_bounds: models whose server takes no bounds in a schema.
        no_system: models whose chat template has no place for standing instructions.
        contexts: how many tokens a model's context has.
        turns: how many requests to a model are under way at a time.
    """

    rungs: dict[ModelName, Rung] = field(default_factory=dict)
    blind: set[ModelName] = field(default_factory=set)
    sighted: set[ModelName] = field(default_factory=set)
    no_temperature: set[ModelName] = field(default_factory=set)
    no_bounds: set[ModelName] = field(default_factory=set)
    no_system: set[ModelName] = field(default_factory=set)
    contexts: dict[ModelName, int] = field(default_factory=dict)
    turns: defaultdict[ModelName, Turns] = field(default_factory=lambda: defaultdict(Turns))
    _bare_500s: dict[ModelName, int] = field(default_factory=dict)

    def from_answer(self, exchange: Exchange) -> None:
        """Take note of what has just been answered to."""
        model = exchange.model
        if exchange.image and not exchange.blind:
            self.sighted.add(model)
        if exchange.question.role.plain:
            return
        if RUNGS.index(exchange.rung) <= RUNGS.index(self.rungs.get(model, "json_schema")):
            self._bare_500s.pop(model, None)
            return
        # A server that said no to a format is believed at once; one that gives bare 500s to it, the third time.
        self._bare_500s[model] = self._bare_500s.get(model, 0) + 1
        if exchange.format_refused or self._bare_500s[model] >= 3:
            self.rungs[model] = exchange.rung
