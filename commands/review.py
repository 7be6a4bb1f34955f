"""`tribunal review`: the cases that wait for a person, deciding them, and their way to a data set and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer

from tribunal.commands.appeals import handle_appeals
from tribunal.commands.database import (
    epoch_seconds,
    filter_from_options,
    login_name,
    print_review_command,
    require_service,
    run_in_docket,
    run_in_store,
    with_contents,
)
from tribunal.commands.printing import STATUS, report_write_errors
from tribunal.commands.shared_options import AsJson, Clauses, Database, KeepIn, Since, Until
from tribunal.core.text import count_noun
from tribunal.core.times import format_time
from tribunal.errors import BadInput
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.docket.docket import Docket
    from tribunal.review.case_tables import ExportResult
    from tribunal.review.label_studio import LabelledCase
    from tribunal.schema import JSON, Record
    from tribunal.store.engine import Store

app = Typer(
    name="review",
    help="The cases that a person has to decide.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Thread = Annotated[str, Argument(help="The case's thread, as the list shows it.")]
Reviewer = Annotated[
    str | None, Option(help="Who decides. Default: the name you are logged in by.")
]


@app.command("list")
@with_contents
def list_(
    decided: Annotated[bool, Option("--decided", help="Show decided cases, too.")] = False,
    as_json: AsJson = False,
    database: Database = None,
    *,
    contents: dict[str, Any],
) -> None:
    """List the cases that wait, those of the service included, the oldest first."""
    from tribunal.docket.case_search import ContentFilter, filter_conditions

    wanted = filter_from_options(ContentFilter, **contents)
    entries = run_in_docket(
        database,
        lambda docket: docket.entries(*filter_conditions(docket.store, wanted), decided=decided),
    )
    if as_json:
        say_json([each.model_dump(mode="json", exclude={"settings"}) for each in entries])
        return
    if not entries:
        say("No case is waiting for review.")
        return
    rows = []
    for each in entries:
        status = (
            "interrupted; resume it" if each.status == "cut_off" else each.holder or each.status
        )
        rows.append(
            (
                each.thread,
                each.post_id,
                format_time(each.opened),
                status,
                each.reason,
                each.court,
                each.decided,
            )
        )
    print_table(
        ("thread", "post", "waiting since", "status", "reason", "model verdict", "decided"), rows
    )


@app.command("show")
def show(thread: Thread, as_json: AsJson = False, database: Database = None) -> None:
    """Show a case: the post, what was said, what was found, and the outcome so far."""

    async def read(docket: Docket) -> tuple[Record, JSON]:
        return await docket.record(thread), await docket.row(thread)

    record, row = run_in_docket(database, read)
    if as_json:
        say_json(record.dump())
    else:
        print_case(record, str((row["post"] or {}).get("text") or ""))


@app.command("decide")
def decide(
    thread: Thread,
    accept: Annotated[bool, Option("--accept", help="Take the court's outcome as it is.")] = False,
    category: Annotated[
        str | None,
        Option(help="Decide otherwise: a category of the policy, by its name or number."),
    ] = None,
    ask: Annotated[
        str | None,
        Option(
            metavar="QUESTION", help="Send the case back for one more trial, with this question."
        ),
    ] = None,
    retry: Annotated[bool, Option("--retry", help="Run a case without a verdict again.")] = False,
    note: Annotated[str, Option(help="Why; it becomes the explanation of an edited verdict.")] = "",
    clauses: Clauses = None,
    reviewer: Reviewer = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Decide a case: --accept it, give another --category, --ask a question, or --retry it without a verdict."""
    import asyncio

    from tribunal.docket.session import submit_review
    from tribunal.docket.waiting_cases import answer_of

    actions: dict[Literal["accept", "change", "ask", "retry"], bool] = {
        "accept": accept, "change": category is not None, "ask": ask is not None, "retry": retry,
    }  # fmt: skip
    if sum(actions.values()) != 1:
        raise BadInput("decide: give one of --accept, --category, --ask and --retry")
    action = next(name for name, chosen in actions.items() if chosen)
    name = reviewer or login_name() or None
    answer = answer_of(
        action, category=category, question=ask, note=note, reviewer=name, clauses=clauses or ()
    )
    _end_with(asyncio.run(submit_review(thread, answer, database=database)), as_json)


