"""Who is trusted: whether posts and settings come from clients, and what the operator allows them.

By default they are the operator's, who may set everything. Whoever embeds a graph in a server says so otherwise:
`untrusted()` around the call, `untrusted=True`, or `tribunal.as_served` for LangGraph's server (docs/security.md).
`tribunal.settings.client_settings` has the rules for settings. The operator allows more with TRIBUNAL_ALLOW
(docs/hours/langgraph.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from tribunal.core.text import one_line
from tribunal.errors import BadInput

ALLOW = "TRIBUNAL_ALLOW"

MODEL_SETTINGS = frozenset({"model", "judge_model", "aux_model", "triage", "seats"})

_serving = False  # whether this whole process serves clients
# Who gave what is being tried. Tasks, threads and the background loop that are started within see the same.
_sender: ContextVar[Literal["operator", "client", "agent"]] = ContextVar(
    "sender", default="operator"
)
_stored: ContextVar[bool] = ContextVar("stored", default=False)


@contextmanager
def untrusted() -> Iterator[None]:
    """Treat posts and settings as a client's while this is open: everything tried within, in any task or thread.

        with tribunal.untrusted():
            state = await graph("arcade").ainvoke({"text": text}, context=request)

    Nothing in a request can undo it.
    """
    token = _sender.set("client")
    try:
        yield
    finally:
        _sender.reset(token)


def distrust_input() -> None:
    """Treat everything that this process is given from here on as a client's: for a process that only serves."""
    global _serving
    _serving = True


def for_clients() -> bool:
    """Return whether the post or the settings at hand come from a client."""
    return _serving or _sender.get() == "client"


def for_strangers() -> bool:
    """Return whether the post at hand comes from a client or an agent (`for_an_agent`)."""
    return _serving or _sender.get() != "operator"


@contextmanager
def for_an_agent() -> Iterator[None]:
    """Treat the post as an agent's while this is open: it names no file of the machine, here or on a server.

    An agent may have been talked into anything. The settings are those of whoever gave the agent its tool, so they are
    the operator's, on a server too.
    """
    token = _sender.set("agent")
    try:
        yield
    finally:
        _sender.reset(token)


def settings_come_from_clients() -> bool:
    """Return whether the settings at hand come from a client."""
    return for_clients() and _sender.get() != "agent"


def check_words(kind: str, name: str) -> None:
    """Refuse words that a case is tried by and that are in no file of the operator's, unless any are allowed.

    Args:
        kind: the setting that names such a file: policy, prompts, line_up or threshold_file.
        name: what the case calls it.

    Raises:
        BadInput: naming both, and TRIBUNAL_ALLOW.
    """
    if settings_come_from_clients() and not is_allowed(kind, None):
        called = kind.replace("line_up", "line-up").replace("_", " ")
        raise BadInput(
            f"context.{kind}: the case holds other words than the {called} {one_line(name)[:100]!r}: a client of "
            f"this server may not set these; put them back, or ask the operator, who allows it with {ALLOW}={kind}"
        )


def check_image(ref: str) -> None:
    """Refuse a local file as a client's image, unless the operator allows it.

    Raises:
        BadInput: naming the reference and TRIBUNAL_ALLOW.
    """
    if for_strangers() and not is_allowed("image", ref):
        raise image_refused(ref)


@contextmanager
def stored_settings() -> Iterator[None]:
    """Take the settings, while this is open, for those of a file that others may have written.

    They run no code but the operator's own (`check_code`).
    """
    token = _stored.set(True)
    try:
        yield
    finally:
        _stored.reset(token)


def check_code(place: str, *, stored: bool | None = None) -> None:
    """Refuse code that a stored case names, unless the operator allows it.

    Args:
        place: `/whole/path.py:graph`, or `module:object`.
        stored: whether a stored case names it; None: whether one is at work (`stored_settings`).

    Raises:
        BadInput: naming the place and TRIBUNAL_ALLOW.
    """
    is_stored = _stored.get() if stored is None else stored
    if is_stored and not is_allowed("code", place):
        raise BadInput(
            f"code: {one_line(place)[:200]}: a stored case runs no code that you haven't allowed; if it is yours, set "
            f"{ALLOW}=code={one_line(place)}"
        )


def image_refused(ref: str) -> BadInput:
    """Return the error of `check_image`: the same for every path."""
    who = "a client of this server may not name a file on it"
    if not for_clients():
        who = "an agent may not name a file of this machine"
    return BadInput(
        f"image: {one_line(ref)[:100]!r}: {who}; send the image itself, as a data URI, or its web address, or ask the "
        f"operator, who allows a folder with {ALLOW}=image=/folder/*"
    )


@lru_cache(maxsize=8)
def read_allowed(allowed: str) -> tuple[tuple[str, str], ...]:
    """Return the entries of TRIBUNAL_ALLOW: a setting, and which values of it, with `*` in place of any letters."""
    pairs = [each.partition("=") for each in allowed.split(",") if each.strip()]
    return tuple((name.strip(), pattern.strip() or "*") for name, _, pattern in pairs)


def is_allowed(name: str, value: str | None) -> bool:
    """Return whether the operator allows this value of a setting; None: every value."""
    names = {"*", name, "model"} if name in MODEL_SETTINGS else {"*", name}
    patterns = [
        pattern for setting, pattern in read_allowed(os.environ.get(ALLOW, "")) if setting in names
    ]
    if "*" in patterns:
        return True
    # A way back out of a folder would lead past the pattern that names it.
    if value is None or ".." in re.split(r"[/\\:]", value):
        return False
    return any(fnmatchcase(value, pattern) for pattern in patterns)
