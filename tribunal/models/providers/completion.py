"""What a model is sent and what it answers, as the door has it, whichever client carries it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from tribunal.schema import JSON
from tribunal.scrub import scrub

# What is sent, in the pairs that LangChain takes for messages.
Speaker = Literal["system", "human"]
Message = tuple[Speaker, str | list[str | JSON]]


class Completion(NamedTuple):
    """What a model answered to one request.

    Attributes:
        text: its words, without what it thought first.
        finish: why it stopped, as the provider says it; empty where it isn't said.
        refusal: how it declined in a field of its own.
        blocked: why the prompt was blocked, as Gemini says it.
        model: what the provider calls the model.
        usage: the tokens of the prompt, of the answer, and of what the provider had of the prompt in its cache; None
            where they weren't counted.
    """

    text: str
    finish: str = ""
    refusal: str = ""
    blocked: str = ""
    model: str = ""
    usage: tuple[int, int, int] | None = None

    def without(self, secrets: Iterable[str]) -> Completion:
        """The same, well formed, without keys."""
        return Completion._make((*(word and scrub(word, secrets) for word in self[:-1]), self.usage))


def completion_of(message: AIMessage) -> Completion:
    """Return what a message of LangChain's holds."""
    meta, text = message.response_metadata, str(message.text)
    feedback = meta.get("prompt_feedback")
    finish = as_said(meta.get("finish_reason") or meta.get("stop_reason") or meta.get("done_reason"))
    refusal = as_said(message.additional_kwargs.get("refusal"))
    if finish == "refusal" and "stop_reason" not in meta:  # OpenAI's, out of a stream
        refusal, text = refusal or text, ""
    return Completion(
        text,
        finish=finish,
        refusal=refusal,
        blocked=as_said(feedback.get("block_reason") if isinstance(feedback, Mapping) else None),
        model=as_said(meta.get("model_name") or meta.get("model")),
        usage=count_tokens(message.usage_metadata),
    )


def count_tokens(usage: UsageMetadata | None) -> tuple[int, int, int] | None:
    """Return the tokens of an answer as `Completion.usage` has them."""
    if not usage:
        return None
    # OpenAI's tiers of service have names of their own for it, as `priority_cache_read`.
    details: dict[str, Any] = dict(usage.get("input_token_details") or {})
    cached = sum(number or 0 for name, number in details.items() if name.endswith("cache_read"))
    return usage["input_tokens"], usage["output_tokens"], cached


def as_said(told: object) -> str:
    """Return what stands in a field as text; empty where nothing does."""
    return str(told) if told else ""
