"""Who may do what: every route names the scope that it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, cast

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPAuthorizationCredentials, HTTPBearer

from tribunal.service.replica.house import House
from tribunal.service.replica.keys import Caller, Scope, caller, count_request
from tribunal.service.replica.problems import Problem

_bearer = HTTPBearer(auto_error=False, description="a key made by `tribunal keys add`")
_header = APIKeyHeader(name="X-API-Key", auto_error=False)
_query = APIKeyQuery(name="key", auto_error=False)


def house_of(request: Request) -> House:
    return cast("House", request.app.state.house)


Here = Annotated[House, Depends(house_of)]


def a(scope: Scope, *, in_query: bool = False) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, who has this scope.

    Args:
        scope: what the route asks for.
        in_query: whether the key may stand in the address, as clients of the Perspective API send it.
    """

    async def checked(
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)] = None,
        header: Annotated[str | None, Security(_header)] = None,
        query: Annotated[str | None, Security(_query)] = None,
    ) -> Caller:
        given = (bearer.credentials if bearer else None) or header or (query if in_query else None)
        house = house_of(request)
        who = await caller(house.store, given)
        if not who.may(scope):
            raise Problem("forbidden", f"this key's scopes are {', '.join(who.scopes)}; this wants {scope}")
        await count_request(house.store, who)
        return who

    return checked


Judge = Annotated[Caller, Depends(a("judge"))]
Auditor = Annotated[Caller, Depends(a("audit"))]
