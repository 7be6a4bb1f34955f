"""Build a table in its own shape: what was measured beside the paper's figures, and its conditions against each other.

`tribunal.eval.experiments.rendering` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from pathlib import Path
from typing import Literal

from tribunal.eval.experiments.cell_measures import (
    CellMeasure,
    PairedTest,
    compare_conditions,
    compare_with_paper,
    format_as_printed,
    interval_of_difference,
    measure_cell,
)
from tribunal.eval.experiments.experiment import YOURS, CellSource, Experiment, MissingCell, RunKey
from tribunal.eval.measures.columns import RunColumns, count_failures_as_wrong
from tribunal.eval.measures.metrics import measure_columns
from tribunal.eval.measures.scores import MEASURES
from tribunal.eval.protocols.following import describe_departures
from tribunal.eval.protocols.protocol import MODEL, PaperRow, TableColumn
from tribunal.eval.report.overview import left_out_in_words, missing_images_warning
from tribunal.schema import JSON

EXPERIMENT = "experiment.json"  # in the folder of an experiment's runs: which table it is of, and who was asked
TABLE = "table.json"
REHEARSED = "rehearsal model took part: says nothing"
NO_IMAGES = "images not here: no post was shown to a model with its image"
Kind = Literal["paper and measured", "paper", "measured"]


@dataclass(frozen=True)
class ExperimentCell:
    """Hold one cell.

    `paper` is what the paper prints; `measured` is printed in the same form; `span` is its 95 % interval, printed.
    `value` (a fraction, or a count), `low`, `high` and `beside` (what stands in brackets) are as they were measured,
    over `n` posts. `left_out` is the value with failures left out, where the paper counts them as wrong and that makes
    another figure; `left_out_printed` is it, printed. `difference` is the value less `paper_value`, the paper's figure
    as a number; `in_interval` says whether the interval holds that. `gap` says why nothing was measured. `source` and
    `model` say what the cell is of. Each is empty or None where there is none.
    """

    paper: str = ""
    measured: str = ""
    span: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    beside: float | None = None
    left_out: float | None = None
    left_out_printed: str = ""
    n: int | None = None
    gap: str = ""
    paper_value: float | None = None
    difference: float | None = None
    difference_printed: str = ""
    in_interval: bool | None = None
    source: CellSource | None = None
    model: str = ""

    @property
    def interval_in_words(self) -> str:
        """Return whether the interval holds the paper's figure, as a table says it."""
        words = {True: "in the interval", False: "outside the interval", None: "no interval"}
        return words[self.in_interval]


@dataclass(frozen=True)
class ExperimentRow:
    """Hold one row: of the paper's models and of what was measured of them, or of either alone."""

    labels: tuple[str, ...]
    kind: Kind
    cells: tuple[ExperimentCell, ...]


@dataclass(frozen=True)
class ExperimentTable:
    """Hold a table in the paper's shape.

    `heads` are over each column, from the top; `notes` stand under it, by their title; `warnings` belong before it.
    `runs` are those that were measured: the name of each, which models answered in it, and how many results it has.
    `tests` compare the conditions in pairs.
    """

    name: str
    paper: str
    table: str
    title: str
    stub: tuple[str, ...]
    heads: tuple[tuple[str, ...], ...]
    lines: tuple[ExperimentRow, ...]
    notes: tuple[tuple[str, tuple[str, ...]], ...]
    warnings: tuple[str, ...]
    runs: tuple[tuple[str, str, int], ...]
    tests: tuple[PairedTest, ...] = ()

    @property
    def heading(self) -> str:
        """Return which table it is of which paper; of a table that is of none, its name."""
        return ", ".join(filter(None, (self.paper, self.table))) or self.name


def build_table(
    experiment: Experiment,
    runs: Mapping[str, RunColumns | None],
    gaps: Mapping[str, str] | None = None,
    names: Mapping[RunKey, str | MissingCell] | None = None,
) -> ExperimentTable:
    """Return the table of an experiment.

    Args:
        experiment: whose.
        runs: by the name that it was planned under, what each came to; None or left out where it wasn't run.
        gaps: why a run wasn't run, by its name.
        names: the name of each run, as `name_runs` gives it; None: as it is planned now.
    """
    reading = _TableReader(
        experiment, runs, gaps or {}, name_runs(experiment) if names is None else names
    )
    held = experiment.protocol
    shape = experiment.shape
    lines = tuple(reading.table_rows())
    notes = {
        "Of the table": (*shape.notes, *filter(None, [shape.drawn])),
        "How the paper was read": held.readings,
        "Where the paper is silent, ours": held.silent,
        "Not at hand": held.missing,
    }
    return ExperimentTable(
        name=experiment.name,
        paper=held.paper,
        table=held.table,
        title=held.title,
        stub=shape.stub,
        heads=tuple(column.heads for column in shape.columns),
        lines=lines,
        notes=tuple((title, texts) for title, texts in notes.items() if texts),
        warnings=tuple(reading.table_warnings()),
        runs=tuple(
            (
                name,
                ", ".join(sorted({model for model, _, _ in columns.calls_by_format})),
                columns.row_count,
            )
            for name, (columns, _) in reading.runs_read.items()
        ),
        tests=reading.paired_tests(),
    )


