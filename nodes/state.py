"""The channels that agents read and write, and how a node takes part in a case.

State is plain JSON throughout: what a person edits in Studio is what a node reads.
"""

# Annotations are not put off here: LangGraph reads those of a state for each of its nodes, and each time evaluates what
# was put off.
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar, cast

from langgraph.runtime import Runtime
from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

from tribunal.context import Context, overruled
from tribunal.errors import BudgetSpent, CallFailed, ModelError, Refused
from tribunal.models.ask import Answer
from tribunal.nodes import channels as ch
from tribunal.nodes.chat import answered, joined
from tribunal.nodes.functions import node as node_function
from tribunal.rehearsed import rehearsed
from tribunal.schema import JSON, Cue, Failure, Opinion, Post, Precedent, Refusal, Turn
from tribunal.telling import tell


def merge(held: list[JSON], new: list[JSON]) -> list[JSON]:
    """Append what is new and replace what has an `id` already held.

    So a subgraph may hand back what its parent holds, and a turn edited in Studio stands in the place of the old one.
    """
    return list({entry["id"]: entry for entry in (*held, *new)}.values()) if new else held


def union(held: list[str], new: list[str]) -> list[str]:
    """Append what isn't held yet."""
    return list(dict.fromkeys([*held, *new]))


# What Studio, and a reader of a graph's schemas, may try first.
_EXAMPLES: list[JsonValue] = [
    {"text": "Immigrants: the weeds in our garden."},
    {"text": "Good morning, everybody.", "language": "en"},
]


@with_config(ConfigDict(json_schema_extra={"examples": _EXAMPLES}))
class PostInput(TypedDict, total=False):
    """What a graph takes: a text, an image, or both."""

    text: Annotated[
        str,
        Field(
            description="The words of the post, exactly as they were posted.",
            examples=["Immigrants: the weeds in our garden.", "Good morning, everybody."],
        ),
    ]
    image: Annotated[
        str | None,
        Field(description="Its image: a web address, a data URI, or a path, where the server's operator allows it."),
    ]
    post_id: Annotated[str | None, Field(description="What to call the post; empty: an id made from what it holds.")]
    language: Annotated[
        str | None, Field(description="The language it is written in, such as en or ko, where that is known.")
    ]
    earlier: Annotated[
        list[str] | None,
        Field(
            description="Earlier posts of the conversation, the oldest first. Every seat reads them to understand the "
            "post; none of them is decided on."
        ),
    ]

    appeal: Annotated[
        dict[str, Any] | None,
        Field(
            description="What is said against an earlier verdict on the post: `reason`, and `context`, what is new. "
            "Every seat but the gatekeeper reads it."
        ),
    ]

    messages: Annotated[ch.Messages, joined]


class Court(PostInput, total=False):
    """The state of a case. Every channel is plain JSON; the models behind it are those of `tribunal.schema`."""

    post: ch.PostTaken
    context: ch.Began
    policy: ch.PolicyNamed
    prompts: ch.PromptsNamed
    scan: ch.Scan
    cues: ch.Cues
    transcript: Annotated[ch.Transcript, merge]
    round: ch.RoundNumber
    track: ch.TrackTaken
    calls: Annotated[ch.Calls, merge]
    warnings: Annotated[ch.Warnings, union]
    budget_spent: ch.BudgetSpent
    outcome: ch.Ending
    # The exhibits: what the court is shown beside the post, from pieces that ran before it. It only reads them, so they
    # are merged where they are written (`Panel`, `Research`): a channel that merges costs every step of every graph.
    evidence: ch.Passages
    opinions: ch.Opinions
    precedents: ch.PrecedentsBrought
    question: ch.Question
    early_exit: ch.EarlyExit
    saved: ch.Saved
    reserved: ch.Reserved
    budget_from: ch.BudgetFrom


class Panel(Court, total=False):
    """The state of a case that hears perspectives (PREDICT). `examples` and `absent` go by perspective."""

    panel: ch.PanelSeated
    examples: ch.Examples
    opinions: Annotated[ch.Opinions, merge]
    absent: Annotated[ch.Absent, merge]
    scheme: ch.SchemeTaken


class Log(TypedDict, total=False):
    """What every graph gives back: what was asked of models, and what the reader should know."""

    calls: ch.Calls
    warnings: ch.Warnings


class Decided(Log, total=False):
    """What every graph that decides gives back besides."""

    post: ch.PostTaken
    policy: ch.PolicyNamed
    prompts: ch.PromptsNamed
    outcome: ch.Ending
    messages: ch.Messages


class PerspectivesOutput(Log, total=False):
    """What `perspectives` gives back to the graph that heard them."""

    panel: ch.PanelSeated
    opinions: ch.Opinions
    absent: ch.Absent
    budget_spent: ch.BudgetSpent


