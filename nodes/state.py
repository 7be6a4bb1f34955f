"""The channels that agents read and write, what each holds in words for Studio, and how a node reads them.

State is plain JSON throughout: what a person edits in Studio is what a node reads. `Like` names the model behind it.
LangGraph merges a channel by the function that its annotation ends with.
"""

# Annotations are not put off here: LangGraph reads those of a state for each of its nodes, and each time evaluates what
# was put off.
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, get_args, get_type_hints

from langgraph.runtime import Runtime
from pydantic import ConfigDict, JsonValue, with_config
from typing_extensions import TypedDict

from tribunal.core.calls import Call
from tribunal.errors import CallFailed, ModelError, Refused
from tribunal.events import (
    Absence,
    Ballot,
    Dropout,
    FoundPage,
    Judgement,
    Message,
    Named,
    NamedPrompts,
    PageNote,
    PerspectiveBrief,
    Plan,
    ReadPage,
    Round,
    Target,
    Terms,
)
from tribunal.models.ask import Answer
from tribunal.nodes.channels import Like, PostChannel, merge, merge_messages, read_as, says, union
from tribunal.schema import (
    JSON,
    Cue,
    Evidence,
    Example,
    Failure,
    Opinion,
    Outcome,
    Post,
    Precedent,
    Refusal,
    Review,
    Saving,
    Scheme,
    Track,
    Trial,
    Turn,
)
from tribunal.settings.context import Context

if TYPE_CHECKING:
    from tribunal.typed_names import (
        CallData,
        CueData,
        EvidenceData,
        OpinionData,
        OutcomeData,
        PostData,
        PrecedentData,
        TurnData,
    )
else:
    CallData = CueData = EvidenceData = OpinionData = OutcomeData = PostData = PrecedentData = (
        TurnData
    ) = JSON

# The run that a node is in: its settings, and whoever watches it.
CaseRuntime: TypeAlias = Runtime[Context]

# What Studio, and a reader of a graph's schemas, may try first.
_EXAMPLES: list[JsonValue] = [
    {"text": "Immigrants: the weeds in our garden."},
    {"text": "Good morning, everybody.", "language": "en"},
]


_Text = Annotated[
    str,
    says(
        "The words of the post, exactly as they were posted.",
        examples=["Immigrants: the weeds in our garden.", "Good morning, everybody."],
    ),
]
_PostId = Annotated[
    str | None, says("What to call the post; empty: an id made from what it holds.")
]
_Language = Annotated[
    str | None, says("The language it is written in, such as en or ko, where that is known.")
]
_Earlier = Annotated[
    list[str] | None,
    says(
        "Earlier posts of the conversation, the oldest first. Every seat reads them to understand the post; none of "
        "them is decided on."
    ),
]
_Appeal = Annotated[
    dict[str, Any] | None,
    says(
        "What is said against an earlier verdict on the post: `reason`, and `context`, what is new. Every seat but the "
        "gatekeeper reads it."
    ),
]


@with_config(ConfigDict(json_schema_extra={"examples": _EXAMPLES}))
class PostInput(TypedDict, total=False):
    """The input of a graph: a text, an image, or both."""

    text: Annotated[_Text, PostChannel(_Text)]
    image: Annotated[
        str | None,
        says(
            "Its image: an https address, a data URI, or a path, where the server's operator allows it."
        ),
    ]
    post_id: Annotated[_PostId, PostChannel(_PostId)]
    language: Annotated[_Language, PostChannel(_Language)]
    earlier: Annotated[_Earlier, PostChannel(_Earlier)]
    appeal: Annotated[_Appeal, PostChannel(_Appeal)]
    messages: Annotated[
        list[JSON] | None,
        Like(
            list[Message] | None,
            "A conversation, as chat front ends keep it: its last message is the post. Leave it out where text is "
            "given.",
        ),
        merge_messages,
    ]


SchemeTaken = Annotated[
    str, Like(Scheme, "Which labels there are. fine: the policy's. binary: hateful or not.")
]
Passages = Annotated[
    list[EvidenceData],
    Like(list[Evidence], "Passages, each with its source and which way it speaks of the post."),
]
Opinions = Annotated[
    list[OpinionData], Like(list[Opinion], "The stance and the reason of each perspective.")
]


