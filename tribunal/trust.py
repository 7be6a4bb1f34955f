"""What a client may set, where a server judges for others: the one list, for every server.

On the command line and in Python whoever sets a setting is the operator, and may set all of them. A server's client
may set what neither reads nor writes a file of the operator's, leads nowhere, runs no code, and costs no more than the
operator's own settings do. What is not on the list is refused, so a new setting is refused until somebody puts it
there. The operator allows more with TRIBUNAL_ALLOW (docs/hours/langgraph.md).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

from tribunal.errors import BadInput
from tribunal.learnt import PREFIX
from tribunal.model_objects import object_names
from tribunal.settings import SETTINGS
from tribunal.text import one_line

ALLOW = "TRIBUNAL_ALLOW"
_PLATFORM = "langgraph_api"  # the server of `langgraph dev` and of the LangGraph platform

# How a post is decided, within the bounds that the settings have by themselves.
_FREE = frozenset({
    "task", "policy_language", "scheme", "answer_order", "temperatures", "draw_temperature", "web", "fresh",
    "triage_confidence", "rounds", "early_exit", "boxes", "mode", "views", "top_k", "reflection_mode", "tau", "history",
    "threshold", "review", "review_rule", "max_calls", "max_tokens", "window_overlap", "repeat", "trace",
    "stops",
})  # fmt: skip
# What costs time, memory or requests: up to its default.
_UP_TO_DEFAULT = frozenset({
    "precedents_k", "max_turns", "hits", "max_pages", "max_windows", "window_tokens", "max_seconds", "draws", "agents",
    "judge_draws", "max_text", "image_edge", "max_output_tokens", "timeout", "attempts",
})  # fmt: skip
_MODELS = frozenset({"model", "judge_model", "aux_model", "triage", "seats"})
_REHEARSAL = ("rehearsal", "rehearsal:court")
POLICIES = ("h-vli", "misinformation", "sarcasm", "moderations")  # those that are shipped
_ENGINES = ("duckduckgo", "searxng", "none")
_PERSPECTIVE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # a name, and no path


class _Entry(NamedTuple):
    """One entry of TRIBUNAL_ALLOW: a setting, and which values of it, with `*` in place of any letters."""

    setting: str
    pattern: str


_serving = False
_stored: ContextVar[bool] = ContextVar("stored", default=False)
_tool: ContextVar[bool] = ContextVar("tool", default=False)


def serve_clients() -> None:
    """From here on, what this process is given comes from clients. Every server of ours says so when it starts."""
    global _serving
    _serving = True


def for_clients() -> bool:
    """Whether what this process is given comes from clients."""
    return _serving or _PLATFORM in sys.modules


def for_strangers() -> bool:
    """Whether the post that this process has in its hands comes from a client, or from an agent (`for_an_agent`)."""
    return for_clients() or _tool.get()


@contextmanager
def for_an_agent() -> Iterator[None]:
    """While this is open, the post is an agent's, who may have been talked into anything: it names no file of the
    machine, here or on a server. The settings are those of whoever gave the agent its tool, so they are the operator's,
    on a server too."""
    token = _tool.set(True)
    try:
        yield
    finally:
        _tool.reset(token)


def check_settings(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse what a client may not set; in a process that serves none, nothing is refused.

    Args:
        given: the settings that were given, by name.
        defaults: the default of every setting.

    Raises:
        BadInput: the first one that a client may not set, its value, and TRIBUNAL_ALLOW.
    """
    if for_clients() and not _tool.get():
        check_request(given, defaults)


