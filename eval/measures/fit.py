"""Fit a confidence threshold to a wanted agreement with the gold, at a stated confidence level.

All labelled posts test the thresholds of a fixed grid, one post a cluster, at what this try may spend of the error
(`tribunal.eval.measures.risk_control`). No half is held out. What is measured on these posts is therefore said to be
measured on them, and is measured once more by cross-validation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.datasets.sampling import IN_ORDER
from tribunal.eval.measures.calibration import calibration_map, calibration_scores
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import Ints, RunColumns, read_columns
from tribunal.eval.measures.rates import as_pair, mean_or_none, share_interval
from tribunal.eval.measures.risk_control import (
    FITS,
    STARTS,
    AgreementPromise,
    CaseRange,
    LabelledPosts,
    count_attempt,
    error_of_attempt,
    find_acceptance_rule,
    hash_rows,
    least_posts_needed,
    split_error,
)
from tribunal.nodes.threshold import ByVerdict, Threshold, counted_as, interpolate
from tribunal.runner.results import read_full_line
from tribunal.schema import JSON

# The settings that name a model.
OF_MODELS = ("model", "aux_model", "judge_model", "seats")
_FOLDS = 5


class FittingPosts(NamedTuple):
    """The posts to fit on: their ids, and the number of each one's cluster; `by` names the kind of cluster."""

    posts: LabelledPosts
    ids: list[str]
    cluster: Ints
    by: JSON

    @property
    def counted_as(self) -> str:
        """Say how many posts there are, and as how many they count."""
        return counted_as(len(self.ids), self.by)


def fit_threshold(
    folder: Path,
    *,
    agreement: float = 0.95,
    level: float = 0.9,
    missed_hate: float | None = None,
    false_alarms: float | None = None,
    cluster: str | None = None,
) -> Threshold:
    """Return the lowest confidence threshold that reaches an agreement rate, fitted on the results of a run.

    That a fit was tried is written down in the folder (`fits.jsonl`), and each further one is tested more strictly.

    Args:
        folder: the folder of a run over labelled posts. Of several repeats the first is taken, since a post's repeats
            aren't independent. Refusals, failures, ties and posts that wait for a person are never accepted.
        agreement: the share of accepted verdicts that agree with the gold, at least.
        level: how sure that is, over all fits on posts like these, and over all that are tried on this run.
        missed_hate: of accepted verdicts of no hate, the share that is of hate, at most.
        false_alarms: of accepted verdicts of hate, the share that is of none, at most. With one of these two, each
            verdict has its own threshold, and the agreement holds for each by itself.
        cluster: the field of the data set by which posts belong together, `near-duplicates` or `post`; as
            `tribunal.eval.measures.clusters.clusters_of`.

    Raises:
        BadInput: an argument is out of range, the folder is no run's, the rehearsal model took part in it, or no
            threshold can be shown to reach the agreement.
    """
    promise = AgreementPromise(agreement, level, missed_hate, false_alarms)
    columns = read_columns(folder)
    refuse_unfit_run(columns, "threshold fitted to")
    rows = np.flatnonzero(columns.is_labelled & (columns.repeat == 0))
    clusters = clusters_of(columns, cluster)
    fitting = fitting_of(columns, rows, clusters)
    settings = columns.run.get("settings") or {}
    policy = columns.run.get("policy") or {}
    data: JSON = columns.run.get("data") or {}
    about: JSON = {
        "graph": str(columns.run.get("graph")),
        "scheme": columns.scheme,
        "models": {name: settings[name] for name in OF_MODELS if settings.get(name)},
        "policy": policy.get("sha"),
        "fitted_from": folder.resolve().name,
        "dataset": columns.run.get("dataset"),
        "split": data.get("split"),
        "data_sha256": data.get("sha256"),
    }
    return fit_posts(fitting, promise, folder / FITS, about, doubts_about_posts(columns, rows))


def refuse_unfit_run(columns: RunColumns, called: str) -> None:
    """Refuse a run in which the rehearsal model took part, or without a label; `called` says what it is needed for."""
    if columns.rehearsed:
        raise BadInput(
            f"{columns.folder}: the rehearsal model took part in {columns.rehearsed} of {columns.row_count} results, "
            f"and a {called} its rules would promise nothing; give a run of real models"
        )
    if not columns.is_labelled.any():
        raise BadInput(
            f"{columns.folder}: 0 labelled posts: give a run over a data set with labels"
        )


