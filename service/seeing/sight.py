"""What is noted of every request and every trial: a line of the log, numbers, and spans where they are collected."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tribunal.eval.runs.prices import Prices
from tribunal.service.seeing.logs import logger
from tribunal.service.seeing.metrics import Metrics
from tribunal.service.seeing.trial import Trial

if TYPE_CHECKING:
    from tribunal.service.seeing.traces import Traces

_LOG = logger("tribunal.service")


class Sight:
    """What one application shows of itself.

    Attributes:
        metrics: its numbers.
        traces: its spans; None unless the environment names a collector.
        prices: what calls cost, once they are read.
    """

    def __init__(self, *, posts: bool = False) -> None:
        self.metrics = Metrics()
        self.traces = _traces()
        self.prices: Prices | None = None
        self._posts = posts

    @contextmanager
    def trial(self, case: str, graph: str, attempt: int, text: str | None) -> Iterator[Trial]:
        """Note a trial, from its begin to the block's end.

        Args:
            case: the case's id.
            graph: the system that decides.
            attempt: how often the case was taken up.
            text: the post's words, where they may be kept.
        """
        seen, started = Trial(lambda call: self.metrics.asked(call, self.prices)), time.perf_counter()
        self.metrics.begun()
        span = self.traces.case(case, graph, seen) if self.traces else nullcontext()
        try:
            with span:
                yield seen
        finally:
            seconds = time.perf_counter() - started
            outcome = seen.record.outcome if seen.record is not None and seen.end == "record" else None
            self.metrics.ended(graph, outcome, seen.end, seconds)
            words = {"post": text} if self._posts and text else {}
            told: dict[str, Any] = {**seen.told, **words, "seconds": round(seconds, 3)}
            _LOG.info("case", case=case, graph=graph, attempt=attempt, **told)

    async def close(self) -> None:
        """Hand over what is still held."""
        if self.traces:
            await self.traces.close()


def _traces() -> Traces | None:
    """Spans, where a collector is named; else what makes them is not as much as imported."""
    named = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{each}ENDPOINT") for each in ("", "TRACES_"))
    if not named or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from tribunal.service.seeing.traces import Traces

    return Traces()
