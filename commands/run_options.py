"""Shared by commands that decide many posts: options of the run, its totals, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from typer import Exit, Option

from tribunal.commands import shared_options as shared
from tribunal.commands.options import extend_options, parse_pairs
from tribunal.commands.printing import INTERRUPTED
from tribunal.errors import BadInput
from tribunal.process.terminal import OutputFailed, print_in_full, say, say_json

if TYPE_CHECKING:
    from tribunal.models.server_wait import WaitSettings
    from tribunal.runner.job import RunOptions
    from tribunal.runner.prices import Prices
    from tribunal.runner.tally import RunTally
    from tribunal.schema import JSON

EPILOG = """\b
Exit status: 0 everything is decided, 1 stopped before the end (the same command goes on), 2 wrong usage or input,
4 every post failed, 6 a model's server didn't come back (the same command goes on), 130 interrupted (the same command
goes on)."""
STOPPED = 1
ALL_FAILED = 4
SERVER_AWAY = 6

SECTION = "Engine and limits"


def _option(*names: str, **told: Any) -> Any:
    return Option(*names, show_default=False, rich_help_panel=SECTION, **told)


def _parse_engine(
    engine: Annotated[
        str | None,
        _option(
            metavar="embedded|ray[=HOST:PORT]",
            help="Where posts are decided: processes of this machine (embedded, the default), or a Ray cluster: one "
            "of its own, or the one at HOST:PORT or auto.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _option(
            "--workers", min=1, max=256,
            help="How many processes decide posts, sharing --concurrency. Default: 1; of Ray, what its cluster holds.",
        ),
    ] = None,
    run_max_calls: Annotated[
        int | None, _option(min=1, help="How many calls the whole run may make, in all its starts and processes.")
    ] = None,
    run_max_tokens: Annotated[
        int | None, _option(min=1, help="How many tokens the whole run may take, in and out.")
    ] = None,
    run_max_cost: Annotated[float | None, _option(min=0, help="What the whole run may cost, by --prices.")] = None,
    stop_after_failures: Annotated[
        int | None,
        _option(
            min=0, metavar="N",
            help="Stop once the first N posts have all failed in the same way; 0: never. Default: 10.",
        ),
    ] = None,
    wait_for_server: Annotated[
        str | None,
        _option(
            metavar="TIME",
            help="How long to pause while a model's server is down (30m, 2h; 0: don't). Default: 8h, once it has "
            "answered; given, also before that.",
        ),
    ] = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the engine, the limits and the failures that stop a run, by name.

    Raises:
        BadInput: an option has an unknown or malformed value.
    """
    from tribunal.models.budget import Limits
    from tribunal.runner.budget import RunLimits
    from tribunal.runner.job import FIRST_FAILURES, RunEngine

    engine_name, _, address = (engine or "embedded").partition("=")
    if engine_name == "ray":
        chosen = RunEngine("ray", workers, address or None)
    elif engine_name == "embedded" and not address:
        chosen = RunEngine("embedded", workers)
    else:
        raise BadInput(
            f"--engine: unknown engine {engine!r}; use one of: embedded, ray, ray=HOST:PORT"
        )
    limits = RunLimits(Limits(run_max_calls, run_max_tokens, run_max_cost))
    most = FIRST_FAILURES if stop_after_failures is None else stop_after_failures
    wait = parse_wait(wait_for_server)
    return {"engine": chosen, "limits": limits, "stop_after_failures": most, "server_wait": wait}


# Adds these options to a command, which is given their result as `carried`: fields of `RunOptions`.
with_engine = partial(extend_options, parameter="carried", parse=_parse_engine)


def _parse_posts(
    split: shared.Split = None,
    columns: shared.Columns = None,
    labels: shared.Labels = None,
    samples: shared.Samples = None,
    seed: shared.Seed = None,
    skip_missing_images: shared.SkipMissingImages = False,
) -> dict[str, Any]:
    return locals() | {
        "columns": parse_pairs(columns, "columns", "ROLE=NAME", blank=True),
        "labels": parse_pairs(labels, "labels", "VALUE=LABEL"),
    }


# Adds the options that choose a data set's posts. A command is given them as `posts`: fields of `Evaluation`.
with_posts = partial(extend_options, parameter="posts", parse=_parse_posts)


def parse_wait(given: str | None) -> WaitSettings:
    """Return how long a model's server is waited for; raise `BadInput` if it is no length of time."""
    from tribunal.core.times import seconds_of
    from tribunal.models.server_wait import A_NIGHT, WaitSettings

    try:
        return (
            WaitSettings(seconds=A_NIGHT)
            if given is None
            else WaitSettings(seconds=seconds_of(given), from_start=True)
        )
    except ValueError as error:
        raise BadInput(f"wait-for-server: {error}") from error


