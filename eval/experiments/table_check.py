"""Check a table before its runs: that all it names is there, and that each row can be filled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tribunal.core.text import suggest_name
from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, find_dataset
from tribunal.eval.experiments.cell_measures import find_measure_fault, is_figure
from tribunal.eval.experiments.experiment import Experiment
from tribunal.eval.protocols.protocol import Protocol, uses_setting
from tribunal.graphs import load_own
from tribunal.schema import JSON
from tribunal.settings.context import context_from
from tribunal.settings.graph_settings import SETTINGS

_NAME = re.compile(r"[\w.=-]+", re.ASCII)  # becomes part of a folder's name


def check_table(experiment: Experiment) -> None:
    """Check a table.

    Raises:
        BadInput: a field of its file, its value, what is wrong with it, and what may stand there.
    """
    try:
        _check_datasets(experiment.protocol)
        _check_conditions(experiment.protocol)
        _check_columns(experiment)
        _check_rows(experiment)
    except BadInput as error:
        raise BadInput(f"experiment: {experiment.protocol.reference}: {error}") from error


def _check_datasets(protocol: Protocol) -> None:
    for name, part in protocol.datasets.items():
        place = f"datasets.{name}"
        for each in [name] if part.dataset else name.split(PLUS):
            _check_name(
                each,
                place,
                f"a data set{'' if part.dataset else f'; say what is read: dataset = {each!r}'}",
            )
            try:
                find_dataset(part.dataset or each)
            except BadInput as error:
                raise BadInput(f"{place}.{error}") from error
        protocol.sample_of(name)
        _check_settings(part.settings, f"{place}.settings", protocol.graphs)


def _check_conditions(protocol: Protocol) -> None:
    for name, row in protocol.conditions.items():
        place = f"conditions.{name}"
        _check_name(name, place, "a condition")
        try:
            load_own(row.graph)
        except BadInput as error:
            raise BadInput(f"{place}.{error}") from error
        _check_known(f"{place}.datasets", row.datasets, protocol.datasets)
        _check_known(f"{place}.by_dataset", row.by_dataset, protocol.datasets)
        _check_settings(row.settings, f"{place}.settings", [row.graph])
        _check_settings(row.models, f"{place}.models", [row.graph])
        for dataset, settings in row.by_dataset.items():
            _check_settings(settings, f"{place}.by_dataset.{dataset}", [row.graph])
    _check_settings(protocol.settings, "settings", protocol.graphs)
    _check_settings(protocol.models, "models", protocol.graphs)
    for name in protocol.conditions:
        for dataset in protocol.datasets:
            if name in protocol.conditions_on(dataset):
                try:
                    context_from(
                        {**protocol.settings_of(name, dataset), **protocol.models_of(name)}
                    )
                except BadInput as error:
                    raise BadInput(f"conditions.{name}, on {dataset}: {error}") from error


def _check_settings(settings: JSON, field: str, graphs: Collection[str]) -> None:
    """Check that settings exist, that their values are of their form, and that one of the graphs heeds each."""
    for name in settings:
        if name not in SETTINGS:
            near = suggest_name(name, SETTINGS)
            raise BadInput(
                f"{field}.{name}: there is no such setting; {near or 'docs/settings.md has them all'}"
            )
        if not any(uses_setting(each, name) for each in graphs):
            raise BadInput(f"{field}.{name}: is no setting of {' or '.join(graphs)}; leave it out")
    try:
        context_from(settings)
    except BadInput as error:
        raise BadInput(f"{field}.{error}") from error


def _check_columns(experiment: Experiment) -> None:
    protocol = experiment.protocol
    shape = experiment.shape
    _check_measure("shape.measure", shape.measure)
    _check_measure("shape.beside", shape.beside)
    _check_known(
        "shape.asks", shape.asks, dict.fromkeys(row.model for row in shape.rows if row.model)
    )
    _check_known("shape.seats", shape.seats, protocol.graphs)
    _check_known("shape.seats", shape.seats.values(), SETTINGS)
    for number, column in enumerate(shape.columns):
        place = f"shape.columns.{number}"
        _check_known(f"{place}.condition", [column.condition], protocol.conditions)
        _check_known(f"{place}.over", [column.over], protocol.conditions)
        _check_known(f"{place}.dataset", [column.dataset], protocol.datasets)
        _check_known(f"{place}.mean_of", column.mean_of, protocol.datasets)
        _check_measure(f"{place}.measure", column.measure)


def _check_rows(experiment: Experiment) -> None:
    protocol = experiment.protocol
    shape = experiment.shape
    parts = {column.part for column in shape.columns if column.part}
    for number, row in enumerate(shape.rows):
        place = f"shape.rows.{number}"
        by_part = row.condition if isinstance(row.condition, dict) else {}
        _check_known(f"{place}.condition", by_part, parts)
        named = by_part.values() if by_part else [str(row.condition)]
        _check_known(f"{place}.condition", named, protocol.conditions)
        _check_known(f"{place}.dataset", [row.dataset], protocol.datasets)
        _check_measure(f"{place}.measure", row.measure)
        _check_measure(f"{place}.beside", row.beside or "")
        for printed in row.paper:
            if printed not in ("", "-") and not is_figure(printed):
                raise BadInput(
                    f"{place}.paper: {printed!r}: is no figure; give a number, or nothing for none"
                )
        if not row.not_run and all(
            experiment.cell_at(row, column) is None for column in shape.columns
        ):
            raise BadInput(
                f"{place}: {' · '.join(row.full_labels)}: fills no cell: name a condition, a measure and, if the table "
                "has several data sets, a dataset, in the row or in a column; or say why not in `not_run`"
            )


def _check_name(name: str, field: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{field}: {name!r}: give letters, digits and . = - _ as the name of {what}")


def _check_known(field: str, named: Iterable[str], known: Collection[str]) -> None:
    unknown = next((name for name in named if name and name not in known), None)
    if unknown:
        near = (
            suggest_name(unknown, known)
            or f"name one of {', '.join(known) or 'those that it declares'}"
        )
        raise BadInput(f"{field}: {unknown!r}: isn't declared in this file; {near}")


def _check_measure(field: str, measure: str) -> None:
    if measure and (fault := find_measure_fault(measure)):
        raise BadInput(f"{field}: {measure!r}: {fault}")
