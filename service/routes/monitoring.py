"""Routes for what watches the service: its health, metrics, the board's numbers, and the audit log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import Field

from tribunal.core.times import DAY, MOST_SECONDS, clock_offset, database_now
from tribunal.errors import Problem
from tribunal.runner.outages import ProviderState
from tribunal.service.replica.case_queries import count_under_way
from tribunal.service.replica.figures import Figures, TimeSpan, count_figures
from tribunal.service.replica.key_usage import KeyUsage, read_usage
from tribunal.service.replica.keys import count_keys_ending
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import (
    Auditor,
    CurrentReplica,
    KeyFirst,
    KeyHolder,
    Overseer,
    Scraper,
)
from tribunal.service.telemetry.observers import Telemetry
from tribunal.store import audit as audit_log
from tribunal.store.audit import Kind

router = APIRouter(tags=["monitoring"], route_class=KeyFirst)
audit = APIRouter(tags=["audit"], route_class=KeyFirst)
USUAL_DAYS = 30
_METRICS = {
    "description": "Prometheus' text format",
    "content": {
        "text/plain": {"schema": {"type": "string"}, "example": "tribunal_in_flight 0.0\n"}
    },
}


class Health(api.ResponseBody):
    """The process answers."""

    alive: Literal[True] = True
    """it is, or it wouldn't say so"""


class Readiness(api.ResponseBody):
    """Whether this replica can take work now."""

    ready: bool
    """whether it can"""
    trouble: (
        Literal["stopping", "queue", "no sign of life", "disk", "database", "tables"] | None
    ) = Field(
        default=None,
        description="why not: it stops; nothing brings it work; it couldn't say that it is alive, so that others take "
        "its cases over; the database's disk is full; the database doesn't answer; its tables are of an earlier "
        "release, or lack what this one needs",
    )
    degraded: bool = False
    """whether a provider's models don't answer: posts are taken in and held meanwhile"""
    clock_offset_s: float | None = Field(
        default=None,
        description="by how many seconds this machine's clock is ahead of the database's, if by more than "
        f"{MOST_SECONDS:g} either way; the database's counts, so it can work",
        examples=[52.0],
    )
    providers: dict[str, ProviderState] = Field(default_factory=dict)
    """the providers that were without an answer here since it began, by name"""


@router.get("/healthz")
async def get_health() -> Health:
    """Say that the process is alive. No key is needed. Restart it where this doesn't answer."""
    return Health()


@router.get(
    "/readyz", responses={503: {"model": Readiness, "description": "it can't; `trouble` says why"}}
)
async def get_readiness(response: Response, replica: CurrentReplica) -> Readiness:
    """Say whether it can take work. No key is needed. Send no requests where this answers 503.

    A replica whose models don't answer can: it takes posts in, and holds them.
    """
    trouble = await replica.find_trouble()
    response.status_code = 503 if trouble else 200
    providers = await replica.outages.show(counted=trouble is None)
    degraded = any(each.state != "closed" for each in providers.values())
    offset = round(clock_offset(), 1)
    seen = {
        "ready": trouble is None, "trouble": trouble, "degraded": degraded, "providers": providers,
        "clock_offset_s": offset if abs(offset) > MOST_SECONDS else None,
    }  # fmt: skip
    return Readiness.model_validate(seen)


@router.get("/metrics", response_class=Response, responses={200: _METRICS, **api.responses()})
async def get_metrics(request: Request, replica: CurrentReplica, who: Scraper) -> Response:
    """Give the numbers of this replica, and how many cases wait and keys end. No number tells what a post says."""
    cases = await count_under_way(replica.store)
    telemetry: Telemetry = request.app.state.telemetry
    ending = await count_keys_ending(replica.store)
    page = await asyncio.to_thread(telemetry.metrics.page, cases, ending)
    return Response(page, media_type=CONTENT_TYPE_LATEST)


def _time_field(description: str) -> Any:
    # At most the year 3000: beyond it no day has a name.
    return Field(
        default=None, ge=0, le=32_503_680_000.0, description=description, examples=[1795330000.0]
    )


class FigureTimes(api.RequestBody):
    """Which time the board's numbers are of, and which earlier one it is held against."""

    since: float | None = _time_field(
        "what ended at or after, in seconds of the epoch; else the 30 days before `until`"
    )
    until: float | None = _time_field("what ended before; else until now")
    against_since: float | None = _time_field(
        "the begin of the earlier time that category shares are held against; else as long a time, just before"
    )
    against_until: float | None = _time_field("its end; else `since`")

    def spans(self) -> tuple[TimeSpan, TimeSpan | None]:
        """Return the time that is asked for, and the earlier one if one is.

        Raises:
            Problem: one ends before it begins.
        """
        end = database_now() if self.until is None else self.until
        span = TimeSpan(
            since=max(0.0, end - USUAL_DAYS * DAY) if self.since is None else self.since, until=end
        )
        earlier = None
        if self.against_since is not None or self.against_until is not None:
            end = span.since if self.against_until is None else self.against_until
            begin = (
                end - (span.until - span.since)
                if self.against_since is None
                else self.against_since
            )
            earlier = TimeSpan(since=begin, until=end)
        for name, each in (("until", span), ("against_until", earlier)):
            if each is not None and each.until <= each.since:
                raise Problem(
                    "bad_input",
                    f"{name}: {each.until:g}: isn't after {each.since:g}, where the time begins",
                )
        return span, earlier


