"""In place of the Perspective API, through Google's own client, built from the discovery document that is served."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.court import court_script, cue, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.service.live import cases_at, deciding, listening, sqlite
from tribunal.nodes.threshold import Threshold
from tribunal.prompts.policy import policy_in_force
from tribunal.settings.context import Context

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the client says of packages that it is installed with
    from googleapiclient import discovery  # type: ignore[import-untyped]
    from googleapiclient.errors import HttpError  # type: ignore[import-untyped]

ABUSE = "Immigrants are vermin and should be deported."
BOTH: dict[str, Any] = {"IDENTITY_ATTACK": {}, "HATE_SPEECH": {}}
GUILTY = {"category": "Religious", "explanation": "why", "confidence": 0.9}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    (
        {"requestedAttributes": {"TOXICITY": {}, **BOTH}},
        "INVALID_REQUEST",
        "Unknown requested attribute: TOXICITY",
    ),
    ({"requestedAttributes": {}}, "NO_REQUESTED_ATTRIBUTES", "IDENTITY_ATTACK, HATE_SPEECH"),
    ({"comment": {"text": " "}}, "COMMENT_EMPTY", "comment.text"),
    ({"comment": {"text": "x" * 200_000}}, "COMMENT_TOO_LONG", "131072"),
    ({"comment": {"text": "hi", "type": "HTML"}}, "INVALID_REQUEST", "PLAIN_TEXT"),
    (
        {"requestedAttributes": {"HATE_SPEECH": {"scoreType": "RAW"}}},
        "INVALID_REQUEST",
        "only PROBABILITY",
    ),
    (
        {"context": {"entries": [], "articleAndParentComment": {}}},
        "INVALID_REQUEST",
        "give one of them",
    ),
    ({"languages": ["no language"]}, "INVALID_REQUEST", "no language"),
    ({"colour": "red"}, "INVALID_REQUEST", "colour"),
    ({"comment": 1}, "INVALID_REQUEST", "comment"),
]


def build(url: str, key: str | None = None) -> Any:
    return discovery.build(
        "commentanalyzer",
        "v1alpha1",
        developerKey=key,
        discoveryServiceUrl=f"{url}/$discovery/rest?version=v1alpha1",
        static_discovery=False,
    )


async def analyze(url: str, text: str = ABUSE, key: str | None = None, **more: Any) -> Any:
    """What the client gives for a comment; it is synchronous, so it has a thread of its own."""
    body = {"comment": {"text": text}, "requestedAttributes": BOTH, **more}

    def asked() -> Any:
        with build(url, key) as client:
            return client.comments().analyze(body=body).execute()

    return await asyncio.to_thread(asked)


async def refused(
    url: str, text: str = ABUSE, key: str | None = None, **more: Any
) -> dict[str, Any]:
    """The error that the client raises, as Google writes one."""
    with pytest.raises(HttpError) as raised:
        await analyze(url, text, key, **more)
    error: dict[str, Any] = json.loads(raised.value.content)["error"]
    assert error["code"] == raised.value.resp.status
    # the client finds it where Google's own errors have it
    assert raised.value.reason == error["message"]
    return error


async def test_a_comment_is_scored_by_googles_client(tmp_path: Path) -> None:
    async with listening(sqlite(tmp_path)) as url:
        got = await analyze(
            url, clientToken="t-1", sessionId="s", communityId="c", languages=["en"]
        )
        score = {"value": 1.0, "type": "PROBABILITY"}
        scores = {
            "summaryScore": score,
            "spanScores": [{"begin": 0, "end": len(ABUSE), "score": score}],
        }
        assert got == {
            "attributeScores": {"IDENTITY_ATTACK": scores, "HATE_SPEECH": scores},
            "languages": ["en"],
            "clientToken": "t-1",
        }
        [case] = await cases_at(url)
        assert (case["post"], case["record"]["rehearsed"]) == (
            {"text": ABUSE, "language": "en"},
            True,
        )


@pytest.mark.parametrize("by", ["the request", "the operator"])
async def test_of_a_mixed_request_is_answered_what_can_be(by: str, tmp_path: Path) -> None:
    asks: dict[str, Any] = {"dropUnsupportedAttributes": True} if by == "the request" else {}
    wanted = {"TOXICITY": {"scoreType": "RAW"}, **BOTH, "of nobody\r\nX: y": {}, "INSULT": {}}
    async with listening(sqlite(tmp_path), perspective_drop=by == "the operator") as url:
        got = await analyze(url, requestedAttributes=wanted, **asks)
        assert list(got["attributeScores"]) == list(BOTH)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            body = {"comment": {"text": ABUSE}, "requestedAttributes": wanted, **asks}
            raw = await client.post("/v1alpha1/comments:analyze", json=body)
            assert raw.headers["Tribunal-Dropped-Attributes"] == "TOXICITY, INSULT"
            raw = await client.post(
                "/v1alpha1/comments:analyze", json={**body, "requestedAttributes": BOTH}
            )
            assert "Tribunal-Dropped-Attributes" not in raw.headers
        error = await refused(url, requestedAttributes={"TOXICITY": {}}, **asks)
        assert (error["status"], "Unknown requested attribute: TOXICITY" in error["message"]) == (
            "INVALID_ARGUMENT", True,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("category", "confidence", "score"),
    [
        ("Religious", 0.91, 0.955),
        ("NotHate", 0.8, 0.1),
        ("Religious", 0.3, 0.65),
        ("NotHate", 0.3, 0.35),
    ],
    ids=["hate", "no hate", "hate, unsure", "no hate, unsure"],
)
async def test_the_score_is_the_probability_of_hate(
    category: str, confidence: float, score: float, tmp_path: Path
) -> None:
    judge = {"category": category, "explanation": "why", "confidence": confidence}
    async with (
        ScriptedServer(court_script(judge=judge)) as server,
        deciding(server, sqlite(tmp_path)) as url,
    ):
        wanted = {
            "IDENTITY_ATTACK": {"scoreThreshold": score},
            "HATE_SPEECH": {"scoreThreshold": score + 0.01},
        }
        before = {"entries": [{"text": "What do you think of them?"}]}
        got = await analyze(url, requestedAttributes=wanted, context=before)
        assert got["attributeScores"].keys() == {"IDENTITY_ATTACK"}
        assert got["attributeScores"]["IDENTITY_ATTACK"]["summaryScore"]["value"] == score
        assert got["detectedLanguages"] == got["languages"] == ["en"]
        [asked] = [request for request in server.requests if part(request) == "judge"]
        assert "from 0 to 1" in asked.text
        assert "What do you think of them?" in asked.text


async def test_the_map_of_a_fitted_threshold_calibrates_the_score(tmp_path: Path) -> None:
    policy = await policy_in_force(Context().policy)
    fitted = {
        "threshold": 0.5, "agreement": 0.9, "level": 0.9, "coverage": 1.0, "agreement_held_out": 0.9, "n_fit": 100,
        "n_held_out": 100, "seed": 0, "graph": "arcade", "scheme": "fine", "models": {"model": "openai:scripted"},
        "policy": policy.sha, "fitted_from": "run", "at": "2026-01-01T00:00:00+00:00",
        "calibration": [[0.8, 0.6], [1.0, 0.8]],
    }  # fmt: skip
    for models, score, kind in (
        (fitted["models"], 0.7, "calibrated"),
        ({"model": "openai:other"}, 0.95, "confidence"),
    ):
        file = tmp_path / f"{kind}.json"
        file.write_text(Threshold.model_validate({**fitted, "models": models}).model_dump_json())
        async with (
            ScriptedServer(court_script(judge=GUILTY)) as server,
            deciding(
                server, sqlite(tmp_path / kind), settings={"threshold_file": str(file)}
            ) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as client,
        ):
            body = {"comment": {"text": ABUSE}, "requestedAttributes": {"HATE_SPEECH": {}}}
            got = await client.post("/v1alpha1/comments:analyze", json=body)
            assert got.json()["attributeScores"]["HATE_SPEECH"]["summaryScore"]["value"] == score
            assert got.headers["Tribunal-Score"] == kind
            [case] = await cases_at(url)
            assert case["record"]["confidence"] == 0.9  # as it was stated


async def test_a_dismissal_is_scored_by_the_verdict_or_by_the_fitted_file(tmp_path: Path) -> None:
    policy, file = await policy_in_force(Context().policy), tmp_path / "threshold.json"
    fitted = {
        "threshold": 0.5, "agreement": 0.9, "level": 0.9, "coverage": 1.0, "n_fit": 100, "graph": "arcade",
        "scheme": "fine", "models": {"model": "openai:scripted"}, "policy": policy.sha, "fitted_from": "run",
        "at": "2026-01-01T00:00:00+00:00", "hate_without_confidence": {"harmless": 0.04},
    }  # fmt: skip
    file.write_text(json.dumps(fitted))
    for settings, score, kind in (
        ({}, 0.0, "verdict"),
        ({"threshold_file": str(file)}, 0.04, "calibrated"),
    ):
        (tmp_path / kind).mkdir()
        async with (
            ScriptedServer(court_script(implicit=False)) as server,
            deciding(server, sqlite(tmp_path / kind), settings=settings) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as client,
        ):
            body = {
                "comment": {"text": "Good morning!"},
                "requestedAttributes": {"HATE_SPEECH": {}},
            }
            got = await client.post("/v1alpha1/comments:analyze", json=body)
            assert got.json()["attributeScores"]["HATE_SPEECH"]["summaryScore"]["value"] == score
            said = [got.headers[f"tribunal-{name}"] for name in ("score", "rehearsed")]
            assert said == [kind, "false"]
            record = (await cases_at(url))[0]["record"]
    assert (record["probability"], record["probability_from"]) == (0.04, "calibrated")


async def test_spans_are_what_cues_quote_in_utf_16(tmp_path: Path) -> None:
    text = "🙂 그 사람들은\n벌레 같아. 다들 그렇게 말해, 정말로."
    cues = {
        "cues": [
            cue("“벌레  같아”", "Direct"),
            cue("a claim of its own", justification="it says 「정말로」"),
        ]
    }
    script = court_script(explicit=True, judge=GUILTY, gatekeeper=cues, indictment=cues)
    async with ScriptedServer(script) as server, deciding(server, sqlite(tmp_path)) as url:
        got = await analyze(url, text, spanAnnotations=True)
    found = got["attributeScores"]["HATE_SPEECH"]["spanScores"]
    raw = text.encode("utf-16-le")
    assert [raw[2 * each["begin"] : 2 * each["end"]].decode("utf-16-le") for each in found] == [
        "벌레 같아",
        "정말로",
    ]
    assert found[0]["begin"] == 10  # the smiley counts as two


async def test_what_is_wrong_is_said_as_google_says_it(tmp_path: Path) -> None:
    async with listening(sqlite(tmp_path)) as url:
        for asked, kind, words in WRONG:
            error = await refused(url, **asked)
            assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT"), asked
            detail = {
                "@type": "type.googleapis.com/google.commentanalyzer.v1alpha1.Error",
                "errorType": kind,
            }
            assert error["details"] == [detail], asked
            assert words in error["message"]
        assert [case for case in await cases_at(url) if case["record"]] == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Reply(refusal="I can't help with that."), "FAILED_PRECONDITION"),
        (Fault(401), "UNAVAILABLE"),
    ],
    ids=["refusal", "failure"],
)
async def test_what_is_not_decided_has_no_score(
    answer: Reply | Fault, status: str, tmp_path: Path
) -> None:
    async with (
        ScriptedServer(court_script(judge=answer)) as server,
        deciding(server, sqlite(tmp_path), hold_seconds=0) as url,
    ):
        error = await refused(url)
        assert (error["status"], "no verdict" in error["message"]) == (status, True)


async def test_a_comment_that_must_not_be_stored_is_not(tmp_path: Path) -> None:
    async with listening(sqlite(tmp_path)) as url:
        assert (await analyze(url, doNotStore=True))["attributeScores"]
        [case] = await cases_at(url)
        assert (case["status"], case["post"], case["record"]) == ("done", None, None)


async def test_what_takes_too_long_is_found_by_the_same_request(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script = court_script(judge=GUILTY)

    async def slow(request: Request) -> Reply | Fault:
        await go_on.wait()
        return script(request)

    async with (
        ScriptedServer(slow) as server,
        deciding(server, sqlite(tmp_path), longest_wait=0.2) as url,
    ):
        assert (await refused(url))["status"] == "DEADLINE_EXCEEDED"
        go_on.set()
        while (await cases_at(url))[0]["status"] != "done":
            await asyncio.sleep(0.05)
        assert (await analyze(url))["attributeScores"]["HATE_SPEECH"]["summaryScore"][
            "value"
        ] == 0.95
        assert len(await cases_at(url)) == 1
        assert [part(request) for request in server.requests].count("judge") == 1


async def test_what_there_is_none_of_is_said_in_googles_form(tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path)) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        for method, path, status in (
            ("POST", "/v1alpha1/comments:suggestscore", 501), ("GET", "/v1alpha1/comments:analyze", 405),
            ("GET", "/$discovery/rest?version=v2", 404),
        ):  # fmt: skip
            got = await client.request(method, path, json={})
            assert (got.status_code, got.json()["error"]["code"]) == (status, status)
