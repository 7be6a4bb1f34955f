"""The fitted threshold: that its promise holds, what it covers, and what is said where there is none."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from tests.eval.measures.simulated_fits import (
    FALSE,
    FOUND,
    false_alarm,
    false_fit,
    found_on,
    sample,
)
from tests.result_lines import line, write_run
from tribunal.errors import BadInput
from tribunal.eval.measures.calibration import calibration_map
from tribunal.eval.measures.fit import fit_threshold
from tribunal.eval.measures.risk_control import (
    GRID,
    STARTS,
    AgreementPromise,
    LabelledPosts,
    error_of_attempt,
    find_acceptance_rule,
    least_posts_needed,
    split_error,
)
from tribunal.nodes.threshold import estimate_probability


@pytest.mark.parametrize("world", FALSE, ids=[world.name for world in FALSE])
@pytest.mark.parametrize("copies", [1, 7])
def test_the_agreement_is_missed_no_more_often_than_stated(world: Any, copies: int) -> None:
    random = np.random.default_rng(5)
    fits = 200
    missed = sum(false_fit(world, 700, copies, random) for _ in range(fits))
    assert missed / fits <= 0.1


def test_a_rare_verdict_is_promised_for_by_itself() -> None:
    random = np.random.default_rng(5)
    assert np.mean([false_alarm(4_000, random) for _ in range(200)]) <= 0.1


def test_a_true_agreement_is_mostly_found() -> None:
    random = np.random.default_rng(5)
    found = [
        found_on(*sample(FOUND[0], 400, 1, random), AgreementPromise()).hateful is not None
        for _ in range(200)
    ]
    assert np.mean(found) > 0.8


def test_a_threshold_is_accepted_just_where_the_exact_bound_is_low_enough() -> None:
    """One begins at 0.9 with five twelfths of the error; nothing reaches those above it, and 0.8 is like it."""
    error = 0.1
    for wrong in range(12):
        posts = LabelledPosts(
            np.full(300, 0.9), *(np.ones(300, dtype=bool),) * 2, *(np.arange(300) < wrong,) * 2
        )  # fmt: skip
        _, bound = proportion_confint(wrong, 300, alpha=2 * error * STARTS[0.9], method="beta")
        # Each later beginning adds its part, as long as all before it were rejected; else it has its own.
        later = binom.cdf(wrong, 300, 0.05) <= error * max(STARTS[0.7], STARTS[0.5])
        assert (find_acceptance_rule(posts, AgreementPromise(), error).hateful == 0.9) is bool(
            bound <= 0.05
        ), wrong
        assert (find_acceptance_rule(posts, AgreementPromise(), error).hateful is None) is not (
            bound <= 0.05 or later
        )


def test_the_error_is_whole_over_all_beginnings() -> None:
    assert sum(STARTS.values()) == pytest.approx(1)
    assert set(STARTS) <= set(GRID.tolist())
    assert sum(error_of_attempt(number, 0.9) for number in range(1, 60)) == pytest.approx(0.1)
    assert split_error(bare=500, stated=500, bound=0.05, error=0.1) == pytest.approx((0.025, 0.075))
    # so few could show nothing
    assert split_error(bare=20, stated=500, bound=0.05, error=0.1) == (
        0.0,
        0.1,
    )


def run_of(folder: Path, *lines: dict[str, Any], **run: Any) -> Path:
    return write_run(folder, lines, **run)


def certain(
    count: int, share_right: float, confidence: float | None, name: str = "p"
) -> list[dict[str, Any]]:
    """Verdicts of which just this share is right."""
    wrong = round(count * (1 - share_right))
    return [line(f"{name}{at}", 1, int(at >= wrong), confidence=confidence) for at in range(count)]


def test_a_threshold_is_found_where_there_is_one(tmp_path: Path) -> None:
    lines = [*certain(700, 0.99, 0.9), *certain(300, 0.6, 0.4, "q")]
    folder = run_of(
        tmp_path / "my-run",
        *lines,
        settings={"model": "openai:small", "judge_model": "openai:large", "rounds": 2},
        policy={"name": "h-vli", "sha": "c" * 64},
        data={"name": "h-vli", "split": "test", "sha256": "d" * 64},
    )
    found = fit_threshold(folder)
    assert (found.threshold, found.coverage, found.without_confidence) == (0.9, 0.7, ())
    assert found.agreement_seen == pytest.approx(0.99)
    assert found.coverage_cross_validated == pytest.approx(0.7)
    assert found.agreement_cross_validated == pytest.approx(0.99)
    assert found.coverage_interval == pytest.approx(proportion_confint(700, 1000, method="wilson"))
    assert (found.n_fit, found.clusters) == (1000, {"by": "post", "n": 1000, "largest": 1})
    assert (found.graph, found.scheme, found.policy) == ("arcade", "fine", "c" * 64)
    assert found.models == {"model": "openai:small", "judge_model": "openai:large"}
    assert (found.fitted_from, found.dataset, found.split, found.data_sha256) == (
        "my-run",
        "h-vli",
        "test",
        "d" * 64,
    )
    assert found.warnings == ()
    # In another order they are the same results, and this is the same fit.
    assert fit_threshold(run_of(folder, *lines[::-1])).attempt == 1


def test_dismissals_are_accepted_only_where_that_is_shown(tmp_path: Path) -> None:
    """Two thirds of the posts are dismissed without a confidence."""
    sure = certain(400, 0.99, 0.9)
    # 98.75 % right
    good = [line(f"d{at}", int(at < 10), 0, track="dismissed") for at in range(800)]
    bad = [line(f"d{at}", int(at < 80), 0, track="dismissed") for at in range(800)]  # 90 %
    shown, unshown = (
        fit_threshold(run_of(tmp_path / name, *sure, *held))
        for name, held in (("good", good), ("bad", bad))
    )
    assert (shown.threshold, shown.without_confidence, shown.coverage) == (
        0.9,
        ("hateful", "harmless"),
        1.0,
    )
    assert (unshown.threshold, unshown.without_confidence) == (0.9, ())
    assert unshown.coverage == pytest.approx(1 / 3)
    assert shown.accepts("harmless", None)
    assert not unshown.accepts("harmless", None)


def test_each_verdict_has_its_own_threshold_where_missed_hate_is_capped(tmp_path: Path) -> None:
    # 10 % false alarms
    hate = [line(f"h{at}", int(at >= 40), 1, confidence=0.9) for at in range(400)]
    none = [line(f"n{at}", int(at < 1), 0, confidence=0.7) for at in range(600)]  # one missed
    bare = [line(f"d{at}", int(at < 30), 0) for at in range(600)]  # 5 % missed
    folder = run_of(tmp_path / "run", *hate, *none, *bare)
    found = fit_threshold(folder, agreement=0.85, missed_hate=0.02)
    assert found.threshold is None
    assert found.by_verdict is not None
    assert (found.by_verdict.hateful, found.by_verdict.harmless) == (0.9, 0.7)
    assert found.without_confidence == ()
    assert (found.accepts("harmless", 0.75), found.accepts("hateful", 0.75)) == (True, False)
    assert found.missed_hate_seen == pytest.approx(1 / 600)
    assert found.false_alarms_seen == pytest.approx(0.1)
    more = fit_threshold(folder, agreement=0.85, missed_hate=0.1, false_alarms=0.02)
    assert more.by_verdict is not None
    assert (more.by_verdict.hateful, more.by_verdict.harmless, more.without_confidence) == (
        None,
        0.7,
        ("harmless",),
    )


def test_posts_of_a_cluster_count_once(tmp_path: Path) -> None:
    """Thirty templates of ten posts each: as posts they would show 0.95, and as thirty they can't."""
    lines = [
        line(f"p{at}", 1, 1, confidence=0.9, fields={"template": at // 10}) for at in range(300)
    ]
    folder = run_of(tmp_path / "run", *lines)
    with pytest.raises(
        BadInput, match=r"with these 300 posts, which count as 30 \(clusters by template\)"
    ):
        fit_threshold(folder, cluster="template")
    found = fit_threshold(folder, cluster="post")
    assert (found.threshold, found.attempt) == (0.9, 2)
    with pytest.raises(BadInput, match=r"no post of .* has such a field"):
        fit_threshold(folder, cluster="thread")


def test_each_further_try_is_counted_and_tested_more_strictly(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *certain(400, 0.97, 0.9))
    found: list[tuple[float, int]] = []
    for agreement in (0.99, 0.98, 0.945, 0.94, 0.99, 0.9):
        with suppress(BadInput):
            made = fit_threshold(folder, agreement=agreement)
            assert made.error == pytest.approx(0.075 / 4 ** (made.attempt - 1))
            found.append((agreement, made.attempt))
    assert found == [(0.9, 5)]
    asked = [json.loads(each)["asked"] for each in (folder / "fits.jsonl").read_text().splitlines()]
    assert [each["agreement"] for each in asked] == [0.99, 0.98, 0.945, 0.94, 0.9]
    # The same results where nothing was tried before.
    (folder / "fits.jsonl").unlink()
    assert fit_threshold(folder, agreement=0.94).attempt == 1
    (folder / "fits.jsonl").write_text("not ours\n")
    with pytest.raises(BadInput, match="every fit is counted there"):
        fit_threshold(folder)


def test_the_probability_of_hate_is_calibrated_by_what_the_gold_says(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    # by verdict and confidence
    hate = {
        (1, 0.9): 0.95,
        (1, 0.6): 0.7,
        (0, 0.9): 0.05,
        (0, 0.6): 0.2,
        (0, None): 0.1,
    }
    lines = []
    for number in range(5000):
        verdict, stated = list(hate)[int(random.integers(len(hate)))]
        gold = int(random.random() < hate[verdict, stated])
        lines.append(line(f"p{number}", gold, verdict, confidence=stated))
    found = fit_threshold(write_run(tmp_path / "run", lines), agreement=0.8, level=0.9)
    assert [at for at, _ in found.hate_by_confidence] == [-0.9, -0.6, 0.6, 0.9]
    assert [share for _, share in found.hate_by_confidence] == pytest.approx(
        [0.05, 0.2, 0.7, 0.95], abs=0.04
    )
    assert found.hate_without_confidence.harmless == pytest.approx(0.1, abs=0.04)
    assert found.hate_without_confidence.hateful is None
    assert estimate_probability(False, None, found) == (
        found.hate_without_confidence.harmless,
        "calibrated",
    )


def test_a_confidence_is_calibrated_by_what_was_right(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    lines = []
    for number in range(4000):
        stated = float(random.choice([0.5, 0.7, 0.8, 1.0]))
        # 0.7 and 0.8 are the wrong way round
        truly = {0.5: 0.6, 0.7: 0.9, 0.8: 0.8, 1.0: 0.97}[stated]
        lines.append(line(f"p{number}", 1, int(random.random() < truly), confidence=stated))
    found = fit_threshold(write_run(tmp_path / "run", lines), agreement=0.8, level=0.9)
    assert [at for at, _ in found.calibration] == [0.5, 0.7, 0.8, 1.0]
    assert [share for _, share in found.calibration] == pytest.approx(
        [0.6, 0.85, 0.85, 0.97], abs=0.04
    )
    assert found.calibrated(0.7) == found.calibrated(0.8) == found.calibrated(0.75)
    assert (found.calibrated(0.1), found.calibrated(1.0)) == (
        found.calibration[0][1],
        found.calibration[-1][1],
    )
    assert found.ece is not None
    assert found.ece_calibrated is not None
    assert found.ece_calibrated < found.ece
    assert found.ece == pytest.approx((0.1 + 0.2 + 0.0 + 0.03) / 4, abs=0.03)


def test_the_map_is_scikit_learns() -> None:
    from sklearn.isotonic import IsotonicRegression

    random = np.random.default_rng(3)
    confidence = random.beta(4, 2, 300)
    right = random.random(300) < confidence**2
    points = calibration_map(confidence, right)
    theirs = IsotonicRegression(y_min=1 / 302, y_max=301 / 302, out_of_bounds="clip").fit(
        confidence, right
    )
    stated = [at for at, _ in points]
    assert [share for _, share in points] == pytest.approx(theirs.predict(stated), abs=1e-6)
    between = np.linspace(0, 1, 500)
    assert np.interp(between, stated, [share for _, share in points]) == pytest.approx(
        theirs.predict(between), abs=1e-6
    )


def test_few_verdicts_are_no_proof_of_certainty() -> None:
    assert calibration_map(np.array([0.9, 0.9, 1.0]), np.array([False, False, True])) == (
        (0.9, 0.2),
        (1.0, 0.8),
    )
    assert calibration_map(np.array([]), np.array([], dtype=bool)) == ()


def test_posts_without_a_verdict_are_never_accepted_and_lower_the_coverage(tmp_path: Path) -> None:
    lines = [
        *(line(f"p{i}", 1, 1, confidence=0.9) for i in range(300)),
        *(line(f"r{i}", 1, "refusal", confidence=0.99) for i in range(100)),
        *(line(f"f{i}", 1, "failure") for i in range(100)),
        # a person's anyway
        *(line(f"t{i}", 1, 0, confidence=0.95, tie=True, uncertain=True) for i in range(100)),
        *(line(f"u{i}", None, 0, confidence=0.95) for i in range(100)),  # with no gold
    ]
    found = fit_threshold(write_run(tmp_path / "run", lines))
    assert (found.threshold, found.agreement_seen, found.coverage, found.n_fit) == (
        0.9,
        1.0,
        0.5,
        600,
    )


def test_repeats_add_no_posts(tmp_path: Path) -> None:
    once = [line(f"p{i}", 1, 1, confidence=0.9) for i in range(60)]
    repeated = [
        line(f"p{i}", 1, 1, confidence=0.9, repeat=repeat) for i in range(60) for repeat in range(5)
    ]
    for lines in (once, repeated):
        with pytest.raises(
            BadInput, match=r"with these 60 posts; it takes at least 68 accepted posts"
        ):
            fit_threshold(write_run(tmp_path / "run", lines), agreement=0.95, level=0.9)


@pytest.mark.parametrize(
    ("agreement", "level", "errors", "posts"),
    [(0.95, 0.9, 0, 45), (0.9, 0.95, 0, 29), (0.95, 0.9, 1, 77), (0.95, 0.9, 3, 132)],
)
def test_how_many_posts_it_takes(agreement: float, level: float, errors: int, posts: int) -> None:
    # Of the first two: ln(1 - level) / ln(agreement), rounded up.
    assert least_posts_needed(1 - agreement, 1 - level, errors) == posts


def test_runs_that_give_nothing_to_fit(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="0 labelled posts"):
        fit_threshold(write_run(tmp_path / "empty", []))
    with pytest.raises(BadInput, match="states a confidence"):
        fit_threshold(write_run(tmp_path / "silent", [line(f"p{i}", 1, 1) for i in range(10)]))


def test_what_posts_to_come_may_differ_in_is_said(tmp_path: Path) -> None:
    lines = certain(200, 1.0, 0.9)
    run = {
        "n": 900, "data": {"split": "train"}, "sampling": {"order": "as in the files", "balance": "label"},
    }  # fmt: skip
    said = fit_threshold(run_of(tmp_path / "run", *lines, **run)).warnings
    assert [each.split(":")[0].partition(",")[0] for each in said] == [
        "the posts are the split train of h-vli", "the posts were balanced (label)",
        "the run isn't finished (200 of 900 posts",
    ]  # fmt: skip
    assert "the first ones of their files" in said[-1]
    assert json.loads((tmp_path / "run" / "fits.jsonl").read_text())["asked"] == {
        "agreement": 0.95, "level": 0.9, "cluster": "post",
    }  # fmt: skip
