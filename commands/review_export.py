"""`tribunal review export` and `import`: decided cases as a data set, cases as tasks, and labels back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import epoch_seconds, require_service, run_in_store
from tribunal.commands.errors import report_write_errors
from tribunal.commands.shared_options import AsJson, Database, KeepIn, Since, Until
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json
from tribunal.text import count_noun

if TYPE_CHECKING:
    from tribunal.exports.case_tables import ExportResult
    from tribunal.exports.label_studio import LabelledCase
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

LABEL_STUDIO = "label-studio"


def export_format(given: str | None, out: Path, *more: str) -> str:
    """Return the format of an export: the one that is named, else by the file's suffix.

    Raises:
        BadInput: it is none.
    """
    from tribunal.exports.table_files import FORMATS

    form = given or out.suffix.removeprefix(".").casefold()
    if form not in (*FORMATS, *more):
        raise BadInput(f"format: {form!r}: is none of {', '.join((*FORMATS, *more))}; give --format")
    return form


def export(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file; of label-studio, a folder.")],
    form: Annotated[
        str | None,
        typer.Option("--format", help="jsonl, csv, parquet or label-studio. Default: by the suffix of FILE."),
    ] = None,
    since: Since = None,
    until: Until = None,
    decided: Annotated[
        bool, typer.Option("--decided", help="label-studio: the decided cases instead of the waiting ones.")
    ] = False,
    image_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="label-studio: the prefix of a copied image's name.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write the cases that people decided as a data set for eval, fit and policy try; or cases as Label Studio tasks.

    Cases whose words were erased are left out and counted. No reviewer is named.
    """
    require_service()
    from tribunal.exports import label_studio
    from tribunal.exports.case_tables import export_decided
    from tribunal.exports.finished_cases import log_export
    from tribunal.exports.label_studio import LOCAL_FILES

    kind, begin, end = export_format(form, out, LABEL_STUDIO), epoch_seconds(since), epoch_seconds(until)
    if kind != LABEL_STUDIO and (decided or image_prefix is not None):
        raise BadInput(f"{'decided' if decided else 'image_prefix'}: belongs to --format label-studio; leave it out")
    prefix = LOCAL_FILES if image_prefix is None else image_prefix

    async def work(store: Store) -> ExportResult:
        with report_write_errors(out):
            if kind == LABEL_STUDIO:
                done = await label_studio.export_tasks(
                    store, out, decided=decided, since=begin, until=end, prefix=prefix
                )
            else:
                done = await export_decided(store, out, kind, since=begin, until=end)
        told = {"format": kind, "rows": done.rows, "left_out": dict(done.left_out), "since": begin, "until": end}
        await log_export(store, "decisions" if kind != LABEL_STUDIO else "tasks", told)
        return done

    done = run_in_store(database, work)
    left_out = dict(sorted(done.left_out.items()))
    if as_json:
        say_json({"out": str(out), "rows": done.rows, "left_out": left_out, "images_lost": done.images_lost})
        return
    say(f"{out}: {count_noun(done.rows, 'case')}")
    for reason, count in left_out.items():
        say(f"{count_noun(count, 'case')} left out: {reason}", aside=True)
    if done.images_lost:
        say(f"{count_noun(done.images_lost, 'image')} missing: the file is gone", aside=True)


def import_(
    labelled: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON file that Label Studio exported.")],
    dataset: Annotated[
        Path | None, typer.Option("--as-dataset", metavar="FILE", help="Write a data set instead of deciding.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Decide at a running service, by the key in TRIBUNAL_KEY. Default: on this machine."
        ),
    ] = None,
    as_json: AsJson = False,
    database: KeepIn = None,
) -> None:
    """Import labels from Label Studio: as decisions, or as a data set.

    A task without a label, or with labels that differ, is reported and stays as it is.
    """
    import asyncio

    from tribunal.exports.label_studio import read_export

    if dataset is not None and service is not None:
        raise BadInput("as_dataset: writes a file and decides nothing; leave --service out")
    tasks = read_export(labelled)
    chosen = [each for each in tasks if each.category is not None]
    for each in tasks:
        if each.category is None:
            why = f"annotators differ: {', '.join(each.differ)}" if each.differ else "nobody has labelled it"
            say(f"case {each.data.case}: {why}", aside=True)
    left, refused = len(tasks) - len(chosen), dict[str, str]()
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
        say(f"{count_noun(result['decided'], 'case')} decided, {len(refused):,} refused, {left:,} not decided")
        for case, why in refused.items():
            say(f"case {case}: {why}", aside=True)
    raise typer.Exit(1 if refused else 0)


def _write_dataset(out: Path, chosen: list[LabelledCase]) -> None:
    from tribunal.exports.case_tables import DATASET_COLUMNS
    from tribunal.exports.label_studio import labelled_dataset_row
    from tribunal.exports.table_files import TableWriter
    from tribunal.files import write_atomically

    names = ("id", "post_id", "text", "image", "language", "earlier", "label", "category", "policy", "policy_sha")
    form = export_format(None, out)
    with report_write_errors(out, "as_dataset"), write_atomically(out) as file:
        table = TableWriter(form, {name: DATASET_COLUMNS[name] for name in names}, file)
        for each in chosen:
            table.add(labelled_dataset_row(each))
        table.close()


async def _carry_out(chosen: list[LabelledCase], service: str | None, database: str | None) -> dict[str, str]:
    """Carry the decisions out, one after another; gives those that were refused, with why."""
    from tribunal.exports.label_studio import decide_at_service, decide_in_docket

    if service is not None:
        from tribunal.environment import setting

        return await decide_at_service(service, setting("TRIBUNAL_KEY") or "", chosen)
    return await decide_in_docket(chosen, database)
