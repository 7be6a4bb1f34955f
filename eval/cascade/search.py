"""Runs over the same labelled posts as stages, and every cascade of them over a fixed grid of thresholds.

A stage asks a model about a post and takes its verdict where the confidence reaches a threshold, one for hate and one
for no hate; every other post goes on to the next stage, and from the last one to a person. Posts that stand alike at
every stage, by verdict and step of the grid, are counted together, so that some hundred thousand plans take a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Bools, Floats, Ints, read_columns
from tribunal.eval.measures.comparison import same_data
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.measures.fit import (
    clusters_as_json,
    doubts_about_posts,
    fitting_of,
    refuse_unfit_run,
)
from tribunal.eval.measures.risk_control import AcceptanceRule, LabelledPosts
from tribunal.nodes.threshold import KINDS
from tribunal.runner.prices import Prices, prices_of_run
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
        refuse_unfit_run(run, "plan made of")
        if not run.is_decided.any():
            raise BadInput(f"{run.folder}: no labelled post has a verdict; leave the run out")
        if run is not runs[0] and not same_data(runs[0], run):
            raise BadInput(
                f"{run.folder}: is not over the same data set and gold as {runs[0].folder}; give runs over the same "
                "posts"
            )
    places: list[dict[str, int]] = []
    for run in runs:
        rows = np.flatnonzero(run.is_labelled & (run.repeat == 0))
        places.append(dict(zip((run.ids[at] for at in run.post[rows]), rows.tolist(), strict=True)))
    ids = sorted(set(places[0]).intersection(*places[1:]))
    if not ids:
        raise BadInput(
            f"{folders[0]}: no labelled post is in every run; give runs over the same posts"
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


# Thresholds that are tried, whatever the posts are.
STEPS: tuple[float, ...] = (0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.0)
DEEPEST = 3  # stages of a plan before the person
MOST = 300_000  # plans of one order; of an order with more, every second threshold is tried
_BARE = len(STEPS)  # the step of a verdict that states no confidence
_OF_KIND = _BARE + 1
_UNDECIDED = len(KINDS) * _OF_KIND  # no verdict, or a tied vote
ALL = AcceptanceRule(0.0, 0.0, KINDS)


class CascadePlan(NamedTuple):
    """Stages by their number, in order, and by which rule each decides."""

    order: tuple[int, ...]
    rules: tuple[AcceptanceRule, ...]


class PlanOutcome(NamedTuple):
    """A plan over posts: a row each."""

    by: Ints  # the place in the plan of the stage that decides it; −1 where a person does
    reached: list[Bools]  # of each stage of the plan, the posts that come to it
    wrong: Bools  # decided by a stage, and not as the gold
    hateful: Bools  # decided by a stage as hate
    hate: Bools  # the gold

    @property
    def decided_posts(self) -> Bools:
        """Return the posts that a stage decides."""
        found: Bools = self.by >= 0
        return found

    @property
    def missed_hate(self) -> Bools:
        """Return the posts that are decided as no hate, and are hate."""
        return self.decided_posts & ~self.hateful & self.hate

    @property
    def false_alarms(self) -> Bools:
        """Return the posts that are decided as hate, and are none."""
        return self.hateful & ~self.hate


class TriedPlans(NamedTuple):
    """Every plan of one order: sums over posts, one number a plan."""

    order: tuple[int, ...]
    wrong: Floats
    left: Floats  # posts that go to a person
    cost: Floats  # of the models

    def plan_at(self, number: int, rules: Sequence[Sequence[AcceptanceRule]]) -> CascadePlan:
        """Return the plan of a number; `rules` are those of every stage."""
        shape = [len(rules[stage]) for stage in self.order]
        places = np.unravel_index(number, shape)
        return CascadePlan(
            self.order,
            tuple(rules[stage][int(at)] for stage, at in zip(self.order, places, strict=True)),
        )


def walk_posts(
    plan: CascadePlan, stages: Sequence[CascadeStage], rows: Ints | None = None
) -> PlanOutcome:
    """Take posts through a plan; `rows` None takes all of them."""
    if rows is not None:
        stages = [stage.take_rows(rows) for stage in stages]
    hate = stages[0].hate
    by = np.full(len(hate), -1)
    waiting = np.ones(len(hate), dtype=bool)
    wrong = np.zeros(len(hate), dtype=bool)
    hateful = np.zeros(len(hate), dtype=bool)
    reached = []
    for at, (number, rule) in enumerate(zip(plan.order, plan.rules, strict=True)):
        posts = stages[number].posts
        reached.append(waiting)
        here = waiting & rule.accepts(posts)
        by[here] = at
        wrong |= here & posts.wrong
        hateful |= here & posts.hateful
        waiting = waiting & ~here
    return PlanOutcome(by, reached, wrong, hateful, hate)


def stage_orders(stages: int) -> Iterator[tuple[int, ...]]:
    """Yield every order of one stage or more, the short ones first."""
    for deep in range(1, min(stages, DEEPEST) + 1):
        yield from permutations(range(stages), deep)


def rules_of_stage(
    posts: LabelledPosts, *, alike: bool = False, few: bool = False
) -> list[AcceptanceRule]:
    """Return the rules of a stage that differ on these posts, whatever their gold is.

    Of thresholds that decide the same posts the highest is kept: nothing is known of confidences below all of them.

    Args:
        posts: what the stage says of each.
        alike: only those that are alike for both verdicts.
        few: only every second threshold, and verdicts without a confidence all alike.
    """
    codes = set(_position_codes(posts).tolist()) - {_UNDECIDED}
    if alike:
        codes = {code % _OF_KIND for code in codes}
    bare = [number * _OF_KIND + _BARE in codes for number in range(len(KINDS))]
    of_kind: list[list[tuple[float | None, bool]]] = []
    for number, has_bare in enumerate(bare):
        steps = [step for at, step in enumerate(STEPS) if number * _OF_KIND + at in codes]
        # the lowest among them
        steps = steps[(len(steps) + 1) % 2 :: 2] if few and not alike else steps
        of_kind.append(list(product((None, *steps), (False, True) if has_bare else (False,))))
    pairs = zip(of_kind[0], of_kind[0], strict=True) if alike else product(*of_kind)
    found = []
    for (high, bare_high), (low, bare_low) in pairs:
        taken = tuple(
            kind for kind, is_bare in zip(KINDS, (bare_high, bare_low), strict=True) if is_bare
        )
        if few and len(taken) == 1 and all(bare):
            continue
        if high is not None or low is not None or taken:
            found.append(AcceptanceRule(high, low, taken))
    return found


def try_order(
    order: tuple[int, ...],
    stages: Sequence[CascadeStage],
    rules: Sequence[Sequence[AcceptanceRule]],
    costs: Sequence[Floats],
) -> TriedPlans:
    """Try every plan of one order of stages, with these rules of each stage, over posts.

    `costs` has for each stage what asking it about each post costs.
    """
    codes = np.stack([_position_codes(stages[number].posts) for number in order], axis=1)
    cells, cell = np.unique(codes, axis=0, return_inverse=True)
    cell = cell.ravel()
    many = np.bincount(cell, minlength=len(cells)).astype(float)
    waiting: Floats = np.ones((1, len(cells)))
    wrong = np.zeros(1)
    cost = np.zeros(1)
    for at, number in enumerate(order):
        decides = _decision_table(rules[number])[:, cells[:, at]].astype(float)  # (rule, cell)
        wrong_here = np.bincount(cell, weights=stages[number].posts.wrong, minlength=len(cells))
        cost = cost + waiting @ np.bincount(cell, weights=costs[number], minlength=len(cells))
        wrong = (wrong[:, None] + waiting @ (decides * wrong_here).T).ravel()
        cost = np.repeat(cost, len(decides))
        if at == len(order) - 1:
            left = (waiting @ ((1 - decides) * many).T).ravel()
        else:
            waiting = (waiting[:, None, :] * (1 - decides)).reshape(-1, len(cells))
    return TriedPlans(order, wrong, left, cost)


def _position_codes(posts: LabelledPosts) -> Ints:
    """Return where each post stands at a stage, as one number: its verdict and the step that its confidence reaches."""
    descending = np.array(STEPS)
    step = np.searchsorted(-descending, -np.nan_to_num(posts.confidence), side="left")
    step = np.where(np.isnan(posts.confidence), _BARE, step)
    kind = np.where(posts.hateful, KINDS.index("hateful"), KINDS.index("harmless"))
    codes: Ints = np.where(posts.decided, kind * _OF_KIND + step, _UNDECIDED)
    return codes


def _decision_table(rules: Sequence[AcceptanceRule]) -> Bools:
    """Return, for each rule and each code, whether the rule decides a post that stands there."""
    found = np.zeros((len(rules), _UNDECIDED + 1), dtype=bool)
    for row, rule in zip(found, rules, strict=True):
        for number, (kind, least) in enumerate(
            zip(KINDS, (rule.hateful, rule.harmless), strict=True)
        ):
            start = number * _OF_KIND
            row[start : start + _BARE] = [least is not None and step >= least for step in STEPS]
            row[start + _BARE] = kind in rule.without_confidence
    return found
