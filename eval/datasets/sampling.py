"""Choose which posts of a data set a run takes: all, some at random, balanced, or a paper's sample.

A post's rank is a hash of the seed and its id, and the lowest ranks are taken. So the choice is the same on every
machine and version of Python, doesn't change with the order of a file, and the first 100 are among the first 200.

A run that is shuffled takes its posts in the order of their ranks. Sets lie sorted in their files, by kind or by label,
and the measures of half a run would be those of some kinds alone.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset, DatasetPool
from tribunal.eval.datasets.dataset import PaperSample
from tribunal.runner.results import Sample
from tribunal.schema import JSON

_IN_MEMORY = 32 * 1024 * 1024  # bytes of copied posts; more of them go to a temporary file
_COPIED_AT_ONCE = 1_000  # posts of a choice that doesn't change whatever becomes of the files
_RENUMBER = "; name another id column, or none (blank) to number the rows"
_OUTSIDE = 0xFFFF  # the stratum of a post that is in none


class ImageCounts(NamedTuple):
    """Count the chosen posts whose set names an image, and how many of these images exist.

    `left_out` is how many posts of the set couldn't be chosen, since their image isn't there.
    """

    named: int
    here: int
    left_out: int = 0

    def dump(self) -> JSON:
        """Return the counts as run.json has them, with `left_out` only if it counts any."""
        return {
            name: count for name, count in self._asdict().items() if count or name != "left_out"
        }


class LabelMix(NamedTuple):
    """Count the posts left out because their image isn't there, and the others, by the name of their label."""

    left_out: Mapping[str, int]
    kept: Mapping[str, int]


NONE_LEFT_OUT = LabelMix({}, {})


@dataclass(eq=False, repr=False)
class SamplePlan:
    """Iterate over the chosen posts of a data set: all as they are read, or some, or in another order.

    Files are read from their beginning, so posts that aren't taken as they are read are copied once: into memory while
    they are few, and else into a file without a name, which goes with the process. In memory are then sixteen bytes a
    post.
    """

    dataset: Dataset | DatasetPool
    count: int
    warnings: tuple[str, ...]
    images: ImageCounts
    positions: np.ndarray | None = None  # in the set; None: all
    order: np.ndarray | None = None  # None: the set's
    labels: LabelMix = NONE_LEFT_OUT
    _copies: IO[bytes] | None = field(default=None, init=False)
    _ends: array[int] = field(default_factory=lambda: array("Q"), init=False)

    def __len__(self) -> int:
        """Return how many posts were chosen."""
        return self.count

    def __iter__(self) -> Iterator[Sample]:
        """Yield the chosen posts."""
        for _, sample in self.posts_left(lambda place: False):
            yield sample

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the chosen posts that aren't done, each with its place; the others cost little."""
        if self.positions is None and self.order is None:
            yield from self.dataset.posts_left(is_done)
            return
        copies = self.copy_posts()
        for place, at in enumerate(
            range(self.count) if self.order is None else self.order.tolist()
        ):
            if not is_done(place):
                begin = self._ends[at - 1] if at else 0
                copies.seek(begin)
                yield place, Sample.model_validate_json(copies.read(self._ends[at] - begin))

    def copy_posts(self) -> IO[bytes]:
        """Copy the chosen posts in the set's order, if that wasn't done before, and return the file."""
        if self._copies is not None:
            return self._copies
        copies: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # it goes with the plan
        weakref.finalize(self, copies.close)
        wanted = None if self.positions is None else set(self.positions.tolist())
        try:
            for position, post in enumerate(self.dataset):
                if wanted is None or position in wanted:
                    copies.write(json.dumps(post.dump(), ensure_ascii=True).encode())
                    self._ends.append(copies.tell())
        except OSError as error:
            raise BadInput(
                f"data set {self.dataset.name}: its posts can't be copied: {error}; make room for temporary files, or "
                "take all posts in their order"
            ) from error
        if len(self._ends) != self.count:
            raise BadInput(
                f"data set {self.dataset.name}: its files have changed since the posts were chosen"
            )
        self._copies = copies
        return copies


