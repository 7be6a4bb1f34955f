"""The tables of version 0001, as they stay: what 0001 makes, or mends older ones into. Nothing here is ever changed."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, Table, Text

FIRST = MetaData()


def _having(condition: str) -> dict[str, Any]:
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


Table(
    "batches", FIRST,
    Column("id", Text, primary_key=True), Column("created", Double, nullable=False), Column("finished", Double),
    Column("status", Text, nullable=False), Column("owner", Text), Column("key_id", Text),
    Column("file", Text, nullable=False), Column("graph", Text, nullable=False),
    Column("settings", JSON, nullable=False), Column("keep", Boolean, nullable=False),
    Column("columns", JSON, nullable=False), Column("given", JSON, nullable=False),
    Column("rows", Integer, nullable=False), Column("left_out", JSON, nullable=False), Column("held", Text),
    Column("held_until", Double),
    Index("batches_by_status", "status", "created"),
)  # fmt: skip
Table(
    "cases", FIRST,
    Column("id", Text, primary_key=True), Column("created", Double, nullable=False), Column("finished", Double),
    Column("status", Text, nullable=False), Column("owner", Text), Column("attempt", Integer, nullable=False),
    Column("key_id", Text), Column("graph", Text, nullable=False), Column("post", JSON(none_as_null=True)),
    Column("settings", JSON, nullable=False), Column("keep", Boolean, nullable=False), Column("outcome", Text),
    Column("category", Text), Column("hateful", Boolean), Column("uncertain", Boolean), Column("policy_sha", Text),
    Column("record", JSON(none_as_null=True)), Column("attempts_before", Integer, nullable=False),
    Column("question", JSON(none_as_null=True)), Column("claimed_by", Text), Column("claimed_until", Double),
    Column("answer", JSON(none_as_null=True)), Column("batch_id", Text, ForeignKey("batches.id", ondelete="CASCADE")),
    Column("place", Integer), Column("fields", JSON(none_as_null=True)), Column("policy_name", Text),
    Column("language", Text), Column("confidence", Double), Column("reason", Text), Column("waits_since", Double),
    Column("reviewer", Text), Column("escalated", Double), Column("via", Text, nullable=False), Column("post_id", Text),
    Column("post_sha", Text), Column("image_sha", Text), Column("prompts_sha", Text), Column("protocol_sha", Text),
    Column("money", Double), Column("erased", Double), Column("appeal_id", Text),
    Index("cases_by_end", "finished", "outcome", "category", "hateful", "created", "money", "appeal_id", "reviewer",
          **_having("outcome IS NOT NULL")),
    Index("cases_by_image", "image_sha"),
    Index("cases_by_post", "post_id"),
    Index("cases_by_status", "status", "created"),
    Index("cases_by_time", "created"),
    Index("cases_of_batch", "batch_id", "place", unique=True, **_having("batch_id IS NOT NULL")),
    Index("cases_of_batch_by_status", "batch_id", "status", "outcome", "place", **_having("batch_id IS NOT NULL")),
    Index("cases_that_wait", "created", "id", "waits_since", "status", "reason", "policy_name", "language",
          "confidence", "escalated", "claimed_by", "claimed_until", "appeal_id", **_having("waits_since IS NOT NULL")),
)  # fmt: skip
Table(
    "decisions", FIRST,
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True), Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False), Column("appeal_id", Text), Column("reviewer", Text, nullable=False),
    Column("result", Text, nullable=False), Column("category_before", Text), Column("hateful_before", Boolean),
    Column("category", Text), Column("hateful", Boolean),
    Index("decisions_by_time", "at", "kind", "result", "case_id"),
)  # fmt: skip
Table(
    "appeals", FIRST,
    Column("id", Text, primary_key=True),
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False), Column("created", Double, nullable=False), Column("key_id", Text),
    Column("appellant", Text, nullable=False), Column("reason", Text, nullable=False),
    Column("context", Text, nullable=False), Column("status", Text, nullable=False), Column("claimed_by", Text),
    Column("claimed_until", Double), Column("reviewer", Text), Column("trial_id", Text),
    Column("trial_ordered", Double), Column("trial_failed", Text), Column("result", Text),
    Column("category_before", Text), Column("hateful_before", Boolean), Column("category", Text),
    Column("hateful", Boolean), Column("note", Text, nullable=False), Column("decided", Double),
    Index("appeals_by_status", "status", "created"),
    Index("appeals_of_case", "case_id", "created"),
    Index("appeals_open", "case_id", unique=True, **_having("decided IS NULL")),
)  # fmt: skip
Table(
    "second_opinions", FIRST,
    Column("id", Text, primary_key=True),
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False, unique=True),
    Column("created", Double, nullable=False), Column("first", Text, nullable=False),
    Column("first_category", Text, nullable=False), Column("status", Text, nullable=False), Column("claimed_by", Text),
    Column("claimed_until", Double), Column("second", Text), Column("second_category", Text),
    Column("note", Text, nullable=False), Column("given", Double), Column("settled_by", Text),
    Column("settled", Double), Column("appeal_id", Text),
    Index("second_opinions_by_status", "status", "created"),
    Index("second_opinions_by_time", "given"),
)  # fmt: skip
Table(
    "secrets", FIRST,
    Column("name", Text, primary_key=True), Column("value", Text, nullable=False),
)  # fmt: skip
Table(
    "contents", FIRST,
    Column("kind", Text, primary_key=True), Column("sha", Text, primary_key=True), Column("text", Text, nullable=False),
    Column("created", Double, nullable=False),
)  # fmt: skip
Table(
    "events", FIRST,
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True), Column("attempt", Integer, nullable=False),
    Column("event", JSON, nullable=False),
)  # fmt: skip
Table(
    "notes", FIRST,
    Column("id", Text, primary_key=True),
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("at", Double, nullable=False), Column("person", Text, nullable=False), Column("kind", Text, nullable=False),
    Column("words", Text, nullable=False),
    Index("ix_notes_case_id", "case_id"),
)  # fmt: skip
Table(
    "replicas", FIRST,
    Column("id", Text, primary_key=True), Column("seen", Double, nullable=False),
)  # fmt: skip
Table(
    "api_keys", FIRST,
    Column("id", Text, primary_key=True), Column("name", Text, nullable=False), Column("hash", Text, nullable=False),
    Column("scopes", JSON, nullable=False), Column("created", Double, nullable=False), Column("revoked", Double),
    Column("per_minute", Integer), Column("daily_calls", BigInteger), Column("daily_tokens", BigInteger),
    Column("daily_money", Double),
)  # fmt: skip
Table(
    "desk_sessions", FIRST,
    Column("id", Text, primary_key=True), Column("key_id", Text), Column("proxied", Text), Column("named", Text),
    Column("created", Double, nullable=False), Column("seen", Double, nullable=False),
    Column("hard", Integer, nullable=False),
)  # fmt: skip
Table(
    "desk_tries", FIRST,
    Column("address", Text, primary_key=True), Column("minute", BigInteger, primary_key=True),
    Column("number", Integer, nullable=False),
)  # fmt: skip
Table(
    "usage", FIRST,
    Column("key_id", Text, primary_key=True), Column("period", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False), Column("calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False), Column("money", Double, nullable=False),
)  # fmt: skip
Table(
    "idempotency", FIRST,
    Column("key_id", Text, primary_key=True), Column("key", Text, primary_key=True),
    Column("request", Text, nullable=False), Column("made", Text, nullable=False),
    Column("created", Double, nullable=False),
)  # fmt: skip
Table(
    "webhooks", FIRST,
    Column("id", Text, primary_key=True), Column("url", Text, nullable=False), Column("secret", Text, nullable=False),
    Column("events", JSON, nullable=False), Column("with_record", Boolean, nullable=False),
    Column("coop", JSON(none_as_null=True)), Column("created", Double, nullable=False), Column("disabled", Double),
)  # fmt: skip
Table(
    "deliveries", FIRST,
    Column("id", Text, primary_key=True),
    Column("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("case_id", Text, ForeignKey("cases.id", ondelete="CASCADE")), Column("event", Text, nullable=False),
    Column("body", Text, nullable=False), Column("created", Double, nullable=False),
    Column("status", Text, nullable=False), Column("due", Double, nullable=False),
    Column("attempts", Integer, nullable=False), Column("attempts_before", Integer, nullable=False),
    Column("finished", Double), Column("answered", Integer), Column("error", Text),
    Index("deliveries_due", "status", "webhook_id", "due"),
    Index("ix_deliveries_case_id", "case_id"),
)  # fmt: skip
Table(
    "statements", FIRST,
    Column("puid", Text, primary_key=True), Column("case_id", Text, nullable=False),
    Column("created", Double, nullable=False), Column("file", Text, nullable=False),
    Column("place", Integer, nullable=False), Column("body", JSON(none_as_null=True)),
    Column("status", Text, nullable=False), Column("sent", Double), Column("uuid", Text), Column("permalink", Text),
    Column("error", Text),
    Index("statements_by_case", "case_id"),
    Index("statements_by_status", "status", "file", "place"),
)  # fmt: skip
Table(
    "audit", FIRST,
    Column("seq", BigInteger, primary_key=True, autoincrement=False), Column("at", Double, nullable=False),
    Column("who", Text, nullable=False), Column("key_id", Text), Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False), Column("subject", Text, nullable=False),
    Column("details", Text, nullable=False), Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("audit_by_subject", "subject", "seq"),
    Index("audit_by_time", "at"),
)  # fmt: skip
Table(
    "audit_head", FIRST,
    Column("id", Integer, primary_key=True, autoincrement=False), Column("seq", BigInteger, nullable=False),
    Column("previous", Text, nullable=False), Column("hash", Text, nullable=False),
)  # fmt: skip
