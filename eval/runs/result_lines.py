"""Make the lines of results.jsonl, and the records of posts that their graph gave none of."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.journal import RESULTS, read_line_starts, replace_results
from tribunal.eval.runs.text_similarity import text_signature
from tribunal.graphs import code_of
from tribunal.schema import JSON, Call, Record, Usage
from tribunal.text import parse_json


def result_line(place: int, repeat: int, seconds: float, record: Record, sample: Sample, keep_text: bool) -> bytes:
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
    return _encode_line(place, repeat, seconds, record, beside)


def _encode_line(place: int, repeat: int, seconds: float, record: Record, beside: JSON) -> bytes:
    head = f'{{"place":{place},"repeat":{repeat},"seconds":{seconds:.4f},'
    body = record.model_dump_json()[1:-1]
    return f"{head}{body},{json.dumps(beside, ensure_ascii=False)[1:]}\n".encode("utf-8", "replace")


def needs_likeness(sample: Sample) -> bool:
    """Return whether near-duplicates of a post are found by its text."""
    return sample.gold is not None and not sample.group


async def insert_reviewed_results(folder: Path) -> tuple[int, int]:
    """Replace the results that waited for a person by what that person decided.

    Returns:
        How many were decided since, and how many still wait.
    """
    waiting = sum(start.outcome == "pending" for start in read_line_starts(folder / RESULTS))
    if not waiting:
        return 0, 0
    from tribunal.cases.docket import docket_here  # SQLite, for those who have such results

    docket = await docket_here()
    decided = {entry.thread for entry in await docket.entries(decided=True) if entry.status == "decided"}
    fresh: dict[int, bytes] = {}
    for start in read_line_starts(folder / RESULTS):
        if start.outcome == "pending" and (old := parse_json(start.line)).get("thread") in decided:
            with suppress(BadInput):  # its texts were forgotten
                fresh[start.offset] = _replace_record(old, await docket.record(old["thread"]))
    replaced = replace_results(folder, lambda start: fresh.get(start.offset)) if fresh else 0
    return replaced, waiting - replaced


def _replace_record(old: JSON, record: Record) -> bytes:
    """Return a line with another record; its place and what the data set says of the post stay.

    The calls that the graph made past `ask` before a person decided lie in no checkpoint, so they are carried over.
    """
    unseen = max(record.unseen_calls, old.get("unseen_calls") or 0)
    record = record.model_copy(update={"unseen_calls": unseen, "kept": old.get("kept")})
    beside: JSON = {
        name: old[name] for name in ("gold", "has_image", "fields", "group", "likeness", "text") if name in old
    }
    return _encode_line(old["place"], old["repeat"], old["seconds"], record, beside)


def record_of_unusable_post(sample: Sample, graph: str, context: Context, problem: str, kind: str = "input") -> Record:
    """Return the record of a post that can't be judged (`input`) or that ends processes (`crash`)."""
    ended = {"outcome": "failure", "explanation": problem, "error": kind, "seat": "", "role": "", "model": ""}
    return record_without_graph(sample, graph, context, ended)


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


def describe_graph_error(graph: str, sample: Sample, error: Exception) -> str:
    """Describe an exception for a graph's author: what, where in their file, at which post, and what to do."""
    own = {path.name for path in code_of(graph).values()}
    frames = extract_tb(error.__traceback__)
    frame = next((each for each in reversed(frames) if Path(each.filename).name in own), frames[-1])
    said = " ".join(str(error).split())[:500]
    return (
        f"graph {graph}: post {sample.id}: {type(error).__name__}: {said} ({Path(frame.filename).name}, line "
        f"{frame.lineno}, in {frame.name}). See to it; with the graph's file changed, take another folder, where "
        "--cache spares the calls that were answered"
    )
