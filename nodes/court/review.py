"""A person decides: the case stops, with everything on the table, until somebody accepts, edits, or asks.

What is asked and answered has the shape of LangGraph's Agent Inbox: an `action_request` with the verdict as its
arguments, and an answer of type `accept`, `edit` or `response`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.config import get_config
from langgraph.types import Overwrite, interrupt
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from tribunal.core.text import escape_markdown, one_line
from tribunal.errors import BadInput
from tribunal.models.budget import renew_budget
from tribunal.nodes.agents import node, router
from tribunal.nodes.channels import answer_message
from tribunal.nodes.court.case import review_reason
from tribunal.nodes.exhibits import evidence_of
from tribunal.nodes.forms import clause_list, named_clauses, one_of
from tribunal.nodes.state import Case, CaseRuntime, cues_in, post_of, transcript_of
from tribunal.nodes.verdict import deliver, is_closed
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import JSON, Review, Scheme, Trial
from tribunal.settings.context import Context, context_of, warn_of_overruled_settings
from tribunal.settings.validation import describe_validation_error

ACTION = "decide"
_TEXT = {"type": "string"}


class _AnswerPart(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, defer_build=True)


class ReviewAnswer(_AnswerPart):
    """A reviewer's answer: accept the outcome, edit it, or respond with a question that sends the case back."""

    type: Literal["accept", "edit", "response"]
    args: Any = None
    reviewer: str | None = Field(default=None, description="who decides")
    note: str = ""
    at: SkipJsonSchema[AwareDatetime | None] = Field(default=None, exclude=True)  # when, if not now
    clauses: Annotated[tuple[str, ...], BeforeValidator(clause_list)] = Field(
        default=(), description="the clauses of the policy that it rests on, by their ids"
    )
    # the label that an edit names
    edited: SkipJsonSchema[int | None] = Field(default=None, exclude=True)


@lru_cache(maxsize=32)
def review_answer_form(
    policy: Policy, scheme: Scheme, *, has_verdict: bool = True
) -> type[RootModel[Any]]:
    """Return the form of an answer: one, or a list with one in it, as the Agent Inbox sends it.

    Without a verdict of the models there is nothing to accept, and a response without a question runs the case again.

    An edit names a category of the policy by its name or its number; where it names both and they differ, the one that
    the reviewer changed can't be known, so that is refused.
    """
    names = [category.name for category in policy.categories(scheme)]
    ids = [each.id for each in policy.clauses]
    told: JSON = {
        "category": {"enum": names},
        "label": {"type": "integer", "maximum": len(names) - 1},
        "note": _TEXT,
    }
    told |= {"clauses": {"type": "array", "items": {"enum": ids}}} if ids else {}
    decided = {"action": {"const": ACTION}, "args": {"type": "object", "properties": told}}
    request = {"title": "An edit", "type": "object", "properties": decided, "required": ["args"]}
    question = {"title": "The question of a response", **_TEXT}
    empty = {
        "title": "Nothing, to accept" if has_verdict else "Nothing, to run the case again",
        "type": "null",
    }
    shape = {"anyOf": [request, question, empty]}
    types = {
        "enum": ["accept", "edit", "response"] if has_verdict else ["edit", "response"],
        "type": "string",
    }
    category: Any = Annotated[one_of(names) | None, BeforeValidator(lambda named: named or None)]
    verdict: Any = {"category": (category, None), "label": (int | None, None), "note": (str, "")}
    verdict["clauses"] = (Annotated[tuple[str, ...], BeforeValidator(clause_list)], ())
    edit: Any = create_model("Edit", __base__=_AnswerPart, **verdict)
    edit_form: Any = create_model("EditRequest", __base__=_AnswerPart, args=(edit, ...))

    class Answer(ReviewAnswer):
        """A reviewer's answer, with the categories of the policy in force."""

        type: Annotated[Literal["accept", "edit", "response"], WithJsonSchema(types)]
        args: Annotated[Any, WithJsonSchema(shape)] = None

        @model_validator(mode="after")
        def _args_fit(self) -> Answer:
            if self.type == "accept" and not has_verdict:
                raise ValueError(
                    "type: the models gave no verdict to accept; choose a category or run the case again"
                )
            if self.type == "response" and not self.args and not has_verdict:
                self.args = ""
            elif self.type == "response" and not (isinstance(self.args, str) and self.args.strip()):
                raise ValueError("args: a response takes the question, as a text")
            self.clauses = named_clauses(policy, self.clauses)
            if self.type != "edit":
                return self
            try:
                given: Any = edit_form.model_validate(self.args)
            except ValidationError as error:
                raise ValueError(describe_validation_error(error).removeprefix("args.")) from error
            read = given.args
            if read.label is not None and not 0 <= read.label < len(names):
                raise ValueError(
                    f"label: {read.label}: is none of this scheme's; they are 0 to {len(names) - 1}"
                )
            if read.category is None and read.label is None:
                raise ValueError(
                    f"category: an edit names one of {', '.join(names)}, or a label by its number"
                )
            named = names.index(read.category) if read.category is not None else read.label
            if read.label not in (None, named):
                other = f"{names[read.label]}, and not {read.category}"
                raise ValueError(f"label {read.label} is {other}; give one of them")
            self.edited = named
            self.note = read.note or self.note
            self.clauses = named_clauses(policy, read.clauses) or self.clauses
            return self

    class Answers(RootModel[Answer | list[Answer]]):
        """One answer."""

        @model_validator(mode="after")
        def _just_one(self) -> Answers:
            if isinstance(self.root, list) and len(self.root) != 1:
                raise ValueError("one answer is wanted")
            return self

    return Answers


