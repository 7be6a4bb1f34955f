"""How often a request is tried, with which key, and how long is waited in between: the same for every endpoint."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tribunal.models.diagnosis import Diagnosis
from tribunal.models.keys import LONGEST_REST, KeyPool

Got = TypeVar("Got")


def back_off(tries: int) -> float:
    """Seconds to wait after so many tries, where no server asked for some: doubling from half a second, with jitter."""
    return float(min(20.0, 0.5 * 2 ** (tries - 1)) * random.uniform(0.75, 1.25))


async def tried(
    pool: KeyPool,
    send: Callable[[int], Awaitable[Got | Diagnosis]],
    most_tries: int,
    adapt: Callable[[Diagnosis], bool] = lambda diagnosis: False,
) -> Got | Diagnosis:
    """What a request gives once no passing fault stands in the way.

    A key that is declined is retired, and one that is limited rests; another takes over. A rate limit that all keys
    share, a server's error, a timeout or a lost connection costs a try.

    Args:
        pool: the keys.
        send: sends the request with the key of this number; gives its answer, or what went wrong.
        most_tries: how many tries there are.
        adapt: is told what went wrong, unless it was the key; says whether it has changed the request so that it is
            worth sending again at once.

    Returns:
        The answer; or what went wrong, where that doesn't pass or the tries are used up.

    Raises:
        CallFailed: no key is left, or all rest for too long.
    """
    requests = tries = 0
    other_keys = len(pool.keys) - 1
    while True:
        key = await pool.take()
        got = await send(key)
        if not isinstance(got, Diagnosis):
            return got
        requests += 1
        pause: float | None = None
        if got.kind in ("authentication", "quota"):
            pool.retire(key, got.kind, got.message)
            continue
        if got.kind == "rate_limit":
            pool.rest(key, back_off(requests) if got.retry_after is None else got.retry_after)
            if other_keys and pool.rested():
                other_keys -= 1  # another key can be used at once, which is no new try
                continue
            pause = 0.0  # the pool waits
        elif adapt(got):
            continue
        elif not got.passes:
            return got
        elif got.retry_after is not None:
            if got.retry_after > LONGEST_REST:
                return replace(got, message=f"{got.message}: asks to wait {got.retry_after:.0f} s")
            pause = got.retry_after
        tries += 1
        if tries == most_tries:
            return got
        await asyncio.sleep(back_off(tries) if pause is None else pause)
        other_keys = len(pool.keys) - 1
