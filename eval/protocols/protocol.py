"""Declare protocols: the settings of one table or figure, each in a file: of experiments/, or one's own.

A protocol names the data sets and how many posts of each were taken, what all of its runs have in common, and its
conditions: the rows of the table that can be run. What the paper leaves open stands in `silent` and `readings`, with
what was taken here; what can't be had stands in `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from tribunal.core.text import count_noun, parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.eval.datasets import paper_sample
from tribunal.eval.datasets.dataset import PaperSample
from tribunal.graphs import load_own
from tribunal.plugins import load_all
from tribunal.process.files import read_text
from tribunal.schema import JSON, Frozen
from tribunal.settings.contents import read_once
from tribunal.settings.context import settings_of
from tribunal.settings.systems import seats_in, systems
from tribunal.settings.validation import describe_validation_error

PAPER = "paper"  # not a protocol's name: the protocol of the data set's own paper
_SUFFIX = ".toml"
# in this order; of each the tables, then the figures
_PAPERS = (
    "arcade",
    "predict",
    "antihate",
    "mv-debate",
)


# How a paper prints a number: a percentage with so many decimals, one with its sign, a fraction, a count.
NumberFormat = Literal["00", "00.0", "00.00", "00.00%", "0.000", "0"]
MODEL = "{model}"  # in a label: the row's model


class TableColumn(Frozen):
    """Hold one column.

    `heads` stand over it, from the top. `part` says which of a row's conditions fills it, where they differ by column.
    `over` is a condition: the cell is then the difference to it. `mean_of` are sets: the cell is then the mean of the
    measure on each.
    """

    heads: tuple[str, ...] = Field(min_length=1)
    part: str = ""
    condition: str = ""
    dataset: str = ""
    measure: str = ""
    over: str = ""
    mean_of: tuple[str, ...] = ()
    form: NumberFormat | None = None


class PaperRow(Frozen):
    """Hold one row, and the figure that the paper prints in each column; empty if it prints none at all.

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
    """Hold a table: its rows and columns, as a paper has it or as one wants it.

    `stub` are the heads of the rows' labels. `beside` is what the paper prints in brackets beside a figure. `asks` are
    the models of the rows as they are asked here, by the paper's names. `seats` is the setting that names a row's
    model, by graph (`model`, where none is given). `drawn` says why a figure has no printed number.
    """

    stub: tuple[str, ...]
    form: NumberFormat = "00.0"
    measure: str = ""
    beside: str = ""
    columns: tuple[TableColumn, ...] = Field(min_length=1)
    rows: tuple[PaperRow, ...] = Field(min_length=1)
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
            if row.paper and len(row.paper) != len(self.columns):
                raise ValueError(
                    f"row {row.full_labels}: has {len(row.paper)} figures of a paper, of {len(self.columns)} columns; "
                    "give one for each, parted by |, or leave all out"
                )
            if len(row.labels) != len(self.stub):
                raise ValueError(
                    f"row {row.full_labels}: has {len(row.labels)} labels, of {len(self.stub)} in `stub`"
                )
        return self

    def figures_of(self, row: PaperRow) -> tuple[str, ...]:
        """Return the paper's figure of a row in each column; empty ones if it prints none."""
        return row.paper or ("",) * len(self.columns)


class ProtocolDataset(Frozen):
    """Hold one data set of a protocol: which of its posts, and its own settings.

    `dataset` is the set that is read, if the key is a name of one's own for it; `data` where its files lie. Of these
    the posts are those that the set's paper took: `sample` says how many of each kind, where that isn't what it took
    anywhere; of posts whose fields are as `where` says. With `split`, `samples` or `balance`, and where the set has no
    paper, they are chosen as `tribunal eval` chooses them.
    """

    says: str = ""
    dataset: str = ""
    data: Path | None = Field(default=None, exclude=True)
    split: str | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    samples: int | None = Field(default=None, ge=1)
    balance: str | None = None
    where: JSON = Field(default_factory=dict)
    sample: dict[str, int] = Field(default_factory=dict)
    seed: int | None = Field(default=None, ge=0)
    settings: JSON = Field(default_factory=dict)

    @property
    def posts_in_words(self) -> str:
        """Return which posts are taken, if they aren't a paper's sample."""
        count = "all posts" if self.samples is None else count_noun(self.samples, "post")
        balance = self.balance and f"balanced by {self.balance}"
        split = self.split and f"split {self.split}"
        return ", ".join(filter(None, (count, balance, split, self.says)))


