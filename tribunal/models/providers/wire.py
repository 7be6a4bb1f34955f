"""Read the usage and the errors in the body of a provider's answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tribunal.core.text import parse_json
from tribunal.schema import JSON

MOST_TOKENS = 2**53
_PROMPT = (
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "inputTokens",
    "prompt_eval_count",
)
_ANSWER = (
    "completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count", "outputTokens",
    "generated_tokens", "eval_count",
)  # fmt: skip
_CACHED = (
    "cached_tokens",
    "cache_read_input_tokens",
    "cachedContentTokenCount",
    "prompt_cache_hit_tokens",
)
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_PLACES = ("usage", "usageMetadata", "usage_metadata", "token_usage", "x_groq")
_DEEPEST = 4


class TokenCounts(NamedTuple):
    """The tokens of a prompt, of an answer, and of the prompt as the provider's cache served it; None: not said."""

    prompt: int | None = None
    answer: int | None = None
    cached: int = 0


def read_count(value: Any) -> int | None:
    """Return a number of tokens, or None if it is none."""
    if isinstance(value, str) and len(value) < 40:
        try:
            value = float(value) if not value.strip().isdecimal() else int(value)
        except ValueError:
            return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS else None


def read_usage(*told: Any) -> TokenCounts:
    """Return the token counts in what clients and servers tell of them; of several, the first one that says a number.

    A prompt or an answer of no tokens is taken for one that wasn't counted.
    """
    prompt = answer = cached = None
    for each in told:
        if isinstance(each, Mapping):
            prompt = prompt or _first(each, _PROMPT)
            answer = answer or _first(each, _ANSWER)
            cached = cached or _cached_tokens(each)
    return TokenCounts(prompt or None, answer or None, min(cached or 0, prompt or 0))


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    counts = (read_count(usage.get(name)) for name in names)
    return next((count for count in counts if count), None)


def _cached_tokens(usage: Mapping[str, Any]) -> int | None:
    count = _first(usage, _CACHED)
    if count:
        return count
    for name in _DETAILS:
        details = usage.get(name)
        if isinstance(details, Mapping):
            # OpenAI's tiers of service have names of their own for it, as `priority_cache_read`.
            counts = [
                read_count(value)
                for key, value in details.items()
                if str(key).endswith(("cache_read", *_CACHED))
            ]
            return sum(filter(None, counts))
    return None


class UsageOnTheWire:
    """The usage in the bodies of one answer, put right before a client reads it.

    Of a stream the last cumulative value counts. Only the last event has it, since clients add the values up.
    """

    def __init__(self) -> None:
        """Begin before the first event."""
        self._last: JSON = {}
        self._of: JSON | None = None  # what names the answer that the usage is for

    def clean_body(self, body: JSON) -> JSON:
        """Return a whole answer with usage that any client can read; itself, where that needs no change."""
        cleaned = _clean_places(body)
        return body if cleaned == body else cleaned

    def clean_event(self, event: JSON, *, is_last: bool) -> JSON:
        """Return an event of a stream as the client may read it."""
        if not any(
            name in event
            for name in (
                "usage",
                "usageMetadata",
                "message",
                "prompt_eval_count",
                "choices",
                "x_groq",
            )
        ):
            return event
        event = _clean_places(event)
        if "candidates" in event or "promptFeedback" in event:
            self._last = event.pop("usageMetadata", None) or self._last
            if is_last and self._last:
                event["usageMetadata"] = self._last
        elif isinstance(event.get("choices"), list):
            self._last = event.pop("usage", None) or self._last
            self._of = {
                name: event[name] for name in ("id", "object", "created", "model") if name in event
            }
        elif event.get("type") == "message_start" and isinstance(event.get("message"), dict):
            self._last = event["message"].get("usage") or {}
        elif event.get("type") == "message_delta":
            event["usage"] = self._last | {
                name: count for name, count in event.get("usage", {}).items() if count
            }
        return event

    def last_event(self) -> JSON | None:
        """Return the event in which a client of OpenAI's looks for the usage of a stream; None: there is none."""
        last = self._last
        self._last = {}
        return {**self._of, "choices": [], "usage": last} if last and self._of is not None else None


