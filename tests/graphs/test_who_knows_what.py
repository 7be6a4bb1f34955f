"""Who is told which part of the policy: over the wire, of every seat, in every graph and mode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from PIL import Image

from tests.golden.test_requests import CASES, asked
from tests.tables import table
from tribunal.graphs import GRAPHS
from tribunal.settings.names import Mode

POLICY = """
name = "marked"
definition = "WORDS-OF-THE-DEFINITION."
exclusions = "WORDS-OF-THE-EXCLUSIONS."
expression = "WORDS-OF-THE-EXPRESSION."
excuses = "WORDS-OF-THE-EXCUSES."
together = "WORDS-OF-TOGETHER."
protected_groups = ["religion", "race"]
fine = [
    { name = "NotHate", meaning = "nothing" },
    { name = "Religious", meaning = "an attack", examples_for = ["WORDS-OF-THE-EXAMPLES."] },
]
binary = [
    { name = "NotHate", meaning = "nothing" },
    { name = "Hateful", meaning = "an attack", examples_for = ["WORDS-OF-THE-EXAMPLES."] },
]
"""
NOTHING: frozenset[str] = frozenset()
CORE = frozenset({"definition", "exclusions"})
ARGUED = CORE | {"expression"}
EXCUSES, TOGETHER = frozenset({"excuses"}), frozenset({"together"})
ALL = ARGUED | EXCUSES | TOGETHER
# By the heading of a prompt. The paper's Core Definition (ARCADE, D.3) goes to every seat of the court.
TOLD = {
    "the-prosecutors-rapid-scan": CORE,
    "the-prosecutor-in-a-fast-track-trial": ARGUED | TOGETHER,
    "the-prosecutor-investigating": ARGUED | TOGETHER,
    "the-prosecutor-in-round": ARGUED,
    "the-defender": ARGUED | EXCUSES,
    "the-judge-of-the-debate": NOTHING,  # of PREDICT, which has no policy
    "the-judge-of-the-answers": ALL,  # of mv_debate
    "the-judge": ALL | {"examples"},
    "the-safety-classifier": CORE | {"examples"},
    "the-first-look": ALL,
    "an-annotator": NOTHING,
    "the-debater": NOTHING,
    "one-answer": ARGUED,  # AntiHateAgent's baseline: as its researcher
    "the-researcher": ARGUED,  # of a policy that the run names; of the shipped one nothing
    "the-final-judgement": ARGUED,
    "the-surface-analyst": ALL,
    "the-deep-reasoner": ALL,
    "the-modality-contrast": ALL,
    "the-social-contextualist": ALL,
    "the-reflection": ALL,
    "the-summary": ALL | {"examples"},
    "the-classifier": ALL | {"examples"},
    "an-agent-among-equals": ALL | {"examples"},
}
# The modes that `CASES` leave out, and what else each needs.
MODES: dict[str, dict[str, dict[str, Any]]] = table(__file__, "MODES")
PLAYED: list[tuple[str, dict[str, Any]]] = [
    (name, {}) for name, (_, settings, _) in CASES.items() if "task" not in settings
] + [
    (name, {"mode": mode, **more}) for name, modes in MODES.items() for mode, more in modes.items()
]


def test_every_graph_and_mode_is_played() -> None:
    assert {CASES[name][0] for name, _ in PLAYED} == set(GRAPHS)
    assert {{**CASES[name][1], **more}.get("mode", "full") for name, more in PLAYED} == {
        *get_args(Mode)
    }


@pytest.mark.parametrize(("name", "settings"), PLAYED, ids=lambda each: str(each))
async def test_each_seat_is_told_its_part_of_the_policy_and_no_more(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "marked.toml").write_text(POLICY, "utf-8")
    Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
    settings = (
        settings
        if name.startswith(("predict", "antihate"))
        else {"policy_examples": True, **settings}
    )
    sent = await asked(
        name, str(tmp_path / "a.png"), image=True, policy=str(tmp_path / "marked.toml"), **settings
    )
    assert sent
    for part, request in sent.items():
        seat = next(heading for heading in TOLD if re.match(heading, part))
        words = "\n".join(str(message["content"]) for message in request.body["messages"])
        told = {found.lower() for found in re.findall(r"WORDS-OF-(?:THE-)?([A-Z]+)", words)}
        assert told == TOLD[seat], part
