"""Prepare posts for annotators: choose them, copy their images, and write the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tribunal.contents import keep_files_read
from tribunal.errors import BadInput
from tribunal.eval.annotation.label_studio import (
    HEAD,
    IMAGES,
    POSTS,
    AnnotationFolder,
    AnnotationHead,
    AnnotationPost,
    CategoryOption,
    IntendedLabel,
    write_tasks,
)
from tribunal.eval.datasets.sampling import SamplePlan
from tribunal.eval.evaluate import Evaluation, prepare_run
from tribunal.eval.report.page import output_folder
from tribunal.exports.case_tables import copy_image
from tribunal.exports.label_studio import LOCAL_FILES
from tribunal.files import write_atomically, write_whole
from tribunal.nodes.peers.single_call import decision_scheme
from tribunal.prompts.policy import load_policy
from tribunal.runner.sample import Gold


class AnnotationRequest(Evaluation):
    """Hold what is to be labelled, and how.

    Images go in as copies, under `prefix`, or `inline`, as data URIs.
    """

    dataset: str | None = "table"
    graph: str | None = "baseline"
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
    plan, context = prepared.plan, prepared.job.context
    in_force, scheme = load_policy(context.policy), decision_scheme(context)
    if plan.dataset.task != "hate" or in_force.task != "hate":
        name = plan.dataset.name
        raise BadInput(f"dataset: {name}: what is labelled here is hate speech; take a set and a policy of it")
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
        done.tasks = write_tasks(out, head, _write_posts(out, prepared.plan, head, done), out / IMAGES)
        write_whole(out / HEAD, head.model_dump_json(indent=2) + "\n")  # the last: where it is, all is
    return done


def _check_begun_folder(out: Path, head: AnnotationHead) -> None:
    """Refuse a folder in which another annotation was begun: its labels would fall on other posts."""
    if not (out / HEAD).exists():
        return
    held, wanted = AnnotationFolder(out).head.dump(), head.dump()
    changed = [name for name, now in wanted.items() if held[name] != now]
    if changed:
        raise BadInput(
            f"out: {out}: an annotation was begun there with another {', '.join(changed)}; go on as it was begun, or "
            "take another folder"
        )


def _write_posts(out: Path, plan: SamplePlan, head: AnnotationHead, done: ExportReport) -> Iterator[AnnotationPost]:
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
            lines.write(json.dumps(post.dump(), ensure_ascii=False).encode("utf-8", "replace") + b"\n")
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
    return IntendedLabel(category=named if head.scheme == "fine" else None, hate=gold.positive, name=gold.name)
