"""An attack on the fetcher, and what is to come of it: a row of the table in docs/fetching.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.retrievers.web.fetch.small_web import Web

Run = Callable[[Web], Awaitable[str]]


@dataclass(frozen=True)
class Attack:
    attack: str
    outcome: str
    happens: str
    run: Run


class Attacks(list[Attack]):
    def add(self, attack: str, outcome: str, happens: str) -> Callable[[Run], Run]:
        """Decorates what carries the attack out and gives its outcome."""

        def keep(run: Run) -> Run:
            self.append(Attack(attack, outcome, happens, run))
            return run

        return keep
