"""`/v1/batches`: a file of posts in, the same rows with their outcomes out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from tribunal.errors import Problem
from tribunal.schema import JSON
from tribunal.service.replica.batch_files import TYPES, Format, stream_results
from tribunal.service.replica.batches import RowCounts
from tribunal.service.replica.keys import Caller, Scope
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import CurrentReplica, Judge, KeyFirst, Owner, Reader
from tribunal.service.routes.judge import check_graph
from tribunal.service.routes.parameters import FORM_TYPE, form_fields, receive_table

router = APIRouter(prefix="/v1/batches", tags=["batches"], route_class=KeyFirst)
BatchStatus = Literal["running", "held", "done", "cancelled"]
_AS_JSON = "as JSON; in a form it may be a field"
_TABLES: JSON = {
    TYPES["jsonl"]: {"schema": {"type": "string"}, "example": '{"id": "1", "hateful": false}\n'},
    TYPES["csv"]: {
        "schema": {"type": "string"},
        "example": "id,text,hateful\n1,Good morning!,False\n",
    },
    TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1…"},
}
BatchId = Annotated[str, api.id_path("batch", api.BATCH_ID)]
Settings = Annotated[dict[str, Any], Field(examples=[{"rounds": 2}])]
_COLUMNS = (
    "the column of text, id, image, language, earlier, author, where it isn't called so; of an author only a keyed "
    "hash is kept, and the results have no such column. encoding: that of the file, such as cp1252"
)
_KEEP = (
    "false: the batch is deleted some time after its end; without it, or true: when you delete it"
)


class BatchOptions(api.RequestBody):
    """What is to be done with the rows of a file."""

    graph: str | None = Field(None, max_length=60, examples=["arcade"])
    """the system; else the operator's"""
    settings: Settings = Field(default_factory=dict)
    """settings that the operator lets requests set"""
    columns: dict[str, str] = Field(
        default_factory=dict, description=_COLUMNS, examples=[{"text": "body"}]
    )
    keep: bool = Field(default=True, description=_KEEP, examples=[True])


class BatchQuery(api.RequestBody):
    """The same in the address."""

    graph: str | None = Field(default=None, max_length=60, examples=["arcade"])
    """as the field graph"""
    settings: str | None = Field(
        None, description=f"as the field settings, {_AS_JSON}", examples=['{"rounds": 2}']
    )
    columns: str | None = Field(
        None, description=f"as the field columns, {_AS_JSON}", examples=['{"text": "body"}']
    )
    keep: bool | None = Field(default=None, examples=[True])
    """as the field keep"""


class Batch(api.ResponseBody):
    """A batch: a file of posts, and its status."""

    id: str = Field(examples=[api.BATCH_ID])
    """the batch's"""
    status: BatchStatus
    """its status; held: no more posts are judged until `held_until`"""
    created: api.Seconds
    """when it was taken in, in seconds of the epoch"""
    finished: api.Seconds | None = None
    """when its last row was decided or cancelled"""
    file: str = Field(examples=["posts.jsonl"])
    """what the file was called"""
    graph: str = Field(examples=["tribunal"])
    """which system decides"""
    settings: Settings
    """the settings in force"""
    keep: bool = Field(description=_KEEP, examples=[True])
    posts: int = Field(examples=[100])
    """how many posts the file holds"""
    left_out: dict[str, int] = Field(examples=[{"neither text nor image": 1}])
    """how many of its rows can't be judged, by reason; each is a failure among the others"""
    rows: RowCounts
    """its posts by status"""
    outcomes: dict[str, int] = Field(examples=[{"verdict": 20}])
    """those that are done, by outcome"""
    held: str | None = Field(default=None, examples=["this key's calls of …"])
    """why no more is tried now"""
    held_until: api.Seconds | None = None
    """when it goes on by itself, in seconds of the epoch"""


class BatchPageQuery(api.PageQuery):
    """Which page of batches."""

    limit: int = Field(default=20, ge=1, le=100, examples=[20])
    """how many a page has"""


class BatchPage(api.ResponseBody):
    """A page of batches, the newest first."""

    batches: list[Batch]
    """the batches of this page"""
    next: str | None = api.next_field(api.BATCH_ID)


async def _show_batches(replica: CurrentReplica, *rows: JSON) -> list[Batch]:
    """Return batches of the store as the service shows them."""
    counts = await replica.batches.count_rows([row["id"] for row in rows])
    batches = []
    for row in rows:
        is_held = row["held"] and row["status"] == "running"
        hold = {"status": "held"} if is_held else {"held": None, "held_until": None}
        by_status, outcomes = counts[row["id"]]
        fields = {**row, **hold, "posts": row["rows"], "rows": by_status, "outcomes": outcomes}
        batches.append(Batch.model_validate(fields))
    return batches


def _describe_body() -> JSON:
    """Return the form of the body for OpenAPI, without the bare tables: generators of clients know no such bodies."""
    file = {"type": "string", "format": "binary", "description": "posts, as .jsonl or .csv"}
    fields = {"file": file, **form_fields(BatchOptions.model_json_schema())}
    schema = {"type": "object", "title": "BatchForm", "properties": fields, "required": ["file"]}
    return {"content": {FORM_TYPE: {"schema": schema}}, "required": True}


