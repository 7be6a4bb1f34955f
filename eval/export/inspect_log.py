"""A run as a log of Inspect, UK AISI's framework for evaluations: `inspect view` opens it.

Each result is a sample: the post, what was said, the verdict, and whether it is right.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalRevision,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score

from tribunal.core.calls import DEMO_NOTICE, REHEARSED, Call
from tribunal.eval.datasets.sampling import SHUFFLED
from tribunal.eval.export.results import (
    ExportedResult,
    ExportedRun,
    WordsOf,
    post_row,
    read_exported,
)
from tribunal.eval.measures.columns import OUTCOMES, read_columns
from tribunal.eval.measures.scores import MEASURES, score_rows
from tribunal.eval.report.page import output_folder
from tribunal.explanations.case_drawing import spoken_turn
from tribunal.runner.prices import Prices
from tribunal.schema import JSON

SAMPLES_PER_LOG = 1_000  # Inspect writes a log in a time that grows with the square of its samples


class _RunSummary:
    """The head of a log, for all its samples."""

    def __init__(self) -> None:
        self.samples = self.rehearsed = 0
        self.seats: dict[str, Counter[str]] = {}
        self.usage: dict[str, ModelUsage] = {}

    @property
    def main_model(self) -> str:
        """Return the model that most calls went to."""
        every = sum(self.seats.values(), Counter[str]())
        return every.most_common(1)[0][0] if every else "none"


def write_log(source: ExportedRun, out: Path, words: WordsOf) -> dict[Path, int]:
    """Write a run's log; a run of more than 1,000 samples becomes several logs. Earlier logs of the run are replaced.

    Args:
        source: the run.
        out: the folder, made if it isn't there.
        words: gives the words of a post that the run didn't keep.

    Returns:
        The number of samples in each file.

    Raises:
        BadInput: the run's results are broken, or the file can't be written.
    """
    seen = _RunSummary()
    for exported in read_exported(source, lambda _: None):
        seen.samples += 1
        seen.rehearsed += exported.is_rehearsed
        calls = exported.calls
        for call in calls:
            seen.seats.setdefault(call.seat, Counter())[call.model] += 1
        for model, usage in usage_of(calls, source.prices).items():
            seen.usage[model] = seen.usage[model] + usage if model in seen.usage else usage
    spec = _eval_spec(source, seen)
    when = re.sub(r"[^\dT+-]", "-", spec.created)
    task = re.sub(r"[^\w.+-]+", "-", spec.task, flags=re.ASCII)
    stem = f"{when}_{task[:80]}_{spec.task_id}"
    made = (sample_of(each, source.prices, spec.eval_id) for each in read_exported(source, words))
    # The measures that `tribunal report` gives, over verdicts, and how many results have none.
    columns = read_columns(source.folder)
    measured = score_rows(columns)
    decided = int(columns.is_decided.sum())
    outcomes = {outcome: columns.count_outcome(outcome) for outcome in OUTCOMES}
    results = EvalResults(
        total_samples=seen.samples if columns.planned_count is None else columns.planned_count,
        completed_samples=seen.samples - outcomes["failure"] - outcomes["pending"],
        scores=[
            _eval_score(
                "correct",
                {name: measured.get(name) for name in MEASURES},
                decided,
                seen.samples - decided,
            ),
            _eval_score("outcome", outcomes, seen.samples, 0),
        ],
        metadata={"scheme": columns.scheme, "rehearsed": seen.rehearsed},
    )
    log = EvalLog(
        eval=spec,
        status="success" if source.run.get("finished") else "cancelled",
        plan=EvalPlan(
            steps=[EvalPlanStep(solver=spec.solver or "", params=spec.solver_args or {})]
        ),
        results=results,
        stats=EvalStats(
            started_at=spec.created,
            completed_at=str(source.run.get("finished") or ""),
            model_usage=seen.usage,
        ),
    )
    parts = max(1, math.ceil(seen.samples / SAMPLES_PER_LOG))
    written: dict[Path, int] = {}
    with output_folder(out), TemporaryDirectory(dir=out, prefix=".") as folder:
        for part in range(1, parts + 1):
            file = f"{stem}_{part}.eval" if parts > 1 else f"{stem}.eval"
            samples = list(islice(made, SAMPLES_PER_LOG))
            write_eval_log(_log_of_part(log, samples, part, parts), Path(folder) / file)
            written[out / file] = len(samples)
        for earlier in out.glob(f"{stem}*.eval"):
            earlier.unlink()
        for path in written:
            (Path(folder) / path.name).replace(path)
    return written


def _log_of_part(log: EvalLog, samples: list[EvalSample], part: int, parts: int) -> EvalLog:
    """Return a copy of the log with these samples. Every part keeps the results of the whole run."""
    if parts == 1:
        return log.model_copy(update={"samples": samples})
    of_part = f"part {part} of {parts}; the results are those of the whole run"
    metadata = {**(log.eval.metadata or {}), "part": of_part}
    spec = log.eval.model_copy(
        update={"metadata": metadata, "eval_id": _part_id(log.eval.eval_id, part)}
    )
    return log.model_copy(update={"eval": spec, "samples": samples})


def _part_id(eval_id: str, part: int) -> str:
    return hashlib.sha256(f"{eval_id}\n{part}".encode()).hexdigest()[:22]


def _eval_spec(source: ExportedRun, seen: _RunSummary) -> EvalSpec:
    run = source.run
    graph = str(run.get("graph"))
    dataset = str(run.get("dataset"))
    created = str(run.get("started") or "1970-01-01T00:00:00+00:00")
    own = hashlib.sha256(f"{source.name}\n{created}".encode()).hexdigest()[:22]
    sampling = run.get("sampling") or {}
    environment = run.get("environment") or {}
    by_rules = seen.rehearsed > 0
    task = f"REHEARSAL: {graph} on {dataset}" if by_rules else f"{graph} on {dataset}"
    said = f"{seen.rehearsed:,} of {seen.samples:,} results are no moderation and no measure: {REHEARSED}"
    git = environment.get("git")
    return EvalSpec(
        eval_id=own,
        run_id=own,
        task_id=own,
        created=created,
        task=task,
        task_description=said if by_rules else None,
        tags=["tribunal", *(["rehearsal"] if by_rules else [])],
        solver=graph,
        solver_args=dict(run.get("settings") or {}),
        dataset=EvalDataset(
            name=dataset,
            samples=run.get("n") if isinstance(run.get("n"), int) else None,
            shuffled=sampling.get("order") == SHUFFLED,
        ),
        model=seen.main_model,
        model_roles={
            seat: ModelConfig(model=models.most_common(1)[0][0])
            for seat, models in sorted(seen.seats.items())
            if seat
        },
        config=EvalConfig(epochs=run.get("repeats") or 1, limit=sampling.get("samples")),
        revision=EvalRevision(type="git", origin="", commit=git["commit"], dirty=not git["clean"])
        if git
        else None,
        packages={"tribunal": str(run.get("tribunal")), **(environment.get("packages") or {})},
        metadata={"run": source.name, "run.json": run, **({"rehearsed": said} if by_rules else {})},
    )


def _eval_score(name: str, measures: JSON, scored: int, unscored: int) -> EvalScore:
    held = {
        each: EvalMetric(name=each, value=value)
        for each, value in measures.items()
        if value is not None
    }
    return EvalScore(
        name=name, scorer=name, scored_samples=scored, unscored_samples=unscored, metrics=held
    )


NOT_KEPT = "(The run didn't keep the post's words; tribunal export --data lays them beside it.)"
_EARLIER = "**Said before it in its conversation**"
_LONGEST_ID = 100
_NO_NAME = re.compile(r"[^\w.:@+-]+")


def sample_of(exported: ExportedResult, prices: Prices | None, log_id: str) -> EvalSample:
    """Return a result as a sample. Its epoch is the repeat, counted from 1.

    Args:
        exported: the result.
        prices: what calls cost.
        log_id: of the log that it is in.
    """
    result = exported.result
    line = exported.line
    calls = exported.calls
    decided = result.outcome == "verdict"
    said = str(line.get("explanation") or "")
    model = calls[-1].model if calls else ""
    answer = f"{line.get('category')}\n\n{said}" if decided else said
    reason = "content_filter" if result.outcome == "refusal" else "stop"
    failed = (
        EvalError(message=said, traceback="", traceback_ansi="")
        if result.outcome == "failure"
        else None
    )
    return EvalSample(
        id=_safe_sample_id(result.post_id),
        epoch=result.repeat + 1,
        input=exported.words.text if exported.words else NOT_KEPT,
        target=result.gold.name if result.gold else "",
        messages=list(_sample_messages(exported, calls, answer)),
        output=ModelOutput.from_content(model, answer, stop_reason=reason),
        scores=_sample_scores(exported),
        metadata=_sample_metadata(exported, prices),
        model_usage=usage_of(calls, prices),
        total_time=result.seconds,
        uuid=hashlib.sha256(f"{log_id}\n{result.post_id}\n{result.repeat}".encode()).hexdigest()[
            :22
        ],
        error=failed,
    )


def usage_of(calls: Iterable[Call], prices: Prices | None) -> dict[str, ModelUsage]:
    """Return what each model was paid for. Inspect counts a prompt's tokens without the cached ones."""
    found: dict[str, ModelUsage] = {}
    for call in calls:
        if call.cached:
            continue
        usage = ModelUsage(
            input_tokens=call.prompt_tokens - call.cached_tokens,
            output_tokens=call.completion_tokens,
            total_tokens=call.prompt_tokens + call.completion_tokens,
            input_tokens_cache_read=call.cached_tokens,
            total_cost=None if prices is None else prices.cost_of_call(call),
        )
        found[call.model] = found[call.model] + usage if call.model in found else usage
    return found