@contextmanager
def watch_run(
    prices: Prices | None,
    *,
    quiet: bool,
    in_flight: int = 16,
    retry: Sequence[str] | None = None,
    **more: Any,
) -> Iterator[RunOptions]:
    """Show the progress of a run, and yield the options that it is made with. Each warning is printed once."""
    from functools import cache

    from tribunal.runner.job import RunOptions
    from tribunal.runner.tally import show_progress

    with show_progress(priced=prices is not None, quiet=quiet) as watch:
        yield RunOptions(in_flight, retry or (), prices, watch, cache(print_warning), **more)


def read_price_table(file: Path | None) -> Prices | None:
    """Return the prices of a file, or None if none was given."""
    from tribunal.runner.prices import read_prices

    return read_prices(file) if file else None


def print_warning(warning: str) -> None:
    """Print a warning on standard error."""
    say(f"tribunal: warning: {warning}", aside=True)


def end_run(*tallies: RunTally) -> NoReturn:
    """End a command after its runs: say on standard error whether they were rehearsed, and how to go on."""
    rehearsed = sum(each.rehearsed for each in tallies)
    results = sum(each.before + each.done for each in tallies)  # fmt: skip
    if rehearsed:
        from tribunal.core.calls import REHEARSED

        print_warning(
            f"{rehearsed:,} of {results:,} results are no moderation and no measure: {REHEARSED}"
        )
    raise Exit(max(map(_report_exit_status, tallies), default=0))


def _report_exit_status(tally: RunTally) -> int:
    if not tally.stopped:
        failed = tally.all_results.outcomes["failure"]
        if not failed or failed < tally.decided_count:
            return 0
        why = f"; first failure: {tally.first_failure}" if tally.first_failure else ""
        retry = "See to it, and run the same command with --retry failures"
        say(f"tribunal: all {failed:,} posts failed{why}. {retry}", aside=True)
        return ALL_FAILED
    left = tally.total - tally.before - tally.done
    rest = f"{left:,} of {tally.total:,} posts left. Run the same command again to go on"
    if not left:
        rest = f"all {tally.total:,} results are saved. Run the same command again to finish"
    say(f"tribunal: {tally.stopped}; {rest}", aside=True)
    if tally.interrupted:
        return INTERRUPTED
    return SERVER_AWAY if tally.server_away else STOPPED


@contextmanager
def report_output_errors(tally: RunTally) -> Iterator[None]:
    """Mark a run as stopped if its report can't be printed; its results are kept."""
    try:
        with print_in_full():
            yield
    except OutputFailed as error:
        tally.stopped = tally.stopped or str(error)


def end_comparison(
    ran: Sequence[tuple[str, RunTally]],
    out: Path,
    compare: Callable[[], JSON],
    show: Callable[[JSON], None] | None,
) -> NoReturn:
    """Compare the runs in a folder, show how they compare (as JSON without `show`), and end the command."""
    from tribunal.eval.evaluate import summarize_run

    with report_output_errors(ran[-1][1]):
        compared = compare()
        if show is None:
            runs = [{"run": name, **summarize_run(tally, out / name)} for name, tally in ran]
            say_json(
                {**compared, "out": str(out), "runs": runs, "stopped": ran[-1][1].stopped or None}
            )
        else:
            show(compared)
    end_run(*(tally for _, tally in ran))


def print_totals(tally: RunTally, *, priced: bool) -> None:
    """Print what all results of a run came to, and the first failure of this start."""
    from tribunal.runner.tally import describe_progress

    progress = describe_progress(tally, priced=priced)
    say(
        f"{tally.decided_count:,} processed ({tally.done:,} now, {tally.before:,} before): {progress}"
    )
    if tally.first_failure:
        say(
            f"First failure: {tally.first_failure}. To try failed posts again: the same command with --retry failures"
        )


def parse_data(
    given: list[str], columns: Mapping[str, str] | None = None
) -> Path | dict[str, Path]:
    """Return where the files are: one path, or one by each set's name. What a URL names is copied to this machine."""
    from tribunal.eval.datasets.table_files import fetch_data

    def local(place: str) -> Path:
        return fetch_data(place, columns or {}, print_warning)

    if len(given) == 1 and (Path(given[0]).exists() or "=" not in given[0].partition("://")[0]):
        return local(given[0])
    if any("=" not in each for each in given):
        raise BadInput(
            f"data: {' and '.join(given)}: one set takes one path; for several sets give NAME=PATH for each"
        )
    return {name: local(path) for name, path in parse_pairs(given, "data", "NAME=PATH").items()}
