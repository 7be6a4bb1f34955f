"""Messages to webhooks: one for each endpoint, stored in the same transaction as the change that it reports.

One type of message always has the same fields.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal, get_args

from pydantic import Field
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_datetime, database_now, new_id
from tribunal.errors import BadInput
from tribunal.explanations.deciders import DECIDED_BY, DecidedBy, find_case_decider
from tribunal.schema import JSON, Frozen, Record
from tribunal.store.audit import OPERATOR, LogEntry, Who, append
from tribunal.store.engine import Store
from tribunal.store.group_commit import Group
from tribunal.store.tables import batches, cases, deliveries, webhooks

EventType = Literal[
    "case.decided", "case.pending", "case.cancelled",
    "case.appealed", "case.reopened", "appeal.trial", "appeal.tried", "appeal.decided",
    "case.escalated", "case.expiring", "case.failed",
]  # fmt: skip
EVENTS: tuple[EventType, ...] = get_args(EventType)
# Those that the release before lists, and that stand in `webhooks.events`. The others stand in `later_events`.
FIRST_EVENTS = EVENTS[:8]
TEST = "webhook.test"  # no case: sent by hand, to one endpoint, whatever it asked for
_OF_RECORD = (
    "post_id", "outcome", "category", "hateful", "confidence", "probability", "uncertain", "rehearsed", "explanation",
    "clauses",
)  # fmt: skip
_WORDS = ("post_id", "explanation", "cancelled", "record", "reason")
_OF_SOME = ("appeal", "reason", "by")  # fields that only some types of messages have
Status = Literal["waiting", "delivered", "dead"]
_INSERT = deliveries.insert()
# Locked against removal until the transaction ends, which would else fail with it.
_IN_FORCE = (
    select(webhooks).where(webhooks.c.disabled.is_(None)).with_for_update(read=True, key_share=True)
)


class AppealSummary(Frozen):
    """What is told of an appeal. Not its words: whoever made it has them."""

    id: str = Field(description="the appeal's")
    kind: Literal["appeal", "reopened"]
    status: Literal["waiting", "trying", "tried", "decided"]
    appellant: str = Field(description="as the caller named them")
    created: float = Field(description="in seconds of the epoch")
    result: Literal["upheld", "reversed", "changed"] | None = Field(
        default=None, description="once it is decided"
    )
    category_before: str | None = None
    hateful_before: bool | None = None
    clauses: tuple[str, ...] = Field(
        default=(), description="the clauses of the policy that it rests on, by their ids"
    )
    note: str = Field(
        default="", description="why it was decided so: a person's words, which may quote the post"
    )
    decided: float | None = None


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
    probability: float | None = None
    uncertain: bool | None = Field(default=None, description="false once a person has decided")
    decided_by: DecidedBy | None = Field(default=None, description=DECIDED_BY)
    rehearsed: bool | None = Field(
        default=None, description="whether the rehearsal model took part"
    )
    clauses: tuple[str, ...] = Field(
        default=(), description="the clauses of the policy that the outcome rests on, by their ids"
    )
    explanation: str | None = Field(
        default=None, description="a model's or a person's words, which may quote the post"
    )
    policy_sha: str | None = None
    cancelled: str | None = Field(default=None, description="why it ended without an outcome")
    link: str = Field(description="where the case is shown to whoever has a key for it")
    record: JSON | None = Field(
        default=None, description="all of it, for an endpoint that was added so"
    )
    appeal: AppealSummary | None = Field(
        default=None, description="of a case that was appealed or reopened alone"
    )
    reason: str | None = Field(
        default=None,
        description="why it was escalated, in the reviewer's words, which may quote the post; why no model answered",
    )
    by: str | None = Field(default=None, description="who escalated it")

    def without_words(self) -> CaseMessage:
        """Return the same without what the caller, a model or a reviewer has written."""
        bare = self.appeal and self.appeal.model_copy(update={"appellant": "", "note": ""})
        return self.model_copy(update={**dict.fromkeys(_WORDS), "appeal": bare})


def appeal_message(appeal: JSON, graph: str, record: Record, link: str) -> CaseMessage:
    """Return the message of a step of an appeal, from its row and the case's record as they are now."""
    _, told = decision_message(appeal["case_id"], graph, record, record.dump(), link)
    fields = {name: appeal[name] for name in AppealSummary.model_fields}
    inside = AppealSummary.model_validate({**fields, "clauses": appeal["clauses"] or ()})
    return told.model_copy(update={"appeal": inside})


