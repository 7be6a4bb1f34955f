"""`tribunal audit verify` compares each case with the log: no flow is a false alarm, and every change is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, insert, select, update
from typer.testing import CliRunner, Result

import tribunal
from tests.service.batched import ended, posts, sent
from tests.service.conftest import get_json, opened, serving
from tests.service.decided_here import contested, courtroom, decided, judged
from tribunal.commands import app
from tribunal.docket.erasure import ErasureRequest, erase_words
from tribunal.docket.keeping import KeepOptions
from tribunal.docket.record_rows import decision_entry, keep_record
from tribunal.docket.waiting_cases import WaitingCases, write_note
from tribunal.review.audit import check_records
from tribunal.schema import Record
from tribunal.service.replica.batches import BatchStore
from tribunal.store.audit import OPERATOR, append
from tribunal.store.tables import cases

RULES = ("--model", "rehearsal")
POST = "Immigrants: the weeds in our garden."


async def run(database: str, *words: str, ends: int = 0) -> Result:
    """The command, on this database, with its exit status checked."""
    environment = {"TRIBUNAL_DATABASE": database}
    done = await asyncio.to_thread(lambda: CliRunner().invoke(app, words, env=environment))
    assert done.exit_code == ends, done.output
    return done


async def compared(database: str) -> str:
    """The last line of `audit verify`, which finds nothing that differs."""
    return (await run(database, "audit", "verify")).stdout.splitlines()[-1]


async def fetch(client: httpx.AsyncClient, method: str, path: str, **said: Any) -> Any:
    got = await client.request(method, path, json=said or None)
    assert got.is_success, got.text
    return got.json() if got.content else None


@pytest.mark.long
async def test_no_flow_of_the_service_raises_a_false_alarm(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with courtroom(database, second_opinions=1.0, second_opinions_of_court=1.0) as (
        client,
        _,
    ):
        waiting = await judged(client, text="it waits, claimed")
        await fetch(client, "POST", f"/v1/cases/{waiting}/claim", reviewer="kim")
        await decided(client, "NotHate", text="a song")
        accepted = await decided(client, None, text="another song")
        asked = await judged(client, text="asked once more")
        said = {"action": "ask", "question": "is it a quotation?", "reviewer": "kim"}
        await fetch(client, "POST", f"/v1/cases/{asked}/decision?wait=60", **said)
        await contested(client, "NotHate", text="it is changed on appeal")
        await contested(client, None, text="it is upheld on appeal")
        [opinion, *_] = await get_json(client, "/v1/second-opinions", "second_opinions")
        said = {"category": "Sexist", "note": "n", "reviewer": "lee"}
        await fetch(client, "POST", f"/v1/second-opinions/{opinion['id']}/opinion", **said)
        await fetch(
            client,
            "POST",
            f"/v1/second-opinions/{opinion['id']}/settle",
            reopen="look again",
            lead="ada",
        )
        [appeal] = await get_json(client, "/v1/appeals?status=waiting", "appeals")
        said = {"action": "retry", "note": "again", "reviewer": "max"}
        await fetch(client, "POST", f"/v1/appeals/{appeal['id']}/decision", **said)
        while (await fetch(client, "GET", f"/v1/appeals/{appeal['id']}"))["status"] != "tried":
            await asyncio.sleep(0.05)
        said = {"action": "change", "category": "Sexist", "note": "so it is", "reviewer": "max"}
        await fetch(client, "POST", f"/v1/appeals/{appeal['id']}/decision", **said)
        kept = await client.post("/v1/judge?wait=60", json={"text": "not kept", "keep": False})
        assert kept.status_code == 200, kept.text
        wrong = await client.post(
            "/v1/judge?wait=60", json={"text": "too long", "settings": {"max_text": 3}}
        )
        assert wrong.status_code == 400, wrong.text
        await ended(client, f"/v1/batches/{(await sent(client, posts(2))).json()['id']}")
        with monkeypatch.context() as patched:
            patched.setattr(BatchStore, "take_rows", none_taken)
            late = (await sent(client, posts(3))).json()["id"]
            await fetch(client, "POST", f"/v1/batches/{late}/cancel")
        before = await compared(database)
        await fetch(client, "DELETE", f"/v1/cases/{waiting}/words")
        await fetch(client, "DELETE", f"/v1/cases/{accepted}/words")
    async with opened(database) as store:
        await write_note(store, accepted, "kim", "a note")
        await WaitingCases(store).claim(asked, "kim", 60.0)
        await WaitingCases(store).skip(asked, "kim")
        await WaitingCases(store).escalate(asked, "kim", "for a lead")
        await erase_words(store, ErasureRequest(older_than=0.0))
    after = await compared(database)
    several = "nothing to compare: 3 cases cancelled with their batch; 1 case not kept"
    assert before == f"10 cases compared with the log, none differing; {several}"
    assert (
        after
        == "13 cases compared with the log, none differing; nothing to compare: 1 case not kept"
    )


async def none_taken(*_: object) -> list[Any]:
    return []


@pytest.mark.long
async def test_no_flow_of_the_terminal_raises_a_false_alarm(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", database)
    review = ("judge", POST, *RULES, "--review", "--set", "review_rule=all", "--json")
    threads = [
        json.loads((await run(database, *review, ends=5)).stdout)["thread"] for _ in range(4)
    ]
    quiet = json.loads((await run(database, *review, "--no-keep-text", ends=5)).stdout)["thread"]
    await run(database, "review", "claim", threads[0], "--reviewer", "kim")
    await run(database, "review", "decide", threads[1], "--accept")
    await run(database, "review", "decide", threads[2], "--category", "NotHate", "--note", "why")
    await run(database, "review", "decide", threads[3], "--ask", "why?", ends=5)
    await run(database, "review", "decide", quiet, "--category", "NotHate", "--note", "why")
    await run(database, "judge", POST, *RULES, "--keep")
    await run(database, "judge", POST, *RULES, "--keep", "--no-keep-text")
    record = await tribunal.ajudge(POST, keep=True, model="rehearsal")
    studio = record.model_copy(update={"kept": "case-of-studio"})
    for outcome in ("pending", "verdict"):
        told = studio.model_copy(update={"outcome": outcome})
        assert (
            await keep_record(
                KeepOptions(via="studio", database=database), told, {"text": POST}, {}
            )
        ).kept
    other = await keep_record(
        KeepOptions(via="python", database=database), studio, {"text": POST}, {}
    )
    assert (other.kept, "came in another way" in other.warnings[-1]) == (None, True)
    assert await compared(database) == "9 cases compared with the log, none differing"
    await run(database, "cases", "forget", "--case", threads[0], "--yes")
    await run(database, "cases", "forget", "--older-than", "0d", "--yes")
    assert await compared(database) == "9 cases compared with the log, none differing"


def changed_record(**values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {"record": {**row["record"], **values}}


# Of each change what the line names; a blank makes two the same.
CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "record": changed_record(label=0),
    "record, category, hateful": lambda row: {
        **changed_record(category="NotHate", hateful=False)(row), "category": "NotHate", "hateful": False,
    },
    "record, confidence": changed_record(confidence=0.99),
    "record ": changed_record(explanation="It is harmless."),
    " record": lambda row: {"record": None},
    "record, outcome, category, hateful": lambda row: {
        "record": {"cancelled": "never mind"}, "status": "cancelled", "outcome": None,
    },
    "category": lambda row: {"category": "NotHate"},
    "hateful": lambda row: {"hateful": False},
    "confidence": lambda row: {"confidence": 0.99},
    "outcome": lambda row: {"outcome": "refusal"},
    "reviewer": lambda row: {"reviewer": "nobody"},
}  # fmt: skip


async def test_every_change_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", database)
    case = (await tribunal.ajudge(POST, keep=True, model="rehearsal")).kept
    other = (await tribunal.ajudge("Good morning!", keep=True, model="rehearsal")).kept
    async with opened(database) as store:
        [row] = await store.fetch_rows(select(cases).where(cases.c.id == case))
        assert Record.model_validate(row["record"]).category != "NotHate"
        for what, change in CHANGES.items():
            async with store.transaction() as connection:
                await connection.execute(
                    update(cases).where(cases.c.id == case).values(**change(row))
                )
            tally = await check_records(store)
            [fault] = tally.faults
            assert fault.startswith(f"case {case}: "), what
            assert fault.endswith(": not as entry 1 (case.decided) tells"), what
            named = fault.split(": ")[1]
            assert named == what.strip(), what
            assert tally.compared == 2
            async with store.transaction() as connection:
                await connection.execute(update(cases).where(cases.c.id == case).values(**row))
        assert (await check_records(store)).found == 0
        async with store.transaction() as connection:
            await connection.execute(insert(cases).values({**row, "id": "case-forged"}))
            await connection.execute(
                update(cases).where(cases.c.id == case).values(category="NotHate")
            )
            await connection.execute(delete(cases).where(cases.c.id == other))
    told = (await run(database, "audit", "verify", ends=1)).stdout.splitlines()
    assert f"case {case}: category: not as entry 1 (case.decided) tells" in told
    assert "case case-forged: no entry of the log tells of its record" in told
    assert f"case {other}: is gone, and no entry of the log says that it was deleted" in told
    assert told[-1] == "1 case compared with the log, 3 differing"


async def test_a_waiting_case_of_the_release_before_is_no_false_alarm(database: str) -> None:
    record = await tribunal.ajudge(POST, model="rehearsal")
    case = (
        await keep_record(KeepOptions(via="command", database=database), record, {"text": POST}, {})
    ).kept
    async with opened(database) as store:
        [row] = await store.fetch_rows(select(cases).where(cases.c.id == case))
        # what that release told the log, before it noted `kept`
        without = {
            **row["record"],
            "kept": None,
        }
        entry = decision_entry(str(case), row["post_sha"], Record.model_validate(without), without)
        async with store.transaction() as connection:
            await append(connection, OPERATOR, entry)
        assert (await check_records(store)).faults == []


async def test_what_isnt_kept_is_compared_by_its_columns(database: str) -> None:
    async with serving(database, graph="baseline") as client:
        got = await client.post("/v1/judge?wait=60", json={"text": "Good morning!", "keep": False})
        case = got.headers["tribunal-case"]
    async with opened(database) as store:
        assert (await check_records(store)).uncompared == {"not kept": 1}
        async with store.transaction() as connection:
            await connection.execute(
                update(cases).where(cases.c.id == case).values(category="Racist")
            )
        assert (await check_records(store)).faults == [
            f"case {case}: category: not as entry 2 (case.decided) tells"
        ]


@pytest.mark.long
async def test_a_case_that_is_decided_meanwhile_is_no_fault(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", database)
    record = await tribunal.ajudge(POST, keep=True, model="rehearsal")
    keep = KeepOptions(via="python", database=database)
    over = asyncio.Event()

    async def write_anew() -> None:
        number = 0
        while not over.is_set():
            number += 1
            told = record.model_copy(update={"explanation": f"written {number} times"})
            assert (await keep_record(keep, told, {"text": POST}, {})).kept == record.kept

    writing = asyncio.create_task(write_anew())
    async with opened(database) as store:
        found = [await check_records(store) for _ in range(20)]
    over.set()
    await writing
    assert [(each.compared, each.faults) for each in found] == [(1, [])] * 20


@pytest.mark.long
async def test_the_results_of_a_run_are_compared_where_they_were_kept(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", database)
    (tmp_path / "posts.csv").write_text(f"id,text\na,Good morning\nb,{POST}\n")
    batch = ("batch", str(tmp_path / "posts.csv"), *RULES, "--out")
    file, bare = (tmp_path / f"{name}.jsonl" for name in ("out", "bare"))
    await run(database, *batch, str(file), "--keep", "--review", "--set", "review_rule=hateful")
    [waiting] = json.loads((await run(database, "review", "list", "--json")).stdout)
    await run(
        database, "review", "decide", waiting["thread"], "--category", "NotHate", "--note", "n"
    )
    await run(database, *batch, str(file), "--keep", "--review", "--set", "review_rule=hateful")
    await run(database, *batch, str(bare))
    results, of_bare = (Path(f"{each}.run") / "results.jsonl" for each in (file, bare))
    verify = ("audit", "verify", "--results")
    assert (await run(database, *verify, str(results))).stdout.splitlines()[-1] == (
        "2 results compared with the log, none differing"
    )
    assert (await run(database, *verify, str(of_bare))).stdout.splitlines()[-1] == (
        "0 results compared with the log, none differing; nothing to compare: 2 results not kept as a case"
    )
    first, second = results.read_text().splitlines()
    changed = json.dumps({**json.loads(first), "category": "Racist"})
    results.write_text(f"{changed}\n{second}\n{first[:50]}\n")
    *_, fault, last = (await run(database, *verify, str(results), ends=1)).stdout.splitlines()
    assert fault.startswith(
        f"{results}, line 1: case {json.loads(first)['kept']}: record, category: not as entry "
    )
    assert last == (
        "2 results compared with the log, 1 differing; nothing to compare: 1 result cut off or no result"
    )
    missing = await run(database, *verify, str(tmp_path / "none"), ends=2)
    assert missing.stderr.startswith("tribunal: error: results: ")
