"""Runs over the same labelled posts, side by side: each is a stage that a cascade can be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.asking import asking
from tribunal.eval.measures.cascade_first_look import fitted_on, fitted_on_by_run, said_by, signed
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Columns, read_columns
from tribunal.eval.measures.compare import same_data
from tribunal.eval.measures.exchanged import doubts
from tribunal.eval.measures.fit import described, fitting_of
from tribunal.eval.measures.sequence import LabelledPosts
from tribunal.eval.runs.prices import Prices, kept_prices
from tribunal.retrievers.first_look.look import open_look

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.retrievers.first_look.look import Look
    from tribunal.schema import JSON

MOST_RUNS = 4
FIRST_LOOK = "first look"  # what the stage of one is called


@dataclass(frozen=True)
class Stage:
    """A run as a stage: what it says of each post, and what asking it takes; rows are those of every other stage.

    Answers from our own cache count as calls that were made: a post to come isn't in it. `money` is None where not
    every call has a price.
    """

    name: str
    posts: LabelledPosts
    hate: Bools  # the gold, folded
    calls: Floats
    tokens: Floats
    money: Floats | None
    first: bool = False

    def taken(self, rows: Bools | Ints) -> Stage:
        """These rows of it."""
        return Stage(
            self.name,
            self.posts.taken(rows),
            self.hate[rows],
            self.calls[rows],
            self.tokens[rows],
            None if self.money is None else self.money[rows],
            self.first,
        )


class Stages(NamedTuple):
    """Stages over the posts that all of the runs hold."""

    stages: list[Stage]
    ids: list[str]
    cluster: Ints
    by: JSON
    scheme: str
    left_out: dict[str, int]  # by run, labelled posts of it that another one doesn't hold
    fitted_on: int  # posts left out since a first look was fitted on them, or on nearly the same
    warnings: tuple[str, ...]


def read_stages(
    folders: Sequence[Path],
    *,
    prices: Prices | None = None,
    cluster: str | None = None,
    first_look: Path | None = None,
    data: Path | None = None,
) -> Stages:
    """Runs as stages over the labelled posts that they share, of several repeats the first.

    Args:
        folders: of the runs.
        prices: what calls cost; None takes for each run those that lie beside its results, if any do.
        cluster: the field by which posts belong together (`clusters_of`), of the first run.
        first_look: the folder of a fitted first look, which is a stage as well.
        data: the files of the runs' data set, where a first look is to see its texts and results hold none.

    Raises:
        BadInput: a folder is no run's or is named twice, the rehearsal model took part, the runs aren't over the same
            labelled posts, or a first look was fitted on all of them.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BadInput("RUN: a run is given twice; give each stage's run once")
    if len(folders) + (first_look is not None) > MOST_RUNS:
        raise BadInput(f"RUN: more than {MOST_RUNS} stages aren't searched, a first look among them; give fewer runs")
    runs = [read_columns(folder) for folder in folders]
    for run in runs:
        _fit_to_plan(run, runs[0])
    rows = [np.flatnonzero(run.labelled & (run.repeat == 0)) for run in runs]
    places = [
        dict(zip((run.ids[at] for at in run.post[row]), row, strict=True)) for run, row in zip(runs, rows, strict=True)
    ]
    shared = sorted(set(places[0]).intersection(*places[1:]))
    if not shared:
        raise BadInput(f"{folders[0]}: no labelled post is in every run; give runs over the same posts")
    look = None if first_look is None else open_look(str(first_look))
    seen_before, warnings = _seen_before(runs, look, shared, data)
    ids = [post for post, before in zip(shared, seen_before, strict=True) if not before]
    if not ids:
        raise BadInput(
            f"{folders[0]}: a first look was fitted on each of its {len(shared):,} labelled posts, or on nearly the "
            "same, and a plan isn't made of these; fit it with --hold-out, or give a run over other posts"
        )
    chosen = [np.array([place[post] for post in ids], dtype=np.int64) for place in places]
    clusters = clusters_of(runs[0], cluster)
    numbers = clusters.of_post[runs[0].post[chosen[0]]]
    fine = all(run.scheme == "fine" for run in runs)
    names = _names(folders)
    stages = [
        _stage(name, run, row, fitting_of(run, row, clusters_of(run, "post")).posts, prices, fine=fine)
        for name, run, row in zip(names, runs, chosen, strict=True)
    ]
    if look is not None:
        said = said_by(look, folders[0], ids, stages[0].hate, "fine" if fine else "binary", data)
        nothing = np.zeros(len(ids))
        stages.insert(0, Stage(FIRST_LOOK, said, stages[0].hate, nothing, nothing, nothing, first=True))
    return Stages(
        stages=stages,
        ids=ids,
        cluster=np.unique(numbers, return_inverse=True)[1],
        by=described(clusters.by, numbers),
        scheme="fine" if fine else "binary",
        left_out={
            name: len(place) - len(shared)
            for name, place in zip(names, places, strict=True)
            if len(place) > len(shared)
        },
        fitted_on=len(shared) - len(ids),
        warnings=(*doubts(runs[0], chosen[0]), *warnings),
    )


def _seen_before(
    runs: Sequence[Columns], look: Look | None, ids: Sequence[str], data: Path | None
) -> tuple[Bools, list[str]]:
    """Of each post whether a first look was fitted on it, or on one nearly the same; and why that isn't known."""
    known = [each for run in runs if (each := fitted_on_by_run(run.run, run.folder))]
    known += [fitted_on(look)] if look else []
    warnings = [each for each in known if isinstance(each, str)]
    looks = [each for each in known if not isinstance(each, str)]
    if data is not None and not looks:
        raise BadInput("data: holds the texts that a first look sees; give --first-look, or leave it out")
    found = np.zeros(len(ids), dtype=bool)
    if looks:
        place = {post: at for at, post in enumerate(runs[0].ids)}
        written = signed(runs[0].folder, ids, [runs[0].signatures[place[post]] for post in ids], data)
        for each in looks:
            found |= each.holds(written)
    return found, warnings


def _fit_to_plan(run: Columns, first: Columns) -> None:
    if run.rehearsed:
        raise BadInput(
            f"{run.folder}: the rehearsal model took part in {run.rehearsed} of {run.n} results, and a plan made of "
            "its rules would promise nothing; give a run of real models"
        )
    if not run.labelled.any():
        raise BadInput(f"{run.folder}: 0 labelled posts: give a run over a data set with labels")
    if not run.decided.any():
        raise BadInput(f"{run.folder}: no labelled post has a verdict; leave the run out")
    if run is not first and not same_data(first, run):
        raise BadInput(
            f"{run.folder}: is not over the same data set and gold as {first.folder}; give runs over the same posts"
        )


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, as far as they tell them apart."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _stage(name: str, run: Columns, rows: Ints, posts: LabelledPosts, prices: Prices | None, *, fine: bool) -> Stage:
    ids = [run.ids[post] for post in run.post[rows]]
    taken = asking(run.folder, ids, prices or kept_prices(run.folder), repeats=False)
    return Stage(
        name=name,
        posts=posts if fine else replace(posts, wrong=posts.wrong_side),
        hate=run.positive[rows] == 1,
        calls=taken.calls,
        tokens=taken.tokens,
        money=taken.money,
    )
