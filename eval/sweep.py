"""A grid of evaluations over the same posts: every combination of some settings, over one cache.

Cells run one after another, so that a call which two of them share is made once: ten judges over one aux model pay for
one debate.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tribunal.context import Context, describe
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.eval.series import CACHE, fitted, run_series
from tribunal.models.door import door_here
from tribunal.opened import opened_once
from tribunal.parsed import from_toml
from tribunal.schema import JSON

_LONGEST = 150  # letters of a cell's folder
# What a grid may vary beside the fields of `Context`.
_OF_THE_EVALUATION = ("graph", "seed", "samples", "split", "protocol", "dataset")


class Sweep(BaseModel):
    """A sweep's file. `grid` names what varies, with its values; `settings` are the same for every cell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str | None = None
    data: Path | dict[str, Path]
    out: Path
    graph: str | None = None
    split: str | None = None
    samples: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)
    balance: str | None = None
    protocol: str | None = None
    in_order: bool = False
    paper_models: bool = False
    skip_missing_images: bool = False
    extras: bool | None = None
    repeats: int | None = Field(default=None, ge=1)
    concurrency: int = Field(default=16, ge=1, le=1024)
    columns: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(min_length=1)

    @field_validator("grid")
    @classmethod
    def _names_are_known(cls, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in grid.items():
            kind, _, key = name.partition(".")
            if name not in _OF_THE_EVALUATION and not (
                name in Context.model_fields or (key and kind in ("seats", "temperatures"))
            ):
                raise ValueError(
                    f"{name}: is no setting; name one, {', '.join(_OF_THE_EVALUATION)}, seats.NAME or temperatures.NAME"
                )
            if not values:
                raise ValueError(f"{name}: names no value")
        return grid

    def cells(self) -> Iterator[JSON]:
        """Every combination, as what it sets."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file; its paths are relative to the file.

    Raises:
        BadInput: it can't be read, or a field is wrong: which, and how.
    """
    try:
        sweep = Sweep.model_validate(from_toml(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"sweep: {path}: {error.strerror}") from error
    except ValidationError as error:
        raise BadInput(f"sweep: {path}: {describe(error)}") from error
    except ValueError as error:
        raise BadInput(f"sweep: {path}: is not TOML: {error}") from error
    beside = path.resolve().parent
    if isinstance(sweep.data, Path):
        data: Path | dict[str, Path] = beside / sweep.data.expanduser()
    else:
        data = {name: beside / each.expanduser() for name, each in sweep.data.items()}
    return sweep.model_copy(update={"data": data, "out": beside / sweep.out.expanduser()})


@opened_once()
def run_sweep(
    sweep: Sweep,
    watch_cell: Callable[[str, int, int], Watch],
    warn: Callable[[str], None] = lambda warning: None,
    *,
    prices: Prices | None = None,
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
) -> list[tuple[str, JSON, Tally]]:
    """Run every cell, or go on with those that aren't done.

    Args:
        sweep: what is run.
        watch_cell: is told the cell's name, its number and how many there are, and gives what watches its run.
        warn: is told what a reader of the results should know of the posts.
        prices: for the running cost.
        engine: by what each cell is carried out.
        limits: what all cells may spend together, in all their starts.

    Returns:
        The cells that were run: folder name, what it sets, how it stands. The last one may have been stopped, and those
        after it weren't begun.

    Raises:
        BadInput: a cell's setting is wrong; found before any is run.
    """
    grid = list(sweep.cells())
    if twice := [name for name, times in Counter(map(name_of, grid)).items() if times > 1]:
        raise BadInput(f"grid: two cells would be the folder {twice[0]}; give values that differ in letters or digits")
    checked = asyncio.run(_checked(sweep, grid))
    cells = {name_of(cell): cell for cell in grid}
    runs = list(zip(cells, checked, strict=True))
    done = run_series(
        runs, sweep.out, in_flight=sweep.concurrency, watch_run=watch_cell, warn=warn, prices=prices, engine=engine,
        limits=limits,
    )  # fmt: skip
    return [(name, cells[name], tally) for name, tally in done]


async def _checked(sweep: Sweep, cells: Sequence[JSON]) -> list[Evaluation]:
    """What is evaluated in each cell. What the file sets for all of them is left out of a cell that doesn't heed it.

    Raises:
        BadInput: a graph, a setting or a model is wrong in any cell; a cell doesn't heed what the grid names for it, or
            none heeds what the file sets.
    """
    door, evaluations = await door_here(), []
    passed_over: dict[str, list[str]] = {}
    for cell in cells:
        evaluation, unused = await fitted(_evaluation(sweep, cell), cell, door.environment)
        for name, refusal in unused.items():
            passed_over.setdefault(name, []).append(refusal)
        evaluations.append(evaluation)
    for refusals in passed_over.values():
        if len(refusals) == len(cells):
            raise BadInput(refusals[0])
    return evaluations


def _evaluation(sweep: Sweep, cell: JSON) -> Evaluation:
    settings: JSON = {"cache": str(sweep.out / CACHE), **sweep.settings}
    beside: JSON = {}
    for name, value in cell.items():
        kind, _, key = name.partition(".")
        if name in _OF_THE_EVALUATION:
            beside[name] = value
        elif key:
            settings[kind] = {**settings.get(kind, {}), key: value}
        else:
            settings[name] = value
    try:
        own = Sweep.model_validate({**sweep.model_dump(), **beside})
    except ValidationError as error:
        raise BadInput(f"grid.{describe(error)}") from error
    return Evaluation(
        graph=own.graph, dataset=own.dataset, data=own.data, settings=settings, split=own.split, columns=own.columns,
        labels=own.labels, samples=own.samples, seed=own.seed, balance=own.balance, protocol=own.protocol,
        paper_models=own.paper_models, repeats=own.repeats, in_order=own.in_order,
        skip_missing_images=own.skip_missing_images, extras=own.extras,
    )  # fmt: skip


def name_of(cell: JSON) -> str:
    """The folder of a cell: what it sets, in letters that any file system takes, and a hash where they don't tell."""
    said = "_".join(f"{name}={_word(value)}" for name, value in cell.items())
    name = re.sub(r"[^\w.=+-]+", "-", said, flags=re.ASCII)
    if len(name) <= _LONGEST and name == re.sub("[:/]", "-", said):
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _word(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