def fit_posts(
    fitting: FittingPosts,
    promise: AgreementPromise,
    ledger: Path,
    about: JSON,
    doubts: Sequence[str],
    among: CaseRange | None = None,
) -> Threshold:
    """Return the threshold of labelled posts.

    Args:
        fitting: the posts.
        promise: what is promised.
        ledger: the file in which tries on these results are counted.
        about: what it holds for: the fields of `Threshold` that no post says.
        doubts: why the promise may not hold for other posts.
        among: which cases they are, where the ledger is of others, too.

    Raises:
        BadInput: no threshold can be shown to reach the agreement, or the try can't be counted.
    """
    posts = fitting.posts
    cluster = fitting.cluster
    if not (posts.decided & ~np.isnan(posts.confidence)).any():
        raise BadInput(
            f"{about['fitted_from']}: no verdict on a labelled post states a confidence; run it with --threshold"
        )
    columns = (posts.confidence, posts.decided, posts.hateful, posts.wrong, posts.wrong_side)
    rows = zip(fitting.ids, *(each.tolist() for each in columns), strict=True)
    data = hash_rows([None if value != value else value for value in row] for row in rows)
    attempt = count_attempt(ledger, {**promise.as_json(), "cluster": fitting.by["by"]}, data, among)
    error = error_of_attempt(attempt, promise.level)
    order = shuffle_rows(fitting.ids)
    drawn = posts.take_rows(first_of_each_cluster(order, cluster))
    found = find_acceptance_rule(drawn, promise, error)
    if not found:
        raise BadInput(_too_few_message(drawn, promise, attempt, error, fitting.counted_as))
    taken = found.accepts(posts)
    seen = mean_or_none(~posts.wrong[taken])
    warnings = list(doubts)
    if len(drawn) < len(posts) and seen is not None and seen < promise.agreement:
        warnings.append(
            f"counted by post, {seen:.1%} of the accepted verdicts on these posts agree: large clusters agree less, "
            "and the promise counts each cluster once"
        )
    stated = posts.decided & ~np.isnan(posts.confidence)
    confidence = posts.confidence[stated]
    right = ~posts.wrong[stated]
    # All rows of a cluster are in one fold.
    numbers, first = np.unique(cluster[order], return_index=True)
    fold_of_row = (np.argsort(np.argsort(first)) % _FOLDS)[np.searchsorted(numbers, cluster)]
    validated = np.zeros(len(posts), dtype=bool)
    calibrated = confidence.copy()
    for fold in range(_FOLDS):
        here = fold_of_row == fold
        others = order[~here[order]]
        if len(others):  # whether the rule that is fitted on the other folds accepts these posts
            others_drawn = posts.take_rows(first_of_each_cluster(others, cluster))
            validated |= here & find_acceptance_rule(others_drawn, promise, error).accepts(posts)
        here = here[stated]
        points = calibration_map(confidence[~here], right[~here])
        if points:
            calibrated[here] = interpolate(points, confidence[here])
    return Threshold(
        threshold=None if promise.by_verdict else found.hateful,
        by_verdict=ByVerdict(hateful=found.hateful, harmless=found.harmless)
        if promise.by_verdict
        else None,
        without_confidence=found.without_confidence,
        **promise.as_json(),
        attempt=attempt,
        error=error,
        coverage=float(taken.mean()),
        coverage_interval=as_pair(share_interval(cluster, taken)),
        agreement_seen=seen,
        agreement_interval=as_pair(share_interval(cluster, ~posts.wrong & taken, taken)),
        missed_hate_seen=mean_or_none(posts.wrong_side[taken & ~posts.hateful]),
        false_alarms_seen=mean_or_none(posts.wrong_side[taken & posts.hateful]),
        coverage_cross_validated=float(validated.mean()),
        agreement_cross_validated=mean_or_none(~posts.wrong[validated]),
        n_fit=len(posts),
        clusters=fitting.by,
        warnings=tuple(warnings),
        calibration=calibration_map(confidence, right),
        **_hate_by_verdict(posts),
        ece=calibration_scores(confidence, right)["ece"],
        ece_calibrated=calibration_scores(calibrated, right)["ece"],
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
    )


def _hate_by_verdict(posts: LabelledPosts) -> JSON:
    """Return how often posts were hate: by the verdict's confidence, and of verdicts that state none.

    Shares of verdicts that state none are Laplace's, so that a few are no proof of certainty.
    """
    hate = posts.hateful != posts.wrong_side
    stated = posts.decided & ~np.isnan(posts.confidence)
    signed = np.where(posts.hateful, posts.confidence, -posts.confidence)
    silent = posts.decided & ~stated
    shares = {}
    for kind, of_kind in (
        ("hateful", silent & posts.hateful),
        ("harmless", silent & ~posts.hateful),
    ):
        if of_kind.any():
            shares[kind] = round((int(hate[of_kind].sum()) + 1) / (int(of_kind.sum()) + 2), 6)
    return {
        "hate_by_confidence": calibration_map(signed[stated], hate[stated]),
        "hate_without_confidence": ByVerdict(**shares),
    }


