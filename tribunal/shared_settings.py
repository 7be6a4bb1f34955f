"""The names that settings are declared by, and their values. Nothing heavy is imported, so that `--help` is quick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Scheme = Literal["fine", "binary"]
Task = Literal["hate", "sarcasm", "misinformation"]
# Where the probability of hate is from: a fitted file, the judge's confidence, the verdict alone, or a person.
ProbabilitySource = Literal["calibrated", "confidence", "verdict", "person"]
Mode = Literal[
    "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    "no-knowledge", "no-search", "no-details", "zero-shot",
]  # fmt: skip
Clients = Literal["nothing", "anything", "up to default", "named things"]

MAX_ROUNDS = 10
ALL = "all"  # every agent, in the setting `stops`
# The views of `mv_debate`: a name, and its title; its words are prompts/mv_debate/view_NAME.md.
VIEWS = {
    "surface": "Surface Analyst",
    "deep": "Deep Reasoner",
    "contrast": "Modality Contrast",
    "context": "Social Contextualist",
}
# Seats of which there are several, told apart after a colon: perspective:kold, view:surface, agent:2.
KINDS = ("perspective", "debater", "view", "agent")
# The nodes that decide. Every other node that asks a model asks that of `aux_model`, triage excepted.
DECIDING = ("judge", "score", "reflect", "rescore", "summarise", "conclude", "answer", "classify", "draw")
# The nodes that give a verdict, by a model or by a vote.
CONCLUDING = ("judge", "summarise", "conclude", "answer", "classify", "annotate", "draw", "vote")
LOOKING_UP = ("propose", "search", "choose", "fetch", "read", "weigh", "enough")
SECTION_TITLES = (
    "Task and policy", "Models", "What is looked up", "How they argue", "Votes and confidence", "Review", "Budget",
    "Limits", "Technical",
)  # fmt: skip
POLICY, MODELS, LOOKED_UP, ARGUING, VOTES, REVIEW, BUDGET, LIMITS, TECHNICAL = SECTION_TITLES
MODE_WORDS: dict[Mode, str] = {
    "full": "all of it",
    "round-1-only": "no responses in the debate",
    "majority": "a vote of the perspectives, no debate",
    "single": "one perspective decides",
    "base": "one annotator, no perspectives",
    "leave-out": "all perspectives but `leave_out`",
    "criterion-only": "perspectives without their examples",
    "examples-only": "perspectives without their criteria",
    "no-knowledge": "no research",
    "no-search": "the model names pages itself",
    "no-details": "shorter prompts",
    "zero-shot": "one call, answered yes or no",
}
# Former names of settings.
RENAMED = {
    "samples": "draws",
    "judge_samples": "judge_draws",
    "sample_temperature": "draw_temperature",
    "draw": "repeat",
    "record": "archive",
}
# The shipped policy of each task.
POLICIES: dict[Task, str] = {"hate": "h-vli", "sarcasm": "sarcasm", "misinformation": "misinformation"}
SHIPPED_POLICIES = (*POLICIES.values(), "moderations")


def join_names(names: Sequence[str]) -> str:
    """Join names as a sentence has them: `a`; `a and b`; `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
