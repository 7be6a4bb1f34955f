"""The tables. Times are seconds of the epoch; ids are made here and not by the database."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()

batches = Table(
    "batches",
    METADATA,
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
    Column("columns", JSON, nullable=False, comment="which column is what, where it isn't called so"),
    Column("given", JSON, nullable=False, comment="the names of the file's columns, in order"),
    Column("rows", Integer, nullable=False, comment="how many posts the file holds"),
    Column("left_out", JSON, nullable=False, comment="how many rows gave no post, by reason"),
    Column("held", Text, comment="why no more of it is tried now"),
    Column("held_until", Double),
)
Index("batches_by_status", batches.c.status, batches.c.created)

cases = Table(
    "cases",
    METADATA,
    Column("id", Text, primary_key=True, comment="the case's, given out by the service"),
    Column("created", Double, nullable=False),
    Column("finished", Double),
    Column("status", Text, nullable=False, comment="queued, running, done or cancelled; waiting: of a batch"),
    Column("owner", Text, comment="the replica that tries it"),
    Column("attempt", Integer, nullable=False, default=0, comment="how often a replica has taken it up"),
    Column("key_id", Text, comment="whose request it was"),
    Column("graph", Text, nullable=False),
    Column(
        "post",
        JSON(none_as_null=True),
        comment="text, image, post_id, language, context; none where it must not be kept",
    ),
    Column("settings", JSON, nullable=False),
    Column("keep", Boolean, nullable=False, default=True, comment="whether post and record are kept when it is done"),
    Column("outcome", Text),
    Column("category", Text),
    Column("hateful", Boolean),
    Column("uncertain", Boolean),
    Column("policy_sha", Text),
    Column("record", JSON(none_as_null=True)),
    Column("attempts_before", Integer, nullable=False, default=0, comment="those before a person last decided"),
    Column("question", JSON(none_as_null=True), comment="what a person is asked, while one has to decide"),
    Column("claimed_by", Text, comment="the person who has it before them"),
    Column("claimed_until", Double),
    Column("answer", JSON(none_as_null=True), comment="what a person said, until the case has gone on from it"),
    Column("batch_id", Text, ForeignKey("batches.id", ondelete="CASCADE"), comment="whose row it is"),
    Column("place", Integer, comment="of the row in the batch, from 0"),
    Column("fields", JSON(none_as_null=True), comment="the row's other columns"),
)
_OF_A_BATCH = cases.c.batch_id.is_not(None)
Index(
    "cases_of_batch", cases.c.batch_id, cases.c.place, unique=True,
    postgresql_where=_OF_A_BATCH, sqlite_where=_OF_A_BATCH,
)  # fmt: skip
Index(
    "cases_of_batch_by_status", cases.c.batch_id, cases.c.status, cases.c.outcome, cases.c.place,
    postgresql_where=_OF_A_BATCH, sqlite_where=_OF_A_BATCH,
)  # fmt: skip
Index("cases_by_status", cases.c.status, cases.c.created)
Index("cases_by_time", cases.c.created)

events = Table(
    "events",
    METADATA,
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("event", JSON, nullable=False),
)

replicas = Table(
    "replicas",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("seen", Double, nullable=False, comment="its last sign of life"),
)

api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", Text, primary_key=True, comment="the part of the key that may be shown"),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False, comment="SHA-256 of the secret part, which is random"),
    Column("scopes", JSON, nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("per_minute", Integer, comment="requests"),
    Column("daily_calls", BigInteger),
    Column("daily_tokens", BigInteger),
    Column("daily_money", Double, comment="in the currency of the price table"),
)

usage = Table(
    "usage",
    METADATA,
    Column("key_id", Text, primary_key=True),
    Column("period", Text, primary_key=True, comment="a day, 2026-11-22, or a minute of one, 2026-11-22T09:30"),
    Column("requests", BigInteger, nullable=False, default=0),
    Column("calls", BigInteger, nullable=False, default=0),
    Column("tokens", BigInteger, nullable=False, default=0),
    Column("money", Double, nullable=False, default=0.0),
)

idempotency = Table(
    "idempotency",
    METADATA,
    Column("key_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", Text, nullable=False, comment="SHA-256 of what was asked, so that another request is refused"),
    Column("made", Text, nullable=False, comment="the id of the case or batch that it made"),
    Column("created", Double, nullable=False),
)

webhooks = Table(
    "webhooks",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False, comment="readable, since each message is signed with it"),
    Column("events", JSON, nullable=False, comment="the types that are sent there"),
    Column(
        "with_record", Boolean, nullable=False, comment="whether the whole record is sent, the post's words among it"
    ),
    Column("created", Double, nullable=False),
    Column("disabled", Double, comment="since when nothing is sent there"),
)

deliveries = Table(
    "deliveries",
    METADATA,
    Column("id", Text, primary_key=True, comment="the message's, the same in every attempt"),
    Column("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), index=True),
    Column("event", Text, nullable=False),
    Column("body", Text, nullable=False, comment="what is signed and sent, to the letter"),
    Column("created", Double, nullable=False),
    Column("status", Text, nullable=False, comment="waiting, delivered or dead"),
    Column("due", Double, nullable=False, comment="when it may be sent, or sent again"),
    Column("attempts", Integer, nullable=False, comment="how often a replica has taken it up"),
    Column("attempts_before", Integer, nullable=False, comment="of these, those before it was last replayed"),
    Column("finished", Double, comment="when it was delivered, or given up"),
    Column("answered", Integer, comment="the status of the last answer"),
    Column("error", Text, comment="why the last attempt failed"),
)
Index("deliveries_due", deliveries.c.status, deliveries.c.webhook_id, deliveries.c.due)

# What stands in the audit log outlives what it tells of, so it refers to nothing.
audit = Table(
    "audit",
    METADATA,
    Column("seq", BigInteger, primary_key=True, autoincrement=False, comment="1, 2, 3, … without a gap"),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False, comment="operator, key or replica"),
    Column("key_id", Text),
    Column("name", Text, nullable=False, comment="the key's, or the replica's id"),
    Column("kind", Text, nullable=False, comment="what was done"),
    Column("subject", Text, nullable=False, comment="to which case, batch, key, webhook or message"),
    Column("details", Text, nullable=False, comment="JSON in its one form; hashes, and never a post's words"),
    Column("previous", Text, nullable=False, comment="the hash of the entry before"),
    Column("hash", Text, nullable=False),
)
Index("audit_by_subject", audit.c.subject, audit.c.seq)
Index("audit_by_time", audit.c.at)

audit_head = Table(
    "audit_head",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("seq", BigInteger, nullable=False, comment="of the last entry"),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