def _clean_places(body: JSON) -> JSON:
    """Return a body in which every usage is an object of whole numbers, under the names of its protocol."""
    cleaned = {name: value for name, value in body.items() if name not in _PLACES}
    usages = {name: body[name] for name in _PLACES if name in body}
    for name in ("prompt_eval_count", "eval_count"):
        if name in cleaned and read_count(cleaned[name]) is None:
            del cleaned[name]
    choices = body.get("choices")
    if isinstance(choices, list):
        told = [usages.get("usage"), usages.pop("x_groq", None)]
        told += [each.get("usage") for each in choices if isinstance(each, dict)]
        usage = next((each for each in map(_find_usage, told) if each), None)
        usages = {"usage": _with_openai_names(usage)} if usage else {}
    for name, usage in usages.items():
        if isinstance(usage, Mapping):
            cleaned[name] = _whole_numbers(usage)
        elif body.get("type") in ("message", "message_delta", "message_start"):
            cleaned[name] = {}
    if body.get("type") == "message":  # Anthropic's client takes it to be there
        cleaned["usage"] = {"input_tokens": 0, "output_tokens": 0} | cleaned.get("usage", {})
    if isinstance(body.get("message"), dict) and "usage" in body["message"]:
        cleaned["message"] = _clean_places(body["message"])
    return cleaned


def _find_usage(told: Any) -> Mapping[str, Any] | None:
    if isinstance(told, Mapping) and isinstance(told.get("usage"), Mapping):
        told = told["usage"]
    return told if isinstance(told, Mapping) else None


def _with_openai_names(usage: Mapping[str, Any]) -> JSON:
    counts = read_usage(usage)
    named = _whole_numbers(usage)
    for name, count in (("prompt_tokens", counts.prompt), ("completion_tokens", counts.answer)):
        named.pop(name, None)
        if count is not None:
            named[name] = count
    named["total_tokens"] = (counts.prompt or 0) + (counts.answer or 0)
    return named


def _whole_numbers(usage: Mapping[str, Any], depth: int = _DEEPEST) -> JSON:
    """Return the whole numbers of a usage, and what holds such; nothing else of it is read by anybody."""
    kept: JSON = {}
    for name, value in usage.items():
        if isinstance(value, Mapping) and depth:
            kept[name] = _whole_numbers(value, depth - 1)
        elif isinstance(value, list) and depth and all(isinstance(each, Mapping) for each in value):
            kept[name] = [_whole_numbers(each, depth - 1) for each in value]
        elif isinstance(value, str) and not name.lower().endswith(("tokens", "count")):
            kept[name] = value
        elif (count := read_count(value)) is not None:
            kept[name] = count
    return kept


# A redirect's address under another name, so that no client on top follows it.
REDIRECTS_TO = "x-redirects-to"
_TELLS_OF_AN_ERROR = {"error", "errors", "message", "msg", "detail", "code"}


class _ResponseHead(NamedTuple):
    headers: Mapping[str, str]
    url: str


class ServerError(Exception):
    """An error status. `body` is the server's text, parsed if it is JSON."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes, url: str = "") -> None:
        """Take the status, the headers and the body of the response."""
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = _ResponseHead(headers, url)
        self.body = self.details = _parse_error(raw)


class NoAnswer(Exception):
    """HTTP says OK, and the body holds no answer: another page, or an error that some gateways send with status 200.

    `body` is the whole of it where it tells of an error, else None.
    """

    def __init__(self, body: Any) -> None:
        """Take the parsed body, or None if it isn't JSON."""
        super().__init__(
            "the server's answer is not JSON"
            if body is None
            else "the server's answer has no choices"
        )
        tells = isinstance(body, dict) and not _TELLS_OF_AN_ERROR.isdisjoint(body)
        self.body = body if tells else None


class LocalFault(ConnectionError):
    """A request that this machine couldn't send: its proxy, its certificates or a package are at fault."""


class TooLarge(ValueError):
    """A body that is longer than any answer."""


class NotStreamed(Exception):
    """The server was asked to stream, and answered in one piece."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the server did not stream")


class BrokenOff(ConnectionError):
    """The stream ended before the answer did."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the stream ended before the answer did")


def _parse_error(raw: bytes) -> Any:
    try:
        body = parse_json(raw)
    except ValueError:
        # whole: keys are struck out before anything is cut off
        return raw.decode("utf-8", "replace")
    return body
