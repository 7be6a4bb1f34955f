"""What went wrong with a request: one reader for a status, a body, a stream's event, an exception or a finish reason.

Every client library raises its own exceptions, and every server has its own envelope for an error. `read_fault` takes
them by what they carry (a status, codes, words), so that an error means the same wherever it stands. A code counts
before the status, and the status before the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from tribunal.core.text import parse_json, scrub, shared_start
from tribunal.models.providers.wire import REDIRECTS_TO
from tribunal.models.waits import Wait, read_wait

FaultKind = Literal[
    "refused", "authentication", "quota", "rate_limit", "timeout", "connection", "network", "server", "request",
    "moved", "too_long", "bad_output",
]  # fmt: skip
_TRANSIENT = ("rate_limit", "server", "timeout", "connection")


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of one request.

    Attributes:
        kind: the kind of the error.
        message: the text that a person is shown.
        status: the HTTP status, of the response or by the error's own code; None where there is none.
        wait: how long the server asks to wait, and where it says so.
        details: all that was said, for looking through.
    """

    kind: FaultKind
    message: str
    status: int | None = None
    wait: Wait | None = None
    details: str = ""

    @property
    def in_words(self) -> str:
        """Return its kind and its message, as an error says them."""
        return f"{self.kind.replace('_', ' ')}: {self.message}"

    @property
    def is_transient(self) -> bool:
        """Return whether the fault may be gone on the next try."""
        return self.kind in _TRANSIENT


# Codes, whichever field they stand in, in small letters with every other sign as "_".
_BY_CODE: dict[FaultKind, str] = {
    "refused": "content_filter content_filtered content_policy_violation content_policy responsibleaipolicyviolation "
    "data_inspection_failed datainspectionfailed moderation_blocked prohibited_content content_blocked safety "
    "image_safety blocklist sensitive 1301",
    "authentication": "invalid_api_key incorrect_api_key authentication_error unauthenticated unauthorized "
    "invalid_authentication invalid_authentication_error account_deactivated api_key_invalid 1000 1001 1002 1003",
    "quota": "insufficient_quota billing_error billing_hard_limit_reached billing_not_active insufficient_balance "
    "insufficient_credits insufficient_funds arrearage payment_required credits_exhausted 1113",
    "rate_limit": "rate_limit_exceeded rate_limit_error rate_limited rate_limit_reached too_many_requests throttled "
    "throttling throttlingexception throttling_ratequota requests_limit_exceeded tokens_limit_exceeded 1302 1303",
    "too_long": "context_length_exceeded context_window_exceeded exceed_context_size_error",
}  # fmt: skip
_KIND_OF_CODE = {code: kind for kind, codes in _BY_CODE.items() for code in codes.split()}
# Codes that say no more than a status does; they count where there is no status of an error.
_STATUS_OF_CODE = {
    code: status
    for status, codes in {
        400: "invalid_request_error invalid_argument bad_request badrequesterror failed_precondition out_of_range "
        "invalid_request unsupported_parameter unsupported_value invalid_value",
        403: "permission_error permission_denied forbidden",
        404: "not_found_error not_found model_not_found",
        413: "request_too_large",
        429: "resource_exhausted",
        500: "server_error internal_server_error internal_error internal api_error unknown_error",
        503: "service_unavailable unavailable overloaded engine_overloaded model_overloaded 1305",
        504: "timeout_error timeout deadline_exceeded gateway_timeout request_timeout",
        529: "overloaded_error",
    }.items()
    for code in codes.split()
}


class _ErrorPattern(str):
    """A case-insensitive pattern of error texts; compiled at first use."""

    def search(self, message: str) -> re.Match[str] | None:
        return re.search(self, message, re.IGNORECASE)


