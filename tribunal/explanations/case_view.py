"""One picture of a case: terminal, page, desk, run viewer, notebook and letter are drawn from it.

`view_case` (`tribunal.explanations.view_maker`) makes it of a record and of what else is at hand. Everything in it is
plain, frozen data; the templates beside this file draw it (`tribunal.explanations.case_drawing`). A text that isn't at
hand is None, and a field beside it says why. What has no section of its own stands in `details`, which every template
lists.
"""

from __future__ import annotations

from datetime import date
from typing import Literal, cast

from pydantic import Field

from tribunal.exhibit import Box
from tribunal.schema import JSON, Appealed, Cue, Evidence, Frozen, Opinion, Precedent, Step, Vote

Tone = Literal["hate", "other", "open"]
# What an agent's word on a cue amounts to; pages colour it by this.
ChipKind = Literal["found", "pressed", "withdrawn", "refuted", "conceded", "named", "plain"]


class TextSegment(Frozen):
    """A piece of the post's text, and the numbers of the cues that quote it. `ends`: those whose words end with it."""

    text: str
    cues: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


class ImageRegion(Frozen):
    """A part of the image in which a cue is seen, by the cue's number."""

    cue: int
    box: Box


class ViewedImage(Frozen):
    """The image of a post. `source` is a data URI, or an address on the server that shows it; None: not at hand."""

    source: str | None
    alt: str = Field(description="what a screen reader says in its place")
    absent: str = Field(default="", description="why it isn't at hand")
    width: int = 1000
    height: int = 1000
    regions: tuple[ImageRegion, ...] = ()


class ViewedPost(Frozen):
    """The post, its text in pieces with the marks of the cues. `absent` says why its words aren't at hand."""

    id: str
    segments: tuple[TextSegment, ...] = ()
    image: ViewedImage | None = None
    language: str | None = None
    language_from: str | None = None
    earlier: tuple[str, ...] = ()
    absent: str = ""

    @property
    def text(self) -> str:
        """The words of the post."""
        return "".join(each.text for each in self.segments)


class StepRemark(Frozen):
    """An agent's words in one step: of a cue a chip and the argument, of anything else the stance and the text."""

    speaker: str = Field(default="", description="empty where the row or the column says who")
    chip: str = ""
    kind: ChipKind = "plain"
    text: str = ""


class StepRow(Frozen):
    """A row of a step table: a cue, or a speaker; and in each column what was said there."""

    title: str
    cue: int | None = None
    cells: tuple[tuple[StepRemark, ...], ...]


class StepTable(Frozen):
    """A debate as a table: a row for each cue (or speaker), a column for each step."""

    caption: str
    rows_are: Literal["cue", "speaker"]
    columns: tuple[str, ...]
    rows: tuple[StepRow, ...]


class ViewedCue(Cue):
    """A cue, by its number on the page. The gatekeeper's have ids of their own, such as scan C1."""

    number: int
    by: str
    marked: bool | None = Field(
        default=None, description="whether it quotes the post; None: its words aren't at hand"
    )
    standing: tuple[StepRemark, ...] = Field(default=(), description="the last word of each side")


class SpokenTurn(Frozen):
    """One turn of a debate in words, whole."""

    title: str
    words: tuple[str, ...]


class ViewedTrial(Frozen):
    """One run of the agents: its cues, its table, and every turn. An earlier one has the question that followed it."""

    title: str
    question: str = ""
    of_cues: bool = Field(default=False, description="whether it was about cues")
    outcome: str = ""
    reasons: str = ""
    cues: tuple[ViewedCue, ...] = ()
    tables: tuple[StepTable, ...] = ()
    turns: tuple[SpokenTurn, ...] = ()
    notes: tuple[str, ...] = ()


class AppliedClause(Frozen):
    """A clause that the decision cites, with what it doesn't forbid."""

    id: str
    rule: str
    exceptions: str = ""


class AppliedPolicy(Frozen):
    """The part of the policy that was applied: the category's own words, and the passages that it rests on."""

    name: str
    sha: str = ""
    category: str = ""
    sentence: str = Field(default="", description="what the policy says of the category")
    clauses: tuple[AppliedClause, ...] = ()
    rests_on: tuple[tuple[str, str], ...] = Field(
        default=(), description="further passages: title and words"
    )
    absent: str = Field(default="", description="why the policy's words aren't at hand")


class RuleCategory(Frozen):
    """A category of a policy, and what the policy says of it."""

    name: str
    meaning: str


class PolicyRule(Frozen):
    """Hold what a person who decides reads of a policy. `category` is the one in question; empty: none is."""

    policy: str = Field(description="its name")
    category: str = ""
    definition: str
    exceptions: tuple[str, ...] = Field(description="what is not meant by it")
    further: tuple[str, ...] = Field(
        default=(), description="in which ways it may be said or shown"
    )
    protected_groups: tuple[str, ...] = ()
    categories: tuple[RuleCategory, ...]


class EvidenceCard(Evidence):
    """A passage, with its address where that is one of the web (`href`), and the date of its page."""

    href: str | None
    date: str


class DecisionStep(Frozen):
    """A step of the decision: who, when and how. A field that isn't known says so."""

    by: str
    at: str
    how: str
    note: str = ""


class ModelUse(Frozen):
    """The calls of one model: in which seats, how many, and their cost."""

    model: str
    seats: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: str


class CaseCost(Frozen):
    """The cost of a case, over all calls."""

    models: tuple[ModelUse, ...]
    total: str
    money: str
    line: str


