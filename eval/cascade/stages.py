"""Runs over the same labelled posts, side by side: each is a stage that a cascade can be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Bools, Floats, Ints, RunColumns, read_columns
from tribunal.eval.measures.comparison import same_data
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.measures.fit import clusters_as_json, doubts_about_posts, fitting_of, refuse_unfit_run
from tribunal.eval.measures.risk_control import LabelledPosts
from tribunal.eval.runs.prices import Prices, prices_of_run
from tribunal.schema import JSON, Scheme

MOST_RUNS = 4


@dataclass(frozen=True)
class CascadeStage:
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

    def take_rows(self, rows: Bools | Ints) -> CascadeStage:
        """Return these rows alone."""
        return replace(
            self,
            posts=self.posts.take_rows(rows),
            hate=self.hate[rows],
            calls=self.calls[rows],
            tokens=self.tokens[rows],
            money=None if self.money is None else self.money[rows],
        )


class SharedStages(NamedTuple):
    """Stages over the posts that all of the runs hold."""

    folders: Sequence[Path]  # of the runs
    stages: list[CascadeStage]
    ids: list[str]
    cluster: Ints
    by: JSON
    scheme: str
    left_out: dict[str, int]  # by run, labelled posts of it that another one doesn't hold
    warnings: tuple[str, ...]


def read_stages(
    folders: Sequence[Path],
    *,
    prices: Prices | None,
    cluster: str | None,
) -> SharedStages:
    """Read runs as stages over the labelled posts that they share; of several repeats the first.

    Args:
        folders: of the runs.
        prices: what calls cost; None takes for each run those that lie beside its results, if any do.
        cluster: the field by which posts belong together (`clusters_of`), of the first run.

    Raises:
        BadInput: a folder is no run's or is named twice, the rehearsal model took part, or the runs aren't over the
            same labelled posts.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BadInput("RUN: a run is given twice; give each stage's run once")
    if len(folders) > MOST_RUNS:
        raise BadInput(f"RUN: more than {MOST_RUNS} stages aren't searched; give fewer runs")
    runs = [read_columns(folder) for folder in folders]
    for run in runs:
        _check_run(run, runs[0])
    places: list[dict[str, int]] = []
    for run in runs:
        rows = np.flatnonzero(run.is_labelled & (run.repeat == 0))
        places.append(dict(zip((run.ids[at] for at in run.post[rows]), rows.tolist(), strict=True)))
    ids = sorted(set(places[0]).intersection(*places[1:]))
    if not ids:
        raise BadInput(f"{folders[0]}: no labelled post is in every run; give runs over the same posts")
    chosen = [np.array([place[post] for post in ids], dtype=np.int64) for place in places]
    clusters = clusters_of(runs[0], cluster)
    numbers = clusters.of_post[runs[0].post[chosen[0]]]
    scheme: Scheme = "fine" if all(run.scheme == "fine" for run in runs) else "binary"
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    stages = []
    for name, run, row in zip(names, runs, chosen, strict=True):
        posts = fitting_of(run, row, clusters_of(run, "post")).posts
        taken = cost_of_asking(run.folder, ids, prices or prices_of_run(run.folder), repeats=False)
        stages.append(
            CascadeStage(
                name=name,
                posts=posts if scheme == "fine" else replace(posts, wrong=posts.wrong_side),
                hate=run.positive[row] == 1,
                calls=taken.calls,
                tokens=taken.tokens,
                money=taken.money,
            )
        )
    more = {name: len(place) - len(ids) for name, place in zip(names, places, strict=True)}
    return SharedStages(
        folders=folders,
        stages=stages,
        ids=ids,
        cluster=np.unique(numbers, return_inverse=True)[1],
        by=clusters_as_json(clusters.by, numbers),
        scheme=scheme,
        left_out={name: count for name, count in more.items() if count},
        warnings=tuple(doubts_about_posts(runs[0], chosen[0])),
    )


def _check_run(run: RunColumns, first: RunColumns) -> None:
    refuse_unfit_run(run, "plan made of")
    if not run.is_decided.any():
        raise BadInput(f"{run.folder}: no labelled post has a verdict; leave the run out")
    if run is not first and not same_data(first, run):
        raise BadInput(
            f"{run.folder}: is not over the same data set and gold as {first.folder}; give runs over the same posts"
        )
