"""Fit a screening classifier: learn on some posts, choose its thresholds on the others, and say what it would do.

Posts are divided by cluster of near-duplicates, so that no copy of a post that was learnt from tests it. The
thresholds are those of `tribunal.eval.measures.risk_control`: a grid that is fixed before any post is seen, exact
p-values, one post a cluster, and an error that further fits on the same posts have less of.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import NEAR, near_duplicates
from tribunal.eval.measures.fit import first_of_each_cluster, warn_of_recurring_texts
from tribunal.eval.measures.rates import rate_interval
from tribunal.eval.measures.risk_control import (
    AcceptanceRule,
    AgreementPromise,
    LabelledPosts,
    count_attempt,
    error_of_attempt,
    find_acceptance_rule,
    hash_rows,
)
from tribunal.eval.screening.decided_posts import LabelledTexts
from tribunal.eval.screening.learning import EmbeddedPosts, train_screener
from tribunal.retrievers.screening.manifest import ScreenerArrays, ScreenerManifest, write_screener
from tribunal.retrievers.screening.screener import Screener
from tribunal.text_similarity import decode_signatures, text_signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tribunal.eval.measures.columns import Bools, Ints
    from tribunal.schema import JSON

LEARNT_FROM = 0.6  # the share of posts that is learnt from, of those that aren't held out; the others test
MOST_HELD_OUT = 0.9
_FEWEST = 20  # posts of each label to learn from
_OF_A_LANGUAGE = 20, 0.01  # posts, and the share of all, from which a language counts as one it was fitted on


class ScreenerPromise(NamedTuple):
    """Hold what a screening classifier is to promise, by the names of `ScreenerManifest`."""

    missed_hate: float = 0.05
    false_alarms: float = 0.05
    level: float = 0.9
    audit: float = 0.05
    court_error: float = 0.0

    @property
    def as_guarantee(self) -> AgreementPromise:
        """Return it as the guarantee that thresholds are tested by. With two labels, every error is on the wrong side.

        Raises:
            BadInput: one is no share.
        """
        for name in ("missed_hate", "false_alarms", "audit"):
            if not 0 < getattr(self, name) < 1:
                value = getattr(self, name)
                raise BadInput(f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.05")
        if not 0 <= self.court_error < 1:
            raise BadInput(f"court_error: {self.court_error} is not from 0 to below 1; give a fraction, such as 0.05")
        max_error_rate = max(self.missed_hate, self.false_alarms)
        return AgreementPromise(1 - max_error_rate, self.level, self.missed_hate, self.false_alarms)


class FittedScreener(NamedTuple):
    """A screening classifier, and its folder's content."""

    manifest: ScreenerManifest
    arrays: ScreenerArrays


