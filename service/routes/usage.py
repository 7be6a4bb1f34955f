"""`GET /v1/usage`: what a key has spent."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tribunal.cases.problem import Problem
from tribunal.service.replica.key_usage import KeyUsage, read_usage
from tribunal.service.routes.access import CurrentReplica, KeyFirst, KeyHolder
from tribunal.service.routes.parameters import responses

router = APIRouter(tags=["monitoring"], route_class=KeyFirst)
_KEY = "9f86d081884c"


@router.get("/v1/usage", responses=responses("not_found"))
async def show_usage(
    replica: CurrentReplica,
    who: KeyHolder,
    key: Annotated[
        str | None, Query(max_length=100, description="another key's id, for an admin; else your own", examples=[_KEY])
    ] = None,
    days: Annotated[int, Query(ge=1, le=400, description="how many days, today included", examples=[30])] = 1,
) -> KeyUsage:
    """Show what a key has spent and reserved today, its limits, and when the day ends; with `days` the days before."""
    if key is not None and key != who.key_id and not who.may("admin"):
        raise Problem("forbidden", "key: another's usage is shown to the scope admin; leave it out for your own")
    key_id = key or who.key_id
    if not key_id:
        raise Problem("bad_input", "key: you have none; give the id of one, as tribunal service keys list shows it")
    return await read_usage(replica.store, key_id, days)