class RankedPosts:
    """Hold rank, stratum and label of every post of a set, found in one pass: 21 bytes each, and no post."""

    def __init__(
        self,
        dataset: Dataset | DatasetPool,
        seed: int,
        stratum: Callable[[Sample], str | None],
        shuffled: bool,
    ) -> None:
        """Read the whole set once."""
        self.dataset = dataset
        self.seed = seed
        self._shuffled = shuffled
        self.counts: Counter[str] = Counter()
        labels: Counter[str] = Counter()
        ranks = array("Q")
        strata = array("H")
        self._numbers = dict[str, int]()
        contents = array("q")
        golds = array("H")  # hashes of what a model is shown; 0 without gold
        # of each post: 0 without one, 1 one that is missing, 2 one that is there
        images = bytearray()
        for sample in dataset:
            name = stratum(sample)
            ranks.append(rank_of_post(seed, dataset.own_id(sample)))
            strata.append(
                _OUTSIDE if name is None else self._numbers.setdefault(name, len(self._numbers))
            )
            images.append(2 if sample.image else int(sample.image_missing))
            labels[sample.label_name] += 1
            contents.append(hash((sample.text, sample.image, sample.earlier)))
            golds.append(
                0 if sample.gold is None else 2 * sample.gold.label + 2 + sample.gold.positive
            )
            if name is not None:
                self.counts[name] += 1
        self._ranks = np.frombuffer(ranks, dtype=np.uint64)
        self._images = np.frombuffer(images, dtype=np.uint8)
        self._contents = np.frombuffer(contents, dtype=np.int64)
        self._golds = np.frombuffer(golds, dtype=np.uint16)
        self._order = np.argsort(self._ranks, kind="stable")
        self._ordered_strata = np.frombuffer(strata, dtype=np.uint16)[self._order]
        self._check_ids()
        self._warnings = tuple(dataset.warnings)
        self._labels = LabelMix(dict(dataset.left_out_labels), dict(labels))
        if not len(self):
            left_out = f" ({'; '.join(self._warnings)})" if self._warnings else ""
            raise BadInput(
                f"data set {dataset.name}: there is no post in {dataset.files[0]}{left_out}"
            )

    def __len__(self) -> int:
        """Return how many posts the set has."""
        return len(self._ranks)

    def choose_all(self) -> SamplePlan:
        """Choose every post."""
        return self._make_plan(None)

    def choose_quotas(
        self, quotas: Mapping[str, int], *, called: str = "samples", warning: str = ""
    ) -> SamplePlan:
        """Choose the lowest ranks of each stratum; raise `BadInput` if one has too few."""
        if any(self.counts[name] < quota for name, quota in quotas.items()):
            wants = ", ".join(f"{quota:,} {name}" for name, quota in sorted(quotas.items()))
            raise BadInput(self._describe_shortage(called, wants, {*quotas, *self.counts}))
        taken = [
            self._order[self._ordered_strata == self._numbers[name]][:quota]
            for name, quota in quotas.items()
            if quota
        ]
        return self._make_plan(np.sort(np.concatenate(taken)), warning)

    def choose_evenly(self, samples: int) -> SamplePlan:
        """Choose the lowest rank of every stratum, then the next of every stratum, until there are enough.

        So the strata are as even as they can be, and fewer samples are among more. All too few are a `BadInput`.
        """
        if samples > self.counts.total():
            raise BadInput(self._describe_shortage("samples", f"{samples:,}", set(self.counts)))
        inside = self._ordered_strata != _OUTSIDE
        order = self._order[inside]
        strata = self._ordered_strata[inside]
        place = np.zeros(len(order), dtype=np.int64)  # in its own stratum
        for number in range(len(self._numbers)):
            own = strata == number
            place[own] = np.arange(own.sum())
        return self._make_plan(np.sort(order[np.argsort(place, kind="stable")[:samples]]))

    def _make_plan(self, positions: np.ndarray | None, warning: str = "") -> SamplePlan:
        """Return these posts, or all, in the requested order."""
        taken = slice(None) if positions is None else positions
        ranks = self._ranks[taken]
        images = self._images[taken]
        left_out = sum(self._labels.left_out.values())
        pictured = ImageCounts(int((images > 0).sum()), int((images == 2).sum()), left_out)
        order = np.argsort(ranks, kind="stable") if self._shuffled else None
        doubts = _doubts_of_gold(self.dataset.name, self._contents[taken], self._golds[taken])
        warnings = (*self._warnings, *([warning] if warning else []), *doubts)
        plan = SamplePlan(
            self.dataset, len(ranks), warnings, pictured, positions, order, self._labels
        )
        if positions is not None and len(plan) <= _COPIED_AT_ONCE:
            plan.copy_posts()
        return plan

    def _describe_shortage(self, called: str, wants: str, kinds: Collection[str]) -> str:
        has = ", ".join(f"{self.counts[name]:,} {name}" for name in sorted(kinds))
        if " " not in wants and len(kinds) > 1:
            has = f"{self.counts.total():,} ({has})"
        return f"{called}: {wants}: too many for {self.dataset.name} ({self.dataset.split}), which has {has}"

    def _check_ids(self) -> None:
        """Refuse two posts of one id, which would be one line of the results. Equal ids have equal ranks."""
        ordered = self._ranks[self._order]
        twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not twice:
            return
        places: dict[str, int] = {}
        for position, sample in enumerate(self.dataset, start=1):
            if (
                rank_of_post(self.seed, self.dataset.own_id(sample)) in twice
                and (first := places.setdefault(sample.id, position)) != position
            ):
                raise BadInput(
                    f"data set {self.dataset.name}: posts {first:,} and {position:,} have the same id {sample.id!r}; "
                    f"ids must differ{_RENUMBER * self.dataset.mapped}"
                )


