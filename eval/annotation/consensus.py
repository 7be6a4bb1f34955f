"""Derive a post's consensus from its annotators: gold labels, pattern, difficulty, alignment with the intent.

The rules are those of the ARCADE paper: section 3.2, Table 1, Appendix C. docs/annotation.md says where it is silent.
How far annotators agree is measured before and after each filter step (Table 2). Agreement after a step is that on the
posts which the step left in: the steps leave out the posts on which people disagree, so it rises by what they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import combinations
from typing import Literal, TypeVar

import numpy as np

from tribunal.eval.annotation.label_studio import (
    SIDES,
    AnnotationHead,
    AnnotationPost,
    AnnotatorLabels,
    Side,
)
from tribunal.eval.datasets.published import DIFFICULTY
from tribunal.eval.measures.agreement import cohen_kappa, measure_agreement
from tribunal.schema import JSON, Frozen

Level = Literal["perfect", "strong", "weak", "adjudicated", "none"]
# in which a post has a label
LEVELS: tuple[Level, ...] = (
    "perfect",
    "strong",
    "weak",
    "adjudicated",
)
Lacks = Literal["annotators", "unsure", "majority", "category"]
LACKS: dict[Lacks, str] = {
    "annotators": "too few annotators have labelled it",
    "unsure": "an annotator wasn't sure",
    "majority": "no label has a majority",
    "category": "all say hate, and no category has a majority",
}
T = TypeVar("T", bound=Hashable)


class SideLabel(Frozen):
    """Hold the label of a post's text alone, or of its image alone.

    `category` is None where only hate or not can be told, and `hate` where not even that.
    """

    category: str | None = None
    hate: bool | None = None


class SettledPost(Frozen):
    """Hold a post with what its annotators agreed on.

    `raw` are the joint labels of the first stage as they were given, `ratings` the labels that count: those of a second
    expert stand in the place of uncertain ones. `lacks` says why a further person should look at it. `hate` is None
    where the post has no label. `aligned` is None where it came with no label to compare.
    """

    post: AnnotationPost
    raw: tuple[str, ...]
    ratings: tuple[AnnotatorLabels, ...]
    low_quality: bool
    level: Level
    lacks: Lacks | None
    category: str | None
    hate: bool | None
    text: SideLabel
    image: SideLabel
    intent: str | None
    target: tuple[str, ...]
    pattern: str | None
    aligned: bool | None

    @property
    def difficulty(self) -> str | None:
        """Return the difficulty of its pattern (Table 1)."""
        return DIFFICULTY[self.pattern] if self.pattern else None

    @property
    def usable(self) -> bool:
        """Return whether it passed step 1 of Appendix C: good quality, labelled by all, nobody unsure."""
        return not self.low_quality and self.lacks not in ("annotators", "unsure")


def majority_vote(votes: Iterable[T]) -> T | None:
    """Return what more than half of the votes are for, or None."""
    counted = Counter(votes)
    return next((vote for vote, count in counted.items() if 2 * count > counted.total()), None)


def settle_post(
    post: AnnotationPost, labels: Sequence[AnnotatorLabels], head: AnnotationHead
) -> SettledPost:
    """Merge the labels that several people gave a post, in both stages, into one."""
    first = [each for each in labels if each.stage == "first" and each.joint is not None]
    ratings, fresh = _merge_experts(
        first, [each for each in labels if each.stage == "second"], head.annotators
    )
    joint = [each.joint for each in ratings if each.joint is not None]
    level, category = _consensus_level(joint, head)
    lacks: Lacks | None = None
    if len(ratings) < head.annotators:
        lacks = "annotators"
    elif any(each.unsure for each in ratings):
        lacks = "unsure"
    elif category is None:
        decided = majority_vote(each.joint for each in fresh if each.joint is not None)
        if decided is None:
            lacks = "majority" if level == "none" else "category"
        else:
            same = level == "strong" and head.is_hate(decided) == head.is_hate(joint[0])
            level = "strong" if same else "adjudicated"
            category = decided
            ratings = [*ratings, *fresh]
    hate = (
        head.is_hate(category)
        if category is not None
        else head.is_hate(joint[0])
        if level == "strong"
        else None
    )
    text, image = (_label_of_side(post, side, ratings, head) for side in SIDES)
    parts = (text.hate, image.hate, hate)
    agreeing = [
        each for each in ratings if each.joint is not None and head.is_hate(each.joint) == hate
    ]
    groups = Counter(group for each in agreeing for group in set(each.target))
    aligned = None
    intended = post.intended
    if intended is not None and hate is not None:
        aligned = (
            intended.hate == hate if intended.category is None else intended.category == category
        )
    return SettledPost(
        post=post,
        raw=tuple(str(each.joint) for each in first),
        ratings=tuple(ratings),
        low_quality=any(each.low_quality for each in labels),
        level=level,
        lacks=lacks,
        category=category,
        hate=hate,
        text=text,
        image=image,
        intent=majority_vote(each.intent for each in agreeing if each.intent is not None),
        target=tuple(group for group in head.groups if 2 * groups[group] > len(agreeing)),
        pattern=None if None in parts else "".join(str(int(bool(part))) for part in parts),
        aligned=aligned,
    )


def _merge_experts(
    first: list[AnnotatorLabels], second: list[AnnotatorLabels], wanted: int
) -> tuple[list[AnnotatorLabels], list[AnnotatorLabels]]:
    """Return the ratings that count, and the experts who aren't among them.

    An expert's labels take the place of uncertain ones, expert by expert, the last one's of all that are left
    (Appendix C, step 1); then they fill up what is missing.
    """
    experts = [each for each in second if each.joint is not None and not each.unsure]
    if not experts:
        return first, []
    ratings = []
    used = 0
    for each in first:
        ratings.append(experts[min(used, len(experts) - 1)] if each.unsure else each)
        used += each.unsure
    fresh = experts[used:]
    missing = max(0, wanted - len(ratings))
    return [*ratings, *fresh[:missing]], fresh[missing:]


def _consensus_level(joint: Sequence[str], head: AnnotationHead) -> tuple[Level, str | None]:
    """Return the level of consensus, and the majority's category (Appendix C, step 2)."""
    category = majority_vote(joint)
    if category is not None and len(set(joint)) == 1:
        return "perfect", category
    if len({head.is_hate(each) for each in joint}) == 1:
        return "strong", category
    return ("weak" if category is not None else "none"), category


