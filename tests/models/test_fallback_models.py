"""Several models in one seat, and what a post may spend on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, cue, decide, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD

# Fallback models


def by_model(**answers: Any) -> Callable[[Request], Reply | Fault]:
    def script(request: Request) -> Reply | Fault:
        return court_script(classifier=answers[request.model])(request)

    return script


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (Reply(refusal="no"), "refused: refusal_field"),
        (Fault(500, "down"), "server"),
        (Reply("what?"), "bad_output"),
        (Fault(404, "no such model"), "request"),
    ],
)
async def test_the_next_model_answers_where_one_declines_or_fails(first: Any, kind: str) -> None:
    async with ScriptedServer(by_model(a=first, b=GOOD)) as server:
        record = await decide(server, graph="baseline", model="openai:a, openai:b", attempts=2)
    assert record.outcome == "verdict"
    assert [(call.model, call.error) for call in record.calls] == [
        ("openai:a", kind),
        ("openai:b", None),
    ]
    assert len(record.warnings) == 1
    assert record.warnings[0].startswith("classifier: openai:b answered in place of openai:a: ")


@pytest.mark.parametrize(
    ("first", "second", "outcome", "kind"),
    [
        (Reply(refusal="no"), Reply("I can't help with that."), "refusal", "refusal_field"),
        (Reply(refusal="no"), Fault(500, "down"), "refusal", "refusal_field"),
        (Fault(500, "down"), Reply(refusal="no"), "failure", "server"),
        (Fault(500, "down"), Fault(404, "gone"), "failure", "server"),
    ],
)
async def test_when_none_answers_the_first_one_s_reason_stands(
    first: Any, second: Any, outcome: str, kind: str
) -> None:
    async with ScriptedServer(by_model(a=first, b=second)) as server:
        record = await decide(server, graph="baseline", model="openai:a,openai:b", attempts=2)
    assert (record.outcome, record.fault and record.fault["kind"]) == (outcome, kind)
    assert record.fault is not None
    assert record.fault["model"] == "openai:a"
    assert [call.model for call in record.calls] == ["openai:a", "openai:b"]
    assert all(call.error for call in record.calls)


async def test_a_seat_has_fallback_models_of_its_own() -> None:
    def script(request: Request) -> Reply | Fault:
        return (
            Reply(refusal="no") if request.model == "shy" else court_script(explicit=True)(request)
        )

    async with ScriptedServer(script) as server:
        record = await decide(server, seats={"defender": "openai:shy,openai:bold"})
    assert record.outcome == "verdict"
    assert [request.model for request in server.requests] == [
        "scripted",
        "scripted",
        "shy",
        "bold",
        "scripted",
    ]


# Budgets


async def test_a_budget_counts_every_request() -> None:
    async with ScriptedServer(
        court_script(explicit=True, gatekeeper=[Fault(500, "x"), {"cues": [cue("c")]}])
    ) as server:
        record = await decide(server, max_calls=4)
    assert [part(request) for request in server.requests] == [
        "gatekeeper",
        "gatekeeper",
        "indictment",
        "judge",
    ]
    assert record.outcome == "verdict"
    assert record.warnings == ("the budget of 4 calls was spent before the defender could speak",)
    assert "Prosecutor, round 1" in server.requests[-1].text


async def test_answers_from_the_cache_cost_no_budget(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"cache": str(tmp_path / "calls.db"), "max_calls": 5, "rounds": 1}
    async with ScriptedServer(court_script()) as server:
        await decide(server, **settings)
        record = await decide(server, **{**settings, "max_calls": 2})
    assert len(server.requests) == 4
    assert record.warnings == ()
    assert record.track == "deep_dive"
