"""Which posts have the lowest ranks: a rank is a hash of the seed and the post's id."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from heapq import heappush, heapreplace
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.plan import Images, Plan, Shuffled
from tribunal.eval.datasets.pool import Pool
from tribunal.eval.datasets.sample import Sample

if TYPE_CHECKING:
    import numpy as np

_RENUMBER = "; name another id column, or none (blank) to number the rows"
_OUTSIDE = 0xFFFF  # the stratum of a post that is in none


_MOST_HELD = 1_000  # posts of a stratum; of a larger choice the files are read once more


class Ranked:
    """The rank and the stratum of every post of a set, found in one pass: eleven bytes each, and no post.

    Of each stratum the `most` posts that may be chosen are held as they come, where these are few, so that the files
    need not be read once more for them.
    """

    def __init__(
        self,
        dataset: Dataset | Pool,
        seed: int,
        stratum: Callable[[Sample], str | None],
        shuffled: bool,
        most: int | None = None,
    ) -> None:
        self.dataset, self.seed, self._shuffled = dataset, seed, shuffled
        self._held = _Lowest(most) if most is not None and most <= _MOST_HELD else None
        self.counts: Counter[str] = Counter()
        self._ranks, self._strata, self._names = array("Q"), array("H"), dict[str, int]()
        self._images = bytearray()  # of each post: 0 without one, 1 one that is missing, 2 one that is there
        for position, sample in enumerate(dataset):
            name, ranked = stratum(sample), rank(seed, dataset.own_id(sample))
            self._images.append(2 if sample.image else int(sample.image_missing))
            self._ranks.append(ranked)
            if self._held is not None and name is not None:
                self._held.offer(name, ranked, position, sample)
            self._strata.append(_OUTSIDE if name is None else self._names.setdefault(name, len(self._names)))
            if name is not None:
                self.counts[name] += 1
        self._check_ids()

    def __len__(self) -> int:
        return len(self._ranks)

    def plan(self, quotas: Mapping[str, int] | None, *, called: str = "samples", warning: str = "") -> Plan:
        """The lowest ranks of each stratum; no quotas: every post.

        Raises:
            BadInput: a stratum has too few.
        """
        import numpy as np

        warnings = (*self._warnings(), *([warning] if warning else []))
        if quotas is None:
            return self._planned(None, warnings)
        if any(self.counts[name] < quota for name, quota in quotas.items()):
            wants = ", ".join(f"{quota:,} {name}" for name, quota in sorted(quotas.items()))
            raise BadInput(self._too_few(called, wants, {*quotas, *self.counts}))
        order, strata = self._order(), np.frombuffer(self._strata, dtype=np.uint16)
        taken = [order[strata[order] == self._names[name]][:quota] for name, quota in quotas.items() if quota]
        return self._planned(np.sort(np.concatenate(taken)), warnings)

    def evenly(self, samples: int) -> Plan:
        """The lowest rank of every stratum, then the next of every stratum, and so on until there are so many.

        So the strata are as even as they can be, and fewer samples are among more.

        Raises:
            BadInput: the strata together have too few.
        """
        import numpy as np

        warnings = self._warnings()
        if samples > self.counts.total():
            raise BadInput(self._too_few("samples", f"{samples:,}", set(self.counts)))
        strata = np.frombuffer(self._strata, dtype=np.uint16)
        order = self._order()
        order = order[strata[order] != _OUTSIDE]
        place = np.zeros(len(order), dtype=np.int64)  # in its own stratum
        for number in range(len(self._names)):
            own = strata[order] == number
            place[own] = np.arange(own.sum())
        return self._planned(np.sort(order[np.argsort(place, kind="stable")[:samples]]), warnings)

    def _order(self) -> np.ndarray:
        """The numbers of all posts, the lowest rank first."""
        import numpy as np

        return np.argsort(np.frombuffer(self._ranks, dtype=np.uint64), kind="stable")

    def _warnings(self) -> tuple[str, ...]:
        warnings = tuple(self.dataset.warnings)
        if not len(self):
            left_out = f" ({'; '.join(warnings)})" if warnings else ""
            raise BadInput(f"data set {self.dataset.name}: there is no post in {self.dataset.files[0]}{left_out}")
        return warnings

    def _planned(self, positions: np.ndarray | None, warnings: tuple[str, ...]) -> Plan:
        """These posts, or all, in the order that was asked for."""
        import numpy as np

        taken = slice(None) if positions is None else positions
        ranks, images = np.frombuffer(self._ranks, np.uint64)[taken], np.frombuffer(self._images, np.uint8)[taken]
        pictured = Images(int((images > 0).sum()), int((images == 2).sum()), self.dataset.left_out)
        held = None if self._held is None or positions is None else self._held.at(positions)
        plan = Plan(self.dataset, positions, len(ranks), warnings, pictured, held)
        return Shuffled(plan, np.argsort(ranks, kind="stable")) if self._shuffled else plan

    def _too_few(self, called: str, wants: str, kinds: Collection[str]) -> str:
        has = ", ".join(f"{self.counts[name]:,} {name}" for name in sorted(kinds))
        if " " not in wants and len(kinds) > 1:
            has = f"{self.counts.total():,} ({has})"
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
                rank(self.seed, self.dataset.own_id(sample)) in twice
                and (first := places.setdefault(sample.id, position)) != position
            ):
                raise BadInput(
                    f"data set {self.dataset.name}: posts {first:,} and {position:,} have the same id {sample.id!r}; "
                    f"ids must differ{_RENUMBER * self.dataset.mapped}"
                )


class _Lowest:
    """Of each stratum the posts of the lowest ranks so far, at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._strata: dict[str, list[tuple[int, int, Sample]]] = {}

    def offer(self, stratum: str, rank: int, position: int, post: Sample) -> None:
        """Hold a post, if it is among the lowest; of equal ranks the first of the set counts as the lower."""
        held = self._strata.setdefault(stratum, [])
        if len(held) < self._most:
            heappush(held, (-rank, -position, post))
        elif (-rank, -position) > held[0][:2]:
            heapreplace(held, (-rank, -position, post))

    def at(self, positions: np.ndarray) -> list[Sample] | None:
        """The posts of these positions; None where one of them isn't held."""
        held = {-position: post for stratum in self._strata.values() for _, position, post in stratum}
        posts = [held.get(position) for position in positions.tolist()]
        return None if None in posts else [post for post in posts if post is not None]


def rank(seed: int, name: str) -> int:
    """Where a post stands in the order that follows from a seed."""
    digest = hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
