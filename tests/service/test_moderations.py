"""In place of OpenAI's moderations, through OpenAI's own client."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from PIL import Image

from tests.court import Script, court_script, cue, part, side_by_side
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.service.live import cases_at, deciding, key_of, listening, sqlite

ABUSE = "Immigrants are vermin and should be deported."
JUDGED = ("hate", "hate/threatening")


def client(url: str, key: str = "none", **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, **{"max_retries": 0, **more})


async def create(url: str, key: str, given: Any, **more: Any) -> Any:
    """One request with a client of its own."""
    async with client(url, key, **more) as ours:
        return await ours.moderations.create(input=given)


def ruling(category: str, confidence: float = 0.9) -> dict[str, Any]:
    return {"category": category, "explanation": "why", "confidence": confidence}


def court(**instead: Any) -> Script:
    """The court by the policy that has OpenAI's categories."""
    found = {"cues": [cue("implied-cue", "Metaphor", category=instead.pop("kind", "hate"))]}
    return court_script(investigation=found, **instead)


def picture() -> str:
    held = io.BytesIO()
    Image.new("RGB", (20, 20), "red").save(held, "PNG")
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


async def test_a_text_and_a_list_of_texts(tmp_path: Path) -> None:
    async with listening(sqlite(tmp_path)) as url, client(url) as ours:
        one = await ours.moderations.create(model="omni-moderation-latest", input=ABUSE)
        [result] = one.results
        assert one.id.startswith("modr-")
        assert one.model == "tribunal (rehearsal:court)"
        assert (result.flagged, result.categories.hate, result.category_scores.hate) == (
            True,
            True,
            1.0,
        )
        others = result.categories.model_dump(by_alias=True).items()
        assert {name for name, held in others if held} == {"hate"}
        assert len(others) == 13
        raw = await ours.moderations.with_raw_response.create(input=["Good morning!", ABUSE])
        assert [each.flagged for each in raw.parse().results] == [False, True]
        assert raw.headers["tribunal-categories"] == "hate, hate/threatening"
        assert raw.headers["tribunal-rehearsed"] == "true, true"
        assert raw.headers["tribunal-case"].count("case-") == 2


