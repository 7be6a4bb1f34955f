"""Follow a protocol: find a run's graph, posts and settings, and its departures from the paper.

A setting of the run's own beats the protocol's. The run is then not the paper's, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, find_dataset, paper_sample
from tribunal.eval.datasets.dataset import PaperSample
from tribunal.eval.protocols.protocol import (
    PAPER,
    Protocol,
    ProtocolDataset,
    load_protocol,
    load_protocols,
    settings_used_by,
    split_condition,
)
from tribunal.schema import JSON, Frozen
from tribunal.settings.context import (
    Context,
    context_from,
    leave_out_settings,
    setting_is_named,
    settings_of,
)

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


class RunRequest(Frozen):
    """Hold what the caller asked for beside the protocol: `settings` are fields of `Context`; None is unspecified."""

    dataset: str | None = None
    graph: str | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    repeats: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)
    samples: int | None = Field(default=None, ge=1)
    split: str | None = None
    paper_models: bool = False


_NO_PART = ProtocolDataset()


@dataclass(frozen=True)
class ProtocolRun:
    """Describe the run.

    `sample` is which posts the paper took; `note` is what run.json keeps of the protocol, None where none is followed;
    `part` is what the protocol says of the data set.
    """

    dataset: str
    graph: str
    settings: JSON
    repeats: int
    seed: int
    sample: PaperSample | None = None
    part: ProtocolDataset = _NO_PART
    note: JSON | None = None
    warnings: tuple[str, ...] = ()


def follow_protocol(name: str | None, asked: RunRequest) -> ProtocolRun:
    """Return the run that follows from a protocol and the caller's request.

    Args:
        name: a protocol; with `/condition` one of its conditions, else the first that agrees with what was asked for;
            `paper`: the table in which the set's own paper evaluated the graph; None: no protocol.
        asked: what the caller asked for.

    Raises:
        BadInput: there is no such protocol or condition, it isn't of this set or graph (both are named), or it takes
            models that weren't named.
    """
    if name is not None and name != PAPER:
        table, condition = split_condition(name)
        held = load_protocol(table)
        said = name.replace(table, held.name)  # run.json holds no path
        return _follow_condition(held, condition, _choose_dataset(held, asked), asked, said)
    if name is None and asked.paper_models:
        raise BadInput("paper_models: is of a protocol; name one")
    if asked.dataset is None:
        raise BadInput(
            "dataset: name one (a table of your own is `table`), or a protocol that has one (tribunal experiment show)"
        )
    if name == PAPER:
        return _follow_paper(asked, asked.dataset)
    return _run_without_protocol(asked, asked.dataset)


def _run_without_protocol(asked: RunRequest, dataset: str) -> ProtocolRun:
    return ProtocolRun(
        dataset,
        asked.graph or DEFAULT_GRAPH,
        dict(asked.settings),
        asked.repeats or 1,
        seed=asked.seed or 0,
    )


def _choose_dataset(held: Protocol, asked: RunRequest) -> str:
    there = ", ".join(held.datasets)
    if asked.dataset is None and len(held.datasets) > 1:
        raise BadInput(f"dataset: {held.name} is of {there}; name one")
    if asked.dataset is not None and asked.dataset not in held.datasets:
        raise BadInput(
            f"dataset: {asked.dataset}: {held.name} is of {there} ({held.heading}); name one of these, or another "
            "protocol"
        )
    return asked.dataset or next(iter(held.datasets))


def _follow_paper(asked: RunRequest, dataset: str) -> ProtocolRun:
    """Follow the table in which the set's paper evaluated the graph; without such a table, only its sample."""
    sample = paper_sample(dataset)
    first = sample.table if sample else None
    tables = [each for each in load_protocols().values() if dataset in each.datasets]
    # that of the set's first table before the others
    tables.sort(key=lambda table: table.name != first)
    graph = asked.graph or next((each for table in tables for each in table.graphs), DEFAULT_GRAPH)
    for wanted in (graph, _COURT_OF.get(graph)):
        rows = [
            (table, name)
            for table in tables
            for name, row in table.conditions_on(dataset).items()
            if row.graph == wanted and not row.models
        ]
        if rows:
            table, name = next(
                (row for row in rows if _condition_agrees(*row, dataset, asked)), rows[0]
            )
            return _follow_condition(
                table, name, dataset, asked, PAPER, instead=graph if wanted != graph else None
            )
    if asked.paper_models:
        raise BadInput(f"paper_models: no table of a paper has the graph {graph} on {dataset}")
    if sample is None:
        raise BadInput(f"protocol: paper: no paper has one for {dataset}; give samples and seed")
    note: JSON = {
        "asked": PAPER,
        "name": None,
        "posts": sample.says,
        "departures": _find_split_departure(asked, dataset, sample.split),
    }
    warnings = [
        f"protocol: paper: no table of a paper has the graph {graph} on {dataset}: every setting is this run's own"
    ]
    if note["departures"]:
        note["posts"] = f"of the split {asked.split}"
        warnings.append(f"protocol: paper: {describe_departures(note)}")
    run = _run_without_protocol(asked, dataset)
    return replace(
        run, sample=None if note["departures"] else sample, note=note, warnings=tuple(warnings)
    )


