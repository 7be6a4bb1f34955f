"""Machine translation at the desk: a coroutine of the operator's, given a post where a reviewer asks for it."""

from __future__ import annotations

import asyncio
import pkgutil

from tribunal.cases.problem import Problem

_SECONDS = 30.0
_MOST_CHARACTERS = 10_000  # of a text, and of its translation


async def translate_post(name: str, text: str, source: str | None, target: str) -> str:
    """Return the machine translation of a post's text.

    Args:
        name: `module:object` of a coroutine function of the three other arguments, which returns the translation.
        text: the post's; what is over 10,000 characters is cut.
        source: the code of its language, where that is known.
        target: the code of the reviewers' language.

    Raises:
        Problem: it failed, took over half a minute, or gave no text; the page says so.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            said = await pkgutil.resolve_name(name)(text[:_MOST_CHARACTERS], source, target)
    except TimeoutError:
        raise Problem("unavailable", f"translation: no answer within {_SECONDS:g} s") from None
    except Exception as error:
        raise Problem("unavailable", f"translation: failed ({type(error).__name__})") from error
    if not isinstance(said, str) or not said.strip():
        raise Problem("unavailable", "translation: gave no text")
    return said[:_MOST_CHARACTERS]
