"""What comes back from a model, and tokens that are counted here."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tribunal.core.text import scrub
from tribunal.models.faults import read_finish
from tribunal.models.providers.wire import TokenCounts, read_usage
from tribunal.models.role import strip_thinking
from tribunal.process.loops import run_in_thread

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_PLAIN_REFUSAL = re.compile(
    r"^\W*(?:(?:i['’]?m|i am|we['’]?re)\s+(?:really |very |so |truly )?sorry\b"
    r"[^{}]{0,80}?(?:can['’]?t|cannot|can not|unable|won['’]?t|not able)"
    r"|(?:sorry|unfortunately|i apologi[sz]e),?\s+(?:but\s+)?i\s+(?:can['’]?t|cannot|won['’]?t|am unable|must decline)"
    r"|i\s+(?:must|have to)\s+(?:respectfully\s+)?decline"
    r"|i\s+(?:can['’]?t|cannot|can not|won['’]?t|will not|am unable to|am not able to)\s+"
    r"(?:\w+\s+){0,2}?(?:help|assist|comply|engage|fulfill?|provide|process|analy[sz]e|discuss|continue|participate"
    r"|do that|do this|respond|create|generate)"
    r"|i['’]?m\s+(?:unable|not able|not comfortable|going to (?:have to )?decline)"
    r"|as an ai\b[^{}]{0,80}?(?:can['’]?t|cannot|unable|not able)"
    r"|(?:很)?抱歉|对不起|我(?:无法|不能)|죄송|申し訳|lo siento|(?:je suis )?désolée?|(?:es )?tut mir leid"
    r"|mi dispiace|desculpe|извините)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 1200


class Completion(NamedTuple):
    """A model's answer to one request, without keys.

    Attributes:
        text: the answer's words, without reasoning that came before them.
        finish: why it stopped, as the provider says it; empty where it isn't said.
        refusal: how it declined in a field of its own.
        blocked: why the prompt was blocked, as Gemini says it.
        model: the provider's name for the model.
        fingerprint: the server's name for its weights and configuration (`system_fingerprint`).
        usage: how many tokens it took, as far as that was said.
        is_estimated: whether some of them were counted here.
    """

    text: str
    finish: str = ""
    refusal: str = ""
    blocked: str = ""
    model: str = ""
    fingerprint: str = ""
    usage: TokenCounts = TokenCounts()
    is_estimated: bool = False

    @classmethod
    def from_message(cls, message: AIMessage, keys: Iterable[str] = ()) -> Completion:
        """Return the content of a LangChain message, without these keys."""
        meta = message.response_metadata
        feedback = meta.get("prompt_feedback")
        finish = meta.get("finish_reason") or meta.get("stop_reason") or meta.get("done_reason")
        text = str(message.text)
        refusal = message.additional_kwargs.get("refusal")
        if getattr(message, "tool_calls", None):  # the form that was asked for as a tool
            text = json.dumps(message.tool_calls[0]["args"], ensure_ascii=False)
        elif getattr(message, "invalid_tool_calls", None):
            text = str(message.invalid_tool_calls[0]["args"] or text)
        if finish == "refusal" and "stop_reason" not in meta:  # OpenAI's, out of a stream
            text, refusal = "", refusal or text
        blocked = feedback.get("block_reason") if isinstance(feedback, Mapping) else None
        model = meta.get("model_name") or meta.get("model")
        told = [
            message.usage_metadata,
            *(meta.get(name) for name in ("token_usage", "usage", "usage_metadata")),
        ]

        def clean(field: object) -> str:
            return scrub(str(field), keys) if field else ""

        return cls(
            text=clean(text),
            finish=clean(finish),
            refusal=clean(refusal),
            blocked=clean(blocked),
            model=clean(model),
            fingerprint=clean(meta.get("system_fingerprint")),
            usage=read_usage(*told),
        )

    @property
    def finish_reason(self) -> str:
        """Why the model stopped, in lower case: `stop`, `length`, `content_filter`, …; empty where it isn't said."""
        return self.finish.rpartition(".")[2].lower()

    def find_refusal(self) -> tuple[str, str] | None:
        """Return how the answer declines, as (form, words), or None if it doesn't.

        Forms: `refusal_field` (OpenAI), `block_reason` (Gemini), `content_filter` (a finish or stop reason),
        `plain_text`.
        """
        if self.refusal:
            return "refusal_field", self.refusal
        if self.blocked not in (
            "",
            "0",
            "BLOCK_REASON_UNSPECIFIED",
            "BlockedReason.BLOCKED_REASON_UNSPECIFIED",
        ):
            return "block_reason", f"the prompt was blocked: {self.blocked}"
        said = strip_thinking(self.text)
        fault = read_finish(self.finish_reason)
        if fault and fault.kind == "refused":
            return "content_filter", said or fault.message
        if len(said) <= _LONGEST_REFUSAL and "{" not in said and _PLAIN_REFUSAL.match(said):
            return "plain_text", said
        return None


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens; `warning` says so when it can only estimate."""

    count: Callable[[str], float]
    warning: str | None = None

    @classmethod
    async def load(
        cls,
        encoding: str = "o200k_base",
        seconds: float = 5.0,
        *,
        get: Callable[[str], Any] | None = None,
    ) -> TokenCounter:
        """Load the tokens of an encoding of `tiktoken`, or an estimate if its tables don't come within these seconds.

        The estimate is a token for every three bytes of UTF-8, which is on the high side. The tables are downloaded at
        first use, and that has no time limit of its own. `get` makes an encoding by its name; `tiktoken.get_encoding`
        by default.
        """

        def tables() -> Any:
            if get is not None:
                return get(encoding)
            import tiktoken

            return tiktoken.get_encoding(encoding)

        try:
            # A thread that isn't joined when the program ends: a download that hangs must not hold up the exit.
            async with asyncio.timeout(seconds):
                loaded = await run_in_thread(tables, "tribunal-tiktoken")
        except (OSError, ValueError, RuntimeError) as error:
            why = str(error) or f"no answer within {seconds:g} s"
            return cls(
                estimate_tokens,
                f"tokens are estimated: the tables of {encoding} can't be had ({why[:60]})",
            )
        return cls(lambda text: len(loaded.encode_ordinary(text)))


def estimate_tokens(text: str) -> float:
    """Return a token for every three bytes of UTF-8: more than tokenizers make of prose, so windows stay within."""
    return len(text.encode("utf-8", "replace")) / 3


ESTIMATE = TokenCounter(estimate_tokens, "tokens are estimated")

_shared: list[TokenCounter] = []


async def shared_counter() -> TokenCounter:
    """Return the counter of this process, loaded at its first use."""
    if not _shared:
        _shared.append(await TokenCounter.load())
    return _shared[0]