class PredictOutput(Decided, total=False):
    """What `predict` gives back."""

    track: ch.TrackTaken
    transcript: ch.Transcript
    opinions: ch.Opinions
    absent: ch.Absent
    scheme: ch.SchemeTaken


class Research(Court, total=False):
    """The state of a case that looks things up (AntiHateAgent). Pages lie in the archive; here are only their ids."""

    scheme: ch.SchemeTaken
    run: ch.RunNamed
    turn: ch.TurnNumber
    started: ch.Started
    queries: ch.Queries
    tried: Annotated[ch.Tried, union]
    hits: ch.Hits
    pending: ch.Pending
    crawl: ch.Crawl
    page: ch.PageRead
    pages: Annotated[ch.Pages, merge]
    evidence: Annotated[ch.Passages, merge]
    plans: Annotated[ch.Plans, merge]
    judgements: Annotated[ch.Judgements, merge]
    exhausted: ch.Exhausted
    sufficient: ch.Sufficient
    missing: ch.Missing


class WebOutput(Log, total=False):
    """What a look at the web gives back to the court that sent for it."""

    run: ch.RunNamed
    turn: ch.TurnNumber
    tried: ch.Tried
    pages: ch.Pages
    evidence: ch.Passages
    plans: ch.Plans
    judgements: ch.Judgements
    sufficient: ch.Sufficient


class ResearchOutput(WebOutput, Decided, total=False):
    """What `antihate` gives back."""

    track: ch.TrackTaken
    scheme: ch.SchemeTaken


class Case(Panel, Research, total=False):
    """The state with every channel of every piece: that of the hybrid court, and of a pipeline of one's own."""

    first_look: ch.FirstLookNamed
    review: ch.Reviewed
    trials: Annotated[ch.Trials, merge]


class Views(Court, total=False):
    """The state of a debate of views or of equals (MV-Debate, its peers). `dropped`: who fell out of which round."""

    scheme: ch.SchemeTaken
    debate: Annotated[ch.Debate, merge]
    dropped: Annotated[ch.Dropped, merge]


class RoundOutput(Log, total=False):
    """What a round of MV-Debate gives back."""

    round: ch.RoundNumber
    debate: ch.Debate
    dropped: ch.Dropped
    transcript: ch.Transcript
    budget_spent: ch.BudgetSpent
    outcome: ch.Ending
    messages: ch.Messages


class DebateOutput(Decided, total=False):
    """What `mv_debate` and its peers give back."""

    scheme: ch.SchemeTaken
    round: ch.RoundNumber
    debate: ch.Debate
    dropped: ch.Dropped
    transcript: ch.Transcript


class TrackOutput(Log, total=False):
    """What a track gives back to the court that held it."""

    cues: ch.Cues
    transcript: ch.Transcript
    round: ch.RoundNumber
    track: ch.TrackTaken
    saved: ch.Saved
    budget_spent: ch.BudgetSpent
    outcome: ch.Ending
    messages: ch.Messages


class ArguedOutput(Log, total=False):
    """What the debate of a panel gives back to the court that held it."""

    transcript: ch.Transcript
    budget_spent: ch.BudgetSpent
    outcome: ch.Ending
    messages: ch.Messages


class CourtOutput(Decided, total=False):
    """What `arcade` and `multiround` give back."""

    track: ch.TrackTaken
    round: ch.RoundNumber
    transcript: ch.Transcript
    cues: ch.Cues
    saved: ch.Saved


class BaselineOutput(CourtOutput, total=False):
    """What `baseline` gives back."""

    scheme: ch.SchemeTaken


class Ruling(CourtOutput, WebOutput, total=False):
    """What `tribunal` gives back, and a pipeline of one's own."""

    opinions: ch.Opinions
    precedents: ch.PrecedentsBrought
    absent: ch.Absent
    first_look: ch.FirstLookNamed
    review: ch.Reviewed
    trials: ch.Trials


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


def precedents_of(state: Court) -> list[Precedent]:
    """The decided cases that were brought before the court, the most similar first."""
    return [Precedent.model_validate(each) for each in state.get("precedents", [])]


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
        said = overruled(state, runtime)
        try:
            update = await node(state, runtime)
            return {**update, "warnings": [*update.get("warnings", ()), *said]} if said else update
        except BudgetSpent as spent:
            return {"budget_spent": True, "calls": list(spent.calls), "warnings": [str(spent)]}
        except ModelError as fault:
            heard = rehearsed([*state.get("calls", ()), *fault.calls], state.get("warnings", ()))
            outcome = {**outcome_of(fault), "rehearsed": heard}
            tell(runtime, {"event": "outcome", **outcome})
            log = {"calls": list(fault.calls), "warnings": list(fault.warnings)}
            return {"outcome": outcome, **answered(state, outcome), **log}

    return cast("Node", node_function(take_part))


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
    tell(runtime, {"event": "turn", **said})
    return {"transcript": [said], **answer.log, "warnings": [*answer.log["warnings"], *warnings]}