_SAFETY = _ErrorPattern(
    r"content[ _-]?filter|content_policy|content management policy|data_?inspection|inappropriate content"
    r"|usage polic|safety (?:system|reasons|guidelines|filters?)|flagged|code['\"]?: ?['\"]?1301\b|敏感|不安全"
    r"|responsible ?ai|moderation_blocked|prohibited_content|content exists risk|(?:violat\w+|against) (?:our |the )?"
    r"(?:content|safety|acceptable use)"
)
# What is said of a fault that passes, whatever else the words name.
_FOR_NOW = _ErrorPattern(
    r"temporar(?:y|ily)\b|overload|(?:at|over|out of) capacity|(?:too|is|are|currently) busy"
    r"|try again (?:later|shortly|soon|in )|(?:please|and) retry\b(?! with)|retry (?:later|shortly|after \d)"
)
_THIS_MODEL = _ErrorPattern(r"\b(?:access|use|allow\w*|permi\w*)\b[^.{}]{0,40}\bmodel\b")
_TOO_LONG = _ErrorPattern(
    r"context[ _](?:length|window|size|limit)|too long|maximum context|exceeds the (?:limit|maximum)|too many tokens"
    r"|(?:completion|output) tokens|range of max_tokens|max_(?:completion_)?tokens\b.{0,40}too large"
)
_QUOTA = _ErrorPattern(
    r"insufficient_quota|exceeded your current quota|billing|arrearage|insufficient[ _](?:balance|credits?|funds)"
    r"|credit balance|out of credits?|余额"
)
# Gemini words a rate limit of a minute like a spent quota; what is over for good says so, or when it is not over soon.
_PER_MINUTE = _ErrorPattern(r"per_?-? ?minute")
_SPENT = _ErrorPattern(r"insufficient|per_?-? ?day|arrearage|credit balance|out of credits?|余额")
_RATE = _ErrorPattern(r"rate[ _-]?limit|too many requests|throttl")
_KEY = _ErrorPattern(
    r"api key not valid|(?:invalid|incorrect|missing|wrong) (?:api[ _-]?)?key|unauthori[sz]ed"
)

_LOST = {
    "ConnectionError", "ClientOSError", "ServerDisconnectedError", "ClientPayloadError", "BadHttpMessage",
    "NetworkError", "ConnectError", "RemoteProtocolError",
}  # fmt: skip
_TIMED_OUT = {"APITimeoutError", "TimeoutException", "TimeoutError"}
_OTHER_LOST = {"APIConnectionError", "TransportError", "ClientError", "ConnectionError", "OSError"}
_OF_THE_WIRE = {"ServerError", "NoAnswer", "NotStreamed", "BrokenOff", "LocalFault", "TooLarge"}
_MOST_READ = 20_000
_MOST_SHOWN = 400

# Finish reasons, over all providers: of an answer that is over, that was withheld, that was cut off, and of a server
# that broke down in the middle.
DONE = {
    "", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "tool_calls", "tool_use", "function_call", "complete",
}  # fmt: skip
WITHHELD = {
    "content_filter", "content_filtered", "safety", "prohibited_content", "blocklist", "spii", "image_safety",
    "image_prohibited_content", "recitation", "refusal", "sensitive", "guardrail_intervened", "error_toxic",
}  # fmt: skip
LENGTH = {
    "length",
    "max_tokens",
    "model_length",
    "model_context_window_exceeded",
    "max_output_tokens",
}
_BROKEN = {
    "error",
    "network_error",
    "insufficient_system_resource",
    "abort",
    "server_error",
    "overloaded",
}


def passes_by_itself(words: str) -> bool:
    """Return whether a server says of an error that it passes."""
    return _FOR_NOW.search(words) is not None


def read_finish(reason: str) -> Fault | None:
    """Return the fault that a finish reason names, or None if the answer may be read.

    One that isn't known is no fault by itself: an answer that can't be read then names it.
    """
    if reason in WITHHELD:
        return Fault("refused", f"the answer was withheld: {reason}")
    if reason in _BROKEN:
        return Fault("server", f"the server broke the answer off (finish reason: {reason})")
    return None


