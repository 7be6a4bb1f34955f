"""Visits to the desk: by a session, and never by another site's page; and the pages that a role sees.

Every request is held to where it comes from, and every form to what only a page of this session holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from hmac import compare_digest
from ipaddress import ip_address
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from tribunal.core.text import wellformed
from tribunal.core.times import database_now
from tribunal.docket.waiting_cases import claim_seconds_left, names_of_person
from tribunal.errors import Problem
from tribunal.schema import Frozen
from tribunal.service.desk.pages import desk_address, redirect_to, render_page, render_problem
from tribunal.service.desk.sessions import DeskSession, DeskSessionStore
from tribunal.service.replica.keys import Caller, Scope, count_request
from tribunal.service.replica.replica import LOOPBACK
from tribunal.service.routes.access import PEER, check_origin, host_of, may_be_operator, replica_of
from tribunal.service.routes.parameters import media_type_of

Role = Literal["reviewer", "lead", "auditor"]
EVERYBODY: tuple[Role, ...] = ("reviewer", "lead", "auditor")
MOST_WORDS = 10_000  # characters of a note, a question or a reason
# Fields that hold a person's own words, or what they chose.
TYPED_FIELDS = ("note", "question", "category", "canned", "clauses", "words", "reason", "context")
_FORM = "application/x-www-form-urlencoded"
_SCOPES: dict[Role, Scope] = {"lead": "lead", "reviewer": "review", "auditor": "audit"}


class NavigationTab(NamedTuple):
    """An entry of the navigation: what it says, where it leads (below /desk), and for whom it is."""

    name: str
    path: str
    roles: tuple[Role, ...] = EVERYBODY


# A page's own `here` is the path of its tab.
TABS = (
    NavigationTab("Queue", "/queue"),
    NavigationTab("Search", "/search"),
    NavigationTab("Appeals", "/appeals"),
    NavigationTab("Second opinions", "/second-opinions", ("reviewer", "lead")),
    NavigationTab("Board", "/board", ("lead", "auditor")),
)


def desk_role(caller: Caller) -> Role | None:
    """Return what a caller is at the desk, by the scopes of their key; None: it isn't for them."""
    return next((role for role, scope in _SCOPES.items() if caller.may(scope)), None)


# Why a case was not decided together with another one.
LEFT_OUT = {
    "decided": "it was decided already",
    "claimed": "somebody else has claimed it",
    "escalated": "it waits for a lead",
    "changed": "it ran again or changed meanwhile",
    "unlike": "the model's verdict on it is another one",
    "no_verdict": "the model gave no verdict on it to accept",
    "category": "its policy has no such category or clause",
}


def name_post(row: Mapping[str, Any]) -> str:
    """Return what the platform calls the post of a case; the case's id where it gave none."""
    return str(row["post_id"] or row["id"])


def _word_or(name: str, otherwise: str) -> str:
    """Return a name that an address gives if it is one word, so that nobody's sentence stands in a message."""
    return name if re.fullmatch(r"\S+", name) else otherwise