async def check_review_answer(state: Case, answer: Any) -> None:
    """See that an answer fits the policy of a case, before the case goes on with it.

    Raises:
        BadInput: it doesn't fit: the field, the value, and the allowed values.
    """
    try:
        form = review_answer_form(
            await policy_of(state), context_of(state).scheme, has_verdict=_has_verdict(state)
        )
        form.model_validate(answer)
    except ValidationError as error:
        raise _bad_answer(error) from error


@node
async def review_case(state: Case, runtime: CaseRuntime) -> JSON:
    """Wait for a person. Nothing happens here before they answer, so that a resumed case repeats nothing.

    Raises:
        BadInput: the answer isn't of the form. Nothing of it is kept, and the case goes on waiting.
    """
    context = context_of(state, runtime)
    given = warn_of_overruled_settings(state, runtime)
    policy = await policy_of(state, runtime)
    form = review_answer_form(policy, context.scheme, has_verdict=_has_verdict(state))
    try:
        read = interrupt([_describe_case(state, context, policy)], response_schema=form).root
    except ValidationError as error:
        raise _bad_answer(error) from error
    answer: ReviewAnswer = read[0] if isinstance(read, list) else read
    at = (answer.at or datetime.now(UTC)).isoformat(timespec="seconds")
    # known to the server that this runs on
    user = get_config().get("configurable", {}).get("langgraph_auth_user_id")
    reviewer = answer.reviewer or (str(user) if user else None)
    court: Any = state["outcome"] or {}
    if answer.type == "response":
        return {**_start_retrial(state, answer.args.strip(), reviewer, at), "warnings": given}
    reason = _reason_for_review(state, context)
    note = answer.note
    chosen = None if answer.edited is None else policy.categories(context.scheme)[answer.edited]
    if chosen is not None and chosen.name == court.get("category"):
        chosen = None
    action = "accept" if chosen is None else "edit"
    decision: JSON = {
        "action": action,
        "reviewer": reviewer,
        "at": at,
        "note": note,
        "clauses": answer.clauses,
    }
    done = Review(reason=reason, court=court, **decision).dump()
    runtime.stream_writer({"event": "review", **done})
    update = {"review": done, "question": None, "warnings": given}
    if chosen is None or answer.edited is None:
        accepted = {**court, "uncertain": False} if court.get("uncertain") else court
        if answer.clauses and court.get("outcome") == "verdict":
            accepted = {**accepted, "clauses": list(answer.clauses)}
        return {
            **update,
            "outcome": accepted,
            **answer_message(state, accepted, "Accepted by a reviewer."),
        }
    words = note or f"A reviewer chose {chosen.name}: {chosen.meaning}"
    how: JSON = {"reviewed": True, "track": state.get("track"), "clauses": answer.clauses}
    return {**update, **await deliver(answer.edited, context.scheme, words, state, runtime, **how)}