# ------------------------------------------------------------------------------------------------------------ following


def _follow_condition(
    held: Protocol,
    condition: str,
    dataset: str,
    asked: RunRequest,
    said: str,
    instead: str | None = None,
) -> ProtocolRun:
    """Follow one condition of a protocol on a set; `instead` is a graph that replaces the condition's own."""
    chosen = condition if instead else _choose_condition(held, condition, dataset, asked)
    row = held.conditions[chosen]
    called = f"{held.name}/{chosen}"
    paper_models = held.models_of(chosen)
    if row.models and not asked.paper_models and not asked.settings.keys() & _MODELS:
        models = ", ".join(f"{name} {value}" for name, value in paper_models.items())
        raise BadInput(
            f"protocol: {called}: is made by its models ({models}); ask for the paper's (--paper-models), or name your "
            "own"
        )
    if asked.paper_models and not paper_models:
        raise BadInput(
            f"paper_models: {called}: no model of the paper's can be asked by name here "
            f"({held.paper_models or held.varies}); name your own"
        )
    graph = instead or row.graph
    sets = {**(paper_models if asked.paper_models else {}), **held.settings_of(chosen, dataset)}
    sets = settings_used_by(sets, graph)
    settings = _merge_settings(sets, asked.settings)
    # What the paper sets and the run's own settings leave without effect is not the run's to be refused for.
    unused = settings_of(graph).find_unused(context_from(settings))
    settings = leave_out_settings(
        settings, [name for name, _ in unused if not setting_is_named(asked.settings, name)]
    )
    sample = held.sample_of(dataset)
    part = held.datasets[dataset]
    departs = _find_split_departure(
        asked, part.dataset or dataset, sample.split if sample else part.split
    )
    if departs:
        sample = None
    departs |= _find_departures(sets, asked, held, sample or part)
    if instead is not None:
        departs["graph"] = {"paper": row.graph, "run": instead}
    note: JSON = {
        "asked": said,
        "name": held.name,
        "condition": chosen,
        "table": held.heading,
        "posts": sample.says
        if sample
        else f"of the split {asked.split}"
        if "split" in departs
        else part.says,
        "sets": {"graph": row.graph, "repeats": held.repeats, **sets},
        "departures": departs,
        "paper_models": asked.paper_models,
    }
    seed = (sample or part).seed if asked.seed is None else asked.seed
    warnings = []
    others = [name for name in held.conditions_on(dataset) if name != chosen]
    if not condition and others:
        rest = ", ".join(f"{held.name}/{name}" for name in others)
        warnings.append(
            f"{held.name}: this is its condition {chosen} ({row.says or row.graph}); the others are {rest}"
        )
    differ = any(not _same_value(settings.get(name), value) for name, value in paper_models.items())
    if held.paper_models and (differ or not paper_models):
        ask = " (--paper-models asks them)" if paper_models and not asked.paper_models else ""
        warnings.append(
            f"{held.name}: the paper's models are {held.paper_models}; this run asks its own{ask}"
        )
    if departs:
        warnings.append(f"{called}: {describe_departures(note)}")
    return ProtocolRun(
        dataset=part.dataset or dataset,
        graph=graph,
        settings=settings,
        repeats=held.repeats if asked.repeats is None else asked.repeats,
        seed=seed or 0,
        sample=sample and sample.model_copy(update={"seed": seed}),
        part=part,
        note=note,
        warnings=tuple(warnings),
    )


