"""`/try`: the page and its stream, to whom they are open, and what is refused; the trial ends with its reader."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest

from tests.court import court_script
from tests.doubles import Reply, ScriptedServer
from tests.service.at_desk import Page
from tests.service.conftest import check_refusal, get_json, serving
from tests.service.live import deciding, key_of, listening
from tests.service.live import sqlite as made
from tribunal.core.calls import DEMO_NOTICE
from tribunal.schema import JSON

WEEDS = "Immigrants: the weeds in our garden."


def events_of(got: httpx.Response) -> list[JSON]:
    assert (got.status_code, got.headers["content-type"][:17]) == (200, "text/event-stream"), (
        got.text
    )
    return [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: ")]


def error_of(got: httpx.Response) -> tuple[int, str]:
    return got.status_code, got.json()["error"]["message"]


async def test_the_page_offers_graphs_policies_and_models(database: str) -> None:
    async with serving(database, graph="arcade") as client:
        got = await client.get("/try")
        page = Page(got)
        assert (page.heading, page.tree.get_element_by_id("graph").value) == ("Try it", "arcade")
        for field, offered in (("graph", "predict"), ("policy", "h-vli")):
            assert offered in page.tree.xpath(f"//select[@id='{field}']/option/@value")
        assert "rehearsal:court" in page.tree.xpath("//datalist/option/@value")
        assert DEMO_NOTICE in page.words
        allowed = got.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in allowed
        assert not page.tree.xpath("//script[not(@src)] | //style | //@style | //@onclick")
        for address in page.tree.xpath("//link/@href | //script/@src"):
            assert (await client.get(str(address))).status_code == 200, address


async def test_a_trial_is_told_with_the_marks_in_the_post_and_its_page_is_had(
    database: str,
) -> None:
    async with serving(database, graph="arcade") as client:
        told = events_of(await client.post("/try", json={"text": WEEDS, "settings": {"rounds": 1}}))
        kinds = [each["event"] for each in told]
        assert (kinds[0], kinds[-1]) == ("case", "end")
        assert {"asking", "call", "turn", "marks", "outcome"} <= set(kinds)
        marks = next(each for each in told if each["event"] == "marks")
        assert "".join(each["text"] for each in marks["segments"]) == WEEDS
        assert any("weeds" in each["text"] for each in marks["segments"] if each["cues"])
        assert told[-1]["banners"][0] == DEMO_NOTICE
        page = await client.get(f"/v1/cases/{told[0]['id']}/explanation?format=html")
        check_refusal(page, 200, "weeds")


async def test_a_tried_post_waits_for_no_moderator(database: str) -> None:
    async with serving(database, settings={"review": True, "review_rule": ["all"]}) as client:
        told = events_of(await client.post("/try", json={"text": WEEDS}))
        assert told[-1]["title"] == "HATE SPEECH"
        assert await get_json(client, "/v1/cases?outcome=pending", "cases") == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            {"text": "a", "settings": {"policy": "/etc/passwd"}},
            "policy: '/etc/passwd': a client of this server may not",
        ),
        (
            {"text": "a", "image": "/etc/passwd"},
            "image: '/etc/passwd': an agent may not name a file of this machine",
        ),
        (
            {"text": "a", "keep": False},
            "keep: false: a trial that is to be seen is kept; leave it out",
        ),
    ],
)
async def test_what_is_wrong_is_named_with_the_way_out(
    body: JSON, says: str, tmp_path: Path
) -> None:
    async with serving(made(tmp_path)) as client:
        status, message = error_of(await client.post("/try", json=body))
        assert (status, message.startswith(says)) == (400, True), message


async def test_the_key_rules_are_those_of_judge(database: str) -> None:
    judge, review = await key_of(database, "judge"), await key_of(database, "review")
    async with serving(database, graph="baseline") as client:
        page = Page(await client.get("/try"))
        assert (page.status, page.tree.get_element_by_id("with-key").get("hidden")) == (200, None)
        for key, status in (("", 401), ("tribunal_wrong", 401), (review, 403), (judge, 200)):
            got = await client.post(
                "/try", json={"text": "Good morning!"}, headers={"X-API-Key": key} if key else {}
            )
            assert got.status_code == status, got.text
        other = await key_of(database, "judge")
        case = events_of(got)[0]["id"]
        for key, status in ((judge, 200), (other, 404)):
            got = await client.get(f"/v1/cases/{case}/explanation", headers={"X-API-Key": key})
            assert got.status_code == status


async def test_a_web_page_can_t_spend_what_needs_no_key_here(tmp_path: Path) -> None:
    """A form that a page of another site sends to this machine asks no leave of the browser before."""
    async with serving(made(tmp_path), graph="baseline") as client:
        for path in ("/v1/judge", "/try"):
            for site in ("https://elsewhere.example", "http://127.0.0.1:9", "null"):
                headers = {"Origin": site, "Sec-Fetch-Site": "cross-site"}
                forms: tuple[JSON, ...] = (
                    {"files": {"text": (None, "a")}},
                    {"json": {"text": "a"}},
                )
                for form in forms:
                    got = await client.post(path, headers=headers, **form)
                    assert (got.status_code, "another site" in got.text) == (403, True), (
                        path,
                        site,
                    )
        assert await get_json(client, "/v1/cases", "cases") == []
        assert (
            await client.post("/v1/judge?wait=60", files={"text": (None, "a")})
        ).status_code == 200


async def test_no_try(tmp_path: Path) -> None:
    async with serving(made(tmp_path), try_=False) as client:
        assert [
            (await client.get("/try")).status_code,
            (await client.post("/try", json={})).status_code,
        ] == [404, 404]


async def test_the_trial_ends_when_its_reader_stops(tmp_path: Path) -> None:
    async with (
        ScriptedServer(court_script(investigation=Reply("", delay=20))) as server,
        deciding(server, made(tmp_path)) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        async with client.stream("POST", "/try", json={"text": WEEDS}) as got:
            async for line in got.aiter_lines():
                if '"asking"' in line:
                    break
        [case] = await get_json(client, "/v1/cases", "cases")
        while case["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
            [case] = await get_json(client, "/v1/cases", "cases")
        assert case["cancelled"] == "who asked for it went away before it was decided"


async def test_a_post_without_an_answer_ends_with_the_reason(tmp_path: Path) -> None:
    os.environ["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    async with (
        listening(
            made(tmp_path), settings={"model": "openai:away", "attempts": 1}, graph="baseline"
        ) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        told = events_of(
            await client.post("/try", json={"text": "Good morning!", "deadline_s": 0.5})
        )
        assert (told[-1]["title"], told[-1]["tone"]) == ("FAILED", "open")
