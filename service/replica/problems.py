"""What a request can go wrong with, as one shape: `{"error": {"kind", "message"}}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field

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


# As one reads it; for OpenAPI.
EXAMPLES = {
    "bad_input": "text: there is neither text nor image; give one",
    "no_key": "no valid key: send one as Authorization: Bearer tribunal_…",
    "forbidden": "this key's scopes are audit; this wants judge",
    "not_found": "case: case-0198c5d1f3a1b2c3d4e5f: there is none",
    "conflict": "Idempotency-Key: belongs to another request",
    "too_large": "body: is over 39,845,888 bytes (most_body); send less",
    "wrong_type": "Content-Type: text/plain: send application/json",
    "timeout": "body: took over 300 seconds (body_seconds)",
    "spent": "this key's calls of today are spent: 1000 of 1000",
    "too_many": "over 60 requests a minute",
    "busy": "1000 cases wait; come back later",
    "undecided": "no verdict: a model declined to judge this post (case case-0198c5d1f3a1b2c3d4e5f)",
    "unavailable": "this replica stops; ask another",
    "late": "this takes longer than the service waits; send it again to have what it comes to",
}


class Problem(Exception):
    """A request that is answered with an error; nothing was paid for it."""

    def __init__(self, kind: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.retry_after = kind, message, retry_after
        self.status = STATUS[kind]

    def body(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message}}

    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        # With a realm, since httplib2 (the client of Google's libraries) can't read a scheme alone.
        return {**headers, "WWW-Authenticate": 'Bearer realm="tribunal"'} if self.status == 401 else headers


class ProblemInside(BaseModel):
    """What went wrong, for a program and for a person."""

    kind: str = Field(description="one of: " + ", ".join(STATUS), examples=["bad_input"])
    message: str = Field(description="the field, the value, the way out", examples=["text: 200000 characters: over …"])


class ProblemBody(BaseModel):
    """An error."""

    error: ProblemInside = Field(description="what went wrong")


def responses(
    *kinds: str, model: type[BaseModel] = ProblemBody, say: Callable[[Problem], dict[str, Any]] = Problem.body
) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the errors that a route can answer with.

    Args:
        kinds: those that not every route has.
        model: their shape.
        say: brings one into that shape.
    """
    by_status: dict[int | str, list[str]] = {}
    for kind in (*kinds, "bad_input", "no_key", "forbidden", "too_many", "unavailable"):
        by_status.setdefault(STATUS[kind], []).append(kind)
    return {
        status: {
            "model": model,
            "description": "error: " + " or ".join(dict.fromkeys(named)),
            "content": {"application/json": {"example": say(Problem(named[0], EXAMPLES[named[0]]))}},
        }
        for status, named in sorted(by_status.items(), key=lambda each: str(each[0]))
    }
