"""A signal for ROOST Coop: takes what Coop gives a signal, and answers with what Coop reads of one.

Coop has no signal that calls an address by itself; its plugins do (examples/coop). Ours sends on, as JSON, the input of
its `run`, and gives Coop the `outputType` and the `score` of this answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.service.dropins.verdicts import score_of, score_posts
from tribunal.service.routes.access import CurrentReplica, Judge, KeyFirst
from tribunal.service.routes.judge import MAX_TEXT
from tribunal.service.routes.parameters import responses

router = APIRouter(tags=["ROOST Coop"], route_class=KeyFirst)
_ACCEPTED = "STRING, IMAGE or FULL_ITEM"


class CoopScalar(BaseModel):
    """One value of an item, with its type. Of an image it is an object with its address."""

    type: str = Field(max_length=60, description="STRING or IMAGE; no other is judged", examples=["STRING"])
    value: Annotated[str, Field(max_length=MAX_TEXT)] | dict[str, Any] = Field(
        description="a text, or {url} of an image", examples=["Good morning!"]
    )


class CoopContainer(BaseModel):
    """What a field with several values holds."""

    valueScalarType: str = Field(description="the type of each value", examples=["STRING"])  # as Coop's JSON has it


class CoopField(BaseModel):
    """A field of a type of items."""

    name: str = Field(description="its key in the data", examples=["body"])
    type: str = Field(description="a scalar's type, ARRAY or MAP", examples=["STRING"])
    container: CoopContainer | None = Field(default=None, description="of an ARRAY or a MAP: what is in it")


class CoopItemType(BaseModel):
    """A type of items, as the organisation has set it up in Coop. Coop sends more; only its fields are read."""

    fields: list[CoopField] = Field(
        alias="schema",
        max_length=1000,
        description="its fields, in order",
        examples=[[{"name": "body", "type": "STRING"}]],
    )


class CoopItem(BaseModel):
    """A whole item: FULL_ITEM. Its texts are judged together, with its first image."""

    itemType: CoopItemType = Field(description="what its fields are")
    data: dict[str, Any] = Field(description="the values by the names of the fields", examples=[{"body": "Hello!"}])


class CoopInput(BaseModel):
    """What Coop gives a signal. Whatever else it gives is not read."""

    value: CoopScalar | CoopItem = Field(
        description="what the rule looks at: one value, or the whole item",
        examples=[{"type": "STRING", "value": "Good morning!"}],
    )
    contentId: str | None = Field(default=None, max_length=200, description="the item's id in Coop", examples=["i-1"])
    userId: str | None = Field(
        default=None, max_length=200, description="whose item it is; only a keyed hash of it is kept", examples=["u-7"]
    )


class CoopOutputType(BaseModel):
    """What kind of value the score is."""

    scalarType: Literal["NUMBER"] = Field(default="NUMBER", description="a number")


class CoopResult(BaseModel):
    """What Coop takes from a signal, and for people and logs, what stands behind it."""

    outputType: CoopOutputType = Field(default=CoopOutputType(), description="what kind of value the score is")
    score: float = Field(ge=0, le=1, description="the probability that it is hate speech", examples=[0.93])
    case: str = Field(description="the case's id: /v1/cases/ID shows it", examples=["case-0198c5d1f3a1b2c3d4e5f"])
    hateful: bool = Field(description="the verdict", examples=[True])
    uncertain: bool = Field(description="whether a person should look at it", examples=[False])
    rehearsed: bool = Field(description="whether the rehearsal model took part", examples=[False])
    category: str | None = Field(description="of the policy", examples=["Dehumanization"])
    explanation: str = Field(description="why, in a model's words", examples=["It calls a group vermin."])


@router.post("/v1/signals/coop", responses=responses("busy", "undecided", "late"))
async def signal_for_coop(body: CoopInput, request: Request, replica: CurrentReplica, who: Judge) -> CoopResult:
    """Decide on what Coop gives a signal. Without a verdict there is no score but an error."""
    settings = replica.intake.settings_for({})
    scored = await score_posts(request, replica, who, [_post_of(body)], settings, author=body.userId)
    [case_id], [record] = scored.case_ids, scored.records
    return CoopResult(
        score=score_of(record),
        case=case_id,
        hateful=bool(record.hateful),
        uncertain=record.uncertain,
        rehearsed=record.rehearsed,
        category=record.category,
        explanation=record.explanation,
    )


def _post_of(body: CoopInput) -> JSON:
    """Return the post of a signal's input; raise BadInput if there is nothing in it that is judged."""
    value = body.value
    if isinstance(value, CoopItem):
        values = []
        for field in value.itemType.fields:
            content = value.data.get(field.name)
            if field.container is None:
                values.append((field.type, content))
            elif isinstance(content, dict | list):
                each_value = content.values() if isinstance(content, dict) else content
                values += [(field.container.valueScalarType, each) for each in each_value]
    elif value.type in ("STRING", "IMAGE"):
        values = [(value.type, value.value)]
    else:
        raise BadInput(f"value.type: {value.type}: is not judged; send {_ACCEPTED}")
    texts = [each for kind, each in values if kind == "STRING" and isinstance(each, str) and each.strip()]
    images = [each["url"] for kind, each in values if kind == "IMAGE" and isinstance(each, dict) and each.get("url")]
    image = next((each for each in images if isinstance(each, str)), None)
    if not texts and not image:
        raise BadInput(f"value: holds neither text nor image; send {_ACCEPTED} with one of them")
    text = "\n\n".join(texts)
    if len(text) > MAX_TEXT:
        raise BadInput(f"value: {len(text)} characters of text; at most {MAX_TEXT} are taken")
    post = {"text": text or None, "image": image, "post_id": body.contentId or None}
    return {name: each for name, each in post.items() if each is not None}