def fit_screener(
    posts: LabelledTexts,
    promise: ScreenerPromise,
    ledger: Path,
    *,
    hold_out: float = 0.0,
    embedded: EmbeddedPosts | None = None,
) -> FittedScreener:
    """Fit a screening classifier.

    What a court alone decided is learnt from, and neither tests nor calibrates. Fits on these posts are counted in the
    ledger. A share of posts is held out: they neither teach it nor choose its thresholds, but show what it does.
    `embedded` is what it learns from beside words, or instead of them.

    Raises:
        BadInput: an argument is out of range, or nothing can be promised; why, and what would help.
    """
    guarantee = promise.as_guarantee
    if not 0 <= hold_out <= MOST_HELD_OUT:
        raise BadInput(f"hold_out: {hold_out} is not from 0 to {MOST_HELD_OUT}; give a fraction, such as 0.3")
    hateful, by_people = np.array(posts.hateful), np.array(posts.by_people)
    own = np.flatnonzero(by_people)
    _check_labels(posts, hateful[own], promise)
    signed = [text_signature(text) for text in posts.texts]
    cluster = near_duplicates(signed)
    _check_copies(cluster[own], hateful[own], promise)
    tried: JSON = {**guarantee.as_json(), "first_look": True}  # as the ledger counts it
    if hold_out:
        tried["hold_out"] = hold_out
    if embedded is not None:
        tried["embedding"] = embedded.by.dump()
    if not by_people.all():
        tried["by_court"] = _hash_posts(posts, np.flatnonzero(~by_people))
    attempt = count_attempt(ledger, tried, _hash_posts(posts, own))
    error = error_of_attempt(attempt, promise.level)
    parts = split_posts([posts.ids[at] for at in own], cluster[own], hold_out)
    spoken = _frequent_languages([posts.language[at] for at in own[parts.learnt_from]])
    elsewhere = np.isin(cluster, cluster[own[~parts.learnt_from]])
    by_court = np.flatnonzero(~by_people & ~elsewhere)
    rows = np.concatenate([own[parts.learnt_from], by_court])
    line, scale = train_screener(
        [posts.texts[at] for at in rows],
        hateful[rows],
        cluster[rows],
        by_people[rows],
        embedded and embedded.vectors[rows],
        alone=embedded is not None and embedded.by.alone,
    )
    tests, held_out = own[parts.tested], own[parts.held_out]
    draft = ScreenerManifest(
        weights_sha256="",
        posts_sha256="",
        embedding=embedded and embedded.by,
        **scale._asdict(),
        harmless=None,
        hateful=None,
        languages=tuple(sorted(spoken)),
        **promise._asdict(),
        attempt=attempt,
        error=error,
        n_fit=len(rows),
        n_by_court=len(by_court),
        n_test=len(tests),
        n_held_out=len(held_out),
        clusters={"by": NEAR, "n": len(np.unique(cluster)), "largest": int(np.bincount(cluster).max())},
        foretold={},
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        **posts.about,
    )
    fitted_on = decode_signatures([signed[at] for at in (*rows, *tests) if signed[at]])
    arrays = ScreenerArrays(line.known, line.weights, line.vector, fitted_on)
    screener = Screener(Path(), draft, "", arrays)
    tested, why = _screen_rows(posts, tests, screener, embedded)
    in_order = own[parts.order[parts.tested[parts.order]]]
    drawn = tested.take_rows(first_of_each_cluster(np.searchsorted(tests, in_order), cluster[tests]))
    found = find_acceptance_rule(drawn, guarantee, error)
    if not found:
        raise BadInput(_no_threshold_message(posts, drawn, promise, attempt))
    foretold = _forecast_decisions(tested, why, found, cluster[tests])
    recurring = warn_of_recurring_texts([signed[at] for at in own], hateful[own].tolist())
    warnings = [*posts.warnings, *recurring, *_cluster_warnings(foretold, promise)]
    if len(held_out):
        shown, why = _screen_rows(posts, held_out, screener, embedded)
        foretold = _forecast_decisions(shown, why, found, cluster[held_out])
    decided = {"harmless": found.harmless, "hateful": found.hateful, "foretold": foretold, "warnings": tuple(warnings)}
    return FittedScreener(draft.model_copy(update=decided), arrays)


def save_screener(fitted: FittedScreener, folder: Path) -> str:
    """Write a screening classifier to a folder, and return its hash; raise `BadInput` if it can't be written."""
    try:
        return write_screener(folder, fitted.manifest, fitted.arrays)
    except OSError as error:
        raise BadInput(f"out: {folder}: {error.strerror or error}; give a folder that can be written") from error


class PostSplit(NamedTuple):
    """The posts in a random order that follows from their ids alone, and what each is for."""

    order: Ints
    learnt_from: Bools
    tested: Bools
    held_out: Bools


def split_posts(ids: Sequence[str], cluster: Ints, hold_out: float = 0.0) -> PostSplit:
    """Divide posts into those that are learnt from, those that test what was learnt, and those that are held out.

    Whole clusters are taken, in the order, until there are enough.
    """
    order: Ints = np.random.default_rng(0).permutation(np.argsort(ids, kind="stable"))
    numbers, first = np.unique(cluster[order], return_index=True)
    sizes = np.bincount(cluster)[numbers]
    by_turn = np.argsort(first)
    taken, not_held_out = np.cumsum(sizes[by_turn]), (1 - hold_out) * len(ids)
    learnt_from = np.isin(cluster, numbers[by_turn][taken <= LEARNT_FROM * not_held_out])
    held_out = np.isin(cluster, numbers[by_turn][taken > not_held_out])
    return PostSplit(order, learnt_from, ~learnt_from & ~held_out, held_out)


def _screen_rows(
    posts: LabelledTexts, rows: Ints, screener: Screener, embedded: EmbeddedPosts | None
) -> tuple[LabelledPosts, np.ndarray]:
    """Return what a classifier says of posts, and why it declines each outright, if it does."""
    limits, texts = screener.manifest, [posts.texts[at] for at in rows]
    vectors = [None] * len(rows) if embedded is None else embedded.vectors[rows]
    chance, known = np.array([*map(screener.probability_of_hate, texts, vectors)]).T
    tongue = np.array([posts.language[at] not in limits.languages for at in rows], dtype=bool)
    long = np.array([len(text) > limits.most_characters for text in texts], dtype=bool)
    why = np.select([tongue, long, known < limits.least_known], ["language", "too long", "unlike"], "")
    called = chance >= 0.5
    wrong = called != np.array(posts.hateful)[rows]
    return LabelledPosts(np.maximum(chance, 1 - chance), why == "", called, wrong, wrong), why


