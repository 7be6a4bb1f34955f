"""Writes that share a transaction: what each caller is given, and what stands in the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select, text

from tribunal.errors import Problem
from tribunal.store.audit import OPERATOR, LogEntry, verify
from tribunal.store.engine import Store
from tribunal.store.group_commit import Group, GroupCommit
from tribunal.store.tables import audit, secrets


class _Store:
    """A store with its group commit, opened for a test."""

    def __init__(self, store: Store) -> None:
        self.store, self.writes, self.shared = store, GroupCommit(store, Problem), list[int]()

    async def add(self, name: str, error: Exception | None = None, *, first: bool = False) -> str:
        """Write a secret's name down and tell the log; an `error` is raised, `first` of all or last."""

        async def write(group: Group) -> str:
            self.shared.append(id(group))
            if error is not None and first:
                raise error
            await group.connection.execute(insert(secrets).values(name=name, value="x"))
            group.log(OPERATOR, LogEntry(kind="case.noted", subject=name))
            if error is not None:
                raise error
            return name

        return await self.writes.write(write)

    async def stands(self) -> tuple[set[str], set[str]]:
        """The names in the table, and those in the log."""
        rows, entries = (
            await self.store.fetch_rows(select(secrets)),
            await self.store.fetch_rows(select(audit)),
        )
        assert (await verify(self.store)).fault is None
        return {row["name"] for row in rows}, {row["subject"] for row in entries}


@pytest.fixture
async def opened(database: str) -> AsyncIterator[_Store]:
    store = await Store.open(database)
    yield _Store(store)
    await store.close()


async def test_writes_of_one_moment_share_a_transaction_and_a_stretch_of_the_log(
    opened: _Store,
) -> None:
    assert await asyncio.gather(*map(opened.add, "abc")) == ["a", "b", "c"]
    assert len(set(opened.shared)) == 1
    assert await opened.stands() == ({"a", "b", "c"}, {"a", "b", "c"})


async def test_a_refusal_is_its_callers_alone(opened: _Store) -> None:
    refused = opened.add("b", Problem("busy", "full"), first=True)
    got = await asyncio.gather(opened.add("a"), refused, opened.add("c"), return_exceptions=True)
    assert (got[0], got[2]) == ("a", "c")
    assert isinstance(got[1], Problem)
    assert len(set(opened.shared)) == 1  # nobody's write was done a second time
    assert await opened.stands() == ({"a", "c"}, {"a", "c"})


async def test_an_error_undoes_its_own_write_and_no_other(opened: _Store) -> None:
    await opened.add("there")
    got = await asyncio.gather(
        opened.add("a"), opened.add("there"), opened.add("b", RuntimeError("mine")), opened.add("c"),
        return_exceptions=True,
    )  # fmt: skip
    assert (got[0], got[3]) == ("a", "c")
    assert "mine" in str(got[2])
    assert isinstance(got[1], Exception)  # the name is taken
    assert await opened.stands() == ({"there", "a", "c"}, {"there", "a", "c"})


async def test_a_connection_that_was_ended_costs_nobody_a_write(opened: _Store) -> None:
    if not opened.store.postgres:
        pytest.skip("SQLite has no connection that somebody else could end")
    await opened.add("a")
    # Too short ago for the pool to look whether its connections are there.
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    other = await Store.open(opened.store.address)
    await other.fetch_rows(text(others))
    assert await asyncio.gather(*map(opened.add, "bcd")) == ["b", "c", "d"]
    assert (await opened.stands())[0] == set("abcd")
    await other.close()
