"""`POST /v1/moderations` and `GET /v1/models`, in place of OpenAI's, by its own names."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import Discriminator, Field, Tag

from tribunal.core.text import one_line
from tribunal.errors import Problem
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Record
from tribunal.service.dropins.verdicts import (
    OpenAIError,
    dropin_responses,
    openai_error,
    score_of,
    score_of_category,
    score_posts,
)
from tribunal.service.replica.keys import count_request
from tribunal.service.routes.access import CurrentReplica, Judge, KeyFirst, Owner
from tribunal.service.routes.judge import MAX_TEXT
from tribunal.service.routes.parameters import RequestBody, ResponseBody, responses
from tribunal.settings.context import context_from

POLICY = "moderations"  # the shipped one, whose categories are OpenAI's
router = APIRouter(tags=["moderations"], route_class=KeyFirst)
MAX_INPUTS = 32
HATE = "hate"
THREATENING = "hate/threatening"
CATEGORIES = (
    "harassment", "harassment/threatening", HATE, THREATENING, "illicit", "illicit/violent", "self-harm",
    "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


class ImageUrl(RequestBody):
    """Where an image is."""

    url: str = Field(examples=["https://example.com/a.png"])
    """an https address, or a data URI"""


class TextPart(RequestBody):
    """A text of a post."""

    type: Literal["text"]
    """which kind of part this is"""
    text: str = Field(max_length=MAX_TEXT, examples=["Good morning!"])
    """its words"""


class ImagePart(RequestBody):
    """The image of a post."""

    type: Literal["image_url"]
    """which kind of part this is"""
    image_url: ImageUrl
    """where it is"""


ModerationPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]
ModerationText = Annotated[str, Field(max_length=MAX_TEXT)]


def _input_form(content: Any) -> str:
    """Return which of the three forms an input has, so that a fault is told of that form alone."""
    if isinstance(content, list):
        return "parts" if any(isinstance(each, dict) for each in content) else "texts"
    return "text"


ModerationInput = Annotated[
    Annotated[ModerationText, Tag("text")]
    | Annotated[list[ModerationText], Field(min_length=1, max_length=MAX_INPUTS), Tag("texts")]
    | Annotated[list[ModerationPart], Field(min_length=1, max_length=MAX_INPUTS), Tag("parts")],
    Discriminator(_input_form),
]


class ModerationRequest(RequestBody):
    """Posts to judge."""

    input: ModerationInput = Field(
        description=f"a text: one post. A list of texts: up to {MAX_INPUTS} posts. A list of parts, texts and at most "
        "one image: one post",
        examples=["Good morning!"],
    )
    model: str | None = Field(None, max_length=200)
    """taken, and chooses nothing: the operator has chosen"""


class Moderation(ResponseBody):
    """What was decided on a post, by category; only those of the header `Tribunal-Categories` are judged."""

    flagged: bool = Field(examples=[False])
    """whether the post is hate speech"""
    categories: dict[str, bool] = Field(examples=[dict.fromkeys(CATEGORIES, False)])
    """whether the post is of a category; false for one that isn't judged"""
    category_scores: dict[str, float] = Field(
        examples=[{each: 0.03 if each.startswith(HATE) else 0.0 for each in CATEGORIES}]
    )
    """the probability that the post is of a category; 0 for one that isn't judged"""
    category_applied_input_types: dict[str, list[Literal["text", "image"]]] = Field(
        examples=[{each: ["text"] if each.startswith(HATE) else [] for each in CATEGORIES}]
    )
    """what of the post was judged; nothing for a category that isn't"""


class ModerationResponse(ResponseBody):
    """The decisions, in the order of the inputs."""

    id: str = Field(examples=["modr-0198c5d1f3a1b2c3d4e5f"])
    """of this answer"""
    model: str = Field(examples=["tribunal (openai:gpt-5.1)"])
    """which graph decided, and by which models"""
    results: list[Moderation]
    """one a post"""


class ListedModel(ResponseBody):
    """A model, as OpenAI's clients list it: here, the graph that decides."""

    id: str = Field(examples=["tribunal"])
    """the graph's name"""
    object: Literal["model"] = "model"
    """the kind of this object"""
    created: int = 0
    """always 0: a graph has no date"""
    owned_by: str = "tribunal"
    """always tribunal"""


