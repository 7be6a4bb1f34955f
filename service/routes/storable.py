"""Holding what a request brings to what both databases take, before anything is read, stored or paid."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

from tribunal.cases.problem import Problem
from tribunal.text import one_line, parse_json, wellformed

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# How each begins in JSON. Nearly every body has none, and isn't looked through.
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|NaN|Infinity|[eE]\+?\d{3}|\d{19}")
_MOST = 2**63  # what an integer of a database may come near to
_KEPT_HEADERS = ("idempotency-key",)


def check_parameters(request: Request) -> None:
    """Check the address of a request and its headers that are kept; raise Problem as `check_storable`."""
    check_texts(request.query_params.multi_items())
    check_texts((name, request.headers.get(name, "")) for name in _KEPT_HEADERS)


async def check_json_body(request: Request) -> None:
    """Check a body of JSON; raise Problem as `check_storable`. One that isn't JSON is left to the route."""
    body = await request.body()
    if _SUSPECT.search(body):
        try:
            content = parse_json(body)
        except ValueError:
            return
        check_storable(content)


def check_texts(named: Iterable[tuple[str, str]]) -> None:
    """Check texts, each with its name; raise Problem as `check_storable`."""
    for name, value in named:
        check_storable(name)
        check_storable(value, name)


def check_storable(value: Any, field: str = "") -> None:
    """Check a value as JSON has it, with all that is in it.

    Raises:
        Problem: a text holds NUL or half of a surrogate pair, or a number is none or too large; with the field's name.
    """
    pending = [(field, value)]
    while pending:
        name, each = pending.pop()
        if isinstance(each, str):
            if found := _UNSTORABLE.search(each):
                raise _problem(name, f"holds U+{ord(found[0]):04X}, which no database takes; leave it out")
        elif isinstance(each, dict):
            for key, held in each.items():
                inside = f"{name}.{key}" if name else key
                pending += [(inside, key), (inside, held)]
        elif isinstance(each, list):
            pending += [(f"{name}.{place}", held) for place, held in enumerate(each)]
        elif isinstance(each, float) and not math.isfinite(each):
            raise _problem(name, f"{each}: is no number that JSON has; give another")
        elif isinstance(each, int) and not -_MOST <= each < _MOST:
            raise _problem(name, "is an integer of over 64 bits; give a smaller one")


def _problem(field: str, why: str) -> Problem:
    shown = one_line(wellformed(field)).strip(".")[:80]
    return Problem("bad_input", f"{shown or 'body'}: {why}")
