"""Precedents from the service's database: reviewed, appealed, brought before the next post, and forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.court import part
from tests.decided import held_by
from tests.service.conftest import check_refusal
from tests.service.decided_here import courtroom, decided, ran, run
from tribunal.retrievers.precedents.store import precedents_folder

PLANTS, PEOPLE = "The weeds of our garden are back again.", "Those people are weeds in our garden."


async def built(database: str, *more: str) -> Any:
    done = await ran(
        "precedents", "build", "ours", "--from", "database", "--database", database, "--json", *more
    )
    return json.loads(done.stdout)


async def searched(name: str) -> Any:
    return json.loads(
        (await run("precedents", "show", name, "--search", "weeds in our garden", "--json")).stdout
    )


@pytest.mark.long
async def test_decisions_become_precedents_and_leave_with_their_words(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with courtroom(database) as (client, server):
        changed = await decided(client, "NotHate", text=PLANTS, post_id="plants")
        accepted = await decided(client, None, text=PEOPLE, post_id="people")
        appeal = await client.post(
            f"/v1/cases/{accepted}/appeal", json={"appellant": "user-7", "reason": "A song."}
        )
        overruled = {
            "action": "change",
            "category": "Racist",
            "note": "lee-note",
            "reviewer": "lee",
        }
        done = await client.post(f"{appeal.headers['location']}/decision", json=overruled)
        assert done.status_code == 200, done.text
        first = await built(database)
        assert (first["rows"], first["decided"]) == (
            2,
            {"accepted": 0, "changed": 1, "appealed": 1},
        )
        found = await searched("ours")
        assert {(each["case"], each["post_id"], each["category"], each["note"]) for each in found} == {
            (changed, "plants", "NotHate", "kim-note"), (accepted, "people", "Racist", "lee-note"),
        }  # fmt: skip
        assert not any(
            name in held_by(precedents_folder() / "ours")
            for name in (b"kim (", b"lee (", b"user-7")
        )
        # What people decided is the operator's, who says whether a client may have it shown.
        refused = await client.post(
            "/v1/judge", json={"text": PLANTS, "graph": "tribunal", "settings": COURT}
        )
        check_refusal(refused, 400, "TRIBUNAL_ALLOW=precedents")
        monkeypatch.setenv("TRIBUNAL_ALLOW", "precedents=ours")
        # The next post is shown both, and its record holds the words of neither.
        server.requests.clear()
        third = await decided(
            client, None, text="They are the weeds in our garden.", settings=COURT, post_id="third"
        )
        [judge] = [request for request in server.requests if part(request) == "judge"]
        assert PLANTS in judge.text
        assert PEOPLE in judge.text
        record = (await client.get(f"/v1/cases/{third}")).json()["record"]
        assert {each["case"] for each in record["precedents"]} == {changed, accepted}
        assert PLANTS not in json.dumps(record)
        assert (await built(database))["added"] == 1
        await ran("cases", "forget", "--case", changed, "--yes", "--database", database)
        assert PLANTS.encode() not in held_by(precedents_folder() / "ours")
        assert json.loads((await run("precedents", "show", "ours", "--json")).stdout)["rows"] == 2
        # What is exported is a source, too.
        await ran("review", "export", "--out", "decided.parquet", "--database", database)
        words = ("precedents", "build", "exported", "--from", "decided.parquet", "--json")
        exported = json.loads((await run(*words)).stdout)
        assert (exported["rows"], exported["sources"][0]["name"]) == (2, "decided.parquet")
        # Over HTTP, too.
        erased = await client.delete(f"/v1/cases/{accepted}/words")
        assert erased.status_code < 300, erased.text
        assert json.loads((await run("precedents", "show", "ours", "--json")).stdout)["rows"] == 1


COURT = {"review": True, "precedents": "ours"}
