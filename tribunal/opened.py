"""What a run reads by name is read once.

Within `opened_once` a policy, a set of prompts, a line-up, a threshold or a perspective's index stays what it was when
it was first read, whatever becomes of its files meanwhile: a run ends with what it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Thing = TypeVar("Thing")
# Tasks and threads that are started within see the same things.
_opened: ContextVar[dict[Hashable, Any] | None] = ContextVar("opened", default=None)


@contextmanager
def opened_once() -> Iterator[None]:
    """Keep everything that is read by name from here on. Within another one, what that one holds is kept."""
    if _opened.get() is not None:
        yield
        return
    token = _opened.set({})
    try:
        yield
    finally:
        _opened.reset(token)


def opened(key: Hashable, read: Callable[[], Thing]) -> Thing:
    """What was read under this key within `opened_once`, else what `read` gives now.

    Raises:
        Exception: whatever `read` raises; nothing is kept then.
    """
    held = _opened.get()
    if held is None:
        return read()
    if key not in held:
        held.setdefault(key, read())
    thing: Thing = held[key]
    return thing
