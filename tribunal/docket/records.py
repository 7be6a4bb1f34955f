"""A post as a graph takes it, and the record of a case from the last state of its graph.

Whatever else than a case a state holds is told, and never passed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tribunal import __version__
from tribunal.core.calls import Usage, parts_shown, was_rehearsed
from tribunal.errors import BadInput, WrongState
from tribunal.graphs import GRAPHS, code_of
from tribunal.models.image import store_image
from tribunal.nodes.channels import find_wrong_channel
from tribunal.nodes.exhibits import find_citations
from tribunal.nodes.state import channel_forms
from tribunal.nodes.threshold import estimate_probability, parse_threshold, probability_by_person
from tribunal.nodes.verdict import describe_misfits, failure_of, find_wrong_outcome
from tribunal.process.files import hash_file
from tribunal.schema import JSON, Outcome, Post, Precedent, Record, Turn, without_former_fields
from tribunal.settings.contents import remember_text
from tribunal.settings.context import Context

# What a post is given by, to a graph and to the functions that judge it.
POST = ("text", "image", "post_id", "language", "earlier", "appeal")
# the stages that a round of debate is known by
_DEBATED = (
    "rebuttal",
    "opening",
    "response",
    "answer",
)
# The channels that a record reads. In others a graph of one's own may hold what it likes.
_LISTS = ("cues", "opinions", "calls", "evidence", "trials", "debate")
_FORMED = (
    "scheme", "track", "question", "review", "cues", "scan", "transcript", "calls", "warnings", "opinions", "evidence",
    "precedents", "saved", "trials",
)  # fmt: skip
_RESEARCH = ("run", "turn", "tried", "plans", "pages", "judgements", "sufficient")


class _Named(BaseModel):
    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str


_OUTCOME: TypeAdapter[Any] = TypeAdapter(Outcome, config=ConfigDict(defer_build=True))


async def graph_input(
    text: str | None = None,
    image: str | None = None,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    appeal: JSON | None = None,
) -> JSON:
    """Return a post as a graph is given it. An image that comes with it is kept in a file, so no checkpoint holds it.

    Raises:
        BadInput: the image is none.
    """
    if isinstance(image, str) and image.startswith("data:"):
        image = await store_image(image)
    # which `receive` refuses by name
    conversation = earlier if isinstance(earlier, str) else list(earlier)
    post: JSON = {
        "text": text or "", "image": image, "post_id": post_id, "language": language, "earlier": conversation,
    }  # fmt: skip
    return post if appeal is None else {**post, "appeal": appeal}


def make_record(state: JSON, graph: str, context: Context) -> Record:
    """Return the record of a case from the last state of its graph.

    A graph of one's own, or an edit, may leave an outcome that is none, or a channel that nobody can read. The case
    then ends in a failure that says so, and what can't be read is left out.

    Raises:
        WrongState: the state holds no post.
    """
    state = _readable_state(state, graph, context)
    outcome = state["outcome"]
    review = state.get("review")
    calls = state.get("calls") or []
    warnings = state.get("warnings") or ()
    unseen = state.get("unseen_calls") or 0
    if review and state.get("waits"):
        why = f"a person has to decide this case: {review['reason']}"
        court = review["court"]
        # by which reviewers sort what waits
        stated = {name: court.get(name) for name in ("confidence", "uncertain")}
        outcome = {"outcome": "pending", "explanation": why, **stated}
    kind = outcome["outcome"]
    shown = parts_shown(calls)
    fault = None
    # by a person, who was shown the policy
    edited = review is not None and review.get("action") == "edit"
    if kind in ("refusal", "failure"):
        fault = {name: outcome[name] for name in ("seat", "role", "model")}
        fault["kind"] = outcome.get("form") or outcome.get("error")
    turns = [Turn.model_validate(turn) for turn in state.get("transcript") or []]
    if unseen:
        told = "one call" if unseen == 1 else f"{unseen} calls"
        why = f"the graph made {told} to models by itself, past `ask`: no cost, budget or list of calls has them"
        warnings = (*warnings, why)
    return Record.model_validate({
        **{name: state.get(name) or () for name in _LISTS},
        **{name: outcome.get(name) for name in ("label", "category", "hateful", "confidence")},
        **{name: outcome.get(name) or () for name in ("votes", "steps", "clauses")},
        **{name: bool(outcome.get(name)) for name in ("tie", "uncertain")},
        "outcome": kind,
        "explanation": outcome["explanation"],
        "post_id": state["post"]["id"],
        "graph": graph,
        "task": context.task,
        "scheme": state.get("scheme") or context.scheme,
        "rehearsed": was_rehearsed(calls, state.get("warnings") or []),
        "track": state.get("track") or outcome.get("track"),
        "transcript": turns,
        "rounds": max((turn.round for turn in turns if turn.stage in _DEBATED), default=0),
        "fault": fault,
        "usage": Usage.from_calls(calls),
        "unseen_calls": unseen,
        "warnings": warnings,
        "shown": None if shown is None else [each for each in ("text", "image") if each in shown],
        "policy": state.get("policy") or {} if shown is None or "policy" in shown or edited else {},
        "prompts": state.get("prompts") or {},
        "protocol": protocol(state, graph),
        "language": state["post"].get("language"),
        "language_from": state["post"].get("language_from"),
        "image_sha256": (state["post"].get("image") or {}).get("sha256"),
        "precedents": _cited_precedents(state, outcome),
        "research": {name: state.get(name) for name in _RESEARCH} if "run" in state else None,
        "saved": _savings(state),
        "review": review or None,
        "thread": state.get("thread") or None,
        **_probability(state, outcome, graph, context, decided=bool(review and review.get("action"))),
    })  # fmt: skip


def _probability(
    state: JSON, outcome: JSON, graph: str, context: Context, *, decided: bool
) -> JSON:
    """Return the probability that the post is hate speech, and where it is from; nothing without a verdict on hate.

    Args:
        state: the case.
        outcome: what it came to.
        graph: that decided it.
        context: the settings of the run.
        decided: whether a person decided.
    """
    hateful = outcome.get("hateful")
    if outcome["outcome"] != "verdict" or hateful is None:
        return {}
    if decided:
        return probability_by_person(hateful)
    text = (state.get("context") or {}).get("threshold_file")
    fitted = None
    if context.threshold_file and isinstance(text, str):
        fitted = parse_threshold(text, context.threshold_file)
        if describe_misfits(
            fitted, graph, context, str((state.get("policy") or {}).get("sha", ""))
        ):
            fitted = None
    probability, source = estimate_probability(hateful, outcome.get("confidence"), fitted)
    return {"probability": probability, "probability_from": source}


def _savings(state: JSON) -> list[JSON]:
    """Return what shortcuts spared this post, the providers' prompt caches among them."""
    cached = sum(call["cached_tokens"] for call in state.get("calls") or [] if not call["cached"])
    how = "prompt tokens that the provider had in its cache"
    return [
        *(state.get("saved") or []),
        *([{"id": "prompt_cache", "tokens": cached, "how": how}] if cached else []),
    ]


