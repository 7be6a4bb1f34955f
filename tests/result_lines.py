"""What the tests of measures and reports share: the folder of a run, written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tribunal.eval.measures.metrics import measure_run
from tribunal.schema import JSON, Record

NAMES = ("NotHate", "Racist", "Sexist", "Homophobic", "Religious", "OtherHate")


def line(
    post_id: str,
    gold: int | None,
    answer: int | str,
    *,
    repeat: int = 0,
    scheme: str = "fine",
    gold_scheme: str = "fine",
    confidence: float | None = None,
    fields: dict[str, Any] | None = None,
    seconds: float = 0.0,
    **record: Any,
) -> dict[str, Any]:
    """A line of results.jsonl: a whole record and the run's own keys.

    Args:
        answer: the label of a verdict, or the outcome: refusal, failure or pending.
        record: other keys of the record, or of the line.
    """
    verdict = isinstance(answer, int)
    names = NAMES if scheme == "fine" else ("NotHate", "Hateful")
    gold_names = NAMES if gold_scheme == "fine" else ("not hate", "hate")
    held = Record(
        outcome="verdict" if verdict or answer == "pending" else answer,
        post_id=post_id,
        graph="arcade",
        scheme=scheme,
        label=answer if isinstance(answer, int) else None,
        category=names[answer] if isinstance(answer, int) else None,
        hateful=answer > 0 if isinstance(answer, int) else None,
        explanation="why",
        track=None,
        rounds=0,
        transcript=(),
        cues=(),
        calls=(),
        usage={"calls": 0},
        policy={"name": "h-vli", "sha": "f" * 64},
        warnings=(),
        confidence=confidence,
    ).dump()
    known = None
    if gold is not None:
        known = {
            "label": gold,
            "scheme": gold_scheme,
            "positive": gold > 0,
            "name": gold_names[gold],
        }
    return {
        **held,
        "outcome": "verdict" if verdict else answer,
        "repeat": repeat,
        "gold": known,
        "fields": fields or {},
        "seconds": seconds,
        **record,
    }


def write_run(folder: Path, lines: Iterable[dict[str, Any]], **run: Any) -> Path:
    """A run's folder with these lines; `run` is what run.json holds beside a graph and a data set."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(
        json.dumps({"graph": "arcade", "dataset": "h-vli", **run}), "utf-8"
    )
    with (folder / "results.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)
    return folder


def measure(folder: Path, lines: Iterable[dict[str, Any]], **run: Any) -> JSON:
    """The measures of such a run."""
    return measure_run(write_run(folder, lines, **run))


def answers(gold: str, given: str, **other: Any) -> list[dict[str, Any]]:
    """Lines of posts p0, p1, …: a digit a post for its gold and its answer; R, F and P are the other outcomes."""
    outcomes = {"R": "refusal", "F": "failure", "P": "pending"}
    return [
        line(f"p{place}", int(truth), outcomes.get(answer) or int(answer), **other)
        for place, (truth, answer) in enumerate(zip(gold, given, strict=True))
    ]
