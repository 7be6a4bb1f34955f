"""Declare protocols: the settings of one table or figure of a paper, each in a file of experiments/.

A protocol names the data sets and how many posts of each were taken, what all of its runs have in common, and its
conditions: the rows of the table that can be run. What the paper leaves open stands in `silent` and `readings`, with
what was taken here; what can't be had stands in `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.eval.datasets import paper_sample
from tribunal.eval.datasets.dataset import PaperSample
from tribunal.plugins import load_all
from tribunal.schema import JSON, Frozen
from tribunal.systems import heeds_setting, seats_in, systems
from tribunal.text import parse_toml, suggest_name

PAPER = "paper"  # not a protocol's name: the protocol of the data set's own paper
_PAPERS = ("arcade", "predict", "antihate", "mv-debate")  # in this order; of each the tables, then the figures


# How a paper prints a number: a percentage with so many decimals, one with its sign, a fraction, a count.
NumberFormat = Literal["00", "00.0", "00.00", "00.00%", "0.000", "0"]
MODEL = "{model}"  # in a label: the row's model


class TableColumn(Frozen):
    """Hold one column.

    `heads` stand over it, from the top. `part` says which of a row's conditions fills it, where they differ by column.
    `over` is a condition: the cell is then the difference to it. `mean_of` are sets: the cell is then the mean of the
    measure on each.
    """

    heads: tuple[str, ...]
    part: str = ""
    condition: str = ""
    dataset: str = ""
    measure: str = ""
    over: str = ""
    mean_of: tuple[str, ...] = ()
    form: NumberFormat | None = None


class PaperRow(Frozen):
    """Hold one row, and the figure that the paper prints in each column; empty if it prints none.

    A row without `paper` isn't the paper's: it stands beside one, such as what its code does beside what it says.

    `model` is the paper's name of the row's model, which `{model}` in a label is. `condition` is one, or one by the
    `part` of a column. `yours` are its labels where a model of one's own stands in it. `not_run` says why nothing can
    be measured for the row.
    """

    labels: tuple[str, ...]
    model: str = ""
    condition: str | dict[str, str] = ""
    yours: tuple[str, ...] = ()
    dataset: str = ""
    measure: str = ""
    beside: str | None = None
    form: NumberFormat | None = None
    paper: tuple[str, ...] = ()
    not_run: str = ""

    @field_validator("paper", mode="before")
    @classmethod
    def _split_figures(cls, value: Any) -> Any:
        return tuple(each.strip() for each in value.split("|")) if isinstance(value, str) else value

    @property
    def full_labels(self) -> tuple[str, ...]:
        """Return its labels, with the model's name filled in."""
        return tuple(label.replace(MODEL, self.model) for label in self.labels)


class TableShape(Frozen):
    """Hold a table as the paper has it.

    `stub` are the heads of the rows' labels. `beside` is what the paper prints in brackets beside a figure. `asks` are
    the models of the rows as they are asked here, by the paper's names. `seats` is the setting that names a row's
    model, by graph (`model`, where none is given). `drawn` says why a figure has no printed number.
    """

    stub: tuple[str, ...]
    form: NumberFormat
    measure: str = ""
    beside: str = ""
    columns: tuple[TableColumn, ...]
    rows: tuple[PaperRow, ...]
    asks: dict[str, str] = Field(default_factory=dict)
    seats: dict[str, str] = Field(default_factory=dict)
    drawn: str = ""
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_table(self) -> TableShape:
        depth = len(self.columns[0].heads)
        for column in self.columns:
            if len(column.heads) != depth:
                raise ValueError(f"column {column.heads}: has other heads than the first")
        for row in self.rows:
            if len(row.paper) not in (0, len(self.columns)) or len(row.labels) != len(self.stub):
                raise ValueError(f"row {row.full_labels}: has {len(row.paper)} figures, of {len(self.columns)} columns")
        return self


class ProtocolDataset(Frozen):
    """Hold one data set of a protocol: which of its posts, and its own settings.

    `sample` says how many of each kind, where that isn't what the set's paper took anywhere; of posts whose fields are
    as `where` says.
    """

    says: str = ""
    where: JSON = Field(default_factory=dict)
    sample: dict[str, int] = Field(default_factory=dict)
    seed: int | None = None
    settings: JSON = Field(default_factory=dict)


class ProtocolCondition(Frozen):
    """Hold one row of the table.

    `datasets` are those it is run on: none named means all. `by_dataset` is set on one of them. A condition with
    `models` is made by them: it isn't run unless they, or others by name, are asked.
    """

    says: str
    graph: str
    settings: JSON = Field(default_factory=dict)
    by_dataset: dict[str, JSON] = Field(default_factory=dict)
    models: JSON = Field(default_factory=dict)
    datasets: tuple[str, ...] = ()


