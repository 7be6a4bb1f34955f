"""Open a LangGraph server to the API keys of `tribunal service keys`. Each key reaches only its own threads.

In langgraph.json: "auth": {"path": "./auth.py:auth", "disable_studio_auth": true}.
"""

import asyncio
import os
from typing import Any

from langgraph_sdk import Auth
from sqlalchemy.exc import SQLAlchemyError

from tribunal.errors import BadInput, Problem
from tribunal.service.replica.keys import KeyLimits, find_caller
from tribunal.store.engine import Store

auth = Auth()
_lock = asyncio.Lock()
_open_stores: list[Store] = []


async def _key_store() -> Store:
    """Return the database with the keys. Each process opens it once."""
    async with _lock:
        if not _open_stores:
            _open_stores.append(await Store.open(os.environ.get("TRIBUNAL_DATABASE") or None))
        return _open_stores[0]


def _read_key(headers: dict[bytes, bytes]) -> str:
    """Return the key of a request: X-API-Key, or Authorization: Bearer."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return headers.get(b"x-api-key", b"").decode("latin-1") or (
        token if scheme.lower() == "bearer" else ""
    )


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> Auth.types.MinimalUserDict:
    """Return the owner of the key: its id, name and scopes, never the key itself."""
    try:
        caller = await find_caller(await _key_store(), _read_key(headers))
    except Problem as problem:
        raise Auth.exceptions.HTTPException(401, str(problem)) from None
    except (
        BadInput,
        SQLAlchemyError,
    ) as error:  # the log names the database; the client doesn't see it
        raise Auth.exceptions.HTTPException(503, "the keys can't be looked up now") from error
    if not caller.key_id:
        raise Auth.exceptions.HTTPException(
            401, "there is no key yet; make one: tribunal service keys add"
        )
    if not caller.may("judge"):
        raise Auth.exceptions.HTTPException(403, "this key needs the scope judge")
    if caller.limits != KeyLimits():
        raise Auth.exceptions.HTTPException(
            403, "this key has limits, which are counted only at /v1 of the service"
        )
    return {
        "identity": caller.key_id,
        "display_name": caller.name,
        "permissions": list(caller.scopes),
    }


@auth.on
async def refuse(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> bool:
    """Refuse everything that no other handler allows: the store and crons."""
    return False


@auth.on.threads
async def keep_to_own_threads(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
    """Write the owner into each thread and run, and hide those of other owners."""
    owner = {"owner": ctx.user.identity}
    if value.get("metadata") is None:
        value["metadata"] = {}
    value["metadata"].update(owner)  # in place: the server stores this dict
    return owner


@auth.on.assistants
async def share_assistants(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> bool:
    """Let every key use the assistants, and only the scope admin change them."""
    return ctx.action in ("read", "search") or "admin" in ctx.permissions