def fitting_of(columns: RunColumns, rows: Ints, clusters: Clusters) -> FittingPosts:
    """Return the posts to fit on: these rows of a run, one a post."""
    verdict = columns.is_decided[rows]
    tied = columns.uncertain[rows] > 0
    for at in np.flatnonzero(tied):  # a person sees a tied vote, however sure it is
        tied[at] = bool(read_full_line(columns.folder, int(columns.offset[rows[at]])).get("tie"))
    posts = LabelledPosts(
        confidence=columns.confidence[rows],
        decided=verdict & ~tied,
        hateful=columns.hateful[rows] == 1,
        wrong=~columns.is_right[rows],
        wrong_side=verdict & (columns.hateful[rows] != columns.positive[rows]),
    )
    numbers = clusters.of_post[columns.post[rows]]
    ids = [columns.ids[post] for post in columns.post[rows]]
    return FittingPosts(posts, ids, numbers, clusters_as_json(clusters.by, numbers))


def clusters_as_json(by: str, cluster: Ints) -> JSON:
    """Describe the clusters of a fit's posts: what they are by, how many, and the posts of the largest."""
    sizes = np.unique(cluster, return_counts=True)[1]
    return {"by": by, "n": len(sizes), "largest": int(sizes.max(initial=0))}


def shuffle_rows(ids: Sequence[str]) -> Ints:
    """Return rows in a random order that follows from their ids alone."""
    return np.random.default_rng(0).permutation(np.argsort(ids, kind="stable"))


def first_of_each_cluster(order: Ints, cluster: Ints) -> Ints:
    """Return the first row of each cluster in a random order; these rows are independent of each other."""
    return order[np.unique(cluster[order], return_index=True)[1]]


def _too_few_message(
    drawn: LabelledPosts, promise: AgreementPromise, attempt: int, error: float, counted_as: str
) -> str:
    """Say what was asked, and how many posts it takes.

    It says nothing else of the posts, or the next try could be fitted to it.
    """
    decided = drawn.take_rows(drawn.decided)
    bare = int(np.isnan(decided.confidence).sum())
    bound = min(
        [
            1 - promise.agreement,
            *(each for each in (promise.missed_hate, promise.false_alarms) if each),
        ]
    )
    kinds = len(np.unique(decided.hateful)) if promise.by_verdict else 1
    start = max(STARTS, key=lambda each: STARTS[each])
    needed = least_posts_needed(
        bound, split_error(bare, len(decided) - bare, bound, error / kinds)[1] * STARTS[start]
    )
    own = {"missed hate": promise.missed_hate, "false alarms": promise.false_alarms}
    asked = "".join(f", {name} {value:g}" for name, value in own.items() if value is not None)
    more = f"; this was fit {attempt} on these results, and each is tested more strictly than the one before"
    again = more * (attempt > 1)
    return (
        f"agreement: {promise.agreement:g}: no threshold shows it at level {promise.level:g}{asked} with these "
        f"{counted_as}; it takes at least {needed:,} accepted posts of confidence {start:g} or "
        f"more without one error; give more posts, or a lower agreement or level{again}"
    )


def doubts_about_posts(columns: RunColumns, rows: Ints) -> list[str]:
    """Say why posts to come may differ from those of a fit; empty where nothing speaks for it.

    Args:
        columns: the run.
        rows: the results that are fitted on, one a post.
    """
    run = columns.run
    warnings = list[str]()
    data = run.get("data") or {}
    sampling = run.get("sampling") or {}
    texts = [columns.signatures[post] for post in columns.post[rows].tolist()]
    warnings += warn_of_recurring_texts(texts, columns.gold_label[rows].tolist())
    if "train" in str(data.get("split") or "").casefold():
        warnings.append(
            f"the posts are the split {data['split']} of {run.get('dataset')}: prompts, examples and models may have "
            "been made with them, and do better there than on posts to come; fit on a split that nothing was made with"
        )
    if sampling.get("balance"):
        warnings.append(
            f"the posts were balanced ({sampling['balance']}), so the shares promised are of such a mix; posts as they "
            "come have another"
        )
    decided = int((columns.repeat == 0).sum())
    posts = run.get("n")
    if posts and decided < posts:
        how = ": the first ones of their files" if sampling.get("order") == IN_ORDER else ""
        warnings.append(
            f"the run isn't finished ({decided:,} of {posts:,} posts{how}), and those to come may be others"
        )
    return warnings


def warn_of_recurring_texts(texts: Sequence[str], labels: Sequence[object]) -> list[str]:
    """Return a warning where equal texts have unequal labels, else nothing.

    Args:
        texts: of each post, or their signatures; an empty one is like no other.
        labels: of each.
    """
    held: dict[str, list[object]] = defaultdict(list)
    for text, label in zip(texts, labels, strict=True):
        if text:
            held[text].append(label)
    torn = [each for each in held.values() if len(set(each)) > 1]
    again = sum(len(each) > 1 for each in held.values())
    if not torn:
        return []
    return [
        f"of {again:,} texts that occur more than once, {len(torn):,} have more than one label: where texts of these "
        "posts recur with other labels, as they may with other images, the promise doesn't hold for them"
    ]