def _frequent_languages(languages: Sequence[str]) -> set[str]:
    least = max(_OF_A_LANGUAGE[0], _OF_A_LANGUAGE[1] * len(languages))
    return {language for language, posts in Counter(languages).items() if posts >= least}


def _check_labels(posts: LabelledTexts, hateful: Bools, promise: ScreenerPromise) -> None:
    source, hate = posts.about["fitted_from"], int(hateful.sum())
    if min(hate, len(hateful) - hate) < 2 * _FEWEST:
        raise BadInput(
            f"{source}: {hate:,} of {len(hateful):,} posts are hate: too few of one label to learn from (at least "
            f"{2 * _FEWEST} of each); nothing can be promised, and no screening classifier was made"
        )
    for name, rate, word in (
        ("missed_hate", hateful.mean(), "harmless"), ("false_alarms", 1 - hateful.mean(), "hateful"),
    ):  # fmt: skip
        if getattr(promise, name) >= rate:
            raise BadInput(
                f"{name}: {getattr(promise, name):g}: whoever calls every post {word} keeps this promise here, since "
                f"{rate:.1%} of the posts are not; give less, such as {rate / 5:.2g}"
            )


def _check_copies(cluster: Ints, hateful: Bools, promise: ScreenerPromise) -> None:
    """Refuse posts of which too many have the same text and opposite labels: the text alone can't tell them apart."""
    hate, all_of = np.bincount(cluster, hateful), np.bincount(cluster)
    contradicted = ((hate > 0) & (hate < all_of))[cluster].mean()
    if contradicted > max(promise.missed_hate, promise.false_alarms):
        raise BadInput(
            f"a screening classifier can promise nothing here, and none was made: {contradicted:.1%} of the posts have "
            "nearly the same text as one with the opposite label, so that the text alone can't tell; let each post go "
            "to trial"
        )


def _no_threshold_message(posts: LabelledTexts, drawn: LabelledPosts, promise: ScreenerPromise, attempt: int) -> str:
    again = f"; this was fit {attempt} on these posts, and each is tested more strictly than the one before"
    return (
        "a screening classifier can promise nothing here, and none was made: no threshold shows at level "
        f"{promise.level:g} that at most {promise.missed_hate:g} of what it calls harmless is hate, or at most "
        f"{promise.false_alarms:g} of what it calls hateful is not, with {sum(posts.by_people):,} posts, of which "
        f"{len(drawn):,} tested it; give more posts, or bear more errors{again * (attempt > 1)}"
    )


def _cluster_warnings(foretold: JSON, promise: ScreenerPromise) -> list[str]:
    """Return a warning for each promise that large clusters break, since each cluster counts once."""
    return [
        f"counted by post, {foretold[name]:.1%} of those {words}: large clusters are worse, and the promise counts "
        "each cluster once"
        for name, words in (("missed_hate", "called harmless are hate"), ("false_alarms", "called hateful are not"))
        if (foretold[name] or 0) > getattr(promise, name)
    ]


def _forecast_decisions(posts: LabelledPosts, why: np.ndarray, found: AcceptanceRule, cluster: Ints) -> JSON:
    """Return what an acceptance rule does with these posts, with rates whose intervals go by cluster."""
    taken, called, hate = found.accepts(posts), posts.hateful, posts.hateful ^ posts.wrong
    harmless, hateful = taken & ~called, taken & called

    def share_and_interval(name: str, hits: Bools, among: Bools) -> JSON:
        interval = rate_interval(np.bincount(cluster, hits & among), np.bincount(cluster, among))
        return {name: float(hits[among].mean()) if among.any() else None, f"{name}_interval": interval}

    return {
        "posts": len(posts),
        "hate": int(hate.sum()),
        **share_and_interval("decided", taken, np.ones(len(posts), dtype=bool)),
        "harmless": int(harmless.sum()),
        "hateful": int(hateful.sum()),
        "missed": int((harmless & hate).sum()),
        "false": int((hateful & ~hate).sum()),
        **share_and_interval("missed_hate", hate, harmless),
        **share_and_interval("false_alarms", ~hate, hateful),
        "declined": {str(name): int(many) for name, many in Counter(why.tolist()).items() if name},
        "unsure": int(((why == "") & ~taken).sum()),
        **share_and_interval("agreement", ~posts.wrong, taken),
    }


def _hash_posts(posts: LabelledTexts, rows: Ints) -> str:
    return hash_rows([posts.ids[at], posts.texts[at], posts.hateful[at]] for at in rows)