def escalation_message(
    case_id: str, graph: str, record: Record, link: str, reason: str, by: str
) -> CaseMessage:
    """Return the message of a case that a reviewer has left to the leads."""
    _, told = decision_message(case_id, graph, record, record.dump(), link)
    return told.model_copy(update={"reason": reason, "by": by})


def decision_message(
    case_id: str, graph: str, record: Record, kept: JSON | None, link: str
) -> tuple[EventType, CaseMessage]:
    """Return the message of a case with an outcome, and its type; pending: a person decides.

    `kept` is the record as it is stored; None where it must not be kept, and then no words are told.
    """
    same = {name: getattr(record, name) for name in _OF_RECORD}
    decided_by = find_case_decider(
        record.model_dump(include={"outcome", "review", "appeals"})
    ).decided_by
    told = CaseMessage(
        id=case_id, graph=graph, policy_sha=record.policy.get("sha"), link=link, record=kept, decided_by=decided_by,
        **same,
    )  # fmt: skip
    event: EventType = "case.pending" if record.outcome == "pending" else "case.decided"
    return event, told if kept is not None else told.without_words()


def cancel_message(
    case_id: str, graph: str, post_id: str | None, why: str, link: str, *, keep: bool
) -> CaseMessage:
    """Return the message of a case without an outcome."""
    told = CaseMessage(id=case_id, post_id=post_id, graph=graph, cancelled=why, link=link)
    return told if keep else told.without_words()


def message_body(event: str, data: JSON) -> str:
    """Return a message, as it is signed and sent."""
    at = database_datetime().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "timestamp": at, "data": data})


def events_of_webhook(webhook: Any) -> list[EventType]:
    """Return the types of messages that a webhook is sent.

    An endpoint that an earlier version added in the form of Slack or Coop is sent nothing: ours has other fields.
    """
    if webhook["form"] or webhook["coop"]:
        return []
    return [*webhook["events"], *(webhook["later_events"] or ())]


# The outbox


