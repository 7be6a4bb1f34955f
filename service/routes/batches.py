"""`/v1/batches`: a file of posts in, the same rows with their outcomes out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from tribunal.schema import JSON
from tribunal.service.replica.house import House
from tribunal.service.replica.keys import Caller, Scope
from tribunal.service.replica.problems import Problem, responses
from tribunal.service.replica.results import TYPES, Format, written
from tribunal.service.replica.uploads import Wanted
from tribunal.service.routes.access import Here, Judge, KeyFirst, Owner, Reader
from tribunal.service.routes.batch_shapes import Batch, BatchPage, shown
from tribunal.service.routes.batch_upload import OPENAPI, received
from tribunal.service.routes.judge import graph_of

router = APIRouter(tags=["batches"], route_class=KeyFirst)
_AS_JSON = "as JSON; in a form it may be a field"
_ID = r"^[\w-]+$"
_TABLES: dict[str, Any] = {
    TYPES["jsonl"]: {"schema": {"type": "string"}, "example": '{"id": "1", "hateful": false}\n'},
    TYPES["csv"]: {"schema": {"type": "string"}, "example": "id,text,hateful\n1,Good morning!,False\n"},
    TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1…"},
}
_AN_ID = "batch-0198c5d1f3a1b2c3d4e5f"
BatchId = Annotated[str, Path(max_length=80, pattern=_ID, description="the batch's", examples=[_AN_ID])]


@router.post(
    "/v1/batches",
    summary="Decide on a file of posts",
    status_code=202,
    response_model=Batch,
    responses={
        202: {"model": Batch, "description": "the batch: its rows wait for their turn; ask for it at its Location"},
        **responses("conflict", "too_large", "wrong_type", "timeout", "busy"),
    },
    openapi_extra=OPENAPI,
)
async def make(
    request: Request,
    response: Response,
    here: Here,
    who: Judge,
    graph: Annotated[str | None, Query(max_length=60, description="as the field graph", examples=["arcade"])] = None,
    settings: Annotated[
        str | None, Query(description=f"as the field settings, {_AS_JSON}", examples=['{"rounds": 2}'])
    ] = None,
    columns: Annotated[
        str | None, Query(description=f"as the field columns, {_AS_JSON}", examples=['{"text": "body"}'])
    ] = None,
    keep: Annotated[bool | None, Query(description="as the field keep", examples=[True])] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=200,
            description="your own name for this upload, which is then taken in once",
            examples=["day-17"],
        ),
    ] = None,
) -> Batch:
    """JSON Lines or CSV, as the file of a form or as the body itself.

    The file is looked through before any row is decided: a wrong row refuses all of it, by name. Single posts come
    before the rows of batches.
    """
    query = {"graph": graph, "settings": settings, "columns": columns}
    given = {name: value for name, value in query.items() if value is not None}
    if keep is not None:
        given["keep"] = str(keep)
    async with here.uploads.folder() as folder:
        upload, asked = await received(request, folder, given, here.options.batch_bytes)
        wanted = Wanted(
            graph=graph_of(asked.graph, here.options),
            settings=here.judging.settings(asked.settings),
            columns=asked.columns,
            keep=asked.keep,
        )
        batch_id = await here.uploads.take_in(upload, wanted, who.key_id, idempotency_key, who.who)
    here.feeder.wake()
    response.headers["Location"] = f"/v1/batches/{batch_id}"
    return await _shown(here, await here.batches.batch(batch_id))


@router.get("/v1/batches", summary="Your batches", response_model=BatchPage, responses=responses())
async def batches(
    here: Here,
    who: Reader,
    before: Annotated[
        str | None, Query(max_length=80, pattern=_ID, description="`next` of the page before", examples=[_AN_ID])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="how many a page has", examples=[20])] = 20,
) -> BatchPage:
    """The newest first, in pages. A key with the scope audit sees those of all keys."""
    found = await here.batches.search(key_id=who.key_id or None, every=who.may("audit"), before=before, limit=limit)
    counts = await here.batches.counts([row["id"] for row in found])
    page = [shown(row, counts[row["id"]]) for row in found]
    return BatchPage(batches=page, next=page[-1].id if len(page) == limit else None)


@router.get("/v1/batches/{batch_id}", summary="A batch", response_model=Batch, responses=responses("not_found"))
async def batch(batch_id: BatchId, here: Here, who: Reader) -> Batch:
    """How far it is. A key sees its own batches; one with the scope audit sees all."""
    return await _shown(here, await _own(here, batch_id, who))


@router.get(
    "/v1/batches/{batch_id}/results",
    summary="The rows with their outcomes",
    response_class=StreamingResponse,
    responses={
        200: {"description": "a table", "content": _TABLES},
        **responses("not_found", "conflict"),
    },
)
async def results(
    batch_id: BatchId,
    here: Here,
    who: Reader,
    format: Annotated[Format, Query(description="jsonl has the whole records", examples=["csv"])] = "jsonl",
    partial: Annotated[bool, Query(description="also before all rows are decided", examples=[True])] = False,
) -> StreamingResponse:
    """The rows in the order of the file, with their own columns and the verdict's, as `tribunal batch` writes them.

    Before the end it wants `partial`; then, and in a batch that was cancelled, a row without an outcome says why in
    `explanation`.
    """
    row = await _own(here, batch_id, who)
    if row["finished"] is None and not partial:
        counts = (await here.batches.counts([batch_id]))[batch_id]
        far = f"{counts.done} of {row['rows']} rows are decided"
        raise Problem("conflict", f"batch: {batch_id[:80]}: {far}; come back later, or give partial=true")
    status = shown(row, (await here.batches.counts([batch_id]))[batch_id]).status
    headers = {
        "Content-Disposition": f'attachment; filename="{row["id"]}.{format}"',
        "Tribunal-Batch-Status": status,
    }
    return StreamingResponse(written(here.batches, row, format), media_type=TYPES[format], headers=headers)


@router.post(
    "/v1/batches/{batch_id}/cancel", summary="Cancel a batch", response_model=Batch, responses=responses("not_found")
)
async def cancel(batch_id: BatchId, here: Here, who: Owner) -> Batch:
    """What waits isn't tried any more. What is under way is decided, and what is decided stays."""
    await _own(here, batch_id, who, others="admin")
    await here.batches.cancel(batch_id, who.who)
    return await _shown(here, await here.batches.batch(batch_id))