@router.get("/v1/figures", responses=api.responses())
async def get_figures(
    replica: CurrentReplica, who: Overseer, times: Annotated[FigureTimes, Query()]
) -> Figures:
    """Give the board's numbers over all cases, by when they ended (UTC), in the price table's currency."""
    return await count_figures(replica.store, *times.spans())


# The audit log

_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class AuditEntry(api.ResponseBody):
    """An entry of the audit log."""

    seq: int = Field(examples=[17])
    """its number; the first is 1, and none is left out"""
    at: api.Seconds
    """when it was written, in seconds of the epoch"""
    who: str = Field(
        description="operator (the command line, or anybody here while there is no key), key, person (whom a trusted "
        "proxy named to the desk), or replica",
        examples=["key"],
    )
    key_id: str | None = Field(examples=["9f86d081884c"])
    """the id of the key"""
    name: str = Field(examples=["desk"])
    """the name of the key, or the id of the replica"""
    kind: str = Field(examples=["case.decided"])
    """what was done"""
    subject: str = Field(examples=[api.CASE_ID])
    """to which case, batch, key, webhook or message"""
    details: dict[str, Any] | None = Field(examples=[{"outcome": "verdict", "category": "NotHate"}])
    """more of it: outcomes and hashes, and never a post's words; none where it can't be read any more"""
    previous: str = Field(examples=[_HASH])
    """the hash of the entry before; of the first, 64 zeros"""
    hash: str = Field(examples=[_HASH])
    """the entry's own"""


class AuditFilters(api.RequestBody):
    """Which entries are looked for."""

    subject: str | None = api.id_field(
        "the id of a case, batch, key, webhook or message", api.CASE_ID
    )
    kind: Kind | None = Field(default=None, examples=["case.decided"])
    """only entries of this kind"""
    since: float | None = api.since_field("written")
    until: float | None = api.UNTIL
    after: int = Field(default=0, ge=0, le=2**53, examples=[200])
    """`next` of the page before"""
    limit: int = Field(default=200, ge=1, le=1000, examples=[200])
    """how many a page has"""


class AuditPage(api.ResponseBody):
    """A page of entries, the oldest first."""

    entries: list[AuditEntry]
    """the entries of this page"""
    next: int | None = Field(default=None, examples=[200])
    """give it as `after` for the next page; none: that was the last"""


class AuditHead(api.ResponseBody):
    """The end of the log. Keep it elsewhere: a log that was cut or written anew no longer holds it."""

    seq: int = Field(examples=[17])
    """how many entries there are"""
    hash: str = Field(examples=[_HASH])
    """the last entry's"""


@audit.get("/v1/audit", responses=api.responses())
async def list_audit_entries(
    replica: CurrentReplica, who: Auditor, query: Annotated[AuditFilters, Query()]
) -> AuditPage:
    """List entries, the oldest first, in pages. docs/operating.md says how the hashes are made."""
    rows = await audit_log.page(replica.store, **query.model_dump())
    page = [AuditEntry.model_validate(audit_log.readable(row)) for row in rows]
    return AuditPage(entries=page, next=page[-1].seq if len(page) == query.limit else None)


@audit.get("/v1/audit/head", responses=api.responses("not_found"))
async def get_audit_head(replica: CurrentReplica, who: Auditor) -> AuditHead:
    """Show the log's head. Keep it elsewhere, and give it to `tribunal audit verify --head`."""
    end = await audit_log.read_written_head(replica.store)
    if end is None:
        raise Problem("not_found", "audit log: its head is gone; run tribunal audit verify")
    return AuditHead(seq=end.seq, hash=end.hash)


# `GET /v1/usage`: what a key has spent

_KEY = "9f86d081884c"


@router.get("/v1/usage", responses=api.responses("not_found"))
async def get_usage(
    replica: CurrentReplica,
    who: KeyHolder,
    key: Annotated[
        str | None,
        Query(
            max_length=100,
            description="another key's id, for an admin; else your own",
            examples=[_KEY],
        ),
    ] = None,
    days: Annotated[
        int, Query(ge=1, le=400, description="how many days, today included", examples=[30])
    ] = 1,
) -> KeyUsage:
    """Show what a key has spent and reserved today, its limits, and when the day ends; with `days` the days before."""
    if key is not None and key != who.key_id and not who.may("admin"):
        raise Problem(
            "forbidden",
            "key: another's usage is shown to the scope admin; leave it out for your own",
        )
    key_id = key or who.key_id
    if not key_id:
        raise Problem(
            "bad_input",
            "key: you have none; give the id of one, as tribunal service keys list shows it",
        )
    return await read_usage(replica.store, key_id, days)
