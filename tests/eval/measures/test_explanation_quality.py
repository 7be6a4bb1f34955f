"""Whether explanations hold: each check on its own, and rates that are known over 300 posts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles import Reply, Request, ScriptedServer
from tests.result_lines import line, measure, write_run
from tribunal.commands import app
from tribunal.eval.measures.explanations import CHECKS
from tribunal.eval.measures.metrics import measure_run
from tribunal.eval.report import write_report
from tribunal.prompts.policy import load_policy

POSTS = 300
POLICY = {"texts": {"policy": load_policy("h-vli").source}}
CUE = {
    "id": "C1", "type": "Direct", "target_group": "Old people", "characteristic": "age", "claim": "“useless”",
    "justification": "an insult", "category": "OtherHate", "box": None,
}  # fmt: skip
TEXT = "Old people are useless on this bus."
GOOD = "C1 stands: “useless” insults old people for their age. This is hate speech."


def checks_of(
    folder: Path, explanation: str, answer: int = 5, **other: Any
) -> dict[str, float | None]:
    """The value of each check that applies to one verdict."""
    given = {"text": TEXT, "cues": [CUE], "explanation": explanation, **other}
    found = measure(folder, [line("a", 5, answer, **given)], **POLICY)["explanations"]
    return {name: found[name]["value"] for name in CHECKS if found[name]["n"]}


def test_a_whole_explanation_passes_every_check(tmp_path: Path) -> None:
    assert checks_of(tmp_path, GOOD, clauses=["1.5"]) == dict.fromkeys(CHECKS, 1.0)


@pytest.mark.parametrize(
    ("failing", "explanation", "other"),
    [
        ("explicit", "C1 stands: “useless” insults old people.", {}),
        ("explicit", "“useless” insults old people; it is not hate speech.", {}),
        ("faithful", "“useless” and “lazy” insult old people: hate speech.", {}),
        (
            "quotes",
            "It insults old people. This is hate speech.",
            {"cues": [{**CUE, "claim": "they are no good"}]},
        ),
        ("group", "“useless” is an insult to women. This is hate speech.", {}),
        ("group", GOOD, {"cues": [{**CUE, "characteristic": "profession"}]}),
        ("agrees", GOOD, {"clauses": ["1.2"]}),
        ("agrees", GOOD, {"clauses": ["9.9"]}),
        ("agrees", GOOD, {"cues": [{**CUE, "category": "Sexist"}]}),
    ],
)
def test_each_check_fails_on_its_own_fault_alone(
    tmp_path: Path, failing: str, explanation: str, other: dict[str, Any]
) -> None:
    found = checks_of(tmp_path, explanation, **other)
    assert [name for name, value in found.items() if not value] == [failing]


@pytest.mark.parametrize(
    ("answer", "explanation", "explicit"),
    [
        (0, "Nobody is attacked, so it is not hateful.", 1.0),
        (0, "The prosecutor calls it hate speech, but this isn't hate speech.", 1.0),
        (0, "NotHate: it is about the bus.", 1.0),
        (0, "Keine Hassrede.", 1.0),
        (0, "The answer is NO.", 1.0),
        (0, "No wonder: this is hateful.", 0.0),
        (0, "It is about the bus.", 0.0),
        (2, "The defence says it is not hateful. It is sexist.", 1.0),
        (2, "It is racist.", 0.0),
    ],
)
def test_the_last_conclusion_counts(
    tmp_path: Path, answer: int, explanation: str, explicit: float
) -> None:
    assert checks_of(tmp_path, explanation, answer, cues=[])["explicit"] == explicit


def test_what_cannot_be_checked_is_left_out(tmp_path: Path) -> None:
    assert set(checks_of(tmp_path / "untold", GOOD, text=None)) == {"explicit", "group", "agrees"}
    assert set(checks_of(tmp_path / "image", GOOD, has_image=True)) == {
        "explicit",
        "group",
        "agrees",
    }
    assert set(checks_of(tmp_path / "lone", GOOD, cues=[])) == {"explicit", "quotes", "faithful"}
    withdrawn = {
        "id": "prosecutor/2", "seat": "prosecutor", "stage": "argument", "round": 2,
        "arguments": [
            {"cue_id": "C1", "target_group": "Old people", "claim": "x", "stance": "withdraw", "argument": "no"}
        ],
    }  # fmt: skip
    assert "group" not in checks_of(tmp_path / "withdrawn", GOOD, transcript=[withdrawn])
    assert checks_of(tmp_path / "refused", GOOD, "refusal") == {}  # type: ignore[arg-type]


def test_known_rates_are_recovered_and_shown(tmp_path: Path) -> None:
    """300 posts in 100 threads; each part of an explanation is left out at a known rate."""
    true = {"explicit": 0.8, "faithful": 0.7, "group": 0.9, "agrees": 0.6}
    draws, lines = random.Random(5), []
    for number in range(POSTS):
        holds = {name: draws.random() < rate for name, rate in true.items()}
        words = [
            "“useless”" if holds["faithful"] else "“worthless”",
            "insults old people." if holds["group"] else "insults somebody.",
            "This is hate speech." if holds["explicit"] else "",
        ]
        clause = "1.5" if holds["agrees"] else "1.1"
        told: dict[str, Any] = {
            "text": TEXT,
            "cues": [CUE],
            "clauses": [clause],
            "fields": {"thread": number // 3},
        }
        lines.append(line(f"p{number}", 5, 5, explanation=" ".join(words), **told))
    run = write_run(tmp_path / "court", lines, **POLICY)
    page, text, *_ = write_report([run], tmp_path / "out", cluster="thread")
    found = json.loads((tmp_path / "out" / "report.json").read_text())["runs"][0]["measured"][
        "explanations"
    ]
    for name, rate in true.items():
        low, high = found[name]["interval"]
        assert low < rate < high, name
        assert high - low < 0.15, name
        assert found[name]["n"] == POSTS
        assert (
            f"{100 * found[name]['value']:.1f} ({100 * low:.1f} to {100 * high:.1f}) of 300"
            in text.read_text()
        )
    assert found["all"]["value"] < min(found[name]["value"] for name in true)
    assert found["explicit"]["failing"][0] in {each["post_id"] for each in lines}
    assert "Do the explanations hold?" in page.read_text()


def test_a_rejudgement_without_the_quoted_words(tmp_path: Path) -> None:
    """A model that goes by the word that it quotes in four of five posts, and by the rest in the others."""
    rows = [
        f"p{number},Number {number} of the queue is a wasp and waits.,1" for number in range(POSTS)
    ]
    (tmp_path / "posts.csv").write_text("\n".join(["id,text,label", *rows]))

    def answer(request: Request) -> Reply:
        number = int(request.text.rpartition("Number ")[2].split()[0])
        hateful = "wasp" in request.text.rpartition("Number ")[2] or number % 5 == 0
        words = (
            "“wasp” decides it: hateful."
            if hateful
            else "It waits in a queue, and that is not hateful."
        )
        return Reply({"category": "Hateful" if hateful else "NotHate", "explanation": words})

    command = ["eval", "--graph", "baseline", "--set", "scheme=binary", "--model", "openai:m"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        told = [
            "--dataset",
            "table",
            "--data",
            str(tmp_path / "posts.csv"),
            "--out",
            str(whole),
            "--keep-text",
        ]
        assert CliRunner().invoke(app, [*command, *told]).exit_code == 0
        asked = len(server.requests)
        told = ["--dataset", "without-quotes", "--data", str(whole), "--out", str(cut)]
        done = CliRunner().invoke(app, [*command, *told])
        assert done.exit_code == 0, done.output
        assert len(server.requests) - asked == POSTS
        assert not any(
            "wasp" in each.text.rpartition("Number ")[2] for each in server.requests[asked:]
        )
    found = measure_run(cut, cluster="post")["explanations"]["without_quotes"]
    assert (found["n"], found["value"]) == (POSTS, 0.8)
    assert found["interval"][0] < 0.8 < found["interval"][1]
    assert (
        json.loads((whole / "metrics.json").read_text())["explanations"]["without_quotes"] is None
    )
