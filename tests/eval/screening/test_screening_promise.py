"""Test that a screening classifier keeps its promise in simulated worlds of known truth, and that its audit notices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bench.screening import WORLDS, Vocabulary, World, outcomes, sample, switched_off_after
from tribunal.eval.screening.fit import ScreenerPromise, fit_screener, save_screener, split_posts
from tribunal.eval.screening.learning import STRENGTH, feature_matrix
from tribunal.retrievers.screening.audit import betting_score
from tribunal.retrievers.screening.screener import hash_features, open_screener


@pytest.mark.long
def test_a_promise_is_made_and_kept() -> None:
    """The bench has 500 fits of each world; here are a few."""
    easy = WORLDS[0]._replace(sharp=9.0, pool=1_000)
    rare = WORLDS[4]._replace(n=1_500, sharp=9.0, shift=-20.0, pool=1_000)
    done = [*outcomes(easy, 2, seed=0), *outcomes(rare, 1, seed=0)]
    assert all(each.found for each in done)
    assert not any(each.broken for each in done)


def test_what_is_learnt_by_heart_promises_nothing() -> None:
    """Labels by chance, the same for five copies: a copy on either side of the split would make them look told."""
    by_heart = World("by heart", 800, copies=5, sharp=0.0, pool=10)
    assert [each.found for each in outcomes(by_heart, 2, seed=3)] == [False] * 2


def test_a_promise_that_is_false_by_a_hair_is_seldom_made() -> None:
    """Words tell nothing and 10.5 % are hate, so that no threshold keeps 10 %."""
    hair = World("by a hair", 500, ScreenerPromise(0.1, 0.1), sharp=0.0, shift=float(np.log(0.105 / 0.895)), pool=10)
    assert sum(each.found for each in outcomes(hair, 4, seed=4)) <= 1


def test_copies_stay_on_one_side_of_the_split() -> None:
    cluster = np.repeat(np.arange(40), 5)
    for hold_out, learnt, tested, held_out in ((0, 120, 80, 0), (0.3, 80, 60, 60)):
        parts = split_posts([f"p{at}" for at in range(200)], cluster, hold_out)
        assert sorted(parts.order.tolist()) == list(range(200))
        rows = [parts.learnt_from, parts.tested, parts.held_out]
        assert [int(each.sum()) for each in rows] == [learnt, tested, held_out]
        assert sum(len({*cluster[each]}) for each in rows) == 40


def test_a_look_says_what_the_regression_says_that_was_fitted(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    world = WORLDS[0]._replace(n=900, sharp=20.0, pool=10)
    vocabulary = Vocabulary.drawn(world, random)
    posts = sample(world, vocabulary, random)
    made = fit_screener(posts, world.promise, tmp_path / "fits.jsonl")
    sha = save_screener(made, tmp_path / "model")
    look = open_screener(str(tmp_path / "model"))
    assert look.sha == sha
    rows = np.flatnonzero(split_posts(posts.ids, np.arange(len(posts.ids))).learnt_from).tolist()
    matrix = feature_matrix([posts.texts[at] for at in rows])[:, made.arrays.known]
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    theirs = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0)
    theirs.fit(matrix, np.array(posts.hateful)[rows])
    for text in posts.texts[:40]:
        raw = theirs.decision_function(feature_matrix([text])[:, made.arrays.known])[0]
        wanted = 1 / (1 + np.exp(-(look.manifest.slope * raw + look.manifest.intercept)))
        share = float(np.isin(np.unique(hash_features(text)[0]), made.arrays.known).mean())
        assert look.probability_of_hate(text) == pytest.approx((wanted, share), abs=1e-6)


def test_features_overlook_what_copies_differ_in() -> None:
    one, other = (
        hash_features("Hello  WORLD, see https://a.example/1 @you"),
        hash_features("hello world, see www.b.example"),
    )
    assert [each.tolist() for each in one] == [each.tolist() for each in other]
    values = hash_features("hello world")[1]
    assert np.square(values).sum() == pytest.approx(2)  # runs of characters and words, each of length 1
    assert (len(hash_features(" ")[0]), len(hash_features("!?")[0])) == (0, 0)


def test_the_capital_is_a_fair_bet() -> None:
    """Under the promise, what is expected after one more post is what there is."""
    for n, wrong in ((0, 0), (10, 3), (200, 2)):
        after = 0.05 * betting_score(n + 1, wrong + 1, 0.05) + 0.95 * betting_score(n + 1, wrong, 0.05)
        assert after == pytest.approx(betting_score(n, wrong, 0.05))
    assert betting_score(800, 800, 0.01) > 1e300  # and no overflow


def test_an_audit_switches_off_what_breaks_its_promise_and_seldom_what_keeps_it() -> None:
    random = np.random.default_rng(7)
    kept = [switched_off_after(np.full(400, 0.05), 0.05, 0.9, random) for _ in range(60)]
    assert sum(each is not None for each in kept) <= 6
    drifting = np.r_[np.full(200, 0.03), np.full(400, 0.25)]
    ends = [switched_off_after(drifting, 0.05, 0.9, random) for _ in range(20)]
    assert all(each is not None and 200 < each < 400 for each in ends)
