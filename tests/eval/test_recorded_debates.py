"""PREDICT's recorded debates: read as its script writes them, and replayed through our graph to their own verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.eval.datasets.published import labels, posts, written
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation, evaluate
from tribunal.eval.replay import SIDE_BY_PERSPECTIVE

DISAGREES = [
    "I disagree",
    "I cannot agree",
    "동의할 수 없습니다",
    "I don't fully agree",
    "No",
    "No",
]


def player(
    text: str, side: str, reference: str, opening: str, response: str
) -> list[dict[str, str]]:
    """What a player remembers at the end, in the order of the published script."""
    said = [
        ("system", f"The topic of the debate: {text!r}. You are the {side}."),
        ("user", f"Your reference: {reference}"),
        ("assistant", opening),
        ("assistant", f"You argued: {opening}"),
        ("user", "Agree or rebut."),
        ("assistant", response),
    ]
    return [{"role": role, "content": words} for role, words in said]


def record(
    folder: Path, number: int, text: str, truth: str, label: str | None, **other: Any
) -> None:
    """Write a debate of our own as the published script writes one."""
    references = {
        "Not_Hate_Reason": f"harmless-{number}",
        "Hate_Reason": f"harmful-{number}",
        **other,
    }
    memories = {
        "Non Hate side": (
            "Non-Hate",
            f"opening-not-{number}",
            f"I agree with you: response-not-{number}",
        ),
        "Hate side": (
            "Hate",
            f"opening-hate-{number}",
            f"{DISAGREES[number]}: response-hate-{number}",
        ),
    }
    held = {
        "num_players": 2,
        "success": label is not None,
        "text": text,
        "ground_truth": truth,
        "players": {
            name: player("글 하나", side, references["Hate_Reason"], *said)
            for name, (side, *said) in memories.items()
        },
        **references,
        **({"Label": label, "Reason": f"verdict-{number}"} if label else {}),
    }
    written(folder / f"{number}.json", held)
    written(folder / f"{number}-config.json", {"text": text})


@pytest.fixture
def debates(tmp_path: Path) -> Path:
    folder = tmp_path / "DICT"
    record(folder, 0, "글 하나", "혐오", "Hate")
    record(folder, 1, "글 둘", "혐오", "Non-hate")
    record(folder, 2, "글 셋", "비혐오", "non-hate", Hate_Reason="nan")
    record(folder, 3, "글 넷", "비혐오", None)
    return folder


def test_recorded_debates_are_read_with_the_labels_of_the_sample_or_of_the_judge(
    debates: Path,
) -> None:
    assert labels(posts("predict-debates", debates)) == [
        ("0", 1, True),
        ("1", 1, True),
        ("2", 0, False),
        ("3", 0, False),
    ]
    found = posts("predict-debates", debates, "recorded")
    # the fourth answer couldn't be read
    assert labels(found) == [
        ("0", 1, True),
        ("1", 0, False),
        ("2", 0, False),
    ]
    record(debates, 5, "글 다섯", "비혐오", "nan")
    assert len(posts("predict-debates", debates, "recorded")) == 3, "nan is no verdict either"
    # The published script debates the first row's text in every row.
    assert [post.fields["about_own_text"] for post in found] == [True, False, False]
    written(debates / "4.json", {"text": "글", "players": {}})
    with pytest.raises(
        BadInput, match=r"4\.json: is no debate that PREDICT's script recorded: 'Non Hate side' was"
    ):
        posts("predict-debates", debates)


def test_replayed_debates_end_in_their_recorded_verdicts(debates: Path, tmp_path: Path) -> None:
    model = f"tribunal.eval.replay:PREDICT:{debates}"

    def replay(split: str) -> Any:
        wanted = Evaluation(
            dataset="predict-debates",
            data=debates,
            split=split,
            graph="predict",
            in_order=True,
            settings={"model": model, "perspectives": list(SIDE_BY_PERSPECTIVE)},
        )
        return evaluate(wanted, tmp_path / split).measured

    agreed = replay("recorded")
    assert (agreed["decided"], agreed["accuracy"]) == (3, 1.0)
    # against the samples' own labels, by which one verdict is wrong; one couldn't be read
    counted = replay("all")
    assert (counted["decided"], counted["failures"], round(counted["accuracy"], 3)) == (3, 1, 0.667)
    lines = (tmp_path / "recorded" / "results.jsonl").read_text("utf-8").splitlines()
    first, second, third = sorted(map(json.loads, lines), key=lambda result: result["post_id"])
    assert [(turn["seat"], turn["text"], turn.get("stance")) for turn in first["transcript"]] == [
        ("debater:not_hate", "opening-not-0", None),
        ("debater:hate", "opening-hate-0", None),
        ("debater:not_hate", "I agree with you: response-not-0", "agree"),
        ("debater:hate", "I disagree: response-hate-0", "rebut"),
    ]
    assert [(each["id"], each["stance"], each["reason"]) for each in first["opinions"]] == [
        ("example-newsroom", "not_hate", "harmless-0"),
        ("example-harm", "hate", "harmful-0"),
    ]
    assert (first["explanation"], second["explanation"]) == ("verdict-0", "verdict-1")
    assert [turn["stance"] for each in (second, third) for turn in each["transcript"][2:]] == [
        "agree",
        "rebut",
    ] * 2
    # A side without a reference has no voice.
    assert [each["id"] for each in third["opinions"]] == ["example-newsroom"]
