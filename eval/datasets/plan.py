"""The posts that were chosen of a data set, in its order or shuffled: read anew at every iteration, never all held."""

from __future__ import annotations

import json
import weakref
from array import array
from collections.abc import Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.pool import Pool
from tribunal.eval.datasets.sample import Sample
from tribunal.schema import JSON

if TYPE_CHECKING:
    import numpy as np

_IN_MEMORY = 32 * 1024 * 1024  # bytes of shuffled posts; more of them go to a temporary file


class Images(NamedTuple):
    """Of how many of the chosen posts their set names an image, and of how many of these it is there.

    `left_out` is how many posts of the set couldn't be chosen, since their image isn't there.
    """

    named: int
    here: int
    left_out: int = 0

    def dump(self) -> JSON:
        """As run.json has it, with `left_out` where there are such posts."""
        return {name: count for name, count in self._asdict().items() if count or name != "left_out"}


class Plan:
    """The posts chosen of a data set, in its order: counted, and read anew from its files at every iteration.

    In memory it holds a number a post chosen, and none where all are. A few posts it may be given as they are.
    """

    def __init__(
        self,
        dataset: Dataset | Pool,
        positions: np.ndarray | None,
        count: int,
        warnings: tuple[str, ...],
        images: Images,
        held: Sequence[Sample] | None = None,
    ) -> None:
        self.dataset, self.warnings, self.images = dataset, warnings, images
        self._positions, self._count, self._held = positions, count, held

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        yield from self._in_order()

    def _in_order(self) -> Iterator[Sample]:
        if self._held is not None or self._positions is None:
            yield from self.dataset if self._held is None else self._held
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
        super().__init__(plan.dataset, plan._positions, len(plan), plan.warnings, plan.images, plan._held)
        self._order = order
        self._copies: IO[bytes] | None = None
        self._ends = array("Q")

    def __getstate__(self) -> dict[str, Any]:
        """Another process makes its own copies."""
        return {**self.__dict__, "_copies": None, "_ends": array("Q")}

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