def _safe_sample_id(post_id: str) -> str:
    """Return a post's id as a safe file name.

    Each sample is a file of the log, and a stranger may have named the post.
    """
    if len(post_id) <= _LONGEST_ID and not _NO_NAME.search(post_id) and not post_id.startswith("."):
        return post_id
    short = _NO_NAME.sub("_", post_id).lstrip(".")[:_LONGEST_ID]
    return f"{short}-{hashlib.sha256(post_id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _sample_messages(
    exported: ExportedResult, calls: list[Call], answer: str
) -> Iterator[ChatMessage]:
    """Yield the post, and what each seat said of it, as far as the record has it."""
    if exported.is_rehearsed:
        yield ChatMessageSystem(content=DEMO_NOTICE)
    for earlier in exported.words.earlier if exported.words else ():
        yield ChatMessageUser(content=f"{_EARLIER}\n\n{earlier}")
    yield ChatMessageUser(content=exported.words.text if exported.words else NOT_KEPT)
    models = {call.seat: call.model for call in calls}
    for opinion in exported.line.get("opinions") or ():
        seat = f"perspective:{opinion['id']}"
        yield _assistant_message(
            seat, f"Perspective {opinion['id']}: {opinion['label_name']}", opinion["reason"], models
        )
    for turn in exported.turns:
        found = spoken_turn(turn)
        yield _assistant_message(
            turn.seat,
            found.title,
            "\n".join(found.words),
            models,
            stage=turn.stage,
            round=turn.round,
        )
    yield _assistant_message("judge", exported.result.outcome.capitalize(), answer, models)


