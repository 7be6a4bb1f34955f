"""Posts that nobody answered, held back until it is known whose fault that was: theirs, or an outage's.

A model that answers another post afterwards shows that it was the post's own. Where none is left to show it, a post
that the model has answered before is put to it again, and the first answer tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tribunal.cases.session import hear
from tribunal.context import Context
from tribunal.errors import ModelError
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.earlier import Told
from tribunal.eval.runs.journal import RESULTS, line_starts
from tribunal.parsed import from_json
from tribunal.schema import JSON, Record

# So many posts without an answer mean that something is wrong for all, and not that those were hard.
LOST_IN_A_ROW = 10
LOCKED_OUT = ("authentication", "quota")
_REMEDIES = {
    "connection": "See to the network",
    "timeout": "See to the model's server",
    "rate_limit": "Wait, or use another key",
    "server": "See to the model's server",
    "moved": "See to the address",
}


def kind_of_failure(record: Record | Told) -> str:
    """Of which kind a failure is; empty for any other outcome."""
    return str((record.fault or {}).get("kind", "")) if record.outcome == "failure" else ""


def unanswered(record: Record | Told) -> bool:
    """Whether a post failed because nobody answered, which another time may be otherwise."""
    return kind_of_failure(record) in _REMEDIES


def no_answer(record: Record | Told) -> tuple[str, str]:
    """Of a post that nobody answered: the model that didn't, where it is known, and what to say of it."""
    return _model_at_fault(record), f"{record.explanation}. {_REMEDIES[kind_of_failure(record)]}"


def answered_by(record: Record | Told) -> set[str]:
    """The models that answered for a post, be it by a refusal."""
    return {call.model for call in record.calls if _answered(call.error) and not call.cached}


class Unanswered:
    """The posts of a run that wait for it to be known why nobody answered them."""

    def __init__(self, graph: str, context: Context, samples: Iterable[Sample], folder: Path) -> None:
        # A case that is put again leaves nothing behind, and no answer of it comes from a cache.
        self._context = context.model_copy(update={"cache": None, "review": False, "review_rule": []})
        self._graph, self._samples, self._folder = graph, samples, folder
        self._held: list[tuple[Record | Told, bytes]] = []
        self._answered: dict[str, Sample] = {}  # by model, a post that it answered
        self._last: Sample | None = None
        self.asking: asyncio.Future[Record] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, record: Record | Told, line: bytes) -> None:
        """Keep back a post that nobody answered."""
        self._held.append((record, line))

    def cleared_by(self, record: Record | Told, sample: Sample) -> list[tuple[Record | Told, bytes]]:
        """Of an outcome: the posts that are failures of their own, since the model that left them answered here."""
        models = {call.model for call in record.calls if _answered(call.error) and not call.cached}
        if not models:
            return []
        self._answered |= dict.fromkeys(models, sample)
        self._last = sample
        return self._taken(lambda model: model in models or not model)

    def rest(self) -> list[tuple[Record | Told, bytes]]:
        """All that are still held, and none from now on."""
        return self._taken(lambda model: True)

    def why(self) -> str:
        """What to say of an outage, and the way out of it."""
        record = self._held[-1][0]
        if len(self) >= LOST_IN_A_ROW:
            who = f"{len(self)} posts in a row had no answer"
        elif not self._answered and not any(True for _ in line_starts(self._folder / RESULTS)):
            who = "no post had an answer"
        else:
            who = "the last post had no answer" if len(self) == 1 else f"the last {len(self)} posts had no answer"
        return f"{who}: {record.explanation}. {_REMEDIES[kind_of_failure(record)]}"

    async def models_still_answer(self) -> bool:
        """Whether every model that left a post without an answer answers one that it has answered before."""
        models = {_model_at_fault(record) for record, _ in self._held}
        return all([await self._answers(model) for model in models])

    async def _answers(self, model: str) -> bool:
        sample = self._answered.get(model) or (self._last if not model else None) or self._answered_earlier(model)
        if sample is None:
            return False
        answered = asyncio.Event()

        def listen(event: JSON) -> None:
            if event["event"] == "call" and event["model"] == model and _answered(event["error"]):
                answered.set()

        self.asking = asyncio.ensure_future(
            hear(**sample.post, graph=self._graph, context=self._context, listen=listen)
        )
        told = asyncio.ensure_future(answered.wait())
        await asyncio.wait((self.asking, told), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        self.asking.cancel()
        [record] = await asyncio.gather(self.asking, return_exceptions=True)
        if isinstance(record, Exception) and not isinstance(record, ModelError):
            raise record
        return answered.is_set() or (isinstance(record, Record) and not model and not unanswered(record))

    def _answered_earlier(self, model: str) -> Sample | None:
        """A post that a process before this one had answered."""
        for place in self._places(model):
            return next((sample for at, sample in enumerate(self._samples) if at == place), None)
        return None

    def _places(self, model: str) -> Iterator[int]:
        path = self._folder / RESULTS
        if not path.exists():
            return
        with path.open("rb") as results:
            for start, line in zip(line_starts(path), results, strict=False):
                if start.outcome != "verdict":
                    continue
                calls = from_json(line)["calls"]
                if not model or any(call["model"] == model and _answered(call["error"]) for call in calls):
                    yield start.place

    def _taken(self, wanted: Callable[[str], bool]) -> list[tuple[Record | Told, bytes]]:
        taken = [each for each in self._held if wanted(_model_at_fault(each[0]))]
        self._held = [each for each in self._held if not wanted(_model_at_fault(each[0]))]
        return taken


def _model_at_fault(record: Record | Told) -> str:
    return str((record.fault or {}).get("model") or "")


def _answered(error: str | None) -> bool:
    """Whether a call was answered, be it by a refusal or by something that could not be read."""
    return error is None or error not in (*_REMEDIES, *LOCKED_OUT)
