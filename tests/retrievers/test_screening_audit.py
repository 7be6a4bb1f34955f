"""The audit of a screening classifier that several processes note at once: one count, and one switch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tribunal.retrievers.screening.audit import audit_as_json, reset_audit, score_to_switch_off, switch_off_reason
from tribunal.retrievers.screening.manifest import ScreenerArrays, ScreenerManifest, write_screener
from tribunal.retrievers.screening.screener import Screener, open_screener

NOTING = """
import sys
from tribunal.retrievers.screening.audit import note_outcome
from tribunal.retrievers.screening.screener import open_screener
look, first, last, wrong = open_screener(sys.argv[1]), *map(int, sys.argv[2:])
for at in range(first, last):
    off = note_outcome(look, f"p{at}", "trial", "harmless", at % wrong == 0)
print(off)
"""


def made(folder: Path) -> Screener:
    """A screening classifier that promises 5 %; it is never asked."""
    manifest = ScreenerManifest(
        weights_sha256="", posts_sha256="", bias=0, slope=1, intercept=0, harmless=0.9, hateful=None, languages=("en",),
        least_known=0, most_characters=99, missed_hate=0.05, false_alarms=0.05, level=0.9, attempt=1, error=0.075,
        audit=0.5, court_error=0, n_fit=1, n_test=1, clusters={}, foretold={}, fitted_from="here", at="now",
    )  # fmt: skip
    write_screener(
        folder, manifest, ScreenerArrays(np.array([1]), np.ones(1), np.empty(0), np.zeros((1, 96), dtype=np.uint8))
    )
    return open_screener(str(folder))


def noted(look: Screener, ranges: list[tuple[int, int]], wrong: int) -> list[str]:
    """Return what processes that note these posts at once print: why the screening classifier is off."""
    asked = [[sys.executable, "-c", NOTING, str(look.folder), *map(str, (*each, wrong))] for each in ranges]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for each in asked]
    ends = [each.communicate() for each in running]
    assert [(each.returncode, error) for each, (_, error) in zip(running, ends, strict=True)] == [(0, "")] * len(ranges)
    return [said.strip() for said, _ in ends]


@pytest.mark.long
def test_what_processes_note_at_once_is_one_count_and_one_switch(tmp_path: Path) -> None:
    look = made(tmp_path / "model")
    # One post is wrong, which is less than is promised; a third of the posts is noted twice.
    assert noted(look, [(0, 30), (15, 45)], wrong=50) == ["", ""]
    [held] = audit_as_json(look)["tests"]
    assert (held["by"], held["kind"], held["n"], held["wrong"]) == ("trial", "harmless", 45, 1)
    assert held["betting_score"] < score_to_switch_off(look)
    # No process notes enough to switch it off; all of them together do, and all know it from then on.
    noted(look, [(1_000, 1_004), (2_000, 2_004), (3_000, 3_004)], wrong=1)
    [held] = audit_as_json(look)["tests"]
    assert (held["n"], held["wrong"]) == (57, 13)
    assert held["betting_score"] >= score_to_switch_off(look)
    assert "by trials, and at most 5.0% was promised" in switch_off_reason(look)
    reset_audit(look)
    assert (audit_as_json(look)["tests"], switch_off_reason(look)) == ([], "")
