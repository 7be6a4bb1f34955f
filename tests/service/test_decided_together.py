"""The desk's queue, narrowed down, and near-copies and ticked cases that one press of a button decides."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from typer.testing import CliRunner

from tests.service.at_desk import ALL, Somebody, post, signed_in
from tests.service.conftest import get_json, opened, serving
from tribunal.commands import app
from tribunal.schema import JSON
from tribunal.service.replica import near_copies
from tribunal.store import audit as audit_log

KEPT = {**ALL, "desk_undo": 600.0}
TEXT = "They should all go back to where they came from, every single one of them, and take their families along."
COPY = TEXT.upper() + " @somebody"
NEGATED = TEXT.replace("should all", "should not all")


async def queued(client: httpx.AsyncClient, *texts: str) -> list[str]:
    return [(await post(client, text, post_id=f"p-{at}"))["id"] for at, text in enumerate(texts)]


async def at_case(who: Somebody, case_id: str) -> str:
    page = await who.get(f"/desk/cases/{case_id}")
    await who.send("claim", at="/cases/")
    return page.words


def ticked(who: Somebody) -> dict[str, bool]:
    """The near-copies that the page offers, and whether each is ticked."""
    boxes = who.page.tree.xpath("//input[starts-with(@name, 'also.')]")
    return {each.name.removeprefix("also."): each.checked for each in boxes}


async def state_of(client: httpx.AsyncClient, case_id: str) -> str:
    case: JSON = await get_json(client, f"/v1/cases/{case_id}")
    return "decided" if case["status"] == "queued" else str(case["record"]["outcome"])


async def test_copies_are_decided_together_and_undone_together(database: str) -> None:
    async with serving(database, **KEPT) as client, opened(database) as store:
        first, same, near, other = await queued(
            client, TEXT, COPY.removesuffix(" @somebody"), NEGATED, "Good morning."
        )
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        queue = await kim.get("/desk/queue")
        assert "p-0 2 similar" in queue.words
        await at_case(kim, first)
        assert ticked(kim) == {same: True, near: False}, (
            "what differs in a word is offered, and not ticked"
        )
        marked = [
            each.text_content()
            for each in kim.page.tree.xpath("//ul[contains(@class, 'copies')]//mark")
        ]
        assert marked == ["not"]
        done = await kim.send(
            "change", at="/cases/", category="Racist", note="It speaks of tourists."
        )
        assert "p-0" in done.said
        assert "1 more decided with it." in done.said
        assert [await state_of(client, each) for each in (first, same, near, other)] == [
            "decided", "decided", "pending", "pending",
        ]  # fmt: skip
        for each in (first, same):
            [entry] = [
                row
                for row in await audit_log.page(store, subject=each)
                if row["kind"] == "case.answered"
            ]
            assert audit_log.readable(entry)["details"]["together"] == [first, same]
        undone = await kim.send(at="/undo")
        assert undone.said == "Undone. 2 cases wait for you again."
        assert kim.case == first
        assert [await state_of(client, each) for each in (first, same)] == ["pending", "pending"]


async def test_what_was_ticked_in_the_queue_is_decided_together_but_for_what_another_has(
    database: str,
) -> None:
    async with serving(database, **KEPT) as client:
        cases = await queued(client, "Good morning.", "I like tea.", "It rains.")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        lee = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
        await kim.get("/desk/queue")
        await kim.send(at="/together", **{f"pick.{each}": "1" for each in cases})
        assert (kim.case, ticked(kim)) == (cases[0], {cases[1]: True, cases[2]: True})
        assert "2 other posts: tick" in kim.page.words
        assert "similar post" not in kim.page.words
        await at_case(lee, cases[2])
        done = await kim.send("accept", at="/cases/")
        assert "1 more decided with it." in done.said
        assert "p-2 (somebody else has claimed it)" in done.said
        assert [await state_of(client, each) for each in cases] == ["decided", "decided", "pending"]


async def test_the_end_of_a_long_copy_is_marked_and_no_near_copy_displaces_a_ticked_case(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database, **KEPT) as client:
        words = " ".join(f"word{number}" for number in range(600))
        first, near, longer, _ = await queued(
            client, f"{words} the end", f"{words} but not", f"word {words} the end and more", words
        )
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await at_case(kim, first)
        marked = [
            each.text_content()
            for each in kim.page.tree.xpath("//ul[contains(@class, 'copies')]//mark")
        ]
        tail = " ".join(f"word{number}" for number in range(199, 600))
        assert sorted(marked) == sorted(
            ["but not", "[…]", "word", "[…]", f"{tail} the end and more"]
        )
        monkeypatch.setattr(near_copies, "MOST_TOGETHER", 1)
        await kim.get(f"/desk/cases/{first}?also={longer}")
        assert (ticked(kim), near in ticked(kim)) == ({longer: True}, False)


async def test_cases_of_one_text_are_one_line_that_opens(database: str) -> None:
    async with serving(database, **KEPT) as client:
        first, second, _ = await queued(client, TEXT, TEXT.upper(), NEGATED)
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        lee = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
        lines = "//*[contains(@class, 'post-id')]"
        page = await kim.get("/desk/queue")
        assert [each.text for each in page.tree.xpath(lines)] == ["p-0", "p-2"], (
            "what a word differs in stands apart"
        )
        assert "2 with the same text" in page.words
        assert "3 cases in 2 rows" in page.words
        await at_case(lee, first)
        page = await kim.get("/desk/queue")
        assert [each.text for each in page.tree.xpath(lines)] == ["p-1", "p-2"], (
            "what is free stands for all"
        )
        page = await kim.get(f"/desk/queue?cluster={second}")
        assert [each.text for each in page.tree.xpath(lines)] == ["p-0", "p-1"]
        await at_case(kim, second)
        await kim.send("accept", at="/cases/")
        assert "with the same text" not in (await kim.get("/desk/queue")).words


async def test_the_api_and_the_terminal_take_the_filters_of_the_queue(database: str) -> None:
    async with serving(database, **KEPT) as client:
        cases = await queued(
            client,
            "Good morning, everybody.",
            "It rains with 50% more wind.",
            "good morning, everybody.",
        )

        async def found(**asked: str) -> set[str]:
            over_http = await get_json(
                client, "/v1/cases", "cases", params={"outcome": "pending", **asked}
            )
            options = [
                part
                for name, value in asked.items()
                for part in (f"--{name.replace('_', '-')}", value)
            ]
            for command in ("cases", "review"):
                ran = await asyncio.to_thread(
                    CliRunner().invoke,
                    app,
                    [command, "list", "--json", "--database", database, *options],
                )
                assert ran.exit_code == 0, ran.output
                listed = {
                    each["id" if command == "cases" else "thread"]
                    for each in json.loads(ran.stdout)
                }
                assert listed == {each["id"] for each in over_http}
            return listed

        assert await found(text="50%") == {cases[1]}
        assert await found(cluster=cases[0]) == {cases[0], cases[2]}
        assert await found(category="NotHate", image="without") == set(cases)
        assert (
            await found(severity="high")
            == await found(clause="H1")
            == await found(image="with")
            == set()
        )
        assert await found(younger="1") == set(cases)
        assert await found(older="1") == set()
        refused = await asyncio.to_thread(
            CliRunner().invoke, app, ["cases", "list", "--image", "some"]
        )
        assert "image: 'some'" in refused.output
