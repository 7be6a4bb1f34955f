"""Hold one post of a data set: the post, its gold label, and the set's own fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol, runtime_checkable

from pydantic import Field

from tribunal.schema import JSON, Frozen, Scheme


class Gold(Frozen):
    """Hold the label that a data set gives a post.

    `label` is a number of `scheme`; `positive` is the label folded to yes or no (hate, sarcasm, misinformation).
    """

    label: int = Field(ge=0, le=2**31)
    scheme: Scheme
    positive: bool
    name: str = Field(description="the label in the set's own words")


@lru_cache(maxsize=256)
def binary_label(positive: bool, name: str) -> Gold:
    """Return a yes or no label, in the set's own word."""
    return Gold(label=int(positive), scheme="binary", positive=positive, name=name)


class Sample(Frozen):
    """Hold one post of a data set. `fields` are the set's own, such as smi_pattern, difficulty and target."""

    id: str
    text: str = ""
    image: str | None = Field(default=None, description="the path of its image")
    image_missing: bool = Field(default=False, description="its set names an image for it, which isn't there")
    language: str | None = None
    earlier: tuple[str, ...] = Field(default=(), description="earlier posts of its conversation, the oldest first")
    author: str | None = Field(default=None, description="whose post it is; only a keyed hash of it is ever kept")
    gold: Gold | None = None
    group: str = Field(default="", description="posts of one group say the same, so they should get the same verdict")
    fields: JSON = Field(default_factory=dict)
    problem: str = Field(default="", description="the field and what is wrong with it, where it can't be judged")

    @property
    def label_name(self) -> str:
        """Return the name of its label, or `unlabelled`."""
        return self.gold.name if self.gold else "unlabelled"

    @property
    def post(self) -> JSON:
        """Return the post by the argument names of `judge_post`."""
        return {
            "text": self.text, "image": self.image, "post_id": self.id, "language": self.language,
            "earlier": self.earlier,
        }  # fmt: skip


@runtime_checkable
class SkippingSamples(Protocol):
    """Samples that skip those that are done without reading them."""

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the samples that aren't done, each with its place."""
