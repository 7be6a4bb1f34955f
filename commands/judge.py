"""`tribunal judge`: decide one post, and stop in the middle of it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, Exit, Option

from tribunal.commands.database import print_review_command
from tribunal.commands.explain import check_output_file, format_of_file, write_picture
from tribunal.commands.options import Graph, check_settings, with_settings
from tribunal.commands.printing import STATUS
from tribunal.commands.run_options import parse_wait, print_warning
from tribunal.commands.shared_options import AsJson, Keep, KeepIn, KeepText
from tribunal.errors import BadInput
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.models.server_wait import WaitSettings
    from tribunal.schema import JSON, Record

Result = TypeVar("Result")
_BY_SIGNAL = (
    128  # a shell's status of a process that a signal ended is this and the signal's number
)


def expect_stop() -> None:
    """Say so if SIGTERM comes before the trial begins. Then nothing was asked of a model."""

    def stop(number: int, _: object) -> None:
        say(f"tribunal: stopped by {signal.Signals(number).name}: nothing was begun", aside=True)
        raise SystemExit(_BY_SIGNAL + number)

    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, stop)


def run_until_stopped(
    work: Coroutine[Any, Any, Result], *, database: str | None, review: bool
) -> Result:
    """Run the trial of a case to its end, and return its result.

    Args:
        work: the trial.
        database: where its case waits if a person has to decide it.
        review: whether a person may have to.

    Raises:
        Exit: SIGINT or SIGTERM came first. A line was printed.
    """
    import asyncio

    return asyncio.run(_run(work, database, review))


async def _run(work: Coroutine[Any, Any, Result], database: str | None, review: bool) -> Result:
    import asyncio

    loop = asyncio.get_running_loop()
    came = list[signal.Signals]()
    trial = asyncio.ensure_future(work)

    def stop(number: signal.Signals) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):  # a second one ends the process at once
            loop.remove_signal_handler(each)
        came.append(number)
        trial.cancel()

    for each in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # on Windows; in a thread
            loop.add_signal_handler(each, stop, each)
    try:
        return await trial
    except asyncio.CancelledError:
        if not came:
            raise
    left = await _what_is_left(database) if review else None
    say(f"tribunal: stopped by {came[0].name}: {left or 'nothing was kept; to judge the post, run the command again'}",
        aside=True)  # fmt: skip
    raise Exit(_BY_SIGNAL + came[0])


async def _what_is_left(database: str | None) -> str | None:
    """Return what became of this process's case, and the command that goes on with it; None where none is left."""
    from tribunal.docket.docket import docket_here
    from tribunal.docket.leases import list_cases_of_process

    try:
        rows = await list_cases_of_process((await docket_here(database)).store)
    except Exception as error:  # noqa: BLE001 (whatever it is, the process ends now, and says what it knows)
        return f"whether its case was kept is unknown ({type(error).__name__}); tribunal review list shows it"
    if not rows:
        return None
    case = rows[0]["id"]
    status = rows[0]["status"]
    if status == "running":
        return f"case {case} is kept as far as it came; tribunal review resume {case} goes on"
    return f"case {case} waits for a person; tribunal review decide {case} decides it"


EPILOG = """\b
Exit status: 0 verdict, 2 wrong usage or input, 3 refusal, 4 failure (also: the
verdict could not be kept), 5 a person has to decide (tribunal review).
More: tribunal graphs NAME, docs/settings.md"""