@app.command("resume")
def resume(thread: Thread, as_json: AsJson = False, database: Database = None) -> None:
    """Go on with a case whose process ended in the middle."""
    import asyncio

    from tribunal.docket.keeping import keep_options
    from tribunal.docket.session import resume_case

    kept = keep_options("command", None, None, review=True, database=database)
    _end_with(asyncio.run(resume_case(thread, keep=kept, database=database)), as_json)


@app.command("claim")
def claim(
    thread: Thread,
    minutes: Annotated[float, Option(min=1, max=1440, help="For how long.")] = 15,
    release: Annotated[bool, Option("--release", help="Give the claim back.")] = False,
    reviewer: Reviewer = None,
    database: Database = None,
) -> None:
    """Claim a case, so that nobody else decides it, here or at the desk. Claim it again to keep it longer."""
    from tribunal.store.audit import Who

    name = reviewer or login_name()
    by = Who(who="operator", name=name)
    if release:
        run_in_docket(database, lambda docket: docket.waiting.release(thread, name, by))
        say(f"{thread} is free again")
        return
    run_in_docket(database, lambda docket: docket.waiting.claim(thread, name, minutes * 60, by))
    say(f"{thread} is yours for {minutes:g} min")


def _end_with(record: Record, as_json: bool) -> None:
    """Print the outcome of a case, and end with its status."""
    if as_json:
        say_json(record.dump())
    else:
        from tribunal.commands.show import CasePrinter
        from tribunal.explanations.view_maker import view_case

        with CasePrinter(quiet=False, trace=False) as printer:
            printer.print_outcome(view_case(record))
        print_review_command(record)
    raise Exit(STATUS[record.outcome])


def print_case(record: Record, post: str | None) -> None:
    """Print a case that is over: the post, what was said and found, and the outcome."""
    from tribunal.commands.show import print_record
    from tribunal.explanations.view_maker import view_case

    print_record(record, view_case(record, post=post), post)
    print_review_command(record)


LABEL_STUDIO = "label-studio"


def export_format(given: str | None, out: Path, *more: str) -> str:
    """Return the format of an export: the one that is named, else by the file's suffix.

    Raises:
        BadInput: it is none.
    """
    from tribunal.review.table_files import FORMATS

    form = given or out.suffix.removeprefix(".").casefold()
    if form not in (*FORMATS, *more):
        raise BadInput(
            f"format: {form!r}: is none of {', '.join((*FORMATS, *more))}; give --format"
        )
    return form


