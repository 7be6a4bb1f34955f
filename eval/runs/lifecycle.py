"""Carry out a run in its folder, alone: begin or continue it by its run.json, and finish it when all is decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.runs.parts import PartsFolder
from tribunal.eval.runs.run_file import begin_run, read_begun_run, write_run_file
from tribunal.models.providers import ModelName
from tribunal.models.registry import check_models
from tribunal.nodes.threshold import Threshold, read_threshold
from tribunal.process.files import LockHeld, hold_lock, write_whole
from tribunal.process.loops import run_many
from tribunal.process.model_objects import refuse_objects
from tribunal.prompts.set_file import warn_of_other_models
from tribunal.prompts.sets import load_prompts
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions
from tribunal.runner.journal import (
    RESULTS,
    DiskFull,
    OutputUnwritten,
    parse_result,
    read_head,
    read_line_starts,
    replace_results,
    report_unwritten,
)
from tribunal.runner.pins import collect_pins, pins_of_run
from tribunal.runner.prices import PRICES
from tribunal.runner.result_lines import encode_line
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON, Record
from tribunal.settings.contents import apply_line_up, keep_files_read
from tribunal.settings.context import Context, settings_for_record
from tribunal.settings.environment import environment
from tribunal.settings.systems import system_of


def carry_out_run(
    job: RunJob,
    folder: Path,
    wanted: JSON,
    write_out: Callable[[RunTally], None] = lambda tally: None,
    options: RunOptions = AS_USUAL,
    *,
    warnings: Collection[str] = (),
    reviewed: bool = False,
    parts: PartsFolder | None = None,
) -> RunTally:
    """Begin a run in its folder, or go on with it, alone.

    Args:
        job: what is decided.
        folder: the run's.
        wanted: what its run.json holds beside the pins (`describe_run`).
        write_out: makes of the results what is made of them; called when the run has ended, however it has.
        options: how.
        warnings: what a reader of the results should know of the posts.
        reviewed: put what people have decided meanwhile in the place of results that waited for them.
        parts: takes the results as they come, beside the run's folder.

    Returns:
        The state of the run; `stopped` says why it isn't done.

    Raises:
        BadInput: the folder holds another run, another process is at it, or a setting is wrong.
    """
    retried = options.outcomes_to_retry()
    engine = options.engine
    job = replace(job, in_flight=options.in_flight, keep_text=options.keep_text)
    options.limits.check_prices(options.prices)
    if engine.name != "embedded" or (engine.workers or 1) > 1:
        refuse_objects(settings_for_record(job.context))

    async def run_in_folder() -> RunTally:
        read_begun_run(folder)
        described = {**wanted, **await collect_pins(job.graph, job.context)}
        watched = options
        if parts is not None:
            await parts.begin(described)
            watched = replace(options, watch=parts.watching(options.watch))
        tuning = await _tuning_warnings(job)
        held = begin_run(folder, described)
        for warning in (*warnings, *misfits, *tuning):
            options.warn(warning)
        rejoined = waiting = 0
        if options.prices is not None:
            with report_unwritten(folder / PRICES):
                write_whole(
                    folder / PRICES,
                    options.prices.model_dump_json(indent=2, exclude_none=True) + "\n",
                )
        try:
            replaceable = {*retried, "pending"} if reviewed else retried
            if held.get("finished") and any(
                start.outcome in replaceable for start in read_line_starts(folder / RESULTS)
            ):
                # Written before results are replaced: a crash in between must not leave a finished run without them.
                held = {**held, "finished": None, "head": None}
                write_run_file(folder, held)
            if reviewed:
                rejoined, waiting = await insert_reviewed_results(folder)
            if retried:
                replace_results(folder, lambda start: b"" if start.outcome in retried else None)
            from tribunal.runner.engine import decide_posts  # LangGraph comes with it

            tally = await decide_posts(job, folder, watched, pins_of_run(described))
        except DiskFull as full:
            before = sum(1 for _ in read_line_starts(folder / RESULTS))
            tally = RunTally(total=job.count * job.repeats, before=before, stopped=str(full))
        tally.rejoined = rejoined
        tally.waiting = waiting + tally.outcomes["pending"]
        try:
            write_out(tally)
            if not tally.stopped:
                write_run_file(
                    folder,
                    {**held, "served": tally.served_names(), "head": read_head(folder)},
                    finished=True,
                )
        except OutputUnwritten as unwritten:
            # why it stopped before is the better thing to be told
            tally.stopped = tally.stopped or str(unwritten)
        return tally

    misfits = _threshold_warnings(job.context, wanted["data"])
    if not folder.exists():
        run_many(_models_of_run(job))  # a wrong model or a missing key makes no folder
    with lock_run_folder(folder), keep_files_read():
        return run_many(run_in_folder())


async def _models_of_run(job: RunJob) -> set[ModelName]:
    return check_models(await apply_line_up(job.context, afresh=True), environment())


async def _tuning_warnings(job: RunJob) -> list[str]:
    """Return a warning if the prompts of a run were tuned for another model family than its models'."""
    if job.context.prompts is None:
        return []
    system = system_of(job.graph)
    name = system.name if system else None
    prompts = await load_prompts(
        job.context.prompts, afresh=True, system=name, edits=job.context.prompt_texts
    )
    return warn_of_other_models(prompts.name, prompts.file, await _models_of_run(job))


