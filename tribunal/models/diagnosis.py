"""How providers decline and how they fail, told apart.

Every client library raises its own exceptions and marks a blocked answer in its own way. `diagnose` reads
them by what they carry (a status, a code, a finish reason), so that no client needs to be imported to be
understood. Transport comes first: an authentication or quota error is never taken for bad output, nor a refusal for a
failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tribunal.models.providers.wire_errors import REDIRECTS_TO
from tribunal.text import scrub, shared_start
from tribunal.times import seconds_until_retry

FaultKind = Literal[
    "refused", "authentication", "quota", "rate_limit", "timeout", "connection", "server", "request", "moved",
    "format", "bounds", "image", "temperature", "system", "stream", "too_long",
]  # fmt: skip


class _ErrorPattern(str):
    """A pattern of error texts, whatever the case of their letters; compiled at first use."""

    def search(self, message: str) -> re.Match[str] | None:
        return re.search(self, message, re.IGNORECASE)


_SAFETY = _ErrorPattern(
    r"content[ _-]?filter|content_policy|content management policy|data_?inspection|inappropriate content"
    r"|usage polic|safety (?:system|reasons|guidelines)|flagged|code['\"]?: ?['\"]?1301\b|敏感|不安全|responsible ?ai"
    r"|moderation_blocked"
    r"|prohibited_content"
)
_FORMAT = _ErrorPattern(
    r"response[_ ]?format|response_?(?:json_)?schema|response_?mime|json[_ ]?(?:schema|object)|json mode|structured"
    r"|grammar|guided|output_config|output_format|tool_choice"
)
# What is said of a fault that passes, whatever else the words name.
_FOR_NOW = _ErrorPattern(
    r"temporar(?:y|ily)\b|overload|(?:at|over|out of) capacity|(?:too|is|are|currently) busy"
    r"|try again (?:later|shortly|soon|in )|(?:please|and) retry\b(?! with)|retry (?:later|shortly|after \d)"
)
# A bound in the schema that a server doesn't know, or that makes too large a grammar.
_BOUNDS = _ErrorPattern(
    r"\b(?:min|max)(?:Items|Length)\b|['\"`](?:minimum|maximum)['\"`]|array length limits|too many states"
    r"|number of (?:repetitions|rules)"
)
# A chat template without a place for standing instructions.
_SYSTEM = _ErrorPattern(
    r"system (?:role|messages?|prompts?)(?: is| are)? not supported|developer instruction is not enabled"
    r"|only user(?:,| and) (?:assistant|model) (?:and tool )?roles"
    r"|does(?:n't| not) support (?:the |a )?system (?:role|messages?|prompts?)"
)
# What servers of one's own say of a model without a projector, at times with status 500.
_BLIND = _ErrorPattern(
    r"mmproj|image input is not supported|not (?:a )?(?:multi-?modal|vision)|no (?:image|vision) support"
    r"|does(?:n't| not) support (?:image|vision|multi-?modal)|missing data required for image"
    r"|(?:image|vision|multi-?modal)\w*(?: inputs?)?(?: is| are)? (?:not (?:supported|enabled)|unsupported)"
    r"|unknown variant [`'\"]?image|image\w* is only supported by|(?:expected|must be) (?:a )?[`'\"]?(?:text|string)\b"
)
_STREAM = _ErrorPattern(r"\bstream(?:ing|ed|s|_options)?\b|streamGenerateContent")
_THIS_MODEL = _ErrorPattern(r"\b(?:access|use|allow\w*|permi\w*)\b[^.{}]{0,40}\bmodel\b")
_TEMPERATURE = _ErrorPattern(r"temperature")
_TOO_LONG = _ErrorPattern(
    r"context[ _](?:length|window|size|limit)|too long|maximum context|exceeds the (?:limit|maximum)|too many tokens"
    r"|(?:completion|output) tokens|range of max_tokens|max_(?:completion_)?tokens\b.{0,40}too large"
)
_QUOTA = _ErrorPattern(r"insufficient_quota|exceeded your current quota|billing|arrearage|insufficient balance|余额")
# Gemini words a rate limit of a minute like a spent quota; what is over for good says so, or when it is not over soon.
_PER_MINUTE = _ErrorPattern(r"per_?-? ?minute")
_SPENT = _ErrorPattern(r"insufficient|per_?-? ?day|arrearage|余额")

_LOST = {
    "ConnectionError", "ClientOSError", "ServerDisconnectedError", "ClientPayloadError", "BadHttpMessage",
    "NetworkError", "ConnectError", "RemoteProtocolError",
}  # fmt: skip


_OF_THE_WIRE = {"NoAnswer", "NotStreamed", "BrokenOff"}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The fault of one request.

    `message` is for people and `details` is all that was said; `retry_after` in seconds, where the server said it.
    """

    kind: FaultKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    details: str = ""

    @property
    def in_words(self) -> str:
        """Return its kind and its message, as an error says them."""
        return f"{self.kind.replace('_', ' ')}: {self.message}"

    @property
    def is_transient(self) -> bool:
        """Return whether the fault may be gone on the next try."""
        return self.kind in ("rate_limit", "server", "timeout", "connection")

    @property
    def bare_500(self) -> bool:
        """Return whether this is the bare 500 by which some servers answer an unknown format."""
        return self.kind == "server" and self.status == 500


