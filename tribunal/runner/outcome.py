"""The end of an attempt at a case, as one value that its ledger stores, and who observes attempts.

Decided   the case has a record
Waits     no model answered; the case goes on later
Lost      another process has the case, or a machine failed; whoever has it tries it again
Stopped   this process stops; the case is tried again
Invalid   the post or a setting is wrong; no model was called
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

from tribunal.core.calls import Call, Usage
from tribunal.docket.holds import Hold
from tribunal.errors import LOCKED_OUT, UNANSWERED
from tribunal.runner.prices import Prices
from tribunal.runner.results import AnyResult, ResultSummary
from tribunal.schema import JSON, Record

TrialEnd = Literal[
    "record", "handed_back", "cancelled", "bad_input", "error", "taken_over", "unanswered"
]


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
            self._observe_call(
                Call.model_validate(
                    {name: event[name] for name in Call.model_fields if name in event}
                )
            )

    def _observe_call(self, call: Call) -> None:
        if call.id not in self._calls:
            self._calls[call.id] = call.dump()
            self._on_call(call)

    def finish(self, record: Record) -> None:
        """End the trial with a record that counts."""
        self.record = record
        self.end = "record"
        for call in record.calls:  # of a trial to which nobody listened
            self._observe_call(call)

    def hold(self, calls: Sequence[JSON]) -> None:
        """End the trial without an outcome: no model answered, and the case goes on later."""
        self.end = "unanswered"
        for call in calls:
            self._observe_call(Call.model_validate(call))

    def log_fields(self) -> JSON:
        """Return the fields of a log line about the trial."""
        usage = Usage.from_calls(self.calls)
        fields: JSON = {"end": self.end, "calls": usage.calls}
        fields["tokens"] = usage.prompt_tokens + usage.completion_tokens
        if self.record is not None:
            fault = self.record.fault or {}
            fields |= {"outcome": self.record.outcome, "category": self.record.category}
            fields |= {
                f"fault_{name}": fault[name] for name in ("kind", "model") if fault.get(name)
            }
        return fields


class RunnerMetrics(Protocol):
    """Counts a runner's events."""

    def count_error(self, kind: str) -> None:
        """Count a case that an error of this program ended; `kind` is the error's type."""

    def count_held_case(self, provider: str) -> None:
        """Count a case that waits because a provider doesn't answer."""

    def set_provider_open(self, provider: str, *, is_open: bool) -> None:
        """Say whether the breaker of a provider is open."""


class RunnerTelemetry(Protocol):
    """Observe the attempts of a runner."""

    prices: Prices | None

    @property
    def metrics(self) -> RunnerMetrics:
        """Return what counts."""

    def trial(
        self, case: str, graph: str, attempt: int, text: str | None
    ) -> AbstractContextManager[TrialObserver]:
        """Observe an attempt until the block ends; `text` is the post's, if it may be kept."""


Case = TypeVar("Case", contravariant=True)


@dataclass(frozen=True)
class Decided:
    """The case has a record: a verdict, a refusal or a failure; or a person has to decide it.

    Attributes:
        record: its record, or what another process tells of it.
        line: the record as a line of results.jsonl; empty in the service.
        calls: the calls of the attempt, also those that the record lacks.
        question: the question to a person, if a person has to decide.
        has_checkpoints: whether the attempt has written some.
    """

    record: AnyResult
    line: bytes = b""
    calls: Sequence[JSON] = ()
    question: JSON | None = None
    has_checkpoints: bool = True


@dataclass(frozen=True)
class Waits:
    """No model answered.

    Attributes:
        record: the failure that it would be.
        line: the record as a line of results.jsonl; empty in the service.
        calls: the calls of the attempt.
        hold: until when the case is held; None in a run, where an answer to another post ends the wait.
        given_up: why the model's server is no longer waited for; empty while it is.
    """

    record: AnyResult
    line: bytes = b""
    calls: Sequence[JSON] = ()
    hold: Hold | None = None
    given_up: str = ""


@dataclass(frozen=True)
class Lost:
    """Another process has the case (`taken_over`), or the database or the machine failed."""

    taken_over: bool = False


@dataclass(frozen=True)
class Stopped:
    """This process can't go on; an empty `why`: it was cancelled."""

    why: str = ""


