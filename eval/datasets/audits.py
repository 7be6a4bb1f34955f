"""Data sets made for an audit of a court: the posts of a run without the words that its verdicts quote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError
from pydantic_core import from_json

from tribunal.eval.datasets.dataset import Dataset
from tribunal.explanations.quotations import (
    Span,
    find_spans,
    merge_spans,
    quotations_in,
    quoted_spans,
    withdrawn_cue_ids,
)
from tribunal.runner.results import Sample, read_lines
from tribunal.schema import JSON, Cue, Record

WITHOUT_QUOTES = "without-quotes"


def record_of_line(line: JSON) -> Record | None:
    """Return the record of a line of results.jsonl; None if another version wrote it in another form."""
    try:
        return Record.model_validate({name: line[name] for name in Record.model_fields if name in line})
    except ValidationError:
        return None


def standing_cues(record: Record) -> list[Cue]:
    """Return the cues that the prosecution never withdrew."""
    withdrawn = withdrawn_cue_ids(record)
    return [cue for cue in record.cues if cue.id not in withdrawn]


def spans_quoted(explanation: str, cues: Sequence[Cue], text: str) -> list[Span]:
    """Return where in a post the words are that an explanation or one of its cues quotes."""
    spans = set(find_spans(text, quotations_in(explanation)))
    return merge_spans(spans.union(*(quoted_spans(cue, text) for cue in cues)))


def read_without_quotes(dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts of a run that were found hateful, without the quoted words; the first repeat of each."""
    for _, result, line in read_lines(dataset.files[0].parent):
        if result.repeat or result.outcome != "verdict" or not result.hateful:
            continue
        parsed: JSON = from_json(line)
        record, text = record_of_line(parsed), parsed.get("text")
        if result.has_image:
            dataset.skip("has an image")
        elif record is None or not isinstance(text, str):
            dataset.skip("text not kept (eval --keep-text)")
        elif not (spans := spans_quoted(record.explanation, standing_cues(record), text)):
            dataset.skip("quotes no words of the post")
        elif not (rest := _without_spans(text, spans)):
            dataset.skip("no words left")
        else:
            yield Sample(
                id=result.post_id,
                text=rest,
                language=result.language if result.language_from == "given" else None,
                gold=result.gold,
                group=result.group,
                fields={**result.fields, "verdict_before": result.category},
            )


def _without_spans(text: str, spans: Sequence[Span]) -> str:
    """Return a text without these places; empty if no letter or digit is left."""
    for begin, end in reversed(spans):
        text = f"{text[:begin]} {text[end:]}"
    rest = " ".join(text.split())
    return rest if any(map(str.isalnum, rest)) else ""