def diagnose(
    error: BaseException, *, sent: Iterable[str] = (), secrets: Iterable[str] = (), shown: str = ""
) -> Diagnosis:
    """Return the meaning of an exception of any client library.

    Args:
        error: the exception as it came out of `ainvoke`.
        sent: which of `format`, `bounds`, `image`, `temperature`, `system`, `stream` stood in the request, and may be
            what was refused.
        secrets: keys to strike out of the message.
        shown: what the model was shown. A server that quotes it has named nothing by that.
    """
    chain = _from_wire_error(list(_cause_chain(error)))
    status = next((found for each in chain if (found := _find_status(each)) is not None), None)
    headers = next((held for each in chain if (held := _find_headers(each))), {})
    message, told = _compose_messages(chain, secrets)
    retry_after = _retry_after(headers, chain)
    if status is None:
        names = {name for each in chain for name in _class_names(each)}
        if "NotStreamed" in names:
            return Diagnosis("stream", told)
        if names & _LOST:
            # Clients put a general word on top, and at times "timed out"; what lies beneath is what happened.
            beneath = next(place for place, each in enumerate(chain) if _class_names(each) & _LOST)
            return Diagnosis("connection", _compose_messages(chain[beneath:], secrets)[1])
        if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
            return Diagnosis("timeout", told or "no answer in time")
        if names & {"APIConnectionError", "TransportError", "ClientError", "ConnectionError", "OSError"}:
            return Diagnosis("connection", told or "the connection was lost")
        return Diagnosis("server", told)
    if 300 <= status < 400:
        return Diagnosis("moved", scrub(_describe_redirect(status, headers, chain), secrets), status)
    kind = classify_status(status, _strip_quotations(message, shown), retry_after, set(sent))
    asked = _asked_address(chain) if status == 404 else ""  # it is a model that isn't there, or a path
    return Diagnosis(kind, f"{told} (asked: {scrub(asked, secrets)})" if asked else told, status, retry_after, message)


def classify_status(status: int, message: str, retry_after: float | None, asked: set[str]) -> FaultKind:
    """Return the meaning of a status, given the server's words and the request's parts."""
    if status == 401 or "API key not valid" in message:
        return "authentication"
    if status == 403 and not _SAFETY.search(message):
        # A key that may not use this model may still use another.
        return "request" if _THIS_MODEL.search(message) else "authentication"
    if status == 402 or (status == 429 and _QUOTA.search(message) and not _refills_soon(message, retry_after)):
        return "quota"
    if status == 429:
        return "rate_limit"
    if status == 408:
        return "timeout"
    if 400 <= status < 500 and _SAFETY.search(message):
        return "refused"
    if status < 500 and _TOO_LONG.search(message):
        return "too_long"
    if _FOR_NOW.search(message):
        return "server"
    return _part_refused(status, message, asked) or ("server" if status >= 500 else "request")


def _part_refused(status: int, message: str, asked: set[str]) -> FaultKind | None:
    """Return the part of the request that the server names as refused. A gateway's word (502, 503, …) doesn't count."""
    if status >= 500 and status not in (500, 501):
        return None
    if "stream" in asked and _STREAM.search(message):
        return "stream"
    if "system" in asked and _SYSTEM.search(message):
        return "system"
    if "image" in asked and status >= 500 and _BLIND.search(message):
        return "image"
    if "temperature" in asked and status < 500 and _TEMPERATURE.search(message):
        return "temperature"
    if "bounds" in asked and _BOUNDS.search(message):
        return "bounds"
    if "format" in asked and status in (400, 422, 500) and _FORMAT.search(message):
        return "format"
    if "image" in asked and _BLIND.search(message):
        return "image"
    return "stream" if "stream" in asked and status in (405, 501) else None


def _refills_soon(message: str, retry_after: float | None) -> bool:
    """Return whether a quota fills up again soon."""
    return not _SPENT.search(message) and (retry_after is not None or _PER_MINUTE.search(message) is not None)


