"""Answers that were cut off, and limits that the context has no room for: over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles import Fault, Reply, Request
from tests.models.classified import CUT, GOOD, PROSE, came_of, classify
from tests.models.test_providers import ANTHROPIC, judged
from tribunal.models.model_request import parse_token_space
from tribunal.models.substance import repeats_itself


async def test_an_answer_cut_off_gets_a_higher_limit() -> None:
    record, server = await classify([Reply(CUT, "length"), GOOD], max_output_tokens=100)
    assert came_of(record) == ("verdict", None, 2)
    assert [request.max_tokens for request in server.requests] == [100, 400]
    assert server.requests[0].messages == server.requests[1].messages
    assert [request.temperature for request in server.requests] == [0.8, 0.8]
    record, server = await classify(Reply(CUT, "length"), attempts=4)
    assert came_of(record) == ("failure", "bad_output", 2)
    assert "cut off twice" in record.explanation
    # A whole answer whose limit is just used up is not taken on trust either, and the limit never shrinks.
    record, server = await classify([Reply(GOOD, "length"), GOOD], max_output_tokens=65_536)
    assert [request.max_tokens for request in server.requests] == [65_536, 65_536]


async def test_a_higher_limit_and_asked_again_are_two_chances() -> None:
    record, server = await classify([Reply(CUT, "length"), PROSE, GOOD])
    assert came_of(record) == ("verdict", None, 3)
    assert server.requests[2].max_tokens == 4 * 2048


def of_context(
    size: int, words: str, *, cut_below: int = 0, prompt: int = 3000
) -> Callable[[Request], Reply | Fault]:
    """A server of so large a context, which cuts answers of a lower limit off."""

    def script(request: Request) -> Reply | Fault:
        limit = request.max_tokens or 0
        if prompt + limit > size:
            return Fault(
                400, words.format(size=size, prompt=prompt, asked=prompt + limit, limit=limit)
            )
        return (
            Reply(CUT, "length", prompt_tokens=prompt)
            if limit < cut_below
            else Reply(GOOD, prompt_tokens=prompt)
        )

    return script


OPENAI = "This model's maximum context length is {size} tokens. However, you requested {asked} tokens ({prompt} in the messages, {limit} in the completion)."  # noqa: E501
VLLM = "'max_tokens' is too large: {limit}. This model's maximum context length is {size} tokens and your request has {prompt} input tokens"  # noqa: E501
LLAMA = "request ({prompt} tokens) exceeds the available context size ({size} tokens), try increasing it"
WORDS = [OPENAI, VLLM, LLAMA, "This model's maximum context length is {size} tokens"]


@pytest.mark.parametrize(
    "words", WORDS, ids=["openai", "vllm", "llama.cpp", "no count of the prompt"]
)
async def test_more_room_is_what_the_context_has_left(words: str) -> None:
    record, server = await classify(of_context(8192, words, cut_below=4000))
    assert came_of(record) == ("verdict", None, 3)
    assert [request.max_tokens for request in server.requests] == [2048, 8192, 8192 - 3000]
    assert record.warnings == ()


async def test_more_room_where_nothing_is_said_of_how_much_there_is() -> None:
    record, server = await classify(
        of_context(8192, "the prompt and the answer are too long", cut_below=4000)
    )
    assert came_of(record) == ("verdict", None, 3)
    assert [request.max_tokens for request in server.requests] == [2048, 8192, 4096]


async def test_a_context_that_holds_no_more() -> None:
    record, _ = await classify(of_context(4048, OPENAI, cut_below=4000, prompt=2000))
    assert came_of(record) == ("failure", "bad_output", 2)
    assert (
        "cut off at 2048 tokens, and the model's context has room for no more" in record.explanation
    )


async def test_a_limit_that_doesn_t_fit_is_lowered_and_said() -> None:
    record, server = await classify(of_context(4096, VLLM))
    assert came_of(record) == ("verdict", None, 2)
    assert [request.max_tokens for request in server.requests] == [2048, 1096]
    assert record.warnings == (
        "classifier: openai:scripted has room for 1096 tokens of answer, and not for 2048",
    )


async def test_a_prompt_that_doesn_t_fit_is_a_failure() -> None:
    record, _ = await classify(of_context(3100, OPENAI))
    assert came_of(record) == ("failure", "too_long", 1)


async def test_a_model_s_own_limit_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(request: Request) -> Reply | Fault:
        if (request.max_tokens or 0) > 5000:
            return Fault(
                400,
                f"max_tokens: {request.max_tokens} > 5000, which is the maximum number of output tokens",
            )
        return Reply(GOOD) if request.max_tokens == 5000 else Reply(CUT, "length")

    record, server = await judged(ANTHROPIC, script, monkeypatch)
    assert came_of(record) == ("verdict", None, 3)
    assert [request.max_tokens for request in server.requests] == [2048, 8192, 5000]


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        (
            'the request exceeds the available context size {"n_prompt_tokens": 9000, "n_ctx": 4096}',
            (4096, 9000, None),
        ),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            (200_000, 190_000, None),
        ),
        (
            "This model supports at most 4096 completion tokens, whereas you provided 8192",
            (None, None, 4096),
        ),
        ("Range of max_tokens should be [1, 8192]", (None, None, 8192)),
        ("the model is loaded with context length of only 4096 tokens", (4096, None, None)),
        ("something is too long", (None, None, None)),
    ],
)
def test_the_numbers_in_a_complaint(said: str, numbers: tuple[Any, ...]) -> None:
    space = parse_token_space(said)
    assert (space.context, space.prompt, space.answer) == numbers


# Round in circles

LOOPS = [
    '{"explanation": "' + "hate " * 200,
    '{"cues": ['
    + '{"type": "Direct", "claim": "the same claim, word for word, time after time"}, ' * 20,
    "{" + "\n" * 500,
]


@pytest.mark.parametrize("said", LOOPS, ids=["a word", "an entry", "blanks"])
async def test_an_answer_in_circles_gets_a_higher_temperature_and_not_more_room(said: str) -> None:
    record, server = await classify([Reply(said, "length"), GOOD], temperatures={"classifier": 0})
    assert came_of(record) == ("verdict", None, 2)
    assert [request.max_tokens for request in server.requests] == [2048, 2048]
    assert [request.temperature for request in server.requests] == [0, 0.5]
    assert "the answer went on repeating itself until it was cut off" in server.requests[1].text
    assert said[-40:] not in server.requests[1].text
    record, server = await classify(Reply(said, "length"))
    assert came_of(record) == ("failure", "bad_output", 2)
    assert "repeating itself" in record.explanation


def test_what_repeats_itself() -> None:
    assert all(map(repeats_itself, LOOPS))
    lively = "Each sentence of it says another thing, and the next one says something else again. "
    assert not repeats_itself(lively * 2)
    assert not repeats_itself("")
    assert not repeats_itself("a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2)
    assert not repeats_itself("..........")
