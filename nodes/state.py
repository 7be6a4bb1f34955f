"""The channels that agents read and write, and how a node takes part in a case.

State is plain JSON throughout: what a person edits in Studio is what a node reads.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar, cast

from langgraph.runtime import Runtime
from pydantic import Field
from typing_extensions import TypedDict

from tribunal.context import Context
from tribunal.errors import BudgetSpent, CallFailed, ModelError, Refused
from tribunal.models.ask import Answer
from tribunal.schema import JSON, Cue, Failure, Opinion, Post, Refusal, Turn


def merge(held: list[JSON], new: list[JSON]) -> list[JSON]:
    """Append what is new and replace what has an `id` already held.

    So a subgraph may hand back what its parent holds, and a turn edited in Studio stands in the place of the old one.
    """
    known = {entry["id"]: entry for entry in held}
    known.update((entry["id"], entry) for entry in new)
    return list(known.values())


def union(held: list[str], new: list[str]) -> list[str]:
    """Append what isn't held yet."""
    return list(dict.fromkeys([*held, *new]))


class PostInput(TypedDict, total=False):
    """What a graph takes: a text, an image, or both."""

    text: Annotated[str, Field(description="The words of the post.")]
    image: Annotated[str | None, Field(description="Its image: a path or a data URI.")]
    post_id: Annotated[str | None, Field(description="What to call the post; empty: an id made from what it holds.")]
    language: Annotated[
        str | None, Field(description="The language it is written in, such as en or ko, where that is known.")
    ]


class Court(PostInput, total=False):
    """The state of a case. Every channel is plain JSON; the models behind it are those of `tribunal.schema`."""

    post: JSON
    policy: JSON
    prompts: JSON
    scan: list[JSON]
    cues: list[JSON] | None
    transcript: Annotated[list[JSON], merge]
    round: int
    track: str | None
    calls: Annotated[list[JSON], merge]
    warnings: Annotated[list[str], union]
    budget_spent: bool
    outcome: JSON | None
    # The exhibits: what the court is shown beside the post, from pieces that ran before it. It only reads them, so they
    # are merged where they are written (`Panel`, `Research`): a channel that merges costs every step of every graph.
    evidence: list[JSON]
    opinions: list[JSON]
    question: str | None
    early_exit: bool
    saved: list[JSON]
    reserved: int
    budget_from: int


class Panel(Court, total=False):
    """The state of a case that hears perspectives (PREDICT). `examples` and `absent` go by perspective."""

    panel: list[JSON]
    examples: JSON
    opinions: Annotated[list[JSON], merge]
    absent: Annotated[list[JSON], merge]
    scheme: str


class Log(TypedDict, total=False):
    """What every graph gives back: what was asked of models, and what the reader should know."""

    calls: list[JSON]
    warnings: list[str]


class Decided(Log, total=False):
    """What every graph that decides gives back besides."""

    post: JSON
    policy: JSON
    prompts: JSON
    outcome: JSON


class PerspectivesOutput(Log, total=False):
    """What `perspectives` gives back to the graph that heard them."""

    panel: list[JSON]
    opinions: list[JSON]
    absent: list[JSON]
    budget_spent: bool


class PredictOutput(Decided, total=False):
    """What `predict` gives back."""

    track: str | None
    transcript: list[JSON]
    opinions: list[JSON]
    absent: list[JSON]
    scheme: str


class Research(Court, total=False):
    """The state of a case that looks things up (AntiHateAgent). Pages lie in the archive; here are only their ids."""

    scheme: str
    run: str
    turn: int
    started: float
    queries: list[str]
    tried: Annotated[list[str], union]
    hits: list[JSON]
    pending: list[JSON]
    crawl: str | None
    page: JSON | None
    pages: Annotated[list[JSON], merge]
    evidence: Annotated[list[JSON], merge]
    plans: Annotated[list[JSON], merge]
    judgements: Annotated[list[JSON], merge]
    exhausted: bool
    sufficient: bool | None
    missing: str


class WebOutput(Log, total=False):
    """What a look at the web gives back to the court that sent for it."""

    run: str
    turn: int
    tried: list[str]
    pages: list[JSON]
    evidence: list[JSON]
    plans: list[JSON]
    judgements: list[JSON]
    sufficient: bool | None


class ResearchOutput(WebOutput, Decided, total=False):
    """What `antihate` gives back."""

    track: str | None
    scheme: str


