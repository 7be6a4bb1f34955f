"""Which posts of a data set a run takes: all, some at random, balanced, or as many as a paper took.

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
from collections.abc import Callable, Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.dataset import PaperProtocol
from tribunal.eval.datasets.pool import Pool
from tribunal.eval.datasets.sample import Sample

if TYPE_CHECKING:
    import numpy as np

# The order of a run's posts, as run.json says it.
SHUFFLED, IN_ORDER = "shuffled by the seed", "as in the files"
_IN_MEMORY = 32 * 1024 * 1024  # bytes of shuffled posts; more of them go to a temporary file
_MOST_VALUES = 100  # of a field that is balanced over
_RENUMBER = "; name another id column, or none (blank) to number the rows"
_OUTSIDE = 0xFFFF  # the stratum of a post that is in none


class Images(NamedTuple):
    """Of how many posts their set names an image, and of how many of these it is there."""

    named: int
    here: int


class Plan:
    """The posts chosen of a data set, in its order: counted, and read anew from its files at every iteration.

    In memory it holds a number a post chosen, and none where all are.
    """

    def __init__(
        self,
        dataset: Dataset | Pool,
        positions: np.ndarray | None,
        count: int,
        warnings: tuple[str, ...],
        images: Images,
    ) -> None:
        self.dataset, self.warnings, self.images = dataset, warnings, images
        self._positions, self._count = positions, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        yield from self._in_order()

    def _in_order(self) -> Iterator[Sample]:
        if self._positions is None:
            yield from self.dataset
            return
        posts = enumerate(self.dataset)
        for wanted in self._positions:
            post = next((sample for position, sample in posts if position == wanted), None)
            if post is None:
                raise BadInput(f"data set {self.dataset.name}: its files have changed since the posts were chosen")
            yield post


class Shuffled(Plan):
    """The posts of a plan in another order.

    Files are read from their beginning, so the posts are copied once: into memory while they are few, and else into a
    file without a name, which goes with the process. In memory are then sixteen bytes a post.
    """

    def __init__(self, plan: Plan, order: np.ndarray) -> None:
        super().__init__(plan.dataset, plan._positions, len(plan), plan.warnings, plan.images)
        self._order = order
        self._copies: IO[bytes] | None = None
        self._ends = array("Q")

    def __iter__(self) -> Iterator[Sample]:
        copies = self._copied()
        for place in self._order.tolist():
            begin = self._ends[place - 1] if place else 0
            copies.seek(begin)
            yield Sample.model_validate_json(copies.read(self._ends[place] - begin))

    def _copied(self) -> IO[bytes]:
        if self._copies is None:
            copies: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # it goes with the plan
            weakref.finalize(self, copies.close)
            try:
                for post in self._in_order():
                    copies.write(json.dumps(post.dump(), ensure_ascii=True).encode())
                    self._ends.append(copies.tell())
            except OSError as error:
                raise BadInput(
                    f"data set {self.dataset.name}: its posts can't be shuffled: {error}; make room for temporary "
                    "files, or take the posts in their order"
                ) from error
            if len(self._ends) != len(self):
                raise BadInput(f"data set {self.dataset.name}: its files have changed since the posts were chosen")
            self._copies = copies
        return self._copies


def choose(
    dataset: Dataset | Pool,
    *,
    samples: int | None = None,
    seed: int = 0,
    balance: str | None = None,
    protocol: Literal["paper"] | PaperProtocol | None = None,
    shuffled: bool = False,
) -> Plan:
    """Choose the posts of a run. Reads the whole set once, so that a wrong row is found before any model is asked.

    Args:
        dataset: the set.
        samples: how many; none given: all. With `balance` pattern, the number over all patterns; with label or a
            field, the number of each label or value. With `protocol`, the number over all kinds that the paper took,
            each in the paper's proportion.
        seed: another seed, other posts.
        balance: `pattern`: an equal quota of each SMI pattern, the rest filled at random from what is left; `label`:
            as many of each gold label; a field of the set (`implicit`), or several of these, separated by commas: as
            many of each value, or of each combination.
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
            raise BadInput("balance: a paper's sample has a balance of its own; leave out balance, or the protocol")
        return _paper(dataset, dataset.paper if protocol == "paper" else protocol, samples, seed, shuffled)
    if samples is None:
        if balance is not None:
            raise BadInput("balance: give the number of samples as well")
        ranked = _Ranked(dataset, seed, lambda _: "posts", shuffled)
        return ranked.plan(None)
    if samples < 1:
        raise BadInput(f"samples: {samples}: is not 1 or more")
    if balance == "pattern":
        return _by_pattern(dataset, samples, seed, shuffled)
    if balance is not None:
        return _of_each(dataset, samples, seed, [name.strip() for name in balance.split(",")], shuffled)
    return _Ranked(dataset, seed, lambda _: "posts", shuffled).plan({"posts": samples})


