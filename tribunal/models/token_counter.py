"""Count the tokens of a text, by tiktoken's tables or by an estimate where they can't be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tribunal.process.loops import run_in_thread


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens; `warning` says so when it can only estimate."""

    count: Callable[[str], float]
    warning: str | None = None

    @classmethod
    async def load(
        cls, encoding: str = "o200k_base", seconds: float = 5.0, *, get: Callable[[str], Any] | None = None
    ) -> TokenCounter:
        """Load the tokens of an encoding of `tiktoken`, or an estimate if its tables don't come within these seconds.

        The estimate is a token for every three bytes of UTF-8, which is on the high side. The tables are downloaded at
        first use, and that has no time limit of its own. `get` makes an encoding by its name; `tiktoken.get_encoding`
        by default.
        """

        def tables() -> Any:
            if get is not None:
                return get(encoding)
            import tiktoken

            return tiktoken.get_encoding(encoding)

        try:
            # A thread that isn't joined when the program ends: a download that hangs must not hold up the exit.
            async with asyncio.timeout(seconds):
                loaded = await run_in_thread(tables, "tribunal-tiktoken")
        except (OSError, ValueError, RuntimeError) as error:
            why = str(error) or f"no answer within {seconds:g} s"
            return cls(estimate_tokens, f"tokens are estimated: the tables of {encoding} can't be had ({why[:60]})")
        return cls(lambda text: len(loaded.encode_ordinary(text)))


def estimate_tokens(text: str) -> float:
    """Return a token for every three bytes of UTF-8: more than tokenizers make of prose, so windows stay within."""
    return len(text.encode("utf-8", "replace")) / 3


ESTIMATE = TokenCounter(estimate_tokens, "tokens are estimated")

_shared: list[TokenCounter] = []


async def shared_counter() -> TokenCounter:
    """Return the counter of this process, loaded at its first use."""
    if not _shared:
        _shared.append(await TokenCounter.load())
    return _shared[0]