class ModelList(ResponseBody):
    """The models."""

    object: Literal["list"] = "list"
    """the kind of this object"""
    data: list[ListedModel]
    """the one that /v1/moderations decides by"""


@router.get("/v1/models", responses=responses(model=OpenAIError, body_of=openai_error))
async def list_models(replica: CurrentReplica, who: Owner) -> ModelList:
    """List the graph that `POST /v1/moderations` decides by, for clients that look before they ask."""
    return ModelList(data=[ListedModel(id=replica.options.graph)])


@router.get(
    "/v1/models/{model}", responses=responses("not_found", model=OpenAIError, body_of=openai_error)
)
async def get_model(
    model: Annotated[str, Path(max_length=200, description="its name", examples=["tribunal"])],
    replica: CurrentReplica,
    who: Owner,
) -> ListedModel:
    """Show one model."""
    graph = replica.options.graph
    if model != graph:
        raise Problem("not_found", f"model: {one_line(model)[:60]}: there is only {graph}")
    return ListedModel(id=graph)


@router.post(
    "/v1/moderations",
    responses=dropin_responses(OpenAIError, header="Tribunal-Categories"),
)
async def create_moderation(
    body: ModerationRequest,
    request: Request,
    response: Response,
    replica: CurrentReplica,
    who: Judge,
) -> ModerationResponse:
    """Judge posts. The answer comes when all are decided. docs/service.md says what a score means."""
    posts = _posts_of(body)
    if len(posts) > 1:
        await count_request(replica.store, who, len(posts) - 1)
    settings = replica.intake.settings_for({})
    if "policy" not in settings and context_from(settings).task == "hate":
        settings = {**settings, "policy": POLICY}  # which tells threats from other hate
    scored = await score_posts(request, replica, who, posts, settings)
    # Threats are where every verdict could have been that category: its policy was shown, and has it.
    policy = await policy_in_force(context_from(settings).policy)
    schemes = {record.scheme for record in scored.records}
    names = [{category.name for category in policy.categories(scheme)} for scheme in schemes]
    tells_threats = all(record.policy for record in scored.records) and all(
        THREATENING in each for each in names
    )
    judged = [HATE, THREATENING] if tells_threats else [HATE]
    response.headers.update({**scored.headers, "Tribunal-Categories": ", ".join(judged)})
    models = dict.fromkeys(call.model for record in scored.records for call in record.calls)
    graph = replica.options.graph
    return ModerationResponse(
        id=f"modr-{uuid.uuid4().hex}",
        model=f"{graph} ({', '.join(models)})" if models else graph,
        results=[_moderation_of(record, judged) for record in scored.records],
    )


def _posts_of(body: ModerationRequest) -> list[JSON]:
    """Return the posts of a request, as a graph takes them.

    Raises:
        Problem: one is empty, or has more than one image.
    """
    inputs = [body.input] if isinstance(body.input, str) else body.input
    posts: list[JSON] = [{"text": each} for each in inputs if isinstance(each, str)]
    if not posts:
        words = "\n\n".join(each.text for each in inputs if isinstance(each, TextPart))
        images = [each.image_url.url for each in inputs if isinstance(each, ImagePart)]
        if len(images) > 1:
            raise Problem(
                "bad_input",
                f"input: {len(images)} images: a post has one at most; send one request for each",
            )
        posts = [
            {name: each for name, each in (("text", words), ("image", "".join(images))) if each}
        ]
    for number, post in enumerate(posts):
        if not post.get("text", "").strip() and "image" not in post:
            where = f"input.{number}" if len(posts) > 1 else "input"
            raise Problem("bad_input", f"{where}: is empty; give a text or an image")
    return posts


def _moderation_of(record: Record, judged: list[str]) -> Moderation:
    holds = {HATE: bool(record.hateful), THREATENING: record.category == THREATENING}
    scores = {HATE: score_of(record), THREATENING: score_of_category(record, THREATENING)}
    input_types: list[Literal["text", "image"]] = list(record.shown or ("text",))
    return Moderation(
        flagged=holds[HATE],
        categories={name: name in judged and holds[name] for name in CATEGORIES},
        category_scores={
            **dict.fromkeys(CATEGORIES, 0.0),
            **{name: scores[name] for name in judged},
        },
        category_applied_input_types={
            name: input_types if name in judged else [] for name in CATEGORIES
        },
    )
