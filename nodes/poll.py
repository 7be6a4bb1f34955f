"""Draws that vote: they are made in waves, and no more of them than the count needs: of five, three first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tribunal.errors import ModelError
from tribunal.models.saved_calls import gather_calls

Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Poll(Generic[Drawn]):
    """The draws in their order, and how they voted.

    `winner` is the choice that most gave, of several with as many the one that was given first, and None if nobody
    voted; `tie` says that there were several. `faults` are those of the draws that gave nothing. `spared` is the number
    of draws that could not have turned the vote.
    """

    drawn: tuple[Drawn, ...]
    winner: Hashable | None
    tie: bool
    faults: tuple[ModelError, ...]
    spared: int


async def poll(
    most: int,
    draw: Callable[[int], Awaitable[Drawn]],
    choice: Callable[[Drawn], Hashable],
    *,
    in_turn: bool = False,
) -> Poll[Drawn]:
    """Draw until the vote can't turn, at most so many times.

    Args:
        most: how many draws there may be.
        draw: makes the draw of this number, from 0; a `ModelError` that it raises is an abstention.
        choice: what a draw votes for.
        in_turn: whether the draws of a wave are made one after the other (`gather_calls`).
    """
    drawn: list[Drawn] = []
    faults: list[ModelError] = []
    asked = 0
    while asked < most and (wave := _wave(Counter(map(choice, drawn)), most - asked)):
        results = await gather_calls((draw(asked + each) for each in range(wave)), in_turn=in_turn)
        asked += wave
        for result in results:
            if isinstance(result, ModelError):
                faults.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                drawn.append(result)
    counted = Counter(map(choice, drawn)).most_common()
    return Poll(
        drawn=tuple(drawn),
        winner=counted[0][0] if counted else None,
        tie=len(counted) > 1 and counted[0][1] == counted[1][1],
        faults=tuple(faults),
        spared=most - asked,
    )


def _wave(votes: Counter[Hashable], left: int) -> int:
    """Return the fewest further draws that can settle the vote; 0 where it is settled."""
    counts = [count for _, count in votes.most_common(2)] + [0, 0]
    lead = counts[0]
    second = counts[1]
    if lead > second + left:
        return 0
    return min(left, (second + left - lead) // 2 + 1)
