"""The report as a reader gets it: its figures, what it loads, what it covers, and what hostile posts can do to it."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.result_lines import answers, line, write_run
from tribunal.core.calls import REHEARSAL
from tribunal.eval.measures.metrics import measure_run
from tribunal.eval.report import write_report
from tribunal.eval.report.overview import LONGEST, paper_table

VOID = {"meta", "line", "rect", "polyline", "circle"}
HOSTILE = "<script>alert(1)</script><img src=http://evil.test/x.png onerror=alert(1)>\"'{{ 7*7 }}"
HIDING = "abc\u202edef\u200b"


class Page(HTMLParser):
    """The page as a browser has it: tables, elements, and which text lies inside `details`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.covered, self.seen, self.style = "", "", ""
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "small":
            self.tables[-1][-1][-1] += " ("

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "small":
            self.tables[-1][-1][-1] += ")"

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
        elif "details" in self.open and "summary" not in self.open:
            self.covered += data
        else:
            self.seen += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def row(self, first: str) -> list[str]:
        """The row that begins with this; what stands under a figure, in brackets, is left out."""
        return next([_alone(cell) for cell in row] for row in self.rows if _alone(row[0]) == first)

    @property
    def rows(self) -> list[list[str]]:
        return [row for table in self.tables for row in table if row]


def _alone(cell: str) -> str:
    return cell.partition(" (")[0]


def report(tmp_path: Path, *folders: Path, **options: Any) -> tuple[Page, str]:
    page, text, *_ = write_report(folders, tmp_path / "out", **options)
    return Page(page.read_text("utf-8")), text.read_text("utf-8")


def turn(**said: Any) -> dict[str, Any]:
    return {
        "id": "t1", "seat": "prosecutor", "stage": "indictment", "round": 1, "cues": [], "arguments": [],
        "stance": None, "text": "", **said,
    }  # fmt: skip


