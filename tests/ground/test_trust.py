"""The one list of what a client may set."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import tribunal
from tests.tables import table
from tribunal import trust
from tribunal.errors import BadInput
from tribunal.prompts.policy import list_shipped_policies
from tribunal.settings.client_settings import NAMED_THINGS
from tribunal.settings.context import Context
from tribunal.settings.graph_settings import SETTINGS
from tribunal.settings.names import SHIPPED_POLICIES, Clients

REFUSED = {
    "prompts", "extra_body", "line_up", "embedding", "precedents", "searxng_url", "archive", "threshold_file", "cache",
    "prompt_texts", "policy_definition",
}  # fmt: skip

# How a post is decided, within the bounds that the settings have by themselves.
FREE = {
    "task", "policy_language", "scheme", "answer_order", "debate_memory", "turns_shown", "cue_limit",
    "judge_rejects", "temperatures", "draw_temperature", "web",
    "fresh", "triage_confidence", "rounds", "early_exit", "boxes", "policy_examples", "policy_clauses", "mode", "views",
    "top_k", "reflection_mode", "tau", "history", "threshold", "review", "review_rule", "max_calls", "max_tokens",
    "window_overlap", "repeat", "trace", "stops",
}  # fmt: skip


@pytest.fixture(autouse=True)
def a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service of ours, as it is once it has said that it serves clients."""
    monkeypatch.setattr(trust, "_serving", False)
    trust.distrust_input()
    monkeypatch.delenv(trust.ALLOW, raising=False)


async def judged(**settings: Any) -> str:
    """The outcome, or what was refused."""
    try:
        return (await tribunal.ajudge("Good morning.", **settings)).outcome
    except BadInput as error:
        return str(error)


def test_every_setting_was_thought_of() -> None:
    by_clients = {
        kind: {each.name for each in SETTINGS.values() if each.clients == kind}
        for kind in get_args(Clients)
    }
    assert by_clients["nothing"] == REFUSED
    assert by_clients["named things"] == NAMED_THINGS.keys()
    assert by_clients["anything"] == FREE
    assert {name for names in by_clients.values() for name in names} == set(Context.model_fields)
    assert sorted(SHIPPED_POLICIES) == list_shipped_policies()


@pytest.mark.parametrize(
    "settings",
    [
        {"rounds": 5, "scheme": "binary", "policy": "h-vli", "max_calls": 9, "max_text": 100},
        {"perspectives": ["example-harm"], "leave_out": None},
        {"model": "rehearsal", "seats": {"judge": "rehearsal:court"}},
        {"cache": None, "search": "duckduckgo", "model": None},
    ],
)
async def test_what_does_no_harm_is_taken(settings: dict[str, Any]) -> None:
    assert await judged(**settings) == "verdict"


async def test_the_model_that_the_operator_s_environment_names_may_be_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIBUNAL_MODEL", "openai:ours")
    said = await judged(model="openai:ours")
    assert said.startswith("model: openai:ours: no key")
    assert "may not set this" in await judged(model="openai:ours,openai:dearer")


@pytest.mark.parametrize(
    ("allowed", "settings", "taken"),
    table(__file__, "what_the_operator_allows"),
)
async def test_what_the_operator_allows(
    allowed: str, settings: dict[str, Any], taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(trust.ALLOW, allowed)
    said = await judged(**settings)
    assert (said == "verdict") is taken, said
    assert taken or trust.ALLOW in said


async def test_a_name_that_is_no_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trust.ALLOW, "cahce=data/*")
    assert "TRIBUNAL_ALLOW: cahce: no such setting" in await judged(cache="data/a.sqlite")


async def test_who_serves_nobody_may_set_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_serving", False)
    assert await judged(cache="a.sqlite", image_edge=2048) == "verdict"
