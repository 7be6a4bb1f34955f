"""Every error of ours, and how a request for a case is answered with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Kinds of `CallFailed`. Nobody answered, which another try may change; or nobody is let in until somebody sees to it.
UNANSWERED = ("connection", "timeout", "rate_limit", "server", "moved")
LOCKED_OUT = ("authentication", "quota", "network")


class TribunalError(Exception):
    """The base of every error this project raises on purpose."""


class BadInput(TribunalError, ValueError):
    """Something that was given is wrong. `str()` is one line: the field, the value, the way out."""


class NotAtHand(BadInput):
    """A key or an index is missing. The request itself is right, so what it takes can be estimated."""


class WrongState(BadInput):
    """A channel of a case holds what no node can read, because a node of one's own or an edit wrote it."""


class ModelError(TribunalError):
    """A seat's call that gave no answer.

    `calls` are the records (`Call`, as JSON) of everything that was tried for it, fallback models included, and
    `warnings` what the reader of the outcome should know of them.
    """

    def __init__(self, message: str, *, seat: str = "", role: str = "", model: str = "") -> None:
        """Keep who was asked."""
        super().__init__(message)
        self.seat = seat
        self.role = role
        self.model = model
        self.calls: Sequence[dict[str, Any]] = ()
        self.warnings: Sequence[str] = ()


class Refused(ModelError):
    """The provider declined; `form` says in which of its ways."""

    def __init__(self, message: str, *, form: str, **asked: str) -> None:
        """Keep the form."""
        super().__init__(message, **asked)
        self.form = form


class BudgetSpent(ModelError):
    """The post's budget of calls or tokens leaves nothing for this seat."""


class CallFailed(ModelError):
    """A technical failure.

    `kind` is one of authentication, quota, rate_limit, timeout, connection, network, server, request, moved, too_long,
    bad_output, blind, budget.
    """

    def __init__(self, message: str, *, kind: str, **asked: str) -> None:
        """Keep the kind."""
        super().__init__(message, **asked)
        self.kind = kind


class BadModelOutput(CallFailed):
    """The model answered, and the answer was not of the asked form, even when asked again."""

    def __init__(self, message: str, **asked: str) -> None:
        """Say that the output was bad."""
        super().__init__(message, kind="bad_output", **asked)


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
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.status = STATUS[kind]

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        return {"error": {"kind": self.kind, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Return the answer's headers."""
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        # With a realm, since httplib2 (the client of Google's libraries) can't read a scheme alone.
        return (
            {**headers, "WWW-Authenticate": 'Bearer realm="tribunal"'}
            if self.status == 401
            else headers
        )
