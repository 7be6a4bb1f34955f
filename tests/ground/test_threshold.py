"""The threshold file: what it takes, and what is said of one that isn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from tribunal.errors import BadInput
from tribunal.nodes.threshold import KINDS, ByVerdict, Threshold, read_threshold

HELD = Threshold(
    threshold=0.8,
    agreement=0.95,
    level=0.9,
    coverage=0.61,
    n_fit=1178,
    graph="arcade",
    scheme="fine",
    models={"model": "openai:some"},
    policy="f" * 64,
    fitted_from="run",
    at="2026-01-01T00:00:00+00:00",
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "threshold.json").write_text(HELD.model_dump_json())
    assert read_threshold(tmp_path / "threshold.json") == HELD


def test_a_file_of_an_older_fit_is_read_and_promises_nothing_of_dismissals(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(
        """{"threshold":0.8,"agreement":0.95,"level":0.9,"coverage":0.61,"agreement_held_out":0.97,"n_fit":589,
        "n_held_out":589,"seed":0,"graph":"arcade","scheme":"fine","models":{},"calibration":[[0.5,0.6]],"ece":0.1,
        "ece_calibrated":0.05,"policy":null,"fitted_from":"run","at":"2026-01-01T00:00:00+00:00"}"""
    )
    old = read_threshold(tmp_path / "old.json")
    said = [old.accepts(kind, confidence) for kind in KINDS for confidence in (None, 0.79, 0.8)]
    assert said == [False, False, True] * 2
    assert old.agreement_held_out == 0.97


def test_each_verdict_may_have_its_own() -> None:
    held = HELD.model_copy(
        update={"by_verdict": ByVerdict(hateful=0.6), "without_confidence": ("harmless",)}
    )
    accepted = {
        (kind, given): held.accepts(kind, given) for kind in KINDS for given in (None, 0.7, 1.0)
    }
    assert [each for each, yes in accepted.items() if yes] == [
        ("hateful", 0.7),
        ("hateful", 1.0),
        ("harmless", None),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Invalid JSON"),
        ('{"threshold": 0.5}', "agreement"),
        (HELD.model_dump_json().replace("0.8", "1.8"), "threshold: 1.8"),
        (
            HELD.model_dump_json().replace(
                '"calibration":[]', '"calibration":[[0.5,0.6],[0.4,0.7]]'
            ),
            "does not ascend",
        ),
        (
            HELD.model_dump_json().replace('"calibration":[]', '"calibration":[[0.5,1.6]]'),
            "not between 0 and 1",
        ),
        (HELD.model_dump_json().replace('"seed"', '"other"'), "other"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "threshold.json").write_text(text)
    with pytest.raises(BadInput, match=says) as raised:
        read_threshold(tmp_path / "threshold.json")
    assert "\n" not in str(raised.value)
    assert "tribunal fit" in str(raised.value)
    with pytest.raises(BadInput, match="No such file"):
        read_threshold(tmp_path / "none.json")