def _of_each(dataset: Dataset | Pool, samples: int, seed: int, names: list[str], shuffled: bool) -> Plan:
    """As many posts of each value, or of each combination of values; a post that lacks one is left out."""
    values = [_Values(dataset.name, name) for name in names]

    def stratum(post: Sample) -> str | None:
        held = [each.of(post) for each in values]
        return None if None in held else ", ".join(str(each) for each in held)

    ranked = _Ranked(dataset, seed, stratum, shuffled)
    for each in values:
        each.check()
    if not ranked.counts:
        raise BadInput(f"balance: no post of {dataset.name} has {' and '.join(names)}")
    return ranked.plan(dict.fromkeys(ranked.counts, samples))


class _Values:
    """What a label or a field of a set is in each post, as a kind of posts: `label 1`, `implicit true`."""

    def __init__(self, dataset: str, name: str) -> None:
        self._dataset, self._name = dataset, name
        self._met: set[str] = set()
        self._fields: dict[str, None] = {}

    def of(self, post: Sample) -> str | None:
        """This post's; none where it has none.

        Raises:
            BadInput: the field holds a list, or has more values than can be balanced over.
        """
        self._fields.update(dict.fromkeys(post.fields))
        value = self._value(post)
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise BadInput(f"balance: {self._name}: holds several values a post; name a field that holds one")
        said = str(value).lower() if isinstance(value, bool) else str(value)
        self._met.add(said)
        if len(self._met) > _MOST_VALUES:
            raise BadInput(f"balance: {self._name}: has more than {_MOST_VALUES} values in {self._dataset}")
        return f"{self._name} {said}"

    def _value(self, post: Sample) -> Any:
        if self._name == "label":
            return post.gold.label if post.gold else None
        # `whoTarget`, as SBIC calls it, is the field who_target.
        found = next((held for held in post.fields if _plain(held) == _plain(self._name)), None)
        return None if found is None else post.fields[found]

    def check(self) -> None:
        """Refuse what no post has."""
        if not self._met:
            what = "gold labels" if self._name == "label" else f"{self._name}; they have {', '.join(self._fields)}"
            raise BadInput(f"balance: the posts of {self._dataset} have no {what}")


def _plain(field: str) -> str:
    return field.replace("_", "").casefold()


def _by_pattern(dataset: Dataset | Pool, samples: int, seed: int, shuffled: bool) -> Plan:
    ranked = _Ranked(dataset, seed, lambda post: post.fields.get("smi_pattern"), shuffled)
    if not ranked.counts:
        raise BadInput(f"balance: the posts of {dataset.name} have no SMI patterns")
    quota = samples // len(ranked.counts)
    quotas = {pattern: min(quota, held) for pattern, held in ranked.counts.items()}
    return ranked.plan(quotas, fill=samples - sum(quotas.values()))


def _paper(
    dataset: Dataset | Pool, paper: PaperProtocol | None, samples: int | None, seed: int, shuffled: bool
) -> Plan:
    if paper is None:
        raise BadInput(f"protocol: paper: no paper has one for {dataset.name}; give samples and seed")
    if dataset.split != paper.split:
        raise BadInput(f"protocol: paper: the paper's is of the split {paper.split}, not {dataset.split}")
    ranked = _Ranked(dataset, seed if paper.seed is None else paper.seed, paper.stratum, shuffled)
    _check_whole(ranked, paper)
    quotas = paper.quotas if samples is None else _shares(paper, samples)
    return ranked.plan(quotas, called=f"protocol: paper ({paper.says})")