@router.post(
    "",
    status_code=202,
    responses={
        202: {
            "model": Batch,
            "description": "the batch: its rows wait for their turn; ask for it at its Location",
            "headers": api.describe_headers("Location"),
        },
        **api.responses("conflict", "busy"),
    },
    openapi_extra={"requestBody": _describe_body()},
)
async def create_batch(
    request: Request,
    response: Response,
    replica: CurrentReplica,
    who: Judge,
    query: Annotated[BatchQuery, Query()],
    idempotency_key: api.IdempotencyKey = None,
) -> Batch:
    """Take in JSON Lines or CSV, one post a row: as the file of a form, or as a body of its own media type.

    The file is looked through before any row is decided: a wrong row refuses all of it, by name. Single posts come
    before the rows of batches.
    """
    sent = {name: str(value) for name, value in query.model_dump(exclude_none=True).items()}
    async with replica.uploads.folder() as folder:
        upload, options = await receive_table(
            request, folder, sent, replica.options.batch_bytes, BatchOptions
        )
        asked = options.model_dump(include={"graph", "columns", "keep", "settings"})
        what = {
            **asked, "graph": check_graph(options.graph, replica.options),
            "settings": replica.intake.settings_for(options.settings),
        }  # fmt: skip
        batch_id = await replica.uploads.take_in(
            upload, what, who.key_id, idempotency_key, who.audit_actor, asked
        )
    replica.feeder.wake.set()
    response.headers["Location"] = f"/v1/batches/{batch_id}"
    return await _show_batch(replica, batch_id)


@router.get("", responses=api.responses())
async def list_batches(
    replica: CurrentReplica, who: Reader, query: Annotated[BatchPageQuery, Query()]
) -> BatchPage:
    """List batches, the newest first, in pages. A key with the scope audit sees those of all keys."""
    rows = await replica.batches.search(
        key_id=who.key_id or None, every=who.may("audit"), before=query.before, limit=query.limit
    )
    return BatchPage(batches=await _show_batches(replica, *rows), next=query.next_of(rows))


@router.get("/{batch_id}", responses=api.responses("not_found"))
async def get_batch(batch_id: BatchId, replica: CurrentReplica, who: Reader) -> Batch:
    """Show the status of a batch. A key sees its own batches; one with the scope audit sees all."""
    return (await _show_batches(replica, await _own_batch(replica, batch_id, who)))[0]


@router.get(
    "/{batch_id}/results",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "a table",
            "content": _TABLES,
            "headers": api.describe_headers("Content-Disposition", "Tribunal-Batch-Status"),
        },
        **api.responses("not_found", "conflict"),
    },
)
async def get_batch_results(
    batch_id: BatchId,
    replica: CurrentReplica,
    who: Reader,
    format: Annotated[
        Format, Query(description="jsonl has the whole records", examples=["csv"])
    ] = "jsonl",
    partial: Annotated[
        bool, Query(description="also before all rows are decided", examples=[True])
    ] = False,
) -> StreamingResponse:
    """Give the rows in the order of the file, with their own columns and the verdict's, as `tribunal batch` does.

    Before the end it wants `partial`; then, and in a batch that was cancelled, a row without an outcome says why in
    `explanation`.
    """
    row = await _own_batch(replica, batch_id, who)
    [batch] = await _show_batches(replica, row)
    if batch.finished is None and not partial:
        progress = f"{batch.rows.done} of {batch.posts} rows are decided"
        raise Problem(
            "conflict", f"batch: {batch_id[:80]}: {progress}; come back later, or give partial=true"
        )
    headers = {
        "Content-Disposition": f'attachment; filename="{batch.id}.{format}"',
        "Tribunal-Batch-Status": batch.status,
    }
    return StreamingResponse(
        stream_results(replica.batches, row, format), media_type=TYPES[format], headers=headers
    )


@router.post("/{batch_id}/cancel", responses=api.responses("not_found"))
async def cancel_batch(batch_id: BatchId, replica: CurrentReplica, who: Owner) -> Batch:
    """Cancel what waits. What is under way is decided, and what is decided stays."""
    await _own_batch(replica, batch_id, who, others="admin")
    await replica.batches.cancel(batch_id, who.audit_actor)
    return await _show_batch(replica, batch_id)


@router.post("/{batch_id}/resume", responses=api.responses("not_found"))
async def resume_batch(batch_id: BatchId, replica: CurrentReplica, who: Owner) -> Batch:
    """Go on at once with a batch that is held. As long as its key may spend no more, it is held again."""
    await _own_batch(replica, batch_id, who, others="admin")
    await replica.batches.hold(batch_id, None, None)
    replica.feeder.wake.set()
    return await _show_batch(replica, batch_id)


@router.delete("/{batch_id}", status_code=204, responses=api.responses("not_found", "conflict"))
async def delete_batch(batch_id: BatchId, replica: CurrentReplica, who: Owner) -> None:
    """Delete its rows, their posts and their records. It must be at its end: cancel it before."""
    row = await _own_batch(replica, batch_id, who, others="admin")
    if row["finished"] is None:
        raise Problem(
            "conflict",
            f"batch: {batch_id[:80]}: is under way; cancel it, and delete it once it is finished",
        )
    await replica.batches.delete(batch_id, who.audit_actor)


async def _own_batch(
    replica: CurrentReplica, batch_id: str, who: Caller, *, others: Scope = "audit"
) -> JSON:
    """Return a batch of the caller's, or of another's if the caller has this scope."""
    row = await replica.batches.batch(batch_id)
    if row["key_id"] != (who.key_id or None) and not who.may(others):
        raise Problem("not_found", f"batch: {batch_id[:80]}: there is none")
    if row["finished"] is None:
        await replica.batches.finish_if_done(batch_id)
        row = await replica.batches.batch(batch_id)
    return row


async def _show_batch(replica: CurrentReplica, batch_id: str) -> Batch:
    return (await _show_batches(replica, await replica.batches.batch(batch_id)))[0]
