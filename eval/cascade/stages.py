"""Runs over the same labelled posts, side by side: each is a stage that a cascade can be made of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.measures.comparison import same_data
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.measures.fit import clusters_as_json, doubts_about_posts, fitting_of
from tribunal.eval.measures.risk_control import LabelledPosts
from tribunal.eval.measures.screening_posts import (
    PostOfRun,
    fitted_posts_of_run,
    posts_of_run,
    read_fitted_on,
    signatures_of_run,
)
from tribunal.eval.runs.prices import Prices, prices_of_run
from tribunal.retrievers.screening.screener import open_screener

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.retrievers.screening.screener import Screener
    from tribunal.schema import JSON, Scheme
    from tribunal.threshold import Kind

MOST_RUNS = 4
_AT_ONCE = 1_000  # posts whose vectors are asked for at once
SCREENER_STAGE = "screening classifier"  # what the stage of one is called


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
    first: bool = False

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
    fitted_on: int  # posts left out since a screening classifier was fitted on them, or on nearly the same
    warnings: tuple[str, ...]


def read_stages(
    folders: Sequence[Path],
    *,
    prices: Prices | None = None,
    cluster: str | None = None,
    screener: Path | None = None,
    data: Path | None = None,
) -> SharedStages:
    """Read runs as stages over the labelled posts that they share; of several repeats the first.

    Args:
        folders: of the runs.
        prices: what calls cost; None takes for each run those that lie beside its results, if any do.
        cluster: the field by which posts belong together (`clusters_of`), of the first run.
        screener: the folder of a screening classifier, which is a stage as well.
        data: the files of the runs' data set, where a screening classifier is to see its texts and results hold none.

    Raises:
        BadInput: a folder is no run's or is named twice, the rehearsal model took part, the runs aren't over the same
            labelled posts, or a screening classifier was fitted on all of them.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BadInput("RUN: a run is given twice; give each stage's run once")
    if len(folders) + (screener is not None) > MOST_RUNS:
        raise BadInput(
            f"RUN: more than {MOST_RUNS} stages aren't searched, a screening classifier among them; give fewer runs"
        )
    runs = [read_columns(folder) for folder in folders]
    for run in runs:
        _check_run(run, runs[0])
    places: list[dict[str, int]] = []
    for run in runs:
        rows = np.flatnonzero(run.is_labelled & (run.repeat == 0))
        places.append(dict(zip((run.ids[at] for at in run.post[rows]), rows.tolist(), strict=True)))
    shared = sorted(set(places[0]).intersection(*places[1:]))
    if not shared:
        raise BadInput(f"{folders[0]}: no labelled post is in every run; give runs over the same posts")
    opened = None if screener is None else open_screener(str(screener))
    seen_before, warnings = _fitted_on_before(runs, opened, shared, data)
    ids = [post for post, before in zip(shared, seen_before, strict=True) if not before]
    if not ids:
        raise BadInput(
            f"{folders[0]}: a screening classifier was fitted on each of its {len(shared):,} labelled posts, or "
            "on nearly the same, and a plan isn't made of these; fit it with --hold-out, or give a run over other posts"
        )
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
    if opened is not None:
        screened = _screen_run(opened, folders[0], ids, stages[0].hate, scheme, data)
        nothing = np.zeros(len(ids))
        stages.insert(0, CascadeStage(SCREENER_STAGE, screened, stages[0].hate, nothing, nothing, nothing, first=True))
    more = {name: len(place) - len(shared) for name, place in zip(names, places, strict=True)}
    return SharedStages(
        folders=folders,
        stages=stages,
        ids=ids,
        cluster=np.unique(numbers, return_inverse=True)[1],
        by=clusters_as_json(clusters.by, numbers),
        scheme=scheme,
        left_out={name: count for name, count in more.items() if count},
        fitted_on=len(shared) - len(ids),
        warnings=(*doubts_about_posts(runs[0], chosen[0]), *warnings),
    )


def _fitted_on_before(
    runs: Sequence[RunColumns], screener: Screener | None, ids: Sequence[str], data: Path | None
) -> tuple[Bools, list[str]]:
    """Return for each post whether a classifier was fitted on it, or nearly the same; and why that isn't known."""
    known = [each for run in runs if (each := fitted_posts_of_run(run.run, run.folder))]
    known += [read_fitted_on(screener)] if screener else []
    fitted = [each for each in known if not isinstance(each, str)]
    if data is not None and not fitted:
        raise BadInput("data: holds the texts that a screening classifier sees; give --screening, or leave it out")
    found = np.zeros(len(ids), dtype=bool)
    if fitted:
        place = {post: at for at, post in enumerate(runs[0].ids)}
        written = signatures_of_run(runs[0].folder, ids, [runs[0].signatures[place[post]] for post in ids], data)
        for each in fitted:
            found |= each.contains_near(written)
    return found, [each for each in known if isinstance(each, str)]


def _check_run(run: RunColumns, first: RunColumns) -> None:
    if run.rehearsed:
        raise BadInput(
            f"{run.folder}: the rehearsal model took part in {run.rehearsed} of {run.row_count} results, and a plan "
            "made of its rules would promise nothing; give a run of real models"
        )
    if not run.is_labelled.any():
        raise BadInput(f"{run.folder}: 0 labelled posts: give a run over a data set with labels")
    if not run.is_decided.any():
        raise BadInput(f"{run.folder}: no labelled post has a verdict; leave the run out")
    if run is not first and not same_data(first, run):
        raise BadInput(
            f"{run.folder}: is not over the same data set and gold as {first.folder}; give runs over the same posts"
        )


def _screen_run(
    screener: Screener, folder: Path, ids: Sequence[str], hate: Bools, scheme: Scheme, data: Path | None
) -> LabelledPosts:
    """Return what a screening classifier says of posts. Posts of its audit go on, as those that it declines do."""
    wanted_ids = set(ids)
    posts = {post.id: post for post in posts_of_run(folder, data) if post.id in wanted_ids}
    kinds = asyncio.run(_classify_posts(screener, [posts[post] for post in ids]))
    decided = np.array(
        [
            screener.may_decide(kind, scheme) and not screener.is_sampled_for_audit(post)
            for post, kind in zip(ids, kinds, strict=True)
        ]
    )
    if not decided.any():
        raise BadInput(f"screening: {screener.folder}: decides none of these {len(ids):,} posts; leave it out")
    hateful = np.array([kind == "hateful" for kind in kinds])
    wrong = hateful != hate
    return LabelledPosts(np.full(len(ids), np.nan), decided, hateful, wrong, wrong)


async def _classify_posts(screener: Screener, posts: Sequence[PostOfRun]) -> list[Kind | None]:
    kinds: list[Kind | None] = [None] * len(posts)
    seen = [
        at
        for at, post in enumerate(posts)
        if not (post.why_not or screener.reason_to_decline_text(post.text, post.whole.get("language")))
    ]
    for start in range(0, len(seen), _AT_ONCE):
        rows = seen[start : start + _AT_ONCE]
        texts = [posts[at].text for at in rows]
        vectors = await screener.embed_texts(texts)
        for at, text, vector in zip(rows, texts, vectors, strict=True):
            kinds[at] = screener.classify_text(text, vector).kind
    return kinds
