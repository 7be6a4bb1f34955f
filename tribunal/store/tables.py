"""The tables. Times are seconds of the epoch; ids are made here and not by the database.

A column of words of or about a post, in a table with a `case_id`, says with `info={"erased": VALUE}` what stands in it
once they are erased (`tribunal.docket.erasure`).
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()
VERSION = "0009"  # of these tables: the last of the migrations


@unique
class AdvisoryLock(IntEnum):
    """Name the advisory locks of PostgreSQL that this program takes: each number is one lock of the database."""

    TABLES = 7_481_160_231  # whoever makes or changes tables
    OLD_ROWS = 7_481_160_232  # the replica that deletes old rows
    QUEUE = 7_481_160_233  # whoever puts a new case into the queue


def _table(name: str, *columns: Column[Any]) -> Table:
    return Table(name, METADATA, *columns)


def _claim() -> tuple[Column[Any], Column[Any]]:
    return Column("claimed_by", Text, comment="the person who has it before them"), Column(
        "claimed_until", Double
    )


def _person_decides() -> tuple[Column[Any], ...]:
    return (
        *_claim(),
        # What a person decides, and when it takes effect; they may undo it before.
        Column("answer", JSON(none_as_null=True), info={"erased": None}),
        Column("held_until", Double, info={"erased": None}),
        Column(
            "clauses",
            JSON(none_as_null=True),
            comment="the ids of the clauses that the decision rests on",
        ),
    )


def _case_id(**given: Any) -> Column[Any]:
    return Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), **given)


def _index(name: str, *columns: Any, where: Any = None, unique: bool = False) -> None:
    sa.Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)


batches = _table(
    "batches",
    Column("id", Text, primary_key=True),
    Column("created", Double, nullable=False),
    Column("finished", Double, comment="when its last row was decided or cancelled"),
    Column("status", Text, nullable=False, comment="reading, running, done or cancelled"),
    Column("owner", Text, comment="the replica that reads its file, while it does"),
    Column("key_id", Text, comment="whose request it was"),
    Column("file", Text, nullable=False, comment="what the file was called"),
    Column("graph", Text, nullable=False),
    Column("settings", JSON, nullable=False),
    Column("keep", Boolean, nullable=False, comment="whether it stays until somebody deletes it"),
    Column(
        "columns", JSON, nullable=False, comment="which column is what, where it isn't called so"
    ),
    Column("given", JSON, nullable=False, comment="the names of the file's columns, in order"),
    Column("rows", Integer, nullable=False, comment="how many posts the file holds"),
    Column("left_out", JSON, nullable=False, comment="how many rows gave no post, by reason"),
    Column("held", Text, comment="why no more of it is tried now"),
    Column("held_for", Text, comment="the provider that it waits for, if a model's server is why"),
    Column("held_until", Double),
)
_index("batches_by_status", batches.c.status, batches.c.created)

cases = _table(
    "cases",
    Column("id", Text, primary_key=True, comment="the case's, given out by the service"),
    Column("created", Double, nullable=False),
    Column("finished", Double),
    Column(
        "status",
        Text,
        nullable=False,
        comment="queued, running, done or cancelled; waiting: of a batch",
    ),
    Column("owner", Text, comment="the replica that tries it"),
    Column(
        "attempt", Integer, nullable=False, default=0, comment="how often a replica has taken it up"
    ),
    Column("key_id", Text, comment="whose request it was"),
    Column("graph", Text, nullable=False),
    Column(
        "post",
        JSON(none_as_null=True),
        comment="text, image, post_id, language; none where it must not be kept",
    ),
    Column("settings", JSON, nullable=False),
    Column(
        "keep",
        Boolean,
        nullable=False,
        default=True,
        comment="whether post and record are kept when it is done",
    ),
    Column("outcome", Text),
    Column("category", Text),
    Column("hateful", Boolean),
    Column("uncertain", Boolean),
    Column("policy_sha", Text),
    Column("record", JSON(none_as_null=True)),
    Column(
        "attempts_before",
        Integer,
        nullable=False,
        default=0,
        comment="those before a person last decided",
    ),
    Column(
        "question",
        JSON(none_as_null=True),
        comment="what a person is asked, while one has to decide",
    ),
    *_claim(),
    Column(
        "answer",
        JSON(none_as_null=True),
        comment="what a person said, until the case has gone on from it",
    ),
    Column(
        "batch_id", Text, ForeignKey("batches.id", ondelete="CASCADE"), comment="whose row it is"
    ),
    Column("place", Integer, comment="of the row in the batch, from 0"),
    Column("fields", JSON(none_as_null=True), comment="the row's other columns"),
    Column("policy_name", Text),
    Column("language", Text),
    Column("confidence", Double),
    Column("reason", Text, comment="why it is put before a person"),
    Column(
        "waits_since",
        Double,
        comment="when it was last put before one, while it is theirs to decide",
    ),
    Column("reviewer", Text, comment="the person who decided it"),
    Column("escalated", Double, comment="since when it waits for a lead"),
    Column(
        "via",
        Text,
        nullable=False,
        default="service",
        comment="the way in: command, python, batch, studio, …",
    ),
    Column("post_id", Text, comment="what the post is called, in its record"),
    Column(
        "post_sha",
        Text,
        comment="SHA-256 of the post as it was given, whether or not its words are kept",
    ),
    Column(
        "image_sha",
        Text,
        comment="of its image's bytes, by which the file in the data folder is called",
    ),
    Column("prompts_sha", Text, comment="of the prompts in force; their text is in contents"),
    Column("protocol_sha", Text, comment="of how it was tried; its text is in contents"),
    Column(
        "money",
        Double,
        comment="what its calls cost, by the price table; none where there was none",
    ),
    Column("erased", Double, comment="when its words were erased"),
    Column(
        "appeal_id",
        Text,
        comment="the appeal whose new trial it is: no case of its own, and counted nowhere",
    ),
    Column(
        "words",
        Boolean,
        nullable=False,
        default=True,
        server_default=sa.true(),
        comment="stay once it is decided",
    ),
    Column(
        "priority",
        Integer,
        nullable=False,
        default=0,
        server_default="0",
        comment="its key's: higher goes first",
    ),
    Column("held", Text, comment="why it isn't tried now, though it is queued"),
    Column("held_until", Double),
    Column(
        "reserved_day",
        Text,
        comment="the day of whose budget it may take these (`tribunal.docket.reservations`)",
    ),
    Column("reserved_attempt", Integer, comment="the attempt that it is reserved for"),
    Column(
        "reserved_calls",
        BigInteger,
        comment="none where the key has no limit of them; so the next two",
    ),
    Column("reserved_tokens", BigInteger),
    Column("reserved_money", Double),
    Column("held_for", Text, comment="the provider that it waits for, if a model's server is why"),
    Column("deadline", Double, comment="when it is a failure, if no model has answered by then"),
    Column(
        "calls_paid",
        JSON(none_as_null=True),
        comment="the ids of calls that its key's account has, while held",
    ),
    Column(
        "author_sha",
        Text,
        comment="of the author's id, with this database's own key; none where none was given",
    ),
    Column("model_category", Text, comment="that the models came to, while a person has to decide"),
    Column(
        "cited",
        Text,
        comment="the ids of the clauses that the outcome rests on, each between spaces",
    ),
    Column("severity", Text, comment="the highest of these clauses"),
    Column(
        "same_text",
        Text,
        comment="of a case that waits: equal in all that wait with its words, image and policy",
    ),
    Column(
        "practice", Text, comment="why it counts nowhere (`PRACTICE`); none for a real decision"
    ),
)
PRACTICE = {"tried": "tried on /try", "rehearsed": "decided by the rehearsal model"}
# Counted in figures, reports, statements, precedents, fits and an author's history.
COUNTED = sa.and_(cases.c.appeal_id.is_(None), cases.c.practice.is_(None))
_index("cases_of_practice", cases.c.id, where=cases.c.practice.is_not(None))
_index("cases_by_same_text", cases.c.same_text, where=cases.c.same_text.is_not(None))
_index("cases_by_post", cases.c.post_id)
_index("cases_by_author", cases.c.author_sha, where=cases.c.author_sha.is_not(None))
_index("cases_held", cases.c.held_for, where=cases.c.held_for.is_not(None))
_index("cases_by_image", cases.c.image_sha)
_OF_A_BATCH = cases.c.batch_id.is_not(None)
_index("cases_of_batch", cases.c.batch_id, cases.c.place, unique=True, where=_OF_A_BATCH)
_index(
    "cases_of_batch_by_status",
    cases.c.batch_id,
    cases.c.status,
    cases.c.outcome,
    cases.c.place,
    where=_OF_A_BATCH,
)
_index("cases_by_status", cases.c.status, cases.c.created)
_index("cases_by_time", cases.c.created)
# All that the desk's queue counts, filters and sorts by, so that it never reads a case that it doesn't show.
_index(
    "cases_that_wait", cases.c.created, cases.c.id, cases.c.waits_since, cases.c.status, cases.c.reason,
    cases.c.policy_name, cases.c.language, cases.c.confidence, cases.c.escalated, cases.c.claimed_by,
    cases.c.claimed_until, cases.c.appeal_id, cases.c.category, cases.c.model_category, cases.c.cited,
    cases.c.severity, cases.c.image_sha, cases.c.same_text, where=cases.c.waits_since.is_not(None),
)  # fmt: skip
# What the figures of a time are counted from, without a look at the rows, which are wide.
_index(
    "cases_by_end", cases.c.finished, cases.c.outcome, cases.c.category, cases.c.hateful, cases.c.created,
    cases.c.money, cases.c.appeal_id, cases.c.reviewer, cases.c.practice, where=cases.c.outcome.is_not(None),
)  # fmt: skip

# What people decided, one row a decision, and none is ever changed. Their words stand in the case's record.
decisions = _table(
    "decisions",
    _case_id(primary_key=True),
    Column("number", Integer, primary_key=True, comment="1, 2, …, of the case"),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False, comment="review, appeal or reopened"),
    Column("appeal_id", Text, comment="the appeal that it decides"),
    Column("reviewer", Text, nullable=False),
    Column(
        "result", Text, nullable=False, comment="accepted or changed; upheld, reversed or changed"
    ),
    Column("category_before", Text),
    Column("hateful_before", Boolean),
    Column("category", Text),
    Column("hateful", Boolean),
)
_index(
    "decisions_by_time", decisions.c.at, decisions.c.kind, decisions.c.result, decisions.c.case_id
)

appeals = _table(
    "appeals",
    Column("id", Text, primary_key=True),
    _case_id(nullable=False),
    Column("kind", Text, nullable=False, comment="appeal, or reopened: by a lead"),
    Column("created", Double, nullable=False),
    Column("key_id", Text, comment="whose request it was"),
    Column(
        "appellant",
        Text,
        nullable=False,
        info={"erased": ""},
        comment="as the platform calls them; or the lead",
    ),
    Column("reason", Text, nullable=False, info={"erased": ""}),
    Column("context", Text, nullable=False, comment="what is new", info={"erased": ""}),
    Column("status", Text, nullable=False, comment="waiting, trying, tried or decided"),
    *_person_decides(),
    Column("reviewer", Text, comment="who ordered the new trial, and then who decided"),
    Column("trial_id", Text, comment="the case that is the new trial"),
    Column("trial_ordered", Double),
    Column(
        "trial_failed",
        Text,
        comment="why the last new trial came to nothing",
        info={"erased": None},
    ),
    Column("result", Text, comment="upheld, reversed or changed"),
    Column("category_before", Text),
    Column("hateful_before", Boolean),
    Column("category", Text),
    Column("hateful", Boolean),
    Column("note", Text, nullable=False, comment="why it was decided so", info={"erased": ""}),
    Column("decided", Double),
)
_index("appeals_open", appeals.c.case_id, unique=True, where=appeals.c.decided.is_(None))
_index("appeals_held", appeals.c.held_until, where=appeals.c.held_until.is_not(None))
_index("appeals_of_case", appeals.c.case_id, appeals.c.created)
_index("appeals_by_status", appeals.c.status, appeals.c.created)

second_opinions = _table(
    "second_opinions",
    Column(
        "id",
        Text,
        primary_key=True,
        comment="another than the case's, which would tell what was decided",
    ),
    _case_id(nullable=False, unique=True),
    Column("created", Double, nullable=False),
    Column("first", Text, nullable=False, comment="who decided: a person, or the court"),
    Column("first_category", Text, nullable=False),
    Column("status", Text, nullable=False, comment="waiting, agreed, disagreed or settled"),
    *_person_decides(),
    Column("second", Text, comment="who gave it"),
    Column("second_category", Text),
    Column("note", Text, nullable=False, info={"erased": ""}),
    Column("given", Double),
    Column("settled_by", Text, comment="the lead who saw to a disagreement"),
    Column("settled", Double),
    Column("appeal_id", Text, comment="of the case that was reopened for it"),
)
_index("second_opinions_by_status", second_opinions.c.status, second_opinions.c.created)
_index(
    "second_opinions_held",
    second_opinions.c.held_until,
    where=second_opinions.c.held_until.is_not(None),
)
_index("second_opinions_by_time", second_opinions.c.given)

# One secret a purpose, made by whichever replica needs it first.
secrets = _table(
    "secrets", Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)

contents = _table(
    "contents",
    Column("kind", Text, primary_key=True, comment="policy, prompts or protocol"),
    Column(
        "sha",
        Text,
        primary_key=True,
        comment="as records name it: the first 16 digits of the hash of the text",
    ),
    Column("text", Text, nullable=False, comment="in full; prompts as JSON, by name"),
    Column("created", Double, nullable=False),
)

events = _table(
    "events",
    _case_id(primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("event", JSON, nullable=False),
)

notes = _table(
    "notes",
    Column("id", Text, primary_key=True),
    _case_id(nullable=False, index=True),
    Column("at", Double, nullable=False),
    Column("person", Text, nullable=False, comment="whose it is"),
    Column("kind", Text, nullable=False, comment="note, escalated or skipped"),
    Column(
        "words",
        Text,
        nullable=False,
        info={"erased": ""},
        comment="their own, which may quote the post",
    ),
)

# `seen` is its last sign of life.
replicas = _table(
    "replicas", Column("id", Text, primary_key=True), Column("seen", Double, nullable=False)
)

api_keys = _table(
    "api_keys",
    Column("id", Text, primary_key=True, comment="the part of the key that may be shown"),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False, comment="SHA-256 of the secret part, which is random"),
    Column("scopes", JSON, nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("per_minute", Integer, comment="requests"),
    *(Column(name, BigInteger) for name in ("daily_calls", "daily_tokens")),
    Column("daily_money", Double, comment="in the currency of the price table"),
    Column(
        "priority",
        Integer,
        nullable=False,
        default=0,
        server_default="0",
        comment="of its cases in the queue",
    ),
    Column("expires", Double, comment="when it ends; none: never"),
    Column("rotated", Double, comment="when its present secret was made; none: with the key"),
    Column(
        "old_hash", Text, comment="of the secret before, which still opens it until old_expires"
    ),
    Column("old_expires", Double),
)

desk_sessions = _table(
    "desk_sessions",
    Column("id", Text, primary_key=True, comment="SHA-256 of what the browser holds"),
    Column("key_id", Text, comment="the key that it was begun with"),
    Column("proxied", Text, comment="the user that a trusted proxy named"),
    Column("named", Text, comment="who they said they are, where several use one key"),
    Column("created", Double, nullable=False),
    Column("seen", Double, nullable=False, comment="the last request"),
    Column("hard", Integer, nullable=False, comment="hard cases that were decided in a row"),
)

desk_tries = _table(
    "desk_tries",
    Column(
        "address", Text, primary_key=True, comment="from where somebody tried to sign in in vain"
    ),
    Column("minute", BigInteger, primary_key=True),
    Column("number", Integer, nullable=False),
)

usage = _table(
    "usage",
    Column("key_id", Text, primary_key=True),
    Column(
        "period",
        Text,
        primary_key=True,
        comment="a day, 2026-11-22, a minute of it, or a letter of it",
    ),
    *(
        Column(name, BigInteger, nullable=False, default=0)
        for name in ("requests", "calls", "tokens")
    ),
    Column("money", Double, nullable=False, default=0.0),
    Column(
        "reserved_calls",
        BigInteger,
        nullable=False,
        default=0,
        server_default="0",
        comment="for cases under way",
    ),
    Column("reserved_tokens", BigInteger, nullable=False, default=0, server_default="0"),
    Column("reserved_money", Double, nullable=False, default=0.0, server_default="0"),
)

idempotency = _table(
    "idempotency",
    Column("key_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", Text, nullable=False, comment="SHA-256 of the case, with its settings"),
    Column(
        "client_request",
        Text,
        comment="SHA-256 of the client's request; another request is refused",
    ),
    Column("made", Text, nullable=False, comment="the id of the case or batch that it made"),
    Column("created", Double, nullable=False),
)

webhooks = _table(
    "webhooks",
    Column("id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column(
        "secret", Text, nullable=False, comment="readable, since each message is signed with it"
    ),
    Column("events", JSON, nullable=False, comment="the types that are sent there"),
    Column(
        "with_record",
        Boolean,
        nullable=False,
        comment="whether the whole record is sent, with the post's words",
    ),
    Column(
        "coop", JSON(none_as_null=True), comment="its own names, where it is told in Coop's form"
    ),
    Column("form", Text, comment="slack; none: our own form, or Coop's"),
    Column(
        "later_events",
        JSON(none_as_null=True),
        comment="as events: what the release before knows nothing of",
    ),
    Column("created", Double, nullable=False),
    Column("disabled", Double, comment="since when nothing is sent there"),
)

deliveries = _table(
    "deliveries",
    Column("id", Text, primary_key=True, comment="the message's, the same in every attempt"),
    Column("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    _case_id(index=True),
    Column("event", Text, nullable=False),
    Column("body", Text, nullable=False, comment="what is signed and sent, to the letter"),
    Column("created", Double, nullable=False),
    Column("status", Text, nullable=False, comment="waiting, delivered or dead"),
    Column("due", Double, nullable=False, comment="when it may be sent, or sent again"),
    Column("attempts", Integer, nullable=False, comment="how often a replica has taken it up"),
    Column(
        "attempts_before",
        Integer,
        nullable=False,
        comment="of these, those before it was last replayed",
    ),
    Column("finished", Double, comment="when it was delivered, or given up"),
    Column("answered", Integer, comment="the status of the last answer"),
    Column("error", Text, comment="why the last attempt failed"),
)
_index("deliveries_due", deliveries.c.status, deliveries.c.webhook_id, deliveries.c.due)

# What was said to a public register outlives the case that it was said of, so it refers to nothing.
statements = _table(
    "statements",
    Column("puid", Text, primary_key=True, comment="the one id that the register is told"),
    Column("case_id", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("file", Text, nullable=False, comment="the batch that it was written in"),
    Column("place", Integer, nullable=False, comment="in the batch, from 0"),
    Column(
        "body",
        JSON(none_as_null=True),
        info={"erased": None},
        comment="the statement, to the letter",
    ),
    Column(
        "status",
        Text,
        nullable=False,
        comment="made, sent, known (the register had it before) or refused",
    ),
    Column("sent", Double, comment="when the register answered"),
    Column("uuid", Text, comment="the register's own id"),
    Column("permalink", Text),
    Column("error", Text, comment="why it was refused"),
)
_index("statements_by_case", statements.c.case_id)
_index("statements_by_status", statements.c.status, statements.c.file, statements.c.place)

# What stands in the audit log outlives what it tells of, so it refers to nothing.
audit = _table(
    "audit",
    Column(
        "seq", BigInteger, primary_key=True, autoincrement=False, comment="1, 2, 3, … without a gap"
    ),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False, comment="operator, key or replica"),
    Column("key_id", Text),
    Column("name", Text, nullable=False, comment="the key's, or the replica's id"),
    Column("kind", Text, nullable=False, comment="what was done"),
    Column(
        "subject", Text, nullable=False, comment="to which case, batch, key, webhook or message"
    ),
    Column(
        "details",
        Text,
        nullable=False,
        comment="JSON in its one form; hashes, and never a post's words",
    ),
    Column("previous", Text, nullable=False, comment="the hash of the entry before"),
    Column("hash", Text, nullable=False),
)
_index("audit_by_subject", audit.c.subject, audit.c.seq)
_index("audit_by_time", audit.c.at)

# Not used since 0.3.0, which publishes no heads; databases that were migrated have the table.
published_heads = _table(
    "published_heads",
    Column("target", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in ("seq", "claimed")),
    Column("due", Double, nullable=False),
)

audit_head = _table(
    "audit_head",
    Column("id", Integer, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("seq", BigInteger, nullable=False, comment="of the last entry"),
    *(Column(name, Text, nullable=False) for name in ("previous", "hash")),
)
