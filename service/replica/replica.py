"""A replica: what it is made of, opened and closed together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from sqlalchemy import and_, case, or_, select, update

from tribunal.core.times import MOST_SECONDS, clock_offset, database_now
from tribunal.docket.case_store import CaseStore
from tribunal.docket.decision_effects import store_sampling
from tribunal.docket.docket import migrate_old_docket
from tribunal.docket.holds import announce_expiring_cases, mark_held
from tribunal.docket.leases import new_owner
from tribunal.docket.outbox import Outbox
from tribunal.errors import BadInput
from tribunal.explanations.notices import read_mapping
from tribunal.review.appeals import Appeals
from tribunal.review.second_opinions import SecondOpinions
from tribunal.runner.case_worker import Worker
from tribunal.runner.outages import Outages, repeat
from tribunal.runner.prices import read_prices
from tribunal.schema import JSON
from tribunal.service.replica.batch_files import Uploads
from tribunal.service.replica.batches import BatchStore
from tribunal.service.replica.case_intake import BatchFeeder, CaseIntake, Reviews
from tribunal.service.replica.key_usage import case_bounds, settle_broken_off
from tribunal.service.replica.keys import has_keys
from tribunal.service.replica.near_copies import NearCopies, NearestCases
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.retention import Retention
from tribunal.service.replica.webhooks import WebhookSender
from tribunal.service.telemetry.observers import Telemetry
from tribunal.store.engine import Store
from tribunal.store.table_versions import DatabaseUnreachable, explain_error, is_full, is_newer
from tribunal.store.tables import VERSION, cases

_LOG = logging.getLogger(__name__)
# Seconds between two looks.
_SHORT_PAUSE = 1.0
_LONG_PAUSE = 60.0


_DATABASE_SECONDS = 3.0  # in which the database has to answer
_LAST_SENDS_SECONDS = 5.0  # that a stop waits for webhooks that are being sent
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Replica:
    """One process of the service: its database, its queue, its worker, and what they serve."""

    def __init__(
        self, options: ServiceOptions, store: Store, case_store: CaseStore, telemetry: Telemetry
    ) -> None:
        """Put the parts together; `run_replica` starts them."""
        self.options = options
        self.store = store
        self.case_store = case_store
        self.prices = telemetry.prices
        self.queued = asyncio.Event()  # set when a case waits that this replica may take up
        self.batches = BatchStore(store, case_store.replica, options.takeover, case_store.bounds)
        self.outages = Outages(store, self.batches, options.hold_seconds, telemetry.metrics)
        self.worker = Worker(case_store, store, options.in_flight, telemetry, self.outages)
        self.intake = CaseIntake(options, case_store, self.queued, self.worker)
        self.reviews = Reviews(store, self.intake)
        self.appeals = Appeals(
            store, case_store.outbox, options.appeal_days, self.queued, case_store.bounds
        )
        self.second_opinions = SecondOpinions(store, self.appeals)
        self.nearest_cases = NearestCases(store)
        self.near_copies = NearCopies(store)
        self.feeder = BatchFeeder(options, store, self.batches, self.worker)
        self.outages.wakes += [self.queued, self.feeder.wake]
        self.uploads = Uploads(options, store, self.batches)
        self.retention = Retention(store, case_store.replica, options)
        self.work_tasks: list[asyncio.Task[None]] = []  # what brings it new work
        self.last_heartbeat = time.monotonic()
        self._orphans: set[tuple[str, int]] = set()
        self._checked_version: str | None = VERSION  # of the tables; `run_replica` has checked them
        self._fits = True
        self._is_disk_full = False
        self._clock_differs = False

    async def drain(self) -> None:
        """Take up no new work, and let what is in flight end; after `graceful` seconds it goes back to the queue."""
        await asyncio.gather(
            _cancel_tasks(self.work_tasks), self.worker.stop(self.options.graceful)
        )

    async def find_trouble(self) -> str | None:
        """Return why this replica can't do its work now, or None if it can."""
        if self.worker.stopping:
            return "stopping"
        if any(task.done() for task in self.work_tasks):
            return "queue"
        if self._is_disk_full:
            return "disk"
        if time.monotonic() - self.last_heartbeat > self.options.takeover:
            return "no sign of life"  # another replica takes its cases over
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                version = await self.store.version()
                if version != self._checked_version:  # somebody has run `tribunal service migrate`
                    self._checked_version, self._fits = version, await self._fits_tables(version)
        except Exception as error:  # noqa: BLE001 (whatever it is, the database doesn't answer)
            _LOG.warning("the database doesn't answer: %s", explain_error(error))
            return "disk" if is_full(error) else "database"
        return None if self._fits else "tables"

    async def _fits_tables(self, version: str | None) -> bool:
        """Return whether this program can work on tables of this version: its own, or later ones that hold all of it.

        The replicas of a release go on beside those of the next, whose tables only add to theirs.
        """
        if version != VERSION and not is_newer(version or ""):
            return False
        try:
            await self.store.check_tables()
        except DatabaseUnreachable:
            raise
        except BadInput as error:
            _LOG.error("%s", error)
            return False
        return True

    async def send_heartbeat(self) -> None:
        """Say that this replica is alive, and give back the cases that it has by mistake."""
        try:
            await self.case_store.send_heartbeat()
        except Exception as error:
            self._is_disk_full = is_full(error)
            raise
        self.last_heartbeat = time.monotonic()
        self._is_disk_full = False
        seconds = clock_offset()
        differs = abs(seconds) > MOST_SECONDS
        if differs and not self._clock_differs:
            _LOG.warning(
                "the clock of this machine is %+.0f s from the database's, which counts; set it",
                seconds,
            )
        self._clock_differs = differs
        await self._release_orphaned_cases()

    async def _release_orphaned_cases(self) -> None:
        """Give back the cases that stand in this replica's name and that it doesn't try; nobody else takes them up.

        The database wrote that it has a case, and the answer was lost; or a trial ended while the database was away. A
        case is given back when it is found so twice: the first time it may just have been taken up.
        """
        mine = and_(cases.c.status == "running", cases.c.owner == self.case_store.replica)
        rows = await self.store.fetch_rows(select(cases.c.id, cases.c.attempt).where(mine))
        found = {
            (row["id"], row["attempt"]) for row in rows if row["id"] not in self.worker.case_ids
        }
        judged_alone = or_(cases.c.batch_id.is_(None), cases.c.answer.is_not(None))
        status = case((judged_alone, "queued"), else_="waiting")
        for case_id, attempt in found & self._orphans:
            orphaned = and_(mine, cases.c.id == case_id, cases.c.attempt == attempt)
            async with self.store.transaction() as connection:
                await connection.execute(
                    update(cases).where(orphaned).values(status=status, owner=None)
                )
            _LOG.warning("case %s: was in this replica's name, and not tried", case_id)
        self._orphans = found - self._orphans

    async def take_up_free_cases(self) -> int:
        """Take up the cases that wait or whose replica is dead, each once there is room; return how many.

        The table of cases is the queue. Others may see the same ones: `CaseStore.take_next` gives each to one replica.
        While a provider doesn't answer, the cases that need it stay where they are, and hold up none behind them.
        """
        taken = 0
        passed_over = list[str]()
        while not taken and len(passed_over) <= self.options.queue:
            waiting = await self.case_store.list_free(
                self.options.in_flight,
                without=passed_over,
                fewest_attempts_first=self.outages.any_open,
            )
            for row in waiting:
                await self.worker.wait_for_place()
                held = None
                try:
                    is_chosen = self.outages.any_open
                    if is_chosen and not await self._admit(row):
                        passed_over.append(row["id"])
                    elif (
                        not self.worker.stopping
                    ):  # else it stays in the queue, for whoever is there then
                        held = await self.case_store.take_next(row["id"] if is_chosen else None)
                finally:
                    if held is None:
                        self.outages.end(row["id"])
                        self.worker.give_place_back()
                if held is not None:
                    await self.worker.begin(held)
                    taken += 1
                elif row["id"] not in passed_over:
                    break
            if len(waiting) < self.options.in_flight:
                break
        return taken

    async def _admit(self, row: JSON) -> bool:
        """Return whether a case of the queue may be begun though a provider doesn't answer; else say why in its row."""
        is_overdue = row["deadline"] is not None and row["deadline"] <= database_now()
        needed = (
            () if is_overdue else await self.outages.needed_providers(row["graph"], row["settings"])
        )
        if self.outages.admit(row["id"], needed) and await self.outages.reach_providers(row["id"]):
            return True
        breaker = self.outages.blocking(needed, row["id"])
        if row["held"] is None and breaker is not None:
            await mark_held(self.store, [row["id"]], breaker.provider, breaker.why)
        return False

    def start_loops(self, sender: WebhookSender) -> list[asyncio.Task[None]]:
        """Begin the work that is repeated in the background; return that which goes on while the replica drains."""
        batches = self.batches
        feeder = self.feeder
        forgotten = self.options.batch_forgotten
        queue = repeat(
            self.take_up_free_cases, _SHORT_PAUSE, "the queue could not be looked at", self.queued
        )
        feeding = repeat(feeder.feed, _SHORT_PAUSE, "batches could not be fed", feeder.wake)
        self.work_tasks += [asyncio.create_task(each) for each in (queue, feeding)]
        takeover = self.options.takeover
        outbox = self.case_store.outbox
        letters = partial(settle_broken_off, self.store, self.case_store.replica, takeover)
        others = [
            repeat(letters, takeover, "letters that were broken off could not be settled"),
            repeat(self.send_heartbeat, takeover / 6, "no sign of life could be given"),
            repeat(
                partial(batches.look_after, forgotten),
                takeover / 3,
                "batches could not be looked after",
            ),
            repeat(sender.send_due, _SHORT_PAUSE, "webhooks could not be looked after", outbox.put),
            repeat(
                partial(announce_expiring_cases, self.store, outbox),
                _LONG_PAUSE,
                "messages to webhooks could not be sent",
            ),
            repeat(
                self.appeals.carry_out_due,
                _SHORT_PAUSE,
                "decisions on appeals could not be carried out",
            ),
            repeat(
                self.second_opinions.carry_out_due,
                _SHORT_PAUSE,
                "second opinions could not be carried out",
            ),
            repeat(sender.delete_old, _LONG_PAUSE, "old messages could not be deleted"),
            repeat(self.retention.erase_old_words, _LONG_PAUSE, "words could not be erased"),
            repeat(self.retention.delete_old_rows, _LONG_PAUSE, "old rows could not be deleted"),
        ]
        return [asyncio.create_task(each) for each in others]


