"""What a message says, in our form or in ROOST Coop's. One type of message always has the same fields."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Literal, get_args

from pydantic import Field

from tribunal.schema import JSON, Frozen, Record

EventType = Literal[
    "case.decided", "case.pending", "case.cancelled",
    "case.appealed", "case.reopened", "appeal.trial", "appeal.tried", "appeal.decided",
]  # fmt: skip
EVENTS: tuple[EventType, ...] = get_args(EventType)
COOP_EVENTS: tuple[EventType, ...] = ("case.decided", "appeal.decided")
TEST = "webhook.test"  # no case: sent by hand, to one endpoint, whatever it asked for
_OF_RECORD = ("post_id", "outcome", "category", "hateful", "confidence", "uncertain", "rehearsed", "explanation")
_WORDS = ("post_id", "explanation", "cancelled", "record")


class CaseMessage(Frozen):
    """What is told of a case that ended. Of a case that is not to be kept, no words: not the caller's either."""

    id: str = Field(description="the case's")
    post_id: str | None = Field(default=None, description="what the caller calls the post")
    graph: str
    outcome: Literal["verdict", "refusal", "failure", "pending"] | None = Field(
        default=None, description="none where it was cancelled"
    )
    category: str | None = None
    hateful: bool | None = None
    confidence: float | None = None
    uncertain: bool | None = None
    rehearsed: bool | None = Field(default=None, description="whether the rehearsal model took part")
    explanation: str | None = Field(default=None, description="a model's words, which may quote the post")
    policy_sha: str | None = None
    cancelled: str | None = Field(default=None, description="why it ended without an outcome")
    link: str = Field(description="where the case is shown to whoever has a key for it")
    record: JSON | None = Field(default=None, description="all of it, for an endpoint that was added so")

    def without_words(self) -> CaseMessage:
        """Return the same without what the caller or a model has written."""
        return self.model_copy(update=dict.fromkeys(_WORDS))


class AppealSummary(Frozen):
    """What is told of an appeal. Not its words: whoever made it has them."""

    id: str = Field(description="the appeal's")
    kind: Literal["appeal", "reopened"]
    status: Literal["waiting", "trying", "tried", "decided"]
    appellant: str = Field(description="as the caller named them")
    created: float = Field(description="in seconds of the epoch")
    result: Literal["upheld", "reversed", "changed"] | None = Field(default=None, description="once it is decided")
    category_before: str | None = None
    hateful_before: bool | None = None
    note: str = Field(default="", description="why it was decided so: a person's words, which may quote the post")
    decided: float | None = None


class AppealMessage(CaseMessage):
    """As `CaseMessage`, of a case that was appealed or reopened: the case as it stands now, and the appeal."""

    appeal: AppealSummary

    def without_words(self) -> AppealMessage:
        """Return the same without what the caller, a model or a reviewer has written."""
        bare = self.appeal.model_copy(update={"appellant": "", "note": ""})
        return self.model_copy(update={**dict.fromkeys(_WORDS), "appeal": bare})


def appeal_message(appeal: JSON, graph: str, record: Record, link: str) -> AppealMessage:
    """Return the message of a step of an appeal, from its row and the case's record as they are now."""
    _, told = decision_message(appeal["case_id"], graph, record, record.dump(), link)
    inside = AppealSummary.model_validate({name: appeal[name] for name in AppealSummary.model_fields})
    return AppealMessage(**dict(told), appeal=inside)


def decision_message(
    case_id: str, graph: str, record: Record, kept: JSON | None, link: str
) -> tuple[EventType, CaseMessage]:
    """Return the message of a case with an outcome, and its type; pending: a person decides.

    `kept` is the record as it is stored; None where it must not be kept, and then no words are told.
    """
    same = {name: getattr(record, name) for name in _OF_RECORD}
    told = CaseMessage(id=case_id, graph=graph, policy_sha=record.policy.get("sha"), link=link, record=kept, **same)
    event: EventType = "case.pending" if record.outcome == "pending" else "case.decided"
    return event, told if kept is not None else told.without_words()


def cancel_message(case_id: str, graph: str, post_id: str | None, why: str, link: str, *, keep: bool) -> CaseMessage:
    """Return the message of a case without an outcome."""
    told = CaseMessage(id=case_id, post_id=post_id, graph=graph, cancelled=why, link=link)
    return told if keep else told.without_words()


def body(event: str, data: JSON) -> str:
    """Return a message, as it is signed and sent."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "timestamp": at, "data": data})


# ROOST Coop calls back of its actions and of appeals (its docs/api/actions.md, 2026). A platform that has a callback
# for Coop takes these at the same place. They are signed as all our messages are, not by Coop's key.


class CoopTarget(Frozen):
    """What the receiver calls what is acted on, and what is done."""

    item_type: str = Field(min_length=1, max_length=200, description="Coop's id of the item type", examples=["comment"])
    action: str = Field(
        min_length=1, max_length=200, description="Coop's id of the action on a hateful post", examples=["remove"]
    )
    user_type: str = Field(
        default="user", min_length=1, max_length=200, description="Coop's id of the type of users", examples=["user"]
    )


def coop_callback(event: str, told: CaseMessage, target: CoopTarget) -> JSON | None:
    """Return what Coop would send; None where it would send nothing: a post that isn't hateful asks for no action."""
    item = {"id": told.post_id or told.id, "typeId": target.item_type}
    custom = {"case": told.id, "link": told.link, "graph": told.graph, "rehearsed": told.rehearsed}
    if event == "appeal.decided" and isinstance(told, AppealMessage):
        appeal = told.appeal
        return {
            "appealId": appeal.id,
            "item": item,
            "appealedBy": {"id": appeal.appellant, "typeId": target.user_type},
            # Another category of hate leaves the action as it is.
            "appealDecision": "ACCEPT" if appeal.hateful_before and not told.hateful else "REJECT",
            "custom": {**custom, "result": appeal.result},
        }
    if event != "case.decided" or not told.hateful:
        return None
    policies = [{"id": f"{told.policy_sha}:{told.category}", "name": told.category, "penalty": "NONE"}]
    return {
        "item": item,
        "action": {"id": target.action},
        "policies": policies if told.category is not None else [],
        "rules": [],
        "custom": {**custom, "confidence": told.confidence, "uncertain": told.uncertain},
    }
