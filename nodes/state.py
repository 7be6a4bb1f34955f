"""The channels that agents read and write, and how a node takes part in a case.

State is plain JSON throughout: what a person edits in Studio is what a node reads.
"""

# Annotations are not put off here: LangGraph reads those of a state for each of its nodes, and each time evaluates what
# was put off.
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from langgraph.runtime import Runtime
from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

from tribunal.context import Context, context_of
from tribunal.errors import CallFailed, ModelError, Refused, WrongState
from tribunal.models.ask import Answer
from tribunal.nodes import channels as ch
from tribunal.nodes.channels import merge, union
from tribunal.nodes.chat import joined
from tribunal.nodes.state_check import Forms, find_wrong_outcome, forms_of, read_as
from tribunal.schema import JSON, Cue, Failure, Opinion, Post, Precedent, Refusal, Turn
from tribunal.telling import tell

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


@functools.cache
def channel_forms() -> Forms:
    """Return the form of each channel that a graph of ours has, by its name."""
    return forms_of(Case, Views)


def read_channel(state: Mapping[str, Any], channel: str) -> Any:
    """Return what a channel of a case holds, in its form. Raises `WrongState` if it holds something else."""
    return read_as(channel_forms()[channel], channel, state.get(channel))


def post_of(state: Court) -> Post:
    """Return the post of a case. Raises as `read_channel`."""
    return cast("Post", read_channel(state, "post"))


def transcript_of(state: Court) -> list[Turn]:
    """Return the turns so far, in the order in which they were spoken. Raises as `read_channel`."""
    return read_channel(state, "transcript") if "transcript" in state else []


def cues_in(state: Court) -> list[Cue]:
    """Return the cues that were brought, none where the court hasn't come to them. Raises as `read_channel`."""
    return read_channel(state, "cues") or []


def opinions_of(state: Court) -> list[Opinion]:
    """Return what the perspectives said, in the order of their names. Raises as `read_channel`."""
    return read_channel(state, "opinions") if "opinions" in state else []


def precedents_of(state: Court) -> list[Precedent]:
    """Return the decided cases that were brought before the court, the most similar first. Raises as `read_channel`."""
    return read_channel(state, "precedents") if "precedents" in state else []


def last_turn(state: Court, seat: str, round: int) -> Turn | None:
    """Return what a seat said in a round of the debate, if it spoke. Raises as `read_channel`."""
    return next((turn for turn in transcript_of(state) if (turn.seat, turn.round) == (seat, round)), None)


def closed(state: Court) -> bool:
    """Return whether the case has its outcome, so that nobody has anything to add.

    Raises:
        WrongState: the outcome is none, or the policy in force doesn't have it.
    """
    if state.get("outcome") is not None and (fault := find_wrong_outcome(state, context_of(state))):
        raise WrongState(fault)
    return state.get("outcome") is not None


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
