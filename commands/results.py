"""`tribunal metrics`, `report`, `view` and `export`: what runs measure, as a page, in a browser, for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.printing import format_share, format_span, print_template
from tribunal.commands.run_options import read_price_table
from tribunal.commands.shared_options import AsJson, Cluster, RunPrices
from tribunal.errors import BadInput
from tribunal.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON


_RunFolders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="The folders of one run or several; or one with runs in it.")
]


MOST_PRINTED = 40  # groups; metrics.json has them all
AT_RISK = 1  # the place of 5 % among the risks


def metrics(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run, write metrics.json into its folder, and print the headline."""
    from tribunal.eval.measures.metrics import write_metrics

    measured = write_metrics(folder, cluster=cluster)
    if as_json:
        say_json(measured)
    else:
        print_metrics(measured)


def print_metrics(measured: JSON) -> None:
    """Print the headline of a run beside the measures that count errors, in percent."""
    from tribunal.eval.measures.scores import MEASURES
    from tribunal.eval.runs.tally import warn_of_empty_reasons, warn_of_mixed_formats

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
            if held := group["calibration"]["n"] and group["calibration"]:
                covered = held["coverage_at_risk"][AT_RISK]
                row = [f"{by.removeprefix('by_')} {name}", f"{held['n']:,}"]
                for share, ends in (
                    (held["ece"], held["intervals"]["ece"]),
                    (covered["coverage"], covered["interval"]),
                ):
                    row += [format_share(share), format_span(ends)]
                rows.append([*row, *(f"{group['cost'][kind]['mean']:,.1f}" for kind in ("calls", "tokens", "seconds"))])
    if rows:
        heads = ("calibration error", "interval", "covered at 5 % risk", "interval", "calls", "tokens", "seconds")
        print_table(("confidence and cost", "verdicts", *heads), rows[:MOST_PRINTED])
    if len(rows) > MOST_PRINTED:
        say(f"{len(rows) - MOST_PRINTED} more in metrics.json")


def report(
    folders: _RunFolders,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where report.html, .md, .tex and .json, and samples.html go. Default: DIR, if one is given.",
        ),
    ] = None,
    transcripts: Annotated[
        int, typer.Option(min=0, help="How many wrong and how many uncertain posts of each run are shown.")
    ] = 50,
    prices: RunPrices = None,
    cluster: Cluster = None,
) -> None:
    """Write a report on runs: one HTML page that loads nothing from anywhere, Markdown, LaTeX, JSON, and all samples.

    samples.html holds every sample, to filter, sort and search without a server.

    Posts are covered until you open them.
    """
    from tribunal.eval.report import write_report
    from tribunal.eval.runs.results import find_run_folders

    if out is None and len(folders) > 1:
        raise BadInput("out: a report on several runs has no folder of its own; give one with --out")
    table = read_price_table(prices)
    for written in write_report(
        find_run_folders(folders), out or folders[0], most=transcripts, prices=table, cluster=cluster
    ):
        say(str(written))


def view(
    folders: _RunFolders,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="The data set's files, for texts and images that the run didn't keep; of several, SET=PATH for each.",
        ),
    ] = None,
    prices: RunPrices = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port. 0: a free one.")] = 0,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    open_to_others: Annotated[
        bool,
        typer.Option("--open-to-others", help="Allow a --host that other machines reach. There is no sign-in."),
    ] = False,
    browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Look into runs in a browser: filter, sort and search their samples, read each case, compare two runs.

    Serves this machine alone, until Ctrl-C. Keeps an index beside each run's results (.view.sqlite).
    """
    from tribunal.eval.view.server import serve_runs

    serve_runs(
        folders,
        lambda address: say(f"tribunal: {address} (Ctrl-C ends it)", aside=True),
        data=data or (),
        prices=read_price_table(prices),
        host=host,
        port=port,
        open_to_others=open_to_others,
        browser=browser,
    )


class ExportFormat(StrEnum):
    """A format that a run can be exported in."""

    PARQUET = "parquet"
    CSV = "csv"
    INSPECT = "inspect"


def export(
    folders: _RunFolders,
    to: Annotated[
        ExportFormat,
        typer.Option("--to", help="Flat tables (parquet, csv), or a log that `inspect view` opens (inspect)."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the files go. Default: the folder export in DIR, if one is given."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
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
    from tribunal.eval.export.results import runs_to_export
    from tribunal.eval.runs.results import find_run_folders
    from tribunal.eval.view.viewed_runs import parse_data_paths
    from tribunal.plugins import require_extra

    if out is None and len(folders) > 1:
        raise BadInput("out: an export of several runs has no folder of its own; give one with --out")
    runs, (alone, named) = (
        runs_to_export(find_run_folders(folders), read_price_table(prices)),
        parse_data_paths(data or ()),
    )
    into = out or folders[0] / "export"
    if to is ExportFormat.INSPECT:
        require_extra("to: inspect", "inspect")
        from tribunal.eval.export.inspect_log import write_log
        from tribunal.eval.export.results import words_by_post

        written = dict(write_log(run, into, words_by_post(run, alone, named)) for run in runs)
    else:
        from tribunal.eval.export.frames import write_frames

        written = write_frames(runs, into, "csv" if to is ExportFormat.CSV else "parquet", alone=alone, named=named)
    if as_json:
        say_json({"out": str(into), "files": {path.name: count for path, count in written.items()}})
        return
    for path, count in written.items():
        say(f"{path}: {count:,} {'samples' if to is ExportFormat.INSPECT else 'rows'}")
    if to is ExportFormat.INSPECT:
        say(f"inspect view --log-dir {into} shows it", aside=True)
