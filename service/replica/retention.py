"""Delete what is old: words, whole cases, and the rows by which requests are counted and found again."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Table, delete, func, select, tuple_

from tribunal.core.times import DAY, database_now
from tribunal.docket.erasure import (
    ErasureRequest,
    ErasureResult,
    RetirementRule,
    delete_empty_batches,
    erase_words,
    is_alone,
    remove_images,
    retire_cases,
    wipe_file,
)
from tribunal.errors import BadInput, Problem
from tribunal.retrievers.precedents.building import forget_cases
from tribunal.review.case_tables import forget_erased_precedents
from tribunal.service.replica.options import ServiceOptions
from tribunal.store.audit import Who, replica_actor
from tribunal.store.engine import Store
from tribunal.store.tables import cases, desk_sessions, desk_tries, events, idempotency, usage

_LOG = logging.getLogger(__name__)
REQUEST_DAYS = 7  # that an Idempotency-Key stands for its request
EVENT_DAYS = 7  # that the events of a trial are kept once its case came to rest
USAGE_DAYS = 400  # that what a key used in a day is kept
_USAGE_MINUTES = 60 * 60.0  # seconds that what a key used in a minute is kept
_MOST = 1000  # rows that are deleted in one transaction


class Retention:
    """Erases words, on request and by their age, and deletes what is old."""

    def __init__(self, store: Store, replica: str, options: ServiceOptions) -> None:
        """Keep how long what stays."""
        self._store = store
        self._options = options
        self._me = replica_actor(replica)
        self._wipe_again = False  # a write-ahead log still holds old pages
        # the end and the id of the last case whose events this replica has deleted
        self._without_events = (
            0.0,
            "",
        )

    async def erase_old_words(self) -> None:
        """Erase what is old enough now."""
        done = ErasureResult()
        if self._options.retain_words is not None:
            done = await erase_words(
                self._store, ErasureRequest(older_than=self._options.retain_words), self._me
            )
        if done.cases:
            _LOG.info(
                "the words of %d cases are erased, %d are left that somebody is at",
                done.cases,
                done.left,
            )
        if done.cases or self._wipe_again:
            await self._wipe_disk(done)

    async def erase_case(self, case_id: str, by: Who) -> ErasureResult:
        """Erase the words of a case; raise Problem if there is no such case, or somebody is at work on it."""
        done = await erase_words(self._store, ErasureRequest(case=case_id), by)
        await self._wipe_disk(done)
        if done.left:
            raise Problem(
                "conflict",
                f"case: {case_id}: is under way or under appeal; erase its words after that",
            )
        is_there = select(cases.c.id).where(cases.c.id == case_id)
        if not done.cases and await self._store.fetch_value(is_there) is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        return done

    async def _wipe_disk(self, done: ErasureResult) -> None:
        """Leave nothing of what was erased on this machine's disk."""
        await asyncio.to_thread(remove_images, done.images)
        if done.cases:
            try:
                await forget_erased_precedents(self._store)
            except BadInput as error:
                _LOG.warning("a store of precedents may keep words that were erased: %s", error)
        if self._store.file is not None:
            self._wipe_again = not await asyncio.to_thread(
                wipe_file, self._store.file, rewrite=False
            )

    async def delete_old_rows(self) -> int:
        """Delete the next rows and cases that are old enough, and return how many there were."""
        # Requests before the cases that they made, so that none is answered by a case that is gone.
        return await self._prune_tables() + await self._prune_events() + await self._retire_cases()

    async def _retire_cases(self) -> int:
        chosen = self._options
        appeal_seconds = self._options.appeal_days * DAY
        number = 0
        for seconds, dismissed in ((chosen.retain_dismissed, True), (chosen.retain_cases, False)):
            if seconds is None:
                continue
            rule = RetirementRule(
                seconds=seconds, dismissed=dismissed, appeal_seconds=appeal_seconds
            )
            done = await retire_cases(self._store, rule, self._me)
            number += len(done.ids)
            await asyncio.to_thread(remove_images, done.images)
            try:
                await forget_cases(done.ids)
            except BadInput as error:
                _LOG.warning("a store of precedents may keep cases that were deleted: %s", error)
        if number:
            self._wipe_again = True  # the write-ahead log still holds them
            _LOG.info("%d cases were old enough, and are deleted", number)
        elif chosen.retain_cases is not None:
            await delete_empty_batches(self._store, max(chosen.retain_cases, appeal_seconds))
        return number

    async def _prune_tables(self) -> int:
        now = database_now()
        kept = [REQUEST_DAYS * DAY, self._options.retain_cases, self._options.retain_dismissed]
        minute = datetime.fromtimestamp(now - _USAGE_MINUTES, UTC).strftime("%Y-%m-%dT%H:%M")
        day = datetime.fromtimestamp(now - USAGE_DAYS * DAY, UTC).strftime("%Y-%m-%d")
        of_a_minute = func.length(usage.c.period) > len(day)
        oldest = now - min(each for each in kept if each is not None)
        return sum([
            await self._prune(idempotency, idempotency.c.created < oldest),
            await self._prune(usage, of_a_minute, usage.c.period < minute),
            await self._prune(usage, ~of_a_minute, usage.c.period < day),
            await self._prune(desk_tries, desk_tries.c.minute < now // 60 - 60),
            await self._prune(desk_sessions, desk_sessions.c.created < now - 3600 * self._options.desk_hours),
        ])  # fmt: skip

    async def _prune_events(self) -> int:
        """Delete the events of the next trials that ended long ago: the record has all that they tell."""
        place = tuple_(cases.c.finished, cases.c.id)
        old = cases.c.outcome.is_not(None), cases.c.finished < database_now() - EVENT_DAYS * DAY
        wanted = select(cases.c.finished, cases.c.id).where(
            place > tuple_(*self._without_events), *old
        )
        rows = await self._store.fetch_rows(
            wanted.order_by(cases.c.finished, cases.c.id).limit(_MOST)
        )
        if rows:
            # Not of one that waits for a person: its trial may go on, and its events with it.
            at_rest = select(cases.c.id).where(
                cases.c.id.in_([row["id"] for row in rows]), cases.c.question.is_(None)
            )
            async with self._store.transaction() as connection:
                await connection.execute(delete(events).where(events.c.case_id.in_(at_rest)))
            self._without_events = rows[-1]["finished"], rows[-1]["id"]
        return len(rows)

    async def _prune(self, table: Table, *old: Any) -> int:
        key = tuple_(*table.primary_key.columns)
        async with self._store.transaction() as connection:
            if not await is_alone(connection):
                return 0
            rows = select(*table.primary_key.columns).where(*old).limit(_MOST)
            return (await connection.execute(delete(table).where(key.in_(rows)))).rowcount
