"""What `ask` does with a form that is nearly right, and with an answer that ran into its cap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from pydantic import BaseModel

from tests.doubles import Reply, ScriptedServer
from tribunal.errors import BadModelOutput
from tribunal.models.ask import Answer, ask
from tribunal.models.registry import current_registry
from tribunal.models.role import Role
from tribunal.schema import Post
from tribunal.settings.context import Context, context_from


class Numbers(BaseModel):
    """A form."""

    numbers: list[int]


def words(said: str) -> Numbers:
    """One number in words."""
    return Numbers(numbers=[int(said.partition(" ")[0])])


ROLE = Role(
    name="classifier",
    seat="classifier",
    prompt="peers/zero_shot",
    form=lambda policy, scheme: Numbers,
    temperature=0.2,
)


def even(form: Numbers, warnings: list[str]) -> Numbers:
    """Leave the odd ones out; an even one there must be."""
    kept = [number for number in form.numbers if number % 2 == 0]
    if len(kept) < len(form.numbers):
        warnings.append("an odd number was left out")
    if not kept:
        raise ValueError("none is even")
    return Numbers(numbers=kept)


async def asked(role: Role[Any] = ROLE, /, mend: Any = None, **settings: Any) -> Answer[Any]:
    context = context_from({"model": "openai:scripted", "attempts": 1, "timeout": 10, **settings})
    runtime: Runtime[Context] = Runtime(context=context)
    (await current_registry()).refresh_environment()
    state = {"post": Post(id="p", text="a post").dump(), "calls": []}
    return await ask(role, state, runtime, mend=mend)


async def through(
    answers: list[Any], monkeypatch: pytest.MonkeyPatch, *given: Any, **settings: Any
) -> Any:
    async with ScriptedServer(
        lambda request: answers[min(request.index, len(answers) - 1)]
    ) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        try:
            return await asked(*given, **settings), server
        except BadModelOutput as error:
            return error, server


async def test_what_can_be_mended_costs_a_warning_and_no_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, server = await through([{"numbers": [1, 2, 3, 4]}], monkeypatch, mend=even)
    assert answer.value.numbers == [2, 4]
    assert answer.log["warnings"] == ["an odd number was left out"]
    assert len(server.requests) == 1


async def test_what_can_t_be_mended_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, server = await through([{"numbers": [1]}, {"numbers": [6]}], monkeypatch, mend=even)
    # nothing of the answer that wasn't used
    assert (answer.value.numbers, answer.log["warnings"]) == (
        [6],
        [],
    )
    assert "none is even" in server.requests[1].text
    failed, server = await through([{"numbers": [1]}], monkeypatch, mend=even)
    assert isinstance(failed, BadModelOutput)
    assert len(server.requests) == 2


async def test_an_answer_from_the_cache_is_mended_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with ScriptedServer(lambda request: Reply({"numbers": [1, 2]})) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        both = [await asked(mend=even, cache=str(tmp_path / "calls.db")) for _ in range(2)]
    assert len(server.requests) == 1
    assert [answer.value.numbers for answer in both] == [[2], [2]]
    assert [answer.log["warnings"] for answer in both] == [["an odd number was left out"]] * 2


CAPPED = Role(
    name="classifier", seat="classifier", prompt="peers/zero_shot", form=lambda policy, scheme: Numbers,
    temperature=None, plain=words, max_output_tokens=20, may_be_cut=True,
)  # fmt: skip


async def test_an_answer_that_ran_into_its_cap_is_read_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, server = await through([Reply("7 because it is se", "length")], monkeypatch, CAPPED)
    assert answer.value.numbers == [7]
    assert [request.max_tokens for request in server.requests] == [20]


async def test_a_cap_stays_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, server = await through(
        [Reply("Well, the", "length"), Reply("8 be", "length")], monkeypatch, CAPPED
    )
    assert answer.value.numbers == [8]
    assert [request.max_tokens for request in server.requests] == [20, 20]
