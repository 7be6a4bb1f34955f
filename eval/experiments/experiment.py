"""Plan the runs that fill a table: an experiment. It is declared in a file: experiments/*.toml, or one's own.

The file holds the table's protocol, and its shape in that (`tribunal.eval.protocols.protocol`). A run that fills cells
of several tables is planned under the first of them, with one name, so that it is run once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.evaluate import name_folder
from tribunal.eval.protocols.protocol import (
    PaperRow,
    Protocol,
    TableColumn,
    TableShape,
    load_protocol,
    load_protocols,
    settings_used_by,
)
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_from, leave_out_settings, settings_of

_LONGEST = 80  # letters of a model in a folder's name
_SEAT = "model"  # the setting that names a row's model, where the shape gives none for the graph
YOURS = "your model"


@dataclass(frozen=True)
class ChosenModels:
    """Say which models are asked.

    `own` are models that take the place of those that the table's rows compare, a measured row each; with none, and
    without the paper's, one row is measured of whatever model the settings name. `paper` asks the paper's: in the
    seats that a table fixes, and, where `own` is empty, in its rows. `aux` is the model of the agents that argue or
    look things up, one for all of `own`, so that they share what it answered.
    """

    own: tuple[str, ...] = ()
    paper: bool = False
    aux: str | None = None

    @property
    def row_models(self) -> tuple[str, ...]:
        """Return the models of the measured rows, unless those are the paper's.

        The empty name is of no model named here.
        """
        return () if self.paper and not self.own else self.own or ("",)


@dataclass(frozen=True)
class PlannedRun:
    """Hold one run: what `tribunal eval` would be asked for.

    `name` is its folder's, the same in every table that it fills. `protocol` is NAME/CONDITION, of the first of these
    tables; `settings` name its models, and are to be given beside it. `model` is the row's: its name in the paper, or
    one's own; empty where a table compares none, or none is named. `paper_models` says whether the paper's were asked
    for.
    """

    name: str
    condition: str
    dataset: str
    model: str
    protocol: str
    settings: JSON
    paper_models: bool = False


class RunKey(NamedTuple):
    """Hold what a run is planned by: a condition, a data set and the model of a row."""

    condition: str
    dataset: str
    model: str


class MissingCell(Exception):
    """Say why a cell can't be filled, in a few words."""


