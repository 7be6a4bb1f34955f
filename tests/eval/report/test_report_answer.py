"""A report begins with the answer: which of two noisy runs is better, by how much, and whether by more than chance."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.eval.report.test_report import Page
from tests.result_lines import line, write_run
from tribunal.eval.report import write_report

POSTS = 300


def noisy(
    folder: Path, accuracy: float, seed: int, refused: float = 0.0, tokens: int = 300
) -> Path:
    """A run that is right on a post with this chance, so that its true macro-F1 is this accuracy."""
    chance = random.Random(seed)
    usage = {"calls": 1, "prompt_tokens": tokens}
    rows = []
    for number in range(POSTS):
        gold = number % 2
        answer: int | str = gold if chance.random() < accuracy else 1 - gold
        if chance.random() < refused:
            answer = "refusal"
        rows.append(line(f"p{number}", gold, answer, usage=usage))
    return write_run(folder, rows)


def report(tmp_path: Path, *runs: Path) -> tuple[Page, str, str, dict[str, Any]]:
    files = write_report(runs, tmp_path / "out")
    page, text, latex, figures = (path.read_text("utf-8") for path in files[:4])
    return Page(page), text, latex, json.loads(figures)


@pytest.mark.parametrize("accuracy", [0.90, 0.75], ids=["far apart", "equal"])
def test_the_first_sentence_the_picture_and_the_tables(tmp_path: Path, accuracy: float) -> None:
    strong, weak = (
        noisy(tmp_path / "strong", accuracy, 1, 0.02, 900),
        noisy(tmp_path / "weak", 0.75, 2),
    )
    page, text, latex, figures = report(tmp_path, weak, strong)
    [sentence] = figures["answer"]
    [pair] = figures["pairs"]
    macro = pair["differences"]["macro_f1"]
    low, high = macro["interval"]
    assert low < accuracy - 0.75 < high
    differs = accuracy > 0.75
    assert (macro["p_holm"] < 0.05) is differs
    assert sentence.startswith("strong is better than weak by ") is differs
    assert ("can't be told from" in sentence) is not differs
    for fact in (
        f"{100 * abs(macro['difference']):.1f} points",
        f"{pair['n']} posts that both decided",
        "600 tokens",
    ):
        assert fact in sentence
    assert f"{POSTS - pair['n']} posts drop out" in sentence
    refusals = figures["runs"][1]["measured"]["refusals"]
    assert f"{refusals} of {POSTS} results are refusals: " in page.seen
    for shown in (page.seen, text.replace("&#39;", "'"), latex):
        assert sentence.split(":")[0].split("(")[0].strip() in " ".join(shown.split())
    assert page.seen.index(sentence) < page.seen.index("results are refusals")
    picture = next(
        at
        for at, (tag, given) in enumerate(page.elements)
        if given.get("class") == "answer" and tag != "p"
    )
    table = next(at for at, (tag, _) in enumerate(page.elements) if tag == "table")
    drawn = [
        given.get("class")
        for tag, given in page.elements[picture:table]
        if tag in ("circle", "line")
    ]
    assert drawn.count("fill") == drawn.count("spread") == 2
    assert drawn.count("guide") == 2, "always hate and never hate"
    assert len(page.tables[0][0]) <= 10
    rows = [row.count("|") - 1 for row in text.splitlines() if row.startswith("|")]
    assert 0 < max(rows) <= 14
    columns = [len(found) for found in re.findall(r"\\begin\{tabular\}\{(\w+)\}", latex)]
    assert 0 < max(columns) <= 14
    first = next(row for row in text.splitlines() if row.startswith("| run |"))
    assert first.count("|") - 1 <= 10


def test_no_table_contradicts_the_paired_test(tmp_path: Path) -> None:
    runs = [
        noisy(tmp_path / f"r{at}", 0.72 + 0.06 * at, at, tokens=100 * (at + 1)) for at in range(4)
    ]
    _, _, _, figures = report(tmp_path, *runs)
    [front] = figures["fronts"]
    for pair, sentence in zip(figures["pairs"], figures["answer"], strict=False):
        first, second = pair["places"]
        for name in ("accuracy", "macro_f1"):
            alike = pair["differences"][name]["p_holm"] >= 0.05
            assert (second + 1 in front["runs"][first]["rivals"][name]) is alike
            assert (first + 1 in front["runs"][second]["rivals"][name]) is alike
        assert ("can't be told from" in sentence) is (
            pair["differences"]["macro_f1"]["p_holm"] >= 0.05
        )


def test_a_sentence_says_so_where_refusals_decide(tmp_path: Path) -> None:
    """The careful run is as good on what it answers, and refuses a third of the posts."""
    page, *_, figures = report(
        tmp_path, noisy(tmp_path / "careful", 0.9, 1, 0.35), noisy(tmp_path / "bold", 0.88, 2)
    )
    assert figures["pairs"][0]["differences"]["macro_f1"]["p_holm"] >= 0.05
    assert figures["pairs"][0]["counting_errors"]["differences"]["macro_f1"]["p_holm"] < 0.05
    first = figures["answer"][0].split(". ")[0]
    assert "more than chance explains: print this figure in a paper" in first
    assert "can't be told from" in first
    assert figures["answer"][0] in page.seen


@pytest.mark.parametrize(
    ("accuracy", "words"), [(0.9, "is better than"), (0.5, "can't be told"), (0.1, "is worse than")]
)
def test_one_run_is_held_against_answers_that_read_no_post(
    tmp_path: Path, accuracy: float, words: str
) -> None:
    *_, figures = report(tmp_path, noisy(tmp_path / "run", accuracy, 5))
    [sentence] = figures["answer"]
    assert sentence.startswith(f"run {words}") or accuracy == 0.5
    assert "hate" in sentence


def test_an_answer_is_one_paragraph_per_pair(tmp_path: Path) -> None:
    runs = [noisy(tmp_path / name, 0.9, at) for at, name in enumerate("abc")]
    page, *_, figures = report(tmp_path, *runs)
    places = [page.seen.index(sentence) for sentence in figures["answer"]]
    assert len(places) == 3
    assert all(before < after for before, after in pairwise(places))


def test_requests_and_calls_are_two_columns(tmp_path: Path) -> None:
    rows = [
        line(f"p{at}", at % 2, 1, calls=[{"model": "openai:a", "attempts": 3}], usage={"calls": 1})
        for at in range(4)
    ]
    page, text, latex, figures = report(tmp_path, write_run(tmp_path / "run", rows))
    cost = figures["runs"][0]["measured"]["cost"]
    assert (cost["calls"]["total"], cost["requests"]["total"]) == (4, 12)
    heads = {cell for table in page.tables for cell in table[0]}
    assert {"calls a post", "requests a post"} <= heads
    for shown in (text, latex):
        assert "requests a post" in shown


def test_no_figure_is_zero_below_zero(tmp_path: Path) -> None:
    page, text, latex, _ = report(
        tmp_path, noisy(tmp_path / "a", 0.8, 1), noisy(tmp_path / "b", 0.8, 1)
    )
    assert not re.search(r"-0\.0\b", " ".join((page.seen, page.covered, text, latex)))
