"""Plans and tables of experiments, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tribunal.commands.printing import print_template
from tribunal.process.terminal import screen

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from tribunal.eval.experiments.estimate import CallPace, RunEstimate
    from tribunal.eval.experiments.experiment import Experiment
    from tribunal.eval.experiments.plan import ExperimentPlan, ReadyRun
    from tribunal.eval.experiments.table import ExperimentCell, ExperimentRow, ExperimentTable
    from tribunal.eval.protocols.protocol import Protocol
    from tribunal.process.screen import Screen
    from tribunal.runner.prices import Prices
    from tribunal.schema import JSON

_UNBOUND = 10_000  # columns
Row = tuple[Sequence[str], bool]  # its cells, and whether they are bold


def will_spend(runs: Iterable[ReadyRun], retry: object) -> bool:
    """Return whether one of these runs has a post left, or tried again, that a real model answers."""
    return any((each.decisions_left or retry) and not each.rehearsed for each in runs)


def print_plan(
    plan: ExperimentPlan,
    estimates: Sequence[RunEstimate],
    pace: CallPace,
    prices: Prices | None,
    *,
    aside: bool = False,
) -> None:
    """Print a table of the runs, what they take and what they share; then what isn't at hand."""
    missing: dict[str, list[str]] = {}
    for name, why in plan.gaps.items():
        missing.setdefault(why, []).append(name)
    unshown = len(plan.gaps.keys() - {each.ready.run.name for each in estimates})
    total = len(estimates) + unshown
    values = {
        "experiment": plan.experiment,
        "missing": [
            f"{why}: {'every run' if len(runs) == total > 1 else ', '.join(runs)}"
            for why, runs in missing.items()
        ],
    }
    print_run_costs(
        "experiment_plan", estimates, pace, prices, aside=aside, unshown=unshown, **values
    )


def print_run_costs(
    template: str,
    estimates: Sequence[RunEstimate],
    pace: CallPace,
    prices: Prices | None,
    *,
    aside: bool = False,
    unshown: int = 0,
    **values: Any,
) -> None:
    """Print a table of runs and what they take, between the two parts of a template: `head` and `end`.

    The last row sums the runs that can be estimated; it says of how many, `unshown` runs that have no row included.
    """
    from tribunal.eval.experiments.estimate import costs_as_json, sum_estimates

    names = []
    rows = []
    counted = posts = done = 0
    for ready, rest, _, by, _ in estimates:
        names.append(ready.run.name + ("*" if by == "measured" and ready.decisions_left else ""))
        repeats = f" × {ready.job.repeats}" if ready.job.repeats > 1 else ""
        costs = _cost_cells(costs_as_json(rest, pace, prices))
        rows.append([f"{ready.job.count:,}{repeats}", f"{ready.done:,}", *costs])
        if rest is not None:
            counted = counted + 1
            posts = posts + ready.decision_count
            done = done + ready.done
    total = len(rows) + unshown
    if total > 1:
        rows.append(
            [
                f"{posts:,}",
                f"{done:,}",
                *_cost_cells(costs_as_json(sum_estimates(estimates), pace, prices)),
            ]
        )
    heads = ("run", "posts", "done", "calls", "shared", "tokens", "money", "time")

    def grid(called: Sequence[str]) -> Grid:
        of_all = "all" if counted == total else f"{counted:,} of {total:,} runs"
        rows_named = zip([*called, of_all], rows, strict=False)
        return _grid(
            heads,
            1,
            [([name, *row], at == len(called)) for at, (name, row) in enumerate(rows_named)],
        )

    console = screen(aside=aside, wide=True)
    numbers = {} if _fits_screen(grid(names), console) else dict(enumerate(names, start=1))
    print_template(template, aside=aside, part="head", **values)
    console.print(grid([*map(str, numbers)] or names))
    print_template(
        template,
        aside=aside,
        part="end",
        numbers=numbers,
        estimates=estimates,
        by={line.by for line in estimates if line.ready.decisions_left},
        pace=pace,
        priced=prices is not None,
        unpriced=costs_as_json(sum_estimates(estimates), pace, prices)["unpriced"]
        if prices
        else [],
        **values,
    )


def _grid(heads: Sequence[str], labels: int, rows: Iterable[Row]) -> Grid:
    """Return a table whose columns after its first `labels` are figures."""
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False)
    for at, head in enumerate(heads):
        grid.add_column(head, justify="left" if at < labels else "right", no_wrap=True)
    for cells, bold in rows:
        grid.add_row(*cells, style="bold" if bold else None)
    return grid


def _fits_screen(grid: Grid, console: Screen) -> bool:
    """Return whether a table can be printed with nothing in it cut or broken."""
    from rich.measure import Measurement

    unbound = console.options.update(max_width=_UNBOUND)
    return Measurement.get(console, unbound, grid).maximum <= console.width


def _cost_cells(cost: JSON) -> list[str]:
    if cost["calls"] is None:
        return ["?"] * 5
    forms: dict[str, Any] = {
        "calls": "{:,}".format, "shared_calls": "{:,}".format, "tokens": _short_number, "money": "{:,.2f}".format,
        "seconds": _time_in_words,
    }  # fmt: skip
    cells = {}
    for name, form in forms.items():
        first, last = map(form, cost[name] or (0, 0))
        cells[name] = first if first == last else f"{first}–{last}"
    cells["money"] = (
        "–" if cost["money"] is None else cells["money"] + ("+" if cost["unpriced"] else "")
    )
    return list(cells.values())


