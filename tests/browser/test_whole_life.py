"""The whole life of a case, in a real Chromium: posted, uncertain, claimed by one of two reviewers at once, asked,
tried again, changed, appealed, upheld by another, explained, forgotten; and the audit log still holds together."""

from __future__ import annotations

import asyncio
import sys

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.test_desk_pages import browsing, sign_in
from tests.browser.test_own_pages import CHROMIUM, chromium
from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import database, migrated_database, migrated_file
from tests.service.live import deciding, key_of
from tests.service.test_checkpoints import UNSURE

__all__ = ["chromium", "database", "migrated_database", "migrated_file"]  # the fixtures
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here; name one with TRIBUNAL_CHROMIUM"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("browser"),
]
WORDS = "the words that were posted"


async def tribunal(*arguments: str) -> str:
    """What a command says; it ends well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tribunal", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def next_case(page: Page) -> bool:
    """Press for the next case; says whether there was one."""
    await page.get_by_role("button", name="Take next case").click()
    await page.wait_for_url(lambda url: "/desk/cases/" in url or "said=none" in url)
    return "/desk/cases/" in page.url


async def says(page: Page, words: str) -> None:
    """The page says so, or comes to."""
    await expect(page.locator("main")).to_contain_text(words, timeout=30_000)


async def test_a_case_from_its_post_to_its_end(chromium: Browser, database: str) -> None:
    judge, desk = await key_of(database, "judge"), await key_of(database, "review")
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        deciding(server, database, settings={"review": True}) as url,
        httpx.AsyncClient(base_url=url, timeout=60, headers={"X-API-Key": judge}) as client,
        browsing(chromium, url) as one,
        browsing(chromium, url) as other,
    ):
        posted = await client.post("/v1/judge?wait=60", json={"text": WORDS, "post_id": "post-1", "graph": "tribunal"})
        waits = posted.json()
        assert (waits["outcome"], waits["review"]["reason"]) == ("pending", "the verdict is uncertain")
        case, names = posted.headers["tribunal-case"], {one: "kim", other: "lee"}
        await asyncio.gather(*(sign_in(page, name, desk) for page, name in names.items()))

        # Both press at once: one has it, and the other is told that nothing waits, and who has it.
        got = await asyncio.gather(*map(next_case, names))
        assert sorted(got) == [False, True]
        first, second = (one, other) if got[0] else (other, one)
        await second.goto(f"/desk/cases/{case}")
        await says(second, f"{names[first]} (a) is reviewing this")

        # Asked, tried again with the question before the court, and changed.
        await first.get_by_label("Question for the model").fill("Is it a line of a song?")
        await first.get_by_role("button", name="Ask and run again").click()
        await first.wait_for_url("**said=ask**")
        while (await client.get(f"/v1/cases/{case}")).json()["status"] != "done":
            await asyncio.sleep(0.05)
        assert "Is it a line of a song?" in server.requests[-1].text
        await first.goto("/desk/queue")
        assert await next_case(first)
        await says(first, "Is it a line of a song?")
        await first.get_by_label("Change to").select_option("NotHate")
        await first.get_by_label("Note").fill("It is a line of an old song.")
        await first.get_by_role("button", name="Change", exact=True).click()
        await first.wait_for_url("**said=change**")

        # Appealed; whoever decided it can't decide that, too, and the other one upholds it.
        against = {"appellant": "user-7f3a", "reason": "I meant every word."}
        appeal = (await client.post(f"/v1/cases/{case}/appeal", json=against)).json()["id"]
        await first.goto(f"/desk/appeals/{appeal}")
        await says(first, "You decided this case yourself.")
        await second.goto(f"/desk/appeals/{appeal}")
        await says(second, "I meant every word.")
        await second.get_by_role("button", name="Claim").click()
        await second.wait_for_url("**said=claim")
        await second.get_by_label("Note").fill("A song all the same.")
        await second.get_by_role("button", name="Uphold").click()
        await second.wait_for_url("**said=uphold")
        record = (await client.get(f"/v1/cases/{case}")).json()["record"]
        assert (record["category"], record["explanation"]) == ("NotHate", "It is a line of an old song.")

        # Explained, with who did what.
        await second.goto(f"/desk/cases/{case}")
        for words in (WORDS, "It is a line of an old song.", f"{names[first]} (a)", " decided"):
            await says(second, words)

        # Forgotten: what was posted and said is gone, and the log of it is whole.
        await tribunal("forget", "--case", case, "--yes", "--database", database)
        await second.reload()
        left = await second.content()
        assert [words for words in (WORDS, "old song", "I meant every word", "line of a song") if words in left] == []
        await says(second, "erased its text")
        said = await tribunal("audit", "verify", "--database", database)
        assert "entries" in said
        await second.goto(f"/desk/appeals/{appeal}")
        assert "I meant every word." not in await second.content()
