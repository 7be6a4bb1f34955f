"""Logs and metrics."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from structlog.typing import EventDict, Processor

from tribunal.core.calls import Call
from tribunal.core.text import scrub
from tribunal.models.model_call import REFUSED
from tribunal.models.registry import known_secrets
from tribunal.process.terminal import as_json, is_watched, say
from tribunal.runner.prices import Prices
from tribunal.settings.graph_settings import SEATS

Level = Literal["debug", "info", "warning", "error"]
_MAX_FRAMES = 20
_OWN_LOGGERS = ("tribunal", "uvicorn")
START = "tribunal.start"  # the logger whose lines are written at every level


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

    last: Processor = (
        structlog.dev.ConsoleRenderer(colors=False) if is_watched(aside=True) else _render_json
    )
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = _TerminalHandler(_secrets_of_service(database))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[remove, drop_words, last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("ERROR" if level == "error" else "WARNING")
    for name in _OWN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        # At `info` uvicorn tells each of its own steps; a case and a request have a line of ours.
        quiet = name != "tribunal" and level == "info"
        logger.setLevel("WARNING" if quiet else level.upper())
    logging.getLogger(START).setLevel("INFO")
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
    line["error"] = []
    seen = list[BaseException]()
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


SHARED_METRICS_FOLDER = (
    "PROMETHEUS_MULTIPROC_DIR"  # prometheus-client's own name for what several processes count in
)
_MAX_LABEL_VALUES = 100  # values that a label may take which the program doesn't know beforehand
_OTHER = "other"
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_SEATS = frozenset(SEATS)
_POST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)
_HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class LabelLimit:
    """Lets so many values of a label through, and calls every later one `other`."""

    def __init__(self, max_values: int = _MAX_LABEL_VALUES) -> None:
        """Let the first `max_values` through."""
        self._max_values = max_values
        self._seen = set[str]()

    def __call__(self, value: str) -> str:
        """Return the value, or `other`."""
        if value not in self._seen and len(self._seen) >= self._max_values:
            return _OTHER
        self._seen.add(value)
        return value


class Metrics:
    """The numbers of one application; with several processes on one port, those of all of them."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._shared = os.environ.get(SHARED_METRICS_FOLDER)
        registry = self._registry = CollectorRegistry()
        if not self._shared:
            ProcessCollector(registry=registry)
        self._limit_model = LabelLimit()
        self._limit_kind = LabelLimit()
        # A metric's own number for some labels: limited as they are, and found in a tenth of the time `labels` takes.
        self._labelled: Callable[..., Any] = cache(lambda metric, *labels: metric.labels(*labels))

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"tribunal_{name}", words, labels, registry=registry)

        def seconds(name: str, words: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(
                f"tribunal_{name}_seconds", words, labels, registry=registry, buckets=buckets
            )

        self.in_flight = Gauge(
            "tribunal_in_flight",
            "Trials under way here.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._posts = counter("posts", "Posts that were decided.", "graph", "outcome")
        self._post_seconds = seconds(
            "post", "From a trial's begin to its record.", _POST_SECONDS, "graph"
        )
        self._undecided = counter(
            "trials_undecided",
            "Trials that ended without an outcome: handed_back, cancelled, bad_input, error, taken_over, unanswered.",
            "end",
        )
        self._errors = counter(
            "trial_errors", "Trials that an error of the program ended.", "error"
        )
        self._seat_seconds = seconds(
            "seat", "Of a call, its retries included.", _CALL_SECONDS, "seat"
        )
        self._calls = counter(
            "model_calls", "Calls; cached ones came from our own cache.", "model", "cached"
        )
        self._tokens = counter("model_tokens", "Tokens that were paid.", "model", "kind")
        uncounted = "Of the tokens that were paid, those of calls whose server didn't count them."
        self._tokens_estimated = counter("model_tokens_estimated", uncounted, "model", "kind")
        self._cost = counter("model_cost", "In the currency of the price table.", "model")
        self._refusals = counter("model_refusals", "Calls that were refused.", "model", "kind")
        self._failures = counter("model_failures", "Calls that failed.", "model", "kind")
        self._empty_reasons = counter(
            "empty_reasons", "Answers with a reason that said nothing.", "model", "seat"
        )
        self._held = counter(
            "cases_held", "How often a case was held since no model answered.", "provider"
        )
        self._provider_open = Gauge(
            "tribunal_provider_open", "1 while a provider's models don't answer this replica, else 0.", ["provider"],
            registry=registry, multiprocess_mode="livemax",
        )  # fmt: skip
        self._requests = counter(
            "http_requests", "Requests that were answered.", "method", "route", "status"
        )
        self._keys_refused = counter(
            "keys_refused", "Requests with a key that opens nothing.", "reason"
        )
        until_end = "From a request's begin to its answer's end."
        self._request_seconds = seconds("http_request", until_end, _HTTP_SECONDS, "method", "route")

    def count_trial(self, graph: str, outcome: str | None, end: str, seconds: float) -> None:
        """Count a trial that is over: with the outcome of its record, or why it has none, and how long it took."""
        self.in_flight.dec()
        if outcome is None:
            self._labelled(self._undecided, end).inc()
            return
        self._labelled(self._posts, graph, outcome).inc()
        self._labelled(self._post_seconds, graph).observe(seconds)

    def count_error(self, kind: str) -> None:
        """Count a trial that an error of the program ended, by the name of its type."""
        self._labelled(self._errors, self._limit_kind(kind)).inc()

    def count_call(self, call: Call, prices: Prices | None) -> None:
        """Count a call of a model."""
        model = self._limit_model(call.model)
        seat = call.seat.partition(":")[0]
        self._labelled(self._calls, model, "yes" if call.cached else "no").inc()
        if call.error is not None:
            counter = self._refusals if call.error.startswith(REFUSED) else self._failures
            self._labelled(counter, model, self._limit_kind(call.error.removeprefix(REFUSED))).inc()
        seat = seat if seat in _SEATS else _OTHER
        if call.emptied:
            self._labelled(self._empty_reasons, model, seat).inc()
        if call.cached:
            return
        self._labelled(self._seat_seconds, seat).observe(call.seconds)
        for kind, tokens in (
            ("prompt", call.prompt_tokens),
            ("completion", call.completion_tokens),
        ):
            self._labelled(self._tokens, model, kind).inc(max(0, tokens))
            if call.estimated:
                self._labelled(self._tokens_estimated, model, kind).inc(max(0, tokens))
        if prices is not None and (money := prices.cost_of_call(call)):
            self._labelled(self._cost, model).inc(money)

    def count_held_case(self, provider: str) -> None:
        """Count a case that is held, since no model of a provider answered."""
        self._labelled(self._held, self._limit_model(provider or _OTHER)).inc()

    def set_provider_open(self, provider: str, *, is_open: bool) -> None:
        """Note whether a provider's models answer."""
        self._labelled(self._provider_open, self._limit_model(provider or _OTHER)).set(is_open)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered. `route` is its template, such as `/v1/cases/{case_id}`."""
        method = method if method in _METHODS else _OTHER
        self._labelled(self._requests, method, route, str(status)).inc()
        self._labelled(self._request_seconds, method, route).observe(seconds)

    def count_refused_key(self, reason: str) -> None:
        """Count a request whose key was refused: unknown, revoked or expired."""
        self._labelled(self._keys_refused, reason).inc()

    def page(self, cases: Mapping[str, int], keys_ending: int = 0) -> bytes:
        """Return everything as Prometheus reads it, with what the database says.

        It reads files where processes share them: call it off the event loop.

        Args:
            cases: how many are queued, held and running.
            keys_ending: how many keys end soon.
        """
        registry = self._registry
        if self._shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._shared)  # type: ignore[no-untyped-call]
        database = CollectorRegistry()
        database.register(_DatabaseCollector(cases, keys_ending))
        return generate_latest(registry) + generate_latest(database)


class _DatabaseCollector(Collector):
    """Says what was counted in the database. A gauge of this process would be added to those of the others."""

    def __init__(self, cases: Mapping[str, int], keys_ending: int) -> None:
        self._cases = cases
        self._keys_ending = keys_ending

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Give the gauges."""
        words = "Cases of the database, the same from every replica on it."
        family = GaugeMetricFamily("tribunal_cases", words, labels=["status"])
        for status in ("queued", "held", "running"):
            family.add_metric([status], self._cases.get(status, 0))
        yield family
        words = "API keys in force that end within 14 days, the same from every replica."
        yield GaugeMetricFamily("tribunal_keys_ending", words, value=self._keys_ending)
