"""What a run that follows a protocol is: its graph, posts and settings, and what of its own departs from the paper.

A setting of the run's own beats the protocol's. The run is then not the paper's, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tribunal.context import Context, context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import PaperProtocol
from tribunal.eval.datasets.pool import paper_sample
from tribunal.eval.protocols.declared import PAPER, Protocol, heeded, protocol, protocols
from tribunal.heeding import names, unheeded, without
from tribunal.schema import JSON

# What a researcher chooses, whatever the paper says of the method: models, where to look things up, and the run itself.
_FREE = {
    "model", "judge_model", "aux_model", "seats", "line_up", "embedding", "search", "searxng_url", "archive", "cache",
    "trace", "repeat", "timeout", "attempts", "task", "prompts", "extra_body",
}  # fmt: skip
_MODELS = {"model", "judge_model", "aux_model", "seats", "line_up"}
# The hybrid's court is ARCADE's: with its switches off it is ARCADE, call for call.
_COURT_OF = {"tribunal": "arcade"}
DEFAULT_GRAPH = "tribunal"
_OWN_DEFAULT = "the graph's own"


@dataclass(frozen=True)
class Asked:
    """What the caller of a run asked for beside the protocol. None means that nothing was said."""

    dataset: str | None = None
    graph: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    seed: int | None = None
    samples: int | None = None
    paper_models: bool = False


@dataclass(frozen=True)
class Followed:
    """What is run.

    `sample` is which posts the paper took; `note` is what run.json keeps of the protocol, None where none is followed.
    """

    dataset: str
    graph: str
    settings: JSON
    repeats: int
    seed: int
    sample: PaperProtocol | None = None
    note: JSON | None = None
    warnings: tuple[str, ...] = ()


def follow(name: str | None, asked: Asked) -> Followed:
    """What a run is by its protocol, and by what its caller asked for.

    Args:
        name: a protocol; with `/condition` one of its conditions, else the first that agrees with what was asked for;
            `paper`: the table in which the set's own paper evaluated the graph; None: no protocol.

    Raises:
        BadInput: there is no such protocol or condition, it isn't of this set or graph (both are named), or it takes
            models that weren't named.
    """
    if name is None:
        if asked.paper_models:
            raise BadInput("paper_models: is of a protocol; name one")
        return _plain(asked, _named(asked.dataset))
    if name == PAPER:
        return _of_the_sets_paper(asked, _named(asked.dataset))
    table, _, condition = name.partition("/")
    held = protocol(table)
    return _follow(held, condition, _dataset(held, asked), asked, name)


def _named(dataset: str | None) -> str:
    if dataset is None:
        raise BadInput("dataset: name one, or a protocol that is of one alone (`tribunal protocols`)")
    return dataset


def _plain(asked: Asked, dataset: str) -> Followed:
    return Followed(
        dataset, asked.graph or DEFAULT_GRAPH, dict(asked.settings), asked.repeats or 1, seed=asked.seed or 0
    )


def _dataset(held: Protocol, asked: Asked) -> str:
    there = ", ".join(held.datasets)
    if asked.dataset is None:
        if len(held.datasets) > 1:
            raise BadInput(f"dataset: {held.name} is of {there}; name one")
        return next(iter(held.datasets))
    if asked.dataset not in held.datasets:
        raise BadInput(
            f"dataset: {asked.dataset}: {held.name} is of {there} ({held.paper}, {held.table}); name one of these, or "
            "another protocol"
        )
    return asked.dataset


# -------------------------------------------------------------------------------------------------- the set's own paper


def _of_the_sets_paper(asked: Asked, dataset: str) -> Followed:
    """The settings of the table in which the set's paper evaluated the graph; of no table, only the sample."""
    sample = paper_sample(dataset)
    held = _tables(dataset, sample)
    graph = asked.graph or next((each for table in held for each in table.graphs), DEFAULT_GRAPH)
    for wanted in (graph, _COURT_OF.get(graph)):
        rows = [
            (table, name)
            for table in held
            for name, row in table.conditions_on(dataset).items()
            if row.graph == wanted and not row.models
        ]
        if rows:
            table, name = next((row for row in rows if _agrees(*row, dataset, asked)), rows[0])
            return _follow(table, name, dataset, asked, PAPER, instead=graph if wanted != graph else None)
    if asked.paper_models:
        raise BadInput(f"paper_models: no table of a paper has the graph {graph} on {dataset}")
    found = _plain(asked, dataset)
    if sample is None:
        raise BadInput(f"protocol: paper: no paper has one for {dataset}; give samples and seed")
    warning = (
        f"protocol: paper: no table of a paper has the graph {graph} on {dataset}: the posts are the paper's, and "
        "every setting is this run's own"
    )
    note: JSON = {"asked": PAPER, "name": None, "posts": sample.says, "departures": {}}
    return Followed(found.dataset, found.graph, found.settings, found.repeats, found.seed, sample, note, (warning,))