def _cause_chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _from_wire_error(chain: list[BaseException]) -> list[BaseException]:
    """Return a chain of errors from what our own connections said on, which clients wrap in words of theirs."""
    ours = (place for place, each in enumerate(chain) if _class_names(each) & _OF_THE_WIRE)
    return chain[next(ours, 0) :]


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _find_status(error: BaseException) -> int | None:
    if "BadHttpMessage" in _class_names(error):
        return None  # an answer that broke off carries a 400 that no server sent
    for name in ("status_code", "code", "status"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # that of AWS
        response = response.get("ResponseMetadata") or {}
        return response.get("HTTPStatusCode")
    value = getattr(response, "status_code", None)
    return value if isinstance(value, int) else None


def _find_headers(error: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _compose_messages(chain: list[BaseException], secrets: Iterable[str]) -> tuple[str, str]:
    """All that an exception says, to be looked through; and what of it a person is told, without the JSON around it."""
    body = next((found for each in chain if (found := getattr(each, "body", None))), None)
    own = getattr(chain[0], "message", None) or str(chain[0]) or type(chain[0]).__name__
    extra = json.dumps(body, ensure_ascii=False, default=str) if isinstance(body, dict | list) else str(body or "")
    whole = own if extra in ("", own) else f"{own} {extra}"
    words = _body_message(body)
    if words:
        status = _find_status(chain[0])
        told = words if status is None else f"HTTP {status}: {words}"
    else:
        told = whole
    shown = [" ".join(scrub(each, secrets).split()) for each in (whole, told)]
    return shown[0][:_MOST_READ], shown[1][:400]


_MOST_READ = 20_000


def _body_message(body: Any) -> str:
    """Return the message in the body of an error, or an empty string."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error", body)
    words = error.get("message") if isinstance(error, dict) else error
    code = error.get("code") if isinstance(error, dict) else None
    said = words if isinstance(words, str) else ""
    return f"{said} ({code})" if said and isinstance(code, str) and code not in said else said


def _strip_quotations(message: str, shown: str) -> str:
    """Return a message without what the model was shown: some servers give it back line by line, often cut."""
    for line in {" ".join(each.split()) for each in shown.splitlines()}:
        for quoted in {line, json.dumps(line, ensure_ascii=False)[1:-1]}:
            head = quoted[:_HEAD]
            while len(head) >= _SHORTEST_QUOTATION and (at := message.find(head)) != -1:
                message = message[:at] + message[at + shared_start(message[at:], quoted) :]
    return message


_SHORTEST_QUOTATION, _HEAD = 8, 24


def _asked_address(chain: list[BaseException]) -> str:
    """Return the address that was asked, or an empty string if the exception doesn't say."""
    responses = [getattr(each, "response", None) for each in chain]
    url = next((str(found) for each in responses if (found := getattr(each, "url", None))), "")
    parts = urlsplit(url)
    # Without a name and a password, or what follows a question mark.
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _describe_redirect(status: int, headers: Mapping[str, str], chain: list[BaseException]) -> str:
    """Describe a redirect: the address that was asked, and the host that it leads to."""
    try:
        told = headers.get(REDIRECTS_TO) or headers.get("location") or headers.get("Location") or ""
        to = urlsplit(told).netloc.rpartition("@")[2]
    except ValueError:
        to = ""
    # A host that is written in other characters may look like another.
    where = f" to {to}" if re.fullmatch(r"[\w.:\[\]-]{1,253}", to, re.ASCII) else " on"
    return (
        f"HTTP {status}: {_asked_address(chain) or 'the server'} redirects{where}, and no redirect is followed, "
        "since the key "
        "would go along; if that is the right place, set the base URL to it"
    )


def _retry_after(headers: Mapping[str, str], chain: list[BaseException]) -> float | None:
    """Seconds to wait, from Retry-After (seconds or a date), retry-after-ms, or Gemini's RetryInfo."""
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    seconds = seconds_until_retry(headers.get("retry-after") or headers.get("Retry-After") or "")
    if seconds is not None:
        return seconds
    details = next((found for each in chain if (found := getattr(each, "details", None))), None)
    found = re.search(r"retryDelay'?\"?:\s*'?\"?(\d+(?:\.\d+)?)s", str(details)) if details else None
    return float(found[1]) if found else None


_CONTEXT = re.compile(
    r"maximum context length (?:is|of) (\d+)|context (?:size|length|window)\w* (?:of only |of |is )?\(?(\d+)"
    r"|['\"]n_ctx['\"]: ?(\d+)|context limit: \d+ \+ \d+ > (\d+)",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?in the messages|(\d+) input tokens|['\"]n_prompt_tokens['\"]: ?(\d+)|request \((\d+) tokens\)"
    r"|context limit: (\d+) \+",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"at most (\d+) (?:completion|output) tokens|max_tokens: \d+ > (\d+)|range of max_tokens should be \[\d+, ?(\d+)\]",
    re.IGNORECASE,
)


class TokenSpace(NamedTuple):
    """The numbers of tokens in a server's complaint; None where it says none: of the context, the prompt, an answer."""

    context: int | None
    prompt: int | None
    answer: int | None

    def room_for_answer(self, prompt_tokens: int) -> int | None:
        """Return the longest possible answer in tokens, or None if it isn't known.

        Args:
            prompt_tokens: how many the prompt has by an earlier answer's count; 0: there was none.
        """
        prompt = self.prompt or prompt_tokens
        beside = self.context - prompt if self.context and prompt else None
        return min((each for each in (self.answer, beside) if each is not None), default=None)


def parse_token_space(complaint: str) -> TokenSpace:
    """Read the room that a server reports when a request asks for too much."""
    found = (pattern.search(complaint) for pattern in (_CONTEXT, _PROMPT, _OUTPUT))
    return TokenSpace(*(each and int(next(filter(None, each.groups()))) for each in found))
