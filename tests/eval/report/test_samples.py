"""samples.html, which `tribunal report` writes: what is packed in it, and what isn't."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from lxml import html  # type: ignore[import-untyped]

from tests.commands.test_judge import run
from tests.result_lines import line, write_run
from tests.sample_lines import SAMPLES, sample
from tribunal.eval.report import samples


def packed(folder: Path, *options: str) -> tuple[Any, list[Any]]:
    """The page that the report on a run has beside it, and what is packed in it."""
    done = run("report", str(folder), *options)
    assert done.exit_code == 0, done.stderr
    assert str(folder / "samples.html") in done.stdout
    page = html.fromstring((folder / "samples.html").read_text("utf-8"))
    return page, [unpacked(each) for each in page.xpath("//script[@class='run']/text()")]


def unpacked(data: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(data)))


def values(run: Any, facet: str, row: int) -> list[str]:
    run_data = run["facets"][facet]
    found: list[str] = run_data["sets"][run_data["codes"][row]]
    return found


def test_every_sample_is_in_it(tmp_path: Path) -> None:
    page, (run_data,) = packed(write_run(tmp_path / "run", SAMPLES))
    assert run_data["post"] == ["a", "b", "c", "d", "e", "f", "g", "a"]
    assert run_data["labels"]["fine"]["kind"] == [0, 1, 2, 3, 4, 5, 6, 3]
    assert run_data["repeat"][-1] == 1
    assert run_data["confidence"] == [0.9, 0.8, 0.7, 0.2, 0.6, None, 0.5, 0.4]
    assert values(run_data, "target", 0) == ["x", "y"]
    assert values(run_data, "track", 4) == []
    assert run_data["beginnings"][0] == ["The weeds in our garden", "why"]
    cases = {
        row: unpacked(run_data["chunks"][chunk])[at]
        for row, (chunk, at) in run_data["cases"].items()
    }
    assert sorted(map(int, cases)) == list(range(8)), "of a short run, the case of every sample"
    assert "it speaks of weeds" in cases["2"]
    assert page.xpath("//script[not(@type='application/json+gzip')]/@type") == ["module"]
    assert not page.xpath("//link | //img | //iframe | //*[@src]")


def test_of_a_long_run_the_wrong_and_uncertain_ones_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_CASES", 3)
    monkeypatch.setattr(samples, "_MOST_CHARACTERS", 50)
    right = [sample(f"right{number}", 1, 1) for number in range(20)]
    wrong = [sample("wrong", 0, 1, confidence=0.6), sample("very-wrong", 0, 1, confidence=0.9)]
    doubted = sample("doubted", 1, 1, confidence=0.1, uncertain=True)
    _, (run_data,) = packed(
        write_run(tmp_path / "run", [*right, *wrong, doubted]), "--transcripts", "1"
    )
    assert [run_data["post"][int(row)] for row in run_data["cases"]] == [
        "very-wrong",
        "doubted",
        "wrong",
    ]
    assert run_data["beginnings"] is None


def test_without_transcripts_no_words_are_in_it(tmp_path: Path) -> None:
    _, (run_data,) = packed(write_run(tmp_path / "run", SAMPLES), "--transcripts", "0")
    assert (run_data["beginnings"], run_data["cases"], run_data["chunks"]) == (None, {}, [])


def test_labels_of_two_schemes_are_compared_as_yes_and_no(tmp_path: Path) -> None:
    lines = [
        line(post, gold, answer, gold_scheme="binary")
        for post, gold, answer in (("a", 1, 3), ("b", 1, 0), ("c", 0, 2))
    ]
    _, (run_data,) = packed(write_run(tmp_path / "run", lines))
    assert run_data["scheme"] == "binary"
    assert [list(samples.KINDS)[kind] for kind in run_data["labels"]["binary"]["kind"]] == [
        "true-positive", "false-negative", "false-positive",
    ]  # fmt: skip


def test_a_record_of_another_version_is_noted(tmp_path: Path) -> None:
    broken = {
        **SAMPLES[0],
        "transcript": [{"seat": "of an older time"}],
        "review": {"action": ["?"]},
        "fault": "none",
    }
    _, (run_data,) = packed(write_run(tmp_path / "run", [broken]))
    assert "can't be shown as a case" in unpacked(run_data["chunks"][0])[0]
    assert values(run_data, "person", 0) == ["waits"]
