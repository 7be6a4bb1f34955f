"""Fit a first look: learn on some of the posts, choose its thresholds on the others, and say what it would do.

Posts are divided by cluster of near-duplicates, so that no copy of a post that was learnt from tests it. The
thresholds are those of `tribunal.eval.measures.sequence`: a grid that is fixed before any post is seen, exact p-values,
one post a cluster, and an error that further fits on the same posts have less of (`tribunal.eval.measures.tries`).
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.first_look.decided import Decided
from tribunal.eval.first_look.learning import Learnt, learn
from tribunal.eval.measures.clusters import NEAR, near_duplicates
from tribunal.eval.measures.exchanged import recurring
from tribunal.eval.measures.fit import one_a_cluster
from tribunal.eval.measures.rates import rate_interval
from tribunal.eval.measures.sequence import Accepted, LabelledPosts, Wanted, accepted
from tribunal.eval.measures.tries import counted, hash_of, spent_by
from tribunal.eval.runs.likeness import signature, signatures
from tribunal.retrievers.first_look.manifest import Arrays, Embedding, Manifest, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.models.embeddings import Vectors
    from tribunal.schema import JSON

LEARNT_FROM = 0.6  # the share of posts that is learnt from, of those that aren't held out; the others test
MOST_HELD_OUT = 0.9
_FEWEST = 20  # posts of each label to learn from
_OF_A_LANGUAGE = 20, 0.01  # posts, and the share of all, from which a language counts as one it was fitted on


class Promise(NamedTuple):
    """What a first look is to promise, as `Manifest` has it."""

    missed_hate: float = 0.05
    false_alarms: float = 0.05
    level: float = 0.9
    audit: float = 0.05
    court_error: float = 0.0

    @property
    def wanted(self) -> Wanted:
        """As thresholds are tested by it. Of two labels, whatever is wrong is on the wrong side.

        Raises:
            BadInput: one is no share.
        """
        for name in ("missed_hate", "false_alarms", "audit"):
            if not 0 < getattr(self, name) < 1:
                value = getattr(self, name)
                raise BadInput(f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.05")
        if not 0 <= self.court_error < 1:
            raise BadInput(f"court_error: {self.court_error} is not from 0 to below 1; give a fraction, such as 0.05")
        borne = max(self.missed_hate, self.false_alarms)
        return Wanted(1 - borne, self.level, self.missed_hate, self.false_alarms)


class Fitted(NamedTuple):
    """A first look that was fitted, and its folder's content."""

    manifest: Manifest
    learnt: Learnt
    fitted_on: npt.NDArray[np.uint8]  # signatures, without those held out


class Embedded(NamedTuple):
    """An embedding, and the vector of each post by it."""

    by: Embedding
    vectors: Vectors


def fit(
    posts: Decided, promise: Promise, ledger: Path, *, hold_out: float = 0.0, embedded: Embedded | None = None
) -> Fitted:
    """Fit a first look.

    Args:
        posts: what people decided. What a court alone decided is learnt from, and neither tests nor calibrates.
        promise: what it is to promise.
        ledger: the file in which fits on these posts are counted.
        hold_out: the share of posts that neither teach it nor choose its thresholds, but show what it does.
        embedded: what it learns from beside words, or instead of them.

    Raises:
        BadInput: an argument is out of range, or nothing can be promised; why, and what would help.
    """
    wanted = promise.wanted
    if not 0 <= hold_out <= MOST_HELD_OUT:
        raise BadInput(f"hold_out: {hold_out} is not from 0 to {MOST_HELD_OUT}; give a fraction, such as 0.3")
    hateful, by_people = np.array(posts.hateful), np.array(posts.by_people)
    own = np.flatnonzero(by_people)
    _check(posts, hateful[own], promise)
    signed = [signature(text) for text in posts.texts]
    cluster = near_duplicates(signed)
    _check_copies(cluster[own], hateful[own], promise)
    attempt = counted(ledger, _asked(wanted, hold_out, embedded, posts), _hash(posts, own))
    error = spent_by(attempt, promise.level)
    parts = split([posts.ids[at] for at in own], cluster[own], hold_out)
    spoken = _languages([posts.language[at] for at in own[parts.learnt_from]])
    elsewhere = np.isin(cluster, cluster[own[~parts.learnt_from]])
    by_court = np.flatnonzero(~by_people & ~elsewhere)
    rows = np.concatenate([own[parts.learnt_from], by_court])
    learnt = learn(
        [posts.texts[at] for at in rows],
        hateful[rows],
        cluster[rows],
        by_people[rows],
        embedded and embedded.vectors[rows],
        alone=embedded is not None and embedded.by.alone,
    )
    tested = _looked(posts, own[parts.tested], learnt, spoken, embedded)
    drawn = tested.labelled.taken(one_a_cluster(_among(own[parts.order], tested.rows), cluster[tested.rows]))
    found = accepted(drawn, wanted, error)
    if not found:
        raise BadInput(_nothing(posts, drawn, promise, attempt))
    foretold = _foretold(tested, found, cluster)
    warnings = [*posts.warnings, *_recurring(signed, hateful, own), *_by_post(foretold, promise)]
    held_out = own[parts.held_out]
    if len(held_out):
        foretold = _foretold(_looked(posts, held_out, learnt, spoken, embedded), found, cluster)
    fitted_on = [signed[at] for at in (*rows, *tested.rows) if signed[at]]
    least = found.by_verdict
    return Fitted(
        Manifest(
            weights_sha256="",
            posts_sha256="",
            embedding=embedded and embedded.by,
            bias=learnt.bias,
            slope=learnt.slope,
            intercept=learnt.intercept,
            harmless=least.harmless if least else None,
            hateful=least.hateful if least else None,
            languages=tuple(sorted(spoken)),
            least_known=learnt.least_known,
            most_characters=learnt.most_characters,
            **promise._asdict(),
            attempt=attempt,
            error=error,
            n_fit=len(rows),
            n_by_court=len(by_court),
            n_test=len(tested.rows),
            n_held_out=len(held_out),
            clusters={"by": NEAR, "n": len(np.unique(cluster)), "largest": int(np.bincount(cluster).max())},
            foretold=foretold,
            warnings=tuple(warnings),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            **posts.about,
        ),
        learnt,
        signatures(fitted_on),
    )


