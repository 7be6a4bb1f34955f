"""What a runner tells of its attempts: an observer for each, and the telemetry that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from tribunal.core.calls import Call, Usage
from tribunal.runner.prices import Prices
from tribunal.schema import JSON, Record

TrialEnd = Literal["record", "handed_back", "cancelled", "bad_input", "error", "taken_over", "unanswered"]


class TrialObserver:
    """Observes one trial. Whoever tries sets `end`, or ends it with a record. `on_call` is given each call."""

    def __init__(self, on_call: Callable[[Call], None]) -> None:
        """Begin to observe."""
        self._on_call = on_call
        self._calls: dict[str, JSON] = {}
        self.end: TrialEnd = "error"
        self.record: Record | None = None

    @property
    def calls(self) -> list[JSON]:
        """Return the calls so far; of a trial to which nobody listens, those of its record."""
        return list(self._calls.values())

    def observe_event(self, event: JSON) -> None:
        """Take in an event of the trial's stream."""
        if event.get("event") == "call":
            self._observe_call(Call.model_validate({name: event[name] for name in Call.model_fields if name in event}))

    def _observe_call(self, call: Call) -> None:
        if call.id not in self._calls:
            self._calls[call.id] = call.dump()
            self._on_call(call)

    def finish(self, record: Record) -> None:
        """End the trial with a record that counts."""
        self.record, self.end = record, "record"
        for call in record.calls:  # of a trial to which nobody listened
            self._observe_call(call)

    def hold(self, calls: Sequence[JSON]) -> None:
        """End the trial without an outcome: no model answered, and the case goes on later."""
        self.end = "unanswered"
        for call in calls:
            self._observe_call(Call.model_validate(call))

    def log_fields(self) -> JSON:
        """Return what a log line says of the trial."""
        usage = Usage.from_calls(self.calls)
        fields: JSON = {"end": self.end, "calls": usage.calls}
        fields["tokens"] = usage.prompt_tokens + usage.completion_tokens
        if self.record is not None:
            fault = self.record.fault or {}
            fields |= {"outcome": self.record.outcome, "category": self.record.category}
            fields |= {f"fault_{name}": fault[name] for name in ("kind", "model") if fault.get(name)}
        return fields


class RunnerMetrics(Protocol):
    """Count what a runner meets."""

    def count_error(self, kind: str) -> None:
        """Count a case that an error of this program ended; `kind` is the error's type."""

    def count_held_case(self, provider: str) -> None:
        """Count a case that is held because a provider doesn't answer."""

    def set_provider_open(self, provider: str, *, is_open: bool) -> None:
        """Say whether the breaker of a provider is open."""


class RunnerTelemetry(Protocol):
    """Observe the attempts of a runner."""

    prices: Prices | None

    @property
    def metrics(self) -> RunnerMetrics:
        """Return what counts."""

    def trial(self, case: str, graph: str, attempt: int, text: str | None) -> AbstractContextManager[TrialObserver]:
        """Observe an attempt until the block ends; `text` is the post's, if it may be kept."""
