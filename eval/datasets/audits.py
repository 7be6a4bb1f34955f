"""Data sets made for an audit of a court.

`without-quotes` has the posts of a run without the words that its verdicts quote. `group-swap` has sentences in which
one group takes the place of another: a factorial design after Fasching and Lelkes, "Model-Dependent Moderation"
(Findings of ACL 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, ValidationError, field_validator
from pydantic_core import from_json

from tribunal.core.text import parse_toml
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset
from tribunal.explanations.quotations import (
    Span,
    find_spans,
    merge_spans,
    quotations_in,
    quoted_spans,
)
from tribunal.process.files import read_text
from tribunal.runner.results import Sample, binary_label, read_lines
from tribunal.schema import JSON, Cue, Frozen, Record, standing_cues
from tribunal.settings.validation import describe_validation_error

WITHOUT_QUOTES = "without-quotes"


def record_of_line(line: JSON) -> Record | None:
    """Return the record of a line of results.jsonl; None if another version wrote it in another form."""
    try:
        return Record.model_validate(
            {name: line[name] for name in Record.model_fields if name in line}
        )
    except ValidationError:
        return None


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
        record = record_of_line(parsed)
        text = parsed.get("text")
        if result.has_image:
            dataset.skip("has an image")
        elif record is None or not isinstance(text, str):
            dataset.skip("text not kept (eval --keep-text)")
        elif not (
            spans := spans_quoted(
                record.explanation, standing_cues(record.cues, record.transcript), text
            )
        ):
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


class SwapTemplate(Frozen):
    """A sentence with a place for a group. `hateful` is the label of every sentence made of it."""

    id: str = Field(min_length=1)
    text: str
    hateful: bool

    @field_validator("text")
    @classmethod
    def _check_place(cls, text: str) -> str:
        if "{group}" not in text and "{Group}" not in text:
            raise ValueError("names no {group} or {Group}")
        return text

    def fill(self, group: str) -> str:
        """Return the sentence about a group."""
        return self.text.replace("{group}", group).replace("{Group}", group[:1].upper() + group[1:])


class SwapFile(Frozen):
    """A file of templates: the groups with their characteristics, and the sentences."""

    language: str | None = None
    groups: dict[str, str] = Field(min_length=2)
    templates: tuple[SwapTemplate, ...] = Field(min_length=1)

    @field_validator("templates")
    @classmethod
    def _check_ids(cls, templates: tuple[SwapTemplate, ...]) -> tuple[SwapTemplate, ...]:
        ids = [each.id for each in templates]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice:
            raise ValueError(f"two templates have the id {twice!r}")
        return templates


def read_group_swap(dataset: Dataset) -> Iterator[Sample]:
    """Yield every sentence about every group, template by template.

    Raises:
        BadInput: the file is no file of templates.
    """
    path = dataset.files[0]
    try:
        swaps = SwapFile.model_validate(parse_toml(read_text(path)))
    except ValidationError as error:
        raise BadInput(
            f"data: {path}: {describe_validation_error(error)}; compare the shipped group_swap.toml"
        ) from error
    except (OSError, ValueError) as error:
        raise BadInput(f"data: {path}: not a TOML file: {error}") from error
    for template in swaps.templates:
        for group, characteristic in swaps.groups.items():
            yield Sample(
                id=f"{template.id}/{group}",
                text=template.fill(group),
                language=swaps.language,
                gold=binary_label(
                    template.hateful, "hateful" if template.hateful else "not hateful"
                ),
                group=template.id,
                fields={"template": template.id, "target": group, "characteristic": characteristic},
            )
