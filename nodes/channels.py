"""The channels of a case in words, and what each holds: Studio shows both beside the value.

In the state a value is plain JSON. `Like` names the model that a node reads it as, so that the JSON schema of a channel
is that of the model, and nothing is checked or made of the value by it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema

from tribunal.channel_data import CallData, CueData, EvidenceData, OpinionData, PostData, PrecedentData, TurnData
from tribunal.errors import WrongState
from tribunal.notes import (
    Absence,
    Ballot,
    Dropout,
    Found,
    Heard,
    Judgement,
    Message,
    Named,
    PageNote,
    Plan,
    Round,
    Target,
    Terms,
)
from tribunal.schema import (
    JSON,
    Call,
    Cue,
    Evidence,
    Example,
    Opinion,
    Outcome,
    Post,
    Precedent,
    Review,
    Saving,
    Scheme,
    Track,
    Trial,
    Turn,
)


def merge(held: list[JSON], new: list[JSON]) -> list[JSON]:
    """Append what is new and replace what has an `id` already held.

    So a subgraph may hand back what its parent holds, and a turn edited in Studio stands in the place of the old one.

    Raises:
        WrongState: what is new is no list of entries with an id each.
    """
    try:
        return list({entry["id"]: entry for entry in (*held, *new)}.values()) if new else held
    except (TypeError, LookupError) as error:
        raise WrongState(f"state: {str(new)[:80]!r}: is no list of entries, each of which has an id") from error


def union(held: list[str], new: list[str]) -> list[str]:
    """Append what isn't held yet.

    Raises:
        WrongState: what is new is no list of texts.
    """
    if not isinstance(new, list | tuple) or not all(isinstance(each, str) for each in new):
        raise WrongState(f"state: {str(new)[:80]!r}: is no list of texts")
    return list(dict.fromkeys([*held, *new]))


class Like:
    """Of a channel: it is plain JSON, of the form of this type."""

    def __init__(self, form: Any) -> None:
        self.form = form

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JSON:
        return handler(TypeAdapter(self.form).core_schema)


def _says(words: str) -> Any:
    return Field(description=words)


Messages = Annotated[
    list[JSON] | None,
    Like(list[Message] | None),
    _says(
        "A conversation, as chat front ends keep it: its last message is the post. Leave it out where text is given."
    ),
]
PostTaken = Annotated[
    PostData, Like(Post), _says("The post as it was taken in: its id, its words, its image, its language.")
]
Began = Annotated[
    JSON,
    Like(Terms),
    _says(
        "What the case began with and keeps: the settings by name, and the texts of the policy, prompts and files that "
        "they name. Edit it to change them."
    ),
]
PolicyNamed = Annotated[JSON, Like(Named), _says("The policy in force, by its name and the hash of its words.")]
PromptsNamed = Annotated[
    JSON, Like(Named), _says("The set of prompts in force, by its name and the hash of its words.")
]
Scan = Annotated[
    list[CueData],
    Like(list[Cue]),
    _says("The explicit cues that the gatekeeper found. With one, the post takes the fast track; else the deep dive."),
]
Cues = Annotated[
    list[CueData] | None,
    Like(list[Cue] | None),
    _says("The cues that the prosecution brought. null: the court hasn't come to them; none: it dismissed the case."),
]
Transcript = Annotated[
    list[TurnData],
    Like(list[Turn]),
    _says("Every turn, in the order in which they were spoken. A turn of an id that is there takes that one's place."),
]
RoundNumber = Annotated[int, _says("The round of the debate that is under way; 0 before the first.")]
TrackTaken = Annotated[
    str | None, Like(Track | None), _says("Which way the post took through the graph; null until that is decided.")
]
Calls = Annotated[list[CallData], Like(list[Call]), _says("Every call to a model, with what it cost.")]
Warnings = Annotated[list[str], _says("What a reader of the verdict should know.")]
BudgetSpent = Annotated[bool, _says("Whether the budget is spent, so that nobody but the judge is asked any more.")]
Ending = Annotated[
    JSON | None,
    Like(Outcome | None),
    _says("How the case ended: a verdict, a refusal or a failure; null while it is open."),
]
Passages = Annotated[
    list[EvidenceData],
    Like(list[Evidence]),
    _says("Passages, each with its source and which way it speaks of the post."),
]
Opinions = Annotated[list[OpinionData], Like(list[Opinion]), _says("The stance and the reason of each perspective.")]
PrecedentsBrought = Annotated[
    list[PrecedentData],
    Like(list[Precedent]),
    _says("The cases that people decided which are most like the post, each with what was decided and why."),
]
FirstLookNamed = Annotated[str | None, _says("The fitted first look in force, by its hash; null where there is none.")]
Question = Annotated[str | None, _says("What a reviewer asked when they sent the case back; null where nobody did.")]
EarlyExit = Annotated[bool, _says("Whether a deep dive ends once no cue is in dispute, where the settings don't say.")]
Saved = Annotated[list[JSON], Like(list[Saving]), _says("The calls that shortcuts spared.")]
Reserved = Annotated[int, _says("Calls of the budget that are left to agents who speak at the same time or later.")]
BudgetFrom = Annotated[
    int, _says("From which call on the budget counts: a trial that a reviewer asked for has its own.")
]
SchemeTaken = Annotated[str, Like(Scheme), _says("Which labels there are. fine: the policy's. binary: hateful or not.")]
PanelSeated = Annotated[list[JSON], Like(list[Heard]), _says("The perspectives that are heard, and what each goes by.")]
Examples = Annotated[
    JSON, Like(dict[str, list[Example]]), _says("The labelled texts nearest to the post, by the perspective's name.")
]
Absent = Annotated[list[JSON], Like(list[Absence]), _says("The perspectives that couldn't be heard, and why.")]
RunNamed = Annotated[str, _says("Under which id the archive keeps this research.")]
TurnNumber = Annotated[int, _says("The turn of searching that is under way; 0 before the first.")]
Started = Annotated[float, _says("When the research began, in seconds since 1970.")]
Queries = Annotated[list[str], _says("The search queries of this turn.")]
Tried = Annotated[list[str], _says("Every query, and every page by its address, that was tried.")]
Hits = Annotated[list[JSON], Like(list[Found]), _says("What the searches of this turn found.")]
Pending = Annotated[list[JSON], Like(list[Target]), _says("The pages of this turn that are still to be read.")]
Crawl = Annotated[str | None, _says("Which fetching of pages is under way, by its id; null where none is.")]
PageRead = Annotated[JSON | None, Like(PageNote | None), _says("The page that was read last.")]
Pages = Annotated[list[JSON], Like(list[PageNote]), _says("Every page that was tried. Their texts lie in the archive.")]
Plans = Annotated[list[JSON], Like(list[Plan]), _says("What was thought before each turn, and has to be verified.")]
Judgements = Annotated[list[JSON], Like(list[Judgement]), _says("What the evidence says, page after page, and why.")]
Exhausted = Annotated[bool, _says("Whether the model had no further query, which ends the research.")]
Sufficient = Annotated[bool | None, _says("Whether the evidence was found enough; null until that was asked.")]
Missing = Annotated[str, _says("What is still to be found out.")]
Reviewed = Annotated[
    JSON | None, Like(Review | None), _says("What a person made of the case; null where none has yet.")
]
Trials = Annotated[list[JSON], Like(list[Trial]), _says("Earlier trials, which a person sent back with a question.")]
Debate = Annotated[
    list[JSON], Like(list[Round | Ballot]), _says("Each round: answers, scores, who fell out; and how a vote was cast.")
]
Dropped = Annotated[list[JSON], Like(list[Dropout]), _says("Who fell out of which round, at which stage, and why.")]
AgentNumber = Annotated[int, _says("Which of the equals speaks, by number from 1.")]
ViewNamed = Annotated[str, _says("Which view speaks, by name.")]
OwnAnswer = Annotated[JSON, Like(Turn), _says("The answer that this view revises.")]
Reflected = Annotated[str, _says("What the reflection said of the answers.")]
OwnPerspective = Annotated[JSON, Like(Heard), _says("The perspective that speaks, and what it goes by.")]