def name_runs(experiment: Experiment) -> dict[RunKey, str | MissingCell]:
    """Return the name of each run of a table, or why it can't be had."""
    names: dict[RunKey, str | MissingCell] = {}
    for key in experiment.run_keys():
        try:
            names[key] = experiment.planned_run(*key).name
        except MissingCell as missing:
            names[key] = missing
    return names


@dataclass
class _TableReader:
    """Read the cells of an experiment; each run is measured once, and one that stands for several too."""

    experiment: Experiment
    runs: Mapping[str, RunColumns | None]
    gaps: Mapping[str, str]
    names: Mapping[RunKey, str | MissingCell]
    # failures are left out
    runs_read: dict[str, tuple[RunColumns, JSON]] = field(default_factory=dict)
    as_paper: dict[str, tuple[RunColumns, JSON]] = field(default_factory=dict)
    measured: dict[Path, JSON] = field(default_factory=dict)
    shown: dict[RunKey, None] = field(default_factory=dict)  # runs whose verdicts a cell measures
    measures: set[str] = field(default_factory=set)

    def table_rows(self) -> Iterator[ExperimentRow]:
        """Yield the paper's rows in its order; a row of the user's model after those that it is compared with."""
        shape = self.experiment.shape
        compared = bool(self.experiment.models.row_models)
        own = [
            (row, model) for row, model in self.experiment.measured_rows() if row.model and compared
        ]
        for block, rows in groupby(shape.rows, _block_label):
            for row in rows:
                figures = shape.figures_of(row)
                if row.model and compared:
                    if row.paper:
                        cells = tuple(ExperimentCell(paper=printed) for printed in figures)
                        yield ExperimentRow(row.full_labels, "paper", cells)
                else:
                    pairs = zip(shape.columns, figures, strict=True)
                    cells = tuple(
                        self._table_cell(row, column, row.model, printed)
                        for column, printed in pairs
                    )
                    yield ExperimentRow(
                        row.full_labels, "paper and measured" if row.paper else "measured", cells
                    )
            for row, model in own:
                if _block_label(row) == block:
                    called = f"{YOURS} ({model})" if model else YOURS
                    labels = tuple(
                        label.replace(MODEL, called) for label in row.yours or row.labels
                    )
                    figures = shape.figures_of(self.experiment.row_of_paper(row, model))
                    pairs = zip(shape.columns, figures, strict=True)
                    cells = tuple(
                        self._table_cell(row, column, model, printed) for column, printed in pairs
                    )
                    yield ExperimentRow(labels, "measured", cells)

    def table_warnings(self) -> Iterator[str]:
        """Yield what has to be known of the runs that were read, each thing once, with the names of its runs."""
        by_warning: dict[str, list[str]] = {}
        for name, (columns, metrics) in self.runs_read.items():
            for warning in run_warnings(
                columns, metrics, wrong=self.experiment.protocol.failures_are_wrong
            ):
                by_warning.setdefault(warning, []).append(name)
        for warning, names in by_warning.items():
            yield (
                warning if len(names) == len(self.runs_read) else f"{warning} ({', '.join(names)})"
            )

    def _table_cell(
        self, row: PaperRow, column: TableColumn, model: str, printed: str
    ) -> ExperimentCell:
        cell = self.experiment.cell_at(row, column)
        if cell is None:
            return ExperimentCell(paper=printed, gap=row.not_run)
        shape = self.experiment.shape
        form = row.form or column.form or shape.form
        beside = shape.beside if row.beside is None else row.beside
        try:
            found = self._cell_value(cell, cell.measure, model)
            left_out = self._cell_value(cell, cell.measure, model, as_paper=False).value
            extra = (
                self._cell_value(cell, beside, model).value
                if beside and found.value is not None
                else None
            )
        except MissingCell as missing:
            return ExperimentCell(paper=printed, gap=str(missing), source=cell, model=model)
        value = found.value
        low, high = found.interval or (None, None)
        if value is None:
            return ExperimentCell(paper=printed, gap=found.why, n=found.n, source=cell, model=model)
        kind = cell.measure.partition(":")[0]
        if kind in MEASURES or "." in kind:  # of the runs' verdicts
            self.measures.add(kind)
            for dataset, condition in product(
                cell.datasets, filter(None, (cell.condition, cell.over))
            ):
                self.shown[RunKey(condition, dataset, model)] = None

        def printed_like_paper(figure: float) -> str:
            return format_as_printed(form, figure, signed=bool(cell.over))

        measured = printed_like_paper(value)
        if extra is not None:
            measured = (
                f"{measured} ({'±' if beside == 'sd' else ''}{format_as_printed(form, extra)})"
            )
        ours = None if left_out == value else left_out
        return ExperimentCell(
            paper=printed,
            measured=measured,
            span=" to ".join(map(printed_like_paper, found.interval or ())),
            value=value,
            low=low,
            high=high,
            beside=extra,
            left_out=ours,
            left_out_printed="" if ours is None else printed_like_paper(ours),
            n=found.n,
            source=cell,
            model=model,
            **compare_with_paper(form, printed, value, found.interval),
        )

    def paired_tests(self) -> tuple[PairedTest, ...]:
        """Return the paired tests of the runs whose verdicts the cells measure, once these are read."""
        columns = {key: self._read_run(*key, as_paper=True)[0] for key in self.shown}
        return compare_conditions(columns, self.measures)

    def _cell_value(
        self, cell: CellSource, measure: str, model: str, *, as_paper: bool = True
    ) -> CellMeasure:
        """Return the measure of a cell: of one run, the mean of several, or the difference of two.

        `as_paper` counts failures as the paper's evaluator does; else they are left out.
        """
        sides = [
            [
                self._read_run(condition, dataset, model, as_paper=as_paper)
                for dataset in cell.datasets
            ]
            for condition in filter(None, (cell.condition, cell.over))
        ]
        found, *others = [_mean_of_runs(measure, runs) for runs in sides]
        if not others:
            return found
        [other] = others
        if found.value is None or other.value is None:
            return other if other.value is None else found
        (first, _), (second, _) = (runs[0] for runs in sides)
        ends = interval_of_difference(measure, first, second) if len(cell.datasets) == 1 else None
        return CellMeasure(found.value - other.value, ends, min(found.n, other.n))

    def _read_run(
        self, condition: str, dataset: str, model: str, *, as_paper: bool
    ) -> tuple[RunColumns, JSON]:
        """Return the run that was planned so, and its measures; raise `MissingCell` if it can't be read."""
        name = self.names[RunKey(condition, dataset, model)]
        if isinstance(name, MissingCell):
            raise name
        if name not in self.runs_read:
            columns = self.runs.get(name)
            if columns is None:
                raise MissingCell(self.gaps.get(name, f"not run: {name}"))
            whole = columns.row_count if columns.planned_count is None else columns.planned_count
            if columns.row_count < whole or not columns.row_count:
                raise MissingCell(f"run unfinished: {columns.row_count:,} of {whole:,}")
            if columns.rehearsed:
                raise MissingCell(REHEARSED)
            if columns.images.named and not columns.images.shown:
                raise MissingCell(NO_IMAGES)
            if columns.folder not in self.measured:
                self.measured[columns.folder] = measure_columns(columns)
            self.runs_read[name] = columns, self.measured[columns.folder]
        columns, metrics = self.runs_read[name]
        if not (as_paper and self.experiment.protocol.failures_are_wrong and metrics["failures"]):
            return columns, metrics
        if name not in self.as_paper:
            as_wrong = count_failures_as_wrong(columns)
            self.as_paper[name] = as_wrong, measure_columns(as_wrong)
        return self.as_paper[name]


