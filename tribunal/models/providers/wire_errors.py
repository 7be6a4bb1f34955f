"""What a server answers instead of an answer, as exceptions that `tribunal.models.faults` tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tribunal.text import parse_json

# A redirect's address under another name, so that no client on top follows it.
REDIRECTS_TO = "x-redirects-to"
_TELLS_OF_AN_ERROR = {"error", "errors", "message", "msg", "detail", "code"}


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

    `body` is the whole of it where it tells of an error, else None.
    """

    def __init__(self, body: Any) -> None:
        """Take the parsed body, or None if it isn't JSON."""
        super().__init__("the server's answer is not JSON" if body is None else "the server's answer has no choices")
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
        return raw.decode("utf-8", "replace")  # whole: keys are struck out before anything is cut off
    return body
