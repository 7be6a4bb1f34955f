"""`tribunal protocols`: the settings of every table of the papers, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.completing import protocol_names
from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import AsJson
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.eval.protocols.declared import Protocol
    from tribunal.schema import JSON


def protocols(
    name: Annotated[
        str | None, typer.Argument(help="One of them, to be shown in full.", autocompletion=protocol_names)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tables of the papers that `tribunal eval --protocol NAME` follows, or show one in full."""
    with ending_well():
        from tribunal.eval.protocols.declared import protocol
        from tribunal.eval.protocols.declared import protocols as every

        chosen = [protocol(name)] if name else list(every().values())
        if as_json:
            held = [each.model_dump(mode="json") for each in chosen]
            say_json(held[0] if name else held)
            return
        for each in chosen:
            say("\n".join(_whole(each) if name else _short(each)), lines=True)


def _short(held: Protocol) -> list[str]:
    return [
        f"{held.name}: {held.paper}, {held.table}. {held.title}",
        f"    data: {', '.join(held.datasets)}; graphs: {', '.join(held.graphs)}",
        f"    conditions: {', '.join(held.conditions)}",
        f"    sets: {_settings(_common(held))}",
        *(f"    not at hand: {each}" for each in held.missing),
    ]


def _whole(held: Protocol) -> list[str]:
    lines = [f"{held.name}: {held.paper}, {held.table}. {held.title}", "", "data sets:"]
    for dataset in held.datasets:
        sample = held.sample_of(dataset)
        kinds = ", ".join(f"{quota:,} {kind}" for kind, quota in sample.quotas.items())
        seed = "" if sample.seed is None else f"; seed {sample.seed}"
        lines.append(f"  {dataset}: split {sample.split}, {kinds}{seed} ({sample.says})")
    lines += ["", f"set for all: {_settings(_common(held))}", "", "conditions (the first where none is named):"]
    for name, row in held.conditions.items():
        lines.append(f"  {held.name}/{name}: {row.says}; graph {row.graph}")
        lines += [f"    {line}" for line in _by_dataset(held, name)]
        if row.models:
            lines.append(f"    models: {_settings(row.models)}")
    lines += ["", f"varies: {held.varies}"]
    if held.paper_models:
        lines.append(f"the paper's models: {held.paper_models}")
    if held.models:
        lines.append(f"--paper-models sets: {_settings(held.models)}")
    for title, said in (
        ("how the paper was read", held.readings),
        ("where the paper is silent, ours", held.silent),
        ("not at hand", held.missing),
    ):
        lines += ["", f"{title}:", *(f"  - {each}" for each in said)] if said else []
    return lines


def _by_dataset(held: Protocol, condition: str) -> list[str]:
    """What is set, beside what is set for all; on each data set, where that differs."""
    common = _common(held)
    there = [dataset for dataset in held.datasets if condition in held.conditions_on(dataset)]
    sets = {
        dataset: _settings(
            {name: value for name, value in held.settings_of(condition, dataset).items() if name not in common}
        )
        for dataset in there
    }
    where = "" if len(there) == len(held.datasets) else f" (on {', '.join(there)} alone)"
    if len(set(sets.values())) == 1:
        return [f"sets: {sets[there[0]]}{where}"]
    return [f"on {dataset} sets: {said}" for dataset, said in sets.items()]


def _common(held: Protocol) -> JSON:
    """What every run of it has in common."""
    runs = [
        held.settings_of(condition, dataset) for dataset in held.datasets for condition in held.conditions_on(dataset)
    ]
    shared = {name: value for name, value in runs[0].items() if all(run.get(name) == value for run in runs)}
    return {"repeats": held.repeats, **shared}


def _settings(settings: JSON) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in settings.items()) or "nothing more"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
