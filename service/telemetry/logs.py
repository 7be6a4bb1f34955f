"""The log: one line an event on standard error, JSON unless somebody watches.

No line holds a post's words unless the operator wants them, and none holds a key. What an exception says may quote a
post, or a statement with one in it; so of an exception stand its kind and where it came from.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress
from typing import Any, Literal

import structlog
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from structlog.typing import EventDict, Processor

from tribunal.models.registry import known_secrets
from tribunal.terminal import as_json, is_watched, say
from tribunal.text import scrub

Level = Literal["debug", "info", "warning", "error"]
_MAX_FRAMES = 20
_OWN_LOGGERS = ("tribunal", "uvicorn")


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger whose lines have fields.

    They go through the standard library's logging, wherever that is set to go: to `log_to_stderr`, or to the form of
    the server that the service runs in.
    """
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return bound


def log_to_stderr(level: Level, *, posts: bool, database: str | None) -> None:
    """Set this process's log up: ours, uvicorn's and everybody else's.

    Args:
        level: from which on a line is written; other libraries' lines are written from `warning` on, since at `debug`
            some write down what they send.
        posts: whether a post's words may stand in it.
        database: the service's address, whose password never does.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]

    def drop_words(_: Any, __: str, line: EventDict) -> EventDict:
        """Drop what may quote a post: an exception's message, and what asyncio says after its first line."""
        if line.get("logger") == "asyncio" and not posts:
            line["event"] = str(line["event"]).partition("\n")[0]
        return _replace_exception(line, words=posts)

    last: Processor = structlog.dev.ConsoleRenderer(colors=False) if is_watched(aside=True) else _render_json
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = _TerminalHandler(_secrets_of_service(database))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove, drop_words, last])
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("ERROR" if level == "error" else "WARNING")
    for name in _OWN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [], True
        # At `info` uvicorn tells each of its own steps; a case and a request have a line of ours.
        quiet = name != "tribunal" and level == "info"
        logger.setLevel("WARNING" if quiet else level.upper())
    logging.captureWarnings(True)


class _TerminalHandler(logging.Handler):
    """Writes by the one way to a terminal, without keys."""

    def __init__(self, secrets: frozenset[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            say(scrub(self.format(record), self._secrets), aside=True)
        except Exception:  # noqa: BLE001 (a log must not end what it tells of)
            self.handleError(record)


def _render_json(_: Any, __: str, line: EventDict) -> str:
    first = {name: line.pop(name) for name in ("timestamp", "level", "event") if name in line}
    for name, value in line.items():
        if not isinstance(value, str | int | float | bool | list | dict | None):
            line[name] = str(value)
    return as_json({**first, **line})


def _replace_exception(line: EventDict, *, words: bool) -> EventDict:
    """Put an exception's kind, those that it came from, and its frames in its place; `words`: what they say, too."""
    exception = line.pop("exc_info", None)
    line.pop("exc_text", None)
    error = exception[1] if isinstance(exception, tuple) else exception
    if not isinstance(error, BaseException):
        return line
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    line["error"], seen = [], list[BaseException]()
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        kind = f"{type(cause).__module__}.{type(cause).__qualname__}".removeprefix("builtins.")
        line["error"].append(f"{kind}: {cause}" if words else kind)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return line


def _secrets_of_service(database: str | None) -> frozenset[str]:
    """Return every key that this program could know, and the database's password."""
    with suppress(ArgumentError):
        if database and (password := make_url(database).password):
            return known_secrets() | {str(password)}
    return known_secrets()