async def test_models_are_listed_for_clients_that_look_first(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    key, reviewer = await key_of(database, "judge", daily_calls=1), await key_of(database, "review")
    async with listening(database, graph="baseline") as url, client(url, key) as ours:
        assert [each.id async for each in ours.models.list()] == ["baseline"]
        one = await ours.models.retrieve("baseline")
        assert (one.id, one.object, one.owned_by) == ("baseline", "model", "tribunal")
        with pytest.raises(openai.NotFoundError, match="model: omni: there is only baseline"):
            await ours.models.retrieve("omni")
        for other, error in (
            (reviewer, openai.PermissionDeniedError),
            ("none", openai.AuthenticationError),
        ):
            with pytest.raises(error):
                await ours.with_options(api_key=other).models.list()


async def test_a_text_with_an_image_is_one_post(tmp_path: Path) -> None:
    async with (
        ScriptedServer(
            court(kind="hate/threatening", judge=ruling("hate/threatening", 0.88))
        ) as server,
        deciding(server, sqlite(tmp_path)) as url,
        client(url) as ours,
    ):
        parts: Any = [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": picture()}},
        ]
        [result] = (await ours.moderations.create(input=parts)).results
        assert (result.flagged, result.categories.hate, result.categories.hate_threatening) == (
            True,
            True,
            True,
        )
        scores = result.category_scores.model_dump(by_alias=True)
        assert {name: score for name, score in scores.items() if score} == dict.fromkeys(
            JUDGED, 0.94
        )
        applied = result.category_applied_input_types.model_dump(by_alias=True)
        assert {name: kinds for name, kinds in applied.items() if kinds} == {
            name: ["text", "image"] for name in JUDGED
        }
        [asked] = [request for request in server.requests if part(request) == "judge"]
        assert (len(asked.images), "hate/threatening" in asked.text) == (1, True)


async def test_the_operators_policy_decides_which_categories_there_are(tmp_path: Path) -> None:
    async with (
        ScriptedServer(court(kind="Religious", judge=ruling("Religious", 0.7))) as server,
        deciding(server, sqlite(tmp_path), settings={"policy": "h-vli"}) as url,
        client(url) as ours,
    ):
        raw = await ours.moderations.with_raw_response.create(input=ABUSE)
        [result] = raw.parse().results
        assert raw.headers["tribunal-categories"] == "hate"
        assert raw.headers["tribunal-uncertain"] == "true"  # 0.7 is below the usual threshold
        assert (result.category_scores.hate, result.category_scores.hate_threatening) == (0.85, 0.0)
        assert result.category_applied_input_types.hate_threatening == []


async def test_a_list_is_judged_at_the_same_time_and_answered_in_order(tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        threat = "post two" in request.text
        judged = ruling("hate/threatening" if threat else "NotHate", 0.75)
        return court(kind="hate/threatening", judge=judged)(request)

    together = side_by_side(script, {"judge": 3})
    async with (
        ScriptedServer(together) as server,
        deciding(server, sqlite(tmp_path)) as url,
        client(url) as ours,
    ):
        results = (
            await ours.moderations.create(input=["post one", "post two", "post three"])
        ).results
        assert [each.category_scores.hate_threatening for each in results] == [0.125, 0.875, 0.125]


async def test_what_is_wrong_is_said_as_openai_says_it(tmp_path: Path) -> None:
    images = [{"type": "image_url", "image_url": {"url": picture()}}] * 2
    wordless: Any = [{"type": "text"}]
    wrong: list[Any] = ["", [], ["hi", " "], ["hi"] * 33, 5, images, [{"type": "sound"}]]
    wrong += [[{"type": "image_url", "image_url": {"url": "/etc/passwd"}}]]
    wrong += [[{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]]
    async with listening(sqlite(tmp_path)) as url, client(url) as ours:
        for given in wrong:
            with pytest.raises(openai.BadRequestError) as raised:
                await ours.moderations.create(input=given)
            said: Any = raised.value.body
            assert said.keys() == {"message", "type", "param", "code"}
            assert (said["type"], said["code"]) == ("invalid_request_error", "bad_input"), given
            assert said["message"].startswith(("input", "image: ")), said
        with pytest.raises(openai.BadRequestError) as raised:
            await ours.moderations.create(input=wordless)
        assert (raised.value.param, "input.0" in raised.value.message) == (
            "input.0.text.text",
            True,
        )
        with pytest.raises(openai.BadRequestError, match="colour"):
            await ours.moderations.create(input="hi", extra_body={"colour": "red"})
        assert [case for case in await cases_at(url) if case["record"]] == []


async def test_keys_and_limits_become_the_clients_own_exceptions(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    good, other = await key_of(database, "judge", per_minute=2), await key_of(database, "review")
    spent = await key_of(database, "judge", daily_calls=4)
    sent: list[httpx.Request] = []

    async def noted(request: httpx.Request) -> None:
        sent.append(request)

    async with listening(database) as url:
        with pytest.raises(openai.AuthenticationError):
            await create(url, "sk-of-somebody-else", "hi")
        with pytest.raises(openai.PermissionDeniedError):
            await create(url, other, "hi")
        with pytest.raises(openai.RateLimitError) as raised:  # three posts count as three requests
            await create(url, good, ["one", "two", "three"])
        assert int(raised.value.response.headers["retry-after"]) >= 1
        assert raised.value.code == "rate_limit_exceeded"
        watched = httpx.AsyncClient(timeout=60, event_hooks={"request": [noted]})
        assert (await create(url, spent, ABUSE)).results[0].flagged
        with pytest.raises(openai.RateLimitError) as raised:
            await create(url, spent, "hi", max_retries=2, http_client=watched)
        # to try again at once would be no use
        assert (raised.value.code, len(sent)) == (
            "insufficient_quota",
            1,
        )


@pytest.mark.parametrize(
    ("answer", "status"),
    [(Reply(refusal="I can't help with that."), 422), (Fault(401), 503)],
    ids=["refusal", "failure"],
)
async def test_what_is_not_decided_is_an_error(
    answer: Reply | Fault, status: int, tmp_path: Path
) -> None:
    async with (
        ScriptedServer(court(judge=answer)) as server,
        deciding(server, sqlite(tmp_path), hold_seconds=0) as url,
        client(url) as ours,
    ):
        with pytest.raises(openai.APIStatusError, match="no verdict") as raised:
            await ours.moderations.create(input=ABUSE)
        assert raised.value.status_code == status


async def test_the_clients_own_retry_finds_the_case_that_is_under_way(database: str) -> None:
    go_on, tries = asyncio.Event(), []
    script = court(judge=ruling("hate"))

    async def slow(request: Request) -> Reply | Fault:
        await go_on.wait()
        return script(request)

    async def noted(request: httpx.Request) -> None:
        tries.append(request.headers["x-stainless-retry-count"])
        if len(tries) == 2:
            go_on.set()

    watched = httpx.AsyncClient(timeout=60, event_hooks={"request": [noted]})
    async with (
        ScriptedServer(slow) as server,
        deciding(server, database, longest_wait=1.0) as url,
        client(url, max_retries=9, http_client=watched) as ours,
    ):
        assert (await ours.moderations.create(input=ABUSE)).results[0].flagged
        assert tries[:2] == ["0", "1"]
        assert len(await cases_at(url)) == 1
        assert [part(request) for request in server.requests].count("judge") == 1


async def test_a_client_that_goes_away_ends_its_trials(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def silent(request: Request) -> Fault:
        begun.set()
        return Fault(hang=True)

    async with (
        ScriptedServer(silent) as server,
        deciding(server, sqlite(tmp_path)) as url,
        client(url) as ours,
    ):
        asking = asyncio.create_task(ours.moderations.create(input=["one post", "another post"]))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while {case["status"] for case in await cases_at(url)} != {"cancelled"}:
            await asyncio.sleep(0.05)
        assert all("went away" in case["cancelled"] for case in await cases_at(url))