def _shares(paper: PaperProtocol, samples: int) -> dict[str, int]:
    """So many posts of a paper's sample, of each kind in the paper's proportion; what is over goes to the first ones.

    They are among those that the whole sample would hold, since the lowest ranks are taken.
    """
    whole = sum(paper.quotas.values())
    if not 1 <= samples <= whole:
        raise BadInput(f"samples: {samples:,}: is not within the paper's own {whole:,} ({paper.says})")
    quotas = {kind: quota * samples // whole for kind, quota in paper.quotas.items()}
    over = sorted(quotas, key=lambda kind: -(paper.quotas[kind] * samples % whole))
    for kind in over[: samples - sum(quotas.values())]:
        quotas[kind] += 1
    return quotas


def _check_whole(ranked: _Ranked, paper: PaperProtocol) -> None:
    wanted = sum(paper.quotas.values())
    if paper.whole and len(ranked) > wanted:
        raise BadInput(
            f"protocol: paper ({paper.says}): {ranked.dataset.name} has {len(ranked):,} here, so it is not that split"
        )


class _Ranked:
    """The rank and the stratum of every post of a set, found in one pass: eleven bytes each, and no post."""

    def __init__(
        self, dataset: Dataset | Pool, seed: int, stratum: Callable[[Sample], str | None], shuffled: bool
    ) -> None:
        self.dataset, self.seed, self._shuffled = dataset, seed, shuffled
        self.counts: Counter[str] = Counter()
        self._ranks, self._strata, self._names = array("Q"), array("H"), dict[str, int]()
        self._images = bytearray()  # of each post: 0 without one, 1 one that is missing, 2 one that is there
        for sample in dataset:
            name = stratum(sample)
            self._images.append(2 if sample.image else int(sample.image_missing))
            self._ranks.append(_rank(seed, dataset.own_id(sample)))
            self._strata.append(_OUTSIDE if name is None else self._names.setdefault(name, len(self._names)))
            if name is not None:
                self.counts[name] += 1
        self._check_ids()

    def __len__(self) -> int:
        return len(self._ranks)

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
            return self._planned(None, warnings)
        if any(self.counts[name] < quota for name, quota in quotas.items()) or fill > self._left(quotas):
            raise BadInput(self._too_few(quotas, fill, called))
        strata = np.frombuffer(self._strata, dtype=np.uint16)
        order = np.argsort(np.frombuffer(self._ranks, dtype=np.uint64), kind="stable")
        taken = np.zeros(len(self), dtype=bool)
        for name, quota in quotas.items():
            taken[order[strata[order] == self._names[name]][:quota]] = True
        rest = order[~taken[order] & (strata[order] != _OUTSIDE)]
        taken[rest[:fill]] = True
        return self._planned(np.flatnonzero(taken), warnings)

    def _planned(self, positions: np.ndarray | None, warnings: tuple[str, ...]) -> Plan:
        """These posts, or all, in the order that was asked for."""
        import numpy as np

        taken = slice(None) if positions is None else positions
        ranks, images = np.frombuffer(self._ranks, np.uint64)[taken], np.frombuffer(self._images, np.uint8)[taken]
        pictured = Images(named=int((images > 0).sum()), here=int((images == 2).sum()))
        plan = Plan(self.dataset, positions, len(ranks), warnings, pictured)
        return Shuffled(plan, np.argsort(ranks, kind="stable")) if self._shuffled else plan

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
            if (
                _rank(self.seed, self.dataset.own_id(sample)) in twice
                and (first := places.setdefault(sample.id, position)) != position
            ):
                raise BadInput(
                    f"data set {self.dataset.name}: posts {first:,} and {position:,} have the same id {sample.id!r}; "
                    f"ids must differ{_RENUMBER * self.dataset.mapped}"
                )


def _rank(seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