def _doubts_of_gold(name: str, contents: np.ndarray, golds: np.ndarray) -> Iterator[str]:
    """Yield warnings of gold labels that contradict each other, and of gold of one class only."""
    contents = contents[golds > 0]
    golds = golds[golds > 0]
    if not len(golds):
        return
    labelled = np.unique(np.stack((contents, golds.astype(np.int64))), axis=1)
    again, counts = np.unique(labelled[0], return_counts=True)
    contradicted = int(np.isin(contents, again[counts > 1]).sum())
    if contradicted:
        yield f"{name}: {contradicted:,} posts have the same content as another post, but another label"
    classes = np.unique(golds % 2)
    if len(classes) == 1:
        yield (
            f"{name}: the gold labels of all {len(golds):,} posts are {'positive' if classes[0] else 'negative'}: "
            "precision, recall and F1 need posts of both classes"
        )


def rank_of_post(seed: int, name: str) -> int:
    """Return a post's place in the order that follows from a seed."""
    digest = hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


# The order of a run's posts, as run.json says it.
SHUFFLED = "shuffled by the seed"
IN_ORDER = "as in the files"
_MOST_VALUES = 100  # of a field that is balanced over


def choose_samples(
    dataset: Dataset | DatasetPool,
    *,
    samples: int | None = None,
    seed: int = 0,
    balance: str | None = None,
    protocol: Literal["paper"] | PaperSample | None = None,
    shuffled: bool = False,
) -> SamplePlan:
    """Choose the posts of a run. Reads the whole set once, so that a wrong row is found before any model is asked.

    Args:
        dataset: the set.
        samples: how many; none given: all. With `balance` pattern, the number over all patterns; with label or a
            field, the number of each label or value. With `protocol`, the number over all kinds that the paper took,
            each in the paper's proportion.
        seed: another seed, other posts.
        balance: `pattern`: an equal quota of each SMI pattern; what is over, and what a pattern has too few of, is
            shared by the others; `label`: as many of each gold label; a field of the set (`implicit`), or several of
            these, separated by commas: as many of each value, or of each combination.
        protocol: `paper`: the posts that the set's paper evaluated on; or which posts one of a paper's tables took.
        shuffled: take them in an order that follows from the seed, and not in the set's.

    Returns:
        The posts, in the set's order or shuffled.

    Raises:
        BadInput: the set has fewer than were asked for (how many it has), it lacks what the choice goes by, two posts
            have one id, or a row is wrong.
    """
    if protocol is not None:
        if balance is not None:
            raise BadInput(
                "balance: a paper's sample has a balance of its own; leave out balance, or the protocol"
            )
        paper = dataset.paper if protocol == "paper" else protocol
        return _choose_paper_sample(dataset, paper, samples, seed, shuffled)
    if samples is None:
        if balance is not None:
            raise BadInput("balance: give the number of samples as well")
        return RankedPosts(dataset, seed, lambda _: "posts", shuffled).choose_all()
    if samples < 1:
        raise BadInput(f"samples: {samples}: is not 1 or more")
    if balance == "pattern":
        ranked = RankedPosts(dataset, seed, lambda post: post.fields.get("smi_pattern"), shuffled)
        if not ranked.counts:
            raise BadInput(f"balance: the posts of {dataset.name} have no SMI patterns")
        return ranked.choose_evenly(samples)
    if balance is None:
        return RankedPosts(dataset, seed, lambda _: "posts", shuffled).choose_quotas(
            {"posts": samples}
        )
    fields = [_BalancedField(dataset.name, name.strip()) for name in balance.split(",")]

    def stratum(post: Sample) -> str | None:
        """Return the combination of a post's values, or None if it lacks one."""
        held = [each.stratum_of(post) for each in fields]
        return None if None in held else ", ".join(str(each) for each in held)

    ranked = RankedPosts(dataset, seed, stratum, shuffled)
    for each in fields:
        each.check_values()
    if not ranked.counts:
        names = " and ".join(name.strip() for name in balance.split(","))
        raise BadInput(f"balance: no post of {dataset.name} has {names}")
    return ranked.choose_quotas(dict.fromkeys(ranked.counts, samples))


