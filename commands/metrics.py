"""`tribunal metrics`: what a run measures, finished or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.printing import format_share, format_span, print_template
from tribunal.commands.shared_options import AsJson, Cluster
from tribunal.terminal import print_table, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON


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
    from tribunal.eval.measures.metrics import fitted_on_in_words
    from tribunal.eval.measures.scores import MEASURES
    from tribunal.eval.runs.tally import warn_of_mixed_formats

    warnings = [warn_of_mixed_formats(measured["rungs"]), fitted_on_in_words(measured)]
    print_template("metrics", part="head", m=measured, warnings=filter(None, warnings))
    rows = []
    for name in MEASURES:
        row = [name]
        for each in (measured, measured["counting_errors"]):
            row += [format_share(each[name]), format_span(each["intervals"][name])]
        rows.append(row)
    print_table(("", "headline", "interval", "counting errors", "interval"), rows)
    print_template("metrics", part="end", m=measured)