def check_request(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """`check_settings` for what is known to be a client's, in any process.

    Raises:
        BadInput: as there.
    """
    entries = _entries(os.environ.get(ALLOW, ""))
    if objects := object_names(given):
        raise BadInput(f"{objects[0]}: an object can't come from another process; name it as provider:model")
    for name, value in given.items():
        whole = str(value) if _is_folder(value) else None
        if value == defaults[name] or _harmless(name, value, defaults[name]) or _is_allowed(entries, name, whole):
            continue
        for field, part in _parts(name, value):
            if not (_PART.get(name, _nothing)(part) or _is_allowed(entries, name, part)):
                shown = one_line(part)[:100]
                raise BadInput(
                    f"{field}: {shown!r}: a client of this server may not set this; leave it out, or ask the operator, "
                    f"who allows it with {ALLOW}={name}"
                )


def check_words(kind: str, name: str) -> None:
    """Refuse words that a case is tried by and that are in no file of the operator's, unless any are allowed.

    Args:
        kind: the setting that names such a file: policy, prompts, line_up or threshold_file.
        name: what the case calls it.

    Raises:
        BadInput: naming both, and TRIBUNAL_ALLOW.
    """
    if for_clients() and not _tool.get() and not _is_allowed(_entries(os.environ.get(ALLOW, "")), kind, None):
        raise BadInput(
            f"context.{kind}: the case holds other words than the {_CALLED[kind]} {one_line(name)[:100]!r}: a client "
            f"of this server may not set these; put them back, or ask the operator, who allows it with {ALLOW}={kind}"
        )


_CALLED = {"policy": "policy", "prompts": "prompts", "line_up": "line-up", "threshold_file": "threshold file"}


def check_image(ref: str) -> None:
    """Refuse a file of the machine as a stranger's image, whatever lies there, unless the operator allows it.

    Raises:
        BadInput: naming the reference and TRIBUNAL_ALLOW.
    """
    if for_strangers() and not _is_allowed(_entries(os.environ.get(ALLOW, "")), "image", ref):
        raise image_refused(ref)


@contextmanager
def stored_settings() -> Iterator[None]:
    """While this is open, settings come out of a file that others may have written: they run no code but the
    operator's own (`check_code`)."""
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
    if (_stored.get() if stored is None else stored) and not _is_allowed(
        _entries(os.environ.get(ALLOW, "")), "code", place
    ):
        raise BadInput(
            f"code: {one_line(place)[:200]}: a stored case runs no code that you haven't allowed; if it is yours, set "
            f"{ALLOW}=code={one_line(place)}"
        )


def image_refused(ref: str) -> BadInput:
    """The error of `check_image`: the same for every path."""
    who = "a client of this server may not name a file on it"
    if not for_clients():
        who = "an agent may not name a file of this machine"
    return BadInput(
        f"image: {one_line(ref)[:100]!r}: {who}; send the image itself, as a data URI, or its web address, or ask the "
        f"operator, who allows a folder with {ALLOW}=image=/folder/*"
    )


def _harmless(name: str, value: Any, default: Any) -> bool:
    if name in _UP_TO_DEFAULT:
        return bool(value <= default)
    return name in _FREE


def _parts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every single thing that a setting names: (the field, the thing)."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _parts(f"{name}.{key}", each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield name, str(each)
    elif name.partition(".")[0] in (*_MODELS, "search") and isinstance(value, str):
        for each in value.split(","):
            yield name, each.strip()
    else:
        yield name, str(value)


def _nothing(part: str) -> bool:
    return False


def _own_model(part: str) -> bool:
    """The rehearsal model, or one that the operator's own environment names."""
    return part in _REHEARSAL or part in [each.strip() for each in os.environ.get("TRIBUNAL_MODEL", "").split(",")]


# Which single things a setting may name.
_PART: dict[str, Callable[[str], bool]] = {
    "policy": POLICIES.__contains__,
    "search": _ENGINES.__contains__,
    "perspectives": lambda part: bool(_PERSPECTIVE.fullmatch(part)),
    "leave_out": lambda part: bool(_PERSPECTIVE.fullmatch(part)),
    **dict.fromkeys(_MODELS, _own_model),
}


@lru_cache(maxsize=8)
def _entries(allowed: str) -> tuple[_Entry, ...]:
    """What TRIBUNAL_ALLOW says.

    Raises:
        BadInput: it names no setting.
    """
    entries = []
    for each in filter(None, (part.strip() for part in allowed.split(","))):
        name, _, pattern = (part.strip() for part in each.partition("="))
        if name not in SETTINGS and name not in ("image", "code", "*"):
            raise BadInput(
                f"{ALLOW}: {name}: no such setting; give names of settings, `image`, `code`, or *, each alone or with "
                "=PATTERN"
            )
        entries.append(_Entry(name, pattern or "*"))
    return tuple(entries)


def _is_folder(value: Any) -> bool:
    """Whether it names a first look that was fitted: a folder of the operator's, whatever models are allowed."""
    return isinstance(value, str) and value.strip().startswith(PREFIX)


def _is_allowed(entries: tuple[_Entry, ...], name: str, value: str | None) -> bool:
    """Whether an entry covers this value of a setting; None stands for every value."""
    names = {"*", name, "model"} if name in _MODELS and not _is_folder(value) else {"*", name}
    patterns = [entry.pattern for entry in entries if entry.setting in names]
    if "*" in patterns:
        return True
    # A way back out of a folder would lead past the pattern that names it.
    if value is None or ".." in re.split(r"[/\\:]", value):
        return False
    return any(fnmatchcase(value, pattern) for pattern in patterns)
