"""Numbers for Prometheus. No label holds a request's free text, and none has an unbounded number of values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from tribunal.eval.runs.prices import Prices
from tribunal.heeding import SITTING
from tribunal.models.exchange import REFUSED
from tribunal.schema import Call
from tribunal.service.seeing import COUNTED_IN

_MOST = 100  # values that a label may take which the program doesn't know beforehand
_REST = "other"
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_SEATS = frozenset(seat for seats in SITTING.values() for seat in seats)
_POST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)
_HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Bounded:
    """Lets so many values of a label through, and calls every later one `other`."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._seen = most, set[str]()

    def __call__(self, value: str) -> str:
        if value not in self._seen and len(self._seen) >= self._most:
            return _REST
        self._seen.add(value)
        return value


class Metrics:
    """The numbers of one application; with several processes on one port, those of all of them."""

    def __init__(self) -> None:
        self._shared = os.environ.get(COUNTED_IN)
        held = self._registry = CollectorRegistry()
        if not self._shared:
            ProcessCollector(registry=held)
        self._model, self._kind = Bounded(), Bounded()
        # A metric's own number for some labels: bounded as they are, and found in a tenth of the time `labels` takes.
        self._of: Callable[..., Any] = cache(lambda metric, *labels: metric.labels(*labels))
        self._posts = Counter("tribunal_posts", "Posts that were decided.", ["graph", "outcome"], registry=held)
        self._post_seconds = Histogram(
            "tribunal_post_seconds",
            "From a trial's begin to its record.",
            ["graph"],
            registry=held,
            buckets=_POST_SECONDS,
        )
        self._undecided = Counter(
            "tribunal_trials_undecided",
            "Trials that ended without an outcome: handed_back, cancelled, bad_input, error, taken_over, unanswered.",
            ["end"],
            registry=held,
        )
        self._seat_seconds = Histogram(
            "tribunal_seat_seconds", "Of a call, its retries included.", ["seat"], registry=held, buckets=_CALL_SECONDS
        )
        self._calls = Counter(
            "tribunal_model_calls", "Calls; cached ones came from our own cache.", ["model", "cached"], registry=held
        )
        self._tokens = Counter("tribunal_model_tokens", "Tokens that were paid.", ["model", "kind"], registry=held)
        self._cost = Counter("tribunal_model_cost", "In the currency of the price table.", ["model"], registry=held)
        self._refusals = Counter(
            "tribunal_model_refusals", "Calls that were refused.", ["model", "kind"], registry=held
        )
        self._failures = Counter("tribunal_model_failures", "Calls that failed.", ["model", "kind"], registry=held)
        self._in_flight = Gauge(
            "tribunal_in_flight", "Trials under way here.", registry=held, multiprocess_mode="livesum"
        )
        self._requests = Counter(
            "tribunal_http_requests", "Requests that were answered.", ["method", "route", "status"], registry=held
        )
        self._request_seconds = Histogram(
            "tribunal_http_request_seconds",
            "From a request's begin to its answer's end.",
            ["method", "route"],
            registry=held,
            buckets=_HTTP_SECONDS,
        )

    def begun(self) -> None:
        """A trial begins."""
        self._in_flight.inc()

    def ended(self, graph: str, outcome: str | None, end: str, seconds: float) -> None:
        """A trial is over.

        Args:
            graph: the system that decided.
            outcome: of the record; None where there is none.
            end: why there is none.
            seconds: since it began.
        """
        self._in_flight.dec()
        if outcome is None:
            self._of(self._undecided, end).inc()
            return
        self._of(self._posts, graph, outcome).inc()
        self._of(self._post_seconds, graph).observe(seconds)

    def asked(self, call: Call, prices: Prices | None) -> None:
        """A model was asked."""
        model, seat = self._model(call.model), call.seat.partition(":")[0]
        self._of(self._calls, model, "yes" if call.cached else "no").inc()
        if call.error is not None:
            counted = self._refusals if call.error.startswith(REFUSED) else self._failures
            self._of(counted, model, self._kind(call.error.removeprefix(REFUSED))).inc()
        if call.cached:
            return
        self._of(self._seat_seconds, seat if seat in _SEATS else _REST).observe(call.seconds)
        self._of(self._tokens, model, "prompt").inc(call.prompt_tokens)
        self._of(self._tokens, model, "completion").inc(call.completion_tokens)
        if prices is not None and (money := prices.of(call)):
            self._of(self._cost, model).inc(money)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is its template, such as `/v1/cases/{case_id}`."""
        method = method if method in _METHODS else _REST
        self._of(self._requests, method, route, str(status)).inc()
        self._of(self._request_seconds, method, route).observe(seconds)

    def page(self, cases: Mapping[str, int]) -> bytes:
        """Everything as Prometheus reads it. Reads files where processes share them: call it off the event loop.

        Args:
            cases: how many cases of the database are queued, and how many running.
        """
        held = self._registry
        if self._shared:
            _bury(Path(self._shared))
            held = CollectorRegistry()
            MultiProcessCollector(held, self._shared)  # type: ignore[no-untyped-call]
        database = CollectorRegistry()
        database.register(_Cases(cases))
        return generate_latest(held) + generate_latest(database)


class _Cases(Collector):
    """What the database says at the moment of asking; every replica on it says the same."""

    def __init__(self, cases: Mapping[str, int]) -> None:
        self._cases = cases

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "tribunal_cases", "Cases of the database, the same from every replica on it.", labels=["status"]
        )
        for status in ("queued", "running"):
            family.add_metric([status], self._cases.get(status, 0))
        yield family


def _bury(folder: Path) -> None:
    """Leave out what processes have in flight that were killed, and couldn't say so."""
    for pid in {name for path in folder.glob("gauge_live*.db") for name in _pids(path)}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
        except PermissionError:
            pass


def _pids(path: Path) -> Iterator[int]:
    with suppress(ValueError):
        yield int(path.stem.rpartition("_")[2])
