"""Counting tokens, and estimating them where the tables can't be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tribunal.loops import aside


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens; `warning` says so when it can only estimate."""

    count: Callable[[str], float]
    warning: str | None = None

    @classmethod
    async def load(
        cls, encoding: str = "o200k_base", seconds: float = 5.0, *, get: Callable[[str], Any] | None = None
    ) -> TokenCounter:
        """The tokens of an encoding of `tiktoken`, or an estimate (a token for every three bytes of UTF-8, which is on
        the high side) where its tables can't be had: they are downloaded at first use, and that has no time limit of
        its own.

        Args:
            encoding: as `tiktoken` names it.
            seconds: how long to wait for the tables.
            get: what makes an encoding by its name; `tiktoken.get_encoding` by default.
        """

        def tables() -> Any:
            if get is not None:
                return get(encoding)
            import tiktoken

            return tiktoken.get_encoding(encoding)

        try:
            # A thread that isn't joined when the program ends: a download that hangs must not hold up the exit.
            async with asyncio.timeout(seconds):
                loaded = await aside(tables, "tribunal-tiktoken")
        except (OSError, ValueError, RuntimeError) as error:
            why = str(error) or f"no answer within {seconds:g} s"
            return cls(estimated_tokens, f"tokens are estimated: the tables of {encoding} can't be had ({why[:60]})")
        return cls(lambda text: len(loaded.encode_ordinary(text)))


def estimated_tokens(text: str) -> float:
    """A token for every three bytes of UTF-8: more than current tokenizers make of prose, so windows stay within."""
    return len(text.encode("utf-8", "replace")) / 3


ESTIMATE = TokenCounter(estimated_tokens, "tokens are estimated")