def _tables(dataset: str, sample: PaperProtocol | None) -> list[Protocol]:
    """The protocols that are of a set, that of its first table before the others."""
    first = sample.table if sample else None
    return sorted((each for each in protocols().values() if dataset in each.datasets), key=lambda it: it.name != first)


# ------------------------------------------------------------------------------------------------------------ following


def _follow(
    held: Protocol, condition: str, dataset: str, asked: Asked, said: str, instead: str | None = None
) -> Followed:
    """One condition of a protocol on a set; `instead` is a graph that stands in for the condition's own."""
    chosen = _condition(held, condition, dataset, None if instead else asked)
    row, called = held.conditions[chosen], f"{held.name}/{chosen}"
    _check_models(held, chosen, asked)
    models = held.models_of(chosen) if asked.paper_models else {}
    if asked.paper_models and not models:
        raise BadInput(
            f"paper_models: {called}: no model of the paper's can be asked by name here "
            f"({held.paper_models or held.varies}); name your own"
        )
    graph = instead or row.graph
    sets = heeded({**models, **held.settings_of(chosen, dataset)}, graph)
    settings = _over(sets, asked.settings)
    # What the paper sets and the run's own settings leave without effect is not the run's to be refused for.
    over = [name for name, _ in unheeded(graph, context_from(settings)) if not names(asked.settings, name)]
    settings = without(settings, over)
    sample = held.sample_of(dataset)
    departs = dict(_departures(sets, asked, held, sample))
    if instead is not None:
        departs["graph"] = {"paper": row.graph, "run": instead}
    note: JSON = {
        "asked": said,
        "name": held.name,
        "condition": chosen,
        "table": f"{held.paper}, {held.table}",
        "posts": sample.says,
        "sets": {"graph": row.graph, "repeats": held.repeats, **sets},
        "departures": departs,
        "paper_models": asked.paper_models,
    }
    if asked.seed is not None:
        sample = replace(sample, seed=asked.seed)
    warnings = (*_unnamed(held, condition, chosen, dataset), *_of_models(held, chosen, asked, settings))
    if departs:
        warnings = (*warnings, f"{called}: this run is not the paper's: {'; '.join(map(_said, departs.items()))}")
    return Followed(
        dataset=dataset,
        graph=graph,
        settings=settings,
        repeats=held.repeats if asked.repeats is None else asked.repeats,
        seed=asked.seed if asked.seed is not None else (sample.seed or 0),
        sample=sample,
        note=note,
        warnings=warnings,
    )


def _condition(held: Protocol, named: str, dataset: str, asked: Asked | None) -> str:
    """The condition that was named; else the first on this set that agrees with what was asked for.

    Raises:
        BadInput: there is none of that name on this set, or none of the graph that was asked for.
    """
    there = held.conditions_on(dataset)
    if named:
        if named not in there:
            raise BadInput(f"protocol: {held.name} has no condition {named!r} on {dataset}; it has {', '.join(there)}")
        there = {named: there[named]}
    if asked is None or asked.graph is None:
        fitting = list(there)
    else:
        fitting = [name for name, row in there.items() if row.graph == asked.graph]
    if not fitting:
        graphs = ", ".join(dict.fromkeys(row.graph for row in there.values()))
        raise BadInput(
            f"graph: {asked.graph if asked else ''}: {'/'.join(filter(None, [held.name, named]))} is of {graphs} "
            f"({held.paper}, {held.table}); name one of these, or another protocol"
        )
    if asked is None:
        return fitting[0]
    return next((name for name in fitting if _agrees(held, name, dataset, asked)), fitting[0])


