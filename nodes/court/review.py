"""A person decides: the case stops, with everything on the table, until somebody accepts, edits, or asks.

What is asked and answered has the shape of LangGraph's Agent Inbox: an `action_request` with the verdict as its
arguments, and an answer of type `accept`, `edit` or `response`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from tribunal.budget import renewed
from tribunal.context import Context, context_of, describe, overruled
from tribunal.errors import BadInput
from tribunal.nodes.agents import node, router
from tribunal.nodes.chat import answered
from tribunal.nodes.court.case import review_reason
from tribunal.nodes.exhibits import evidence_of
from tribunal.nodes.forms import one_of
from tribunal.nodes.state import Case, closed, cues_in, post_of, transcript_of
from tribunal.nodes.verdict import deliver
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import JSON, Review, Scheme, Trial
from tribunal.telling import tell
from tribunal.text import in_markdown, one_line

ACTION = "decide"
_TEXT = {"type": "string"}


class Edit(BaseModel):
    """The verdict as the reviewer wants it: a category by its name, or a label by its number, and a note."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    category: str | None = None
    label: int | None = None
    note: str = ""


class EditRequest(BaseModel):
    """An edited action request."""

    action: str = ACTION
    args: Edit


class ReviewAnswer(BaseModel):
    """A reviewer's answer: accept the outcome, edit it, or respond with a question that sends the case back."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["accept", "edit", "response"]
    args: Any = None
    reviewer: str | None = Field(default=None, description="who decides")
    note: str = ""

    @model_validator(mode="after")
    def _args_fit(self) -> ReviewAnswer:
        if self.type == "response" and not (isinstance(self.args, str) and self.args.strip()):
            raise ValueError("args: a response takes the question, as a text")
        return self


@lru_cache(maxsize=32)
def answer_form(policy: Policy, scheme: Scheme) -> type[RootModel[Any]]:
    """The form of an answer: one, or a list with one in it, as the Agent Inbox sends it.

    An edit names a category of the policy by its name or its number; where it names both and they differ, the one that
    the reviewer changed can't be known, so that is refused.
    """
    names = [category.name for category in policy.categories(scheme)]
    edit = create_model("Edit", __base__=Edit, category=(one_of(names) | None, None))
    told = {"category": {"enum": names}, "label": {"type": "integer", "maximum": len(names) - 1}, "note": _TEXT}
    decided = {"action": {"const": ACTION}, "args": {"type": "object", "properties": told}}
    request = {"title": "An edit", "type": "object", "properties": decided, "required": ["args"]}
    question = {"title": "The question of a response", **_TEXT}
    shape = {"anyOf": [request, question, {"title": "Nothing, to accept", "type": "null"}]}

    class Answer(ReviewAnswer):
        """A reviewer's answer, with the categories of the policy in force."""

        args: Annotated[Any, WithJsonSchema(shape)] = None
        edited: SkipJsonSchema[Edit | None] = Field(default=None, exclude=True)

        @model_validator(mode="after")
        def _edit_names_a_category(self) -> Answer:
            if self.type != "edit":
                return self
            try:
                given = EditRequest.model_validate(self.args)
                read = edit.model_validate({**given.args.model_dump(), "category": given.args.category or None})
            except ValidationError as error:
                raise ValueError(describe(error)) from error
            if read.label is not None and not 0 <= read.label < len(names):
                raise ValueError(f"label: {read.label}: is none of this scheme's; they are 0 to {len(names) - 1}")
            if read.category is None and read.label is None:
                raise ValueError(f"category: an edit names one of {', '.join(names)}, or a label by its number")
            if read.category is not None and read.label is not None and names[read.label] != read.category:
                raise ValueError(
                    f"label {read.label} is {names[read.label]}, and not {read.category}; give one of them"
                )
            label = names.index(read.category) if read.category is not None else read.label
            self.edited = Edit(category=names[label or 0], label=label, note=read.note)
            return self

    class Answers(RootModel[Answer | list[Answer]]):
        """One answer."""

        @model_validator(mode="after")
        def _just_one(self) -> Answers:
            if isinstance(self.root, list) and len(self.root) != 1:
                raise ValueError("one answer is wanted")
            return self

    return Answers


async def check_answer(state: Case, answer: Any) -> None:
    """See that an answer fits the policy of a case, before the case goes on with it.

    Raises:
        BadInput: it doesn't: the field, the value, and what it may be.
    """
    try:
        answer_form(await policy_of(state), context_of(state).scheme).model_validate(answer)
    except ValidationError as error:
        raise _wrong(error) from error