class CaseState(PostInput, total=False):
    """The state of a case. Every channel is plain JSON; the models behind it are those of `tribunal.schema`."""

    post: Annotated[
        PostData,
        Like(Post, "The post as it was taken in: its id, its words, its image, its language."),
    ]
    context: Annotated[
        JSON,
        Like(
            Terms,
            "What the case began with and keeps: the settings by name, and the texts of the policy, prompts and files "
            "that they name. Edit it to change them.",
        ),
    ]
    policy: Annotated[
        JSON, Like(Named, "The policy in force, by its name and the hash of its words.")
    ]
    prompts: Annotated[
        JSON,
        Like(NamedPrompts, "The set of prompts in force, by its name and the hash of its words."),
    ]
    reading: Annotated[
        str,
        says(
            "The post's text with disguised letters written plainly, by rules; empty where none is disguised."
        ),
    ]
    scan: Annotated[
        list[CueData],
        Like(
            list[Cue],
            "The explicit cues that the gatekeeper found. With one, the post takes the fast track; else the deep dive.",
        ),
    ]
    cues: Annotated[
        list[CueData] | None,
        Like(
            list[Cue] | None,
            "The cues that the prosecution brought. null: the court hasn't come to them; none: it dismissed the case.",
        ),
    ]
    transcript: Annotated[
        list[TurnData],
        Like(
            list[Turn],
            "Every turn, in the order in which they were spoken. A turn of an id that is there takes that one's place.",
        ),
        merge,
    ]
    round: Annotated[int, says("The round of the debate that is under way; 0 before the first.")]
    track: Annotated[
        str | None,
        Like(
            Track | None, "Which way the post took through the graph; null until that is decided."
        ),
    ]
    calls: Annotated[
        list[CallData], Like(list[Call], "Every call to a model, with what it cost."), merge
    ]
    warnings: Annotated[list[str], says("What a reader of the verdict should know."), union]
    budget_spent: Annotated[
        bool, says("Whether the budget is spent, so that nobody but the judge is asked any more.")
    ]
    outcome: Annotated[
        OutcomeData | None,
        Like(
            Outcome | None,
            "How the case ended: a verdict, a refusal or a failure; null while it is open.",
        ),
    ]
    # The exhibits: what the court is shown beside the post, from pieces that ran before it. It only reads them, so they
    # are merged where they are written (`Panel`, `Research`): a channel that merges costs every step of every graph.
    evidence: Passages
    opinions: Opinions
    precedents: Annotated[
        list[PrecedentData],
        Like(
            list[Precedent],
            "The cases that people decided which are most like the post, each with what was decided and why.",
        ),
    ]
    question: Annotated[
        str | None,
        says("What a reviewer asked when they sent the case back; null where nobody did."),
    ]
    early_exit: Annotated[
        bool,
        says("Whether a deep dive ends once no cue is in dispute, where the settings don't say."),
    ]
    policy_examples: Annotated[
        bool,
        says("Whether who decides is shown the policy's examples, where the settings don't say."),
    ]
    saved: Annotated[list[JSON], Like(list[Saving], "The calls that shortcuts spared.")]
    reserved: Annotated[
        int,
        says("Calls of the budget that are left to agents who speak at the same time or later."),
    ]
    budget_from: Annotated[
        int,
        says(
            "From which call on the budget counts: a trial that a reviewer asked for has its own."
        ),
    ]


class SeatState(TypedDict, total=False):
    """What each of several seats that are asked at once is sent of a case (`case_for_seat`)."""

    post: JSON
    context: JSON
    prompts: JSON | None


class PanelState(CaseState, total=False):
    """The state of a case that hears perspectives (PREDICT). `examples` and `absent` go by perspective."""

    panel: Annotated[
        list[JSON],
        Like(list[PerspectiveBrief], "The perspectives, and the criterion of each."),
    ]
    examples: Annotated[
        JSON,
        Like(
            dict[str, list[Example]],
            "The labelled texts nearest to the post, by the perspective's name.",
        ),
    ]
    opinions: Annotated[Opinions, merge]
    absent: Annotated[
        list[JSON], Like(list[Absence], "The perspectives that failed, and why."), merge
    ]
    scheme: SchemeTaken


class ResearchState(CaseState, total=False):
    """The state of a case that looks things up (AntiHateAgent). Pages lie in the archive; here are only their ids."""

    scheme: SchemeTaken
    run: Annotated[str, says("Under which id the archive keeps this research.")]
    turn: Annotated[int, says("The turn of searching that is under way; 0 before the first.")]
    started: Annotated[float, says("When the research began, in seconds since 1970.")]
    queries: Annotated[list[str], says("The search queries of this turn.")]
    tried: Annotated[
        list[str], says("Every query, and every page by its address, that was tried."), union
    ]
    hits: Annotated[list[JSON], Like(list[FoundPage], "What the searches of this turn found.")]
    pending: Annotated[
        list[JSON], Like(list[Target], "The pages of this turn that are still to be read.")
    ]
    crawl: Annotated[
        str | None, says("Which fetching of pages is under way, by its id; null where none is.")
    ]
    read_pages: Annotated[
        list[JSON],
        Like(
            list[ReadPage], "Pages of this turn that were read, and that no judgement has weighed."
        ),
    ]
    page: Annotated[JSON | None, Like(PageNote | None, "The page that was read last.")]
    pages: Annotated[
        list[JSON],
        Like(list[PageNote], "Every page that was tried. The archive has their texts."),
        merge,
    ]
    evidence: Annotated[Passages, merge]
    plans: Annotated[
        list[JSON],
        Like(list[Plan], "What was thought before each turn, and has to be verified."),
        merge,
    ]
    judgements: Annotated[
        list[JSON],
        Like(list[Judgement], "What the evidence says, page after page, and why."),
        merge,
    ]
    exhausted: Annotated[
        bool, says("Whether the model had no further query, which ends the research.")
    ]
    sufficient: Annotated[
        bool | None, says("Whether the evidence was found enough; null until that was asked.")
    ]
    missing: Annotated[str, says("What is still to be found out.")]