@dataclass(frozen=True)
class Invalid:
    """The post or a setting is wrong: `why` names it."""

    why: str


Outcome: TypeAlias = Decided | Waits | Lost | Stopped | Invalid


class Ledger(Protocol[Case]):
    """Where the outcomes of cases are stored: the folder of a run, or the case store.

    Each method stores one kind of outcome and counts the attempt's cost.
    """

    async def finish(self, case: Case, decided: Decided) -> None:
        """Store a record."""

    async def hold(self, case: Case, waits: Waits) -> None:
        """Let a case go on when a model answers."""

    async def give_back(self, case: Case, why: Lost | Stopped) -> None:
        """Let a case be tried again, by this process or by another."""

    async def refuse(self, case: Case, invalid: Invalid) -> None:
        """End a case that can't be tried."""

    def outcome_of_error(self, case: Case, error: BaseException) -> Outcome | None:
        """Return the outcome of an attempt that raised an error, or that could not be stored; None: it is raised."""


async def carry_out(
    ledger: Ledger[Case], case: Case, attempt: Callable[[Case], Awaitable[Outcome]]
) -> Outcome:
    """Try a case and store its outcome.

    Returns:
        The outcome that was stored.

    Raises:
        CancelledError: it was cancelled; the case was given back.
    """
    outcome: Outcome | None = None
    is_cancelled = False
    while True:
        try:
            outcome = outcome or await attempt(case)
            await _store(ledger, case, outcome)
        except (Exception, asyncio.CancelledError) as error:
            outcome = ledger.outcome_of_error(case, error)
            if outcome is None:
                raise
            is_cancelled |= isinstance(error, asyncio.CancelledError)
        else:
            break
    if is_cancelled:
        raise asyncio.CancelledError
    return outcome


async def _store(ledger: Ledger[Case], case: Case, outcome: Outcome) -> None:
    match outcome:
        case Decided():
            await ledger.finish(case, outcome)
        case Waits():
            await ledger.hold(case, outcome)
        case Lost() | Stopped():
            await ledger.give_back(case, outcome)
        case Invalid():
            await ledger.refuse(case, outcome)


# An outcome between processes: a message, and the line of a result.


def write_outcome(outcome: Outcome) -> tuple[JSON, bytes]:
    """Return an outcome as a message for the process that leads a run, and the line of its result."""
    match outcome:
        case Decided(line=line):
            return {"end": "decided"}, line
        case Waits(line=line, given_up=given_up):
            return {"end": "waits", "given_up": given_up}, line
        case Stopped(why) | Invalid(why):
            return {
                "end": "stopped" if isinstance(outcome, Stopped) else "invalid",
                "why": why,
            }, b""
        case Lost():
            return {"end": "lost"}, b""


def read_outcome(message: JSON, line: bytes) -> Outcome:
    """Return the outcome that another process has sent."""
    match message:
        case {"end": "decided"}:
            return Decided(ResultSummary.model_validate_json(line), line)
        case {"end": "waits", "given_up": given_up}:
            return Waits(ResultSummary.model_validate_json(line), line, given_up=given_up)
        case {"end": "invalid", "why": why}:
            return Invalid(why)
        case {"end": "stopped", "why": why}:
            return Stopped(why)
        case _:
            return Lost()


# What a failure tells of its cause.


def kind_of_failure(record: AnyResult) -> str:
    """Return the kind of a failure; empty for any other outcome."""
    return str((record.fault or {}).get("kind", "")) if record.outcome == "failure" else ""


def is_unanswered(record: AnyResult) -> bool:
    """Return whether a post failed because nobody answered, which another try may change."""
    return kind_of_failure(record) in UNANSWERED


def is_locked_out(record: AnyResult) -> bool:
    """Return whether a post failed because the provider refused the key, or its account is empty."""
    return kind_of_failure(record) in LOCKED_OUT


def was_answered(error: str | None) -> bool:
    """Return whether a call was answered, even by a refusal or by unreadable output; `error` is the call's."""
    return error is None or error not in (*UNANSWERED, *LOCKED_OUT)


def model_at_fault(record: AnyResult) -> str:
    """Return the model that a failure names; empty if it names none."""
    return str((record.fault or {}).get("model") or "")