@node
async def review(state: Case, runtime: Runtime[Context]) -> JSON:
    """Wait for a person. Nothing happens here before they answer, so that a resumed case repeats nothing.

    Raises:
        BadInput: the answer isn't of the form. Nothing of it is kept, and the case goes on waiting.
    """
    context, given = context_of(state, runtime), overruled(state, runtime)
    policy = await policy_of(state, runtime)
    form = answer_form(policy, context.scheme)
    try:
        read = interrupt([_request(state, context, policy)], response_schema=form).root
    except ValidationError as error:
        raise _wrong(error) from error
    answer: Any = read[0] if isinstance(read, list) else read
    at, reviewer = datetime.now(UTC).isoformat(timespec="seconds"), answer.reviewer or _user()
    court: JSON = state["outcome"] or {}
    if answer.type == "response":
        return {**_sent_back(state, answer.args.strip(), reviewer, at), "warnings": given}
    note = (answer.edited.note if answer.edited else "") or answer.note
    done = Review(
        reason=_reason(state, context),
        court=court,
        action=answer.type,
        reviewer=reviewer,
        at=at,
        note=note,
    ).dump()
    tell(runtime, {"event": "review", **done})
    if answer.type == "accept":
        return {
            "review": done,
            "question": None,
            "warnings": given,
            **answered(state, court, "Accepted by a reviewer."),
        }
    words = note or f"A reviewer decided this; the court had said: {court['explanation']}"
    track = state.get("track")
    return {
        "review": done,
        "question": None,
        "warnings": given,
        **await deliver(answer.edited.label, context.scheme, words, state, runtime, reviewed=True, track=track),
    }


def _wrong(error: ValidationError) -> BadInput:
    """A wrong answer in one line, with LangGraph's mark on it, by which it keeps nothing of that answer."""
    # An answer may come alone or in a list, so each way to read it has its faults; the one that got furthest counts.
    faults = error.errors(include_url=False)
    problem = max(faults, key=lambda fault: (fault["type"] == "value_error", len(fault["loc"])))
    where = f"{problem['loc'][-1]}: {problem['input']!r}: " if problem["type"] != "value_error" else ""
    wrong = BadInput(f"answer: {one_line(where + problem['msg'].removeprefix('Value error, '))}")
    vars(wrong).update(vars(error))
    return wrong


def _reason(state: Case, context: Context) -> str:
    return review_reason(state, context) or "somebody sent it here by hand"


def _request(state: Case, context: Context, policy: Policy) -> JSON:
    """The case as a reviewer is shown it, in the shape of the Agent Inbox."""
    outcome: JSON = state["outcome"] or {}
    return {
        "action_request": {"action": ACTION, "args": {"category": outcome.get("category") or "", "note": ""}},
        "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": False},
        "description": _described(state, context, policy),
    }


def _described(state: Case, context: Context, policy: Policy) -> str:
    outcome, post = state["outcome"] or {}, post_of(state)
    sure = f", confidence {outcome['confidence']:.2f}" if outcome.get("confidence") is not None else ""
    lines = [
        f"Why you see this: {_reason(state, context)}.",
        f"The court: {outcome.get('category') or outcome['outcome']}{sure}. {outcome['explanation']}",
        f"The post ({post.id}): {post.text or '(no text)'}",
    ]
    lines += [f"Its image: {post.image.ref}"] if post.image else []
    lines += [f"Cue {cue.id} against {cue.whom}: {cue.claim}" for cue in cues_in(state)]
    lines += [f"Passage {each.id}, {each.url}: {each.passage}" for each in evidence_of(state)]
    lines += [f"Note: {warning}" for warning in state.get("warnings", [])]
    lines += [f"The categories: {', '.join(each.name for each in policy.categories(context.scheme))}"]
    return "\n\n".join(map(in_markdown, lines))  # which the front ends show as Markdown


def _sent_back(state: Case, question: str, reviewer: str | None, at: str) -> JSON:
    """One more trial, with the question before the agents; the one before is kept whole."""
    before = Trial(
        id=f"trial-{len(state.get('trials', [])) + 1}",
        question=question,
        reviewer=reviewer,
        at=at,
        outcome=state["outcome"] or {},
        cues=tuple(cues_in(state)),
        transcript=tuple(transcript_of(state)),
    )
    scan = [turn for turn in state.get("transcript", []) if turn["stage"] == "scan"]
    return {
        "question": question,
        "trials": [before.dump()],
        "transcript": Overwrite(scan),
        "cues": None,
        "round": 0,
        "outcome": None,
        **renewed(state),
    }


@router
async def to_retrial(state: Case) -> Literal["sent back, no scan", "sent back", "decided"]:
    """A decided case ends; one sent back goes to its track, or to the scan where there was none."""
    if closed(state):
        return "decided"
    return "sent back" if state.get("transcript") else "sent back, no scan"


def _user() -> str | None:
    """Who is known to the server that this runs on."""
    user = get_config().get("configurable", {}).get("langgraph_auth_user_id")
    return str(user) if user else None
