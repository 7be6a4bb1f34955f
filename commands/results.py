"""`tribunal report` and `export`: the measures of runs as pages and tables, and runs for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tribunal.commands.printing import format_share, format_span, print_template
from tribunal.commands.run_options import read_price_table
from tribunal.commands.shared_options import AsJson, Cluster, RunPrices
from tribunal.core.text import make_visible, parse_json
from tribunal.errors import BadInput
from tribunal.process.files import read_text
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON


_RunFolders = Annotated[
    list[Path],
    Argument(metavar="DIR...", help="The folders of one run or several; or one with runs in it."),
]


MOST_PRINTED = 40  # groups; metrics.json has them all
_RISK = 1  # the position of 5 % among the risks


def print_metrics(measured: JSON) -> None:
    """Print the headline of a run beside the measures that count errors, in percent."""
    from tribunal.eval.measures.scores import MEASURES
    from tribunal.runner.tally import warn_of_empty_reasons, warn_of_mixed_formats

    empty = warn_of_empty_reasons(measured["empty_reasons"])
    warnings = [empty, warn_of_mixed_formats(measured["rungs"])]
    print_template("metrics", part="head", m=measured, warnings=filter(None, warnings))
    rows = []
    for name in MEASURES:
        row = [name]
        for each in (measured, measured["counting_errors"]):
            row += [format_share(each[name]), format_span(each["intervals"][name])]
        rows.append(row)
    print_table(("", "headline", "interval", "counting errors", "interval"), rows)
    print_template("metrics", part="end", m=measured)
    _print_groups(measured)


def _print_groups(measured: JSON) -> None:
    """Print calibration and cost of each language and functionality of which a verdict states a confidence."""
    from tribunal.eval.measures.metrics import DETAILED

    rows = []
    for by in DETAILED:
        for name, group in measured[by].items():
            calibration = group["calibration"]
            if calibration["n"]:
                covered = calibration["coverage_at_risk"][_RISK]
                row = [f"{by.removeprefix('by_')} {name}", f"{calibration['n']:,}"]
                for share, ends in (
                    (calibration["ece"], calibration["intervals"]["ece"]),
                    (covered["coverage"], covered["interval"]),
                ):
                    row += [format_share(share), format_span(ends)]
                rows.append(
                    [
                        *row,
                        *(
                            f"{group['cost'][kind]['mean']:,.1f}"
                            for kind in ("calls", "tokens", "seconds")
                        ),
                    ]
                )
    if rows:
        heads = (
            "calibration error",
            "interval",
            "covered at 5 % risk",
            "interval",
            "calls",
            "tokens",
            "seconds",
        )
        print_table(("confidence and cost", "verdicts", *heads), rows[:MOST_PRINTED])
    if len(rows) > MOST_PRINTED:
        say(f"{len(rows) - MOST_PRINTED} more in metrics.json")


def report(
    folders: _RunFolders,
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Where report.html, .md, .tex and .json, and samples.html go. Default: DIR, if one is given.",
        ),
    ] = None,
    tables: Annotated[
        bool,
        Option(
            "--tables",
            help="Print the measures of each run as tables. Writes no files, unless --out is given.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        Option(
            "--json",
            help="Print what report.json holds: runs, each with its measures; cost fronts; paired tests. Writes no "
            "files, unless --out is given.",
        ),
    ] = False,
    transcripts: Annotated[
        int,
        Option(min=0, help="How many wrong and how many uncertain posts of each run are shown."),
    ] = 50,
    prices: RunPrices = None,
    cluster: Cluster = None,
    metrics: Annotated[
        list[str] | None,
        Option(
            "--metric",
            metavar="MODULE:FUNCTION",
            help="Your own measure, such as sklearn.metrics:balanced_accuracy_score: a function of gold and predicted "
            "labels, shown with its interval and paired test. May be given again.",
        ),
    ] = None,
) -> None:
    """Write a report on runs: an HTML page that loads nothing, Markdown, LaTeX, JSON, and all samples.

    samples.html holds every sample, to filter, sort and search without a server.

    Posts are covered until you open them.
    """
    from tribunal.eval.measures.metrics import measure_run
    from tribunal.eval.report import measure_runs, write_report
    from tribunal.runner.results import find_run_folders

    if as_json and tables:
        raise BadInput("--json: prints the measures, as --tables does; give one of them")
    runs = find_run_folders(folders)
    price_table = read_price_table(prices)
    figures: JSON = {}
    if out or not (as_json or tables):
        if out is None and len(folders) > 1:
            raise BadInput(
                "out: a report on several runs has no folder of its own; give one with --out"
            )
        files = write_report(
            runs,
            out or folders[0],
            most=transcripts,
            prices=price_table,
            cluster=cluster,
            metrics=metrics or (),
        )
        written = files[3]
        figures = parse_json(read_text(written, written.stat().st_size))
        if not as_json:
            for sentence in figures["answer"]:
                say(make_visible(sentence))
        for file in files:
            say(str(file), aside=as_json or tables)
    if as_json:
        say_json(
            figures
            or measure_runs(runs, prices=price_table, cluster=cluster, metrics=metrics or ())
        )
    if tables:
        for run in runs:
            if len(runs) > 1:
                say(f"{run}:")
            print_metrics(measure_run(run, cluster=cluster))


class ExportFormat(StrEnum):
    """A format that a run can be exported in."""

    PARQUET = "parquet"
    CSV = "csv"
    INSPECT = "inspect"


def export(
    folders: _RunFolders,
    to: Annotated[
        ExportFormat,
        Option(
            "--to", help="Flat tables (parquet, csv), or a log that `inspect view` opens (inspect)."
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Where the files go. Default: the folder export in DIR, if one is given.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        Option(
            metavar="PATH",
            help="The data set's files, for the posts' texts; of several, NAME=PATH for each.",
        ),
    ] = None,
    prices: RunPrices = None,
    as_json: AsJson = False,
) -> None:
    """Write runs for other tools: tables of posts, calls, turns, cues, opinions and cost, or a log for Inspect.

    Posts' texts are exported if the run kept them, or --data gives them.
    """
    from tribunal.eval.export.results import parse_data_paths, runs_to_export
    from tribunal.plugins import require_extra
    from tribunal.runner.results import find_run_folders

    if out is None and len(folders) > 1:
        raise BadInput(
            "out: an export of several runs has no folder of its own; give one with --out"
        )
    runs = runs_to_export(find_run_folders(folders), read_price_table(prices))
    alone, named = parse_data_paths(data or ())
    into = out or folders[0] / "export"
    if to is ExportFormat.INSPECT:
        require_extra("to: inspect", "inspect")
        from tribunal.eval.export.inspect_log import write_log
        from tribunal.eval.export.results import words_by_post

        written = dict[Path, int]()
        for source in runs:
            written |= write_log(
                source, into, words_by_post(source.run, alone, named, source.folder)
            )
    else:
        from tribunal.eval.export.results import write_frames

        written = write_frames(
            runs, into, "csv" if to is ExportFormat.CSV else "parquet", alone=alone, named=named
        )
    if as_json:
        say_json({"out": str(into), "files": {path.name: count for path, count in written.items()}})
        return
    for path, count in written.items():
        say(f"{path}: {count:,} {'samples' if to is ExportFormat.INSPECT else 'rows'}")
    if to is ExportFormat.INSPECT:
        say(f"inspect view --log-dir {into} shows it", aside=True)
