"""The whole life of cases in a real Chromium: two reviewers and a lead decide by keys, undo, escalate, ask, decide
near-copies together, an appeal and second opinions; then the letter, the statement, the webhooks, the transparency
report and the audit log tell the same; and what is forgotten is gone."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_desk_pages import browsing, is_at, sign_in
from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import database, migrated_database, opened
from tests.service.live import deciding, key_of
from tests.service.receiving import receiving
from tests.service.test_checkpoints import UNSURE
from tests.service.test_undo import decided, release
from tests.service.test_undo_elsewhere import in_effect
from tribunal.explanations.notices import example_mapping
from tribunal.store.tables import appeals, second_opinions

__all__ = ["database", "migrated_database"]  # the fixtures
pytestmark = IN_CHROMIUM
SONG, QUOTED = "the words that were posted", "somebody shouted something at the match"
COPIED = "They should all stay at home on Sundays, every single one of them, and take their bicycles along."
OPTIONS = {
    "settings": {"review": True},
    "desk_undo": 600.0,
    "second_opinions": 1.0,
    "webhook_http": True,
}


async def tribunal(*arguments: str) -> str:
    """What a command prints; it ends well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tribunal", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return printed.decode()


async def next_case(page: Page) -> bool:
    """Press for the next case; says whether there was one."""
    await page.get_by_role("button", name="Take next case").click()
    await page.wait_for_url(lambda url: "/desk/cases/" in url or "said=none" in url)
    return "/desk/cases/" in page.url


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def says(page: Page, words: str) -> None:
    """The page says so, or comes to."""
    await expect(page.locator("main")).to_contain_text(words, timeout=30_000)


async def submit(page: Page, button: str, said: str, **fields: str) -> None:
    """Fill in the fields of these labels, and press a button."""
    for label, words in fields.items():
        field = page.get_by_label(label, exact=True).or_(page.get_by_label(f"{label} ("))
        await (
            field.select_option(words) if label in ("Category", "Change to") else field.fill(words)
        )
    await page.get_by_role("button", name=button).click()
    await page.wait_for_url(f"**said={said}*")


