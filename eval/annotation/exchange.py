"""Posts go out to annotators, and their labels come back."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tribunal.errors import BadInput
from tribunal.eval.annotation.consensus import (
    LACKS,
    LEVELS,
    SettledPost,
    measure_pairs,
    measure_steps,
    settle_post,
)
from tribunal.eval.annotation.label_studio import (
    HEAD,
    IMAGES,
    POSTS,
    SIDES,
    AnnotationFolder,
    AnnotationHead,
    AnnotationPost,
    AnnotatorLabels,
    CategoryOption,
    IntendedLabel,
    LabelsByPost,
    read_labels,
    write_tasks,
)
from tribunal.eval.datasets.sampling import SamplePlan
from tribunal.eval.evaluate import Evaluation, prepare_run
from tribunal.eval.report.page import output_folder
from tribunal.process.files import write_atomically, write_whole
from tribunal.prompts.policy import load_policy
from tribunal.review.case_tables import copy_image
from tribunal.review.label_studio import LOCAL_FILES
from tribunal.review.table_files import ColumnKind, TableWriter
from tribunal.runner.results import Gold
from tribunal.schema import JSON
from tribunal.settings.contents import keep_files_read


class AnnotationRequest(Evaluation):
    """Hold what is to be labelled, and how.

    Images go in as copies, under `prefix`, or `inline`, as data URIs.
    """

    dataset: str | None = "table"
    graph: str | None = "baseline"
    gold: Literal["needed", "optional", "none"] = "optional"
    annotators: int = 3
    inline: bool = False
    prefix: str = LOCAL_FILES


@dataclass
class ExportReport:
    """Count the tasks written, and the images lost or on the web; `warnings` are those of the data set."""

    warnings: tuple[str, ...]
    tasks: int = 0
    images_lost: int = 0
    images_on_the_web: int = 0


@keep_files_read()
def export_tasks(wanted: AnnotationRequest, out: Path) -> ExportReport:
    """Write the tasks of an annotation into a folder. The same request on the same folder writes them again.

    Raises:
        BadInput: the data, a setting or the folder is wrong.
    """
    prepared = prepare_run(wanted)
    plan = prepared.plan
    context = prepared.job.context
    from tribunal.nodes.peers.single_call import decision_scheme

    in_force = load_policy(context.policy)
    scheme = decision_scheme(context)
    if plan.dataset.task != "hate" or in_force.task != "hate":
        name = plan.dataset.name
        raise BadInput(
            f"dataset: {name}: what is labelled here is hate speech; take a set and a policy of it"
        )
    head = AnnotationHead(
        **wanted.model_dump(include={"annotators", "inline", "prefix"}),
        dataset={**prepared.held["data"], **prepared.held["sampling"]},
        policy=in_force.name,
        policy_sha=in_force.sha,
        scheme=scheme,
        categories=tuple(
            CategoryOption(name=each.name, meaning=each.meaning, hate=bool(each.hate))
            for each in in_force.categories(scheme)
        ),
        groups=in_force.protected_groups,
        pictured=any(sample.image for sample in plan),
        conversation=any(sample.earlier for sample in plan),
    )
    _check_begun_folder(out, head)
    done = ExportReport(prepared.plan.warnings)
    with output_folder(out):
        done.tasks = write_tasks(
            out, head, _write_posts(out, prepared.plan, head, done), out / IMAGES
        )
        # the last: where it is, all is
        write_whole(out / HEAD, head.model_dump_json(indent=2) + "\n")
    return done


def _check_begun_folder(out: Path, head: AnnotationHead) -> None:
    """Refuse a folder in which another annotation was begun: its labels would fall on other posts."""
    if not (out / HEAD).exists():
        return
    held = AnnotationFolder(out).head.dump()
    wanted = head.dump()
    changed = [name for name, now in wanted.items() if held[name] != now]
    if changed:
        raise BadInput(
            f"out: {out}: an annotation was begun there with another {', '.join(changed)}; go on as it was begun, or "
            "take another folder"
        )


def _write_posts(
    out: Path, plan: SamplePlan, head: AnnotationHead, done: ExportReport
) -> Iterator[AnnotationPost]:
    """Write each post and copy its image, and yield it."""
    with write_atomically(out / POSTS) as lines:
        for sample in plan:
            image = copy_image(sample.image, out / IMAGES, "")
            done.images_lost += bool(sample.image) and image is None
            done.images_on_the_web += bool(image) and image == sample.image
            post = AnnotationPost(
                id=sample.id,
                text=sample.text,
                image=image,
                language=sample.language,
                earlier=sample.earlier,
                group=sample.group,
                intended=_intended_label(sample.gold, head),
            )
            lines.write(
                json.dumps(post.dump(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            )
            yield post


def _intended_label(gold: Gold | None, head: AnnotationHead) -> IntendedLabel | None:
    """Return the intended label. Its category is known if the set's name or number for it is the policy's."""
    if gold is None:
        return None
    names = [each.name for each in head.categories]
    named = next((name for name in names if name.casefold() == gold.name.casefold()), None)
    ours = [each.name for each in load_policy("h-vli").fine]
    if named is None and gold.scheme == "fine" and names == ours:
        named = ours[gold.label]
    return IntendedLabel(
        category=named if head.scheme == "fine" else None, hate=gold.positive, name=gold.name
    )


COLUMNS: dict[str, ColumnKind] = {
    "id": "text", "text": "text", "image": "text", "language": "text", "earlier": "texts", "group": "text",
    "label": "text", "category": "text", "text_label": "text", "image_label": "text", "intent": "text",
    "target": "texts", "smi_pattern": "text", "difficulty": "text", "consensus": "text", "annotators": "integer",
    "intended": "text", "aligned": "flag", "annotations": "text", "policy": "text",
    "policy_sha": "text",
}  # fmt: skip
_BOTH = {True: "hate", False: "not", None: ""}


@dataclass(frozen=True)
class ImportedLabels:
    """Hold the labelled posts of an annotation, settled."""

    sheet: AnnotationFolder
    read: LabelsByPost
    settled: tuple[SettledPost, ...]
    levels: tuple[str, ...]
    by_intent: bool

    @property
    def kept_posts(self) -> list[SettledPost]:
        """Return the posts of the data set: those that pass every step of Appendix C."""
        return [
            each
            for each in self.settled
            if each.usable
            and each.level in self.levels
            and not (self.by_intent and each.aligned is False)
        ]

    @property
    def posts_to_review(self) -> list[SettledPost]:
        """Return the posts that a further person should look at."""
        return [each for each in self.settled if each.lacks is not None and not each.low_quality]


def import_labels(
    exports: Sequence[Path],
    folder: Path,
    *,
    levels: Collection[str] = LEVELS,
    by_intent: bool = True,
) -> ImportedLabels:
    """Read the labels in exports of Label Studio, of the first stage and of the second, and settle every post.

    `levels` of consensus are kept; `by_intent` leaves out posts that people gave another label than they came with.

    Raises:
        BadInput: a file can't be read, or isn't of this annotation; there is no such level.
    """
    unknown = next((each for each in levels if each not in LEVELS), None)
    if unknown:
        raise BadInput(f"keep: {unknown!r}: a level of consensus is {', '.join(LEVELS)}")
    sheet = AnnotationFolder(folder)
    read = read_labels(exports, sheet)
    settled = [
        settle_post(post, read.labels[name], sheet.head)
        for name, post in sheet.posts.items()
        if name in read.labels
    ]
    return ImportedLabels(
        sheet, read, tuple(settled), tuple(each for each in LEVELS if each in levels), by_intent
    )


def summarize_labels(taken: ImportedLabels) -> JSON:
    """Return the result, as `--json` prints it."""
    held = taken.settled
    read = taken.read
    usable = [each for each in held if each.usable]
    kept = taken.kept_posts
    compared = [each for each in usable if each.aligned is not None]
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    for each in taken.posts_to_review:
        lacking[str(each.lacks)].append(each.post.id)
    people = Counter(label.by for labels in read.labels.values() for label in labels)
    return {
        "posts": len(taken.sheet.posts),
        "labelled": len(held),
        "annotations": people.total(),
        "annotators": dict(sorted(people.items())),
        "repeated": read.repeated,
        "blank": read.blank,
        "low_quality": sum(each.low_quality for each in held),
        "levels": {
            level: sum(each.level == level for each in usable) for level in (*LEVELS, "none")
        },
        "alignment": {
            "compared": len(compared),
            "aligned": sum(bool(each.aligned) for each in compared),
        },
        "steps": measure_steps(held, taken.sheet.head, taken.levels, aligned=taken.by_intent),
        "pairs": measure_pairs(read.labels.values()),
        "lacking": dict(lacking),
        "rows": len(kept),
        "patterns": dict(sorted(Counter(each.pattern or "none" for each in kept).items())),
        "difficulty": dict(sorted(Counter(each.difficulty or "none" for each in kept).items())),
    }


def write_dataset(taken: ImportedLabels, out: Path, form: str) -> int:
    """Write the kept posts as a table (`jsonl`, `csv`, `parquet`), whole or not at all; count the images that are gone.

    Images are copied to a folder beside it.

    Raises:
        BadInput: there is no such format.
        OSError: the file can't be written.
    """
    images = out.with_name(f"{out.name}.images")
    lost = 0
    people = sorted({label.by for given in taken.read.labels.values() for label in given})
    numbers = {by: number for number, by in enumerate(people, start=1)}
    with write_atomically(out) as file, closing(TableWriter(form, COLUMNS, file)) as table:
        for each in taken.kept_posts:
            placed = copy_image(taken.sheet.image_address(each.post), images, f"{images.name}/")
            lost += each.post.image is not None and placed is None
            table.add({**_dataset_row(each, taken, numbers), "image": placed})
    return lost


def _dataset_row(each: SettledPost, taken: ImportedLabels, numbers: Mapping[str, int]) -> JSON:
    post = each.post
    head = taken.sheet.head
    # A person has a number in place of a name, the same in all rows.
    people = [
        {**label.model_dump(exclude={"at"}), "by": numbers[label.by]} for label in each.ratings
    ]
    row: JSON = {
        "id": post.id, "text": post.text, "language": post.language or "", "earlier": list(post.earlier),
        "group": post.group, "label": _BOTH[each.hate], "category": each.category or "", "intent": each.intent or "",
        "target": list(each.target), "smi_pattern": each.pattern or "", "difficulty": each.difficulty or "",
        "consensus": each.level, "annotators": len(each.ratings),
        "intended": post.intended.category or post.intended.name if post.intended else "", "aligned": each.aligned,
        "annotations": json.dumps(people, ensure_ascii=False), "policy": head.policy, "policy_sha": head.policy_sha,
    }  # fmt: skip
    for name, alone in (("text_label", each.text), ("image_label", each.image)):
        row[name] = alone.category or _BOTH[alone.hate]
    return row


def write_second_stage(taken: ImportedLabels, out: Path) -> int:
    """Write tasks that show a further person the first choices, into a folder of their own; return how many.

    Raises:
        BadInput: the folder is that of the first stage.
        OSError: it can't be written.
    """
    if out.resolve() == taken.sheet.folder.resolve():
        raise BadInput(f"out: {out}: holds the tasks of the first stage; give another folder")
    first = {}
    for each in taken.posts_to_review:
        choices = [
            _describe_choice(number, label)
            for number, label in enumerate(taken.read.labels[each.post.id], 1)
        ]
        first[each.post.id] = "\n".join(
            [f"Here because {LACKS[each.lacks]}." if each.lacks else "", *choices]
        )
    posts = [each.post for each in taken.posts_to_review]
    return write_tasks(out, taken.sheet.head, posts, taken.sheet.folder / IMAGES, first=first)


def _describe_choice(number: int, label: AnnotatorLabels) -> str:
    parts = [
        label.joint or "no label",
        *(f"the {side} alone {chosen}" for side in SIDES if (chosen := label.of_side(side))),
        *([label.intent] if label.intent else []),
        *([f"about {', '.join(label.target)}"] if label.target else []),
        *(["not sure"] if label.unsure else []),
        *([f"“{label.note}”"] if label.note else []),
    ]
    return f"{'Annotator' if label.stage == 'first' else 'Expert'} {number}: {'; '.join(parts)}"
