"""A result as it is written, and the record of a post that its graph gave none of."""

from __future__ import annotations

import json
from pathlib import Path
from traceback import extract_tb

from tribunal.context import Context
from tribunal.errors import ModelError
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.likeness import signature
from tribunal.graphs import code_of
from tribunal.nodes.state import outcome_of
from tribunal.schema import JSON, Call, Record, Usage


def line(place: int, repeat: int, seconds: float, record: Record, sample: Sample, keep_text: bool) -> bytes:
    """A result as it is written: its place first, then the record, then what the set says of the post.

    `has_image` is true where the post's image was there, false where its set names one that wasn't, and null where it
    has none. A labelled post without a group has its `likeness`, by which near-duplicates are found.
    """
    has_image = True if sample.image else False if sample.image_missing else None
    beside: JSON = {"gold": sample.gold.dump() if sample.gold else None, "has_image": has_image}
    beside["fields"] = sample.fields
    if sample.group:
        beside["group"] = sample.group
    elif has_likeness(sample) and (likeness := signature(sample.text)):
        beside["likeness"] = likeness
    if keep_text:
        beside["text"] = sample.text
    head = f'{{"place":{place},"repeat":{repeat},"seconds":{seconds:.4f},'
    body = record.model_dump_json()[1:-1]
    return f"{head}{body},{json.dumps(beside, ensure_ascii=False)[1:]}\n".encode("utf-8", "replace")


def has_likeness(sample: Sample) -> bool:
    """Whether near-duplicates of a post are found by its text."""
    return sample.gold is not None and not sample.group


def renewed(old: JSON, record: Record) -> bytes:
    """A line whose record is another one now: where it stands, and what the set says of the post, stay.

    Args:
        old: the line, as JSON.
        record: the record that takes its place. The calls that the graph made past `ask` before a person decided lie
            in no checkpoint, so they are carried over.
    """
    unseen = max(record.unseen_calls, old.get("unseen_calls") or 0)
    record = record.model_copy(update={"unseen_calls": unseen})
    beside = {name: old[name] for name in ("gold", "has_image", "fields", "group", "likeness", "text") if name in old}
    start = f'{{"place":{old["place"]},"repeat":{old["repeat"]},"seconds":{old["seconds"]:.4f},'
    body = record.model_dump_json()[1:-1]
    return f"{start}{body},{json.dumps(beside, ensure_ascii=False)[1:]}\n".encode("utf-8", "replace")


def unusable(sample: Sample, graph: str, context: Context, problem: str, kind: str = "input") -> Record:
    """The record of a post that nobody can decide: it can't be taken in (`input`), or it ends processes (`crash`)."""
    where = {"seat": "", "role": "", "model": ""}
    return _without(sample, graph, context, {"outcome": "failure", "explanation": problem, "error": kind, **where})


def unheard(sample: Sample, graph: str, context: Context, fault: ModelError) -> Record:
    """The record of a post whose graph, one of the user's own, let a model's fault out and didn't end in it."""
    return _without(sample, graph, context, outcome_of(fault), tuple(map(Call.model_validate, fault.calls)))


def _without(sample: Sample, graph: str, context: Context, ended: JSON, calls: tuple[Call, ...] = ()) -> Record:
    fault = {name: ended[name] for name in ("seat", "role", "model")}
    return Record(
        outcome=ended["outcome"],
        post_id=sample.id,
        graph=graph,
        task=context.task,
        scheme=context.scheme,
        label=None,
        category=None,
        hateful=None,
        explanation=ended["explanation"],
        track=None,
        rounds=0,
        transcript=(),
        cues=(),
        calls=calls,
        usage=Usage.of([call.dump() for call in calls]),
        shown=(),
        policy={},
        warnings=(),
        fault={**fault, "kind": ended.get("form") or ended.get("error")},
    )


def what_broke(graph: str, sample: Sample, error: Exception) -> str:
    """An exception of a graph as its author needs it: what, where in their file, at which post, and the way on."""
    own = {path.name for path in code_of(graph).values()}
    frames = extract_tb(error.__traceback__)
    frame = next((each for each in reversed(frames) if Path(each.filename).name in own), frames[-1])
    said = " ".join(str(error).split())[:500]
    return (
        f"graph {graph}: post {sample.id}: {type(error).__name__}: {said} ({Path(frame.filename).name}, line "
        f"{frame.lineno}, in {frame.name}). See to it; with the graph's file changed, take another folder, where "
        "--cache spares the calls that were answered"
    )
