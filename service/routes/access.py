"""Who may do what: every route names the scope that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response, Security
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPAuthorizationCredentials, HTTPBearer

from tribunal.service.replica.house import LOOPBACK, House
from tribunal.service.replica.keys import OPERATOR, Caller, Scope, caller, count_request
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem
from tribunal.service.routes.bodies import JSON_KIND, is_json, kind_of

_CALLER = "tribunal.caller"
PEER = "tribunal.peer"  # in the state of a request: the address that its connection comes from
_bearer = HTTPBearer(auto_error=False, description="a key made by `tribunal keys add`")
_header = APIKeyHeader(name="X-API-Key", auto_error=False)
_query = APIKeyQuery(name="key", auto_error=False)


def house_of(request: Request) -> House:
    return cast("House", request.app.state.house)


async def _here(request: Request) -> House:
    return house_of(request)  # a dependency that is no coroutine function would be called in a thread


Here = Annotated[House, Depends(_here)]


def from_here(request: Request) -> bool:
    """Whether a request comes from this machine; one by a proxy on it comes from whom the proxy names."""
    if request.client is None:
        return True  # by a socket of the file system
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def host_of(request: Request) -> str:
    """The host that a request names, without its port."""
    return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").rstrip(".")


def may_be_operator(request: Request) -> bool:
    """Whether a request without a key may be the operator's: it comes from this machine, and asks for it by its own
    name, so that no page of a site whose name was pointed here can send it from a browser."""
    if request.client is None:
        return True
    return from_here(request) and host_of(request) in LOOPBACK


class Access:
    """A dependency: the caller, who has one of these scopes."""

    def __init__(
        self,
        *scopes: Scope,
        in_query: bool = False,
        free: bool = False,
        open_if: Callable[[ServiceOptions], bool] | None = None,
    ) -> None:
        """
        Args:
            scopes: what the route asks for.
            in_query: whether the key may stand in the address, as clients of the Perspective API send it.
            free: the route spends nothing, so a key whose budget is spent may still use it.
            open_if: when the operator has opened the route to everybody.
        """
        self._scopes, self._in_query, self._free, self._open_if = scopes, in_query, free, open_if

    async def __call__(
        self,
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)] = None,
        header: Annotated[str | None, Security(_header)] = None,
        query: Annotated[str | None, Security(_query)] = None,
    ) -> Caller:
        """Who `KeyFirst` has found out. The keys are named here for OpenAPI."""
        return cast("Caller", request.scope[_CALLER])

    async def caller(self, request: Request) -> Caller:
        """Who asks; the request is counted.

        Raises:
            Problem: their key isn't valid, has another scope, or may ask no more now.
        """
        bearer, header, query = await _bearer(request), await _header(request), await _query(request)
        given = (bearer.credentials if bearer else None) or header or (query if self._in_query else None)
        house = house_of(request)
        if self._open_if is not None and self._open_if(house.options):
            return OPERATOR
        who = await caller(house.store, given)
        if who is OPERATOR and not may_be_operator(request):
            raise Problem(
                "no_key", "others than this machine, and other names than localhost, want a key: tribunal keys add"
            )
        request.state.key_id = who.key_id
        if not any(map(who.may, self._scopes)):
            wanted = " or ".join(self._scopes)
            raise Problem("forbidden", f"this key's scopes are {', '.join(who.scopes)}; this wants {wanted}")
        await count_request(house.store, who, free=self._free)
        return who


class KeyFirst(APIRoute):
    """A route that looks who asks before it reads what they send, which FastAPI does the other way round."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        answers = super().get_route_handler()
        checks = [each.call for each in self.dependant.dependencies if isinstance(each.call, Access)]

        async def handle(request: Request) -> Response:
            for check in checks:
                request.scope[_CALLER] = await check.caller(request)
            kind = kind_of(request)
            if self.body_field is not None and not is_json(kind):
                raise Problem("wrong_type", f"Content-Type: {kind[:80] or 'none'}: send {JSON_KIND}")
            try:
                return await answers(request)
            except HTTPException as error:
                if error.status_code == 400 and error.__cause__ is not None:  # FastAPI's own words name no reason
                    raise Problem("bad_input", "body: is not JSON in UTF-8, or is nested too deeply") from None
                raise

        return handle


Judge = Annotated[Caller, Depends(Access("judge"))]
Owner = Annotated[Caller, Depends(Access("judge", free=True))]
Reader = Annotated[Caller, Depends(Access("judge", "review", "audit", free=True))]
Appellant = Annotated[Caller, Depends(Access("judge", "review", free=True))]
Reviewer = Annotated[Caller, Depends(Access("review", free=True))]
Lead = Annotated[Caller, Depends(Access("lead", free=True))]
Finder = Annotated[Caller, Depends(Access("review", "audit", free=True))]
Overseer = Annotated[Caller, Depends(Access("lead", "audit", free=True))]
Auditor = Annotated[Caller, Depends(Access("audit", free=True))]
Admin = Annotated[Caller, Depends(Access("admin", free=True))]
