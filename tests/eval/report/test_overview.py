"""The first table of a report, what labels are called in it, and its plots, against figures worked by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.eval.report.test_report import Page
from tests.result_lines import answers, line, write_run
from tribunal.commands import app
from tribunal.eval.report.page import Axis, CostAndValue, cost_axis, pareto_front, percent_axis

PRICES = (
    '["openai:big"]\ninput = 2.5\ncached = 1.25\noutput = 10\n["openai:small"]\ninput = 0.15\noutput = 0.6\n'
    '["openai:unused"]\ninput = 1\noutput = 1\n'
)
CATEGORIES = {
    "fine": ["Fine", "By origin", "By sex", "x", "y", "z"],
    "binary": ["Fine", "Against people"],
}


def called(model: str, seat: str, prompt: int, completion: int, **other: Any) -> dict[str, Any]:
    return {
        "model": model, "seat": seat, "role": seat, "prompt_tokens": prompt, "completion_tokens": completion, **other,
    }  # fmt: skip


def court(number: int, **run: Any) -> dict[str, Any]:
    """A post that a big judge and a small prosecution were asked about; the second post's small answer is cached."""
    calls = [
        called("openai:small", "prosecutor", 2000, 200, cached=number == 1, served="small"),
        called("openai:big", "judge", 1000, 100, cached_tokens=400, served="big-2026-01-01"),
    ]
    return line(
        f"p{number}",
        number % 2,
        number % 2,
        calls=calls,
        usage={"calls": 2, "prompt_tokens": 3000},
        **run,
    )


