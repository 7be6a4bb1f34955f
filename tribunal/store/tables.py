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

cases = Table(
    "cases",
    METADATA,
    Column("id", Text, primary_key=True, comment="the case's, given out by the service"),
    Column("created", Double, nullable=False),
    Column("finished", Double),
    Column("status", Text, nullable=False, comment="queued, running, done or cancelled"),
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
)
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
    Column("made", Text, nullable=False, comment="the id of the case that it made"),
    Column("created", Double, nullable=False),
)
