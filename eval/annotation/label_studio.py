"""The folder of an annotation, with the files of Label Studio: write the interface and the tasks, read its exports.

Text label, image label and joint label are the paper's (section 3.2, equation 3). It annotates neither an intent nor a
target, so these choices are ours: the ways in which Appendix B.1 has posts written, and section 4.1 defends them.
"""

from __future__ import annotations

import base64
import mimetypes
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from tribunal.errors import BadInput
from tribunal.models.image import MAX_BYTES
from tribunal.process.files import (
    bounded_lines,
    open_regular,
    read_regular,
    write_atomically,
    write_whole,
)
from tribunal.review.label_studio import (
    TASKS,
    Annotation,
    ExportModel,
    LabellingInterface,
    read_tasks,
    write_task,
)
from tribunal.schema import JSON, Frozen, Scheme
from tribunal.settings.validation import describe_validation_error

HEAD = "annotation.json"
POSTS = "posts.jsonl"
IMAGES = "images"
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
                self.posts = {
                    post.id: post
                    for post in map(AnnotationPost.model_validate_json, bounded_lines(file))
                }
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


CONFIG = "label_config.xml"
JOINT = "joint_label"
INTENT = "intent"
TARGET = "target"
FLAGS = "flags"
NOTE = "note"
LABEL_OF_SIDE: dict[Side, str] = {"text": "text_label", "image": "image_label"}
UNSURE = "Not sure"
LOW_QUALITY = "Low quality"
INTENTS = {
    "nothing of hate": "neither text nor image has to do with hate",
    "open attack": "attacks a group in plain words or pictures",
    "implied attack": "attacks a group by stereotype or metaphor, or by what text and image say only together",
    "opposition": "shows hate to speak against it",
    "inversion": "text or image gives the other a harmless meaning",
    "commentary": "reports, teaches about or criticises hate",
    "victim": "tells of hate from the side of those whom it hits",
    "satire": "mocks hate, or the author's own group",
}
_FLAGS = {
    UNSURE: "choose the likeliest label, and a second person will look at the post",
    LOW_QUALITY: "the image can't be made out, or the text makes no sense: the post is left out",
}
Stage = Literal["first", "second"]


def labelling_interface(head: AnnotationHead, *, second: bool = False) -> str:
    """Return the labelling interface as XML; that of the second stage shows what the first annotators chose."""
    made = LabellingInterface(pictured=head.pictured, conversation=head.conversation)
    categories = {each.name: each.meaning for each in head.categories}
    if second:
        made.add_text("What the first annotators chose", "first")
    for side in SIDES if head.pictured else SIDES[:1]:
        made.add_choices(LABEL_OF_SIDE[side], categories, f"The {side} alone")
    made.add_choices(JOINT, categories, "The whole post: text and image together", required=True)
    made.add_choices(INTENT, INTENTS, "What the post does")
    made.add_choices(
        TARGET, dict.fromkeys(head.groups, ""), "The groups that it is about", many=True
    )
    made.add_choices(FLAGS, _FLAGS, "Is anything wrong?", many=True)
    return made.to_xml(NOTE)


