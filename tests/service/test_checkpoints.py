"""A trial of the service goes on where it was: what was answered isn't paid again, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from tests.court import court_script, part
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tests.service.command import started
from tests.service.conftest import serving
from tribunal.docket import checkpoints
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import NewCase, held_case_from_row, release_lease
from tribunal.docket.trials import Trials
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS
from tribunal.store.audit import OPERATOR
from tribunal.store.checkpoint_tables import table_names
from tribunal.store.engine import Store

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
COURT: dict[str, Any] = {"settings": {"model": "openai:scripted"}}
POST = {"text": "post-words", "graph": "tribunal"}


class Court:
    """A court whose first judge says nothing until `go_on` is set; `reached` is set when it is asked."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.asked: list[str] = []
        self._script = court_script(explicit=True)

    async def __call__(self, request: Request) -> Reply | Fault:
        self.asked.append(part(request))
        if part(request) == "judge" and not self.reached.is_set():
            self.reached.set()
            await self.go_on.wait()
        return self._script(request)


async def left_behind(database: str) -> int:
    """How many rows of checkpoints there are."""
    store = await Store.open(database)
    try:
        async with store.transaction() as connection:
            tables = table_names(postgres=store.postgres)
            counts = [
                await connection.scalar(text(f"SELECT count(*) FROM {each}")) for each in tables
            ]
            return sum(int(count or 0) for count in counts)
    finally:
        await store.close()


async def written(database: str, case_id: str, calls: int) -> None:
    """Wait until the checkpoints of a case hold so many calls."""
    store = await Store.open(database)
    caseload = CaseStore(store, "a reader", 3.0)
    trials = Trials(store, caseload)
    while len((await trials.look(await caseload.case(case_id))).state.get("calls", ())) < calls:
        await asyncio.sleep(0.02)
    await store.close()


@pytest.mark.long
async def test_a_trial_goes_on_where_a_killed_replica_left_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    court = Court()
    monkeypatch.setenv("TRIBUNAL_MODEL", "openai:scripted")
    async with OpenAIServer(court):
        async with started(database, "--takeover", "1", TRIBUNAL_MODEL="openai:scripted") as killed:
            location = (await killed.client.post("/v1/judge", json=POST)).headers["location"]
            await court.reached.wait()
            await written(database, location.rpartition("/")[2], 3)
            killed.signal(signal.SIGKILL)
            await killed.process.wait()
        court.go_on.set()
        async with serving(database, takeover=1.0) as client:
            while (case := (await client.get(location)).json())["status"] != "done":
                await asyncio.sleep(0.05)
    assert court.asked == ["gatekeeper", "indictment", "defence", "judge", "judge"], (
        "only what was in flight"
    )
    assert (case["record"]["outcome"], case["record"]["usage"]["calls"]) == ("verdict", 4)
    assert await left_behind(database) == 0


async def test_what_is_written_after_a_takeover_does_not_count(database: str) -> None:
    court = Court()
    async with OpenAIServer(court):
        store = await Store.open(database)
        slow, other = CaseStore(store, "slow", 3.0), CaseStore(store, "other", 3.0)
        new = NewCase(graph="tribunal", post={"text": "post-words"}, settings=COURT["settings"])
        case_id, *_ = await slow.take_in(new, "", here=True, most_waiting=1)
        held = held_case_from_row(await slow.case(case_id))
        trial = asyncio.create_task(Trials(store, slow).run(held, None))
        await court.reached.wait()
        await written(database, case_id, 3)
        taken = await other.take_up(case_id)  # no sign of life was ever given
        assert taken is not None
        heard = await Trials(store, other).run(taken, None)
        assert await left_behind(database) > 0
        assert await other.finish(taken, heard.record)
        court.go_on.set()
        late = await trial
        assert not await slow.finish(held, late.record)
        assert (await other.case(case_id))["record"] == heard.record.dump()
        assert await left_behind(database) == 0
        assert len(court.asked) == 5
        await store.close()


