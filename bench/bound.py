"""The bound of a run: the wall time that no client can beat (SYSTEMS.md, Common ground)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence


def bound(chains: Iterable[float | Sequence[float]], in_flight: int) -> float:
    """Return the makespan of these posts, in this order, at most `in_flight` at once, on a client that costs nothing.

    A post starts as soon as one of the `in_flight` places is free, in the order given, and holds its place for as long
    as its chain of calls takes. This is list scheduling, simulated with a heap of the times at which places fall free.

    Args:
        chains: for each post the seconds of the calls that follow one another (they are summed), or their sum. Of calls
            that run at the same time only the longest path counts: the caller works that out.
        in_flight: how many posts may be under way together, at least 1.

    Returns:
        Seconds from the first post's start to the last one's end; 0.0 for no posts.

    Raises:
        ValueError: for `in_flight` below 1, or a chain that is negative or not finite.
    """
    if in_flight < 1:
        raise ValueError(f"in_flight: {in_flight}: at least 1 post must be in flight")
    free: list[float] = []
    end = 0.0
    for number, chain in enumerate(chains):
        seconds = chain if isinstance(chain, int | float) else math.fsum(chain)
        if not 0 <= seconds < math.inf:
            raise ValueError(f"chain {number}: {seconds} seconds is no duration")
        start = heapq.heappop(free) if len(free) == in_flight else 0.0
        heapq.heappush(free, start + seconds)
        end = max(end, start + seconds)
    return end
