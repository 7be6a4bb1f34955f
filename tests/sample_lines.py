"""A run worked out by hand, one line for each kind of sample that samples.html filters by."""

from __future__ import annotations

from typing import Any

from tests.result_lines import line


def sample(
    post: str,
    gold: int | None,
    answer: int | str,
    *,
    model: str = "openai:a",
    tokens: int = 90,
    **fields: Any,
) -> Any:
    """A line of results.jsonl with one call."""
    call = {
        "id": "1", "role": "judge", "seat": "judge", "temperature": 0.0, "prompt_sha": "f" * 64, "shown": ["text"],
        "model": model, "prompt_tokens": tokens, "completion_tokens": 10,
    }  # fmt: skip
    usage = {"calls": fields.pop("calls", 1), "prompt_tokens": tokens, "completion_tokens": 10}
    return line(post, gold, answer, calls=[call], usage=usage, **fields)


# Labels: 0 NotHate, 1 Racist, 2 Sexist, 3 Homophobic.
SAMPLES = [
    sample("a", 1, 1, confidence=0.9, track="fast_track", seconds=4.0, text="The weeds in our garden",
           fields={"difficulty": "Easy", "smi_pattern": "A", "functionality": "slur", "target": ["x", "y"]}),
    sample("b", 0, 0, confidence=0.8, track="dismissed", seconds=3.0, tokens=490,
           fields={"difficulty": "Hard", "smi_pattern": "B", "target": "x"}),
    sample("c", 0, 2, confidence=0.7, track="deep_dive", seconds=9.0, model="openai:b", calls=5,
           fields={"difficulty": "Hard", "smi_pattern": "A"}, explanation="it speaks of weeds, and calls them women"),
    sample("d", 3, 0, confidence=0.2, uncertain=True, track="dismissed", fields={"difficulty": "Easy"}),
    sample("e", 1, 3, confidence=0.6, fields={"difficulty": "Hard"}, language="ko"),
    sample("f", 1, "refusal", fault={"seat": "judge", "role": "judge", "model": "openai:a", "kind": "content_filter"}),
    sample("g", None, 1, confidence=0.5),
    sample("a", 1, 0, repeat=1, confidence=0.4),
]  # fmt: skip