async def check_options(options: ServiceOptions, store: Store) -> None:
    """Refuse options that a replica can't start with.

    Raises:
        BadInput: the price table or the mapping can't be read, or anybody could come in.
    """
    if options.prices:
        await asyncio.to_thread(read_prices, options.prices)
    if options.mapping:
        await asyncio.to_thread(read_mapping, options.mapping)
    if options.host not in LOOPBACK and not await has_keys(store):
        raise BadInput(
            f"host: {options.host}: others could reach it, and there is no key yet; make one with tribunal service "
            "keys add, or listen on 127.0.0.1"
        )
    if options.desk_user_header and not options.desk_proxy:
        raise BadInput(
            f"desk_user_header: {options.desk_user_header}: anybody could send it; give the proxy's address as "
            "--desk-proxy, too"
        )


@asynccontextmanager
async def run_replica(options: ServiceOptions, telemetry: Telemetry) -> AsyncIterator[Replica]:
    """Run a replica until the block ends; then what is in flight ends, or goes back to the queue.

    Raises:
        BadInput: the database, its tables, the price table or a setting is wrong, or anybody could come in.
    """
    telemetry.prices = (
        await asyncio.to_thread(read_prices, options.prices) if options.prices else None
    )
    store = await Store.open(options.database)
    try:
        await store.check_tables()
        await check_options(options, store)
        await migrate_old_docket(store)
        sampling = await store_sampling(
            store, options.second_opinions, options.second_opinions_of_court
        )
        outbox = Outbox(store, options.public_url)
        bounds = case_bounds(options, telemetry.prices)
        case_store = CaseStore(store, new_owner(), options.takeover, outbox, sampling, bounds)
        replica = Replica(options, store, case_store, telemetry)
        await replica.send_heartbeat()
        days = options.webhook_days, options.webhook_dead_days
        sender = WebhookSender(
            store, outbox, case_store.writes, options.webhook_retries, options.webhook_timeout, days
        )
        others = replica.start_loops(sender)
        try:
            yield replica
        finally:
            await replica.drain()
            await _cancel_tasks(others)
            await sender.stop(min(options.graceful, _LAST_SENDS_SECONDS))
            with suppress(Exception):
                await case_store.deregister()
    finally:
        await store.close()


async def _cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended. Their rounds are let end, and are cancelled, too, if that takes too long."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_DATABASE_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
