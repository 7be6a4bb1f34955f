"""What people read of every setting: title, text, default, and which graphs heed it. `Context` is the model of them.

Studio, the command line and docs/settings.md all say what stands here. Nothing is imported, so `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Setting(NamedTuple):
    """One setting in words.

    `default` is said as it stands here; `graphs` are those that heed the setting, and none named means every graph.
    """

    title: str
    does: str
    default: str
    graphs: tuple[str, ...] = ()


# As `tribunal.graphs.GRAPHS` names them.
GRAPHS = (
    "tribunal",
    "arcade",
    "multiround",
    "predict",
    "antihate",
    "mv_debate",
    "baseline",
    "self_consistency",
    "symmetric_debate",
)
_HYBRID = ("tribunal",)
_COURTS = ("tribunal", "arcade", "multiround")
_PANELS = ("tribunal", "predict")
_WEB = ("tribunal", "antihate")
_VIEWS = ("mv_debate",)


def _but(*names: str) -> tuple[str, ...]:
    return tuple(graph for graph in GRAPHS if graph not in names)


# Every setting, in the order in which a person would set them.
SECTIONS: dict[str, dict[str, Setting]] = {
    "Task and policy": {
        "task": Setting(
            "Task",
            "What is decided: hate, sarcasm or misinformation.",
            "hate",
            ("mv_debate", "baseline", "self_consistency", "symmetric_debate"),
        ),
        "policy": Setting(
            "Policy",
            "The definition and the categories that a decision rests on: a shipped policy by its name, or a TOML file.",
            "the task's own: h-vli, sarcasm or misinformation",
        ),
        "policy_language": Setting(
            "Language of the policy",
            "In which language the agents are given the policy. policy: its own. post: the post's, where the policy is "
            "translated into it.",
            "policy",
        ),
        "prompts": Setting(
            "Prompts",
            "A folder of prompts of your own. A file takes the place of ours of the same name; the others stay ours.",
            "ours",
        ),
        "scheme": Setting(
            "Labels",
            "Which labels there are. fine: the policy's categories. binary: hateful or not.",
            "fine; other tasks than hate, and the mode zero-shot, are always binary",
            (*_COURTS, "baseline", "self_consistency"),
        ),
    },
    "Models": {
        "model": Setting(
            "Model",
            "The model of every seat that has none of its own, as provider:model. Of several, separated by commas, the "
            "next is asked when one refuses or fails.",
            "TRIBUNAL_MODEL, else the offline rehearsal model",
        ),
        "judge_model": Setting(
            "Judge's model",
            "The model of every seat that decides: the judge, the one-call classifier, and in mv_debate the reflection "
            "and the summary.",
            "`model`",
            _but("symmetric_debate"),
        ),
        "aux_model": Setting(
            "Other agents' model",
            "The model of every agent that argues or looks things up.",
            "`model`",
            _but("baseline", "self_consistency"),
        ),
        "seats": Setting(
            "Models by seat",
            "A model for one seat, by the seat's name: gatekeeper, prosecutor, defender, judge, … It beats every other "
            "model. view:surface is one of several views; view is all of them.",
            "none",
        ),
        "temperatures": Setting(
            "Temperatures by seat",
            "A temperature for one seat, by the seat's name, from 0 to 2.",
            "each seat's published one",
        ),
        "draw_temperature": Setting(
            "Temperature of further draws",
            "The temperature, from 0 to 2, of every draw after the first, where the same call is made several times. "
            "In self_consistency also of the first, so that all draws are alike; a temperature set for the seat "
            "classifier takes its place.",
            "0.7",
            (*_COURTS, "self_consistency", "symmetric_debate"),
        ),
        "extra_body": Setting(
            "Further fields of requests",
            "Fields that are put into the body of each request as they are, by model: a table whose names are models, "
            "as provider:model or with * in place of any letters, such as "
            "{'openai:qwen3*' = {chat_template_kwargs = {enable_thinking = false}}}. OpenAI-compatible servers and "
            "Ollama take them.",
            "none",
        ),
        "line_up": Setting(
            "Line-up",
            "Models, temperatures and views under one name: a shipped line-up, such as mv-debate-paper, or a TOML file "
            "with [seats], [temperatures], [extra_body] and views. What a run sets itself beats the line-up.",
            "none",
        ),
    },
    "What is looked up": {
        "perspectives": Setting(
            "Perspectives",
            "The perspectives that are heard, by name or TOML file. all: every one that is built. none: no perspective "
            "(tribunal only).",
            "none in tribunal; five small examples in predict",
            _PANELS,
        ),
        "leave_out": Setting("Perspective left out", "One of the perspectives, which is not heard.", "none", _PANELS),
        "embedding": Setting(
            "Embedding",
            "The embedding that the perspectives' indexes must be built with.",
            "each index's own",
            _PANELS,
        ),
        "precedents": Setting(
            "Precedents",
            "The store of cases that people decided, by name or folder. Both sides and the judge are shown those that "
            "are most like the post, and what was decided.",
            "none",
            _HYBRID,
        ),
        "precedents_k": Setting("Number of precedents", "How many precedents are shown, at most.", "3", _HYBRID),
        "web": Setting("Look on the web", "Look the post up on the web while the gatekeeper scans it.", "off", _HYBRID),
        "search": Setting(
            "Search engine",
            "Where the web is searched: duckduckgo, searxng, langchain:NAME, none, or an engine of your own by entry "
            "point or as module:object. Of several, separated by commas, the next is used when one fails. replay:FILE "
            "replays an archive, without the network.",
            "duckduckgo",
            _WEB,
        ),
        "searxng_url": Setting("SearXNG address", "The base URL of a SearXNG server.", "SEARXNG_URL", _WEB),
        "archive": Setting(
            "Archive of web research",
            "The SQLite file that keeps searches, pages and replies, so that they can be replayed.",
            "evidence.sqlite in the data folder",
            _WEB,
        ),
        "fresh": Setting(
            "Ask anew in a replay", "In a replay, ask the models anew about the archived pages.", "off", _WEB
        ),
        "max_turns": Setting(
            "Turns of searching",
            "How many turns of searching there are at most: a first one, and new queries.",
            "3",
            _WEB,
        ),
        "hits": Setting("Results of a query", "How many search results of each query are taken.", "5", _WEB),
        "max_pages": Setting(
            "Pages in a turn", "How many pages are read in each turn of searching, at most.", "6", _WEB
        ),
        "max_windows": Setting(
            "Windows of a page", "How many reading windows of each page are read, at most.", "8", _WEB
        ),
        "window_tokens": Setting("Reading window (tokens)", "How long a reading window is, in tokens.", "2000", _WEB),
        "window_overlap": Setting(
            "Overlap of windows (tokens)",
            "How many tokens of a reading window stand in the next one too; fewer than `window_tokens`.",
            "200",
            _WEB,
        ),
        "max_seconds": Setting(
            "Time for research (seconds)",
            "How many seconds research takes at most. Then the verdict rests on what was found.",
            "600",
            _WEB,
        ),
    },
    "How they argue": {
        "triage": Setting(
            "First look",
            "Who takes a first look at the post: a model, or first-look:FOLDER, which the command tribunal first-look "
            "fit made of decided posts. A clear decision of the first look spares the trial.",
            "no first look",
            _HYBRID,
        ),
        "triage_confidence": Setting(
            "Clear from (confidence)",
            "The confidence, from 0 to 1, from which a decision of the first look is clear.",
            "0.9",
            _HYBRID,
        ),
        "rounds": Setting(
            "Rounds",
            "How many rounds a debate has at most, from 1 to 10.",
            "3",
            (*_COURTS, "mv_debate", "symmetric_debate"),
        ),
        "early_exit": Setting(
            "End early",
            "End a deep dive once no cue is in dispute: the defender concedes it, or the prosecutor withdraws it.",
            "on in tribunal; off in arcade and multiround",
            _COURTS,
        ),
        "boxes": Setting(
            "Boxes in the image",
            "Ask the prosecution where in the image it sees each cue. The explanation of the case marks the place.",
            "off",
            _COURTS,
        ),
        "mode": Setting(
            "Mode",
            "Which variant of the system runs. full: all of it. "
            "predict: round-1-only (no responses), majority (a vote, no debate), single (one perspective decides), "
            "base (one annotator, no perspectives). "
            "predict and tribunal: leave-out (all perspectives but `leave_out`), criterion-only and examples-only "
            "(perspectives with half of what they know; in predict a vote, no debate). "
            "antihate: no-knowledge (no research), zero-shot (one call). "
            "antihate and tribunal: no-search (the model names pages itself), no-details (shorter prompts). "
            "baseline and self_consistency: zero-shot (MV-Debate's one call, YES or NO, in place of ARCADE's).",
            "full",
            ("tribunal", "predict", "antihate", "baseline", "self_consistency"),
        ),
        "answer_order": Setting(
            "Order of an answer",
            "What an answer begins with. reason-first: the reason, so that a model has reasoned when it comes to the "
            "label. label-first: the label, as in the prompts of PREDICT's paper.",
            "reason-first",
            ("predict",),
        ),
        "views": Setting(
            "Views",
            "The views that debate, at least two: surface, deep, contrast, context. Of equal scores, that of the view "
            "named first is the higher.",
            "all four, in this order",
            _VIEWS,
        ),
        "top_k": Setting(
            "Answers revised (k)",
            "How many of the best answers are revised after a reflection.",
            "half the views, rounded down",
            _VIEWS,
        ),
        "reflection_mode": Setting(
            "Reflection",
            "Which revised answers are adopted. gated: those that raise the score by `tau`. always: all. none: nothing "
            "is revised.",
            "gated",
            _VIEWS,
        ),
        "tau": Setting(
            "Gain to adopt (τ)",
            "How much the score must rise, from 0 to 1, for revised answers to be adopted.",
            "0.1",
            _VIEWS,
        ),
        "history": Setting(
            "History", "Which answers of a round the next rounds are shown: best or all.", "best", _VIEWS
        ),
        "draws": Setting("Draws", "How often the classifier is asked, at most.", "5", ("self_consistency",)),
        "agents": Setting("Agents", "How many agents debate, from 2 to 12.", "4", ("symmetric_debate",)),
    },
    "Votes and confidence": {
        "judge_draws": Setting(
            "Draws of the judge",
            "How often the judge is asked, at most. The most frequent answer decides.",
            "1",
            _COURTS,
        ),
        "threshold": Setting(
            "Threshold (confidence)",
            "The confidence, from 0 to 1, below which a verdict is uncertain. Setting it makes the judge give one.",
            "that of `threshold_file`, else 0.75",
            _COURTS,
        ),
        "threshold_file": Setting(
            "Threshold file",
            "A file made by the command tribunal fit. What it doesn't accept, dismissals too, is uncertain.",
            "none",
            _COURTS,
        ),
    },
    "Review": {
        "review": Setting(
            "Review",
            "Stop for a person when the verdict is uncertain, the model refused, or `review_rule` names the case.",
            "off",
            _HYBRID,
        ),
        "review_rule": Setting(
            "Cases to review",
            "Which other cases a person sees: hateful, all, or categories of the policy by name.",
            "no others",
            _HYBRID,
        ),
    },
    "Budget": {
        "max_calls": Setting(
            "Budget (requests)",
            "How many requests a post may cost. When they are spent, the judge decides on what is there.",
            "no limit",
            _but("baseline"),
        ),
        "max_tokens": Setting(
            "Budget (tokens)",
            "How many tokens, in and out, a post may cost. When they are spent, the judge decides on what is there. "
            "self_consistency makes no draw that would cost more, and symmetric_debate holds no such round.",
            "no limit",
            _but("baseline"),
        ),
    },
    "Limits": {
        "max_text": Setting("Longest post (characters)", "How many characters a post may have.", "131072"),
        "image_edge": Setting(
            "Image edge (pixels)", "To how many pixels the longer edge of an image is scaled down.", "1024"
        ),
        "max_output_tokens": Setting("Longest answer (tokens)", "How many tokens one answer may have.", "2048"),
        "timeout": Setting("Time for a request (seconds)", "How many seconds one request may take.", "120"),
        "attempts": Setting(
            "Attempts", "How often a request is sent at most, when it fails for a passing reason.", "4"
        ),
    },
    "Technical": {
        "cache": Setting("Cache", "A SQLite file of answers. A call that was made before is answered from it.", "none"),
        "repeat": Setting(
            "Repeat", "Which repeat of a run this is. The cache answers a call only within its repeat.", "0"
        ),
        "trace": Setting("Trace", "Stream every prompt and raw answer as custom events.", "off"),
        "stops": Setting(
            "Stops",
            "Stop before these agents are asked, and show the whole prompt: names of nodes, such as defend, or of "
            "seats, such as defender; all: every agent. Only where a run can be gone on with: in Studio, on langgraph "
            "dev, or with a checkpointer of your own.",
            "none",
        ),
    },
}
SETTINGS = {name: each for section in SECTIONS.values() for name, each in section.items()}
# What a setting was called, and is called now.
RENAMED = {
    "samples": "draws",
    "judge_samples": "judge_draws",
    "sample_temperature": "draw_temperature",
    "draw": "repeat",
    "record": "archive",
}


def description(name: str) -> str:
    """A setting as Studio, the command line and the docs describe it: who heeds it, what it does, its default."""
    each = SETTINGS[name]
    return " ".join(filter(None, [heeded(each.graphs), each.does, f"Default: {each.default}."]))


def heeded(graphs: tuple[str, ...]) -> str:
    """Which graphs heed a setting, as a sentence; empty where every graph does."""
    if not graphs:
        return ""
    others = _but(*graphs)
    if len(others) < len(graphs):
        return f"Every graph but {listed(others)}."
    return f"{listed(graphs)} only."


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: `a`; `a and b`; `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
