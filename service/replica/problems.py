"""What a request can go wrong with, as one shape: `{"error": {"kind", "message"}}`."""

from __future__ import annotations

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
    "unavailable": 503,
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
        return {**headers, "WWW-Authenticate": "Bearer"} if self.status == 401 else headers


class ProblemInside(BaseModel):
    """What went wrong, for a program and for a person."""

    kind: str = Field(description="one of: " + ", ".join(STATUS), examples=["bad_input"])
    message: str = Field(description="the field, the value, the way out", examples=["text: 200000 characters: over …"])


class ProblemBody(BaseModel):
    """An error."""

    error: ProblemInside = Field(description="what went wrong")


def responses(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the errors that a route can answer with."""
    by_status: dict[int | str, list[str]] = {}
    for kind in (*kinds, "bad_input", "no_key", "forbidden", "too_many", "unavailable"):
        by_status.setdefault(STATUS[kind], []).append(kind)
    return {
        status: {"model": ProblemBody, "description": "error: " + " or ".join(dict.fromkeys(named))}
        for status, named in sorted(by_status.items(), key=lambda each: str(each[0]))
    }