class CaseStatus(Frozen):
    """The status of a stored case: whether it needs review and why, and who is reviewing it.

    `open` says whether a person has to decide it; `appeals` lists the appeals that are open.
    """

    open: bool
    line: str = Field(description="such as: Needs review: the model was unsure")
    decided_by: str = Field(
        default="", description="who has decided it, while that doesn't stand in its record yet"
    )
    claim: str = Field(
        default="", description="who is reviewing it, and how long the claim still holds"
    )
    escalated: str = Field(default="", description="since when it waits for a lead")
    appeals: tuple[str, ...] = ()


class CaseNote(Frozen):
    """A person's note on a case, beside the decision."""

    by: str
    at: str
    words: str


class ActivityEntry(Frozen):
    """One entry of the audit log about a case: who did what, and when."""

    number: int
    by: str
    did: str
    at: str
    details: tuple[str, ...] = ()


class _Page(Frozen):
    def _repr_html_(self) -> str:
        """Return the whole of it as a notebook shows it."""
        from tribunal import draw_page

        return draw_page(cast("CaseView | AuthorLetter", self))


class CaseView(_Page):
    """A case with all that is known of it. Every section that is empty is left out where it is drawn."""

    told_to: Literal["auditor"] = "auditor"
    case: str | None = Field(default=None, description="the case's id, where it has one")
    erased: str | None = Field(
        default=None, description="when the words of the case were erased; None: they weren't"
    )
    title: str
    tone: Tone
    outcome: Literal["verdict", "refusal", "failure", "pending"]
    first: str = Field(description="the decision in a line")
    track: str = Field(description="which way through the graph it took")
    reasons: tuple[str, ...]
    rehearsed: bool
    banners: tuple[str, ...] = Field(
        default=(), description="why this may be no decision, for its head"
    )
    status: CaseStatus | None = Field(
        default=None, description="where it stands in its store, if one was asked"
    )
    post: ViewedPost
    trial: ViewedTrial
    earlier_trials: tuple[ViewedTrial, ...] = ()
    applied: AppliedPolicy | None = None
    rationale: tuple[Step, ...] = ()
    evidence: tuple[EvidenceCard, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    precedents: tuple[Precedent, ...] = ()
    appeals: tuple[Appealed, ...] = ()
    appeal_trials: tuple[ViewedTrial | None, ...] = Field(
        default=(), description="the new run of each, if any"
    )
    votes: tuple[Vote, ...] = ()
    decided: tuple[DecisionStep, ...]
    cost: CaseCost
    warnings: tuple[str, ...] = ()
    notes: tuple[CaseNote, ...] = ()
    activity: tuple[ActivityEntry, ...] = ()
    details: tuple[tuple[str, str], ...] = Field(
        default=(), description="what else is known, by name"
    )


class Notice(Frozen):
    """The facts of a restriction, beside those of the letter; the templates put them into sentences."""

    language: str = Field(description="of the sentences")
    fields: dict[str, str] = Field(
        description="what the operator says, by the names of a statement of reasons"
    )
    ends: tuple[date, ...] = Field(description="the days on which measures end")
    territory: tuple[str, ...] = Field(
        description="EU or EEA, or the names of the countries where the measure applies"
    )
    attacked: tuple[str, ...] = Field(description="the groups that the post attacks")
    has_image: bool = Field(description="whether the post's image is at hand")
    category: str = Field(description="the category's name in the language of the sentences")
    models_category: str | None = Field(
        description="of the models' verdict, named so; None where they gave none"
    )
    by_person: bool = Field(description="whether a person decided last")
    reason: str = Field(
        description="the policy's reason that this person chose, in the language of the sentences"
    )
    exceptions: str = Field(description="the policy's exceptions")
    written_on: date
    redress: JSON = Field(
        description="`months` for a complaint, and the addresses `complaint` and `settlement`"
    )


class AuthorLetter(_Page):
    """A case for the person who posted: what was decided and why, in their language. Nothing about anybody else.

    Against a post it is a notice of the restriction (Digital Services Act, article 17).
    """

    told_to: Literal["poster"] = "poster"
    outcome: Literal["verdict", "refusal", "failure", "pending"]
    hateful: bool | None
    language: str
    title: str
    text: str
    post: str | None = Field(description="the words of the post; None where they aren't at hand")
    quoted: tuple[str, ...] = Field(
        default=(), description="the words of the post that the decision rests on"
    )
    rule: str = Field(default="", description="what the policy says, where it was applied")
    category: str | None = Field(
        default=None, description="under which a post was restricted, as the policy names it"
    )
    clauses: tuple[str, ...] = Field(
        default=(), description="the ids of the policy's clauses that were applied"
    )
    measures: tuple[str, ...] = Field(
        default=(), description="what was done, as the register of the EU calls it"
    )
    complain_until: date | None = Field(
        default=None, description="the last day for a complaint, if it is sent today"
    )
    notice: Notice | None = Field(default=None, description="the facts of a restriction")
    details: tuple[tuple[str, str], ...] = Field(
        default=(), description="those of the case that its author may read"
    )
    source: Literal["written", "fixed"] = Field(
        description="whether a model wrote the text, or it is made of fixed words"
    )
    warnings: tuple[str, ...] = Field(
        default=(), exclude=True, description="for whoever sends it, and not for them"
    )
    calls: tuple[JSON, ...] = Field(default=(), exclude=True, repr=False)
