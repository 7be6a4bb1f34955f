"""Whatever `init_chat_model` knows: azure_openai, and the providers of packages that others bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD, came_of
from tests.models.test_plugged import run
from tests.models.test_providers import KEY, Way, judged
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.models.registry import model_names, split_name
from tribunal.settings.context import context_from

AZURE = Way("azure_openai:deployed", "openai", "/openai/deployments/deployed/chat/completions", "AZURE_OPENAI_ENDPOINT",
            "", "AZURE_OPENAI_API_KEY", "api-key")  # fmt: skip


@pytest.mark.parametrize(("name", "package"), [("mistralai", "langchain-mistralai"), ("cohere", "langchain-cohere"),
                                               ("bedrock_converse", "langchain-aws")])  # fmt: skip
async def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    name: str, package: str
) -> None:
    with pytest.raises(
        BadInput, match=rf"^model: {name}: install its package: pip install {package}; give "
    ) as caught:
        await judge_post(
            "a post", graph="baseline", context=context_from({"model": f"{name}:large"})
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nobody:x", "Openai:x", "gpt-4o", "nobody", "groq"])
def test_a_name_that_nobody_knows_gets_the_usual_error(name: str) -> None:
    with pytest.raises(
        BadInput, match=r"give provider:model, where provider is one of openai, google_genai"
    ):
        model_names(name, "model")


def test_a_model_s_name_may_have_a_colon() -> None:
    name = "bedrock_converse:anthropic.claude-3-5-sonnet-20240620-v1:0"
    assert split_name(name) == ("bedrock_converse", "anthropic.claude-3-5-sonnet-20240620-v1:0")
    assert split_name("package:PROVIDER:big:8b") == ("package:PROVIDER", "big:8b")


async def test_azure_is_asked_for_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    record, server = await judged(
        AZURE, [Fault(400, "response_format is not supported"), GOOD], monkeypatch
    )
    assert came_of(record) == ("verdict", None, 2)
    first, second = server.requests
    assert (first.path, first.headers["api-key"]) == (AZURE.path, KEY)
    assert (first.format, second.format, second.temperature) == ("json_schema", "json_object", 0.8)
    record, _ = await judged(AZURE, Fault(401, f"wrong key {KEY}"), monkeypatch)
    assert came_of(record) == ("failure", "authentication", 1)
    assert KEY not in record.model_dump_json()


async def test_azure_wants_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"^model: azure_openai:deployed: set OPENAI_API_VERSION in the environment"
    ):
        await judged(AZURE, GOOD, monkeypatch)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two packages of LangChain's that stand in for those that aren't installed here."""
    site = tmp_path / "site"
    site.mkdir()
    for module, name in (
        ("langchain_deepseek", "ChatDeepSeek"),
        ("langchain_nvidia_ai_endpoints", "ChatNVIDIA"),
    ):
        (site / f"{module}.py").write_text(
            "import os\n"
            "from langchain_openai import ChatOpenAI\n"
            f"def {name}(**settings):\n"
            "    key = settings.pop('api_key', None) or os.environ['NVIDIA_API_KEY']\n"
            "    return ChatOpenAI(base_url=os.environ['STAND_IN_URL'], api_key=key, **settings)\n"
        )
    return site


def decide(
    site: Path, model: str, answers: Any, **keys: str
) -> tuple[dict[str, Any], list[Request]]:
    with ScriptedServer(
        answers if callable(answers) else court_script(classifier=answers)
    ) as server:
        judge = (
            "-m",
            "tribunal",
            "judge",
            "a post",
            "--graph",
            "baseline",
            "--model",
            model,
            "--set",
            "attempts=2",
        )
        done = run(site, *judge, "--json", STAND_IN_URL=f"{server.url}/v1", **keys)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), server.requests


@pytest.mark.long
def test_a_package_that_is_there_is_asked_with_every_key_in_turn(site: Path) -> None:
    keys = {"DEEPSEEK_API_KEY": "deep-zero-0123", "DEEPSEEK_API_KEY_1": "deep-one-4567"}
    record, requests = decide(
        site, "deepseek:chat:v3", [Fault(401, "no: deep-zero-0123"), GOOD], **keys
    )
    assert record["outcome"] == "verdict"
    assert [request.headers["authorization"] for request in requests] == [
        "Bearer deep-zero-0123",
        "Bearer deep-one-4567",
    ]
    [call] = record["calls"]
    assert (call["model"], call["format"], call["key"]) == ("deepseek:chat:v3", "json_schema", 1)
    assert (requests[1].model, requests[1].format, requests[1].max_tokens) == (
        "chat:v3",
        "json_schema",
        2048,
    )


@pytest.mark.long
def test_of_a_client_that_is_not_known_the_form_is_asked_for_by_a_tool_call(site: Path) -> None:
    said = Reply({**GOOD, "explanation": "your key is nvidia-key-0123"})
    record, [request] = decide(site, "nvidia:nemotron", [said], NVIDIA_API_KEY="nvidia-key-0123")
    assert (request.format, record["calls"][0]["format"]) == ("", "tool_call")
    assert (
        request.body["tool_choice"]["function"]["name"]
        == request.body["tools"][0]["function"]["name"]
    )
    assert record["explanation"] == "your key is [key]"