def _choose_condition(held: Protocol, named: str, dataset: str, asked: RunRequest) -> str:
    """Return the named condition; otherwise the first on this set that agrees with the request."""
    there = held.conditions_on(dataset)
    if named and named not in there:
        raise BadInput(
            f"protocol: {held.name} has no condition {named!r} on {dataset}; it has {', '.join(there)}"
        )
    if named:
        there = {named: there[named]}
    fitting = [name for name, row in there.items() if asked.graph in (None, row.graph)]
    if not fitting:
        graphs = ", ".join(dict.fromkeys(row.graph for row in there.values()))
        raise BadInput(
            f"graph: {asked.graph}: {'/'.join(filter(None, [held.name, named]))} is of {graphs} "
            f"({held.heading}); name one of these, or another protocol"
        )
    return next(
        (name for name in fitting if _condition_agrees(held, name, dataset, asked)), fitting[0]
    )


def _condition_agrees(held: Protocol, condition: str, dataset: str, asked: RunRequest) -> bool:
    """Return whether the condition has every requested setting that any condition names."""
    sets = held.settings_of(condition, dataset)
    graph = held.conditions[condition].graph
    named = {name for each in held.conditions for name in held.settings_of(each, dataset)}
    return all(
        _same_value(sets[name], value)
        if name in sets
        else name in settings_used_by({name: value}, graph) and value == _default_of_setting(name)
        for name, value in asked.settings.items()
        if name in named
    )


def _same_value(paper: Any, own: Any) -> bool:
    """Return whether a value equals the paper's; of a table by seat, in the seats that it names."""
    if isinstance(paper, dict) and isinstance(own, dict):
        return all(paper.get(key) == value for key, value in own.items())
    return bool(paper == own)


def _merge_settings(sets: JSON, own: Mapping[str, Any]) -> JSON:
    """Merge the run's own settings over the protocol's; settings by seat are merged seat by seat."""
    merged = dict(sets)
    for name, value in own.items():
        both = isinstance(value, dict) and isinstance(sets.get(name), dict)
        merged[name] = {**sets[name], **value} if both else value
    return merged


def _find_split_departure(asked: RunRequest, dataset: str, paper: str | None) -> dict[str, JSON]:
    """Return the departure of a run on another split than the paper's: its posts are then not the paper's sample."""
    paper = paper or PLUS.join(
        dict.fromkeys(find_dataset(name).default for name in dataset.split(PLUS))
    )
    return {} if asked.split in (None, paper) else {"split": {"paper": paper, "run": asked.split}}


def _find_departures(
    sets: JSON, asked: RunRequest, held: Protocol, sample: PaperSample | ProtocolDataset
) -> Iterator[tuple[str, JSON]]:
    """Yield each departure from the paper by name: the paper's value and the run's own."""
    for name, value in asked.settings.items():
        if name in _FREE and name not in sets:
            continue
        if isinstance(value, dict):
            paper = sets.get(name, {})
            for key, own in value.items():
                if paper.get(key) != own:
                    yield f"{name}.{key}", {"paper": paper.get(key, _OWN_DEFAULT), "run": own}
        elif value != (sets[name] if name in sets else _default_of_setting(name)):
            yield name, {"paper": sets.get(name, _OWN_DEFAULT), "run": value}
    whole = sum(sample.quotas.values()) if isinstance(sample, PaperSample) else sample.samples
    for name, paper, own in (
        ("repeats", held.repeats, asked.repeats),
        ("seed", sample.seed, asked.seed),
        ("samples", whole, asked.samples),
    ):
        if own is not None and paper is not None and own != paper:
            yield name, {"paper": paper, "run": own}


def _default_of_setting(name: str) -> Any:
    field = Context.model_fields.get(name)
    return field.get_default(call_default_factory=True) if field else None


def describe_departures(note: JSON) -> str:
    """Return in words how a run departs from the paper, or from a table that is of none; `note` is of run.json."""
    whose = "table" if note.get("table") == note.get("name") is not None else "paper"
    departures = "; ".join(
        f"{name} is {_format_value(values['run'])}, in the {whose} {_format_value(values['paper'])}"
        for name, values in note["departures"].items()
    )
    return f"not the {whose}'s run: {departures}"


def _format_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
