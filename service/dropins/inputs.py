"""What `POST /v1/moderations` takes and gives, by OpenAI's own names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from tribunal.service.routes.shapes import MOST_TEXT

MOST_INPUTS = 32
HATE, THREATENING = "hate", "hate/threatening"
CATEGORIES = (
    "harassment", "harassment/threatening", HATE, THREATENING, "illicit", "illicit/violent", "self-harm",
    "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageUrl(_Given):
    """Where an image is."""

    url: str = Field(
        description="an https address, or a data URI", examples=["data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="]
    )


class TextPart(_Given):
    """A text of a post."""

    type: Literal["text"] = Field(description="which kind of part this is")
    text: str = Field(max_length=MOST_TEXT, description="its words", examples=["Good morning!"])


class ImagePart(_Given):
    """The image of a post."""

    type: Literal["image_url"] = Field(description="which kind of part this is")
    image_url: ImageUrl = Field(description="where it is")


Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]
Words = Annotated[str, Field(max_length=MOST_TEXT)]


def _kind(given: Any) -> str:
    """Which of the three forms an input has, so that a fault is told of that form alone."""
    if isinstance(given, list):
        return "parts" if any(isinstance(each, dict) for each in given) else "texts"
    return "text"


Input = Annotated[
    Annotated[Words, Tag("text")]
    | Annotated[list[Words], Field(min_length=1, max_length=MOST_INPUTS), Tag("texts")]
    | Annotated[list[Part], Field(min_length=1, max_length=MOST_INPUTS), Tag("parts")],
    Discriminator(_kind),
]


class ModerationRequest(_Given):
    """Posts to judge."""

    input: Input = Field(
        description=f"a text: one post. A list of texts: up to {MOST_INPUTS} posts. A list of parts, texts and at most "
        "one image: one post",
        examples=["Good morning!"],
    )
    model: str | None = Field(
        default=None,
        max_length=200,
        description="taken, and chooses nothing: the operator has chosen",
        examples=["omni-moderation-latest"],
    )


class Moderation(BaseModel):
    """What was decided on a post, by category; only those of the header `Tribunal-Categories` are judged."""

    flagged: bool = Field(description="whether the post is hate speech", examples=[False])
    categories: dict[str, bool] = Field(
        description="whether the post is of a category; false for one that isn't judged",
        examples=[dict.fromkeys(CATEGORIES, False)],
    )
    category_scores: dict[str, float] = Field(
        description="the verdict's confidence, or its opposite; 0 for a category that isn't judged",
        examples=[{each: 0.03 if each.startswith(HATE) else 0.0 for each in CATEGORIES}],
    )
    category_applied_input_types: dict[str, list[Literal["text", "image"]]] = Field(
        description="what of the post was judged; nothing for a category that isn't",
        examples=[{each: ["text"] if each.startswith(HATE) else [] for each in CATEGORIES}],
    )


class ModerationResponse(BaseModel):
    """The decisions, in the order of the inputs."""

    id: str = Field(description="of this answer", examples=["modr-0198c5d1f3a1b2c3d4e5f"])
    model: str = Field(description="which graph decided, and by which models", examples=["tribunal (openai:gpt-5.1)"])
    results: list[Moderation] = Field(description="one a post")
