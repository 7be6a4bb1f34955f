"""Read the folder of an annotation: what was to be labelled, and how. Annotators only see its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from tribunal.errors import BadInput
from tribunal.files import bounded_lines, open_regular, read_regular
from tribunal.schema import JSON, Frozen, Scheme
from tribunal.validation import describe_validation_error

HEAD, POSTS, IMAGES = "annotation.json", "posts.jsonl", "images"
Side = Literal["text", "image"]
SIDES: tuple[Side, ...] = ("text", "image")


class CategoryOption(Frozen):
    """Hold a category that annotators choose from."""

    name: str
    meaning: str
    hate: bool


class IntendedLabel(Frozen):
    """Hold the label that a post was written for, or its source's (Appendix C, step 3)."""

    category: str | None = Field(description="none where the source says only whether it is hate")
    hate: bool
    name: str = Field(description="in the source's own words")


class AnnotationHead(Frozen, extra="ignore"):  # a folder of 0.2.0 has more fields
    """Hold how an annotation is made."""

    annotators: int = Field(ge=1, description="people that each post is to be labelled by")
    dataset: JSON
    policy: str
    policy_sha: str
    scheme: Scheme
    categories: tuple[CategoryOption, ...]
    groups: tuple[str, ...]
    inline: bool
    prefix: str
    pictured: bool = Field(description="whether any post has an image")
    conversation: bool = Field(description="whether any post has earlier ones")

    def is_hate(self, category: str) -> bool:
        """Return whether a category is hate; raise KeyError for an unknown one."""
        return {each.name: each.hate for each in self.categories}[category]


class AnnotationPost(Frozen, extra="ignore"):
    """Hold a post to label. `image` is a name in the folder `images`, or a web address."""

    id: str
    text: str = ""
    image: str | None = None
    language: str | None = None
    earlier: tuple[str, ...] = ()
    group: str = ""
    intended: IntendedLabel | None = None

    @property
    def image_on_the_web(self) -> bool:
        """Return whether its image is a web address."""
        return self.image is not None and self.image.casefold().startswith(("http://", "https://"))


class AnnotationFolder:
    """Read the folder that `tribunal annotate export` wrote."""

    def __init__(self, folder: Path) -> None:
        """Read the folder; raise `BadInput` if it isn't one, or a file of it is broken."""
        self.folder = folder
        try:
            self.head = AnnotationHead.model_validate_json(read_regular(folder / HEAD))
            with open_regular(folder / POSTS) as file:
                self.posts = {post.id: post for post in map(AnnotationPost.model_validate_json, bounded_lines(file))}
        except OSError as error:
            raise BadInput(
                f"tasks: {folder}: {error.strerror or error}; give the folder that tribunal annotate export wrote"
            ) from error
        except ValidationError as error:
            raise BadInput(
                f"tasks: {folder}: broken: {describe_validation_error(error)}; export the posts anew"
            ) from error

    def image_address(self, post: AnnotationPost) -> str | None:
        """Return a post's image: its web address, or its file."""
        if post.image is None or post.image_on_the_web:
            return post.image
        return str(self.folder / IMAGES / post.image)
