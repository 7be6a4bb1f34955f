"""What a model says of a post's text alone and of its image alone, before a person sees it (section 3.3, Appendix F).

Each side is a run of the graph `baseline` in a folder of its own: resumable, cached, and paid for once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribunal.context import context_from
from tribunal.eval.annotation.sheet import Prior, Side
from tribunal.eval.datasets.plan import Images, Plan
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.lifecycle import carry_out, outcomes_of
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.results import read_results, read_whole
from tribunal.eval.runs.runfile import describe
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.heeding import refuse_unheeded
from tribunal.schema import JSON

GRAPH = "baseline"


@dataclass(frozen=True)
class Running:
    """How a run is carried out, as `tribunal eval` has it."""

    in_flight: int = 16
    retry: Collection[str] = ()
    prices: Prices | None = None
    watch: Watch | None = None
    warn: Callable[[str], None] = lambda warning: None


class OneSide(Plan):
    """The posts of a plan with their text alone, or their image alone; those that lack it are left out.

    The gold isn't there: it is that of the whole post.
    """

    def __init__(self, plan: Plan, side: Side) -> None:
        self._whole, self._side = plan, side
        count = sum(1 for _ in self)
        images = Images(count, count) if side == "image" else Images(0, 0)
        super().__init__(plan.dataset, None, count, plan.warnings if side == "text" else (), images)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._whole:
            if self._side == "text" and sample.text.strip():
                yield Sample(id=sample.id, text=sample.text, language=sample.language)
            elif self._side == "image" and sample.image:
                yield Sample(id=sample.id, image=sample.image)


def ask_alone(
    plan: Plan, side: Side, folder: Path, data: JSON, sampling: JSON, settings: Mapping[str, Any], running: Running
) -> Tally:
    """Ask the model for one side of every post, or go on with it.

    Args:
        plan: the whole posts.
        side: which.
        folder: the run's.
        data: what run.json says of the data.
        sampling: how the posts were chosen.
        settings: fields of `Context`.
        running: how.

    Returns:
        how it stands; `stopped` says why it did, where it isn't done.

    Raises:
        BadInput: a setting or the folder is wrong.
    """
    context = context_from(dict(settings))
    refuse_unheeded(GRAPH, context)
    posts = OneSide(plan, side)
    held = describe(GRAPH, {**data, "side": side}, sampling, 1, posts, context)
    job = Job(graph=GRAPH, context=context, samples=posts, count=len(posts), in_flight=running.in_flight)
    return carry_out(
        job,
        folder,
        held,
        lambda tally: None,
        retried=outcomes_of(running.retry),
        prices=running.prices,
        watch=running.watch,
        warnings=posts.warnings,
        warn=running.warn,
    )


def read_priors(folder: Path) -> dict[str, Prior]:
    """What was said, by post.

    Raises:
        BadInput: the folder's results are broken.
    """
    found = {}
    for offset, result in read_results(folder):
        verdict = result.outcome == "verdict"
        found[result.post_id] = Prior(
            outcome=result.outcome if result.outcome in ("verdict", "refusal") else "failure",
            category=result.category if verdict else None,
            confidence=result.confidence if verdict else None,
            reason=str(read_whole(folder, offset)["explanation"]) if verdict else "",
            model=next((call.model for call in reversed(result.calls) if call.error is None), ""),
        )
    return found
