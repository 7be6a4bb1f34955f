"""Repair what both databases can't take of a request, before anything is read, stored or paid.

NUL and half a surrogate pair are replaced by U+FFFD, as at every other door (`tribunal.core.text.wellformed`), so that
an author can't make a post unjudgeable; the record of a post tells of it. Numbers that no database takes are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from starlette.requests import Request
from starlette.types import Message

from tribunal.core.text import one_line, parse_json, wellformed, wellformed_json
from tribunal.errors import Problem

# How each begins in JSON. Nearly every body has none, and isn't looked through.
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|NaN|Infinity|[eE]\+?\d{3}|\d{19}")
_MOST = 2**63  # what an integer of a database may come near to
_KEPT_HEADERS = ("idempotency-key",)


def repair_query(request: Request) -> None:
    """Repair the query string of a request; raise Problem if a header that is kept holds NUL, as no author's can."""
    query: bytes = request.scope.get("query_string", b"")
    request.scope["query_string"] = query.replace(b"%00", b"%EF%BF%BD")
    for name in _KEPT_HEADERS:
        if "\0" in request.headers.get(name, ""):
            raise _problem(name, "holds U+0000, which no database takes; leave it out")


async def repair_json_body(request: Request) -> Request:
    """Return a request whose body of JSON is repaired; one that isn't JSON is left to the route.

    Raises:
        Problem: as `check_numbers`.
    """
    body = await request.body()
    if not _SUSPECT.search(body):
        return request
    try:
        content = parse_json(body)
    except ValueError:
        return request
    check_numbers(content)
    repaired = json.dumps(wellformed_json(content)).encode()
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            return await request.receive()
        is_sent = True
        return {"type": "http.request", "body": repaired, "more_body": False}

    return Request(request.scope, receive)


def check_numbers(value: Any, field: str = "") -> None:
    """Check a value as JSON has it, with all that is in it.

    Raises:
        Problem: a number is none or too large; with the field's name.
    """
    pending = [(field, value)]
    while pending:
        name, each = pending.pop()
        if isinstance(each, dict):
            pending += [(f"{name}.{key}" if name else key, held) for key, held in each.items()]
        elif isinstance(each, list):
            pending += [(f"{name}.{place}", held) for place, held in enumerate(each)]
        elif isinstance(each, float) and not math.isfinite(each):
            raise _problem(name, f"{each}: is no number that JSON has; give another")
        elif isinstance(each, int) and not -_MOST <= each < _MOST:
            raise _problem(name, "is an integer of over 64 bits; give a smaller one")


def _problem(field: str, why: str) -> Problem:
    shown = one_line(wellformed(field)).strip(".")[:80]
    return Problem("bad_input", f"{shown or 'body'}: {why}")
