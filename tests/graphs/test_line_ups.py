"""The shipped line-ups: each is played on a scripted server that speaks for every provider, and named by an error."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.court import part as court_part
from tests.doubles import Request, ScriptedServer
from tests.graphs.views_script import debate, part
from tribunal.errors import BadInput
from tribunal.settings.contents import LINE_UPS

# The paper's Claude is past its end, which its maker's client says.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The model 'claude-sonnet-4-0' is deprecated:DeprecationWarning"
)
CONTROL = {
    "score": ("claude-sonnet-4-0", 0.0),
    "reflection": ("o4-mini", None),  # which takes no temperature
    "summary": ("gpt-4o", 0.0),
}
QWEN, INTERN = "qwen2.5vl:7b", "hf.co/ggml-org/InternVL3-14B-Instruct-GGUF"


async def played(script: Any, **settings: Any) -> list[Request]:
    """What a case asks of whom, every provider being the same scripted server."""
    async with ScriptedServer(script) as server:
        os.environ |= {
            "OPENAI_API_KEY": "k",
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "GOOGLE_API_KEY": "k",
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "OLLAMA_HOST": server.url,
            "DASHSCOPE_API_KEY": "k",
            "DASHSCOPE_BASE_URL": f"{server.url}/v1",
        }
        record = await decide(server, **settings)
    assert record.outcome == "verdict", record.explanation
    return server.requests


def seated(requests: list[Request]) -> dict[str, tuple[str, float | None]]:
    """The model and the temperature of each part."""
    return {part(request): (request.model, request.temperature) for request in requests}


def of_the_views(**models: tuple[str, float | None]) -> dict[str, tuple[str, float | None]]:
    """Each view and, since they score best, the first two again; and the control agents."""
    again = {f"{view} again": models[view] for view in ("surface", "deep")}
    return {**models, **again, **CONTROL}


async def test_mv_debate_as_the_paper_has_it() -> None:
    requests = await played(debate(), graph="mv_debate", rounds=1, line_up="mv-debate-paper")
    assert seated(requests) == of_the_views(
        surface=("gpt-4o", 0.0),
        deep=("o4-mini", None),
        contrast=("gemini-2.5-flash", 0.0),
        context=("claude-sonnet-4-0", 0.0),
    )


async def test_mv_debate_with_open_models() -> None:
    requests = await played(debate(), graph="mv_debate", rounds=1, line_up="mv-debate-paper-open")
    assert seated(requests) == of_the_views(
        surface=(QWEN, 0.0),
        deep=("llama4:maverick", 0.0),
        contrast=(INTERN, 0.0),
        context=("gemma3:12b", 0.0),
    )


async def test_mv_debate_with_one_model_for_all_views() -> None:
    line_up, aux = "mv-debate-paper-control", "ollama:gemma3:12b"
    requests = await played(debate(), graph="mv_debate", rounds=1, line_up=line_up, aux_model=aux)
    assert seated(requests) == of_the_views(
        **dict.fromkeys(("surface", "deep", "contrast", "context"), ("gemma3:12b", 0.0))
    )


async def test_its_symmetric_peer() -> None:
    requests = await played(
        debate(), graph="symmetric_debate", rounds=1, line_up="mv-debate-paper-mad"
    )
    assert {(request.model, request.temperature) for request in requests} == {
        (QWEN, 0.0), (INTERN, 0.0), ("llama4:maverick", 0.0), ("gemma3:12b", 0.0),
    }  # fmt: skip


@pytest.mark.parametrize("graph", ["arcade", "multiround"])
async def test_arcade_with_its_fixed_auxiliary_model(graph: str) -> None:
    requests = await played(
        court_script(), graph=graph, line_up="arcade-paper", judge_model="openai:sweep-me"
    )
    asked = {court_part(request): (request.model, request.temperature) for request in requests}
    aux = {"investigation": 0.8, "prosecution": 0.8, "defence": 0.8} | (
        {"gatekeeper": 0.0} if graph == "arcade" else {}
    )
    assert asked == {name: ("qwen3-vl-plus", heat) for name, heat in aux.items()} | {
        "judge": ("sweep-me", 0.1)
    }


def test_all_of_them_are_played_here() -> None:
    assert LINE_UPS.shipped_names == [
        "arcade-paper", "mv-debate-paper", "mv-debate-paper-control", "mv-debate-paper-mad", "mv-debate-paper-open",
    ]  # fmt: skip


async def test_what_a_run_sets_itself_beats_a_shipped_one_too() -> None:
    seats = {"view": "openai:mine"}
    requests = await played(
        debate(), graph="mv_debate", rounds=1, line_up="mv-debate-paper", seats=seats
    )
    assert {
        request.model
        for request in requests
        if part(request).removesuffix(" again") in ("surface", "context")
    } == {"mine"}
    assert {name: seat for name, seat in seated(requests).items() if name in CONTROL} == CONTROL


async def test_a_name_that_is_none_is_answered_with_those_there_are() -> None:
    async with ScriptedServer(debate()) as server:
        with pytest.raises(BadInput, match="or a shipped line-up: arcade-paper, mv-debate-paper, "):
            await decide(server, graph="mv_debate", line_up="mv-debate")
        assert server.requests == []