class _BalancedField:
    """Read the value of a label or field of each post as its stratum: `label 1`, `implicit true`."""

    def __init__(self, dataset: str, name: str) -> None:
        self._dataset = dataset
        self._name = name
        self._met: set[str] = set()
        self._fields: dict[str, None] = {}

    def stratum_of(self, post: Sample) -> str | None:
        """Return the stratum of a post, or None if it has none."""
        self._fields.update(dict.fromkeys(post.fields))
        value = self._value_of(post)
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise BadInput(
                f"balance: {self._name}: holds several values a post; name a field that holds one"
            )
        said = str(value).lower() if isinstance(value, bool) else str(value)
        self._met.add(said)
        if len(self._met) > _MOST_VALUES:
            raise BadInput(
                f"balance: {self._name}: has more than {_MOST_VALUES} values in {self._dataset}"
            )
        return f"{self._name} {said}"

    def _value_of(self, post: Sample) -> Any:
        if self._name == "label":
            return post.gold.label if post.gold else None
        # `whoTarget`, as SBIC calls it, is the field who_target.
        found = next(
            (
                held
                for held in post.fields
                if _normalize_field(held) == _normalize_field(self._name)
            ),
            None,
        )
        return None if found is None else post.fields[found]

    def check_values(self) -> None:
        """Refuse a field that no post has."""
        if not self._met:
            what = (
                "gold labels"
                if self._name == "label"
                else f"{self._name}; they have {', '.join(self._fields)}"
            )
            raise BadInput(f"balance: the posts of {self._dataset} have no {what}")


def _normalize_field(field: str) -> str:
    return field.replace("_", "").casefold()


def _choose_paper_sample(
    dataset: Dataset | DatasetPool,
    paper: PaperSample | None,
    samples: int | None,
    seed: int,
    shuffled: bool,
) -> SamplePlan:
    if paper is None:
        raise BadInput(
            f"protocol: paper: no paper has one for {dataset.name}; give samples and seed"
        )
    if dataset.split != paper.split:
        raise BadInput(
            f"protocol: paper: the paper's is of the split {paper.split}, not {dataset.split}"
        )
    ranked = RankedPosts(
        dataset, seed if paper.seed is None else paper.seed, paper.kind_of, shuffled
    )
    if paper.whole and len(ranked) > sum(paper.quotas.values()):
        raise BadInput(
            f"protocol: paper ({paper.says}): {dataset.name} has {len(ranked):,} here, so it is not that split"
        )
    if samples is not None:
        return ranked.choose_quotas(
            _scale_quotas(paper, samples), called=f"protocol: paper ({paper.says})"
        )
    if not dataset.left_out_labels:
        return ranked.choose_quotas(paper.quotas, called=f"protocol: paper ({paper.says})")
    # What the paper took can't be had whole, which the caller knows: posts without their image are to be left out.
    quotas = {kind: min(quota, ranked.counts[kind]) for kind, quota in paper.quotas.items()}
    lost = sum(paper.quotas.values()) - sum(quotas.values())
    fewer = f"protocol: paper: {lost:,} posts fewer than it took ({paper.says})"
    return ranked.choose_quotas(quotas, warning=fewer if lost else "")


def _scale_quotas(paper: PaperSample, samples: int) -> dict[str, int]:
    """Scale a paper's quotas to fewer posts, in the same proportion; the largest remainders get one more.

    They are among those that the whole sample would hold, since the lowest ranks are taken.
    """
    whole = sum(paper.quotas.values())
    if not 1 <= samples <= whole:
        raise BadInput(
            f"samples: {samples:,}: is not within the paper's own {whole:,} ({paper.says})"
        )
    quotas = {kind: quota * samples // whole for kind, quota in paper.quotas.items()}
    over = sorted(quotas, key=lambda kind: -(paper.quotas[kind] * samples % whole))
    for kind in over[: samples - sum(quotas.values())]:
        quotas[kind] += 1
    return quotas
