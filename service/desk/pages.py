"""A page of the desk, from its template: whatever is put into it is a stranger's words until it is escaped.

Every text passes through `visible`, so that nothing hides or turns around what is read, and is then escaped by Jinja. A
page runs one script and has one stylesheet, both our own files; it loads nothing else, and says so to the browser.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment

from tribunal.core.templates import make_template_environment, visible_value
from tribunal.core.text import count_noun
from tribunal.core.times import format_duration, format_time, format_time_left
from tribunal.errors import Problem
from tribunal.explanations.case_drawing import stylesheet
from tribunal.explanations.deciders import read_reason

router = APIRouter()
DESK = "/desk"
# A page runs scripts and has stylesheets of our own files; it loads nothing else, and says so to the browser.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a form of ours would be sent with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
ASSETS = ("desk.css", "desk.js", "icon.svg", "try.css", "try.js")
# of a file with its hash in its name
_KEPT_LONG = {"Cache-Control": "public, max-age=31536000, immutable"}
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def desk_address(request: Request, path: str = "") -> str:
    """Return the address of a page of the desk, behind whatever path the service stands at."""
    return f"{request.scope.get('root_path', '')}{DESK}{path}"


def render_page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page from its template, with a `title` and whatever else the template shows."""
    variables = {"desk": desk_address(request), "visit": None, "here": "", "said": None, **context}
    return HTMLResponse(
        _template_environment().get_template(template).render(variables), status, HEADERS
    )


def redirect_to(request: Request, path: str) -> RedirectResponse:
    """Redirect the browser to another page of the desk, with GET."""
    return RedirectResponse(desk_address(request, path), 303, HEADERS)


def render_problem(
    request: Request, problem: Problem, typed: Mapping[str, str] | None = None
) -> Response:
    """Return a page that says what went wrong, with what somebody had typed."""
    page = render_page(
        request, "problem.html.jinja", problem.status, title="", problem=problem, typed=typed or {}
    )
    if problem.retry_after is not None:
        page.headers["Retry-After"] = str(problem.retry_after)
    return page


@router.get("/assets/{name}")
async def serve_asset(name: str) -> Response:
    """Serve a file by its name with the hash of its content in it, so a browser may keep it."""
    stem, _, kind = name.rpartition(".")
    plain = f"{stem.partition('.')[0]}.{kind}"
    if plain not in ASSETS:
        raise Problem("not_found", "file not found")
    return Response(
        _read_asset(plain), media_type=_MEDIA_TYPES[kind], headers={**HEADERS, **_KEPT_LONG}
    )


@cache
def _read_asset(name: str) -> bytes:
    """Return a script, an icon, or a stylesheet with that of cases in it."""
    content = files(__package__).joinpath(name).read_bytes()
    return content + stylesheet().encode() if name.endswith(".css") else content


@cache
def _asset_name(name: str) -> str:
    """Return the name under which a page loads a file: it changes with the content, so that browsers may keep it."""
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(_read_asset(name)).hexdigest()[:16]}.{kind}"


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
async def answer_unknown_page(rest: str) -> Response:
    """Say that there is no such page."""
    raise Problem("not_found", "this address does not exist")


@cache
def _template_environment() -> Environment:
    environment = make_template_environment(
        lambda name: files(__package__).joinpath("templates", name).read_text("utf-8"),
        visible_value,
    )
    environment.filters["readable"] = _readable_name
    environment.filters |= {"when": format_time, "duration": format_duration, "reason": read_reason}
    environment.globals |= {
        "count_noun": count_noun,
        "time_left": format_time_left,
        "asset": _asset_name,
    }
    return environment


def _readable_name(name: str) -> str:
    """Return the name of a category in words: OtherHate is Other hate."""
    return re.sub(r"(?<=[a-z])[A-Z](?=[a-z])", lambda match: f" {match[0].lower()}", name)


def parse_days(given: Mapping[str, str]) -> dict[str, float]:
    """Return the times from the begin of the day `since` to the end of the day `until`, those of them that are given.

    Raises:
        Problem: one is no date.
    """
    times: dict[str, float] = {}
    for name, days in (("since", 0), ("until", 1)):  # both days count
        if given[name]:
            try:
                day = datetime.strptime(given[name], "%Y-%m-%d").replace(tzinfo=UTC)
            except ValueError:
                raise Problem(
                    "bad_input", f"{name}: {given[name][:40]}: is no date; write it as 2026-11-22"
                ) from None
            times[name] = day.timestamp() + days * 86_400
    return times
