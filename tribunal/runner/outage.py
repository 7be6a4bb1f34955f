"""Tell failures that have one cause for all posts from failures of single posts.

A post that nobody answered is held back until it is known whether the post or an outage caused it. A model that answers
another post afterwards shows that it was the post's own. Where none is left to show it, a post that the model has
answered before is put to it again, and the first answer tells. Where models do answer, but the first posts of a start
all fail in the same way, the later ones would fail as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.core.times import format_duration
from tribunal.docket.session import judge_post
from tribunal.errors import ModelError
from tribunal.models.server_wait import WaitSettings
from tribunal.runner.journal import RESULTS, parse_result, read_line_starts
from tribunal.runner.outcome import is_unanswered, kind_of_failure, model_at_fault, was_answered
from tribunal.runner.results import AnyResult, Sample
from tribunal.schema import JSON, Record

if TYPE_CHECKING:
    from tribunal.runner.job import RunJob

# So many posts without an answer mean that something is wrong for all, and not that those were hard.
LOST_IN_A_ROW = 10
_REMEDIES = {
    "connection": "See to the network",
    "timeout": "See to the model's server",
    "rate_limit": "Wait, or use another key",
    "server": "See to the model's server",
    "moved": "See to the address",
}


class FirstFailures:
    """Count the first results of a start of a run, for as long as all are failures of one kind by one model."""

    def __init__(self, most: int) -> None:
        """Begin without a result. `most` is how many such failures stop the run; 0: none do."""
        self._most = most
        self._count = 0
        self._way = ("", "")
        self._watching = most > 0

    def explain_stop(self, record: AnyResult) -> str:
        """Count a result, and return why the run can't go on; an empty text if it can."""
        kind = kind_of_failure(record)
        if not self._watching or kind == "input":  # it costs no call, and is of the table
            return ""
        way = (kind, model_at_fault(record))
        if not kind or (self._count and way != self._way):
            self._watching = False
            return ""
        self._count = self._count + 1
        self._way = way
        if self._count < self._most:
            return ""
        by = f" by {way[1]}" if way[1] else ""
        return (
            f"the first {self._count} posts all failed in the same way ({kind}{by}): {record.explanation}. See to it, "
            "and run again with --retry failures; --stop-after-failures 0 goes on in any case"
        )


class SilentServers:
    """Say once of each server that a run waits for it, and once that it answers again, whichever process finds it."""

    def __init__(self, settings: WaitSettings, warn: Callable[[str], None]) -> None:
        """Take how long is waited, and what takes the words."""
        self._seconds = settings.seconds
        self._warn = warn
        self._since: dict[str, float] = {}

    def note_server(self, provider: str, why: str) -> None:
        """Record the problem of a provider's server; an empty text means that it answers."""
        now = time.time()
        moment = time.strftime("%H:%M:%S UTC", time.gmtime(now))
        if why and provider not in self._since:
            self._since[provider] = now
            self._warn(
                f"{provider}: no answer since {moment}: {why}; the run pauses until its server is back, "
                f"for {format_duration(self._seconds)} at most (--wait-for-server)"
            )
        elif not why and (since := self._since.pop(provider, None)) is not None:
            after = format_duration(now - since)
            self._warn(
                f"{provider}: its server answers again since {moment}, after {after}; the run goes on"
            )


class UnansweredPosts:
    """Hold back the unanswered posts of a run until their cause is known."""

    def __init__(self, job: RunJob, folder: Path) -> None:
        """Start without waiting posts."""
        # A case that is put again leaves nothing behind, and no answer of it comes from a cache.
        self._context = job.context.model_copy(
            update={"cache": None, "review": False, "review_rule": []}
        )
        self._graph = job.graph
        self._samples = job.samples
        self._folder = folder
        self._held: list[tuple[AnyResult, bytes]] = []
        self._answered: dict[str, Sample] = {}  # by model, a post that it answered
        self._last: Sample | None = None
        self.asking: asyncio.Future[Record] | None = None

    def __len__(self) -> int:
        """Return the number of waiting posts."""
        return len(self._held)

    def hold_back(self, record: AnyResult, line: bytes) -> None:
        """Hold back a post that nobody answered."""
        self._held.append((record, line))

    def release_after(self, record: AnyResult, sample: Sample) -> list[tuple[AnyResult, bytes]]:
        """Release the posts whose model has answered in this outcome: their failures are their own."""
        models = {
            call.model for call in record.calls if was_answered(call.error) and not call.cached
        }
        if not models:
            return []
        self._answered |= dict.fromkeys(models, sample)
        self._last = sample
        return self._release(lambda model: model in models or not model)

    def release_all(self) -> list[tuple[AnyResult, bytes]]:
        """Release every waiting post."""
        return self._release(lambda model: True)

    def describe_outage(self) -> str:
        """Describe an outage, and what to do about it."""
        record = self._held[-1][0]
        if len(self) >= LOST_IN_A_ROW:
            who = f"{len(self)} posts in a row had no answer"
        elif not self._answered and not any(True for _ in read_line_starts(self._folder / RESULTS)):
            who = "no post had an answer"
        else:
            who = (
                "the last post had no answer"
                if len(self) == 1
                else f"the last {len(self)} posts had no answer"
            )
        return f"{who}: {record.explanation}. {_REMEDIES[kind_of_failure(record)]}"

    async def models_still_answer(self) -> bool:
        """Return whether each model that failed still answers a post that it has answered before."""
        models = {model_at_fault(record) for record, _ in self._held}
        return all([await self._model_answers(model) for model in models])

    async def _model_answers(self, model: str) -> bool:
        sample = (
            self._answered.get(model)
            or (self._last if not model else None)
            or self._find_answered_post(model)
        )
        if sample is None:
            return False
        answered = asyncio.Event()

        def listen(event: JSON) -> None:
            if (
                event["event"] == "call"
                and event["model"] == model
                and was_answered(event["error"])
            ):
                answered.set()

        self.asking = asyncio.ensure_future(
            judge_post(**sample.post, graph=self._graph, context=self._context, listen=listen)
        )
        waiting = asyncio.ensure_future(answered.wait())
        await asyncio.wait((self.asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.asking.cancel()
        [record] = await asyncio.gather(self.asking, return_exceptions=True)
        if isinstance(record, Exception) and not isinstance(record, ModelError):
            raise record
        return answered.is_set() or (
            isinstance(record, Record) and not model and not is_unanswered(record)
        )

    def _find_answered_post(self, model: str) -> Sample | None:
        """Return a post that an earlier process had answered, or None."""
        for start in read_line_starts(self._folder / RESULTS):
            if start.outcome == "verdict":
                calls = (
                    parse_result(self._folder / RESULTS, start.line, start.offset).get("calls")
                    or ()
                )
                if not model or any(
                    call["model"] == model and was_answered(call["error"]) for call in calls
                ):
                    return next(
                        (sample for at, sample in enumerate(self._samples) if at == start.place),
                        None,
                    )
        return None

    def _release(self, wanted: Callable[[str], bool]) -> list[tuple[AnyResult, bytes]]:
        taken = [each for each in self._held if wanted(model_at_fault(each[0]))]
        self._held = [each for each in self._held if not wanted(model_at_fault(each[0]))]
        return taken
