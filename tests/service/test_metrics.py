"""/metrics as Prometheus reads it: what it counts, who may read it, and that no request makes up a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.court import court_script
from tests.doubles import Fault, Reply
from tests.openai_server import OpenAIServer
from tests.service.conftest import serving
from tests.service.live import key_of, sqlite
from tribunal.service.telemetry.metrics import LabelLimit

ABUSE = "Immigrants are vermin and should be deported."


async def scraped(
    client: httpx.AsyncClient, key: str = ""
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and its labels."""
    got = await client.get("/metrics", headers={"X-API-Key": key} if key else {})
    assert got.status_code == 200
    assert got.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(got.text)
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for one in families
        for each in one.samples
    }


def of(samples: dict[Any, float], name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


async def test_a_post_is_counted_with_what_it_took(database: str, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["openai:scripted"]\ninput = 1000.0\noutput = 1000.0\n')
    async with OpenAIServer(court_script(implicit=False)):
        settings = {"model": "openai:scripted"}
        async with serving(database, settings=settings, prices=prices, graph="arcade") as client:
            record = (await client.post("/v1/judge?wait=60", json={"text": ABUSE})).json()
            seen = await scraped(client)
    calls = len(record["calls"])
    assert of(seen, "tribunal_posts_total", graph="arcade", outcome=record["outcome"]) == 1
    assert of(seen, "tribunal_post_seconds_count", graph="arcade") == 1
    assert of(seen, "tribunal_model_calls_total", model="openai:scripted", cached="no") == calls > 1
    paid = {
        kind: of(seen, "tribunal_model_tokens_total", model="openai:scripted", kind=kind)
        for kind in TOKENS
    }
    assert paid == {kind: record["usage"][f"{kind}_tokens"] for kind in TOKENS}
    money = of(seen, "tribunal_model_cost_total", model="openai:scripted")
    assert money == pytest.approx(sum(record["usage"][f"{kind}_tokens"] for kind in TOKENS) / 1000)
    assert [of(seen, "tribunal_cases", status=status) for status in ("queued", "running")] == [0, 0]
    assert (
        of(seen, "tribunal_http_requests_total", method="POST", route="/v1/judge", status="200")
        == 1
    )


TOKENS = ("prompt", "completion")


@pytest.mark.parametrize(
    ("answer", "outcome", "counted", "kind"),
    [
        (
            Reply("I can't", refusal="I can't help with that."),
            "refusal",
            "refusals",
            "refusal_field",
        ),
        (Fault(status=401), "failure", "failures", "authentication"),
    ],
)
async def test_refusals_and_failures_are_counted_by_model_and_kind(
    tmp_path: Path, answer: Any, outcome: str, counted: str, kind: str
) -> None:
    async with OpenAIServer(lambda _: answer):
        settings = {"model": "openai:scripted", "attempts": 1}
        async with serving(
            sqlite(tmp_path), settings=settings, graph="baseline", hold_seconds=0
        ) as client:
            assert (await client.post("/v1/judge?wait=60", json={"text": ABUSE})).json()[
                "outcome"
            ] == outcome
            seen = await scraped(client)
    assert of(seen, f"tribunal_model_{counted}_total", model="openai:scripted", kind=kind) == 1
    assert of(seen, "tribunal_posts_total", graph="baseline", outcome=outcome) == 1


async def test_no_request_makes_up_a_label(tmp_path: Path) -> None:
    async with serving(sqlite(tmp_path)) as client:
        for path in ("/v1/made-up-1", "/v1/cases/made-up-2", "/made/up/3?key=made-up-4"):
            await client.get(path)
        await client.request("MADEUP5", "/v1/judge")
        await client.post("/v1/judge", json={"text": "made up 6", "graph": "made-up-7"})
        seen = await scraped(client)
    assert not [each for each in seen if "made" in str(each).lower()]
    assert (
        of(seen, "tribunal_http_requests_total", method="GET", route="unmatched", status="404") == 2
    )
    assert (
        of(seen, "tribunal_http_requests_total", method="other", route="/v1/judge", status="405")
        == 1
    )


def test_a_label_has_so_many_values_and_no_more() -> None:
    limited = LabelLimit(2)
    assert [limited(name) for name in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]


async def test_who_may_read_it(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with serving(database) as client:
        await scraped(client)  # nobody has a key yet, and only this machine asks
    audit = await key_of(database, "audit")
    async with serving(database) as client:
        await scraped(client, audit)
    async with serving(database, open_metrics=True) as client:
        await scraped(client)
        assert (await client.get("/v1/cases")).status_code == 401
