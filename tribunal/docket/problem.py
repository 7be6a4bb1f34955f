"""Errors of a request for a case, for the service and the terminal alike."""

from __future__ import annotations

from typing import Any

from tribunal.errors import TribunalError

STATUS = {
    "bad_input": 400,
    "no_key": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "wrong_type": 415,
    "spent": 429,
    "too_many": 429,
    "busy": 429,
    "timeout": 408,
    "undecided": 422,
    "internal": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "late": 504,
}


class Problem(TribunalError):
    """A request that is answered with an error; nothing was paid for it."""

    def __init__(self, kind: str, message: str, *, retry_after: int | None = None) -> None:
        """Take one of the kinds above, and what the client reads."""
        super().__init__(message)
        self.kind, self.message, self.retry_after = kind, message, retry_after
        self.status = STATUS[kind]

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        return {"error": {"kind": self.kind, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Return the answer's headers."""
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        # With a realm, since httplib2 (the client of Google's libraries) can't read a scheme alone.
        return {**headers, "WWW-Authenticate": 'Bearer realm="tribunal"'} if self.status == 401 else headers
