"""What a debate changes: cases worked by hand for each system, and rates that are known over 300 posts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from tests.result_lines import line, measure, write_run
from tribunal.eval.report import write_report
from tribunal.schema import JSON

POSTS, AGENTS = 300, 5
CALL = {
    "role": "r",
    "model": "openai:m",
    "temperature": 0.0,
    "prompt_sha": "f" * 64,
    "completion_tokens": 5,
}


def said(seat: str, round: int, stance: str | None, stage: str = "answer", **more: Any) -> JSON:
    """A turn of the transcript."""
    return {
        "id": f"{seat}/{round}/{stage}",
        "seat": seat,
        "stage": stage,
        "round": round,
        "stance": stance,
        **more,
    }


def call(seat: str, tokens: int, number: int = 0) -> JSON:
    return {**CALL, "id": f"{seat}{number}", "seat": seat, "prompt_tokens": tokens - 5}


def about(cue: str, stance: str) -> JSON:
    return {"cue_id": cue, "target_group": "x", "claim": "y", "stance": stance, "argument": "z"}


def test_a_debate_of_equals_worked_by_hand(tmp_path: Path) -> None:
    """Of three agents two are right on p0; one of them joins the third and comes back; p1 is lost by the vote."""
    first = [("a", 1, "YES"), ("b", 1, "YES"), ("c", 1, "NO"), ("a", 2, "NO"), ("b", 2, "YES"), ("c", 2, "NO"),
             ("a", 3, "YES"), ("b", 3, "YES"), ("c", 3, "YES")]  # fmt: skip
    second = [
        ("a", 1, "NO"),
        ("b", 1, "NO"),
        ("c", 1, "YES"),
        ("a", 2, "NO"),
        ("b", 2, "NO"),
        ("c", 2, "NO"),
    ]
    lines = [
        line("p0", 1, 1, gold_scheme="binary", scheme="binary", transcript=[said(*each) for each in first],
             calls=[call(seat, 10 * number, number) for seat, number, _ in first]),
        line("p1", 1, 0, gold_scheme="binary", scheme="binary", transcript=[said(*each) for each in second],
             calls=[*(call(seat, 10 * number, number) for seat, number, _ in second), call("judge", 50)]),
    ]  # fmt: skip
    found = measure(tmp_path / "run", lines)["debate"]
    assert found["n"] == 2
    counted = {name: (each["value"], each["n"]) for name, each in found["answers"].items()}
    assert counted == {
        "first": (0.5, 6), "last": (0.5, 6), "turned_wrong": (1 / 3, 3), "turned_right": (1 / 3, 3), "back": (0.5, 2),
    }  # fmt: skip
    # Against the majority: c in round 1 of both, b in round 2 of p0. Only c of p1 joins it, and leaves the truth.
    assert (found["conformity"]["value"], found["conformity"]["n"]) == (1 / 3, 3)
    assert (found["conformed_to_wrong"]["value"], found["conformed_to_wrong"]["n"]) == (1.0, 1)
    assert [found[name]["value"] for name in ("first_majority", "verdict", "oracle")] == [
        0.5,
        0.5,
        1.0,
    ]
    assert (found["change"]["difference"], found["oracle_gap"]["difference"]) == (0.0, 0.5)
    stages = [
        (each["round"], each["right"]["value"], each["to_wrong"]["value"])
        for each in found["stages"]
    ]
    assert stages == [(1, 0.5, None), (2, 1 / 6, 2 / 6), (3, 1.0, 0.0)]
    costs = [
        (each["round"], each["posts"], each["calls"], each["tokens"]) for each in found["costs"]
    ]
    assert costs == [(1, 2, 3.0, 30.0), (2, 2, 3.0, 60.0), (3, 1, 1.5, 45.0), (None, 1, 0.5, 25.0)]


@pytest.mark.parametrize(
    ("record", "seat", "assigned", "rights"),
    [
        ({"transcript": [said("defender", 1, None, "rebuttal", arguments=[about("C1", "concede")])]},
         "defender", True, (0, 1)),
        ({"transcript": [said("defender", 1, None, "rebuttal", arguments=[about("C1", "refute")])]},
         "defender", True, (0, 0)),
        ({"transcript": [said("prosecutor", 1, None, "investigation")]}, "prosecutor", True, (1, 0)),
        ({"transcript": [said("prosecutor", 2, None, "argument", arguments=[about("C1", "press")])]},
         "prosecutor", True, (1, 1)),
        ({"transcript": [said("debater:not_hate", 1, None, "opening"),
                         said("debater:not_hate", 2, "agree", "response")]}, "debater:not_hate", True, (0, 1)),
        ({"transcript": [said("debater:hate", 2, "rebut", "response")]}, "debater:hate", True, (1, 1)),
        ({"transcript": [said("view:deep", 1, "NO"), said("view:deep", 1, "YES", "revision")]},
         "view:deep", False, (0, 1)),
        ({"transcript": [said("classifier", 0, "NotHate"), {**said("classifier", 0, "Sexist"), "id": "2"}]},
         "classifier 2", False, (1, 1)),
        ({"opinions": [{"id": "x", "title": "X", "language": "en", "stance": "hate", "label_name": "L",
                        "reason": "R"}]}, "perspective:x", False, (1, 1)),
    ],
)  # fmt: skip
def test_positions_of_each_system(
    tmp_path: Path, record: dict[str, Any], seat: str, assigned: bool, rights: tuple[int, int]
) -> None:
    found = measure(tmp_path / "run", [line("p", 1, 1, **record)])["debate"]
    track = found["seats"][seat]
    assert (track["assigned"], track["first"]["value"], track["last"]["value"]) == (
        assigned,
        *rights,
    )
    assert found["oracle"]["n"] == int(not assigned), "an assigned side is no answer"


def test_without_a_label_or_a_turn_there_is_nothing(tmp_path: Path) -> None:
    lines = [
        line("a", None, 1, transcript=[said("agent:1", 1, "YES")]),
        line("b", 1, 1),
        line("c", 1, "failure"),
    ]
    found = measure(tmp_path / "run", lines)["debate"]
    assert (found["n"], found["seats"], found["change"]["difference"]) == (0, {}, None)


RIGHT = (0.9, 0.55)  # an agent's first answer, on easy and hard posts
JOINS, STRAYS, SPOILT = 0.6, 0.05, 0.2


def true_effects() -> dict[str, float]:
    """The effects of the simulated debate, by counting how many of five agents are right at first."""
    sums = dict.fromkeys(("right", "to_wrong", "majority", "after", "pool"), 0.0)
    for share in RIGHT:
        for right in range(AGENTS + 1):
            chance = float(binom.pmf(right, AGENTS, share)) / len(RIGHT)
            wrong, won = AGENTS - right, 2 * right > AGENTS
            leave, come = (STRAYS, JOINS) if won else (JOINS, STRAYS)
            after = sum(
                float(binom.pmf(stay, right, 1 - leave) * binom.pmf(new, wrong, come))
                for stay in range(right + 1)
                for new in range(wrong + 1)
                if 2 * (stay + new) > AGENTS
            )
            nobody = float(binom.pmf(0, AGENTS, STRAYS)) if not right else 0.0
            for name, value in (
                ("right", right / AGENTS), ("to_wrong", leave * right / AGENTS), ("majority", won), ("after", after),
                ("pool", 1 - nobody),
            ):  # fmt: skip
                sums[name] += chance * value
    verdict = sums["after"] * (1 - SPOILT) + (1 - sums["after"]) * SPOILT
    return {
        "first": sums["right"], "turned_wrong": sums["to_wrong"] / sums["right"], "conformity": JOINS,
        "first_majority": sums["majority"], "verdict": verdict, "oracle": sums["pool"],
        "change": verdict - sums["majority"], "oracle_gap": sums["pool"] - verdict,
    }  # fmt: skip


def simulate_debates(seed: int) -> list[JSON]:
    """The results of 300 posts: agents join the majority at a known rate, and the verdict spoils some answers."""
    draws, lines = random.Random(seed), []
    for number in range(POSTS):
        gold = number % 2
        names = ("YES", "NO") if gold else ("NO", "YES")  # right, wrong
        first = [draws.random() < RIGHT[number % 4 // 2] for _ in range(AGENTS)]
        won = 2 * sum(first) > AGENTS
        second = [held != (draws.random() < (STRAYS if held == won else JOINS)) for held in first]
        turns = [
            said(f"agent:{seat}", round, names[not held])
            for round, answers in ((1, first), (2, second))
            for seat, held in enumerate(answers)
        ]
        is_right = (2 * sum(second) > AGENTS) != (draws.random() < SPOILT)
        verdict = gold if is_right else 1 - gold
        lines.append(
            line(
                f"p{number}", gold, verdict, gold_scheme="binary", scheme="binary", transcript=turns
            )
        )
    return lines


def test_known_effects_are_recovered_and_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "debate", simulate_debates(seed=11))
    page, text, *_ = write_report([run], tmp_path / "out")
    found = json.loads((tmp_path / "out" / "report.json").read_text())["runs"][0]["measured"][
        "debate"
    ]
    for name, true in true_effects().items():
        each = found["answers"].get(name) or found[name]
        low, high = each["interval"]
        assert low < true < high, (name, true, low, high)
        assert high - low < 0.2, name
    assert found["change"]["p"] < 0.05, "the verdict is worse than the first vote"
    assert found["change"]["difference"] < 0
    low, high = found["conformity"]["interval"]
    shown = f"{100 * found['conformity']['value']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
    assert shown in text.read_text()
    assert "Does the debate help?" in page.read_text()