def _label_of_side(
    post: AnnotationPost, side: Side, ratings: Iterable[AnnotatorLabels], head: AnnotationHead
) -> SideLabel:
    """Return what annotators say of one side; no label if they are silent or tied."""
    if not (post.text.strip() if side == "text" else post.image):
        return SideLabel()
    given = [chosen for each in ratings if (chosen := each.of_side(side)) is not None]
    return SideLabel(
        category=majority_vote(given), hate=majority_vote(head.is_hate(each) for each in given)
    )


def measure_steps(
    settled: Sequence[SettledPost], head: AnnotationHead, levels: Collection[str], *, aligned: bool
) -> list[JSON]:
    """Measure agreement after each step of Appendix C, with these levels of consensus kept.

    Posts are left out whose label is another one than they came with, if they have to be `aligned`. Of each step:
    `name`, what it `says`, how many `posts` remain, and how many of them are `rated` by as many people as were to. Over
    the `categories`, and over `hate` or not: Fleiss' kappa over the rated posts, and Krippendorff's alpha over all.
    """
    usable = [each for each in settled if each.usable]
    in_levels = [each for each in usable if each.level in levels]
    steps = [
        ("raw", "as labelled", settled),
        ("quality", "no low quality, all labelled, a second look at uncertain ones", usable),
        ("consensus", f"consensus: {', '.join(levels)}", in_levels),
    ]
    if aligned:
        steps.append(
            (
                "alignment",
                "the label that was intended",
                [each for each in in_levels if each.aligned is not False],
            )
        )
    return [_measure_step(name, says, posts, head) for name, says, posts in steps]


def _measure_step(name: str, says: str, posts: Sequence[SettledPost], head: AnnotationHead) -> JSON:
    """Measure one step. An expert who decided afterwards does not count as a rater."""
    categories = [each.name for each in head.categories]
    counts = np.zeros((len(posts), len(categories)), dtype=np.int64)
    for row, each in enumerate(posts):
        labels = each.raw if name == "raw" else [str(label.joint) for label in each.ratings]
        for label in labels[: head.annotators]:
            counts[row, categories.index(label)] += 1
    groups = [
        f"group {each.post.group}" if each.post.group else f"post {each.post.id}" for each in posts
    ]
    cluster = np.unique(np.array(groups, dtype=str), return_inverse=True)[1]
    complete = counts.sum(axis=1) == head.annotators
    hateful = np.array([each.hate for each in head.categories])
    folded = np.column_stack([counts[:, ~hateful].sum(axis=1), counts[:, hateful].sum(axis=1)])
    return {
        "name": name,
        "says": says,
        "posts": len(posts),
        "rated": int(complete.sum()),
        "categories": measure_agreement(counts, complete, cluster),
        "hate": measure_agreement(folded, complete, cluster),
    }


def measure_pairs(labels: Iterable[Sequence[AnnotatorLabels]]) -> list[JSON]:
    """Return Cohen's kappa of every two annotators of the first stage, over the posts that both labelled."""
    by_post = [
        {each.by: each.joint for each in given if each.stage == "first" and each.joint is not None}
        for given in labels
    ]
    found = []
    for one, other in combinations(sorted({by for given in by_post for by in given}), 2):
        both = [(given[one], given[other]) for given in by_post if one in given and other in given]
        if both:
            found.append({"one": one, "other": other, "agreement": cohen_kappa(both).dump()})
    return found