class Case(Panel, Research, total=False):
    """The state with every channel of every piece: that of the hybrid court, and of a pipeline of one's own."""

    review: JSON | None
    trials: Annotated[list[JSON], merge]


class Views(Court, total=False):
    """The state of a debate of views or of equals (MV-Debate, its peers). `dropped`: who fell out of which round."""

    scheme: str
    debate: Annotated[list[JSON], merge]
    dropped: Annotated[list[JSON], merge]


class RoundOutput(Log, total=False):
    """What a round of MV-Debate gives back."""

    round: int
    debate: list[JSON]
    dropped: list[JSON]
    transcript: list[JSON]
    budget_spent: bool
    outcome: JSON | None


class DebateOutput(Decided, total=False):
    """What `mv_debate` and its peers give back."""

    scheme: str
    round: int
    debate: list[JSON]
    dropped: list[JSON]
    transcript: list[JSON]


class TrackOutput(Log, total=False):
    """What a track gives back to the court that held it."""

    cues: list[JSON] | None
    transcript: list[JSON]
    round: int
    track: str | None
    saved: list[JSON]
    budget_spent: bool
    outcome: JSON | None


class CourtOutput(Decided, total=False):
    """What `arcade` and `multiround` give back."""

    track: str | None
    round: int
    transcript: list[JSON]
    cues: list[JSON] | None
    saved: list[JSON]


class BaselineOutput(CourtOutput, total=False):
    """What `baseline` gives back."""

    scheme: str


class Ruling(CourtOutput, WebOutput, total=False):
    """What `tribunal` gives back, and a pipeline of one's own."""

    opinions: list[JSON]
    absent: list[JSON]
    review: JSON | None
    trials: list[JSON]


Node = TypeVar("Node", bound=Callable[..., Awaitable[JSON]])


def post_of(state: Court) -> Post:
    return Post.model_validate(state["post"])


def transcript_of(state: Court) -> list[Turn]:
    """The turns so far, in the order in which they were spoken."""
    return [Turn.model_validate(turn) for turn in state.get("transcript", [])]


def cues_in(state: Court) -> list[Cue]:
    """The cues that were brought, none where the court hasn't come to them."""
    return [Cue.model_validate(cue) for cue in state.get("cues") or []]


def opinions_of(state: Court) -> list[Opinion]:
    """What the perspectives said, in the order of their names as they were asked for."""
    return [Opinion.model_validate(opinion) for opinion in state.get("opinions", [])]


def last_turn(state: Court, seat: str, round: int) -> Turn | None:
    """What a seat said in a round of the debate, if it spoke."""
    for turn in state.get("transcript", []):
        if turn["seat"] == seat and turn["round"] == round:
            return Turn.model_validate(turn)
    return None


def closed(state: Court) -> bool:
    """Whether the case has its outcome, so that nobody has anything to add."""
    return state.get("outcome") is not None


def agent(node: Node) -> Node:
    """A node that speaks in a case only while it is open, and whose faults end the case as the outcome they are.

    A refusal becomes a `Refusal` and a technical failure a `Failure`; both keep the log of every call. A spent
    budget leaves the seat silent, and the verdict says so.
    """

    @functools.wraps(node)
    async def take_part(state: Any, runtime: Runtime[Context]) -> JSON:
        if closed(state):
            return {}
        try:
            return await node(state, runtime)
        except BudgetSpent as spent:
            return {"budget_spent": True, "calls": list(spent.calls), "warnings": [str(spent)]}
        except ModelError as fault:
            outcome = outcome_of(fault)
            runtime.stream_writer({"event": "outcome", **outcome})
            return {"outcome": outcome, "calls": list(fault.calls), "warnings": list(fault.warnings)}

    return cast("Node", take_part)


def outcome_of(fault: ModelError) -> JSON:
    """The outcome that a seat's fault is."""
    where = {"seat": fault.seat, "role": fault.role, "model": fault.model, "explanation": str(fault)}
    if isinstance(fault, Refused):
        return Refusal(**where, form=fault.form).dump()
    kind = fault.kind if isinstance(fault, CallFailed) else "unknown"
    return Failure(**where, error=kind).dump()


def spoke(turn: Turn, answer: Answer[Any], runtime: Runtime[Context], warnings: Sequence[str] = ()) -> JSON:
    """A turn as it is streamed to whoever watches and written to the state, with the log of its call."""
    said = turn.dump()
    runtime.stream_writer({"event": "turn", **said})
    return {"transcript": [said], **answer.log, "warnings": [*answer.log["warnings"], *warnings]}
