"""Write samples.html: every sample of the runs in one page that needs no server.

The rows are packed into the page as compressed data; its script (samples.js) filters, sorts, searches and pages them.
Foreign text is made visible before it is packed, and the script inserts it as text, never as HTML. The cases are the
only HTML in the data: they come from the templates of explanations, which escape.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from markupsafe import Markup
from pydantic import ValidationError
from pydantic_core import from_json

from tribunal.core.text import make_visible, one_line
from tribunal.errors import BadInput
from tribunal.eval.measures.columns import GROUPS, NO_LABEL, result_numbers, values_of_fields
from tribunal.eval.report.page import hash_source, output_folder, read_source, render_template
from tribunal.explanations.case_drawing import draw_fragment, stylesheet
from tribunal.explanations.view_maker import view_case
from tribunal.process.files import write_whole
from tribunal.runner.prices import Prices, prices_of_run
from tribunal.runner.results import Result, read_full_line, read_lines, read_run_file
from tribunal.schema import JSON, Record

FILE = "samples.html"
MOST_CASES = 1000  # whole cases in the file, over all its runs
_MOST_CHARACTERS = 30_000_000  # of words that can be searched; a longer run's words are left out
_BEGINNING = 120  # characters of a text and of an explanation that are in the file
_CASES_PER_CHUNK = 20  # cases that are compressed together
_LONGEST_VALUE = 200  # characters of a value to filter by

# How a verdict compares with the gold label: the name in the page's address, and the words that a reader sees.
KINDS = {
    "true-positive": "true positive",
    "true-negative": "true negative",
    "false-positive": "false positive",
    "false-negative": "false negative",
    "other-category": "right side, other category",
    "no-verdict": "no verdict",
    "no-gold": "no gold label",
}
_KIND_NAMES = tuple(KINDS)
_WRONG = ("false-positive", "false-negative", "other-category")
# Filters, with their titles. A sample may have several values of each, or none.
FACETS = {
    "kind": "Against the gold",
    "outcome": "Outcome",
    "gold": "Gold label",
    "verdict": "Verdict",
    "clause": "Clause",
    "uncertain": "Uncertain",
    "person": "Decided by a person",
    "track": "Track",
    "pattern": "SMI pattern",
    "difficulty": "Difficulty",
    "functionality": "Functionality",
    "target": "Target group",
    "implicit": "Implicit",
    "dataset": "Data set",
    "language": "Language",
    "model": "Model",
    "image": "Image",
    "fault": "Fault",
    "repeat": "Repeat",
}
# The filters by a field of the data set, with the names that the field may have.
_FIELDS_OF_FACET = {
    **{name.removeprefix("by_"): fields for name, fields in GROUPS.items()},
    "dataset": ("dataset",),
}
NUMBERS = {
    "confidence": "Confidence",
    "calls": "Calls",
    "tokens": "Tokens",
    "seconds": "Seconds",
    "money": "Cost",
}
SORTS = {"post": "Post", "gold": "Gold", "verdict": "Verdict", "kind": FACETS["kind"], **NUMBERS}
_ACTIONS = {None: "open", "accept": "accepted", "edit": "changed"}

Scheme = Literal["fine", "binary"]
SCHEMES: tuple[Scheme, ...] = ("fine", "binary")
# a position in KINDS, and labels; NO_LABEL where there is none
LABELS = (
    "kind",
    "gold",
    "verdict",
)


class SampleRow(NamedTuple):
    """A sample as the page filters and sorts it."""

    post: str
    repeat: int
    outcome: int  # position in OUTCOMES
    labels: dict[Scheme, dict[str, int]]  # by LABELS
    is_binary: bool  # the gold label and the verdict can only be compared as yes and no
    numbers: dict[str, float | None]  # by the names of NUMBERS; None if unknown
    facets: dict[str, tuple[str, ...]]
    offset: int  # of its line in results.jsonl


def write_samples(
    folders: Sequence[Path], out: Path, *, most: int, prices: Prices | None = None
) -> Path:
    """Write samples.html.

    Args:
        folders: the folders of the runs.
        out: the folder to write to.
        most: the file holds the whole case of at least this many wrong and this many uncertain samples of each run.
            0: it holds no case, and no words of posts.
        prices: prices of calls; None: those that each run was given.

    Returns:
        The path of the file.

    Raises:
        BadInput: a folder is not a run's, or the file can't be written.
    """
    most_characters = _MOST_CHARACTERS // len(folders) if most else 0
    most_cases = max(MOST_CASES // len(folders), 2 * most)
    runs = [
        _pack_run(
            folder,
            prices or prices_of_run(folder),
            most,
            most_cases,
            most_characters,
            f"run{number}-",
        )
        for number, folder in enumerate(folders)
    ]
    script = read_source("samples.js")
    constants = {"titles": FACETS, "kinds": KINDS, "numbers": NUMBERS, "wrong": _WRONG}
    page = render_template(
        "samples.html.jinja",
        {
            "names": [run["name"] for run in runs],
            "numbers": NUMBERS,
            "sorts": SORTS,
            "runs": [_pack_json(run) for run in runs],
            "constants": _pack_json(constants),
            "script": Markup(script),  # noqa: S704  # our own file
            "script_digest": hash_source(script),
        },
        style=read_source("samples.css") + stylesheet(),
    )
    path = out / FILE
    with output_folder(out):
        write_whole(path, page)
    return path


def draw_sample(line: JSON, prices: Prices | None = None, prefix: str = "ex-") -> Markup:
    """Return the explained case of a line of results.jsonl as HTML; a note if the line can't be shown as a case.

    Args:
        line: the parsed line.
        prices: prices of calls.
        prefix: the beginning of the ids in the HTML.
    """
    post: JSON | None = None
    if isinstance(line.get("text"), str):
        post = {
            "text": line["text"],
            **({} if line.get("has_image") is None else {"image": "its image"}),
        }
    was_missing = line.get("has_image") is False
    absent = "It was missing when the run was made." if was_missing else "Runs keep no images."
    try:
        record = Record.model_validate(
            {name: line[name] for name in Record.model_fields if name in line}
        )
        view = view_case(
            record, post=post, image_absent=absent, price=prices.cost_of_call if prices else None
        )
    except (ValidationError, BadInput) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return Markup('<p class="note">This result can\'t be shown as a case: {}.</p>').format(
            make_visible(problem)
        )
    return draw_fragment(view, prefix=prefix)


def _row_of_result(line: JSON, result: Result, offset: int, prices: Prices | None) -> SampleRow:
    gold = result.gold
    numbers = result_numbers(result)
    labels: dict[Scheme, dict[str, int]] = {}
    for scheme, names in zip(SCHEMES, (("gold", "label"), ("positive", "hateful")), strict=True):
        label, answer = (numbers[name] for name in names)
        kind = _kind_index(numbers, is_right=label == answer)
        labels[scheme] = {"kind": kind, "gold": label, "verdict": answer}
    verdict = (
        (result.category or str(numbers["label"]))
        if result.outcome == "verdict"
        else result.outcome
    )
    fault = line.get("fault")
    facets = {
        "outcome": (result.outcome,),
        "gold": (gold.name,) if gold else (),
        "verdict": (verdict,),
        "clause": result.clauses,
        "uncertain": ("yes" if result.uncertain else "no",),
        "person": _review_state(line.get("review")),
        "track": _text_values(line.get("track")),
        "language": _text_values(line.get("language")),
        "model": tuple(sorted({call.model for call in result.calls if call.model})),
        "image": _image_state(result),
        "fault": _text_values(fault.get("kind")) if isinstance(fault, dict) else (),
        "repeat": (str(result.repeat),),
    }
    for name, fields in _FIELDS_OF_FACET.items():
        values = values_of_fields(result.fields, fields)
        facets[name] = tuple(dict.fromkeys(value[:_LONGEST_VALUE] for value in values))
    return SampleRow(
        post=result.post_id,
        repeat=result.repeat,
        outcome=numbers["outcome"],
        labels=labels,
        is_binary=gold is not None and (gold.scheme != "fine" or result.scheme != "fine"),
        numbers={
            "confidence": result.confidence,
            "calls": result.usage.calls,
            "tokens": result.usage.prompt_tokens + result.usage.completion_tokens,
            "seconds": result.seconds,
            "money": prices.cost_of_calls(result.calls) if prices else None,
        },
        facets=facets,
        offset=offset,
    )


def _kind_index(numbers: dict[str, int], *, is_right: bool) -> int:
    """Return the position in KINDS."""
    is_hateful = numbers["hateful"]
    if numbers["gold"] == NO_LABEL:
        kind = "no-gold"
    elif numbers["label"] == NO_LABEL:
        kind = "no-verdict"
    elif is_right:
        kind = "true-positive" if numbers["positive"] else "true-negative"
    elif numbers["positive"] == is_hateful:
        kind = "other-category"
    else:
        kind = "false-positive" if is_hateful else "false-negative"
    return _KIND_NAMES.index(kind)


def _review_state(review: Any) -> tuple[str, ...]:
    if not isinstance(review, dict):
        return ()
    action = review.get("action")
    return (
        _ACTIONS.get(action, "waits") if action is None or isinstance(action, str) else "waits",
    )


def _image_state(result: Result) -> tuple[str, ...]:
    if result.has_image is None:
        return ()
    if not result.has_image:
        return ("missing",)
    shown = ["image" in call.shown for call in result.calls if call.shown]
    if not any(shown):
        return ("not shown to a model",)
    return ("shown",) if all(shown) else ("shown to some models",)


def _text_values(value: Any) -> tuple[str, ...]:
    return (value[:_LONGEST_VALUE],) if isinstance(value, str) and value else ()


def _pack_run(
    folder: Path,
    prices: Prices | None,
    most: int,
    most_cases: int,
    most_characters: int,
    prefix: str,
) -> JSON:
    """Return a run as the script reads it, without the beginnings of its words if they exceed this many characters.

    The labels are packed in both schemes: compared with a binary run, a fine-grained one is binary, too.
    """
    rows = list[SampleRow]()
    beginnings = list[list[str]]()
    for offset, result, line in read_lines(folder):
        parsed = from_json(line)
        rows.append(_row_of_result(parsed, result, offset, prices))
        if most_characters > 0:
            words = (str(parsed.get(name) or "")[:_BEGINNING] for name in ("text", "explanation"))
            beginnings.append([make_visible(one_line(each)) for each in words])
            most_characters -= sum(map(len, beginnings[-1]))
    settings = read_run_file(folder)
    scheme: Scheme = "binary" if any(row.is_binary for row in rows) else "fine"
    chosen = _choose_cases(rows, scheme, most)[:most_cases]
    chunks = []
    for start in range(0, len(chosen), _CASES_PER_CHUNK):
        cases = [
            draw_sample(read_full_line(folder, rows[at].offset), prices, f"{prefix}{at}-")
            for at in chosen[start : start + _CASES_PER_CHUNK]
        ]
        chunks.append(_pack_json(cases))
    facets = {}
    for name in FACETS:
        if name != "kind":  # the script makes it of the labels
            facets[name] = _encode_values(row.facets[name] for row in rows)
    return {
        "name": make_visible(folder.resolve().name),
        "about": make_visible(
            ", ".join(str(settings[name]) for name in ("graph", "dataset") if settings.get(name))
        ),
        "priced": prices is not None,
        "scheme": scheme,
        "post": [make_visible(row.post) for row in rows],
        "repeat": [row.repeat for row in rows],
        "outcome": [row.outcome for row in rows],
        "labels": {
            each: {name: [row.labels[each][name] for row in rows] for name in LABELS}
            for each in SCHEMES
        },
        **{name: [_round_number(row.numbers[name]) for row in rows] for name in NUMBERS},
        "facets": facets,
        "beginnings": beginnings if most_characters > 0 else None,
        "cases": {row: divmod(number, _CASES_PER_CHUNK) for number, row in enumerate(chosen)},
        "chunks": chunks,
    }


def _choose_cases(rows: list[SampleRow], scheme: Scheme, most: int) -> list[int]:
    """Return the rows in the order in which their cases go into the file.

    The most certain errors and the least certain answers come first, then the other errors, then the rest.
    """
    if not most:
        return []
    confidence = [row.numbers["confidence"] or 0.0 for row in rows]
    wrong = [at for at, row in enumerate(rows) if _KIND_NAMES[row.labels[scheme]["kind"]] in _WRONG]
    wrong.sort(key=lambda at: -confidence[at])
    uncertain = [at for at, row in enumerate(rows) if row.facets["uncertain"] == ("yes",)]
    uncertain.sort(key=lambda at: confidence[at])
    return list(dict.fromkeys([*wrong[:most], *uncertain[:most], *wrong, *range(len(rows))]))


def _encode_values(values: Iterable[tuple[str, ...]]) -> JSON:
    """Return the distinct sets of values, and for each sample the number of its set."""
    codes_of_sets: dict[tuple[str, ...], int] = {(): 0}
    codes = [codes_of_sets.setdefault(each, len(codes_of_sets)) for each in values]
    return {
        "sets": [[make_visible(value) for value in each] for each in codes_of_sets],
        "codes": codes,
    }


def _round_number(number: float | None) -> float | None:
    return number if number is None or isinstance(number, int) else float(f"{number:.6g}")


def _pack_json(value: Any) -> Markup:
    """Return a value as JSON, compressed and in base64."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(written.encode("utf-8", "replace"), mtime=0))
    return Markup(packed.decode())  # noqa: S704  # base64
