"""A real llama.cpp server with a small real model plays every graph: no accuracy, only whether cases come to an end.

    TRIBUNAL_LLAMA_URL=http://127.0.0.1:8137/v1 ./run pytest -m slow -n0 -s

docs/models.md says how to start one. `TRIBUNAL_SLOW_POSTS` says how many of the twenty posts each graph gets.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from tribunal.docket.session import judge_post
from tribunal.graphs import GRAPHS
from tribunal.settings.context import context_from

POSTS = """
Good morning, everybody.
The bus was late again today.
I love how quiet the park is on Sundays.
Does anyone have a recipe for lentil soup?
My neighbours brought us cake when we moved in.
Old people should not be allowed to drive.
Women can't park.
Our new teacher is from Kenya, and she is great.
This politician has no plan at all.
I failed the exam, I am such an idiot.
They are the weeds in our garden.
Go back to where you came from, they told my father.
He said that immigrants are lazy; that is simply wrong.
I hate Mondays.
The match was lost by bad luck.
People from that village are all the same.
We welcome everyone, whatever their faith.
Kids these days don't read any more.
The weather will turn on Thursday.
That film made fun of my accent.
""".strip().splitlines()
# Every seat plays; the longest debates are cut to fewer rounds than they have by themselves, to come to an end today.
SETTINGS: dict[str, dict[str, Any]] = {
    "multiround": {"rounds": 1},
    "mv_debate": {"rounds": 1},
    "symmetric_debate": {"rounds": 1},
    "predict": {"perspectives": ["example-harm", "example-newsroom"]},
    "antihate": {"mode": "no-knowledge"},
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_every_case_comes_to_an_end(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (url := os.environ.get("TRIBUNAL_LLAMA_URL")):
        pytest.skip("no server of a small model (TRIBUNAL_LLAMA_URL)")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    posts = POSTS[: int(os.environ.get("TRIBUNAL_SLOW_POSTS") or len(POSTS))]
    context = context_from({"model": "openai:small", "timeout": 300.0, **SETTINGS.get(graph, {})})
    outcomes: Counter[str] = Counter()
    for text in posts:
        record = await judge_post(text, graph=graph, context=context)
        kind = record.fault["kind"] if record.fault else ""
        outcomes[f"{record.outcome} {kind}".strip()] += 1
        print(graph, record.outcome, kind, record.explanation[:100], flush=True)  # noqa: T201 (read with -s)
    counts = ", ".join(f"{n} {kind}" for kind, n in outcomes.items())
    print(f"| `{graph}` | {len(posts)} | {counts} |")  # noqa: T201
    assert sum(outcomes.values()) == len(posts)