@app.command("export")
def export(
    out: Annotated[Path, Option(metavar="FILE", help="The file; of label-studio, a folder.")],
    form: Annotated[
        str | None,
        Option(
            "--format", help="jsonl, csv, parquet or label-studio. Default: by the suffix of FILE."
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    decided: Annotated[
        bool,
        Option("--decided", help="label-studio: the decided cases instead of the waiting ones."),
    ] = False,
    image_prefix: Annotated[
        str | None,
        Option(metavar="TEXT", help="label-studio: the prefix of a copied image's name."),
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write the cases that people decided as a data set for eval, fit and policy try; or cases as Label Studio tasks.

    Cases whose words were erased are left out and counted. No reviewer is named.
    """
    require_service()
    from tribunal.review import label_studio
    from tribunal.review.case_tables import export_decided, log_export
    from tribunal.review.label_studio import LOCAL_FILES

    kind = export_format(form, out, LABEL_STUDIO)
    begin = epoch_seconds(since)
    end = epoch_seconds(until)
    if kind != LABEL_STUDIO and (decided or image_prefix is not None):
        raise BadInput(
            f"{'decided' if decided else 'image_prefix'}: belongs to --format label-studio; leave it out"
        )
    prefix = LOCAL_FILES if image_prefix is None else image_prefix

    async def work(store: Store) -> ExportResult:
        with report_write_errors(out):
            if kind == LABEL_STUDIO:
                done = await label_studio.export_tasks(
                    store, out, decided=decided, since=begin, until=end, prefix=prefix
                )
            else:
                done = await export_decided(store, out, kind, since=begin, until=end)
        told = {
            "format": kind,
            "rows": done.rows,
            "left_out": dict(done.left_out),
            "since": begin,
            "until": end,
        }
        await log_export(store, "decisions" if kind != LABEL_STUDIO else "tasks", told)
        return done

    done = run_in_store(database, work)
    left_out = dict(sorted(done.left_out.items()))
    if as_json:
        say_json(
            {
                "out": str(out),
                "rows": done.rows,
                "left_out": left_out,
                "images_lost": done.images_lost,
            }
        )
        return
    say(f"{out}: {count_noun(done.rows, 'case')}")
    for reason, count in left_out.items():
        say(f"{count_noun(count, 'case')} left out: {reason}", aside=True)
    if done.images_lost:
        say(f"{count_noun(done.images_lost, 'image')} missing: the file is gone", aside=True)


@app.command("import")
def import_(
    labelled: Annotated[
        Path, Argument(metavar="FILE", help="The JSON file that Label Studio exported.")
    ],
    dataset: Annotated[
        Path | None,
        Option("--as-dataset", metavar="FILE", help="Write a data set instead of deciding."),
    ] = None,
    service: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Decide at a running service, by the key in TRIBUNAL_KEY. Default: on this machine.",
        ),
    ] = None,
    as_json: AsJson = False,
    database: KeepIn = None,
) -> None:
    """Import labels from Label Studio: as decisions, or as a data set.

    A task without a label, or with labels that differ, is reported and stays as it is.
    """
    import asyncio

    from tribunal.review.label_studio import read_export

    if dataset is not None and service is not None:
        raise BadInput("as_dataset: writes a file and decides nothing; leave --service out")
    tasks = read_export(labelled)
    chosen = [each for each in tasks if each.category is not None]
    for each in tasks:
        if each.category is None:
            why = (
                f"annotators differ: {', '.join(each.differ)}"
                if each.differ
                else "nobody has labelled it"
            )
            say(f"case {each.data.case}: {why}", aside=True)
    left = len(tasks) - len(chosen)
    refused = dict[str, str]()
    if dataset is not None:
        _write_dataset(dataset, chosen)
        result: JSON = {"out": str(dataset), "rows": len(chosen), "left": left}
    else:
        refused = asyncio.run(_carry_out(chosen, service, database))
        result = {"decided": len(chosen) - len(refused), "refused": refused, "left": left}
    if as_json:
        say_json(result)
    elif dataset is not None:
        say(f"{dataset}: {count_noun(len(chosen), 'post')}")
    else:
        say(
            f"{count_noun(result['decided'], 'case')} decided, {len(refused):,} refused, {left:,} not decided"
        )
        for case, why in refused.items():
            say(f"case {case}: {why}", aside=True)
    raise Exit(1 if refused else 0)


def _write_dataset(out: Path, chosen: list[LabelledCase]) -> None:
    from tribunal.process.files import write_atomically
    from tribunal.review.case_tables import DATASET_COLUMNS
    from tribunal.review.label_studio import labelled_dataset_row
    from tribunal.review.table_files import TableWriter

    names = (
        "id",
        "post_id",
        "text",
        "image",
        "language",
        "earlier",
        "label",
        "category",
        "policy",
        "policy_sha",
    )
    form = export_format(None, out)
    with report_write_errors(out, "as_dataset"), write_atomically(out) as file:
        table = TableWriter(form, {name: DATASET_COLUMNS[name] for name in names}, file)
        for each in chosen:
            table.add(labelled_dataset_row(each))
        table.close()


async def _carry_out(
    chosen: list[LabelledCase], service: str | None, database: str | None
) -> dict[str, str]:
    """Carry the decisions out, one after another; gives those that were refused, with why."""
    from tribunal.review.label_studio import decide_at_service, decide_in_docket

    if service is not None:
        from tribunal.settings.environment import setting

        return await decide_at_service(service, setting("TRIBUNAL_KEY") or "", chosen)
    return await decide_in_docket(chosen, database)


app.command("appeals")(handle_appeals)