def _short_number(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return (
                f"{number / size:.3g} {unit}"
                if number < 1000 * size
                else f"{number / size:,.0f} {unit}"
            )
    return f"{number:.0f}"


def _time_in_words(seconds: float) -> str:
    minutes = round(seconds) // 60
    if minutes < 1:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"


def print_table_of_paper(table: ExperimentTable) -> None:
    """Print a paper's table with what was measured.

    On a screen that is too narrow for it, only the measured rows are printed, a line a cell.
    """
    console = screen(wide=True)
    for warning in table.warnings:
        console.print(f"warning: {warning}", style="yellow")
    notes: dict[str, int] = {}
    heads = [*table.stub, "", *("\n".join(filter(None, heads)) for heads in table.heads)]
    rows = [row for line in table.lines for row in _table_rows(line, notes)]
    grid = _grid(heads, len(table.stub) + 1, rows)
    if _fits_screen(grid, console):
        console.print(grid)
    else:
        notes.clear()
        _print_lines(table, console, notes)
    if notes:
        console.print("")
    for why, number in notes.items():
        console.print(f"[{number}] {why}")


def _table_rows(line: ExperimentRow, notes: dict[str, int]) -> Iterable[Row]:
    """Yield the rows of the paper's figures, of the measured ones and of their differences, as far as there are any."""
    nowhere = _gap_of_all(line)
    if line.kind != "measured":
        source = "paper" if nowhere or any(each.paper for each in line.cells) else ""
        source += f" [{_note_number(nowhere, notes)}]" if nowhere else ""
        yield [*line.labels, source, *(each.paper or "–" for each in line.cells)], False
    if line.kind == "measured" or (line.kind != "paper" and not nowhere):
        labels = line.labels if line.kind == "measured" else [""] * len(line.labels)
        yield [*labels, "measured", *(_measured_in_words(each, notes) for each in line.cells)], True
        if any(each.difference_printed for each in line.cells):
            yield (
                [
                    *[""] * len(labels),
                    "difference",
                    *(_difference_in_words(each) for each in line.cells),
                ],
                False,
            )


def _gap_of_all(line: ExperimentRow) -> str:
    """Return why nothing was measured in a row at all; empty if something was, or for several reasons."""
    gaps = {each.gap for each in line.cells}
    return gaps.pop() if len(gaps) == 1 and not any(each.measured for each in line.cells) else ""


def _print_lines(table: ExperimentTable, console: Screen, notes: dict[str, int]) -> None:
    measured_lines = [line for line in table.lines if any(each.measured for each in line.cells)]
    if 0 < len(measured_lines) < len(table.lines):
        console.print(
            f"{len(table.lines) - len(measured_lines)} rows without a figure of yours: see the table's files"
        )
    for line in measured_lines or table.lines:
        nowhere = _gap_of_all(line)
        mark = f" [{_note_number(nowhere, notes)}]" if nowhere else ""
        console.print(" · ".join(filter(None, line.labels)) + mark, style="bold")
        for heads, each in zip(table.heads, line.cells, strict=True):
            figures = [f"paper {each.paper}"] if each.paper else []
            if line.kind != "paper" and not nowhere:
                figures.append(f"measured {_measured_in_words(each, notes)}")
            if each.difference_printed:
                figures.append(f"difference {_difference_in_words(each)}")
            if figures:
                console.print(f"  {', '.join(filter(None, heads))}: {'; '.join(figures)}")


def _note_number(gap: str, notes: dict[str, int]) -> int:
    return notes.setdefault(gap, len(notes) + 1)


def _measured_in_words(figure: ExperimentCell, notes: dict[str, int]) -> str:
    if figure.measured:
        ours = (
            f"; {figure.left_out_printed} with failures left out" if figure.left_out_printed else ""
        )
        return figure.measured + (f" ({figure.span}{ours})" if figure.span else "")
    return f"– [{_note_number(figure.gap, notes)}]" if figure.gap else "–"


def _difference_in_words(figure: ExperimentCell) -> str:
    return (
        f"{figure.difference_printed} ({figure.interval_in_words})"
        if figure.difference_printed
        else ""
    )


def paper_rows(table: ExperimentTable, experiment: Experiment) -> ExperimentTable:
    """Return a table of the paper's figures alone, with why a row can't be run at all."""
    from tribunal.eval.experiments.table import ExperimentCell, ExperimentRow

    never = {row.not_run for row in experiment.shape.rows}
    lines = []
    for line in table.lines:
        cells = [
            ExperimentCell(paper=each.paper, gap=each.gap if each.gap in never else "")
            for each in line.cells
        ]
        lines.append(ExperimentRow(line.labels, "paper", tuple(cells)))
    return replace(table, lines=tuple(lines), warnings=())


def settings_by_dataset(
    protocol: Protocol, condition: str, common: JSON
) -> list[tuple[str, JSON, str]]:
    """Return what a condition sets beyond the common settings: words before it, the settings, and words after it."""
    there = [
        dataset for dataset in protocol.datasets if condition in protocol.conditions_on(dataset)
    ]
    sets = {
        dataset: {
            name: value
            for name, value in protocol.settings_of(condition, dataset).items()
            if name not in common
        }
        for dataset in there
    }
    if any(each != sets[there[0]] for each in sets.values()):
        return [(f"on {dataset} sets", each, "") for dataset, each in sets.items()]
    where = "" if len(there) == len(protocol.datasets) else f" (on {', '.join(there)} only)"
    return [("sets", sets[there[0]], where)]


def common_settings(protocol: Protocol) -> JSON:
    """Return the settings that all runs of a protocol share."""
    runs = [
        protocol.settings_of(condition, dataset)
        for dataset in protocol.datasets
        for condition in protocol.conditions_on(dataset)
    ]
    shared = {
        name: value
        for name, value in runs[0].items()
        if all(run.get(name) == value for run in runs)
    }
    return {"repeats": protocol.repeats, **shared}