async def test_cases_from_their_posts_to_their_end(
    chromium: Browser, database: str, tmp_path: Path
) -> None:
    operator, desk, lead_key = [
        await key_of(database, scope) for scope in ("admin", "review", "lead")
    ]
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(example_mapping(), "utf-8")
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        receiving() as endpoint,
        deciding(server, database, **OPTIONS, mapping=mapping) as url,
        httpx.AsyncClient(base_url=url, timeout=60, headers={"X-API-Key": operator}) as client,
        browsing(chromium, url) as one,
        browsing(chromium, url) as other,
        browsing(chromium, url) as lead,
        opened(database) as store,
    ):
        hook = (await client.post("/v1/webhooks", json={"url": endpoint.url})).json()

        async def waiting_case(text: str, post_id: str) -> str:
            asked = {"text": text, "post_id": post_id, "graph": "tribunal", "language": "en"}
            posted = await client.post("/v1/judge?wait=60", json=asked)
            assert (posted.json()["outcome"], posted.json()["review"]["reason"]) == (
                "pending",
                "the verdict is uncertain",
            )
            return posted.headers["tribunal-case"]

        async def record_of(case: str) -> dict[str, Any]:
            return dict(await decided(client, case))

        song, names = await waiting_case(SONG, "song"), {one: "kim", other: "lee"}
        await asyncio.gather(
            *(sign_in(page, name, desk) for page, name in names.items()),
            sign_in(lead, "ada", lead_key),
        )

        # Two press at once: one has the case, and the other is told that nothing waits, and who has it.
        got = await asyncio.gather(*map(next_case, names))
        assert sorted(got) == [False, True]
        first, second = (one, other) if got[0] else (other, one)
        await second.goto(f"/desk/cases/{song}")
        await says(second, f"{names[first]} (a) is reviewing this")

        # By keys alone: decided by number, undone, and accepted, since number 5 is what the model says.
        await press(first, "2", "Enter")
        await is_at(first, "Queue")
        await press(first, "u", "Enter")
        await is_at(first, SONG)
        quoted, *copies = [
            await waiting_case(text, post_id)
            for text, post_id in (
                (QUOTED, "quoted"),
                (COPIED, "copy-1"),
                (COPIED.upper(), "copy-2"),
            )
        ]
        await press(first, "5", "Enter")
        await is_at(first, QUOTED)
        await says(first, "Accepted the model's verdict on song")

        # Escalated with a note; then two near-copies are decided together.
        await press(first, "w")
        await first.keyboard.type("Who shouted?")
        await press(first, "Escape", "e", "Enter")
        await is_at(first, "They should all stay at home on Sundays, every single one…")
        await says(first, "1 similar post: tick those that get the same decision (1 ticked)")
        await press(first, "1", "Enter")
        await is_at(first, "Queue")
        await says(first, "1 more decided with it.")
        for case in (song, *copies):
            await release(store, case)
        assert {(await record_of(case))["category"] for case in copies} == {"NotHate"}

        # The lead asks the model, which is shown the question, and decides what was escalated.
        await lead.goto(f"/desk/cases/{quoted}")
        await says(lead, "Who shouted?")
        await submit(lead, "Claim", "claim")
        await lead.get_by_text("Escalate, skip, ask").click()
        await submit(
            lead, "Ask and run again", "ask", **{"Question for the model": "Is it a quotation?"}
        )
        await release(store, quoted)
        await decided(client, quoted)
        assert "Is it a quotation?" in server.requests[-1].text
        await lead.goto(f"/desk/cases/{quoted}")
        await press(lead, "2", "Enter")
        await is_at(lead, "Queue")
        await release(store, quoted)
        assert (await record_of(quoted))["category"] == "Racist"

        # A second opinion that differs changes nothing; the lead sees both and keeps the decision.
        await second.goto("/desk/second-opinions")
        address = await second.locator("[data-row]").first.get_attribute("href")
        opinion = str(address).rpartition("/")[2]
        await second.locator("[data-row]").first.click()
        await submit(second, "Submit opinion", "give", Category="Sexist")
        await in_effect(
            client, store, second_opinions, f"/v1/second-opinions/{opinion}", "disagreed"
        )
        await lead.goto("/desk/second-opinions")
        await lead.locator("[data-row]").first.click()
        await says(lead, f"Sexist by {names[second]} (a)")
        await submit(lead, "Keep the decision", "keep")
        await in_effect(client, store, second_opinions, f"/v1/second-opinions/{opinion}", "settled")

        # Appealed: whoever decided the case can't decide the appeal, and the other reviewer reverses it.
        against = {"appellant": "user-7f3a", "reason": "I meant every word."}
        appeal = (await client.post(f"/v1/cases/{song}/appeal", json=against)).json()["id"]
        await first.goto(f"/desk/appeals/{appeal}")
        await says(first, "You decided this case yourself.")
        await second.goto(f"/desk/appeals/{appeal}")
        await says(second, "I meant every word.")
        await submit(second, "Claim", "claim")
        await submit(
            second,
            "Change",
            "change",
            **{"Change to": "NotHate", "Note": "It is a line of an old song."},
        )
        await in_effect(client, store, appeals, f"/v1/appeals/{appeal}", "decided")
        song_record = await record_of(song)
        assert (song_record["category"], song_record["explanation"]) == (
            "NotHate",
            "It is a line of an old song.",
        )
        assert song_record["appeals"][0]["result"] == "reversed"

        # The letter, the statement, the webhooks and the transparency report tell what was decided.
        letter = f"/v1/cases/{quoted}/explanation?for=poster&format=markdown"
        assert "We removed your post." in (await client.get(letter)).text
        out, span = tmp_path / "statements", ("--from", "2020-01-01", "--to", "2100-01-01")
        held = ("--database", database)
        await tribunal("dsa", "statements", "--out", str(out), "--mapping", str(mapping), *held)
        [file] = out.glob("*.json")
        [statement] = json.loads(file.read_text("utf-8"))["statements"]
        assert "category Racist" in statement["decision_facts"]
        messages = [endpoint.read(at, hook["secret"]) for at in range(len(await endpoint.wait(11)))]
        told = {
            (each["type"], each["data"]["post_id"], each["data"]["category"]) for each in messages
        }
        assert told >= {
            *(("case.pending", post_id, None) for post_id in ("song", "quoted", "copy-1", "copy-2")),
            ("case.decided", "song", "Religious"), ("case.decided", "quoted", "Racist"),
            ("case.decided", "copy-1", "NotHate"), ("case.decided", "copy-2", "NotHate"),
            ("case.appealed", "song", "Religious"), ("appeal.decided", "song", "NotHate"),
        }  # fmt: skip
        figures = json.loads(await tribunal("dsa", "report", *span, "--format", "json", *held))
        assert (figures["posts"], figures["hateful"], figures["automated"]["by_people"]) == (
            4,
            1,
            4,
        )
        assert (
            figures["reversals"]["reviews"]["turned"],
            figures["reversals"]["appeals"]["turned"],
        ) == (3, 1)

        # Explained, with who did what; then forgotten, and the audit log is whole.
        await second.goto(f"/desk/cases/{song}")
        for words in (
            SONG,
            "It is a line of an old song.",
            f"{names[first]} (a)",
            "undid the decision",
        ):
            await says(second, words)
        await tribunal("cases", "forget", "--case", song, "--yes", *held)
        await second.reload()
        left = await second.content()
        assert [words for words in (SONG, "old song", "I meant every word") if words in left] == []
        await says(second, "erased its text")
        assert "entries" in await tribunal("audit", "verify", *held)
        await second.goto(f"/desk/appeals/{appeal}")
        assert "I meant every word." not in await second.content()