class Case(PanelState, ResearchState, total=False):
    """The state with every channel of every piece: the state of the hybrid court, and of a custom pipeline."""

    review: Annotated[
        JSON | None, Like(Review | None, "What a person made of the case; null where none has yet.")
    ]
    trials: Annotated[
        list[JSON],
        Like(list[Trial], "Earlier trials, which a person sent back with a question."),
        merge,
    ]


class Views(CaseState, total=False):
    """The state of a debate of views or of equals (MV-Debate, its peers)."""

    scheme: SchemeTaken
    debate: Annotated[
        list[JSON],
        Like(
            list[Round | Ballot],
            "Each round: answers, scores, who fell out; and how a vote was cast.",
        ),
        merge,
    ]
    dropped: Annotated[
        list[JSON],
        Like(list[Dropout], "Who fell out of which round, at which stage, and why."),
        merge,
    ]


@functools.cache
def channel_hints() -> dict[str, Any]:
    """Return the annotation of each channel that a graph of ours has."""
    return get_type_hints(Views, include_extras=True) | get_type_hints(Case, include_extras=True)


@functools.cache
def channel_forms() -> dict[str, Any]:
    """Return, for each channel that a graph of ours has, the type that nodes read it as."""
    forms = {}
    for channel, hint in channel_hints().items():
        plain, *said = get_args(hint)
        forms[channel] = next((each.form for each in said if isinstance(each, Like)), plain)
    return forms


def read_channel(state: Mapping[str, Any], channel: str) -> Any:
    """Return the value of a channel of a case, in its form. Raises `WrongState` if it has another form."""
    return read_as(channel_forms()[channel], channel, state.get(channel))


def post_of(state: CaseState) -> Post:
    """Return the post of a case. Raises as `read_channel`."""
    return cast("Post", read_channel(state, "post"))


def transcript_of(state: CaseState) -> list[Turn]:
    """Return the turns so far, in the order in which they were spoken. Raises as `read_channel`."""
    return read_channel(state, "transcript") if "transcript" in state else []


def cues_in(state: CaseState) -> list[Cue]:
    """Return the cues that were brought, none where the court hasn't come to them. Raises as `read_channel`."""
    return read_channel(state, "cues") or []


def opinions_of(state: CaseState) -> list[Opinion]:
    """Return the perspectives' opinions, in the order of their names. Raises as `read_channel`."""
    return read_channel(state, "opinions") if "opinions" in state else []


def precedents_of(state: CaseState) -> list[Precedent]:
    """Return the decided cases that were brought before the court, the most similar first. Raises as `read_channel`."""
    return read_channel(state, "precedents") if "precedents" in state else []


def last_turn(state: CaseState, seat: str, round: int) -> Turn | None:
    """Return a seat's turn in a round of the debate, if it spoke. Raises as `read_channel`."""
    return next(
        (turn for turn in transcript_of(state) if (turn.seat, turn.round) == (seat, round)), None
    )


def outcome_of(fault: ModelError) -> JSON:
    """Return the outcome that a seat's fault is."""
    where = {
        "seat": fault.seat,
        "role": fault.role,
        "model": fault.model,
        "explanation": str(fault),
    }
    if isinstance(fault, Refused):
        return Refusal(**where, form=fault.form).dump()
    kind = fault.kind if isinstance(fault, CallFailed) else "unknown"
    return Failure(**where, error=kind).dump()


def log_of_fault(fault: ModelError, *warnings: str) -> JSON:
    """Return the update that logs the calls of a seat that gave no answer, with these warnings beside its own."""
    return {"calls": list(fault.calls), "warnings": [*fault.warnings, *warnings]}


def case_for_seat(state: Mapping[str, Any], *channels: str) -> JSON:
    """Return what each of several seats that are asked at once is sent of a case, these channels included."""
    return {name: state.get(name) for name in ("post", "context", "prompts", *channels)}


def write_turn(
    answer: Answer[Any],
    runtime: CaseRuntime,
    seat: str,
    stage: Any,
    round: int,
    *,
    id: str = "",
    warnings: Sequence[str] = (),
    **said: Any,
) -> JSON:
    """Stream a turn to whoever watches, and return the update that writes it, with the log of its call.

    Args:
        answer: the answer that the turn was made of.
        runtime: that of the run.
        seat: who speaks.
        stage: at which stage, as `Turn.stage`.
        round: in which round.
        id: the turn's, where the seat speaks more than once in a round.
        warnings: warnings that aren't in the answer's log.
        **said: the other fields of `Turn`.
    """
    turn = Turn(id=id or f"{seat}/{round}", seat=seat, stage=stage, round=round, **said).dump()
    runtime.stream_writer({"event": "turn", **turn})
    return {"transcript": [turn], **answer.log, "warnings": [*answer.log["warnings"], *warnings]}