@dataclass(frozen=True)
class Experiment:
    """Hold a table: its protocol, with its shape and the paper's figures, and which models are asked."""

    protocol: Protocol
    models: ChosenModels = ChosenModels()

    @property
    def name(self) -> str:
        """Return the name of its protocol."""
        return self.protocol.name

    @property
    def shape(self) -> TableShape:
        """Return its rows and columns."""
        return self.protocol.shape

    @property
    def dataset_names(self) -> list[str]:
        """Return the sets of its cells, in the order of its columns and rows; a pool is joined by +."""
        cells = [
            self.cell_at(row, column) for row in self.shape.rows for column in self.shape.columns
        ]
        return list(dict.fromkeys(dataset for cell in cells if cell for dataset in cell.datasets))

    def cell_at(self, row: PaperRow, column: TableColumn) -> CellSource | None:
        """Return what fills a cell; None where nothing can, or nothing should."""
        condition = (
            row.condition.get(column.part, "") if isinstance(row.condition, dict) else row.condition
        )
        condition = condition or column.condition
        measure = row.measure or column.measure or self.shape.measure
        if row.not_run or not condition or not measure or condition == column.over:
            return None
        only = next(iter(self.protocol.datasets)) if len(self.protocol.datasets) == 1 else ""
        datasets = column.mean_of or (row.dataset or column.dataset or only,)
        if any(condition not in self.protocol.conditions_on(dataset) for dataset in datasets):
            return None
        return CellSource(condition, datasets, measure, column.over)

    def planned_runs(self, datasets: Collection[str]) -> list[PlannedRun]:
        """Return the runs that fill the table's cells, each once, in the order of its rows.

        `datasets` are the sets at hand. A pool (`sbic+ghc`) is, where each of its sets is.

        Raises:
            BadInput: models are named that no row or seat has a place for.
        """
        models = self.models
        if not any(row.model for row in self.shape.rows):
            if len(models.own) > 1:
                raise BadInput(
                    f"model: {', '.join(models.own)}: {self.name} compares no models; give one, and a folder for each"
                )
            if models.own and models.paper and self.protocol.models:
                raise BadInput(
                    f"model: {models.own[0]}: {self.name} compares no models, so that --paper-models leaves it no "
                    "seat; leave one of the two out"
                )
        found: dict[str, PlannedRun] = {}
        for key in self.run_keys():
            with suppress(MissingCell):
                run = self.planned_run(*key)
                if is_at_hand(run.dataset, datasets):
                    found.setdefault(run.name, run)
        return list(found.values())

    def run_keys(self) -> list[RunKey]:
        """Return what each run of its cells is planned by, each once, in the order of its rows."""
        cells = (
            (self.cell_at(row, column), model)
            for (row, model), column in product(self.measured_rows(), self.shape.columns)
        )
        return list(
            dict.fromkeys(
                RunKey(condition, dataset, model)
                for cell, model in cells
                if cell is not None
                for dataset, condition in product(
                    cell.datasets, filter(None, (cell.condition, cell.over))
                )
            )
        )

    def measured_rows(self) -> Iterator[tuple[PaperRow, str]]:
        """Yield the measured rows, each with its model: the paper's, or one of the user's in its place."""
        seen = set()
        for row in self.shape.rows:
            if not row.model or not self.models.row_models:
                yield row, row.model
                continue
            for own in self.models.row_models:
                key = (json.dumps(row.condition), row.dataset, row.measure, own)
                if key not in seen:
                    seen.add(key)
                    yield row, own

    def row_of_paper(self, like: PaperRow, model: str) -> PaperRow:
        """Return the paper's row of the user's model that is like this row; without figures if there is none."""
        same = (
            row
            for row in self.shape.rows
            if row.model
            and self.shape.asks.get(row.model) == model
            and (row.labels, row.condition, row.dataset, row.measure)
            == (like.labels, like.condition, like.dataset, like.measure)
        )
        return next(same, like.model_copy(update={"paper": ()}))

    def planned_run(self, condition: str, dataset: str, model: str) -> PlannedRun:
        """Return the run of a condition on a set; raise `MissingCell` if there can't be one."""
        asked = self._model_settings(condition, model)
        graph = self.protocol.conditions[condition].graph
        context = context_from({**self.protocol.settings_of(condition, dataset), **asked})
        asked = leave_out_settings(
            asked, [name for name, _ in settings_of(graph).find_unused(context)]
        )
        first, named = _first_table(
            self.protocol, condition, dataset, asked, paper=self.models.paper
        )
        fixed = first.models_of(named) if self.models.paper else {}
        settings = {name: value for name, value in asked.items() if fixed.get(name) != value}
        who = [*(["paper"] if fixed else []), *(str(value) for value in settings.values())]
        return PlannedRun(
            name="_".join(
                [first.name, named, dataset, *(name_folder(each, _LONGEST) for each in who)]
            ),
            condition=named,
            dataset=dataset,
            model=model,
            protocol=f"{first.reference}/{named}",
            settings=settings,
            paper_models=bool(fixed),
        )

    def _model_settings(self, condition: str, model: str) -> JSON:
        """Return the settings that name the models of a condition, or raise `MissingCell`."""
        models = self.models
        held = self.protocol.conditions[condition]
        own = bool(models.row_models)
        if held.models and not models.paper:
            raise MissingCell(
                "model not at hand: this row is made by the paper's models (--paper-models)"
            )
        asked = self.protocol.models_of(condition) if models.paper else {}
        seat = self.shape.seats.get(held.graph, _SEAT)
        if model and not own:
            if model not in self.shape.asks:
                raise MissingCell(
                    f"model not at hand: {model} has no name at a provider that is known here"
                )
            asked = {**asked, seat: self.shape.asks[model]}
        elif own and not held.models and (model or not asked):
            named = model or (models.own[0] if models.own else "")
            asked = {**asked, **({seat if models.paper else _SEAT: named} if named else {})}
            asked |= {"aux_model": models.aux} if models.aux else {}
        if models.paper and not asked:
            raise MissingCell(
                f"model not at hand: {self.protocol.paper_models or self.protocol.varies}"
            )
        return settings_used_by(asked, held.graph)


@dataclass(frozen=True)
class CellSource:
    """Say what fills a cell: a measure of a condition's run on each of these sets; the difference `over` another's."""

    condition: str
    datasets: tuple[str, ...]
    measure: str
    over: str = ""


def is_at_hand(dataset: str, datasets: Collection[str]) -> bool:
    """Return whether a set, or every set of a pool, is among these."""
    return dataset in datasets or all(part in datasets for part in dataset.split("+"))


def _first_table(
    held: Protocol, condition: str, dataset: str, asked: Mapping[str, Any], *, paper: bool
) -> tuple[Protocol, str]:
    """Return the first table of all, and its condition, that has the same run of the same models."""
    own = _run_key(held, condition, dataset)
    for other in load_protocols().values():
        for name in other.conditions_on(dataset) if dataset in other.datasets else ():
            fixed = other.models_of(name)
            fits = fixed.items() <= asked.items() if paper else not other.conditions[name].models
            if fits and _run_key(other, name, dataset) == own:
                return other, name
    return held, condition


def _run_key(held: Protocol, condition: str, dataset: str) -> str:
    """Return what a run depends on beside its models: graph, settings, repeats, posts."""
    if (condition, dataset) not in held.run_descriptions:
        sets = held.settings_of(condition, dataset)
        fields = Context.model_fields
        said = {
            name: value
            for name, value in sets.items()
            if value != fields[name].get_default(call_default_factory=True)
        }
        posts = held.datasets[dataset].model_dump(exclude={"says", "settings"})
        parts = [held.conditions[condition].graph, said, held.repeats, posts]
        held.run_descriptions[condition, dataset] = json.dumps(parts, sort_keys=True)
    return held.run_descriptions[condition, dataset]


def find_experiment(name: str, models: ChosenModels = ChosenModels()) -> Experiment:
    """Return the experiment of this name, or of a file of one's own, with the models that are asked.

    Raises:
        BadInput: there is none.
    """
    return Experiment(load_protocol(name, "experiment"), models)