def read_fault(error: BaseException, *, secrets: Iterable[str] = (), shown: str = "") -> Fault:
    """Return the meaning of an exception of any client library, of ours, or of the wire.

    Args:
        error: the exception as it came out of `ainvoke`.
        secrets: keys to strike out of the message.
        shown: the texts that the model was shown. A quotation of them in an error names no cause.
    """
    chain = list(_cause_chain(error))
    # Clients wrap what our own connections raise in words of theirs.
    ours = (place for place, each in enumerate(chain) if _class_names(each) & _OF_THE_WIRE)
    chain = chain[next(ours, 0) :]
    body = next((value for each in chain if (value := _find_body(each))), None)
    headers = next((value for each in chain if (value := _find_headers(each))), {})
    status = next((value for each in chain if (value := _find_status(each)) is not None), None)
    said, words = _compose_messages(chain, body, secrets)
    codes = _codes_in(body)
    names = {name for each in chain for name in _class_names(each)}
    if status is None or status < 300:
        fault = _fault_of_connection(chain, names, words, body, secrets)
        if fault:
            return fault
        known = (_STATUS_OF_CODE.get(code) or as_status(code) for code in codes)
        status = next((status for status in known if status is not None and status >= 400), None)
    if status is not None and 300 <= status < 400:
        return Fault("moved", scrub(_describe_redirect(status, headers, chain), secrets), status)
    details = _strip_quotations(said, shown)
    limited = read_wait(headers, f"{said} {getattr(chain[0], 'details', '')}", limited=True)
    kind = _kind_of(status, codes, details, limited)
    wait = limited if kind == "rate_limit" else read_wait(headers, said, limited=False)
    # it is a model that isn't there, or a path
    asked = _asked_address(chain) if status == 404 else ""
    return Fault(
        kind, f"{words} (asked: {scrub(asked, secrets)})" if asked else words, status, wait, details
    )


def _kind_of(status: int | None, codes: list[str], message: str, wait: Wait | None) -> FaultKind:
    """Return the meaning of codes, a status and words, in this order."""
    if status == 401:
        return "authentication"
    for code in codes:
        kind = _KIND_OF_CODE.get(code)
        if kind == "quota" and _refills_soon(message, wait):
            return "rate_limit"
        if kind:
            return kind
    if (status is None or status < 500) and _KEY.search(message) and status not in (403, 404, 429):
        return "authentication"
    if status == 403 and not _SAFETY.search(message):
        # A key that may not use this model may still use another.
        return "request" if _THIS_MODEL.search(message) else "authentication"
    spends = status is None or status in (400, 402, 403, 429)
    if status == 402 or (spends and _QUOTA.search(message) and not _refills_soon(message, wait)):
        return "quota"
    if status == 429 or (status is None and _RATE.search(message)):
        return "rate_limit"
    if status == 408:
        return "timeout"
    client_error = status is None or 400 <= status < 500
    if client_error and _SAFETY.search(message):
        return "refused"
    if client_error and _TOO_LONG.search(message):
        return "too_long"
    return "server" if status is None or status >= 500 or _FOR_NOW.search(message) else "request"


def _refills_soon(message: str, wait: Wait | None) -> bool:
    """Return whether a quota fills up again soon."""
    return not _SPENT.search(message) and (
        wait is not None or _PER_MINUTE.search(message) is not None
    )


def _fault_of_connection(
    chain: list[BaseException], names: set[str], words: str, body: Any, secrets: Iterable[str]
) -> Fault | None:
    """Return the fault of a request that no server answered with an error; None: one did, and said no status."""
    if "LocalFault" in names:
        return Fault("network", words)
    if "TooLarge" in names:
        return Fault("bad_output", words)
    if "NotStreamed" in names:
        return Fault("request", words, details=words)
    if names & _LOST:
        # Clients put a general word on top, and at times "timed out"; what lies beneath is what happened.
        beneath = next(place for place, each in enumerate(chain) if _class_names(each) & _LOST)
        return Fault("connection", _compose_messages(chain[beneath:], body, secrets)[1])
    if names & _TIMED_OUT:
        return Fault("timeout", words or "no answer in time")
    if names & _OTHER_LOST:
        return Fault("connection", words or "the connection was lost")
    if body is None and names & {"TypeError", "NotImplementedError"}:
        # The client itself: what it says may name a part of the request that it doesn't take.
        return Fault("request", words, details=words)
    return None


def _cause_chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def as_status(value: Any) -> int | None:
    """Return the HTTP status that a code is, as a number or in digits; None of any other code."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600
        else None
    )


def _find_status(error: BaseException) -> int | None:
    if "BadHttpMessage" in _class_names(error):
        return None  # an answer that broke off carries a 400 that no server sent
    for name in ("status_code", "code", "status"):
        status = as_status(getattr(error, name, None))
        if status is not None:
            return status
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # that of AWS
        return as_status((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
    return as_status(getattr(response, "status_code", None))


def _find_body(error: BaseException) -> Any:
    """Return the body of a server's error, as clients store it: in `body`, or as the only argument."""
    body = getattr(error, "body", None)
    if body is None and error.args and isinstance(error.args[0], dict):
        body = error.args[0]
    return body


