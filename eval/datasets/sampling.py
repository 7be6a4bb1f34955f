"""Which posts of a data set a run takes: all, some at random, balanced, or as many as a paper took.

A post's rank is a hash of the seed and its id, and the lowest ranks are taken. So the choice is the same on every
machine and version of Python, doesn't change with the order of a file, and the first 100 are among the first 200.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.dataset import PaperProtocol
from tribunal.eval.datasets.sample import Sample

if TYPE_CHECKING:
    import numpy as np

Balance = Literal["pattern", "label"]
_OUTSIDE = 0xFFFF  # the stratum of a post that is in none


class Plan:
    """The posts chosen of a data set, in its order: counted, and read anew from its files at every iteration.

    In memory it holds a number a post chosen, and none where all are.
    """

    def __init__(self, dataset: Dataset, positions: np.ndarray | None, count: int, warnings: tuple[str, ...]) -> None:
        self.dataset, self.warnings = dataset, warnings
        self._positions, self._count = positions, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        if self._positions is None:
            yield from self.dataset
            return
        posts = enumerate(self.dataset)
        for wanted in self._positions:
            post = next((sample for position, sample in posts if position == wanted), None)
            if post is None:
                raise BadInput(f"data set {self.dataset.name}: its files have changed since the posts were chosen")
            yield post


def choose(
    dataset: Dataset,
    *,
    samples: int | None = None,
    seed: int = 0,
    balance: Balance | None = None,
    protocol: Literal["paper"] | None = None,
) -> Plan:
    """Choose the posts of a run. Reads the whole set once, so that a wrong row is found before any model is asked.

    Args:
        dataset: the set.
        samples: how many; none given: all. With `balance` pattern, the number over all patterns; with label, the
            number of each label.
        seed: another seed, other posts.
        balance: `pattern`: an equal quota of each SMI pattern, the rest filled at random from what is left; `label`:
            as many of each gold label.
        protocol: `paper`: the posts that the set's paper evaluated on.

    Returns:
        The posts, in the set's order.

    Raises:
        BadInput: the set has fewer than were asked for (how many it has), it lacks what the choice goes by, two posts
            have one id, or a row is wrong.
    """
    if protocol is not None:
        if samples is not None or balance is not None:
            raise BadInput("protocol: the paper's has a size of its own; leave out samples and balance")
        return _paper(dataset, seed)
    if samples is None:
        if balance is not None:
            raise BadInput("balance: give the number of samples as well")
        ranked = _Ranked(dataset, seed, lambda _: "posts")
        return ranked.plan(None)
    if samples < 1:
        raise BadInput(f"samples: {samples}: is not 1 or more")
    if balance == "pattern":
        return _by_pattern(dataset, samples, seed)
    if balance == "label":
        ranked = _Ranked(dataset, seed, lambda post: f"label {post.gold.label}" if post.gold else None)
        ranked.needs("balance", "gold labels")
        return ranked.plan(dict.fromkeys(ranked.counts, samples))
    return _Ranked(dataset, seed, lambda _: "posts").plan({"posts": samples})


def _by_pattern(dataset: Dataset, samples: int, seed: int) -> Plan:
    ranked = _Ranked(dataset, seed, lambda post: post.fields.get("smi_pattern"))
    ranked.needs("balance", "SMI patterns")
    quota = samples // len(ranked.counts)
    quotas = {pattern: min(quota, held) for pattern, held in ranked.counts.items()}
    return ranked.plan(quotas, fill=samples - sum(quotas.values()))


def _paper(dataset: Dataset, seed: int) -> Plan:
    paper = dataset.spec.protocol
    if paper is None:
        raise BadInput(f"protocol: paper: no paper has one for {dataset.name}; give samples and seed")
    if dataset.split != paper.split:
        raise BadInput(f"protocol: paper: the paper's is of the split {paper.split}, not {dataset.split}")
    ranked = _Ranked(dataset, seed if paper.seed is None else paper.seed, paper.stratum)
    _check_whole(ranked, paper)
    return ranked.plan(paper.quotas, called=f"protocol: paper ({paper.says})")


def _check_whole(ranked: _Ranked, paper: PaperProtocol) -> None:
    wanted = sum(paper.quotas.values())
    if paper.whole and len(ranked) > wanted:
        raise BadInput(
            f"protocol: paper ({paper.says}): {ranked.dataset.name} has {len(ranked):,} here, so it is not that split"
        )


class _Ranked:
    """The rank and the stratum of every post of a set, found in one pass: ten bytes each, and no post."""

    def __init__(self, dataset: Dataset, seed: int, stratum: Callable[[Sample], str | None]) -> None:
        self.dataset, self.seed = dataset, seed
        self.counts: Counter[str] = Counter()
        self._ranks, self._strata, self._names = array("Q"), array("H"), dict[str, int]()
        for sample in dataset:
            name = stratum(sample)
            self._ranks.append(_rank(seed, sample.id))
            self._strata.append(_OUTSIDE if name is None else self._names.setdefault(name, len(self._names)))
            if name is not None:
                self.counts[name] += 1
        self._check_ids()

    def __len__(self) -> int:
        return len(self._ranks)

    def needs(self, option: str, what: str) -> None:
        if not self.counts:
            raise BadInput(f"{option}: the posts of {self.dataset.name} have no {what}")

    def plan(self, quotas: Mapping[str, int] | None, *, fill: int = 0, called: str = "samples") -> Plan:
        """The lowest ranks of each stratum, and of what is left `fill` more; no quotas: every post.

        Raises:
            BadInput: a stratum, or the whole, has too few.
        """
        import numpy as np

        warnings = tuple(self.dataset.warnings)
        if not len(self):
            left_out = f" ({'; '.join(warnings)})" if warnings else ""
            raise BadInput(f"data set {self.dataset.name}: there is no post in {self.dataset.files[0]}{left_out}")
        if quotas is None:
            return Plan(self.dataset, None, len(self), warnings)
        if any(self.counts[name] < quota for name, quota in quotas.items()) or fill > self._left(quotas):
            raise BadInput(self._too_few(quotas, fill, called))
        strata = np.frombuffer(self._strata, dtype=np.uint16)
        order = np.argsort(np.frombuffer(self._ranks, dtype=np.uint64), kind="stable")
        taken = np.zeros(len(self), dtype=bool)
        for name, quota in quotas.items():
            taken[order[strata[order] == self._names[name]][:quota]] = True
        rest = order[~taken[order] & (strata[order] != _OUTSIDE)]
        taken[rest[:fill]] = True
        positions = np.flatnonzero(taken)
        return Plan(self.dataset, positions, len(positions), warnings)

    def _left(self, quotas: Mapping[str, int]) -> int:
        return self.counts.total() - sum(quotas.values())

    def _too_few(self, quotas: Mapping[str, int], fill: int, called: str) -> str:
        has = ", ".join(f"{self.counts[name]:,} {name}" for name in sorted({*quotas, *self.counts}))
        wants = ", ".join(f"{quota:,} {name}" for name, quota in sorted(quotas.items()))
        if fill:
            wants, has = f"{sum(quotas.values()) + fill:,}", f"{self.counts.total():,} ({has})"
        return f"{called}: {wants}: too many for {self.dataset.name} ({self.dataset.split}), which has {has}"

    def _check_ids(self) -> None:
        """Two posts of one id would be one line of the results. Equal ids have equal ranks."""
        import numpy as np

        ranks = np.frombuffer(self._ranks, dtype=np.uint64)
        ordered = np.sort(ranks)
        twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not twice:
            return
        places: dict[str, int] = {}
        for position, sample in enumerate(self.dataset, start=1):
            if _rank(self.seed, sample.id) in twice and (first := places.setdefault(sample.id, position)) != position:
                raise BadInput(
                    f"data set {self.dataset.name}: posts {first:,} and {position:,} have the same id {sample.id!r}; "
                    f"ids must differ{'; name another id column, or none (blank) to number the rows' * self._mapped}"
                )

    @property
    def _mapped(self) -> bool:
        return self.dataset.spec.mapped


def _rank(seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