def _has_verdict(state: Case) -> bool:
    outcome: Any = state["outcome"] or {}
    return bool(outcome.get("outcome") == "verdict")


def _bad_answer(error: ValidationError) -> BadInput:
    """Return a wrong answer's error in one line, with LangGraph's mark on it: nothing of that answer is kept."""
    # An answer may come alone or in a list, so each way to read it has its faults; the one that got furthest counts.
    faults = error.errors(include_url=False)
    problem = max(faults, key=lambda fault: (fault["type"] == "value_error", len(fault["loc"])))
    where = (
        f"{problem['loc'][-1]}: {problem['input']!r}: " if problem["type"] != "value_error" else ""
    )
    wrong = BadInput(f"answer: {one_line(where + problem['msg'].removeprefix('Value error, '))}")
    vars(wrong).update(vars(error))
    return wrong


def _reason_for_review(state: Case, context: Context) -> str:
    return review_reason(state, context) or "somebody sent it here by hand"


def _describe_case(state: Case, context: Context, policy: Policy) -> JSON:
    """Return the case as a reviewer is shown it, in the shape of the Agent Inbox."""
    outcome: Any = state["outcome"] or {}
    post = post_of(state)
    sure = (
        f", confidence {outcome['confidence']:.2f}" if outcome.get("confidence") is not None else ""
    )
    lines = [
        f"Why you see this: {_reason_for_review(state, context)}.",
        f"The court: {outcome.get('category') or outcome['outcome']}{sure}. {outcome['explanation']}",
        f"The post ({post.id}): {post.text or '(no text)'}",
    ]
    lines += [f"Its image: {post.image.ref}"] if post.image else []
    lines += [
        f"Cue {cue.id} against {cue.attacked_group}{f' (clause {cue.clause})' if cue.clause else ''}: {cue.claim}"
        for cue in cues_in(state)
    ]
    lines += [f"Passage {each.id}, {each.url}: {each.passage}" for each in evidence_of(state)]
    lines += [f"Note: {warning}" for warning in state.get("warnings", [])]
    lines += [
        f"The categories: {', '.join(each.name for each in policy.categories(context.scheme))}"
    ]
    lines += [f"Clause {each.id} ({each.category}): {each.rule}" for each in policy.clauses]
    return {
        "action_request": {
            "action": ACTION,
            "args": {"category": outcome.get("category") or "", "note": ""},
        },
        "config": {
            "allow_accept": _has_verdict(state),
            "allow_edit": True,
            "allow_respond": True,
            "allow_ignore": False,
        },
        # which the front ends show as Markdown
        "description": "\n\n".join(map(escape_markdown, lines)),
    }


def _start_retrial(state: Case, question: str, reviewer: str | None, at: str) -> JSON:
    """Begin one more trial, with the question before the agents; the previous trial is kept in full."""
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
        **renew_budget(state),
    }


@router
async def to_retrial(state: Case) -> Literal["sent back, no scan", "sent back", "decided"]:
    """End a decided case; send one that was sent back to its track, or to the scan if there was none."""
    if is_closed(state):
        return "decided"
    return "sent back" if state.get("transcript") else "sent back, no scan"