@router.post(
    "/v1/batches/{batch_id}/resume",
    summary="Go on with a batch",
    response_model=Batch,
    responses=responses("not_found"),
)
async def resume(batch_id: BatchId, here: Here, who: Owner) -> Batch:
    """Go on at once with a batch that is held. As long as its key may spend no more, it is held again."""
    await _own(here, batch_id, who, others="admin")
    await here.batches.hold(batch_id, None, None)
    here.feeder.wake()
    return await _shown(here, await here.batches.batch(batch_id))


@router.delete(
    "/v1/batches/{batch_id}",
    summary="Delete a batch",
    status_code=204,
    response_class=Response,
    responses=responses("not_found", "conflict"),
)
async def forget(batch_id: BatchId, here: Here, who: Owner) -> Response:
    """Delete its rows, their posts and their records. It must be at its end: cancel it before."""
    row = await _own(here, batch_id, who, others="admin")
    if row["finished"] is None:
        raise Problem("conflict", f"batch: {batch_id[:80]}: is under way; cancel it, and delete it once it is finished")
    await here.batches.delete(batch_id, who.who)
    return Response(status_code=204)


async def _own(here: House, batch_id: str, who: Caller, *, others: Scope = "audit") -> JSON:
    """A batch of the caller's, or of another's where the caller has this scope."""
    row = await here.batches.batch(batch_id)
    if row["key_id"] != (who.key_id or None) and not who.may(others):
        raise Problem("not_found", f"batch: {batch_id[:80]}: there is none")
    if row["finished"] is None:
        await here.batches.settle(batch_id)
        row = await here.batches.batch(batch_id)
    return row


async def _shown(here: House, row: dict[str, Any]) -> Batch:
    return shown(row, (await here.batches.counts([row["id"]]))[row["id"]])
