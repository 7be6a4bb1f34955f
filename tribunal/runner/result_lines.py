"""The lines of results.jsonl, and the records of posts that no graph decided. They need no LangGraph."""

from __future__ import annotations

import json

from tribunal.core.text_similarity import text_signature
from tribunal.runner.results import Sample
from tribunal.schema import JSON, Call, Record, Usage
from tribunal.settings.context import Context


def result_line(
    place: int, repeat: int, seconds: float, record: Record, sample: Sample, keep_text: bool
) -> bytes:
    """Return the line of a result: its place, the record, then what the data set says of the post.

    `has_image` is true where the post's image was there, false where its set names one that wasn't, and null where it
    has none. A labelled post without a group has its `likeness`, by which near-duplicates are found.
    """
    has_image = True if sample.image else False if sample.image_missing else None
    beside: JSON = {"gold": sample.gold.dump() if sample.gold else None, "has_image": has_image}
    beside["fields"] = sample.fields
    if sample.group:
        beside["group"] = sample.group
    elif needs_likeness(sample) and (likeness := text_signature(sample.text)):
        beside["likeness"] = likeness
    if keep_text:
        beside["text"] = sample.text
    return encode_line(place, repeat, seconds, record, beside)


def encode_line(place: int, repeat: int, seconds: float, record: Record, beside: JSON) -> bytes:
    """Return a line of results.jsonl, of its record and what lies beside it."""
    head = f'{{"place":{place},"repeat":{repeat},"seconds":{seconds:.4f},'
    body = record.model_dump_json()[1:-1]
    return f"{head}{body},{json.dumps(beside, ensure_ascii=False)[1:]}\n".encode("utf-8", "replace")


def needs_likeness(sample: Sample) -> bool:
    """Return whether near-duplicates of a post are found by its text."""
    return sample.gold is not None and not sample.group


def record_of_unusable_post(
    sample: Sample,
    graph: str,
    context: Context,
    problem: str,
    kind: str = "input",
    calls: tuple[Call, ...] = (),
) -> Record:
    """Return the record of a post that has no trial to its end.

    Its `kind`: it can't be judged (`input`), ends processes (`crash`), or meets a bug of this program (`internal`).
    """
    ended = {
        "outcome": "failure",
        "explanation": problem,
        "error": kind,
        "seat": "",
        "role": "",
        "model": "",
    }
    return record_without_graph(sample, graph, context, ended, calls)


def record_without_graph(
    sample: Sample, graph: str, context: Context, ended: JSON, calls: tuple[Call, ...] = ()
) -> Record:
    """Return the record of a post whose graph gave none, but an outcome (`tribunal.nodes.state.outcome_of`)."""
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
        usage=Usage.from_calls([call.dump() for call in calls]),
        shown=(),
        policy={},
        warnings=(),
        fault={**fault, "kind": ended.get("form") or ended.get("error")},
    )