def report(tmp_path: Path, *arguments: str | Path) -> tuple[Page, str]:
    """What `tribunal report` writes, as a browser and as a viewer of Markdown have it."""
    done = CliRunner().invoke(app, ["report", *map(str, arguments), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    page, text = (tmp_path / "out" / name for name in ("report.html", "report.md"))
    return Page(page.read_text("utf-8")), text.read_text("utf-8")


def test_models_and_money_stand_in_the_first_table(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "court", [court(0), court(1), line("p2", 1, "refusal")], data={"split": "train"}
    )
    (tmp_path / "prices.toml").write_text(PRICES)
    page, text = report(tmp_path, run, "--prices", tmp_path / "prices.toml")
    heads, row, always, never = page.tables[0]
    assert heads == ["run", "posts", "verdicts", "refusals", "failures", "accuracy", "Macro-F1", "F1", "cost a post",
                     "calls a post"]  # fmt: skip
    for part in (
        "arcade, h-vli train",
        "openai:big (judge) (big-2026-01-01)",
        "openai:small (prosecutor)",
    ):
        assert part in row[0]
    assert row[1:5] == ["3", "2", "1", "0"]
    assert row[5].startswith("100.0 (")
    assert row[5].endswith(" (66.7 with errors)")
    # A judge's call: 600 tokens at 2.5 a million, 400 at 1.25, 100 at 10: 0.003. The small one's, once: 0.00042.
    assert row[8:] == ["0.00214 (0.00642 in all)", "1.33"]
    heads, row = page.tables[1]
    assert heads[1:6] == ["verdicts", "calibration error", "Brier score", "area under risk–coverage",
                          "coverage at 5 % risk"]  # fmt: skip
    assert row[1:6] == ["0", "–", "–", "–", "–"]
    assert row[6:8] == ["0.00214 (0.00 to 0.00328)", "2,000 (0 to 3,000)"]
    assert [cell.partition(" (")[0] for cell in (always[0], never[0])] == [
        "always hate",
        "never hate",
    ]
    assert (always[5], never[5], never[7]) == ("66.7", "33.3", "0.0"), (
        "two of the three posts are hateful"
    )
    assert "| openai:big for judge, served as big-2026-01-01; openai:small for prosecutor |" in text
    assert "| 0.00214 | 1.33 |" in text


def test_prices_that_the_run_was_given_last_count_where_none_are(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [court(0)])
    assert report(tmp_path, run)[0].tables[0][1][8] == "–"
    assert "give them with --prices" in report(tmp_path, run)[0].seen
    (run / "prices.json").write_text(json.dumps({"openai:big": {"input": 2.5, "output": 10}}))
    page, _ = report(tmp_path, run)
    assert page.tables[0][1][8] == "≥ 0.00350 (0.00350 in all) (1 calls unpriced)"
    (run / "prices.json").write_text('{"openai:big": {"input": -1}}')
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 2
    assert "prices.json: openai:big.input" in done.stderr


def test_labels_are_called_as_the_policy_calls_them(tmp_path: Path) -> None:
    lines = answers("0011200", "0111220", confidence=0.9)  # gold and verdicts in the words of h-vli
    page, text = report(tmp_path, write_run(tmp_path / "run", lines, categories=CATEGORIES))
    matrix = next(table for table in page.tables if table[0][0] == "gold")
    assert matrix[0][1:4] == ["Fine", "By origin", "By sex"]
    assert [row[0] for row in matrix[1:]] == ["Fine", "By origin", "By sex"]
    assert "gold Fine, given By origin" in page.covered + page.seen
    assert "| By origin | 2 |" in text
    for words in ("Racist", "Sexist"):
        assert words not in page.seen + page.covered + text

    folded = [line("a", 1, 1, gold_scheme="binary"), line("b", 0, 0, gold_scheme="binary")]
    page, _ = report(tmp_path, write_run(tmp_path / "folded", folded, categories=CATEGORIES))
    matrix = next(table for table in page.tables if table[0][0] == "gold")
    assert [row[0] for row in matrix[1:]] == ["Fine", "Against people"]
    assert "The data set calls Fine “not hate”, and Against people “hate”." in page.covered


def test_a_run_of_an_older_version_is_named_by_the_shipped_policy_it_was_under(
    tmp_path: Path,
) -> None:
    from tribunal.prompts.policy import load_policy

    lines = [line("a", 1, 1, gold_scheme="binary"), line("b", 0, 0, gold_scheme="binary")]
    for sha, names in (
        (load_policy("h-vli").sha, ["NotHate", "Hateful"]),
        ("0" * 16, ["not hate", "hate"]),
    ):
        run = write_run(tmp_path / sha, lines, policy={"name": "h-vli", "sha": sha})
        matrix = next(table for table in report(tmp_path, run)[0].tables if table[0][0] == "gold")
        assert [row[0] for row in matrix[1:]] == names


@pytest.mark.long
def test_runs_over_one_set_stand_in_a_plot_by_cost_and_accuracy(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, [
            line(f"p{n}", n % 2, n % 2 if n < right else 1 - n % 2, calls=[called("m:x", "judge", tokens, 0)],
                 usage={"calls": 1, "prompt_tokens": tokens})
            for n in range(10)
        ])
        for name, right, tokens in (("good", 9, 400), ("cheap", 6, 100), ("beaten", 5, 300))
    ]  # fmt: skip
    other = write_run(tmp_path / "other", answers("01", "01"), dataset="fhm")
    few = write_run(tmp_path / "few", answers("01010", "01010"))
    binary = write_run(
        tmp_path / "binary", [line(f"p{n}", n % 2, 0, scheme="binary") for n in range(10)]
    )
    page, text = report(tmp_path, *runs, other, few, binary)
    assert "Cost and accuracy on h-vli" in page.seen
    assert "Cost and accuracy on fhm" not in page.seen, "one run alone is on no front"
    table = next(
        table for table in page.tables if table[0][-2:] == ["on the front", "can't be told from"]
    )
    assert [(row[0], row[2], row[3].partition(" ")[0], *row[4:]) for row in table[1:]] == [
        ("good", "400", "90.0", "yes", "2, 3"), ("cheap", "100", "60.0", "yes", "1, 3"),
        ("beaten", "300", "50.0", "no", "1, 2"),
    ]  # fmt: skip
    assert "| 3 | beaten | 300 |" in text
    assert "1, good: accuracy 90.0 %, 400 tokens a post, on the front" in page.covered, (
        "for who can't see the plot"
    )
    circles = [
        given["class"] for tag, given in page.elements if tag == "circle" and given["r"] == "5"
    ]
    assert circles[:3] == ["fill", "fill", "hollow"]
    # By calls, of which each run takes one a post, the good one alone is on the front.
    [front] = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["fronts"]
    assert [run["fronts"]["accuracy"]["calls"]["on"] for run in front["runs"]] == [
        "yes",
        "no",
        "no",
    ]


def test_a_front_says_what_intervals_tell_apart_by_language_too_and_latex_holds_no_command_of_a_stranger(
    tmp_path: Path,
) -> None:
    hostile = r"\input{/etc/passwd}%$x_1^2&#~<|>[--]{"
    runs = [
        write_run(tmp_path / name, [
            line(f"p{n}", n % 2, n % 2 if n % 10 < right else 1 - n % 2, language=("en", hostile)[n < 100],
                 language_from="given", confidence=0.5 + n % 10 / 20, seconds=float(n % 3),
                 calls=[called("m:x", "judge", tokens + n % 7, 0)], usage={"calls": 1, "prompt_tokens": tokens + n % 7})
            for n in range(200)
        ])
        for name, right, tokens in (("good", 9, 400), ("a_b&c", 9, 900), ("cheap", 5, 100))
    ]  # fmt: skip
    page, text = report(tmp_path, *runs)
    table = next(
        table for table in page.tables if table[0][-2:] == ["on the front", "can't be told from"]
    )
    assert [(row[0], *row[-2:]) for row in table[1:]] == [
        ("good", "yes", "2"), ("a_b&c", "no", "1"), ("cheap", "yes", "none"),
    ]  # fmt: skip
    by_language = next(table for table in page.tables if table[0][:2] == ["language", "run"])
    assert [(row[0], row[1], row[3], row[-1]) for row in by_language[4:]] == [
        ("en", "good", "100", "yes"), ("en", "a_b&c", "100", "no"), ("en", "cheap", "100", "yes"),
    ]  # fmt: skip
    assert "Calibration and cost by language" in page.covered
    assert "### Calibration and cost by language" in text
    latex = (tmp_path / "out" / "report.tex").read_text("utf-8")
    shown = r"\textbackslash{}input\{/etc/passwd\}\%\$x\_1\textasciicircum{}2\&\#\textasciitilde{}\textless{}"
    assert shown + r"\textbar{}\textgreater{}{[}-{}-{]}\{ & " in latex
    assert r"a\_b\&c & 200 & " in latex
    assert "nan" not in latex.lower()
    bare = re.sub(r"\\[{}]", "", re.sub(r"(?m)^%.*", "", latex))
    assert bare.count("{") == bare.count("}")
    for kind in ("tabular", "tikzpicture", "axis"):
        assert bare.count(rf"\begin{{{kind}}}") == bare.count(rf"\end{{{kind}}}") > 0
    heads = re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end", bare, re.S)
    for columns, rows in heads:
        counts = {
            len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows.split("\n") if row.endswith(r"\\")
        }
        assert counts == {len(columns)}, rows


def labels(axis: Axis) -> list[str]:
    return [axis.label(tick) for tick in axis.ticks]


def test_the_front_and_the_places_of_points() -> None:
    assert pareto_front([CostAndValue(1, 0.5), CostAndValue(2, 0.5), CostAndValue(2, 0.7), CostAndValue(2, 0.7)]) == {
        0, 2, 3,
    }  # fmt: skip
    across, up = cost_axis([10, 20]), percent_axis(0.5, 1.0)
    assert labels(across) == ["0", "5", "10", "15", "20"]
    assert (across.share(20), across.share(10)) == (1, 0.5)
    assert labels(up) == ["40%", "60%", "80%", "100%"]
    assert up.share(1.0) == 1
    assert up.share(0.6) == pytest.approx(1 / 3)
    apart = cost_axis([2, 900])
    assert labels(apart) == ["1", "10", "100", "1,000"]
    assert apart.share(10) == pytest.approx(1 / 3)


def test_bars_are_as_high_as_the_share_of_right_verdicts(tmp_path: Path) -> None:
    lines = [line(f"p{number}", number > 0, 0, confidence=0.55) for number in range(4)]
    page, _ = report(tmp_path, write_run(tmp_path / "run", lines))
    bar = next(given for tag, given in page.elements if tag == "rect" and given.get("x"))
    said = next(given for tag, given in page.elements if given.get("class") == "second")
    assert float(bar["height"] or 0) == pytest.approx((228 - 14) / 4)
    assert float(bar["y"] or 0) + float(bar["height"] or 0) == pytest.approx(228)
    assert float(said["y1"] or 0) == pytest.approx(228 - 0.55 * (228 - 14), abs=0.01)
