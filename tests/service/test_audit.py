"""The audit log: everything that is done leaves its entry, and no entry can be changed unseen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select, update
from typer.testing import CliRunner

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, posts, sent
from tests.service.conftest import get_json, opened, serving
from tests.service.test_checkpoints import COURT, UNSURE
from tribunal.commands import app
from tribunal.service.replica import keys
from tribunal.service.replica import webhooks as endpoints
from tribunal.service.replica.batches import BatchStore
from tribunal.store.audit import (
    FIELDS,
    KINDS,
    NOTHING,
    Head,
    LogWalk,
    chained,
    content,
    page,
    sha,
    verify,
)
from tribunal.store.engine import Store
from tribunal.store.tables import audit, audit_head, cases, deliveries

Row = dict[str, Any]

# Kinds of entry that the tests of what they tell of have: of appeals, the desk, exports, and what is erased.
TOLD_ELSEWHERE = {
    "case.appealed",
    "case.reopened",
    "case.escalated",
    "case.skipped",
    "case.noted",
    "case.undone",
    "case.erased",
    "case.released",
    "case.retried",
} | {
    kind
    for kind in KINDS
    if kind.startswith(("appeal.", "opinion.", "desk.", "cases.", "statements.", "words."))
}


@pytest.mark.long
async def test_what_is_done_is_told(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(database) as store:
        admin, review = [
            await keys.add_key(store, name, [name], keys.KeyLimits())
            for name in ("admin", "review")
        ]
        as_admin, as_review = ({"X-API-Key": key} for key in (admin, review))
        async with (
            OpenAIServer(court_script(explicit=True, judge=UNSURE)),
            serving(database, **COURT) as client,
        ):
            client.headers.update(as_admin)
            asked = {"text": "post-words", "graph": "tribunal", "settings": {"review": True}}
            got = await client.post(
                "/v1/judge?wait=60", json=asked, headers={"Idempotency-Key": "once"}
            )
            again = await client.post(
                "/v1/judge?wait=60", json=asked, headers={"Idempotency-Key": "once"}
            )
            assert got.json()["outcome"] == again.json()["outcome"] == "pending", got.text
            case = got.headers["tribunal-case"]
            claim, by_kim = f"/v1/cases/{case}/claim", {"reviewer": "kim"}
            assert (await client.post(claim, json=by_kim, headers=as_review)).is_success
            assert (await client.delete(claim, params=by_kim, headers=as_review)).is_success
            said = {
                "action": "change",
                "category": "NotHate",
                "note": "post-words were quoted",
                **by_kim,
            }
            decided = await client.post(
                f"/v1/cases/{case}/decision?wait=30", json=said, headers=as_review
            )
            assert decided.json()["category"] == "NotHate", decided.text
            assert (
                await client.post(f"/v1/cases/{case}/decision", json=said, headers=as_review)
            ).status_code == 409
            wrong = {"text": "post-words", "settings": {"max_text": 3}}
            refused = await client.post("/v1/judge?wait=30", json=wrong)
            assert refused.status_code == 400, refused.text
            batch = (await sent(client, posts(1))).json()["id"]
            await ended(client, f"/v1/batches/{batch}")
            with monkeypatch.context() as patched:
                patched.setattr(BatchStore, "take_rows", none_taken)
                late = (await sent(client, posts(3))).json()["id"]
                assert (await client.post(f"/v1/batches/{late}/cancel")).json()["rows"][
                    "cancelled"
                ] == 3
            assert (await client.delete(f"/v1/batches/{late}")).status_code == 204
            hook = (
                await client.post(
                    "/v1/webhooks", json={"url": "https://127.0.0.1:9/a?secret-words"}
                )
            ).json()["id"]
            assert (await client.post(f"/v1/webhooks/{hook}/enable")).is_success
            message = await dead_letter(store, hook)
            assert (await client.post(f"/v1/webhooks/deliveries/{message}/replay")).is_success
            assert (await client.delete(f"/v1/webhooks/{hook}")).is_success
            await keys.rotate_key(store, review.split("_")[1], overlap=60.0)
            await keys.revoke_key(store, review.split("_")[1])
            found = await get_json(client, "/v1/audit", "entries", params={"limit": 1000})
            of_case = await get_json(client, "/v1/audit", "entries", params={"subject": case})
            row = await stored(store, case)
            end = await get_json(client, "/v1/audit/head")
        told = [(each["who"], each["name"], each["kind"]) for each in found]
        machine = next(name for who, name, _ in told if who == "replica")
        alone = [refused_case, row_of_batch] = [
            next(
                each["subject"]
                for each in found
                if each["kind"] == kind and each["subject"] != case
            )
            for kind in ("case.cancelled", "case.decided")
        ]
        assert len({case, *alone}) == 3
        wanted = [
            ("operator", "", "key.made", None), ("operator", "", "key.made", None),
            ("key", "admin", "case.taken_in", case), ("replica", machine, "case.pending", case),
            ("key", "review", "case.claimed", case), ("key", "review", "case.given_back", case),
            ("key", "review", "case.answered", case), ("replica", machine, "case.decided", case),
            ("key", "admin", "case.taken_in", refused_case), ("replica", machine, "case.cancelled", refused_case),
            ("key", "admin", "batch.made", batch), ("replica", machine, "case.decided", row_of_batch),
            ("key", "admin", "batch.made", late), ("key", "admin", "batch.cancelled", late),
            ("key", "admin", "batch.deleted", late),
            ("key", "admin", "webhook.added", hook), ("key", "admin", "webhook.enabled", hook),
            ("key", "admin", "delivery.replayed", message), ("key", "admin", "webhook.removed", hook),
            ("operator", "", "key.rotated", None), ("operator", "", "key.revoked", None),
        ]  # fmt: skip
        assert told == [(who, name, kind) for who, name, kind, _ in wanted]
        assert [each["subject"] for each in found][2:-2] == [subject for *_, subject in wanted][
            2:-2
        ]
        assert {kind for *_, kind, _ in wanted} == set(KINDS) - TOLD_ELSEWHERE, (
            "each kind of entry is tried"
        )
        by = {each["kind"]: each for each in of_case}
        assert by["case.taken_in"]["details"]["post_sha"] == sha({"text": "post-words"})
        assert by["case.decided"]["details"] | {"models": []} == {
            "outcome": "verdict", "category": "NotHate", "hateful": False, "graph": "tribunal", "models": [],
            "policy_sha": row["policy_sha"], "prompts_sha": row["prompts_sha"], "protocol_sha": row["protocol_sha"],
            "post_sha": sha(row["post"]), "record_sha": sha(row["record"]),
            "reviewer": "kim (review)", "action": "edit",
        }  # fmt: skip
        assert by["case.answered"]["key_id"] == review.split("_")[1]
        assert by["case.answered"]["details"]["note_sha"] == sha("post-words were quoted")
        assert "words" not in json.dumps(found), "an entry quotes nothing"
        assert (end["seq"], end["hash"]) == (len(found), found[-1]["hash"])
        assert await verify(store, end["hash"]) == LogWalk(
            entries=len(found), head=end["hash"], kept_at=len(found)
        )


async def none_taken(*_: object) -> list[Any]:
    return []


async def dead_letter(store: Store, hook: str) -> str:
    row = {
        "id": f"msg-{hook}",
        "webhook_id": hook,
        "event": "case.cancelled",
        "body": "{}",
        "status": "dead",
    }
    async with store.transaction() as connection:
        now = {"created": time.time(), "due": time.time(), "finished": time.time()}
        await connection.execute(
            deliveries.insert().values(**row, **now, attempts=1, attempts_before=0)
        )
    return f"msg-{hook}"


async def stored(store: Store, case: str) -> Row:
    async with store.transaction() as connection:
        return dict(
            (await connection.execute(select(cases).where(cases.c.id == case))).mappings().one()
        )


@pytest.mark.long
async def test_pages_and_filters(database: str) -> None:
    async with serving(database) as client, opened(database) as store:
        for number in range(5):
            await endpoints.add_webhook(store, f"https://example.com/{number}")
        first = await get_json(client, "/v1/audit?limit=3")
        second = await get_json(client, "/v1/audit", params={"limit": 3, "after": first["next"]})
        assert [each["seq"] for each in first["entries"] + second["entries"]] == [1, 2, 3, 4, 5]
        assert second["next"] is None
        for query, seqs in (
            ({"since": second["entries"][0]["at"]}, [4, 5]),
            ({"kind": "key.made"}, []),
        ):
            found = await get_json(client, "/v1/audit", "entries", params=query)
            assert [each["seq"] for each in found] == seqs, query


@pytest.mark.long
async def test_two_replicas_make_one_chain(database: str) -> None:
    async with (
        serving(database, graph="baseline") as one,
        serving(database, graph="baseline") as other,
    ):
        asked = [
            client.post("/v1/judge?wait=60", json={"text": f"Good morning, number {number}!"})
            for number in range(30)
            for client in (one, other)
        ]
        got = await asyncio.gather(*asked)
        assert {each.status_code for each in got} == {200}
        async with opened(database) as store:
            walk = await verify(store)
            assert (walk.entries, walk.fault) == (120, None)
            assert len({row["name"] for row in await page(store) if row["who"] == "replica"}) == 2


async def test_nothing_is_done_that_cant_be_told(database: str) -> None:
    async with serving(database, graph="baseline") as client, opened(database) as store:
        async with store.transaction() as connection:
            await connection.execute(delete(audit_head))
        assert (
            await client.post("/v1/judge?wait=5", json={"text": "Good morning!"})
        ).status_code == 500
        assert await get_json(client, "/v1/cases", "cases") == []
        assert "head of the log is gone" in str((await verify(store)).fault)


# What is found of a log that was changed


def log(entries: int) -> list[Row]:
    """A log as a service would have written it."""
    made: list[Row] = []
    previous = NOTHING
    for seq in range(1, entries + 1):
        row: Row = dict(
            zip(
                FIELDS,
                (1.8e9 + seq / 7, "key", "9f86d081884c", "desk é", KINDS[seq % len(KINDS)]),
                strict=False,
            )
        )
        row |= {
            "subject": f"case-{seq:05}",
            "details": f'{{"number":{seq}}}',
            "previous": previous,
            "seq": seq,
        }
        previous = row["hash"] = chained(previous, seq, content(row))
        made.append(row)
    return made


LOG = log(1000)
END = Head(seq=1000, hash=LOG[-1]["hash"])


def walked(rows: list[Row], end: Head = END, kept: str | None = None) -> LogWalk:
    """What a walk through these rows comes to, in the order in which a database gives them."""
    walk = LogWalk(kept)
    if all(walk.step(row) for row in sorted(rows, key=lambda row: row["seq"])):
        walk.check_end(end)
    return walk


PLACES = st.integers(0, 999)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(PLACES, st.sampled_from(sorted(LOG[0])), st.integers(0, 10_000), st.integers(1, 255))
def test_every_change_of_a_byte_is_found(place: int, field: str, at: int, flipped: int) -> None:
    row = dict(LOG[place])
    form = {"seq": ">q", "at": ">d"}.get(field)
    raw = bytearray(struct.pack(form, row[field]) if form else row[field].encode())
    raw[at % len(raw)] ^= flipped
    row[field] = struct.unpack(form, raw)[0] if form else raw.decode(errors="surrogateescape")
    found = walked([*LOG[:place], row, *LOG[place + 1 :]])
    assert found.fault is not None
    assert found.entries <= place, "the first entry that is wrong is named, or an earlier one"


@pytest.mark.long
@settings(max_examples=40, deadline=None, derandomize=True)
@given(PLACES, st.integers(1, 999))
def test_every_entry_that_is_gone_moved_or_put_in_is_found(place: int, by: int) -> None:
    other = (place + by) % 1000
    first = min(place, other)
    assert walked(LOG[:place] + LOG[place + 1 :]).fault
    swapped = [dict(row) for row in LOG]
    swapped[place]["seq"], swapped[other]["seq"] = other + 1, place + 1
    found = walked(swapped)
    assert found.entries == first
    assert f"is entry {max(place, other) + 1}, which was moved here" in str(found.fault)
    assert walked([*LOG, dict(LOG[place])]).entries <= place + 1, "twice"
    forged = dict(LOG[place], details="{}", seq=place + 1)
    forged["hash"] = chained(forged["previous"], forged["seq"], content(forged))
    assert walked([*LOG[:place], forged, *LOG[place + 1 :]]).fault, "with its hash made anew"
    pushed = [dict(row, seq=row["seq"] + 1) for row in LOG[place:]]
    assert walked([*LOG[:place], forged, *pushed]).fault, (
        "put in, and what comes after numbered anew"
    )
    more = dict(forged, seq=1001, previous=END.hash)
    more["hash"] = chained(END.hash, 1001, content(more))
    assert "added past the head" in str(walked([*LOG, more]).fault)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(PLACES, PLACES)
def test_a_cut_tail_is_found_but_where_the_head_was_changed_with_it(left: int, known: int) -> None:
    cut = LOG[:left]
    gone = f"entries {left + 1} to 1000: are gone" if left < 999 else "entry 1000: is gone"
    assert gone in str(walked(cut).fault)
    short = Head(seq=left, hash=cut[-1]["hash"] if cut else NOTHING)
    kept = LOG[known]["hash"]
    assert walked(cut, short).fault is None, "the documented one"
    found = walked(cut, short, kept)
    if known < left:
        assert (found.fault, found.kept_at) == (None, known + 1)
    else:
        assert f"no entry has the hash {kept}" in str(found.fault)


@asynccontextmanager
async def tampered(store: Store, statements: list[Any]) -> AsyncIterator[None]:
    """Somebody wrote to the database; afterwards it is again as it was."""
    async with store.transaction() as connection:
        before = [dict(row) for row in (await connection.execute(select(audit))).mappings()]
        end = dict((await connection.execute(select(audit_head))).mappings().one())
        for each in statements:
            await connection.execute(each)
    yield
    async with store.transaction() as connection:
        await connection.execute(delete(audit))
        await connection.execute(insert(audit), before)
        await connection.execute(update(audit_head).values(**end))


async def test_bytes_that_are_no_text_are_an_altered_entry(tmp_path: Any) -> None:
    async with opened(f"sqlite:///{tmp_path / 'a.sqlite'}") as store:
        await endpoints.add_webhook(store, "https://example.com/")
        async with store.transaction() as connection:
            await connection.exec_driver_sql("UPDATE audit SET details = CAST(X'7bff7d' AS TEXT)")
        assert "was altered" in str((await verify(store)).fault)
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        [entry] = await get_json(client, "/v1/audit", "entries")
        assert entry["details"] is None


# The command


async def tribunal(database: str, *words: str) -> tuple[int | None, str, str]:
    """Its status, and what it said on standard output and error."""
    told = {"TRIBUNAL_DATABASE": database}
    done = await asyncio.to_thread(lambda: CliRunner().invoke(app, words, env=told))
    return done.exit_code, done.stdout, done.stderr


async def as_a_process(database: str, *words: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tribunal", *words, env={**os.environ, "TRIBUNAL_DATABASE": database},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.long
async def test_the_command(database: str) -> None:
    status, key, _ = await tribunal(database, "service", "keys", "add", "desk", "--scope", "review")
    assert status == 0
    status, verified, _ = await tribunal(database, "audit", "verify")
    [kept] = re.findall(r"[0-9a-f]{64}", verified)
    status, shown, _ = await tribunal(
        database, "audit", "show", "--case", key.split("_")[1], "--json"
    )
    [entry] = [json.loads(line) for line in shown.splitlines()]
    assert (entry["kind"], entry["who"], entry["hash"]) == ("key.made", "operator", kept)
    assert entry["details"] == {"name": "desk", "scopes": ["review"]}
    _, shown, _ = await tribunal(database, "audit", "show", "--since", "2026-01-01")
    assert shown.startswith("1  ")
    assert "operator  key.made" in shown
    status, said, aside = await tribunal(database, "audit", "verify", "--head", kept)
    assert (status, said.split(",")[0]) == (0, "1 entry")
    assert "It ends where it ended" in aside
    async with opened(database) as store:
        await endpoints.add_webhook(store, "https://example.com/")
        status, said, aside = await tribunal(database, "audit", "verify")
        assert status == 0
        assert "can't tell whether" in aside
        changed = update(audit).where(audit.c.seq == 2).values(details="{}")
        async with tampered(store, [changed]):
            status, said, aside = await as_a_process(database, "audit", "verify")
            assert status == 1
            assert said.startswith("entry 2 (webhook.added of hook-")
            assert said.endswith(": was altered\n")
            assert kept in aside
    status, _, aside = await tribunal(database, "audit", "verify", "--head", "1234")
    assert (status, "head: '1234': is no hash" in aside) == (2, True)
