"""Access to routes: every route names the scope that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response, Security
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPAuthorizationCredentials, HTTPBearer

from tribunal.errors import Problem
from tribunal.service.replica.keys import (
    OPERATOR,
    SCOPES,
    Caller,
    KeyRefused,
    Scope,
    count_request,
    find_caller,
)
from tribunal.service.replica.replica import LOOPBACK, Replica
from tribunal.service.routes.parameters import JSON_TYPE, is_json_type, media_type_of, wrong_type
from tribunal.service.routes.storable import repair_json_body, repair_query

_CALLER = "tribunal.caller"
PEER = "tribunal.peer"  # in the state of a request: the address that its connection comes from
_bearer = HTTPBearer(auto_error=False, description="a key made by `tribunal service keys add`")
_header = APIKeyHeader(name="X-API-Key", auto_error=False)
_query = APIKeyQuery(name="key", auto_error=False)


def replica_of(request: Request) -> Replica:
    """Return the replica that answers a request."""
    return cast("Replica", request.app.state.replica)


async def _current_replica(request: Request) -> Replica:
    # a dependency that is no coroutine function would be called in a thread
    return replica_of(request)


CurrentReplica = Annotated[Replica, Depends(_current_replica)]


def host_of(request: Request) -> str:
    """Return the host that a request names, without its port."""
    return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").rstrip(".")


def may_be_operator(request: Request) -> bool:
    """Return whether a request without a key may be the operator's.

    It comes from this machine (one by a proxy on it comes from whom the proxy names), and asks for it by its own name,
    so that no page of a site whose name was pointed here can send it from a browser.
    """
    if request.client is None:
        return True  # by a socket of the file system
    try:
        return ip_address(request.client.host).is_loopback and host_of(request) in LOOPBACK
    except ValueError:
        return False


def check_origin(request: Request) -> None:
    """See that no page of another site sends it, not even one of another port of this machine.

    Raises:
        Problem: one does.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    ours = {f"{request.url.scheme}://{request.headers.get('host', '')}"}
    public = replica_of(request).options.public_url
    if public:
        there = urlsplit(public)
        ours.add(f"{there.scheme}://{there.netloc}")
    if origin is not None:
        foreign = origin not in ours
    elif request.method in ("GET", "HEAD"):
        foreign = (
            site in ("cross-site", "same-site")
            and request.headers.get("sec-fetch-mode") != "navigate"
        )
    else:
        foreign = site != "same-origin"
    if foreign:
        raise Problem(
            "forbidden",
            "the request came from another site, or the proxy changes Host: set --public-url",
        )


async def find_key_owner(request: Request, key: str | None) -> Caller:
    """Return whose key this is; if it is refused, note in the request's state why, for the log and the metrics.

    Raises:
        Problem: as `find_caller`.
    """
    try:
        return await find_caller(replica_of(request).store, key)
    except KeyRefused as refused:
        request.state.key_id = refused.key_id
        request.state.key_refused = refused.reason
        raise


class Access:
    """A dependency: the caller, who has one of these scopes."""

    def __init__(self, *scopes: Scope, in_query: bool = False, free: bool = True) -> None:
        """Say who may use a route.

        Args:
            scopes: what the route asks for.
            in_query: whether the key may stand in the address, as clients of the Perspective API send it.
            free: the route spends nothing, so a key whose budget is spent may still use it.
        """
        self._scopes = scopes
        self._in_query = in_query
        self._free = free

    async def __call__(
        self,
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)] = None,
        header: Annotated[str | None, Security(_header)] = None,
        query: Annotated[str | None, Security(_query)] = None,
    ) -> Caller:
        """Return whom `KeyFirst` has found out. The keys are named here for OpenAPI."""
        return cast("Caller", request.scope[_CALLER])

    async def caller(self, request: Request) -> Caller:
        """Return who asks, and count the request.

        Raises:
            Problem: their key isn't valid, has another scope, or may ask no more now.
        """
        bearer = await _bearer(request)
        header = await _header(request)
        query = await _query(request)
        key = (
            (bearer.credentials if bearer else None)
            or header
            or (query if self._in_query else None)
        )
        replica = replica_of(request)
        who = await find_key_owner(request, key)
        if who is OPERATOR and not may_be_operator(request):
            raise Problem(
                "no_key",
                "from elsewhere, or by a name other than localhost, give a key: tribunal service keys add",
            )
        if who is OPERATOR and ("origin" in request.headers or "sec-fetch-site" in request.headers):
            # a browser sent it: no page of another site may spend what needs no key here
            check_origin(request)
        request.state.key_id = who.key_id
        if not any(map(who.may, self._scopes)):
            needed = " or ".join(self._scopes)
            raise Problem(
                "forbidden", f"this key's scopes are {', '.join(who.scopes)}; this needs {needed}"
            )
        await count_request(replica.store, who, free=self._free)
        return who


class ScraperAccess(Access):
    """Access to the metrics, which the operator may have opened to everybody."""

    async def caller(self, request: Request) -> Caller:
        """Return who asks. As `Access.caller`."""
        is_open = replica_of(request).options.open_metrics
        return OPERATOR if is_open else await super().caller(request)


class KeyFirst(APIRoute):
    """A route that looks who asks before it reads what they send, which FastAPI does the other way round.

    What neither database takes of it is then repaired.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()
        described = (self.openapi_extra or {}).get("requestBody", {}).get("content", {})
        takes_json = self.body_field is not None or JSON_TYPE in described
        checks = [
            each.call for each in self.dependant.dependencies if isinstance(each.call, Access)
        ]

        async def handle(request: Request) -> Response:
            repair_query(request)
            for check in checks:
                request.scope[_CALLER] = await check.caller(request)
            media_type = media_type_of(request)
            if is_json_type(media_type) and takes_json:
                request = await repair_json_body(request)
            if self.body_field is not None and not is_json_type(media_type):
                raise wrong_type(media_type, JSON_TYPE)
            try:
                return await handler(request)
            except HTTPException as error:
                if (
                    error.status_code == 400 and error.__cause__ is not None
                ):  # FastAPI's own words name no reason
                    raise Problem(
                        "bad_input", "body: is not JSON in UTF-8, or is nested too deeply"
                    ) from None
                raise

        return handle


Judge = Annotated[Caller, Depends(Access("judge", free=False))]
Owner = Annotated[Caller, Depends(Access("judge"))]
Reader = Annotated[Caller, Depends(Access("judge", "review", "audit"))]
Appellant = Annotated[Caller, Depends(Access("judge", "review"))]
Reviewer = Annotated[Caller, Depends(Access("review"))]
Lead = Annotated[Caller, Depends(Access("lead"))]
Finder = Annotated[Caller, Depends(Access("review", "audit"))]
Retrier = Annotated[Caller, Depends(Access("judge", "lead", free=False))]
Overseer = Annotated[Caller, Depends(Access("lead", "audit"))]
KeyHolder = Annotated[Caller, Depends(Access(*SCOPES))]
Auditor = Annotated[Caller, Depends(Access("audit"))]
Admin = Annotated[Caller, Depends(Access("admin"))]
Scraper = Annotated[Caller, Depends(ScraperAccess("audit", free=False))]