def keep(fitted: Fitted, folder: Path) -> str:
    """Write a first look to a folder, and give its hash.

    Raises:
        BadInput: the folder can't be written.
    """
    try:
        learnt = fitted.learnt
        return write(folder, fitted.manifest, Arrays(learnt.index, learnt.weights, learnt.vector, fitted.fitted_on))
    except OSError as error:
        raise BadInput(f"out: {folder}: {error.strerror or error}; give a folder that can be written") from error


class Parts(NamedTuple):
    """The posts in a random order that follows from their ids alone, and what each is for."""

    order: Ints
    learnt_from: Bools
    tested: Bools
    held_out: Bools


def split(ids: Sequence[str], cluster: Ints, hold_out: float = 0.0) -> Parts:
    """Divide posts into those that are learnt from, those that test what was learnt, and those that are held out.

    A cluster isn't torn: whole ones are taken, in the order, until there are enough.
    """
    order: Ints = np.random.default_rng(0).permutation(np.argsort(ids, kind="stable"))
    numbers, first = np.unique(cluster[order], return_index=True)
    sizes = np.bincount(cluster)[numbers]
    by_turn = np.argsort(first)
    taken, kept = np.cumsum(sizes[by_turn]), (1 - hold_out) * len(ids)
    learnt_from = np.isin(cluster, numbers[by_turn][taken <= LEARNT_FROM * kept])
    held_out = np.isin(cluster, numbers[by_turn][taken > kept])
    return Parts(order, learnt_from, ~learnt_from & ~held_out, held_out)


def _asked(wanted: Wanted, hold_out: float, embedded: Embedded | None, posts: Decided) -> JSON:
    """What is tried, as the ledger counts it."""
    more: JSON = {"hold_out": hold_out} if hold_out else {}
    if embedded is not None:
        more["embedding"] = embedded.by.dump()
    if not all(posts.by_people):
        more["by_court"] = _hash(posts, np.flatnonzero(~np.array(posts.by_people)))
    return {**wanted.asked(), "first_look": True, **more}


def _recurring(signed: Sequence[str], hateful: Bools, rows: Ints) -> list[str]:
    return recurring([signed[at] for at in rows], hateful[rows].tolist())


class _Looked(NamedTuple):
    """Posts that were looked at: their rows among all, and why each was declined before anything was said of it."""

    rows: Ints
    labelled: LabelledPosts
    why: np.ndarray


def _looked(posts: Decided, rows: Ints, learnt: Learnt, spoken: set[str], embedded: Embedded | None) -> _Looked:
    chance, known = learnt.looked([posts.texts[at] for at in rows], embedded and embedded.vectors[rows])
    why = _declined(posts, rows, known, spoken, learnt)
    return _Looked(rows, _labelled(chance, why == "", np.array(posts.hateful)[rows]), why)


def _among(order: Ints, rows: Ints) -> Ints:
    """The places within `rows`, in the order that all posts are in."""
    place = np.full(int(order.max()) + 1, -1)
    place[rows] = np.arange(len(rows))
    found: Ints = place[order][place[order] >= 0]
    return found


def _labelled(chance: Floats, decided: Bools, hateful: Bools) -> LabelledPosts:
    called = chance >= 0.5
    wrong = called != hateful
    return LabelledPosts(np.maximum(chance, 1 - chance), decided, called, wrong, wrong)


def _languages(told: Sequence[str]) -> set[str]:
    least = max(_OF_A_LANGUAGE[0], _OF_A_LANGUAGE[1] * len(told))
    return {language for language, many in Counter(told).items() if many >= least}