def _cited_precedents(state: JSON, outcome: JSON) -> list[Precedent]:
    """Return the decided cases that the court was shown, each with who cited it: turns by their ids, and the judge."""
    brought = [Precedent.model_validate(each) for each in state.get("precedents") or []]
    if not brought:
        return []
    words = {
        turn["id"]: json.dumps(turn, ensure_ascii=False) for turn in state.get("transcript") or []
    }
    court = (state.get("review") or {}).get(
        "court"
    ) or outcome  # a person's own words cite nothing of the court's
    words["judge"] = (
        str(court.get("explanation") or "") if court.get("outcome") == "verdict" else ""
    )
    cited = {who: find_citations(text) for who, text in words.items()}
    return [
        each.without_words(tuple(who for who, ids in cited.items() if each.id in ids))
        for each in brought
    ]


# A state, checked


@cache
def _forms() -> dict[str, Any]:
    """Return the types of the channels that a record reads."""
    plain = dict.fromkeys(("context", "policy", "prompts"), JSON)
    formed = {name: channel_forms()[name] for name in _FORMED}
    return {"post": Post, **plain, **formed, "debate": list[JSON]}


def check_state(state: JSON) -> JSON:
    """Return the state of a case, every channel of which is what a node and a record read.

    Raises:
        ValueError: one is something else.
    """
    wrong = find_wrong_channel(state, _forms())
    if wrong:
        raise ValueError(wrong[1])
    if "policy" in state:
        _Named.model_validate(state["policy"])
    outcome = state.get("outcome")
    if outcome:
        _OUTCOME.validate_python(without_former_fields(outcome))
    review = state.get("review")
    if review:
        _OUTCOME.validate_python(without_former_fields(review["court"]))
    return state


def find_wrong_state(state: JSON, context: Context) -> tuple[str, str] | None:
    """Return why no record can be made of a case that has ended: the kind of failure, and a line; None if one can."""
    wrong = find_wrong_channel(state, _forms())
    if wrong:
        return "wrong_state", wrong[1]
    fault = find_wrong_outcome(state, context)
    return None if fault is None else ("wrong_outcome", fault)


def _readable_state(state: JSON, graph: str, context: Context) -> JSON:
    if not isinstance(state.get("post"), dict):
        raise WrongState(f"post: there is none; let the graph {graph} begin with `receive`")
    fault = find_wrong_state(state, context)
    if fault is None:
        return state
    kind, message = fault
    node = state.get("outcome_from") if kind == "wrong_outcome" else None
    where = f"node {node} of {graph}" if node else f"graph {graph}"
    read = dict(state)
    while wrong := find_wrong_channel(read, _forms()):
        if wrong[0] == "post":
            raise WrongState(wrong[1])
        del read[wrong[0]]
    return {**read, "outcome": failure_of(kind, f"{message} ({where})")}


# How a case was tried


def protocol(state: JSON, graph: str) -> str:
    """Return the hash of a case's protocol, whose text this process then knows: whoever has it can try the case again.

    The text is a JSON object: the program's version, the graph (of one's own with the hash of its code), the settings
    that were given, and the line-up and the threshold file that these name, whole. Policy and prompts have hashes of
    their own.
    """
    context: JSON = state.get("context") or {}
    held: JSON = {
        "tribunal": __version__,
        "graph": graph,
        "settings": context.get("settings") or {},
    }
    held |= {
        name: context[name]
        for name in ("line_up", "threshold_file")
        if context.get(name) is not None
    }
    if graph not in GRAPHS:
        held["code_sha256"] = _hash_of_code(graph)
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    sha = hashlib.sha256(text.encode()).hexdigest()[:16]
    remember_text("protocol", sha, text)
    return sha


def _hash_of_code(graph: str) -> str | None:
    try:
        hashes = [_hash_of_file(path, path.stat().st_mtime_ns) for path in code_of(graph).values()]
    except (OSError, BadInput):
        return None
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


@lru_cache(maxsize=512)
def _hash_of_file(path: Path, stamp: int) -> str:
    return hash_file(path)