class Protocol(Frozen):
    """Hold the settings of one table or figure.

    `models` are settings that ask the paper's models; `paper_models` says in words which they were, and `varies` what
    the table compares beside its conditions. The first condition is the one that is run where none is named.
    `failures_are_wrong`: the paper's evaluator counts an answer that can't be read as wrong, and leaves out refusals.
    """

    name: str
    paper: str
    table: str
    title: str
    datasets: dict[str, ProtocolDataset]
    conditions: dict[str, ProtocolCondition]
    varies: str
    paper_models: str = ""
    models: JSON = Field(default_factory=dict)
    settings: JSON = Field(default_factory=dict)
    repeats: int = 1
    failures_are_wrong: bool = False
    readings: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shape: TableShape = Field(exclude=True)

    @property
    def graphs(self) -> list[str]:
        """Return the graphs of its conditions, each once."""
        return list(dict.fromkeys(each.graph for each in self.conditions.values()))

    def conditions_on(self, dataset: str) -> dict[str, ProtocolCondition]:
        """Return the conditions that are run on a data set."""
        return {name: each for name, each in self.conditions.items() if dataset in (each.datasets or self.datasets)}

    def settings_of(self, condition: str, dataset: str) -> JSON:
        """Return the settings of a condition on a data set that its graph uses."""
        row = self.conditions[condition]
        held = [self.settings, self.datasets[dataset].settings, row.settings, row.by_dataset.get(dataset, {})]
        return settings_used_by({name: value for each in held for name, value in each.items()}, row.graph)

    def models_of(self, condition: str) -> JSON:
        """Return the settings that ask the paper's models, if the condition's graph uses them.

        The line-up of a debate seats nobody where one kind of agent answers alone.
        """
        row = self.conditions[condition]
        of_all = {
            name: value for name, value in self.models.items() if name != "line_up" or len(seats_in(row.graph)) > 1
        }
        return settings_used_by({**of_all, **row.models}, row.graph)

    def sample_of(self, dataset: str) -> PaperSample:
        """Return which posts of a data set are taken."""
        part, own = self.datasets[dataset], paper_sample(dataset)
        if own is None:
            raise BadInput(f"protocol: {self.name}: {dataset}: has no sample of a paper")

        quotas = part.sample or own.quotas
        kinds = [
            kind.model_copy(update={"quota": quotas[kind.name], "where": {**kind.where, **part.where}})
            for kind in own.kinds
            if kind.name in quotas
        ]
        update = {
            "says": part.says or own.says,
            "kinds": kinds,
            "whole": own.whole and not part.sample,
            "seed": own.seed if part.seed is None else part.seed,
        }
        return own.model_copy(update=update)


def settings_used_by(settings: Mapping[str, Any], graph: str) -> JSON:
    """Return those settings that a graph uses."""
    return {name: value for name, value in settings.items() if heeds_setting(graph, name)}


@lru_cache(maxsize=1)
def load_protocols() -> Mapping[str, Protocol]:
    """Return every protocol by name: paper after paper, their tables, then their figures; then those of systems.

    Raises:
        BadInput: the file of an installed system of one's own is no TOML or no protocol; with its name and the fault.
    """

    def place(protocol: Protocol) -> tuple[int, bool, str]:
        """Return the place of a table among all."""
        paper, _, table = protocol.name.rpartition("-")
        return _PAPERS.index(paper), table.startswith("figure"), table

    ours = [
        Protocol(name=entry.name.removesuffix(".toml"), **parse_toml(entry.read_text("utf-8")))
        for entry in files("tribunal.experiments").iterdir()
        if entry.name.endswith(".toml")
    ]
    found = {each.name: each for each in sorted(ours, key=place)}
    load_all("tribunal.graphs")
    for system in systems():
        for name, text in system.read_experiments().items():
            try:
                found.setdefault(name, Protocol(name=name, **parse_toml(text)))
            except ValidationError as error:
                raise BadInput(
                    f"experiment: {name} of the system {system.name}: {describe_validation_error(error)}"
                ) from error
            except (ValueError, TypeError) as error:
                raise BadInput(f"experiment: {name} of the system {system.name}: {error}; mend the file") from error
    return found


def load_protocol(name: str, called: str = "protocol", listed_by: str = "tribunal protocols") -> Protocol:
    """Return the protocol of this name; raise `BadInput` if there is none (what was meant, where that can be told)."""
    held = load_protocols()
    if name not in held:
        near = suggest_name(name, [*held, *([PAPER] if called == "protocol" else [])])
        raise BadInput(
            f"{called}: {name!r}: there is none of that name{near and f'; {near}'} (`{listed_by}` lists them)"
        )
    return held[name]
