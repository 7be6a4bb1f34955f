"""What a server answers instead of an answer, as exceptions that `tribunal.models.diagnosis` tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tribunal.text import parse_json

# A redirect's address under another name, so that no client on top follows it.
REDIRECTS_TO = "x-redirects-to"
# An error in the middle of a stream has no status of its own. Anthropic names the kind of error instead.
_STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _ResponseHead(NamedTuple):
    headers: Mapping[str, str]
    url: str


class ServerError(Exception):
    """A status that is no answer. `body` is what the server says of it, parsed if it is JSON."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes, url: str = "") -> None:
        """Take the status, the headers and the body of the response."""
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = _ResponseHead(headers, url)
        self.body = self.details = _parse_error(raw)


class NoAnswer(Exception):
    """HTTP says OK, and the body holds no answer: another page, or an error that some gateways send with status 200.

    `body` is what the error says, and `code` its status, if there is one.
    """

    def __init__(self, body: Any) -> None:
        """Take the parsed body, or None if it isn't JSON."""
        super().__init__("the server's answer is not JSON" if body is None else "the server's answer has no choices")
        error = body.get("error") if isinstance(body, dict) else None
        self.body = {"message": error} if isinstance(error, str) else error
        self.code = None
        if isinstance(error, dict):
            self.code = error.get("code")
            if body.get("type") == "error":
                self.code = _STATUS_OF_ERROR.get(str(error.get("type")), 500)


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
        return raw.decode("utf-8", "replace")  # whole: keys are struck out before anything is cut off
    return body.get("error", body) if isinstance(body, dict) else body