class SignInRequired(Exception):
    """Nobody is signed in, or not any more. `typed` is what they had typed into a form."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        """Keep what was typed."""
        super().__init__("nobody is signed in")
        self.typed = {name: typed[name] for name in TYPED_FIELDS if typed.get(name, "").strip()}


async def redirect_to_sign_in(request: Request, error: Exception) -> Response:
    """Have them sign in, and come back; what they had typed stands on the page."""
    assert isinstance(error, SignInRequired)  # noqa: S101 (what it is registered for)
    if request.method != "GET":
        return render_problem(
            request,
            Problem("no_key", "Your session ended. Sign in and send it again."),
            error.typed,
        )
    path = request.url.path.removeprefix(desk_address(request))
    query = f"?{request.url.query}" if request.url.query else ""
    next = f"?next={quote(path + query, safe='')}" if path not in ("", "/") else ""
    return redirect_to(request, f"/sign-in{next}")


class FormResult(Frozen):
    """Result of a form that was sent to a page: what was done, or what is wrong, and what was typed."""

    said: str | None = None
    wrong: str | None = None
    status: int = 200
    typed: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def from_error(cls, error: Exception, form: dict[str, str], about: str = "") -> FormResult:
        """Return what went wrong as a sentence; `about` is what the page is about and need not be named."""
        text = str(error).removeprefix(about).removeprefix("answer: ")
        status = error.status if isinstance(error, Problem) else 400
        return cls(wrong=f"{text[:1].upper()}{text[1:]}.", status=status, typed=form)


class DeskVisit:
    """A request of somebody who is signed in.

    Attributes:
        request: theirs.
        session: who they are.
        person: their name, as records and the audit log have it.
        who: who they are by their key, for the audit log.
        role: reviewer, lead or auditor.
        form: the fields of a POST.
        replica: the replica that answers.
        decides: whether they may decide on cases; an auditor only reads.
        leads: whether they may decide what was escalated.
        sees_all: whether they see every case, and not only those that a person has to decide or has decided.
    """

    def __init__(
        self, request: Request, session: DeskSession, role: Role, form: dict[str, str]
    ) -> None:
        """Keep who visits and what they sent."""
        self.request = request
        self.session = session
        self.role = role
        self.form = form
        self.replica = replica_of(request)
        self.sessions = DeskSessionStore(self.replica.store, self.replica.options)
        self.person = session.person
        self.who = session.who.audit_actor
        self.decides = role != "auditor"
        self.leads = role == "lead"
        self.sees_all = role != "reviewer" or session.who.may("audit")

    @property
    def display_name(self) -> str:
        """Return their name without that of their key, which they share with others."""
        return self.person.removesuffix(f" ({self.session.who.name})")

    @property
    def blurs_texts(self) -> bool:
        """Return whether the texts of posts are blurred in this browser until they ask for them."""
        return Cookies(self.request).read("blur") == "1"

    @property
    def hides_verdicts(self) -> bool:
        """Return whether they see the model verdict of a case only once they have decided it."""
        return self.decides and self.replica.options.desk_verdict == "after"

    def desk_address(self, path: str) -> str:
        """Return the address of a page of the desk."""
        return desk_address(self.request, path)

    def parameter(self, name: str, longest: int = 80) -> str:
        """Return a parameter of the address, cut where it is too long."""
        return wellformed(self.request.query_params.get(name, "")).strip()[:longest]

    def text(self, name: str) -> str:
        """Return the words of a field of the form."""
        return self.form.get(name, "").strip()

    def check_lengths(self) -> None:
        """Check that no field of the form is too long; raise Problem if one is."""
        for name in TYPED_FIELDS:
            if len(self.form.get(name, "")) > MOST_WORDS:
                raise Problem(
                    "bad_input", f"{name}: is over {MOST_WORDS:,} characters; make it shorter"
                )

    def claim_of(self, row: Mapping[str, Any]) -> tuple[bool, bool]:
        """Return whether somebody has claimed a row now, and whether it is this person."""
        claimed = row["claimed_by"] is not None and claim_seconds_left(row["claimed_until"]) > 0
        return claimed, claimed and row["claimed_by"] in names_of_person(self.person)

    def undoable(self) -> tuple[str, int]:
        """Return the ids of the cases that were just decided, by commas, and for how many seconds that can be undone.

        As the address says it: whether it still can be is seen when it is tried.
        """
        ids = self.parameter("undo", 4000)
        until = self.parameter("until")
        left = int(until) - int(database_now()) if until.isdecimal() else 0
        return (ids, left) if re.fullmatch(r"[\w,-]+", ids) and left > 0 else ("", 0)

    def picked_cases(self) -> list[str]:
        """Return the ids of the cases that were ticked in the queue beside this one, as the address names them."""
        return [
            each
            for each in self.parameter("also", 4000).split(",")
            if re.fullmatch(r"[\w-]+", each)
        ]

    def case_before(self) -> str:
        """Return the name of the post that something was done with on the page before, as the address has it."""
        return _word_or(self.parameter("about"), "the case")

    def cases_left_out(self) -> list[tuple[str, str]]:
        """Return which posts were not decided with the one before, as the address names them, and why."""
        lines = (line.partition(":") for line in self.parameter("left_out", 2000).splitlines())
        return [
            (_word_or(name, "a case"), LEFT_OUT[code])
            for code, _, name in lines
            if code in LEFT_OUT
        ]

    def page(
        self, template: str, status: int = 200, result: FormResult | None = None, **context: Any
    ) -> HTMLResponse:
        """Return a page with the navigation, as `render_page` does; `here` is the path of its tab."""
        if result is not None:
            typed = {name: result.typed.get(name, "") for name in TYPED_FIELDS}
            status = result.status
            context = {"said": result.said, "wrong": result.wrong, "typed": typed, **context}
        return render_page(
            self.request, template, status, visit=self, tabs=TABS, now=database_now(), **context
        )

    def go(self, path: str) -> RedirectResponse:
        """Redirect the browser to another page, after a POST."""
        return redirect_to(self.request, path)


class RequireRole:
    """A dependency: the visit, of somebody who has one of these roles."""

    def __init__(self, *roles: Role) -> None:
        """Keep the roles that may enter; none: all of them."""
        self._roles = roles or EVERYBODY

    async def __call__(self, request: Request) -> DeskVisit:
        """Return the visit.

        Raises:
            SignInRequired: they have to sign in.
            Problem: it comes from elsewhere, isn't for their role, or their form isn't of their session.
        """
        check_origin(request)
        posted = request.method == "POST"
        form = await read_form(request) if posted else {}
        session = await find_session(request)
        if session is None or not may_enter(request, session.who):
            raise SignInRequired(form)
        request.state.key_id = session.who.key_id
        if posted and not compare_digest(form.pop("csrf", "").encode(), session.csrf.encode()):
            raise Problem(
                "forbidden",
                "this form belongs to another session; go back, reload the page, send it again",
            )
        role = desk_role(session.who)
        if role not in self._roles:
            raise Problem(
                "forbidden",
                f"this page is for {' or '.join(self._roles)}; your role is {role or 'none'}",
            )
        await count_request(replica_of(request).store, session.who, free=True)
        return DeskVisit(request, session, role, form)


AnyVisit = Annotated[DeskVisit, Depends(RequireRole())]
ReviewerVisit = Annotated[DeskVisit, Depends(RequireRole("reviewer", "lead"))]
LeadVisit = Annotated[DeskVisit, Depends(RequireRole("lead"))]
OverseerVisit = Annotated[DeskVisit, Depends(RequireRole("lead", "auditor"))]


async def find_session(request: Request) -> DeskSession | None:
    """Return the session of the browser that sends a request, or None if it has none that holds."""
    replica = replica_of(request)
    proxied = caller_from_proxy(request)
    token = Cookies(request).read("desk")
    return (
        await DeskSessionStore(replica.store, replica.options).find_session(token, proxied)
        if token
        else None
    )


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; the last counts where one is there twice.

    Raises:
        Problem: it is none.
    """
    if media_type_of(request) != _FORM:
        raise Problem("wrong_type", f"Content-Type: send {_FORM}")
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=100, errors="replace"
        )
    except ValueError:
        raise Problem("bad_input", "body: is no form in UTF-8") from None
    # A browser sends each line break as two characters.
    return {wellformed(name): wellformed(value).replace("\r\n", "\n") for name, value in pairs}


