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
from tests.eval.view.looking import SAMPLES, sample, written
from tribunal.eval.view import samples_file


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
    held = run["facets"][facet]
    found: list[str] = held["sets"][held["codes"][row]]
    return found


def test_every_sample_is_in_it_as_the_index_has_it(tmp_path: Path) -> None:
    page, (held,) = packed(written(tmp_path / "run"))
    assert held["post"] == ["a", "b", "c", "d", "e", "f", "g", "a"]
    assert held["kind"] == [0, 1, 2, 3, 4, 5, 6, 3]
    assert held["repeats"][-1] == 1
    assert held["confidence"] == [0.9, 0.8, 0.7, 0.2, 0.6, None, 0.5, 0.4]
    assert values(held, "target", 0) == ["x", "y"]
    assert values(held, "track", 4) == []
    assert held["said"][0] == ["The weeds in our garden", "why"]
    cases = {row: unpacked(held["pages"][chunk])[at] for row, (chunk, at) in held["cases"].items()}
    assert sorted(map(int, cases)) == list(range(8)), "of a short run, the case of every sample"
    assert "it speaks of weeds" in cases["2"]
    assert page.xpath("//script[not(@type='application/json+gzip')]/@type") == ["module"]
    assert not page.xpath("//link | //img | //iframe | //*[@src]")


def test_of_a_long_run_the_wrong_and_uncertain_ones_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_file, "CASES", 3)
    monkeypatch.setattr(samples_file, "_WORDS", 50)
    right = [sample(f"right{number}", 1, 1) for number in range(20)]
    wrong = [sample("wrong", 0, 1, confidence=0.6), sample("very-wrong", 0, 1, confidence=0.9)]
    doubted = sample("doubted", 1, 1, confidence=0.1, uncertain=True)
    _, (held,) = packed(written(tmp_path / "run", [*right, *wrong, doubted]), "--transcripts", "1")
    assert [held["post"][int(row)] for row in held["cases"]] == ["very-wrong", "doubted", "wrong"]
    assert held["said"] is None


def test_without_transcripts_no_words_are_in_it(tmp_path: Path) -> None:
    _, (held,) = packed(written(tmp_path / "run", SAMPLES), "--transcripts", "0")
    assert (held["said"], held["cases"], held["pages"]) == (None, {}, [])