def _assistant_message(
    seat: str, title: str, words: str, models: dict[str, str], **more: object
) -> ChatMessage:
    return ChatMessageAssistant(
        content=f"**{title}**\n\n{words}",
        model=models.get(seat),
        source="generate",
        metadata={"seat": seat, **more},
    )


def _sample_scores(exported: ExportedResult) -> dict[str, Score]:
    result = exported.result
    said = str(exported.line.get("explanation") or "")
    outcome = Score(value=result.outcome, explanation=said)
    if result.outcome != "verdict":
        return {"outcome": outcome}
    found = dict[str, Score]()
    category = str(exported.line.get("category"))
    gold: JSON = {"gold": result.gold.name} if result.gold else {}
    if exported.is_correct is not None:
        value = CORRECT if exported.is_correct else INCORRECT
        found["correct"] = Score(value=value, answer=category, explanation=said, metadata=gold)
    if result.hateful is not None:
        found["hateful"] = Score(
            value="yes" if result.hateful else "no", answer=category, explanation=said
        )
    if result.confidence is not None:
        found["confidence"] = Score(value=result.confidence, answer=category)
    return {**found, "outcome": outcome}


_METADATA = (
    "post_id", "repeat", "outcome", "category", "track", "rounds", "uncertain", "rehearsed", "has_image", "language",
    "group", "calls", "cost",
)  # fmt: skip


def _sample_metadata(exported: ExportedResult, prices: Prices | None) -> JSON:
    """Return the set's own fields, and what of the result isn't said elsewhere in the sample."""
    line = exported.line
    row = post_row(exported, prices)
    return {
        **exported.result.fields,
        **{name: row.get(name) for name in _METADATA},
        "uncertain": exported.result.uncertain,
        "fault": line.get("fault"),
        "cues": line.get("cues") or [],
        "warnings": list(exported.result.warnings),
    }