def _find_headers(error: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _error_objects(body: Any, depth: int = 4) -> Iterator[dict[str, Any]]:
    """Yield the objects of an error's body that can have a code or a message, outer objects first."""
    if (
        isinstance(body, str) and body.lstrip().startswith("{") and depth < 4
    ):  # a gateway's: the error within
        try:
            body = parse_json(body)
        except ValueError:
            return
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, dict) and depth:
        yield body
        for name in ("error", "innererror", "inner_error", "metadata", "raw", "detail", "errors"):
            yield from _error_objects(body.get(name), depth - 1)


def _codes_in(body: Any) -> list[str]:
    """Return the codes of an error's body, the most particular first."""
    codes = [
        re.sub(r"[^a-z0-9]+", "_", str(value).lower()).strip("_")
        for each in _error_objects(body)
        for name in ("code", "type", "status", "reason")
        if isinstance(value := each.get(name), str | int) and not isinstance(value, bool)
    ]
    return codes[::-1]


def _compose_messages(
    chain: list[BaseException], body: Any, secrets: Iterable[str]
) -> tuple[str, str]:
    """Return the full text of an exception, for searching; and a short text for people, without the JSON around it."""
    own = getattr(chain[0], "message", None) or str(chain[0]) or type(chain[0]).__name__
    extra = (
        json.dumps(body, ensure_ascii=False, default=str)
        if isinstance(body, dict | list)
        else str(body or "")
    )
    whole = own if extra in ("", own) else f"{own} {extra}"
    words = _body_message(body)
    status = _find_status(chain[0]) if words else None
    told = words or whole if status is None else f"HTTP {status}: {words}"
    shown = [" ".join(scrub(each, secrets).split()) for each in (whole, told)]
    return shown[0][:_MOST_READ], shown[1][:_MOST_SHOWN]


def _body_message(body: Any) -> str:
    """Return the message in the body of an error, or an empty string."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return ""
    error = body.get("error", body)
    words = error
    if isinstance(error, dict):
        words = next(
            (
                error[name]
                for name in ("message", "msg", "detail")
                if isinstance(error.get(name), str)
            ),
            "",
        )
    code = error.get("code") if isinstance(error, dict) else None
    said = words if isinstance(words, str) else ""
    return f"{said} ({code})" if said and isinstance(code, str) and code not in said else said


def _strip_quotations(message: str, shown: str) -> str:
    """Return a message without texts that the model was shown: some servers repeat them line by line, often cut off."""
    for line in {" ".join(each.split()) for each in shown.splitlines()}:
        for quoted in {line, json.dumps(line, ensure_ascii=False)[1:-1]}:
            head = quoted[:_HEAD]
            while len(head) >= _SHORTEST_QUOTATION and (at := message.find(head)) != -1:
                message = message[:at] + message[at + shared_start(message[at:], quoted) :]
    return message


_SHORTEST_QUOTATION = 8
_HEAD = 24


def _asked_address(chain: list[BaseException]) -> str:
    """Return the address that was asked, or an empty string if the exception doesn't say."""
    responses = [getattr(each, "response", None) for each in chain]
    url = next((str(value) for each in responses if (value := getattr(each, "url", None))), "")
    parts = urlsplit(url)
    # Without a name and a password, or what follows a question mark.
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _describe_redirect(status: int, headers: Mapping[str, str], chain: list[BaseException]) -> str:
    """Describe a redirect: the address that was asked, and the host that it leads to."""
    try:
        location = (
            headers.get(REDIRECTS_TO) or headers.get("location") or headers.get("Location") or ""
        )
        to = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        to = ""
    # A host that is written in other characters may look like another.
    where = f" to {to}" if re.fullmatch(r"[\w.:\[\]-]{1,253}", to, re.ASCII) else " on"
    return (
        f"HTTP {status}: {_asked_address(chain) or 'the server'} redirects{where}, and no redirect is followed, "
        "since the key would go along; if that is the right place, set the base URL to it"
    )