def test_the_figures_are_those_of_metrics(tmp_path: Path) -> None:
    fields = {"difficulty": "Hard", "smi_pattern": "110"}
    run = write_run(
        tmp_path / "run", [*answers("00112", "01121", fields=fields), line("r", 3, "refusal")]
    )
    page, text = report(tmp_path, run)
    found = measure_run(run)
    for title, name in (("Accuracy", "accuracy"), ("Macro-F1", "macro_f1"), ("Recall", "recall")):
        low, high = found["intervals"][name]
        row = page.row(title)
        assert row[1] == f"{100 * found[name]:.1f}"
        assert row[2] == f"{100 * low:.1f} to {100 * high:.1f}"
        assert row[3] == f"{100 * found['counting_errors'][name]:.1f}"
        assert row[5] == f"{100 * found['baselines']['always_hate'][name]:.1f}"
        assert f"| {title} | {' | '.join(row[1:])} |" in text
    assert page.row("Hard")[1:6] == ["5", "0", "0", "0", "40.0"]
    assert page.row("110")[1:6] == ["5", "0", "0", "0", "40.0"]
    matrix = next(table for table in page.tables if table[0][0] == "gold")
    assert matrix[0] == [
        "gold",
        "NotHate",
        "Racist",
        "Sexist",
        "Homophobic",
        "refusal",
        "failure",
        "pending",
    ]
    assert matrix[1] == ["NotHate", "1", "1", "0", "0", "0", "0", "0"]
    assert matrix[4] == ["Homophobic", "0", "0", "0", "0", "1", "0", "0"]


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    lines = [
        line(
            "a",
            1,
            0,
            text=HOSTILE,
            confidence=0.9,
            transcript=[turn(text="see http://evil.test/ and [x](http://e)")],
        )
    ]
    page, _ = report(
        tmp_path, write_run(tmp_path / "run", lines, settings={"base_url": "http://localhost:1/v1"})
    )
    tags = {tag for tag, _ in page.elements}
    assert not tags & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "audio",
        "video",
    }
    for _, attributes in page.elements:
        assert not {"src", "style", "srcset", "action"} & attributes.keys()
        assert attributes.get("href", "samples.html") == "samples.html", (
            "the browser of samples, beside the page"
        )
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in page.style
    assert "@import" not in page.style
    policy = next(given["content"] for _, given in page.elements if given.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert (
        policy
        == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_what_was_posted_and_said_is_covered(tmp_path: Path) -> None:
    cue = {
        "id": "C1",
        "type": "Direct",
        "target_group": "religion",
        "claim": "the claim",
        "category": "Religious",
    }
    argument = {
        "cue_id": "C1",
        "target_group": "religion",
        "stance": "refute",
        "claim": "the claim",
        "argument": "an answer",
    }
    lines = [
        line(
            "wrong-one",
            0,
            1,
            confidence=0.75,
            text="the posted words",
            image="/home/someone/pictures/picture.png",
            transcript=[
                turn(cues=[{**cue, "justification": "its reason"}]),
                turn(seat="defender", stage="rebuttal", arguments=[argument]),
                turn(seat="debater:hate", stage="response", stance="agree", text="a response"),
            ],
            opinions=[
                {"id": "kold", "stance": "hate", "label_name": "Offensive", "reason": "an opinion"}
            ],
            evidence=[
                {
                    "id": "E1",
                    "stance": "supports",
                    "url": "http://source.test/",
                    "passage": "a passage",
                }
            ],
            explanation="the judge explained",
        ),
        line("right-one", 1, 1, text="never shown"),
    ]
    page, text = report(tmp_path, write_run(tmp_path / "run", lines))
    for words in (
        "the posted words", "picture.png", "“the claim” its reason", "C1 refutes: “the claim” an answer",
        "Prosecutor, round 1: indictment", "a response", "Perspective kold: Offensive", "an opinion", "a passage",
        "http://source.test/", "the judge explained",
    ):  # fmt: skip
        assert words in page.covered
        assert words not in page.seen
        details = re.findall(r"<details>.*?</details>", text, re.DOTALL)
        assert words in html.unescape("".join(details))
        assert words not in html.unescape(
            re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
        )
    assert "/home/someone" not in page.covered + text
    assert "wrong-one: gold NotHate, given Racist, confidence 0.75" in page.seen
    assert "may be hateful, and is covered until it is opened" in page.covered
    assert "never shown" not in page.seen + page.covered + text


@pytest.mark.long
def test_hostile_words_stay_words_wherever_they_stand(tmp_path: Path) -> None:
    words = HOSTILE + HIDING
    lines = [
        line(
            f"id {words}",
            0,
            1,
            uncertain=True,
            text=words,
            image=words,
            explanation=words + "</pre></details>",
            warnings=[words],
            transcript=[turn(seat=words, stage=words, text=words)],
            fields={
                "difficulty": words,
                "smi_pattern": words,
                "target": [words],
                "functionality": words,
            },
            category=words,
            opinions=[{"id": words, "stance": "hate", "label_name": words, "reason": words}],
            evidence=[{"id": words, "stance": words, "url": words, "passage": words}],
        ),
        line("second", 1, 1),
    ]
    lines[0]["gold"]["name"] = words
    run = write_run(tmp_path / "run <b>x", lines, settings={words: words}, dataset=words)
    other = write_run(tmp_path / "other", lines, dataset=words)
    page, text = report(tmp_path, run, other)
    assert not {tag for tag, _ in page.elements} & {"script", "img", "b", "pre"}
    assert "[U+202E]" in page.covered
    assert "[U+202E]" in page.seen
    assert "{{ 7*7 }}" in page.covered
    for hidden in ("\u202e", "\u200b"):
        assert hidden not in page.seen + page.covered + text
    # Of the Markdown, only our own elements are left as elements, and what could be an address stands in code spans.
    text = re.sub(r"(`+) ?.*?[^`]\1(?!`)", "[code]", text)
    uncovered = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    inside = ("details", "summary", "code", "pre")
    assert set(re.findall(r"<(/?\w+)", text)) == {*inside, *(f"/{tag}" for tag in inside)}
    assert text.count("<pre>") == text.count("</pre>") == text.count("<details>") + 1, (
        "the picture is one more"
    )
    assert text.count("<details>") == text.count("</details>")
    assert "http://" not in uncovered
    assert "](" not in uncovered
    rows = [row for row in uncovered.splitlines() if row.startswith("|")]
    assert all(row.endswith("|") for row in rows)


def test_long_words_and_many_posts_are_capped_and_it_is_said(tmp_path: Path) -> None:
    lines = [
        line(f"p{i:02}", 0, 1, confidence=i / 100, explanation="x" * (LONGEST + 5))
        for i in range(20)
    ]
    page, text = report(tmp_path, write_run(tmp_path / "run", lines), most=3)
    assert "20 in all; 3 shown (at most 3), the most confident first" in page.seen
    assert re.findall(r"p\d\d: gold", page.seen) == ["p19: gold", "p18: gold", "p17: gold"]
    assert (
        page.covered.count("[5 more characters]")
        == html.unescape(text).count("[5 more characters]")
        == 3
    )
    assert "x" * (LONGEST + 1) not in page.covered


def test_uncertain_and_pending_posts_stand_apart(tmp_path: Path) -> None:
    lines = [
        line("sure", 1, 1),
        line("unsure", 1, 1, uncertain=True, confidence=0.4),
        line("waits", 1, "pending"),
    ]
    page, _ = report(tmp_path, write_run(tmp_path / "run", lines))
    assert "Uncertain posts" in page.seen
    assert "Wrong verdicts" not in page.seen
    assert page.seen.index("unsure: gold Racist") < page.seen.index(
        "waits: gold Racist, given pending"
    )
    assert "sure: gold" not in page.seen.replace("unsure: gold", "")


def test_warnings_come_before_any_figure(tmp_path: Path) -> None:
    lines = [line("a", 1, 1, calls=[{"model": REHEARSAL}]), line("b", 1, "failure")]
    page, text = report(tmp_path, write_run(tmp_path / "run", lines, n=5, repeats=2))
    for said in (
        "The rehearsal model took part in 1 of 2 results.",
        "This run isn't finished: 8 results are missing.",
        "1 of 2 results are technical failures",
    ):
        assert said in page.seen
        assert said in text
        assert "Headline" in page.covered
        assert text.index(said) < text.index("### Headline")


def test_an_empty_run_and_one_without_gold(tmp_path: Path) -> None:
    empty = write_run(tmp_path / "empty", [], n=3)
    unlabelled = write_run(tmp_path / "unlabelled", [line("a", None, 1)])
    page, text = report(tmp_path, empty, unlabelled)
    assert "There are no results yet." in page.seen
    assert "No post has a gold label" in page.seen
    assert page.row("Accuracy")[1:] == ["–", "", "–", "", "–", "–"]
    assert "nan" not in re.findall(r"\w+", page.seen.casefold() + text.casefold())


def test_the_papers_rows_stand_apart_from_what_was_measured(tmp_path: Path) -> None:
    fields = {"difficulty": "Easy", "smi_pattern": "000"}
    test = {"data": {"name": "h-vli", "split": "test"}}
    run = write_run(tmp_path / "run", answers("0011", "0110", fields=fields), **test)
    page, text = report(tmp_path, run)
    measured = page.row("Measured here: run")
    assert measured[2:] == ["50.00", "–", "–", "50.00", "50.00", "50.00"]
    for said in (page.covered, text):
        assert (
            "This run holds 4 of the 1,178 posts that the paper's figures are over: they are a sample"
            in said
        )
        assert "policy" not in said.partition("Beside the paper")[2].partition("This run holds")[0]
    table = next(table for table in page.tables if measured in table)
    assert table[2][0].startswith("As printed in the paper, not measured here: Sun et al.")
    assert [
        "Qwen3-VL-Plus",
        "ARCADE",
        "87.48",
        "77.43",
        "51.52",
        "79.95",
        "75.04",
        "79.95",
    ] in table
    assert "| GPT-5 | ARCADE | 90.88 | 88.64 | 65.54 | 86.92 | 81.73 | 86.99 |" in text
    assert "not measured here" in text
    assert len(table) == 3 + 24

    binary = write_run(tmp_path / "binary", answers("0011", "0110", scheme="binary"), graph="baseline",
                       policy={"name": "ours", "sha": "0"}, **test)  # fmt: skip
    page, _ = report(tmp_path, binary)
    assert "This run's policy is ours, and not the paper's" in page.covered
    table = next(table for table in page.tables if page.row("Measured here: binary") in table)
    assert table[0][2:] == ["Easy", "Normal", "Hard", "Accuracy", "Recall", "F1"]
    assert ["GPT-5", "ARCADE", "92.58", "87.23", "69.13", "88.06", "85.96", "84.20"] in table


@pytest.mark.parametrize(
    "run",
    [
        {"graph": "predict", "dataset": "h-vli", "data": {"split": "test"}},
        {"graph": "arcade", "dataset": "fhm", "data": {"split": "test"}},
        {"graph": "arcade", "dataset": "h-vli", "data": {"split": "train"}},
        {"graph": "arcade", "dataset": "h-vli"},
    ],
    ids=["graph", "set", "split", "split unknown"],
)
def test_whatever_the_table_isnt_over_has_no_papers_rows(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    folder = write_run(tmp_path / "run", answers("01", "01"), **run)
    assert paper_table(run, measure_run(folder)) is None
    assert "Beside the paper" not in report(tmp_path, folder)[0].seen


@pytest.mark.long
def test_runs_over_the_same_data_are_compared(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", answers("0" * 10, "0" * 9 + "1"))
    two = write_run(tmp_path / "two", answers("0" * 10, "0111111R00"))
    other = write_run(tmp_path / "three", answers("0" * 10, "0" * 10), dataset="fhm")
    page, text = report(tmp_path, one, two, other)
    table = next(table for table in page.tables if table[0][:2] == ["first", "second"])
    assert len(table) == 3
    # Of the seven posts that tell them apart one speaks for the second: mid-p is 2 (1 + 7/2) / 128.
    assert table[1][:2] == ["one", "two"]
    assert table[1][2:3] + table[1][4:7] == ["9 (both decided)", "exact", "0.070", "0.070"]
    assert table[1][10:] == ["2", "6", "1", "0"]
    assert table[2][2] == "10 (counting errors)"
    assert table[2][10:] == ["2", "7", "1", "0"]
    assert table[1][3].startswith("-55.6 (")
    assert "| one | two | 9 both decided | -55.6 (" in text
    assert "| exact | 0.070 | 0.070 |" in text
    assert "Runs against each other" not in report(tmp_path, one)[0].seen


def test_repeats_and_calibration_and_cost(tmp_path: Path) -> None:
    lines = [
        line(f"p{i}", 1, int((i + repeat) % 4 > 0), repeat=repeat, confidence=0.8, seconds=2.0,
             usage={"calls": 8, "prompt_tokens": 1000, "completion_tokens": 200})
        for i in range(8)
        for repeat in range(2)
    ]  # fmt: skip
    page, text = report(tmp_path, write_run(tmp_path / "run", lines, repeats=2, n=8))
    assert "Over 2 repeats" in page.covered
    assert "50.0 % of them don't get the same label in all" in page.covered
    assert ["Accuracy", "75.0 ± 0.0", "75.0 ± 0.0"] in [
        row for table in page.tables for row in table
    ]
    assert page.row("expected calibration error")[1] == "0.050"
    assert page.row("70 to 80") == ["70 to 80", "16", "80.0", "75.0"]
    assert page.row("calls") == ["calls", "8", "", "8", "8", "128"]
    assert page.row("tokens")[5] == "19,200"
    assert "| 70 to 80 | 16 | 80.0 | 75.0 (" in text
    assert sum(tag == "polyline" for tag, _ in page.elements) == 1
