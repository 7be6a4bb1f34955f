"""Run a grid of evaluations over the same posts: every combination of some settings, with one cache.

Cells run one after another, so that a call which two of them share is made once: ten judges over one aux model pay for
one debate.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from tribunal.contents import keep_files_read
from tribunal.context import Context, describe_validation_error, read_toml_model
from tribunal.errors import BadInput
from tribunal.eval.evaluate import CACHE, Evaluation, fit_to_graph, name_folder, refuse_if_none_uses, run_series
from tribunal.eval.runs.job import AS_USUAL, RunOptions
from tribunal.eval.runs.tally import RunTally
from tribunal.models.registry import current_registry
from tribunal.schema import JSON

_LONGEST = 150  # letters of a cell's folder
# What a grid may vary beside the fields of `Context`.
_OF_THE_EVALUATION = ("graph", "seed", "samples", "split", "protocol", "dataset")


class Sweep(Evaluation):
    """Hold a sweep's file. `grid` names what varies, with its values; all else is shared by all cells."""

    out: Path
    concurrency: int = Field(default=16, ge=1, le=1024)
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
        """Yield every combination of values."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


def read_sweep(path: Path) -> Sweep:
    """Read a sweep's file. Its paths are relative to the file.

    Raises:
        BadInput: it can't be read, or a field is wrong: which, and how.
    """
    sweep = read_toml_model(Sweep, path, "sweep")
    beside = path.resolve().parent
    if isinstance(sweep.data, Path):
        data: Path | Mapping[str, Path] = beside / sweep.data.expanduser()
    else:
        data = {name: beside / each.expanduser() for name, each in sweep.data.items()}
    return sweep.model_copy(update={"data": data, "out": beside / sweep.out.expanduser()})


@keep_files_read()
def run_sweep(
    sweep: Sweep,
    options: RunOptions = AS_USUAL,
    announce: Callable[[str], None] = lambda text: None,
) -> list[tuple[str, JSON, RunTally]]:
    """Run every cell, or go on with the unfinished ones. Limits are of all together.

    Returns:
        The cells that were run: folder name, what it sets, its state. The last one may have been stopped, and those
        after it weren't begun.

    Raises:
        BadInput: a cell's setting is wrong; found before any is run.
    """
    grid = list(sweep.cells())
    if twice := [name for name, times in Counter(map(name_of_cell, grid)).items() if times > 1]:
        raise BadInput(f"grid: two cells would be the folder {twice[0]}; give values that differ in letters or digits")
    checked = asyncio.run(_check_cells(sweep, grid))
    cells = {name_of_cell(cell): cell for cell in grid}
    runs = list(zip(cells, checked, strict=True))
    done = run_series(runs, sweep.out, replace(options, in_flight=sweep.concurrency), announce)
    return [(name, cells[name], tally) for name, tally in done]


async def _check_cells(sweep: Sweep, cells: Sequence[JSON]) -> list[Evaluation]:
    """Return the evaluation of each cell, without the shared settings that its graph does not use."""
    environment = (await current_registry()).environment
    fitted = [await fit_to_graph(_evaluation_of_cell(sweep, cell), cell, environment) for cell in cells]
    refuse_if_none_uses([unused for _, unused in fitted])
    return [evaluation for evaluation, _ in fitted]


def _evaluation_of_cell(sweep: Sweep, cell: JSON) -> Evaluation:
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
        return Evaluation.model_validate(
            {name: getattr(sweep, name) for name in Evaluation.model_fields} | {"settings": settings, **beside}
        )
    except ValidationError as error:
        raise BadInput(f"grid.{describe_validation_error(error)}") from error


def name_of_cell(cell: JSON) -> str:
    """Return the folder of a cell: its values in letters that any file system takes, with a hash where needed."""
    values = {name: "+".join(map(str, each)) if isinstance(each, list) else each for name, each in cell.items()}
    return name_folder("_".join(f"{name}={value}" for name, value in values.items()), _LONGEST)