def _declined(posts: Decided, rows: Ints, known: Floats, spoken: set[str], learnt: Learnt) -> np.ndarray:
    """Of each post of the test why it is declined before anything is said of it; empty where it isn't."""
    tongue = np.array([posts.language[at] not in spoken for at in rows], dtype=bool)
    long = np.array([len(posts.texts[at]) > learnt.most_characters for at in rows], dtype=bool)
    return np.select([tongue, long, known < learnt.least_known], ["language", "too long", "unlike"], "")


def _check(posts: Decided, hateful: Bools, promise: Promise) -> None:
    source, hate = posts.about["fitted_from"], int(hateful.sum())
    if min(hate, len(hateful) - hate) < 2 * _FEWEST:
        raise BadInput(
            f"{source}: {hate:,} of {len(hateful):,} posts are hate: too few of one label to learn from (at least "
            f"{2 * _FEWEST} of each); nothing can be promised, and no first look was made"
        )
    for name, rate, word in (
        ("missed_hate", hateful.mean(), "harmless"), ("false_alarms", 1 - hateful.mean(), "hateful"),
    ):  # fmt: skip
        if getattr(promise, name) >= rate:
            raise BadInput(
                f"{name}: {getattr(promise, name):g}: whoever calls every post {word} keeps this promise here, since "
                f"{rate:.1%} of the posts are not; give less, such as {rate / 5:.2g}"
            )


def _check_copies(cluster: Ints, hateful: Bools, promise: Promise) -> None:
    """Where equal texts have opposite labels, no look at the text can tell which."""
    hate, all_of = np.bincount(cluster, hateful), np.bincount(cluster)
    torn = ((hate > 0) & (hate < all_of))[cluster].mean()
    if torn > max(promise.missed_hate, promise.false_alarms):
        raise BadInput(
            f"a first look can promise nothing here, and none was made: {torn:.1%} of the posts have nearly the same "
            "text as one with the opposite label, so that the text alone can't tell; let each post go to trial"
        )


def _nothing(posts: Decided, drawn: LabelledPosts, promise: Promise, attempt: int) -> str:
    again = f"; this was fit {attempt} on these posts, and each is tested more strictly than the one before"
    return (
        f"a first look can promise nothing here, and none was made: no threshold shows at level {promise.level:g} that "
        f"at most {promise.missed_hate:g} of what it calls harmless is hate, or at most {promise.false_alarms:g} of "
        f"what it calls hateful is not, with {sum(posts.by_people):,} posts, of which {len(drawn):,} tested it; give "
        f"more posts, or bear more errors{again * (attempt > 1)}"
    )


def _by_post(foretold: JSON, promise: Promise) -> list[str]:
    """Where large clusters are worse than others, which count once each."""
    return [
        f"counted by post, {foretold[name]:.1%} of those {said}: large clusters are worse, and the promise counts each "
        "cluster once"
        for name, said in (("missed_hate", "called harmless are hate"), ("false_alarms", "called hateful are not"))
        if (foretold[name] or 0) > getattr(promise, name)
    ]


def _foretold(looked: _Looked, found: Accepted, of_all: Ints) -> JSON:
    """What it does with posts; `of_all` has the cluster of each post of the fit."""
    posts, why, cluster = looked.labelled, looked.why, of_all[looked.rows]
    taken, called, hate = found.of(posts), posts.hateful, posts.hateful ^ posts.wrong
    harmless, hateful = taken & ~called, taken & called
    each = np.ones(len(posts), dtype=bool)
    return {
        "posts": len(posts),
        "hate": int(hate.sum()),
        "decided": float(taken.mean()),
        "decided_interval": _interval(taken, each, cluster),
        "harmless": int(harmless.sum()),
        "hateful": int(hateful.sum()),
        "missed": int((harmless & hate).sum()),
        "false": int((hateful & ~hate).sum()),
        "missed_hate": float(hate[harmless].mean()) if harmless.any() else None,
        "missed_hate_interval": _interval(hate, harmless, cluster),
        "false_alarms": float((~hate)[hateful].mean()) if hateful.any() else None,
        "false_alarms_interval": _interval(~hate, hateful, cluster),
        "declined": {str(name): int(many) for name, many in Counter(why.tolist()).items() if name},
        "unsure": int(((why == "") & ~taken).sum()),
        "agreement": float((~posts.wrong[taken]).mean()) if taken.any() else None,
        "agreement_interval": _interval(~posts.wrong, taken, cluster),
    }


def _interval(hits: Bools, among: Bools, cluster: Ints) -> list[float] | None:
    return rate_interval(np.bincount(cluster, hits & among), np.bincount(cluster, among))


def _hash(posts: Decided, rows: Ints) -> str:
    return hash_of([posts.ids[at], posts.texts[at], posts.hateful[at]] for at in rows)