def _threshold_warnings(context: Context, data: JSON) -> list[str]:
    """Return the warnings if a run's threshold was fitted on another data set, or on the same posts."""
    if context.threshold is not None or not context.threshold_file:
        return []
    fitted: Threshold = read_threshold(Path(context.threshold_file))
    if fitted.dataset is None:
        return []
    sets = ((fitted.dataset, fitted.split), (str(data.get("name")), data.get("split")))
    then, now = (f"{name} ({split})" if split else name for name, split in sets)
    if data.get("name") == "table":
        now = f"the table {', '.join(data.get('files') or ())}"
    if fitted.data_sha256 is not None and fitted.data_sha256 == data.get("sha256"):
        return [
            f"the threshold was fitted on these posts ({then}), so what is measured here of those that it accepts "
            "is optimistic"
        ]
    return [
        f"the threshold was fitted on {then}, and this is {now if now != then else 'another file'}: it promises "
        "nothing for posts unlike those"
    ]


async def insert_reviewed_results(folder: Path) -> tuple[int, int]:
    """Replace the results that waited for a person by what that person decided.

    Returns:
        How many were decided since, and how many still wait.
    """
    waiting = sum(start.outcome == "pending" for start in read_line_starts(folder / RESULTS))
    if not waiting:
        return 0, 0
    from tribunal.docket.docket import docket_here  # SQLite, for those who have such results

    docket = await docket_here()
    decided = {
        entry.thread for entry in await docket.entries(decided=True) if entry.status == "decided"
    }
    fresh: dict[int, bytes] = {}
    for start in read_line_starts(folder / RESULTS):
        if start.outcome != "pending":
            continue
        old = parse_result(folder / RESULTS, start.line, start.offset)
        if old.get("thread") in decided:
            with suppress(BadInput):  # its texts were forgotten
                fresh[start.offset] = _replace_record(old, await docket.record(old["thread"]))
    replaced = replace_results(folder, lambda start: fresh.get(start.offset)) if fresh else 0
    return replaced, waiting - replaced


def _replace_record(old: JSON, record: Record) -> bytes:
    """Return a line with another record; its place and what the data set says of the post stay.

    The calls that the graph made past `ask` before a person decided lie in no checkpoint, so they are carried over.
    """
    unseen = max(record.unseen_calls, old.get("unseen_calls") or 0)
    record = record.model_copy(update={"unseen_calls": unseen, "kept": old.get("kept")})
    beside: JSON = {
        name: old[name]
        for name in ("gold", "has_image", "fields", "group", "likeness", "text")
        if name in old
    }
    return encode_line(old["place"], old["repeat"], old["seconds"], record, beside)


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock goes with the process, however it ends.

    Raises:
        BadInput: another process is at it, or nothing can be written there.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(folder / ".lock"))
        except LockHeld as error:
            raise BadInput(
                f"out: {folder}: another process is at this run; wait for it, or stop it"
            ) from error
        except OSError as error:
            raise BadInput(
                f"out: {folder}: can't be written: {error}; take another folder"
            ) from error
        yield