@pytest.mark.parametrize("second_is_over", [True, False], ids=["over", "under_way"])
async def test_a_trial_whose_case_its_own_process_took_up_again_writes_nothing(
    database: str, *, second_is_over: bool
) -> None:
    courts = Court(), Court()
    store = await Store.open(database)
    caseload = CaseStore(store, "r1", 3.0)
    trials = Trials(store, caseload)
    new = NewCase(graph="tribunal", post={"text": "post-words"}, settings=COURT["settings"])
    case_id, *_ = await caseload.take_in(new, "", here=True, most_waiting=1)
    async with OpenAIServer(courts[0]):
        first = asyncio.create_task(
            trials.run(held_case_from_row(await caseload.case(case_id)), None)
        )
        await courts[0].reached.wait()
        await release_lease(store, case_id, OPERATOR)
        taken = await caseload.take_up(case_id)
        assert taken is not None
        async with OpenAIServer(courts[1]):
            if second_is_over:
                courts[1].go_on.set()
            second = asyncio.create_task(trials.run(taken, None))
            await courts[1].reached.wait()
            if second_is_over:
                await second
            courts[0].go_on.set()
            with pytest.raises(checkpoints.TakenOver):
                await first
            courts[1].go_on.set()
            assert await caseload.finish(taken, (await second).record)
    assert await left_behind(database) == 0
    await store.close()


@pytest.mark.long
async def test_a_trial_that_is_over_leaves_nothing_to_the_collector(sqlite: str) -> None:
    async with OpenAIServer(court_script(explicit=True)):
        store = await Store.open(sqlite)
        caseload = CaseStore(store, "r1", 3.0)
        new = NewCase(graph="tribunal", post={"text": "post-words"}, settings=COURT["settings"])
        case_id, *_ = await caseload.take_in(new, "", here=True, most_waiting=1)
        held = held_case_from_row(await caseload.case(case_id))
        gc.collect()
        gc.disable()
        try:
            assert (await Trials(store, caseload).run(held, None)).record.outcome == "verdict"
            await asyncio.sleep(0.1)
            assert not [each for each in gc.get_objects() if isinstance(each, checkpoints.Attempt)]
        finally:
            gc.enable()
        await store.close()


async def test_what_must_not_be_kept_has_no_checkpoint_and_waits_for_nobody(database: str) -> None:
    judge = {**UNSURE}
    async with (
        OpenAIServer(court_script(explicit=True, judge=judge)),
        serving(database, **COURT) as client,
    ):
        asked = {**POST, "keep": False, "settings": {"review": True}}
        record = (await client.post("/v1/judge?wait=60", json=asked)).json()
        assert (record["outcome"], record["thread"]) == ("verdict", None)
        assert any("can't wait for a person" in warning for warning in record["warnings"])
        assert await left_behind(database) == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
# which needs the web
@pytest.mark.parametrize("graph", [graph for graph in GRAPHS if graph != "antihate"])
async def test_every_graph_can_be_gone_on_with(
    graph: str, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = []
    aput = checkpoints.CaseCheckpoints.aput

    async def at_once(self: Any, config: Any, *given: Any) -> Any:
        made = await aput(self, config, *given)
        await self._write(self._attempt_of(config))
        written.append(made)
        return made

    monkeypatch.setattr(checkpoints.CaseCheckpoints, "aput", at_once)
    with caplog.at_level(logging.WARNING, "tribunal.docket.checkpoints"):
        async with serving(database) as client:
            got = await client.post(
                "/v1/judge?wait=60", json={"text": "Immigrants are vermin.", "graph": graph}
            )
            assert got.json()["outcome"] == "verdict", got.text
    assert written
    assert caplog.messages == []
    assert await left_behind(database) == 0


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_tables_of_another_version_are_refused_and_brought_up_to_date(database: str) -> None:
    from tribunal.store.engine import upgrade

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DELETE FROM checkpoint_migrations WHERE v = 9")
        connection.execute("ALTER TABLE checkpoint_writes DROP COLUMN task_path")
    with pytest.raises(
        BadInput, match=r"tables of checkpoints are of version 8, .* run tribunal service migrate"
    ):
        await Store.open(database)
    upgrade(database)
    await (await Store.open(database)).close()
