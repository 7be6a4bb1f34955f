"""`tribunal cascade plan`: what it prints of small runs worked by hand, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.result_lines import line, write_run
from tribunal.commands import app

PRICES = '["openai:small"]\ninput = 1\noutput = 0\n["openai:large"]\ninput = 10\noutput = 0\n'


def run(*arguments: Any, ends: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == ends, result.output
    return result.stdout, result.stderr


def asked(model: str, times: int, *, cached: bool = False) -> dict[str, Any]:
    """What a line holds of so many calls of 1,000 tokens; answers from our own cache cost this run nothing."""
    call = {
        "id": "1", "role": "judge", "seat": "judge", "model": model, "temperature": 0.0, "prompt_sha": "0",
        "prompt_tokens": 1000, "cached": cached,
    }  # fmt: skip
    return {"calls": [call] * times, "usage": {"calls": 0 if cached else times}}


def runs(folder: Path, posts: int = 400) -> list[Path]:
    """A small model that is right wherever it is sure, on half of the posts, and wrong elsewhere; and a sure court."""
    gold = [at // 2 % 2 for at in range(posts)]
    small = [
        line(f"p{at}", truth, truth if at % 2 else 1 - truth, scheme="binary", gold_scheme="binary",
             confidence=0.95 if at % 2 else 0.6, **asked("openai:small", 1, cached=True))
        for at, truth in enumerate(gold)
    ]  # fmt: skip
    court = [
        line(
            f"p{at}",
            truth,
            truth,
            scheme="binary",
            gold_scheme="binary",
            confidence=0.9,
            **asked("openai:large", 4),
        )
        for at, truth in enumerate(gold)
    ]
    (folder / "prices.toml").write_text(PRICES)
    return [write_run(folder / "small", small), write_run(folder / "court", court)]


def test_a_plan_is_the_cheapest_order_that_holds(tmp_path: Path) -> None:
    folders = runs(tmp_path)
    given = ("--prices", tmp_path / "prices.toml", "--cost-person", 1)
    said, _ = run("cascade", "plan", *folders, *given)
    lines = said.splitlines()
    assert lines[:2] == [
        "400 posts; 200 choose the plan, 200 show that it holds",
        "plan: small → court → a person",
    ]
    assert lines[2].startswith("  1. small is asked about 100.0% of posts and decides ")
    assert lines[2].endswith(": hate from 0.95 on; no hate from 0.95 on")
    assert lines[3].endswith(": hate from 0.9 on; no hate from 0.9 on")
    assert lines[4] == "  3. a person decides 0.0%"
    assert lines[5].startswith(
        "promised: at least 95.0% of all posts agree with the gold, at level 0.9"
    )
    rows = {each.rsplit("  ", 8)[0].split("  ")[0]: each.split() for each in lines}
    # 1,000 tokens at 1 a million, and for half of the posts four times 1,000 at 10.
    half = json.loads(run("cascade", "plan", *folders, *given, "--json")[0])["plan"]["stages"][1][
        "reached"
    ]
    assert float(rows["small → court → a person"][-2]) == pytest.approx(
        0.001 + half * 0.04, abs=1e-4
    )
    assert rows["court for all"][-2:] == ["0.04", "0.04"]
    assert rows["a person for all"][-2:] == ["0", "1"]
    assert rows["small alone → a person"][1:] != []


def test_figures_are_those_of_the_posts_that_promise(tmp_path: Path) -> None:
    folders = runs(tmp_path)
    held = json.loads(run("cascade", "plan", *folders, "--json")[0])
    made = held["plan"]
    assert (held["cost_in"], held["figures_of"], held["scheme"]) == (
        "tokens",
        "promised_on",
        "binary",
    )
    assert held["chosen_on"] == held["promised_on"] == {"posts": 200, "clusters": 200}
    assert [stage["run"] for stage in made["stages"]] == ["small", "court"]
    first, second = made["stages"]
    assert first["decided"] == pytest.approx(1 - second["reached"])
    assert second["decided"] == second["reached"]
    assert (made["agreement"], made["missed_hate"], made["false_alarms"], made["people"]) == (
        1,
        0,
        0,
        0,
    )
    assert made["agreement_interval"] == pytest.approx([0.9812, 1], abs=1e-3)
    # Its answers came from the cache, and posts to come don't lie there.
    assert made["calls"] == pytest.approx(1 + 4 * second["reached"])
    assert made["tokens"] == pytest.approx(1000 + 4000 * second["reached"])
    for_all = {row["name"]: row for row in held["beside"]}
    assert for_all["small for all"]["agreement"] == pytest.approx(first["decided"])
    assert for_all["small for all"]["people"] == 0
    assert (for_all["a person for all"]["people"], for_all["a person for all"]["calls"]) == (1, 0)


def test_too_few_posts_are_said_to_be(tmp_path: Path) -> None:
    folders = runs(tmp_path, 60)
    said, wrong = run("cascade", "plan", *folders, ends=1)
    assert "plan: " not in said
    assert "figures of the 30 posts that choose, which promise nothing" in said
    assert wrong.splitlines() == [
        "tribunal: no plan is shown to hold an agreement of 0.95 at level 0.9 with these 60 labelled posts; of the "
        "posts that choose, the surest plan has 0.0% wrong: it takes at least 102 without one error; give more posts, "
        "or a lower agreement or level"
    ]
    out, _ = run("cascade", "plan", *folders, "--json", ends=1)
    held = json.loads(out)
    assert (held["plan"], held["needed"]["least"], held["promise"]["attempt"]) == (None, 102, 1)
    # Another agreement is another try on the same results.
    held = json.loads(run("cascade", "plan", *folders, "--agreement", 0.94, "--json", ends=1)[0])
    assert held["promise"]["attempt"] == 2
    assert held["promise"]["error"] == pytest.approx(0.1 * 0.75 * 0.25)


def test_models_that_are_too_often_wrong_make_no_plan(tmp_path: Path) -> None:
    [_, court] = runs(tmp_path)
    wrong = [
        line(
            f"p{at}",
            at % 2,
            (at + (at % 5 > 3)) % 2,
            scheme="binary",
            gold_scheme="binary",
            confidence=0.9,
        )
        for at in range(400)
    ]
    write_run(court, wrong)
    _, said = run("cascade", "plan", court, "--of", "models", ends=1)
    assert "so more posts would not help: give a lower agreement or better models" in said


def test_near_copies_count_once(tmp_path: Path) -> None:
    folders = runs(tmp_path)
    for folder in folders:
        held = [json.loads(each) for each in (folder / "results.jsonl").read_text().splitlines()]
        write_run(folder, [{**each, "fields": {"thread": at // 8}} for at, each in enumerate(held)])
    said, wrong = run("cascade", "plan", *folders, "--cluster", "thread", ends=1)
    assert (
        "400 posts, which count as 50 (clusters by thread); 200 (counted as 25) choose the plan"
        in said
    )
    assert "no plan is shown" in wrong


def test_what_goes_wrong_is_one_line(tmp_path: Path) -> None:
    small, court = runs(tmp_path)
    other = write_run(
        tmp_path / "other", [line("p0", 1, 1, confidence=0.9), line("p1", 0, 0, confidence=0.9)]
    )
    told = write_run(tmp_path / "told", [line("p0", 1, 1, rehearsed=True)])
    bare = write_run(tmp_path / "bare", [line("q0", None, 1)])
    for given, why in (
        ((tmp_path,), "not the folder of a run"),
        ((small, small), "a run is given twice"),
        ((small, court, "--agreement", 95), "agreement: 95.0 is not between 0 and 1"),
        ((small, court, "--cost-person", 1), "give --prices FILE"),
        ((small, court, "--cost-person", -1), "cost_person: -1.0 is no cost"),
        ((small, court, "--person-accuracy", 2), "person_accuracy: 2.0"),
        ((small, other), "is not over the same data set and gold as"),
        ((told,), "the rehearsal model took part in 1 of 1 results"),
        ((bare,), "0 labelled posts"),
        ((small, court, "--cluster", "author"), "no post of"),
    ):
        out, said = run("cascade", "plan", *given, ends=2)
        assert out == ""
        assert why in said
        assert len(said.strip().splitlines()) == 1
    assert not (small / "plans.jsonl").exists()
