"""`/v1/webhooks`: the operator's endpoints, and the messages to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tribunal.docket.outbox import EventType, Status
from tribunal.errors import BadInput, Problem
from tribunal.service.replica import webhooks as endpoints
from tribunal.service.replica.webhooks import send_test_message
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import Admin, CurrentReplica, KeyFirst

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=KeyFirst)
_WEBHOOK_ID = "hook-9f86d081884c"
_MESSAGE_ID = "msg-0198c5d1f3a1b2c3d4e5f60"
WebhookId = Annotated[str, api.id_path("webhook", _WEBHOOK_ID)]
Url = Annotated[
    str, Field(description="where messages are sent", examples=["https://example.com/tribunal"])
]
Events = Annotated[
    list[EventType],
    Field(description="the types of messages that are sent there", examples=[["case.decided"]]),
]


class WebhookRequest(api.RequestBody):
    """An endpoint to add."""

    url: Url = Field(
        max_length=endpoints.MAX_URL, description="https, unless the operator allows http"
    )
    events: Events | None = Field(default=None, min_length=1)
    """none: all"""
    with_record: bool = False
    """whether the whole record is sent, with the words of the post"""


class Webhook(api.ResponseBody):
    """An endpoint, without its secret."""

    id: str = Field(examples=[_WEBHOOK_ID])
    """the webhook's"""
    url: Url
    events: Events
    with_record: bool = Field(examples=[False])
    """whether the whole record is sent"""
    created: api.Seconds
    """when it was added, in seconds of the epoch"""
    disabled: api.Seconds | None
    """since when nothing is sent there: it answered 410"""


class AddedWebhook(Webhook):
    """An endpoint that was added just now."""

    secret: str = Field(examples=["whsec_…"])
    """what its messages are signed with; shown this once"""


class WebhookList(api.ResponseBody):
    """All endpoints."""

    webhooks: list[Webhook]
    """the oldest first"""


class WebhookTest(api.ResponseBody):
    """How an attempt went."""

    delivered: bool
    """whether it was answered with a status of 200 to 299"""
    answered: int | None = Field(examples=[200])
    """the status of the answer"""
    error: str | None = Field(examples=["answered 500"])
    """why it failed"""


class Delivery(api.ResponseBody):
    """A message to an endpoint."""

    id: str = Field(examples=[_MESSAGE_ID])
    """the message's: the header webhook-id"""
    webhook_id: str = Field(examples=[_WEBHOOK_ID])
    """to which endpoint"""
    case_id: str | None = Field(examples=[api.CASE_ID])
    """what it tells of"""
    event: str = Field(examples=["case.decided"])
    """its type"""
    created: api.Seconds
    """when it was written down, in seconds of the epoch"""
    status: Status
    """waiting to be sent, or sent again; delivered; dead: given up"""
    due: api.Seconds
    """when it is sent next, while it waits"""
    attempts: int = Field(examples=[1])
    """how often it was sent"""
    finished: api.Seconds | None
    """when it was delivered, or given up"""
    answered: int | None = Field(examples=[500])
    """the status of the last answer"""
    error: str | None = Field(examples=["answered 500"])
    """why the last attempt failed"""


class DeliveryFilters(api.PageQuery):
    """Which messages are looked for."""

    status: Status | None = Field(default=None, examples=["dead"])
    """only these"""
    webhook: str | None = api.id_field("only messages to this webhook", _WEBHOOK_ID)


class DeliveryPage(api.ResponseBody):
    """A page of messages, the newest first."""

    deliveries: list[Delivery]
    """the messages of this page"""
    next: str | None = api.next_field(_MESSAGE_ID)


@router.get("", responses=api.responses())
async def list_webhooks(replica: CurrentReplica, who: Admin) -> WebhookList:
    """List webhooks without their secrets, which are shown when they are added and never again."""
    return WebhookList(
        webhooks=[
            Webhook.model_validate(row) for row in await endpoints.list_webhooks(replica.store)
        ]
    )


@router.post("", status_code=201, responses=api.responses())
async def create_webhook(body: WebhookRequest, replica: CurrentReplica, who: Admin) -> AddedWebhook:
    """Add a webhook. From now on it is told of every case that ends. Keep the secret: it is shown this once."""
    webhook_id, _ = await endpoints.add_webhook(
        replica.store, body.url, body.events, with_record=body.with_record,
        http=replica.options.webhook_http, by=who.audit_actor,
    )  # fmt: skip
    return AddedWebhook.model_validate(await endpoints.find_webhook(replica.store, webhook_id))


@router.delete("/{webhook_id}", status_code=204, responses=api.responses("not_found"))
async def delete_webhook(webhook_id: WebhookId, replica: CurrentReplica, who: Admin) -> None:
    """Remove a webhook, and whatever waits for it or is dead."""
    await endpoints.remove_webhook(replica.store, webhook_id, who.audit_actor)


@router.post("/{webhook_id}/enable", responses=api.responses("not_found"))
async def enable_webhook(webhook_id: WebhookId, replica: CurrentReplica, who: Admin) -> Webhook:
    """Send again to a webhook that answered 410 and was disabled for it. Replay what was dead by then."""
    await endpoints.enable_webhook(replica.store, webhook_id, who.audit_actor)
    return Webhook.model_validate(await endpoints.find_webhook(replica.store, webhook_id))


@router.post("/{webhook_id}/test", responses=api.responses("not_found"))
async def test_webhook(webhook_id: WebhookId, replica: CurrentReplica, who: Admin) -> WebhookTest:
    """Send one message of the type `webhook.test`, at once and only once."""
    answer = await send_test_message(replica.store, webhook_id, replica.options.webhook_timeout)
    return WebhookTest(delivered=answer.error is None, answered=answer.status, error=answer.error)


@router.get("/deliveries", responses=api.responses())
async def list_deliveries(
    replica: CurrentReplica, who: Admin, query: Annotated[DeliveryFilters, Query()]
) -> DeliveryPage:
    """Find messages, the newest first, in pages, without their bodies."""
    rows = await replica.case_store.outbox.list_messages(
        status=query.status, webhook_id=query.webhook, before=query.before, limit=query.limit
    )
    return DeliveryPage(
        deliveries=[Delivery.model_validate(row) for row in rows], next=query.next_of(rows)
    )


@router.post(
    "/deliveries/{message_id}/replay",
    status_code=202,
    responses={
        202: {"description": "the message, which is sent soon"},
        **api.responses("not_found"),
    },
)
async def replay_delivery(
    message_id: Annotated[str, api.id_path("message", _MESSAGE_ID)],
    replica: CurrentReplica,
    who: Admin,
) -> Delivery:
    """Send a dead message again, if its webhook is in force. It keeps its id, so that nobody counts it twice."""
    try:
        await replica.case_store.outbox.replay(message_id, who.audit_actor)
    except BadInput as error:
        raise Problem("not_found", str(error)) from None
    [row] = await replica.case_store.outbox.list_messages(message_id=message_id)
    return Delivery.model_validate(row)