class Cookies:
    """The cookies of the desk, as a browser holds them: over https by that alone, and from this host."""

    def __init__(self, request: Request) -> None:
        """Look how the browser came."""
        public = replica_of(request).options.public_url or ""
        self._request = request
        self._https = request.url.scheme == "https" or (
            public.startswith("https://") and host_of(request) not in LOOPBACK
        )
        self._prefix = "__Host-tribunal-" if self._https else "tribunal-"
        # The prefix of https asks for the first path.
        self._options: dict[str, Any] = {
            "path": "/" if self._https else desk_address(request),
            "secure": self._https,
        }

    def read(self, name: str) -> str:
        """Return what a cookie holds; nothing if there is none."""
        return self._request.cookies.get(self._prefix + name, "")[:200]

    def write(self, answer: Response, name: str, value: str) -> None:
        """Have the browser hold a cookie."""
        answer.set_cookie(
            self._prefix + name, value, httponly=True, samesite="strict", **self._options
        )

    def delete(self, answer: Response, name: str) -> None:
        """Have the browser forget a cookie."""
        answer.delete_cookie(self._prefix + name, httponly=True, **self._options)


def caller_from_proxy(request: Request) -> Caller | None:
    """Return whom the trusted proxy names in this request; None where there is no such proxy, or it names nobody.

    Raises:
        Problem: its role is none of ours.
    """
    options = replica_of(request).options
    if not options.desk_user_header:
        return None
    named = [
        clean_name(_decode_header(each))
        for each in request.headers.getlist(options.desk_user_header)
    ]
    if len(named) != 1 or not named[0] or not _is_trusted_proxy(request):
        return None
    role: Role = options.desk_role
    if options.desk_role_header:
        headers = [
            each.strip().lower() for each in request.headers.getlist(options.desk_role_header)
        ]
        named_role = next((each for each in EVERYBODY if headers == [each]), None)
        if named_role is None:
            raise Problem(
                "forbidden",
                f"{options.desk_role_header}: the proxy names none of {', '.join(EVERYBODY)}",
            )
        role = named_role
    return Caller(key_id="", name=named[0], scopes=(_SCOPES[role],), proxied=True)


def clean_name(given: str) -> str:
    """Return a name as somebody or a proxy gives it: printable, on one line, not too long."""
    return " ".join("".join(each if each.isprintable() else " " for each in given).split())[:100]


def _decode_header(header: str) -> str:
    """Decode a header that a proxy wrote as UTF-8 and the server read as Latin-1."""
    with suppress(UnicodeDecodeError):
        return header.encode("latin-1").decode()
    return header


def _is_trusted_proxy(request: Request) -> bool:
    # Only our own server says who is at the other end; elsewhere `client` may be what a header says.
    try:
        peer = ip_address(getattr(request.state, PEER, ""))
    except ValueError:
        return False
    return any(peer in network for network in replica_of(request).options.desk_proxy or ())


def may_enter(request: Request, who: Caller) -> bool:
    """Return whether somebody may come in: with a key, by a trusted proxy, or as the operator (`may_be_operator`)."""
    return bool(who.key_id) or who.proxied or may_be_operator(request)
