"""The author of a post at the desk: what was decided on their earlier posts, and that their id is kept nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from sqlalchemy import select

from tests.service.at_desk import ALL, count_rehearsed, post, signed_in
from tests.service.batched import ended, lines, sent
from tests.service.conftest import check_exit, serving
from tests.service.decided_here import ran, run
from tests.service.live import sqlite
from tribunal.docket.decision_effects import hash_author
from tribunal.docket.erasure import ErasureRequest, erase_words
from tribunal.store.engine import Store
from tribunal.store.tables import METADATA, cases

AUTHOR = "user-7f3a-of-the-platform"


async def decide(client: httpx.AsyncClient, text: str, category: str, author: str) -> str:
    """A post of an author, decided by a person; gives its case."""
    case = await post(client, text, author=author)
    decision = {"action": "change", "category": category, "note": "why", "reviewer": "lee"}
    decided = await client.post(f"/v1/cases/{case['id']}/decision?wait=60", json=decision)
    assert decided.json()["category"] == category, decided.text
    return str(case["id"])


async def test_an_author_s_earlier_decisions_stand_beside_a_case(database: str) -> None:
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        store: Store = app.state.replica.store
        hate = await decide(client, "one", "Racist", AUTHOR)
        await decide(client, "two", "NotHate", AUTHOR)
        await decide(client, "three", "Racist", "somebody else")
        against = {"appellant": "them", "reason": "I quoted it."}
        appeal = (await client.post(f"/v1/cases/{hate}/appeal", json=against)).json()["id"]
        ruling = {
            "action": "change",
            "category": "NotHate",
            "note": "a quotation",
            "reviewer": "max",
        }
        ruled = await client.post(f"/v1/appeals/{appeal}/decision", json=ruling)
        assert ruled.json()["result"] == "reversed", ruled.text
        await count_rehearsed(app)
        kim = await signed_in(app)
        new = await post(client, "four", author=AUTHOR)
        page = await kim.get(f"/desk/cases/{new['id']}")
        [found] = page.tree.xpath("//section[@aria-labelledby='author']")
        said = " ".join(found.text_content().split())
        assert said == "Author Earlier posts: 0 hate, 2 not hate; 1 reversed on appeal."

        # The id itself is in no table; the hash goes with the words.
        for table in METADATA.sorted_tables:
            held = json.dumps(await store.fetch_rows(select(table)), default=str)
            assert AUTHOR not in held, table.name
        await erase_words(store, ErasureRequest(case=hate))
        assert await store.fetch_value(select(cases.c.author_sha).where(cases.c.id == hate)) is None


async def test_two_installations_have_no_hash_in_common(tmp_path: Path) -> None:
    hashes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        store = await Store.open(sqlite(tmp_path / name))
        try:
            hashes.append(await hash_author(store, AUTHOR))
            assert await hash_author(store, f" {AUTHOR} ") == hashes[-1], (
                "of one installation it is the same"
            )
        finally:
            await store.close()
    assert hashes[0] != hashes[1]


async def test_every_way_in_notes_the_author_and_none_keeps_their_id(
    database: str, tmp_path: Path
) -> None:
    async with serving(database, graph="baseline") as client:
        store: Store = client.app.state.replica.store  # type: ignore[attr-defined]
        given = {"text": "by the service", "author": AUTHOR}
        assert (await client.post("/v1/judge?wait=60", json=given)).status_code == 200
        posts = [{"text": f"row {number}", "user": AUTHOR, "note": "n"} for number in range(2)]
        batch = await sent(client, lines(*posts), columns=json.dumps({"author": "user"}))
        await ended(client, batch.headers["location"])
        results = (await client.get(f"{batch.headers['location']}/results")).text
        assert (AUTHOR in results, '"note": "n"' in results) == (False, True)
        file = tmp_path / "posts.jsonl"
        file.write_text(
            "\n".join(
                json.dumps({"text": f"line {number}", "author": AUTHOR}) for number in range(2)
            )
        )
        kept = ("--model", "rehearsal", "--keep", "--database", database)
        assert (await run("judge", "here", "--author", AUTHOR, *kept)).exit_code == 0
        waits = await run(
            "judge", "there", "--author", AUTHOR, *kept, "--review", "--set", "review_rule=all"
        )
        assert waits.exit_code == 5, waits.output
        out = tmp_path / "out.jsonl"
        await ran("batch", str(file), "--out", str(out), *kept, "--graph", "baseline")
        rows = await store.fetch_rows(select(cases.c.via, cases.c.author_sha))
        hashed = await hash_author(store, AUTHOR)
        assert {row["author_sha"] for row in rows} == {hashed}
        assert (
            sorted(row["via"] for row in rows) == ["batch"] * 2 + ["command"] * 2 + ["service"] * 3
        )
        for each in METADATA.sorted_tables:
            assert AUTHOR not in json.dumps(await store.fetch_rows(select(each)), default=str), (
                each.name
            )
    unkept = await run("judge", "here", "--author", AUTHOR, "--model", "rehearsal")
    check_exit(unkept, 2, "--author: only kept cases")
