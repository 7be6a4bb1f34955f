"""Decisions and appeals, told in the form in which ROOST Coop calls back (its docs/api/actions.md)."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import serving
from tests.service.receiving import receiving
from tests.service.test_appeals import CLEAN, SURE, appealed, by_the_court
from tribunal.commands import app

NAMES = {"item_type": "comment", "action": "remove", "user_type": "member"}


async def test_hateful_decisions_and_appeals_come_as_coop_sends_them(database: str) -> None:
    settings = {"model": "openai:scripted"}
    async with receiving() as receiver, serving(database, settings=settings, webhook_http=True) as client:
        added = await client.post("/v1/webhooks", json={"url": receiver.url, "coop": NAMES})
        assert (added.status_code, added.json()["coop"]) == (201, NAMES), added.text
        secret = added.json()["secret"]
        async with ScriptedServer(court_script(judge=CLEAN)) as server:
            await by_the_court(client, server, post_id="fine")  # nothing is to be done, so nothing is told
        async with ScriptedServer(court_script(judge=SURE)) as server:
            at = await by_the_court(client, server, post_id="p-1")
        where = await appealed(client, at)
        change = {"action": "change", "category": "NotHate", "note": "a song", "reviewer": "lee"}
        done = await client.post(f"{where}/decision", json=change)
        assert done.json()["result"] == "reversed", done.text
        await receiver.wait(2)
        acted, appeal = receiver.read(0, secret), receiver.read(1, secret)
        case = (await client.get(at)).json()
        listed = (await client.get("/v1/webhooks/deliveries")).json()["deliveries"]
    item = {"id": "p-1", "typeId": "comment"}
    assert {name: acted[name] for name in ("item", "action", "rules")} == {
        "item": item, "action": {"id": "remove"}, "rules": [],
    }  # fmt: skip
    [policy] = acted["policies"]
    assert (policy["name"], policy["penalty"]) == ("Religious", "NONE")
    assert (acted["custom"]["case"], acted["custom"]["uncertain"]) == (case["id"], False)
    assert {name: appeal[name] for name in appeal if name != "custom"} == {
        "appealId": where.rpartition("/")[2],
        "item": item,
        "appealedBy": {"id": "user-7", "typeId": "member"},
        "appealDecision": "ACCEPT",
    }
    assert sorted(each["event"] for each in listed) == ["appeal.decided", "case.decided"]


def test_by_the_command(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'a.sqlite'}"
    run = CliRunner().invoke
    url = "https://example.com/coop"
    wrong = run(app, ["service", "webhooks", "add", url, "--coop", "comment", "--database", address])
    assert (wrong.exit_code, "write ITEM_TYPE:ACTION, such as comment:remove" in wrong.stderr) == (2, True)
    both = run(
        app, ["service", "webhooks", "add", url, "--coop", "comment:remove", "--with-record", "--database", address]
    )
    assert (both.exit_code, "Coop's form holds no record" in both.stderr) == (2, True)
    assert (
        run(app, ["service", "webhooks", "add", url, "--coop", "comment:remove", "--database", address]).exit_code == 0
    )
    listed = run(app, ["service", "webhooks", "list", "--database", address]).stdout
    assert f"{url}  case.decided, appeal.decided  in Coop's form" in listed
