"""The first tables"""

from __future__ import annotations

from importlib.resources import files

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False, comment="the part of the key that may be shown"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False, comment="SHA-256 of the secret part, which is random"),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.Column("per_minute", sa.Integer(), nullable=True, comment="requests"),
        sa.Column("daily_calls", sa.BigInteger(), nullable=True),
        sa.Column("daily_tokens", sa.BigInteger(), nullable=True),
        sa.Column("daily_money", sa.Double(), nullable=True, comment="in the currency of the price table"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "cases",
        sa.Column("id", sa.Text(), nullable=False, comment="the case's, given out by the service"),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False, comment="queued, running, done or cancelled"),
        sa.Column("owner", sa.Text(), nullable=True, comment="the replica that tries it"),
        sa.Column("attempt", sa.Integer(), nullable=False, comment="how often a replica has taken it up"),
        sa.Column("key_id", sa.Text(), nullable=True, comment="whose request it was"),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column(
            "post",
            sa.JSON(none_as_null=True),
            nullable=True,
            comment="text, image, post_id, language, context; none where it must not be kept",
        ),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("keep", sa.Boolean(), nullable=False, comment="whether post and record are kept when it is done"),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("hateful", sa.Boolean(), nullable=True),
        sa.Column("uncertain", sa.Boolean(), nullable=True),
        sa.Column("policy_sha", sa.Text(), nullable=True),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("cases", schema=None) as batch_op:
        batch_op.create_index("cases_by_status", ["status", "created"], unique=False)
        batch_op.create_index("cases_by_time", ["created"], unique=False)

    op.create_table(
        "idempotency",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column(
            "request",
            sa.Text(),
            nullable=False,
            comment="SHA-256 of what was asked, so that another request is refused",
        ),
        sa.Column("made", sa.Text(), nullable=False, comment="the id of the case that it made"),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "key"),
    )
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False, comment="its last sign of life"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "usage",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column(
            "period", sa.Text(), nullable=False, comment="a day, 2026-11-22, or a minute of one, 2026-11-22T09:30"
        ),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("money", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "period"),
    )
    op.create_table(
        "events",
        sa.Column("case_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("case_id", "number"),
    )

    connection = op.get_bind()
    if connection.dialect.name == "postgresql":  # the queue's own tables; SQLite has a queue of ours
        statements = (files("procrastinate") / "sql" / "schema.sql").read_text("utf-8")
        connection.connection.cursor().execute(statements)  # by the driver itself: the text holds percent signs
