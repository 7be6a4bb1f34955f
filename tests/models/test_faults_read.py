"""Faults and refusals told apart, by what the client libraries raise and hand back."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tribunal.core.text import scrub
from tribunal.models.completion import Completion
from tribunal.models.faults import LENGTH, read_fault


class Response:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


class StatusError(Exception):
    """As the OpenAI and Anthropic clients raise it."""

    def __init__(self, status: int, message: str, body: Any = None, **headers: str) -> None:
        super().__init__(message)
        self.status_code, self.message, self.body = status, message, body
        self.response = Response({name.replace("_", "-"): value for name, value in headers.items()})


class APITimeoutError(Exception):
    pass


class APIConnectionError(Exception):
    pass


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Incorrect API key provided", "authentication"),
        (401, "a temperature of the response_format image", "authentication"),
        (403, "You don't have permission", "authentication"),
        (403, "Your project may not use the model `big`", "request"),
        (403, "The request was flagged by moderation", "refused"),
        (400, "API key not valid. Please pass a valid API key.", "authentication"),
        (402, "Insufficient Balance", "quota"),
        (400, "Your credit balance is too low to access the Anthropic API.", "quota"),
        (
            429,
            "You exceeded your current quota, please check your plan: insufficient_quota",
            "quota",
        ),
        (429, "账户余额不足", "quota"),
        (429, "Rate limit reached for requests", "rate_limit"),
        (
            429,
            "Quota exceeded: GenerateRequestsPerMinute; you exceeded your current quota",
            "rate_limit",
        ),
        (429, "Quota exceeded: GenerateRequestsPerDay; you exceeded your current quota", "quota"),
        (408, "Request Timeout", "timeout"),
        (
            400,
            "The response was filtered due to the prompt triggering content management policy",
            "refused",
        ),
        (400, "data_inspection_failed: Input data may contain inappropriate content.", "refused"),
        (400, "Content Exists Risk", "refused"),
        (400, '{"code": "1301", "message": "contentFilter"}', "refused"),
        (400, "you asked for 1301 tokens, over the context length", "too_long"),
        (400, "系统检测到输入或生成内容可能包含不安全或敏感内容", "refused"),
        (500, "internal error", "server"),
        (503, "overloaded", "server"),
        (529, "overloaded_error", "server"),
        (400, "This model's maximum context length is 8192 tokens", "too_long"),
        (400, "request (9000 tokens) exceeds the available context size (8192 tokens)", "too_long"),
        (
            400,
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens",
            "too_long",
        ),
        (400, "Range of max_tokens should be [1, 8192]", "too_long"),
        (500, "out of memory while decoding an image", "server"),
        (400, "Could not process image", "request"),
        (400, "bad request", "request"),
        (422, "unprocessable", "request"),
        # What passes is no fault of the request, whatever it names.
        (400, "The model is temporarily overloaded, please retry", "server"),
        (400, "structured output is temporarily unavailable", "server"),
        (400, "temperature service is busy, try again later", "server"),
        (
            400,
            "response_format json_schema is not supported, please retry with json_object",
            "request",
        ),
        (404, "The model `x` does not exist", "request"),
    ],
)
def test_by_status_and_words(status: int, message: str, kind: str) -> None:
    fault = read_fault(StatusError(status, message))
    assert (fault.kind, fault.status) == (kind, status)


def test_without_a_status() -> None:
    assert read_fault(APITimeoutError("slow")).kind == "timeout"
    assert read_fault(APIConnectionError("gone")).kind == "connection"
    assert read_fault(ConnectionResetError("gone")).kind == "connection"
    assert read_fault(TimeoutError()).kind == "timeout"
    assert read_fault(ValueError("not JSON")).kind == "server"


def test_the_cause_is_looked_through_to_the_status() -> None:
    try:
        try:
            raise StatusError(429, "slow down", retry_after="7")
        except StatusError as inner:
            raise RuntimeError("wrapped") from inner
    except RuntimeError as outer:
        fault = read_fault(outer)
    assert (fault.kind, fault.status) == ("rate_limit", 429)
    assert fault.wait is not None
    assert fault.wait.seconds == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9.0),
        ({"retry_after": "-4"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    wait = read_fault(StatusError(429, "slow down", **headers)).wait
    assert (wait and wait.seconds) == seconds


def test_how_long_to_wait_as_a_date_and_in_gemini_s_details() -> None:
    soon = read_fault(
        StatusError(503, "busy", retry_after=formatdate(time.time() + 30, usegmt=True))
    )
    assert soon.wait is not None
    assert soon.wait.seconds == pytest.approx(30, abs=2)
    error = StatusError(429, "Resource exhausted")
    error.details = {"error": {"details": [{"@type": "RetryInfo", "retryDelay": "12.5s"}]}}  # type: ignore[attr-defined]
    assert read_fault(error).wait == (12.5, "RetryInfo")


def test_keys_are_struck_out_before_anything_is_cut_off() -> None:
    key = "k-0123456789abcdef"
    fault = read_fault(
        StatusError(401, "x" * 390 + key, {"error": f"{key} is wrong"}), secrets=[key]
    )
    assert key[:6] not in fault.message
    assert len(fault.message) <= 400


@pytest.mark.parametrize(
    "quoted",
    ["response_format is not supported, says he", "how about your grammar, you image_url"],
    ids=["a", "b"],
)
@pytest.mark.parametrize("cut", [None, 30], ids=["whole", "cut"])
def test_what_a_model_was_shown_names_nothing(quoted: str, cut: int | None) -> None:
    said = f'Input should be valid: "{quoted[:cut]}'
    body = {"detail": [{"msg": "Input should be valid", "input": f"The post:\n{quoted[:cut]}"}]}
    for error in (StatusError(400, said), StatusError(422, "HTTP 422", body)):
        assert quoted[:cut] in read_fault(error).details
        assert quoted[:cut] not in read_fault(error, shown=f"The post:\n{quoted}\nDecide.").details


def test_keys_are_struck_out_of_any_text() -> None:
    assert (
        scrub("Bearer abcdefghijk7 and sk-proj-abcdefgh and AIzaSyA1234567890", [])
        == "[key] and [key] and [key]"
    )
    assert scrub("the bearer documented it, a risk-taking sk-innovation", []) == (
        "the bearer documented it, a risk-taking sk-innovation"
    )
    assert scrub("half \ud800", []) == "half \ufffd"
    first, longer = "zerozerozero", "zerozerozero-and-more-of-it"
    assert scrub(f"{longer} {first}", [first, longer]) == "[key] [key]"
    key = "q7/Lm2xPd9+Rt4wZk8vB"
    for written in (key, key[:-1], key[1:], key[:11], key[9:], key.replace("/", "\\/"), "\\u0071" + key[1:],
                    key.replace("/", "%2F").replace("+", "%2B")):  # fmt: skip
        assert scrub(f"<{written}>", [key]) == "<[key]>", written
    assert scrub(f"{key[:6]} none", [key, "none"]) == f"{key[:6]} none"


def answer(text: str = "", **more: Any) -> Completion:
    return Completion.from_message(AIMessage(text, **more))


@pytest.mark.parametrize(
    "words",
    [
        "I can't help with that.",
        "I can’t help with that.",
        "I'm sorry, but I can't assist with that request.",
        "I’m sorry, but I can’t assist with that request.",
        "Sorry, I cannot provide that.",
        "I cannot engage with this content.",
        "I won't analyze this post.",
        "I apologize, but I cannot create that.",
        "Unfortunately, I can't help with this.",
        "I must respectfully decline.",
        "As an AI, I cannot judge this.",
        "I'm not comfortable discussing this.",
        "<think>They want …</think>\n\nI'm sorry, I can't help with that.",
        "**I can't help with that.**",
        "很抱歉,我无法回答这个问题。",
        "Lo siento, no puedo ayudar con eso.",
    ],
)
def test_a_refusal_in_plain_words(words: str) -> None:
    found = answer(words).find_refusal()
    assert found is not None
    assert found[0] == "plain_text"


@pytest.mark.parametrize(
    "words",
    [
        "",
        '{"category": "NotHate", "explanation": "I can\'t help with that is what it says."}',
        "The author says: I can't help with that.",
        "I cannot find any cue in this post.",
        "I can't see hatred here, so the answer is NotHate.",
        "Sorry sight, that market.",
        "I can't help with that. " + "But let me tell you at length. " * 60,
    ],
)
def test_no_refusal(words: str) -> None:
    assert answer(words).find_refusal() is None


@pytest.mark.parametrize(
    ("meta", "more", "form"),
    [
        ({"finish_reason": "stop"}, {"additional_kwargs": {"refusal": "No."}}, "refusal_field"),
        ({"finish_reason": "content_filter"}, {}, "content_filter"),
        ({"finish_reason": "SAFETY"}, {}, "content_filter"),
        ({"finish_reason": "FinishReason.PROHIBITED_CONTENT"}, {}, "content_filter"),
        ({"finish_reason": "sensitive"}, {}, "content_filter"),
        ({"stop_reason": "refusal"}, {}, "content_filter"),
        ({"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, {}, "block_reason"),
        ({"prompt_feedback": {"block_reason": 0}, "finish_reason": "STOP"}, {}, None),
        ({"prompt_feedback": {}, "finish_reason": "STOP"}, {}, None),
        ({"finish_reason": "length"}, {}, None),
    ],
)
def test_refusals_that_are_marked(
    meta: dict[str, Any], more: dict[str, Any], form: str | None
) -> None:
    found = answer(response_metadata=meta, **more).find_refusal()
    assert (found and found[0]) == form


def test_what_is_said_with_a_refusal_can_be_stored() -> None:
    found = answer(additional_kwargs={"refusal": "No \ud800"}).find_refusal()
    assert found == ("refusal_field", "No \ufffd")


@pytest.mark.parametrize(
    "meta",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stop_reason": "max_tokens"},
        {"done_reason": "length"},
    ],
)
def test_every_provider_s_word_for_an_answer_cut_short(meta: dict[str, str]) -> None:
    assert answer(response_metadata=meta).finish_reason in LENGTH
