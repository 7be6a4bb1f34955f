"""The log: one line an event on standard error, JSON unless somebody watches.

No line holds a post's words unless the operator wants them, and none holds a key. What an exception says may quote a
post, or a statement with one in it; so of an exception stand its kind and where it came from.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable
from typing import Any, Literal

import structlog
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from structlog.typing import EventDict, Processor

from tribunal.environment import environment
from tribunal.models.providers import providers_in_use
from tribunal.scrub import scrub
from tribunal.terminal import as_json, say, watched

Level = Literal["debug", "info", "warning", "error"]
_MOST_FRAMES = 20
_OURS = ("tribunal", "uvicorn", "procrastinate")


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger whose lines have fields. They go through the standard library's logging, wherever that is set to go:
    to `log_to_stderr`, or to the form of the server that the service runs in."""
    made: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return made


def log_to_stderr(level: Level, *, posts: bool, database: str | None) -> None:
    """Set this process's log up: ours, uvicorn's, Procrastinate's and everybody else's.

    Args:
        level: from which on a line is written; other libraries' lines are written from `warning` on, since at `debug`
            some write down what they send.
        posts: whether a post's words may stand in it.
        database: the service's address, whose password never does.
    """
    secrets = _secrets(database)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]

    def said(_: Any, __: str, line: EventDict) -> EventDict:
        return _without_words(line) if not posts else _with_exception(line, words=True)

    watching = watched(aside=True)
    last: Processor = structlog.dev.ConsoleRenderer(colors=False) if watching else _as_json
    handler = _Aside(secrets)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, said, last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, _number(level)))
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [], True
        # At `info` these two tell each of their own steps; a case and a request have a line of ours.
        quiet = name != "tribunal" and level == "info"
        logger.setLevel(logging.WARNING if quiet else _number(level))
    logging.captureWarnings(True)


class _Aside(logging.Handler):
    """Writes by the one way to a terminal, without keys."""

    def __init__(self, secrets: frozenset[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(scrub(self.format(record), self._secrets), aside=True)
        except Exception:  # noqa: BLE001 (a log must not end what it tells of)
            self.handleError(record)


def _number(level: Level) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _as_json(_: Any, __: str, line: EventDict) -> str:
    first = {name: line.pop(name) for name in ("timestamp", "level", "event") if name in line}
    return as_json({**first, **{name: _plain(value) for name, value in line.items()}})


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def _without_words(line: EventDict) -> EventDict:
    """Without what may quote a post: an exception's message, and what asyncio says after its first line."""
    if line.get("logger") == "asyncio":
        line["event"] = str(line["event"]).partition("\n")[0]
    return _with_exception(line, words=False)


def _with_exception(line: EventDict, *, words: bool) -> EventDict:
    told = line.pop("exc_info", None)
    line.pop("exc_text", None)
    error = told[1] if isinstance(told, tuple) else told
    if not isinstance(error, BaseException):
        return line
    line["error"] = [_kind(each, words=words) for each in _chain(error)]
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return line


def _kind(error: BaseException, *, words: bool) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {error}" if words else kind


def _chain(error: BaseException) -> Iterable[BaseException]:
    """An exception, and those that it came from."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return seen


def _secrets(database: str | None) -> frozenset[str]:
    """Every key of a model's provider, and the database's password."""
    held = environment()
    found = {secret for provider in providers_in_use() for secret in provider.secrets(held)}
    found |= {value for name, value in held.items() if "_API_KEY" in name}
    try:
        password = make_url(database).password if database else None
    except ArgumentError:
        password = None
    return frozenset(found | ({str(password)} if password else set()))
