"""The measures against cases worked by hand."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.result_lines import answers, line, measure, write_run
from tribunal.core.calls import REHEARSAL
from tribunal.errors import BadInput
from tribunal.eval.measures.columns import read_columns
from tribunal.eval.measures.metrics import measure_run, save_metrics
from tribunal.eval.measures.scores import MEASURES, score_intervals_of
from tribunal.schema import JSON


def test_a_fine_case_worked_by_hand(tmp_path: Path) -> None:
    # Decided: 0→0, 0→1, 1→1, 1→2, 2→2, 2→0. Then a refusal on a 1, a failure on a 0, and one that waits, on a 2.
    found = measure(tmp_path / "run", answers("001122" + "102", "011220" + "RFP"))
    assert (found["n"], found["verdicts"], found["decided"]) == (9, 6, 6)
    assert (found["refusals"], found["failures"], found["pending"]) == (1, 1, 1)
    assert found["scheme"] == "fine"
    assert found["accuracy"] == pytest.approx(3 / 6)
    # Each label: one hit, one miss, one false alarm.
    assert found["macro_f1"] == found["weighted_f1"] == pytest.approx(1 / 2)
    # Folded: 0→0, 0→1, 1→1, 1→1, 1→1, 1→0.
    assert found["precision"] == pytest.approx(3 / 4)
    assert found["recall"] == pytest.approx(3 / 4)
    assert found["f1"] == pytest.approx(3 / 4)
    errors = found["counting_errors"]
    assert errors["accuracy"] == pytest.approx(3 / 9)
    # One more miss each, and no alarm: F1 = 2 / (2 + 1 + 2).
    assert errors["macro_f1"] == errors["weighted_f1"] == pytest.approx(2 / 5)
    # Folded: two more misses, and one more false alarm on the 0.
    assert errors["precision"] == pytest.approx(3 / 5)
    assert errors["recall"] == pytest.approx(3 / 6)
    assert errors["f1"] == pytest.approx(6 / 11)


def test_confusion_and_labels(tmp_path: Path) -> None:
    found = measure(tmp_path / "run", [*answers("0011", "0110"), line("refused", 5, "refusal")])
    assert found["confusion"] == {
        "labels": [0, 1, 5],
        "names": ["NotHate", "Racist", "OtherHate"],
        "counts": [[1, 1, 0], [1, 1, 0], [0, 0, 0]],
        "refusals": [0, 0, 1],
        "failures": [0, 0, 0],
        "pending": [0, 0, 0],
    }
    found["by_label"]["1"].pop("intervals")
    assert found["by_label"]["1"] == {
        "name": "Racist", "n": 2, "refusals": 0, "failures": 0, "pending": 0, "answered": 2, "precision": 0.5,
        "recall": 0.5, "f1": 0.5,
    }  # fmt: skip
    assert found["by_label"]["5"]["recall"] is None
    assert found["by_label"]["5"]["refusals"] == 1


def test_by_difficulty_and_pattern_have_stable_names(tmp_path: Path) -> None:
    fields = {"difficulty": "Hard", "smi_pattern": "110"}
    lines = [
        line("a", 0, 0, fields=fields),
        line("b", 0, 1, fields=fields),
        line("c", 0, "refusal", fields=fields),
        line("d", 1, 1, fields={"difficulty": "Easy", "smi_pattern": "111"}),
    ]
    found = measure(tmp_path / "run", lines)
    assert list(found["by_difficulty"]) == ["Easy", "Normal", "Hard", "Normal + Hard"]
    assert list(found["by_pattern"]) == ["000", "001", "010", "011", "100", "101", "110", "111"]
    hard = found["by_difficulty"]["Hard"]
    assert (hard["n"], hard["refusals"], hard["failures"]) == (3, 1, 0)
    assert hard["accuracy"] == pytest.approx(1 / 2)
    assert hard["counting_errors"]["accuracy"] == pytest.approx(1 / 3)
    assert found["by_difficulty"]["Normal"]["n"] == 0
    assert found["by_difficulty"]["Normal"]["accuracy"] is None
    assert found["by_pattern"]["110"]["counting_errors"]["accuracy"] == pytest.approx(1 / 3)


def test_groups_of_other_sets(tmp_path: Path) -> None:
    lines = [
        line(
            "a",
            1,
            1,
            fields={"functionality": "slur_h", "targets": ["women", "migrants"], "implicit": True},
        ),
        line("b", 1, 0, fields={"functionality": "slur_h", "target": "women", "implicit": True}),
        line("c", 0, 0, fields={"functionality": "ident_nh", "target": None, "implicit": False}),
    ]
    found = measure(tmp_path / "run", lines)
    assert found["by_functionality"]["slur_h"]["accuracy"] == 0.5
    assert found["by_functionality"]["ident_nh"]["recall"] is None  # nothing there is positive
    assert {name: group["n"] for name, group in found["by_target"].items()} == {
        "women": 2,
        "migrants": 1,
    }
    assert found["by_implicit"]["true"]["recall"] == 0.5  # AntiHateAgent, Table 3


def test_a_fine_run_over_binary_gold_is_compared_as_yes_or_no(tmp_path: Path) -> None:
    found = measure(tmp_path / "run", answers("0111", "0350", gold_scheme="binary"))
    assert found["scheme"] == "binary"
    assert found["accuracy"] == 0.75
    assert found["confusion"]["names"] == ["not hate", "hate"]
    found = measure(tmp_path / "run", answers("0235", "0110", scheme="binary"))
    assert (found["scheme"], found["accuracy"]) == ("binary", 0.75)
    # its own words differ: Sexist, Homophobic, …
    assert found["confusion"]["names"] == [
        "negative",
        "positive",
    ]


def test_what_is_not_defined_is_null(tmp_path: Path) -> None:
    nothing = measure(tmp_path / "empty", [], n=10)
    assert (nothing["n"], nothing["missing"]) == (0, 10)
    assert all(
        nothing[name] is None and nothing["counting_errors"][name] is None for name in MEASURES
    )
    one_class = measure(tmp_path / "one", answers("000", "000"))
    assert (one_class["accuracy"], one_class["macro_f1"]) == (1.0, 1.0)
    assert one_class["precision"] is one_class["recall"] is one_class["f1"] is None
    never = measure(tmp_path / "never", answers("011", "000"))
    assert never["precision"] is None
    assert (never["recall"], never["f1"]) == (0.0, 0.0)
    refused = measure(tmp_path / "refused", answers("011", "RRF"))
    assert refused["accuracy"] is None
    assert refused["counting_errors"]["accuracy"] == 0.0
    unlabelled = measure(tmp_path / "unlabelled", [line("a", None, 1)])
    assert (unlabelled["n"], unlabelled["unlabelled"], unlabelled["accuracy"]) == (1, 1, None)
    for folder in ("empty", "one", "never", "refused", "unlabelled"):
        save_metrics(tmp_path / folder, measure_run(tmp_path / folder))
        text = (tmp_path / folder / "metrics.json").read_text()
        assert "NaN" not in text
        assert json.loads(text)["n"] == measure_run(tmp_path / folder)["n"]


def test_the_rehearsal_model_is_counted(tmp_path: Path) -> None:
    lines = [
        line("a", 1, 1, calls=[{"model": REHEARSAL}]),
        line("b", 1, 1, warnings=["something else"]),
    ]
    assert measure(tmp_path / "run", lines)["rehearsed"] == 1


def test_cost(tmp_path: Path) -> None:
    lines = [
        line(
            f"p{number}",
            0,
            0,
            seconds=float(number),
            usage={
                "calls": number,
                "prompt_tokens": 100,
                "completion_tokens": 10 * number,
                "seconds": 1.0,
            },
            calls=[{"cached": True}, {"cached": False}] if number == 4 else [],
        )
        for number in (1, 2, 3, 4)
    ]
    found = measure(tmp_path / "run", lines)["cost"]
    calls = {
        "total": 10,
        "mean": 2.5,
        "p50": 2.5,
        "p95": pytest.approx(3.85),
        "interval": [1.5, 3.5],
    }
    assert found["calls"] == calls
    assert found["tokens"]["total"] == 400 + 100
    assert found["seconds"]["p50"] == 2.5
    assert found["from_cache"]["total"] == 1
    assert "cached_tokens" not in found
    lines[0]["usage"]["cached_tokens"] = 64
    assert measure(tmp_path / "run", lines)["cost"]["cached_tokens"]["total"] == 64


def test_repeats(tmp_path: Path) -> None:
    # Three repeats over four posts with gold 0 0 1 1: 3, 4 and 2 of 4 right.
    lines = [
        line(f"p{post}", gold, int(given[post]), repeat=repeat)
        for repeat, given in enumerate(("0010", "0011", "0100"))
        for post, gold in enumerate((0, 0, 1, 1))
    ]
    lines[-1]["label"] = 1
    lines[-1]["hateful"] = True  # the third repeat: 0 1 0 1
    found = measure(tmp_path / "run", lines)["over_repeats"]
    assert found["repeats"] == 3
    assert found["accuracy"]["values"] == [0.75, 1.0, 0.5]
    assert found["accuracy"]["mean"] == pytest.approx(0.75)
    assert found["accuracy"]["std"] == pytest.approx(0.25)  # √((0² + 0.25² + 0.25²) / 2)
    # By post, how many say 1: 0 1 2 2. P̄ = (1 + 1/3 + 1/3 + 1/3) / 4 = 1/2; P̄e = (7² + 5²) / 12² = 74/144.
    assert found["kappa"] == pytest.approx((1 / 2 - 74 / 144) / (1 - 74 / 144))
    assert found["flip_rate"] == pytest.approx(3 / 4)


def test_a_post_that_was_refused_in_one_repeat_flips_only_where_errors_count(
    tmp_path: Path,
) -> None:
    lines = [
        line("a", 1, 1),
        line("a", 1, "refusal", repeat=1),
        line("b", 0, 0),
        line("b", 0, 0, repeat=1),
    ]
    found = measure(tmp_path / "run", [*lines, line("c", 0, 0)])["over_repeats"]
    assert (found["posts"], found["flip_rate"], found["kappa"]) == (1, 0.0, 1.0)
    assert (found["counting_errors"]["posts"], found["counting_errors"]["flip_rate"]) == (2, 0.5)
    once = measure(tmp_path / "once", [line("a", 1, 1)])["over_repeats"]
    assert once["flip_rate"] is once["kappa"] is once["accuracy"]["std"] is None


def test_kappa_over_perspectives(tmp_path: Path) -> None:
    def opinions(*stances: str) -> list[JSON]:
        return [
            {"id": agent, "stance": stance} for agent, stance in zip("AB", stances, strict=True)
        ]

    lines = [
        line("a", 1, 1, opinions=opinions("hate", "not_hate")),
        line("b", 1, 1, opinions=opinions("not_hate", "hate")),
        line("c", 1, "refusal", opinions=opinions("hate", "hate")[:1]),
    ]
    found = measure(tmp_path / "run", lines)["over_agents"]
    assert (found["agents"], found["n"]) == (["A", "B"], 2)
    assert found["kappa"] == pytest.approx(-1.0)


def test_metrics_that_cannot_be_written_are_said_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("01", "01"))
    (folder / "metrics.json").mkdir()
    with pytest.raises(BadInput, match=r"metrics\.json"):
        save_metrics(folder, measure_run(folder))


def test_a_category_that_is_not_hate_folds_to_no(tmp_path: Path) -> None:
    # Label 5 is the policy's "Harassment", which isn't hate: precision and recall count 1 alone.
    lines = [
        {**line("a", 1, 1), "hateful": True},
        {**line("b", 1, 5), "hateful": False},
        {**line("c", 0, 5), "hateful": False},
        {**line("d", 0, 1), "hateful": True},
    ]
    found = measure(tmp_path / "run", lines)
    assert (found["precision"], found["recall"], found["accuracy"]) == (0.5, 0.5, 0.25)
    assert found["binary"]["overall"]["accuracy"] == 0.5
    assert read_columns(tmp_path / "run").negative_labels == {0, 5}


@pytest.mark.parametrize("clusters", list(product(range(3), repeat=4)))
def test_every_interval_is_of_numbers_however_few_clusters_there_are(
    clusters: tuple[int, ...],
) -> None:
    """Without one cluster, kappa and correlation may be undefined: one label is left."""
    truth, answer = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    numbers = np.unique(clusters, return_inverse=True)[1]
    for name, ends in score_intervals_of(numbers, truth, answer, of_two=True).items():
        assert ends is None or np.isfinite(ends).all(), name