class ProtocolCondition(Frozen):
    """Hold one row of the table.

    `datasets` are those it is run on: none named means all. `by_dataset` is set on one of them. A condition with
    `models` is made by them: it isn't run unless they, or others by name, are asked.
    """

    says: str = ""
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
    `source` is the path of one's own file, which the protocol is then found by.
    """

    name: str
    source: str = Field(default="", exclude=True)
    paper: str = ""
    table: str = ""
    title: str
    datasets: dict[str, ProtocolDataset] = Field(min_length=1)
    conditions: dict[str, ProtocolCondition] = Field(min_length=1)
    varies: str = "nothing but the conditions"
    paper_models: str = ""
    models: JSON = Field(default_factory=dict)
    settings: JSON = Field(default_factory=dict)
    repeats: int = Field(default=1, ge=1)
    failures_are_wrong: bool = False
    readings: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shape: TableShape = Field(exclude=True)

    @cached_property
    def run_descriptions(self) -> dict[tuple[str, str], str]:
        """Hold what a run of a condition on a set depends on, as far as it was worked out."""
        return {}

    @property
    def heading(self) -> str:
        """Return which table it is of which paper; of a table that is of none, its name."""
        return ", ".join(filter(None, (self.paper, self.table))) or self.name

    @property
    def reference(self) -> str:
        """Return what `load_protocol` finds it by."""
        return self.source or self.name

    @property
    def graphs(self) -> list[str]:
        """Return the graphs of its conditions, each once."""
        return list(dict.fromkeys(each.graph for each in self.conditions.values()))

    def conditions_on(self, dataset: str) -> dict[str, ProtocolCondition]:
        """Return the conditions that are run on a data set."""
        return {
            name: each
            for name, each in self.conditions.items()
            if dataset in (each.datasets or self.datasets)
        }

    def settings_of(self, condition: str, dataset: str) -> JSON:
        """Return the settings of a condition on a data set that its graph uses."""
        row = self.conditions[condition]
        held = [
            self.settings,
            self.datasets[dataset].settings,
            row.settings,
            row.by_dataset.get(dataset, {}),
        ]
        return settings_used_by(
            {name: value for each in held for name, value in each.items()}, row.graph
        )

    def models_of(self, condition: str) -> JSON:
        """Return the settings that ask the paper's models, if the condition's graph uses them.

        The line-up of a debate seats nobody where one kind of agent answers alone.
        """
        row = self.conditions[condition]
        of_all = {
            name: value
            for name, value in self.models.items()
            if name != "line_up" or len(seats_in(row.graph)) > 1
        }
        return settings_used_by({**of_all, **row.models}, row.graph)

    def sample_of(self, dataset: str) -> PaperSample | None:
        """Return which posts of a data set are taken; None if they aren't a paper's.

        Raises:
            BadInput: kinds of a paper's posts are named, and the posts aren't a paper's.
        """
        part = self.datasets[dataset]
        own = paper_sample(part.dataset or dataset)
        if own is None or part.split not in (None, own.split) or part.samples or part.balance:
            if part.sample or part.where:
                raise BadInput(
                    f"datasets.{dataset}.sample: {dict(part.sample)}: is of the posts that a paper took, and these "
                    "aren't; leave `sample` and `where` out, or `split`, `samples` and `balance`"
                )
            return None

        quotas = part.sample or own.quotas
        kinds = [
            kind.model_copy(
                update={"quota": quotas[kind.name], "where": {**kind.where, **part.where}}
            )
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
    return {name: value for name, value in settings.items() if uses_setting(graph, name)}


def uses_setting(graph: str, name: str) -> bool:
    """Return whether a graph uses a setting; one of one's own that declares no `System` may use any.

    Raises:
        BadInput: there is no such graph.
    """
    load_own(graph)
    return name in settings_of(graph).model_fields


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
        _parse_protocol(entry.name.removesuffix(".toml"), entry.read_text("utf-8"), entry.name)
        for entry in files("tribunal.experiments").iterdir()
        if entry.name.endswith(".toml")
    ]
    found = {each.name: each for each in sorted(ours, key=place)}
    load_all("tribunal.graphs")
    for system in systems():
        for name, text in system.read_experiments().items():
            found.setdefault(
                name, _parse_protocol(name, text, f"{name} of the system {system.name}")
            )
    return found


def _parse_protocol(name: str, text: str, where: str, source: str = "") -> Protocol:
    try:
        return Protocol(name=name, source=source, **parse_toml(text))
    except ValidationError as error:
        raise BadInput(
            f"experiment: {where}: {_describe_fault(error)} (every field: docs/experiments.md)"
        ) from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"experiment: {where}: {error}; mend the file") from error


def _describe_fault(error: ValidationError) -> str:
    """Return the fault of a table's file: a field that there isn't, one that is missing, or a wrong value."""
    faults = {
        each["type"]: ".".join(map(str, each["loc"])) for each in error.errors(include_url=False)
    }
    unknown = faults.get("extra_forbidden")
    if unknown:
        return f"{unknown}: there is no such field; leave it out, or write it as it is called"
    missing = faults.get("missing")
    if missing:
        return f"{missing}: is missing"
    return describe_validation_error(error)


def split_condition(name: str) -> tuple[str, str]:
    """Return a table and the condition that may be named after it: NAME/CONDITION, FILE.toml/CONDITION."""
    file, suffix, condition = name.rpartition(_SUFFIX)
    if suffix:
        return file + suffix, condition.removeprefix("/")
    table, _, condition = name.partition("/")
    return table, condition


def _read_own_table(path: Path) -> Protocol:
    """Read a table of one's own. The paths of its data and graphs begin at its folder."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(
            f"experiment: {path}: can't be read: {reason}; give a TOML file (docs/experiments.md)"
        ) from error
    held = _parse_protocol(path.name.removesuffix(_SUFFIX), text, str(path), str(path))
    datasets = {
        name: part.model_copy(update={"data": part.data and path.parent / part.data.expanduser()})
        for name, part in held.datasets.items()
    }
    conditions = {
        name: row.model_copy(update={"graph": str(path.parent / row.graph)})
        if row.graph.partition(":")[0].endswith(".py")
        else row
        for name, row in held.conditions.items()
    }
    return held.model_copy(update={"datasets": datasets, "conditions": conditions})


def load_protocol(name: str, called: str = "protocol") -> Protocol:
    """Return the protocol of this name, or of a file of one's own: a path that ends in .toml.

    Raises:
        BadInput: there is none (what was meant, where that can be told), or the file is wrong.
    """
    if name.endswith(_SUFFIX):
        return read_once(("experiment", name), lambda: _read_own_table(Path(name)))
    held = load_protocols()
    if name not in held:
        near = suggest_name(name, [*held, *([PAPER] if called == "protocol" else [])])
        raise BadInput(
            f"{called}: {name!r}: there is none of that name{near and f'; {near}'} (`tribunal experiment show` lists "
            "them); a file of your own ends in .toml"
        )
    return held[name]