def _block_label(row: PaperRow) -> str:
    """Return what rows that stand together in the paper share: their set or method."""
    return "" if MODEL in row.labels[0] else row.labels[0]


def _mean_of_runs(measure: str, runs: Sequence[tuple[RunColumns, JSON]]) -> CellMeasure:
    """Return a measure of one run, or the mean over several; of these the first that has none."""
    found = [measure_cell(measure, *run) for run in runs]
    values = [each.value for each in found if each.value is not None]
    if len(values) < len(found):
        return next(each for each in found if each.value is None)
    return (
        found[0]
        if len(found) == 1
        else CellMeasure(sum(values) / len(found), None, sum(each.n for each in found))
    )


def run_warnings(columns: RunColumns, held: JSON, *, wrong: bool = False) -> Iterator[str]:
    """Yield what a reader of a table has to know of one of its runs.

    Args:
        columns: the run.
        held: its measures.
        wrong: the table counts failures as wrong.
    """
    note = columns.run.get("protocol") or {}
    if note.get("departures"):
        yield describe_departures(note)
    out = held["pending"] + (0 if wrong else held["failures"])
    if wrong and held["failures"]:
        yield (
            f"{held['failures']:,} of {held['n']:,} results are failures, which count as wrong, as the paper's "
            "evaluator counts answers that it can't read; beside them stands the figure with failures left out"
        )
    if out:
        yield f"{out:,} of {held['n']:,} results are failures or wait, and are left out"
    images = held["images"]
    caution = missing_images_warning(images)
    if caution:
        yield caution
    elif left_out := left_out_in_words(images):
        yield left_out