class Outbox:
    """The messages, as one replica sees them.

    Attributes:
        put: set when a message may have become due; whoever sends them looks then.
    """

    def __init__(self, store: Store, public_url: str | None = None) -> None:
        """Use a database; links in messages begin with `public_url`."""
        self._store = store
        self._public_url = (public_url or "").rstrip("/")
        self._announced = False  # whether any endpoint has asked for a message of this process
        self.put = asyncio.Event()

    def link(self, case_id: str) -> str:
        """Return where a case is shown."""
        return f"{self._public_url}/v1/cases/{case_id}"

    async def is_wanted(self, event: EventType) -> bool:
        """Return whether any endpoint in force is sent messages of a type."""
        in_force = await self._store.fetch_rows(
            select(webhooks).where(webhooks.c.disabled.is_(None))
        )
        return any(event in events_of_webhook(row) for row in in_force)

    async def announce(
        self,
        connection: AsyncConnection,
        event: EventType,
        told: CaseMessage,
        *,
        after: float = 0.0,
    ) -> None:
        """Write down a message for every endpoint that asked for this type, in the transaction in which a case ends.

        Its record only goes where the endpoint was added so. It is sent `after` so many seconds. Call `send` once the
        transaction is done.
        """
        group = Group(connection)
        await self.announce_in(group, event, told, after=after)
        await group.end()

    async def announce_in(
        self,
        group: Group,
        event: EventType,
        told: CaseMessage,
        *,
        alone: bool = False,
        after: float = 0.0,
    ) -> None:
        """Write down the messages of a case, which is known to be in no batch if `alone`. As `announce`."""
        in_force = await group.rows_once(_IN_FORCE)
        wanted = [
            (row, each) for row in in_force if (each := _event_for(row, event, told)) is not None
        ]
        if not wanted:
            return
        self._announced = True
        # A row of a batch that is not to be kept is kept itself, for a day.
        batch = select(cases.c.batch_id).where(cases.c.id == told.id).scalar_subquery()
        kept = select(batches.c.keep).where(batches.c.id == batch)
        if not alone and (await group.connection.execute(kept)).scalar() is False:
            told = told.without_words()
        now = database_now()
        common = {
            "case_id": told.id, "created": now, "status": "waiting", "due": now + after,
            "attempts": 0, "attempts_before": 0,
        }  # fmt: skip
        absent = {name for name in _OF_SOME if getattr(told, name) is None}
        with_record = told.model_dump(mode="json", exclude=absent)
        without_record = {**with_record, "record": None}
        made = [
            {
                "id": new_id("msg"),
                "webhook_id": row["id"],
                "event": each,
                "body": message_body(each, with_record if row["with_record"] else without_record),
                **common,
            }
            for row, each in wanted
        ]
        group.execute_at_end(_INSERT, made)

    def send(self) -> None:
        """Have what was announced sent: its transaction is done."""
        if self._announced:
            self.put.set()

    async def list_messages(
        self,
        *,
        status: Status | None = None,
        webhook_id: str | None = None,
        message_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[JSON]:
        """Return messages without their bodies, the newest first, from before this id on."""
        columns = [
            column for column in deliveries.c if column.name not in ("body", "attempts_before")
        ]
        query = select(*columns).order_by(deliveries.c.id.desc()).limit(limit)
        wanted = {
            deliveries.c.status: status,
            deliveries.c.webhook_id: webhook_id,
            deliveries.c.id: message_id,
        }
        for column, value in wanted.items():
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            query = query.where(deliveries.c.id < before)
        return await self._store.fetch_rows(query)

    async def replay(self, message_id: str | None = None, by: Who = OPERATOR) -> int:
        """Send dead messages again, from the start of the schedule and under the ids that they have; return how many.

        Without a `message_id`, all whose endpoints are in force.

        Raises:
            BadInput: there is no such dead message, or its endpoint is disabled.
        """
        in_force = select(webhooks.c.id).where(webhooks.c.disabled.is_(None))
        dead = (deliveries.c.status == "dead") & deliveries.c.webhook_id.in_(in_force)
        if message_id is not None:
            dead &= deliveries.c.id == message_id
        fresh = {
            "status": "waiting",
            "due": database_now(),
            "attempts_before": deliveries.c.attempts,
            "finished": None,
        }
        async with self._store.transaction() as connection:
            number = (
                await connection.execute(update(deliveries).where(dead).values(**fresh))
            ).rowcount
            if number:
                subject = message_id or "all"
                details = {"messages": number}
                await append(
                    connection,
                    by,
                    LogEntry(kind="delivery.replayed", subject=subject, details=details),
                )
        if message_id is not None and not number:
            raise BadInput(
                f"message {message_id[:80]}: no failed message of an active webhook has this id; list them with "
                "tribunal service webhooks list --failed. To enable a webhook again: tribunal service webhooks test ID "
                "--enable"
            )
        self.put.set()
        return int(number)


def _event_for(webhook: Any, event: EventType, told: CaseMessage) -> EventType | None:
    """Return the type under which a webhook is told of an event; None if it isn't told.

    A failure is a `case.failed` for a webhook that isn't told of every decision.
    """
    wanted = events_of_webhook(webhook)
    if event in wanted:
        return event
    is_failure = event == "case.decided" and told.outcome == "failure"
    return "case.failed" if is_failure and "case.failed" in wanted else None
