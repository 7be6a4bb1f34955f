"""Signing in to the desk, and out; with a word on what one will see."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tribunal.errors import Problem
from tribunal.service.desk.pages import redirect_to, render_page
from tribunal.service.desk.sessions import DeskSessionStore, csrf_token
from tribunal.service.desk.visits import (
    AnyVisit,
    Cookies,
    caller_from_proxy,
    clean_name,
    desk_role,
    find_session,
    may_enter,
    read_form,
)
from tribunal.service.replica.keys import OPERATOR, Caller, has_keys
from tribunal.service.routes.access import check_origin, find_key_owner, replica_of

router = APIRouter()
_CAME = "came"  # the cookie that the form of the sign-in is held to


@router.get("")
async def redirect_to_queue(visit: AnyVisit) -> Response:
    """Redirect to the queue, with which the desk begins."""
    return visit.go("/queue")


@router.get("/sign-in")
async def show_sign_in(request: Request, next: str = "") -> Response:
    """Show the form to sign in."""
    check_origin(request)
    return await _render_sign_in(request, safe_next_page(next))


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session. A key is looked up as those of requests are, and then forgotten."""
    check_origin(request)
    form = await read_form(request)
    replica = replica_of(request)
    cookies = Cookies(request)
    came = cookies.read(_CAME)
    next = safe_next_page(form.get("next", ""))
    named = clean_name(form.get("named", ""))
    sessions = DeskSessionStore(replica.store, replica.options)
    try:
        if not came or not secrets.compare_digest(
            form.get("csrf", "").encode(), csrf_token(came).encode()
        ):
            raise Problem("forbidden", "This form expired. Please send it again.")
        who = caller_from_proxy(request) or await _caller_by_key(
            request, sessions, form.get("key", "")
        )
        if desk_role(who) is None:
            scopes = ", ".join(who.scopes)
            message = (
                f"This key has the scopes {scopes}. The desk needs review, lead, audit or admin."
            )
            raise Problem("forbidden", message)
    except Problem as problem:
        return await _render_sign_in(request, next, problem, named)
    before = await find_session(request)
    if before is not None:
        await sessions.end_session(before)
    token = await sessions.begin_session(who, None if who.proxied else named or None)
    answer = redirect_to(request, next)
    cookies.write(answer, "desk", token)
    cookies.delete(answer, _CAME)
    return answer


@router.post("/sign-out")
async def sign_out(visit: AnyVisit) -> Response:
    """End the session."""
    await visit.sessions.end_session(visit.session)
    answer = visit.go("/sign-in")
    Cookies(visit.request).delete(answer, "desk")
    return answer


async def _caller_by_key(request: Request, sessions: DeskSessionStore, key: str) -> Caller:
    """Return whose key it is; without one, on this machine and while there is no key, the operator.

    Raises:
        Problem: it isn't valid, or too many weren't.
    """
    replica = replica_of(request)
    address = request.client.host if request.client else "here"
    if not key.strip() and await has_keys(replica.store):
        raise Problem("no_key", "Enter a key. It begins with tribunal_.")
    await sessions.count_key_attempt(address)
    try:
        who = await find_key_owner(request, key)
    except Problem:
        raise Problem("no_key", "This key is not valid. Ask your administrator for one.") from None
    if not may_enter(request, who):
        raise Problem(
            "no_key",
            "From another machine a key is needed. Make one with: tribunal service keys add",
        )
    await sessions.count_key_attempt(address, -1)
    return who


async def _render_sign_in(
    request: Request, next: str, problem: Problem | None = None, named: str = ""
) -> Response:
    cookies = Cookies(request)
    proxied = caller_from_proxy(request)
    came = cookies.read(_CAME) or secrets.token_urlsafe(32)
    free = (
        proxied is None
        and not await has_keys(replica_of(request).store)
        and may_enter(request, OPERATOR)
    )
    answer = render_page(
        request, "sign_in.html.jinja", problem.status if problem else 200, title="Sign in", next=next,
        wrong=problem.message if problem else "", free=free, proxied=proxied, named=named, csrf=csrf_token(came),
    )  # fmt: skip
    if problem is not None and problem.retry_after is not None:
        answer.headers["Retry-After"] = str(problem.retry_after)
    cookies.write(answer, _CAME, came)
    return answer


def safe_next_page(next: str) -> str:
    """Return the page of the desk to go to after signing in; the queue where the address leads elsewhere."""
    plain = next.startswith("/") and next.isprintable() and "\\" not in next
    return next if plain and not next.startswith(("//", "/sign-")) else "/queue"
