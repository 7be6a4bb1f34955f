"""The first tables, made anew, or mended where a database of this version has them in an older shape.

Until version 0002 this file was written anew with each release, so that four shapes were called 0001. Now it is frozen,
and so is `first_tables`: a database that says 0001 has it run again, which adds what is missing and keeps every row.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateTable

from tribunal.errors import BadInput
from tribunal.store.audit import NOTHING, canonical, chained, content, sha
from tribunal.store.migrations.first_tables import FIRST

revision = "0001"
down_revision = None
_NEW_IN_CASES: dict[str, Any] = {"attempts_before": 0, "via": "service"}  # what every older row has in them
_AT_ONCE = 500  # rows


def upgrade() -> None:
    """Make each table, or mend it.

    Raises:
        BadInput: a table holds rows that no release has written so.
    """
    connection = op.get_bind()
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    for table in FIRST.sorted_tables:  # a table comes after those that it refers to
        if table.name not in there:
            table.create(connection)
            continue
        kept = _kept_columns(inspector, table)
        others = {column["name"] for column in inspector.get_columns(table.name)} - kept
        missing = [column for column in table.c if column.name not in kept]
        if missing or others:
            _mend(connection, table, kept, others, missing)
        named = {index["name"] for index in sa.inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in named:
                index.create(connection)
    if "audit" not in there:
        _begin_log(connection)


def _kept_columns(inspector: sa.Inspector, table: sa.Table) -> set[str]:
    """Return the columns that are there as they should be: one that refers to a row otherwise than it should isn't."""
    wanted = {(each.parent.name, each.ondelete) for each in table.foreign_keys}
    found = {
        (name, each.get("options", {}).get("ondelete"))
        for each in inspector.get_foreign_keys(table.name)
        for name in each["constrained_columns"]
    }
    wrong = {name for name, _ in wanted ^ found}
    return {each["name"] for each in inspector.get_columns(table.name)} & set(table.c.keys()) - wrong


def _mend(
    connection: sa.Connection, table: sa.Table, kept: set[str], others: set[str], missing: list[sa.Column[Any]]
) -> None:
    new = _NEW_IN_CASES if table.name == "cases" else {}
    unknown = [each.name for each in missing if not each.nullable and each.name not in new]
    old = sa.table(table.name, *(sa.column(name) for name in sorted(others)))
    in_the_way = sa.true() if unknown else sa.or_(sa.false(), *(old.c[name].is_not(None) for name in sorted(others)))
    if connection.execute(sa.select(sa.literal(1)).select_from(old).where(in_the_way).limit(1)).first():
        address = connection.engine.url.render_as_string(hide_password=True)
        raise BadInput(
            f"database: {address}: can't be brought up to date: no release wrote rows of {table.name} with"
            f"{f'out {unknown[0]}' if unknown else f' {min(others)}'}; delete these rows, or give another database"
        )
    if connection.dialect.name == "sqlite":  # which can't add what refers to other rows
        _rebuild(connection, table, kept, new)
    elif unknown:  # it is empty
        connection.exec_driver_sql(f"DROP TABLE {table.name} CASCADE")
        table.create(connection)
    else:
        for name in sorted(others):
            op.drop_column(table.name, name)
        for each in missing:
            default = str(new[each.name]) if each.name in new else None
            references = [sa.ForeignKey(one.target_fullname, ondelete=one.ondelete) for one in each.foreign_keys]
            added = sa.Column(each.name, each.type, *references, nullable=each.nullable, server_default=default)
            op.add_column(table.name, added)
            if default is not None:
                op.alter_column(table.name, each.name, server_default=None)
    if table.name == "cases":
        _fill_columns(connection)


def _rebuild(connection: sa.Connection, table: sa.Table, kept: set[str], new: dict[str, Any]) -> None:
    """Write a table of SQLite anew; nothing watches over references meanwhile."""
    mended = table.to_metadata(FIRST, name=f"{table.name}_mended")
    connection.execute(CreateTable(mended))
    FIRST.remove(mended)
    names = ", ".join(f'"{name}"' for name in (*sorted(kept), *new))
    values = ", ".join([f'"{name}"' for name in sorted(kept)] + [f"'{value}'" for value in new.values()])
    connection.exec_driver_sql(f"INSERT INTO {mended.name} ({names}) SELECT {values} FROM {table.name}")  # noqa: S608
    connection.exec_driver_sql(f"DROP TABLE {table.name}")
    op.rename_table(mended.name, table.name)


def _begin_log(connection: sa.Connection) -> None:
    """Begin the audit log with an entry for each case that was decided before there was one, as it is now."""
    cases, audit, after = FIRST.tables["cases"], FIRST.tables["audit"], ""
    seq, previous, last = 0, NOTHING, NOTHING
    while True:
        wanted = sa.select(cases).where(cases.c.id > after).order_by(cases.c.id).limit(_AT_ONCE)
        rows = connection.execute(wanted).mappings().all()
        for row in rows:
            if row["outcome"] is None and row["record"] is None:
                continue
            details = {name: row[name] for name in ("outcome", "category", "hateful", "graph", "policy_sha")}
            details |= {"record_sha": sha(row["record"]), "before_the_log": True}
            entry = {
                "at": time.time(), "who": "operator", "key_id": None, "name": "", "kind": "case.decided",
                "subject": row["id"], "details": canonical(details),
            }  # fmt: skip
            seq, previous = seq + 1, last
            last = chained(previous, seq, content(entry))
            connection.execute(audit.insert().values(seq=seq, previous=previous, hash=last, **entry))
        if not rows:
            break
        after = rows[-1]["id"]
    head = FIRST.tables["audit_head"].insert()
    connection.execute(head.values(id=1, seq=seq, previous=previous, hash=last))


def _fill_columns(connection: sa.Connection) -> None:
    """Fill the columns by which cases are found, from what lies in the cases."""
    cases, after = FIRST.tables["cases"], ""
    while True:
        wanted = sa.select(cases).where(cases.c.id > after).order_by(cases.c.id).limit(_AT_ONCE)
        rows = connection.execute(wanted).mappings().all()
        for row in rows:
            record = row["record"] or {}
            review = record.get("review") or {}
            values = {
                "post_id": record.get("post_id") or (row["post"] or {}).get("post_id"),
                "image_sha": record.get("image_sha256"),
                "policy_name": (record.get("policy") or {}).get("name"),
                "prompts_sha": (record.get("prompts") or {}).get("sha"),
                "protocol_sha": record.get("protocol"),
                "language": record.get("language"),
                "confidence": record.get("confidence"),
                "reason": review.get("reason"),
                "reviewer": review.get("reviewer") if review.get("action") else None,
                "waits_since": row["finished"] if row["question"] and row["status"] == "done" else None,
            }
            connection.execute(cases.update().where(cases.c.id == row["id"]).values(**values))
        if not rows:
            return
        after = rows[-1]["id"]
