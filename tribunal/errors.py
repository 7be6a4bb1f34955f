"""Every error of ours, in one tree.

TribunalError
├── BadInput            a post, setting or file is wrong; found before any model call
│   └── WrongState      a channel of a case holds what no node can read: a node or an edit wrote it
└── ModelError          a call could not be answered; carries the record of what was tried
    ├── Refused         the provider declined
    ├── BudgetSpent     the post's budget leaves no call for this seat
    └── CallFailed      a technical failure, of one of `kinds`
        └── BadModelOutput   an answer came, and was not of the asked form
"""

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
        self.seat, self.role, self.model = seat, role, model
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
