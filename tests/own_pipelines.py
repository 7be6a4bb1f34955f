"""A pipeline of one's own, in a file: its judge writes into the state what the post says, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

JUDGE = """
import json

from langgraph.graph import START, StateGraph

from tribunal.pieces import Case, Context, PostInput, Ruling, receive


async def judge(state: Case) -> Case:
    return json.loads(state["post"]["text"])


builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("judge", judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "judge")
graph = builder.compile(name="mine")
"""
RIGHT: dict[str, Any] = {
    "outcome": "verdict", "label": 2, "category": "Sexist", "hateful": True, "explanation": "words",
}  # fmt: skip
# What a judge of one's own may get wrong, and what is said of it.
WRONG: list[tuple[Any, str]] = [
    ({"outcome": "verdict", "category": "Foo"}, "outcome.label: is missing; a verdict has one"),
    ({**RIGHT, "category": "Foo"}, "outcome.category: 'Foo': the policy h-vli has no such category"),
    ({**RIGHT, "category": "sexist"}, "outcome.category: 'sexist': the policy h-vli has no such category"),
    ({**RIGHT, "label": 1}, "outcome.label: 1: is not the label of Sexist; give 2"),
    ({**RIGHT, "label": "2"}, "outcome.label: '2': should be a valid integer"),
    ({**RIGHT, "hateful": False}, "outcome.hateful: False: contradicts the category Sexist; give True"),
    ({**RIGHT, "outcome": "acquittal"}, "outcome.outcome: 'acquittal': is no outcome; give one of verdict, refusal"),
    ({**RIGHT, "explanation": None}, "outcome.explanation: None: should be a valid string"),
    ({**RIGHT, "explanation": " "}, "outcome.explanation: is empty"),
    ({**RIGHT, "confidence": 1.5}, "outcome.confidence: 1.5: should be less than or equal to 1"),
    ({**RIGHT, "task": "sarcasm"}, "outcome.task: 'sarcasm': is not the task of this run; give 'hate'"),
    ({**RIGHT, "verdict": "guilty"}, "outcome.verdict: is no field of a verdict; leave it out"),
    ("NotHate", "outcome: 'NotHate': is no JSON object"),
    ({}, "outcome: there is none; a node has to write one of verdict, refusal, failure"),
    (None, "outcome: there is none"),
]  # fmt: skip


def write_pipeline(folder: Path, judge: str = JUDGE) -> str:
    """Write the pipeline into a folder; gives its name as a graph."""
    (folder / "mine.py").write_text(judge, "utf-8")
    return f"{folder / 'mine.py'}:graph"


def post_saying(outcome: Any, **channels: Any) -> str:
    """The words of a post by which the judge writes this outcome, and these channels."""
    return json.dumps({"outcome": outcome, **channels})