@with_settings
def judge(
    text: Annotated[
        str | None, Argument(help="The text of the post. Without it, or as -: standard input.")
    ] = None,
    image: Annotated[
        str | None, Option(metavar="IMAGE", help="The image: a path, a URL, a data URI, or -.")
    ] = None,
    graph: Graph = "tribunal",
    post_id: Annotated[
        str | None, Option("--id", metavar="ID", help="The post's id in the record.")
    ] = None,
    earlier: Annotated[
        list[str] | None,
        Option(metavar="TEXT", help="An earlier post, oldest first. Can be repeated."),
    ] = None,
    author: Annotated[
        str | None,
        Option(metavar="ID", help="The author's id, kept only as a keyed hash."),
    ] = None,
    as_json: AsJson = False,
    trace: Annotated[bool, Option("--trace", help="Print every prompt and raw answer.")] = False,
    explain: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write an explanation as .html, .md or .json."),
    ] = None,
    keep: Keep = None,
    keep_text: KeepText = None,
    database: KeepIn = None,
    wait_for_server: Annotated[
        str | None,
        Option(metavar="TIME", help="Wait for a server that is down, such as 10m."),
    ] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Decide whether a post is hate speech, and show why."""
    expect_stop()
    from tribunal.docket.keeping import find_unkept_warning, keep_options

    if trace:
        if "trace" in settings:
            raise BadInput("trace: is given by --trace and by --set; give it once")
        settings["trace"] = True
    context = check_settings(graph, settings)
    wait = parse_wait(wait_for_server or "0")
    words, picture = _read_post(text, image)
    kept = keep_options(
        "command", keep, keep_text, review=bool(settings.get("review")), database=database
    )
    if author is not None and kept is None:
        raise BadInput(
            "--author: only kept cases note the author; give --keep or --review, or leave it out"
        )
    if explain:
        check_output_file(explain)
    # LangGraph comes with these, so they follow what is refused.
    from tribunal.commands.show import CasePrinter
    from tribunal.docket.session import judge_post
    from tribunal.explanations.view_maker import view_case

    with CasePrinter(quiet=as_json, trace=context.trace, post=words) as printer:
        case = judge_post(
            words,
            picture,
            graph=graph,
            context=context,
            post_id=post_id,
            earlier=earlier or [],
            listen=printer.listen,
            keep=kept,
            database=database,
            author=author,
        )
        record = run_until_stopped(
            _wait_for_servers(case, wait),
            database=kept.database if kept is not None else database,
            review=context.review,
        )
    if as_json:
        say_json(record.dump())
    else:
        printer.print_outcome(view_case(record, post=words), record.cues)
        print_review_command(record)
        if record.kept is not None and record.kept != record.thread:
            say(f"kept as {record.kept} (tribunal cases show {record.kept})", aside=True)
    if explain:
        _write_explanation(
            record, {"text": words or "", "image": picture, "earlier": earlier or []}, explain
        )
    unkept = find_unkept_warning(record)
    if unkept is not None:
        say(f"tribunal: {unkept}", aside=True)
        raise Exit(STATUS["failure"])
    raise Exit(STATUS[record.outcome])


def _write_explanation(record: Record, post: JSON, out: Path) -> None:
    """Write the case as a page, and print its name on standard error: standard output may be the record alone."""
    import asyncio
    import time

    from tribunal.core.times import format_date
    from tribunal.explanations.view_maker import CaseAtHand
    from tribunal.review.explain import view_with_image

    at_hand = CaseAtHand(record, post, decided_at=format_date(time.time()))
    write_picture(asyncio.run(view_with_image(at_hand)), format_of_file(out), out, aside=True)


async def _wait_for_servers(case: Coroutine[Any, Any, Record], wait: WaitSettings) -> Record:
    """Return the record of a case whose calls are held while their server is away."""
    if wait.seconds:
        from tribunal.models.registry import current_registry
        from tribunal.models.server_wait import ServerWait
        from tribunal.runner.outage import SilentServers

        told = SilentServers(wait, print_warning).note_server
        (await current_registry()).server_wait = ServerWait(wait, told)
    return await case


def _read_post(text: str | None, image: str | None) -> tuple[str | None, str | None]:
    """Return the text, and a reference to the image; standard input stands in for one of them where it is asked for."""
    import asyncio

    from tribunal.models.image import store_image

    if image == "-":
        if text == "-":
            raise BadInput(
                "image: -: standard input can't be the text as well; give one of them another way"
            )
        return text, asyncio.run(store_image("standard input", sys.stdin.buffer.read()))
    if text == "-" or (text is None and image is None and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"text: standard input is not UTF-8: {error}; convert it") from error
    return text, image
