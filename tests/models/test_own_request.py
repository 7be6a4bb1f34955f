"""A request in a model's own layout: what is sent, what is cached, and what a server may refuse of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.court import decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import png
from tribunal.prompts import policy

SAFE = '{"violation": 0, "policy_category": null, "rule_ids": [], "rationale": "It greets everybody in the street."}'


@pytest.fixture(autouse=True)
def guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example package, as where it is installed."""
    monkeypatch.syspath_prepend(PROJECT / "examples" / "guard_models")


async def ask_guard(server: ScriptedServer, name: str, **settings: Any) -> Any:
    return await decide(server, graph=f"guard_models.graphs:{name}", scheme="binary", **settings)


async def test_an_answer_by_another_policy_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    shipped = (Path(policy.__file__).parent / "policies" / "h-vli.toml").read_text("utf-8")
    (tmp_path / "own.toml").write_text(shipped.replace("demeans", "belittles"), "utf-8")
    cache = str(tmp_path / "calls.db")
    async with ScriptedServer(lambda request: Reply("No")) as server:
        for own in (None, str(tmp_path / "own.toml"), None):
            settings = {"policy": own} if own else {}
            record = await ask_guard(server, "shieldgemma", cache=cache, **settings)
            assert (record.outcome, record.calls[0].shown) == ("verdict", ("policy", "text"))
    told = [request.body["chat_template_kwargs"]["guideline"] for request in server.requests]
    assert ["belittles" in each for each in told] == [False, True]


async def test_a_setting_overrides_what_the_layout_sends() -> None:
    own = {"*": {"chat_template_kwargs": {"guideline": "mine"}}}
    async with ScriptedServer(lambda request: Reply("No")) as server:
        await ask_guard(server, "shieldgemma", extra_body=own)
    assert server.requests[0].body["chat_template_kwargs"] == {"guideline": "mine"}


async def test_a_model_without_a_system_role_is_told_the_policy_in_the_same_turn() -> None:
    def script(request: Request) -> Reply | Fault:
        if request.messages[0][0] == "system":
            return Fault(400, "System role not supported")
        return Reply(SAFE)

    async with ScriptedServer(script) as server:
        record = await ask_guard(server, "gpt_oss_safeguard")
    [(role, words)] = server.requests[-1].messages
    assert (record.label, role) == (0, "user")
    assert "## VIOLATES (1)" in words
    assert words.endswith("a post")


async def test_an_image_stands_beside_the_bare_post(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: Reply("safe")) as server:
        await ask_guard(server, "llama_guard", image=str(png(tmp_path)))
    [request] = server.requests
    assert request.messages == [("user", "a post")]
    assert len(request.images) == 1


async def test_a_provider_that_cannot_be_told_the_policy_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "scripted")
    async with ScriptedServer(lambda request: Reply("safe")) as server:
        record = await ask_guard(server, "llama_guard", model="anthropic:claude")
    assert record.outcome == "failure"
    assert "chat_template_kwargs can't be sent to" in record.explanation
    assert not server.requests