def _agrees(held: Protocol, condition: str, dataset: str, asked: Asked) -> bool:
    """Whether every setting that was asked for, and that any condition names, is this condition's too."""
    sets, graph = held.settings_of(condition, dataset), held.conditions[condition].graph
    named = {name for each in held.conditions for name in held.settings_of(each, dataset)}
    return all(
        _holds(sets[name], value) if name in sets else name in heeded({name: value}, graph) and value == _default(name)
        for name, value in asked.settings.items()
        if name in named
    )


def _holds(paper: Any, own: Any) -> bool:
    """Whether a value of the run's own is the paper's; of a table by seat, in what it names."""
    if isinstance(paper, dict) and isinstance(own, dict):
        return all(paper.get(key) == value for key, value in own.items())
    return bool(paper == own)


def _unnamed(held: Protocol, named: str, chosen: str, dataset: str) -> Iterator[str]:
    there = held.conditions_on(dataset)
    if not named and len(there) > 1:
        others = ", ".join(f"{held.name}/{name}" for name in there if name != chosen)
        yield f"{held.name}: this is its condition {chosen} ({held.conditions[chosen].says}); the others are {others}"


# --------------------------------------------------------------------------------------------------------------- models


def _check_models(held: Protocol, condition: str, asked: Asked) -> None:
    """Refuse a condition that is made by its models, where none is named."""
    if held.conditions[condition].models and not asked.paper_models and not asked.settings.keys() & _MODELS:
        raise BadInput(
            f"protocol: {held.name}/{condition}: is made by its models ({_listed(held.models_of(condition))}); ask for "
            "the paper's (--paper-models), or name your own"
        )


def _of_models(held: Protocol, condition: str, asked: Asked, settings: JSON) -> Iterator[str]:
    """A word on the paper's models, where they are others."""
    paper = held.models_of(condition)
    others = {name: value for name, value in paper.items() if not _holds(settings.get(name), value)}
    if not held.paper_models or (paper and not others):
        return
    ask = " (--paper-models asks them)" if paper and not asked.paper_models else ""
    yield f"{held.name}: the paper's models are {held.paper_models}; this run asks its own{ask}"


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


# ----------------------------------------------------------------------------------------------------------- departures


def _over(sets: JSON, own: Mapping[str, Any]) -> JSON:
    """The run's own settings over the protocol's; of those by seat, seat by seat."""
    merged = dict(sets)
    for name, value in own.items():
        both = isinstance(value, dict) and isinstance(sets.get(name), dict)
        merged[name] = {**sets[name], **value} if both else value
    return merged


def _departures(sets: JSON, asked: Asked, held: Protocol, sample: PaperProtocol) -> Iterator[tuple[str, JSON]]:
    """What the run has otherwise than the paper: the paper's value and the run's own, by name."""
    for name, value in asked.settings.items():
        if name in _FREE and name not in sets:
            continue
        if isinstance(value, dict):
            paper = sets.get(name, {})
            for key, own in value.items():
                if paper.get(key) != own:
                    yield f"{name}.{key}", {"paper": paper.get(key, _OWN_DEFAULT), "run": own}
        elif name in sets:
            if sets[name] != value:
                yield name, {"paper": sets[name], "run": value}
        elif value != _default(name):
            yield name, {"paper": _OWN_DEFAULT, "run": value}
    whole = sum(sample.quotas.values())
    for name, paper, own in (
        ("repeats", held.repeats, asked.repeats),
        ("seed", sample.seed, asked.seed),
        ("samples", whole, asked.samples),
    ):
        if own is not None and paper is not None and own != paper:
            yield name, {"paper": paper, "run": own}


def _default(name: str) -> Any:
    if name not in Context.model_fields:
        return None
    return Context.model_fields[name].get_default(call_default_factory=True)


def _said(departure: tuple[str, JSON]) -> str:
    name, values = departure
    return f"{name} is {_word(values['run'])}, in the paper {_word(values['paper'])}"


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