def write_tasks(
    folder: Path,
    head: AnnotationHead,
    posts: Iterable[AnnotationPost],
    images: Path,
    *,
    first: dict[str, str] | None = None,
) -> int:
    """Write tasks.json and label_config.xml, each whole or not at all, and return how many tasks there are.

    `first` has for a second stage what the first annotators chose, by post. Images lie in the folder `images`.

    Raises:
        OSError: they can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with write_atomically(folder / TASKS) as file:
        file.write(b"[")
        for post in posts:
            task = _make_task(post, head, images, None if first is None else first[post.id])
            write_task(file, task, first=count == 0)
            count += 1
        file.write(b"\n]\n")
    write_whole(folder / CONFIG, labelling_interface(head, second=first is not None))
    return count


def _make_task(post: AnnotationPost, head: AnnotationHead, images: Path, first: str | None) -> JSON:
    data = {
        "post_id": post.id, "stage": "first" if first is None else "second", "text": post.text,
        "image": _image_in_task(post, head, images), "conversation": "\n\n".join(post.earlier),
        "language": post.language or "",
    }  # fmt: skip
    if first is not None:
        data["first"] = first
    return {"data": data}


def _image_in_task(post: AnnotationPost, head: AnnotationHead, images: Path) -> str:
    if post.image is None or post.image_on_the_web:
        return post.image or ""
    if not head.inline:
        return head.prefix + post.image
    kind = mimetypes.guess_type(post.image)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(read_regular(images / post.image, MAX_BYTES)).decode()}"


class AnnotatorLabels(Frozen):
    """Hold one annotator's five-tuple for one post, and what they flagged.

    `joint` is None where they chose none, which is taken only of a post of low quality.
    """

    by: str = Field(description="the annotator, by address or number")
    stage: Stage
    joint: str | None
    text: str | None = None
    image: str | None = None
    intent: str | None = None
    target: tuple[str, ...] = ()
    unsure: bool = False
    low_quality: bool = False
    note: str = ""
    at: str = ""

    @classmethod
    def from_annotation(cls, given: Annotation, stage: Stage) -> AnnotatorLabels:
        """Return the labels of an annotation."""
        chosen = {
            result.from_name: result.texts_of("choices") or result.texts_of("text")
            for result in given.result
        }
        joint, text, image, intent = (
            next(iter(chosen.get(control, ())), None)
            for control in (JOINT, *LABEL_OF_SIDE.values(), INTENT)
        )
        flags = chosen.get(FLAGS, ())
        return cls(
            by=given.annotator,
            stage=stage,
            joint=joint,
            text=text,
            image=image,
            intent=intent,
            target=tuple(chosen.get(TARGET, ())),
            unsure=UNSURE in flags,
            low_quality=LOW_QUALITY in flags,
            note=" ".join(chosen.get(NOTE, ())),
            at=given.updated_at,
        )

    def of_side(self, side: Side) -> str | None:
        """Return the label of one side alone."""
        return self.text if side == "text" else self.image


@dataclass
class LabelsByPost:
    """Hold the labels of each post, in the order in which they were given.

    `repeated` counts labels that the same annotator gave anew, in whose place the later ones stand; `blank`
    annotations without a joint label, which count as none.
    """

    labels: dict[str, list[AnnotatorLabels]]
    repeated: int = 0
    blank: int = 0


class _TaskData(ExportModel):
    post_id: str = Field(min_length=1)
    stage: Stage = "first"


class _LabelledTask(ExportModel):
    data: _TaskData
    annotations: list[Annotation]

    @model_validator(mode="before")
    @classmethod
    def _expand_minimal(cls, task: Any) -> Any:
        """Return a row of JSON-MIN, which has a task's data beside each control's choice, as JSON has it."""
        if not isinstance(task, dict) or "annotations" in task:
            return task
        results = [
            {
                "from_name": control,
                "value": value if isinstance(value, dict) else {"choices": value},
            }
            for control, value in task.items()
        ]
        by = task.get("annotator")
        at = task.get("updated_at", "")
        return {
            "data": task,
            "annotations": [{"completed_by": by, "updated_at": at, "result": results}],
        }


def read_labels(paths: Sequence[Path], sheet: AnnotationFolder) -> LabelsByPost:
    """Read the labels in these exports of an annotation's tasks; the tasks say of which stage they are.

    Raises:
        BadInput: a file can't be read or is something else; a task is of another annotation; a choice is none of those
            that there were.
    """
    found = LabelsByPost(defaultdict(list))
    latest: dict[tuple[str, str, str], AnnotatorLabels] = {}
    for path in paths:
        given = [
            (task.data.post_id, AnnotatorLabels.from_annotation(each, task.data.stage))
            for task in read_tasks(path, _LabelledTask)
            for each in task.annotations
            if not each.was_cancelled
        ]
        for number, (post, labels) in enumerate(given, start=1):
            if post not in sheet.posts:
                raise BadInput(
                    f"{path}: post {post!r}: isn't in {sheet.folder}; give the folder that its tasks were written to"
                )
            if labels.joint is None and not labels.low_quality:
                found.blank += 1
                continue
            _check_choices(labels, sheet.head, f"{path}: post {post!r}")
            by = labels.by or f"{path.name} {number}"
            before = latest.get((post, labels.stage, by))
            found.repeated += before is not None
            if before is None or labels.at >= before.at:
                latest[post, labels.stage, by] = labels.model_copy(update={"by": by})
    for (post, _, _), labels in sorted(latest.items(), key=lambda held: (held[1].at, held[1].by)):
        found.labels[post].append(labels)
    return found


def _check_choices(labels: AnnotatorLabels, head: AnnotationHead, where: str) -> None:
    categories = [each.name for each in head.categories]
    for control, chosen, known in (
        (JOINT, labels.joint, categories),
        *((LABEL_OF_SIDE[side], labels.of_side(side), categories) for side in SIDES),
        (INTENT, labels.intent, INTENTS),
        *((TARGET, group, head.groups) for group in labels.target),
    ):
        if chosen is not None and chosen not in known:
            raise BadInput(
                f"{where}: {control}: {chosen!r}: is none of {', '.join(known)}; label with the label_config.xml that "
                "was exported"
            )
