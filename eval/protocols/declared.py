"""What a protocol is: the settings of one table or figure of a paper. Each is declared in a file: experiments/*.toml.

A protocol names the data sets and how many posts of each were taken, what all of its runs have in common, and its
conditions: the rows of the table that can be run. What the paper leaves open stands in `silent` and `readings`, with
what was taken here; what can't be had stands in `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from pydantic import Field, ValidationError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import PaperProtocol
from tribunal.eval.datasets.pool import paper_sample
from tribunal.eval.datasets.sample import Sample
from tribunal.heeding import heeds_setting, seats_in
from tribunal.parsed import from_toml
from tribunal.plugins import load_all
from tribunal.schema import JSON, Frozen
from tribunal.systems import systems
from tribunal.text import meant

PAPER = "paper"  # not a protocol's name: the protocol of the data set's own paper
_PAPERS = ("arcade", "predict", "antihate", "mv-debate")  # in this order; of each the tables, then the figures
_SHAPE = "shape"


class Part(Frozen):
    """One data set of a protocol: which of its posts, and what is set for it alone.

    `sample` says how many of each kind, where that isn't what the set's paper took anywhere; of posts whose fields are
    as `where` says.
    """

    says: str = ""
    where: JSON = Field(default_factory=dict)
    sample: dict[str, int] = Field(default_factory=dict)
    seed: int | None = None
    settings: JSON = Field(default_factory=dict)


class Condition(Frozen):
    """One row of the table.

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
    """The settings of one table or figure.

    `models` are settings that ask the paper's models; `paper_models` says in words which they were, and `varies` what
    the table compares beside its conditions. The first condition is the one that is run where none is named.
    """

    name: str
    paper: str
    table: str
    title: str
    datasets: dict[str, Part]
    conditions: dict[str, Condition]
    varies: str
    paper_models: str = ""
    models: JSON = Field(default_factory=dict)
    settings: JSON = Field(default_factory=dict)
    repeats: int = 1
    readings: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def graphs(self) -> list[str]:
        """The graphs of its conditions, each once."""
        return list(dict.fromkeys(each.graph for each in self.conditions.values()))

    def conditions_on(self, dataset: str) -> dict[str, Condition]:
        """The conditions that are run on a data set."""
        return {name: each for name, each in self.conditions.items() if dataset in (each.datasets or self.datasets)}

    def settings_of(self, condition: str, dataset: str) -> JSON:
        """What is set for a condition on a data set: only what its graph heeds."""
        row = self.conditions[condition]
        held = [self.settings, self.datasets[dataset].settings, row.settings, row.by_dataset.get(dataset, {})]
        return heeded({name: value for each in held for name, value in each.items()}, row.graph)

    def models_of(self, condition: str) -> JSON:
        """The settings that ask the paper's models, of those that the condition's graph heeds.

        The line-up of a debate seats nobody where one kind of agent answers alone.
        """
        row = self.conditions[condition]
        of_all = {
            name: value for name, value in self.models.items() if name != "line_up" or len(seats_in(row.graph)) > 1
        }
        return heeded({**of_all, **row.models}, row.graph)

    def sample_of(self, dataset: str) -> PaperProtocol:
        """Which posts of a data set are taken."""
        part, own = self.datasets[dataset], paper_sample(dataset)
        if own is None:
            raise BadInput(f"protocol: {self.name}: {dataset}: has no sample of a paper")
        return replace(
            own,
            says=part.says or own.says,
            quotas=part.sample or own.quotas,
            stratum=lambda sample: own.stratum(sample) if _is(sample, part.where) else None,
            whole=own.whole and not part.sample,
            seed=own.seed if part.seed is None else part.seed,
        )


def _is(sample: Sample, where: Mapping[str, Any]) -> bool:
    return all(sample.fields.get(field) == value for field, value in where.items())


def heeded(settings: Mapping[str, Any], graph: str) -> JSON:
    """Those settings that a graph heeds."""
    return {name: value for name, value in settings.items() if heeds_setting(graph, name)}


@lru_cache(maxsize=1)
def raw() -> Mapping[str, JSON]:
    """What every file says, by its name: paper after paper, in the order of their tables, then of their figures."""
    folder = files("tribunal").joinpath("experiments")
    names = [entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")]

    def place(name: str) -> tuple[int, bool, str]:
        paper, _, table = name.rpartition("-")
        return _PAPERS.index(paper), table.startswith("figure"), table

    ours = {name: from_toml(folder.joinpath(f"{name}.toml").read_text("utf-8")) for name in sorted(names, key=place)}
    return {**ours, **{name: held for name, held in _of_systems().items() if name not in ours}}


def _of_systems() -> dict[str, JSON]:
    """Return what the files of the experiments say that come with systems of one's own.

    Raises:
        BadInput: one is no TOML, or is neither a protocol nor has a shape; with its name and the fault.
    """
    load_all("tribunal.graphs")
    found = {}
    for system in systems():
        for name, text in system.read_experiments().items():
            try:
                held = from_toml(text)
                Protocol(name=name, **{field: value for field, value in held.items() if field != _SHAPE})
            except ValidationError as error:
                raise BadInput(f"experiment: {name} of the system {system.name}: {describe(error)}") from error
            except (ValueError, TypeError) as error:
                raise BadInput(f"experiment: {name} of the system {system.name}: {error}; mend the file") from error
            found[name] = held
    return found


@lru_cache(maxsize=1)
def protocols() -> Mapping[str, Protocol]:
    """Every protocol by its name, in the order of `raw`."""
    return {
        name: Protocol(name=name, **{field: value for field, value in held.items() if field != _SHAPE})
        for name, held in raw().items()
    }


def protocol(name: str) -> Protocol:
    """The protocol of this name.

    Raises:
        BadInput: there is none (what was meant, where that can be told).
    """
    held = protocols()
    if name not in held:
        near = meant(name, [*held, PAPER])
        raise BadInput(
            f"protocol: {name!r}: there is none of that name{near and f'; {near}'} (`tribunal protocols` lists them)"
        )
    return held[name]
