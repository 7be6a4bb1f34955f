"""Prepare posts for annotators: choose them, ask a model about text and image alone, and write tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tribunal.contents import keep_files_read
from tribunal.errors import BadInput
from tribunal.eval.annotation.label_studio import write_tasks
from tribunal.eval.annotation.sheet import (
    HEAD,
    IMAGES,
    POSTS,
    SIDES,
    AnnotationFolder,
    AnnotationHead,
    AnnotationPost,
    CategoryOption,
    IntendedLabel,
    ModelPrior,
    Side,
)
from tribunal.eval.datasets.sample import Gold, Sample
from tribunal.eval.datasets.sampling import ImageCounts, SamplePlan
from tribunal.eval.evaluate import Evaluation, PreparedRun, prepare_run
from tribunal.eval.runs.job import RunOptions
from tribunal.eval.runs.lifecycle import carry_out_run
from tribunal.eval.runs.results import read_full_line, read_results
from tribunal.eval.runs.tally import RunTally
from tribunal.exports.case_tables import copy_image
from tribunal.exports.label_studio import LOCAL_FILES
from tribunal.files import write_atomically, write_whole
from tribunal.nodes.peers.single_call import decision_scheme
from tribunal.prompts.policy import load_policy


class OneSidePlan(SamplePlan):
    """Iterate over the posts of a plan with their text alone or their image alone; skip posts without it.

    The gold isn't there: it is that of the whole post.
    """

    def __init__(self, plan: SamplePlan, side: Side) -> None:
        """Count the posts that have this side."""
        self._whole, self._side = plan, side
        count = sum(1 for _ in self)
        images = ImageCounts(count, count) if side == "image" else ImageCounts(0, 0)
        super().__init__(plan.dataset, count, plan.warnings if side == "text" else (), images)

    def __iter__(self) -> Iterator[Sample]:
        """Yield one side of each post."""
        for sample in self._whole:
            if self._side == "text" and sample.text.strip():
                yield Sample(id=sample.id, text=sample.text, language=sample.language)
            elif self._side == "image" and sample.image:
                yield Sample(id=sample.id, image=sample.image)

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the posts that aren't done, each with its place among those that have this side."""
        return ((place, sample) for place, sample in enumerate(self) if not is_done(place))


def read_priors(folder: Path) -> dict[str, ModelPrior]:
    """Return what the model said, by post; raise `BadInput` if the folder's results are broken."""
    found = {}
    for offset, result in read_results(folder):
        verdict = result.outcome == "verdict"
        found[result.post_id] = ModelPrior(
            outcome=result.outcome if result.outcome in ("verdict", "refusal") else "failure",
            category=result.category if verdict else None,
            confidence=result.confidence if verdict else None,
            reason=str(read_full_line(folder, offset).get("explanation") or "") if verdict else "",
            model=next((call.model for call in reversed(result.calls) if call.error is None), ""),
        )
    return found


class AnnotationRequest(Evaluation):
    """Hold what is to be labelled, and how.

    `image_model` is asked about images in the place of the model that is asked about texts. Without `priors` no model
    is asked. `joint_only` asks people for the joint label and shows them the model's two others, as the paper does;
    else they are asked for all three. Images go in as copies, under `prefix`, or `inline`, as data URIs.
    """

    dataset: str | None = "table"
    graph: str | None = "baseline"
    image_model: str | None = None
    priors: bool = True
    annotators: int = 3
    joint_only: bool = False
    inline: bool = False
    prefix: str = LOCAL_FILES


@dataclass
class ExportReport:
    """Count the tasks written, the priors by side and outcome, and the images lost or on the web.

    `tallies` are those of the runs; `stopped` says why nothing was written, where it wasn't.
    """

    tasks: int = 0
    priors: dict[str, Counter[str]] = field(default_factory=dict)
    images_lost: int = 0
    images_on_the_web: int = 0
    tallies: dict[str, RunTally] = field(default_factory=dict)
    stopped: str = ""


@keep_files_read()
def export_tasks(wanted: AnnotationRequest, out: Path, options: RunOptions) -> ExportReport:
    """Ask the model about every post, one side at a time, and write the tasks into a folder; or go on with it.

    Raises:
        BadInput: the data, a setting or the folder is wrong. No answer is lost.
    """
    whole = prepare_run(wanted)
    plan = whole.plan
    head = _make_head(wanted, whole)
    _check_begun_folder(out, head)
    done, said = ExportReport(), dict[Side, dict[str, ModelPrior]]()
    if not wanted.priors:
        for warning in plan.warnings:
            options.warn(warning)
    for side in SIDES if wanted.priors else ():
        if side == "image" and wanted.image_model:
            seats = {**wanted.settings.get("seats", {}), "classifier": wanted.image_model}
            whole = prepare_run(wanted.model_copy(update={"settings": {**wanted.settings, "seats": seats}}))
        posts = OneSidePlan(whole.plan, side)
        data = {**whole.held["data"], "side": side}
        held = {**whole.held, "data": data, "n": len(posts), "images": posts.images.dump()}
        job = replace(whole.job, samples=posts, count=len(posts))
        tally = carry_out_run(job, out / side, held, options=options, warnings=posts.warnings)
        done.tallies[side] = tally
        if tally.stopped:
            done.stopped = tally.stopped
            return done
        said[side] = read_priors(out / side)
        done.priors[side] = Counter(prior.outcome for prior in said[side].values())
    try:
        out.mkdir(parents=True, exist_ok=True)
        done.tasks = write_tasks(out, head, _write_posts(out, plan, head, said, done), out / IMAGES)
        write_whole(out / HEAD, head.model_dump_json(indent=2) + "\n")  # the last: where it is, all is
    except OSError as error:
        raise BadInput(f"out: {out}: can't be written: {error.strerror or error}; take another folder") from error
    return done


def _make_head(wanted: AnnotationRequest, whole: PreparedRun) -> AnnotationHead:
    plan, context = whole.plan, whole.job.context
    in_force, scheme = load_policy(context.policy), decision_scheme(context)
    if plan.dataset.task != "hate" or in_force.task != "hate":
        name = plan.dataset.name
        raise BadInput(f"dataset: {name}: what is labelled here is hate speech; take a set and a policy of it")
    return AnnotationHead(
        **wanted.model_dump(include={"annotators", "priors", "joint_only", "inline", "prefix"}),
        dataset={**whole.held["data"], **whole.held["sampling"]},
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


def _write_posts(
    out: Path, plan: SamplePlan, head: AnnotationHead, said: Mapping[Side, Mapping[str, ModelPrior]], done: ExportReport
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
                text_prior=said.get("text", {}).get(sample.id),
                image_prior=said.get("image", {}).get(sample.id),
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
