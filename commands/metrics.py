"""`tribunal metrics`: what a run measures, finished or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.errors import ending_well
from tribunal.terminal import say_json, screen
from tribunal.text import visible

if TYPE_CHECKING:
    from tribunal.schema import JSON


def metrics(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="The field by which posts belong together (template, thread, author, …), so that intervals count them "
            "as one; or post, or near-duplicates. Default: what the data set declares, else near-duplicates.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what metrics.json holds, and nothing else.")] = False,
) -> None:
    """Measure a run, write metrics.json into its folder, and print the headline."""
    with ending_well():
        from tribunal.eval.measures.metrics import write_metrics

        measured = write_metrics(folder, cluster=cluster)
        if as_json:
            say_json(measured)
        else:
            show(measured)


def show(measured: JSON) -> None:
    """Print the headline of a run beside the measures that count errors, in percent."""
    from rich.table import Table

    from tribunal.eval.measures.confusion import MEASURES
    from tribunal.eval.measures.metrics import fitted_on_in_words
    from tribunal.eval.runs.rungs import mixed_in_words

    console = screen()
    if measured["rehearsed"]:
        console.print("note: the rehearsal model took part; these figures say nothing of any model", style="yellow")
    if mixed := mixed_in_words(measured["rungs"]):
        console.print(f"warning: {mixed}", style="yellow", markup=False)
    if fitted_on := fitted_on_in_words(measured):
        console.print(f"warning: {fitted_on}", style="yellow", markup=False)
    outcomes = ", ".join(
        f"{measured[name]:,} {name}" for name in ("verdicts", "refusals", "failures", "pending") if measured[name]
    )
    console.print(f"{measured['n']:,} results: {outcomes or 'none'}")
    if measured["missing"]:
        console.print(f"not finished: {measured['missing']:,} missing")
    table = Table("", "headline", "interval", "counting errors", "interval", box=None, pad_edge=False)
    counting = measured["counting_errors"]
    for name in MEASURES:
        table.add_row(
            name,
            _percent(measured[name]),
            _span(measured["intervals"][name]),
            _percent(counting[name]),
            _span(counting["intervals"][name]),
        )
    console.print(table)
    for name, title in (("always_hate", "always hate"), ("never_hate", "never hate")):
        constant = measured["baselines"][name]
        if constant["accuracy"] is not None:
            said = ", ".join(f"{each} {_percent(constant[each])}" for each in ("accuracy", "macro_f1", "f1"))
            console.print(f"{title} would score: {said}")
    if measured["clusters"]["n"]:
        console.print(_clusters(measured["clusters"]), markup=False)
    told = measured["consistency"]["yes_or_no"]
    if told["groups"]:
        console.print(
            f"consistency: one verdict, hate or not, in {_percent(told['one_verdict'])} of {told['groups']:,} groups "
            f"of posts that say the same ({_span(told['intervals']['one_verdict'])}); {told['flips']:,} posts flip"
        )
    for name, each in measured["saved"].items():
        console.print(_saved(name, each), markup=False)


def _saved(name: str, each: JSON) -> str:
    """What one shortcut spared, in words."""
    told = [f"{each['calls']:,} calls"] * bool(each["calls"])
    if each["tokens"]:
        told.append(f"{'about ' * each['estimated']}{each['tokens']:,.0f} tokens")
    least = "" if name == "cache" else "at least "
    said = f"saved by {visible(name)}: {least}{' and '.join(told) or 'nothing'}, in {each['results']:,} results"
    if each["accuracy"] is None:
        return said
    return (
        f"{said}; accuracy there {_percent(each['accuracy'])} ({_span(each['accuracy_interval'])}), "
        f"elsewhere {_percent(each['accuracy_elsewhere'])}"
    )


def _clusters(clusters: JSON) -> str:
    """What the intervals draw, in words."""
    if clusters["by"] == "post":
        return f"intervals at 95 %, over {clusters['n']:,} posts, each counted as independent"
    by, many, largest = visible(clusters["by"]), clusters["n"], clusters["largest"]
    return f"intervals at 95 %, over {many:,} clusters by {by}, the largest of {largest:,} posts"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _span(ends: list[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}"
