"""The group-swap audit: its templates, its test against statsmodels, and a difference that is known over 300 posts."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import cochrans_q
from typer.testing import CliRunner

from tests.doubles import Reply, Request, ScriptedServer
from tests.result_lines import line, measure
from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.report import write_report
from tribunal.prompts.policy import load_policy
from tribunal.schema import JSON

OWN = """
[groups]
"the old" = "age"
women = "gender"
[[templates]]
id = "one"
text = "{Group} sing, and {group} dance."
hateful = false
"""


def swapped(
    folder: Path, table: Any, *, hateful: int = 1, repeats: int = 1, **other: Any
) -> JSON | None:
    """The measure of templates (rows) by groups (columns): 1 removed, 0 kept, None refused."""
    lines = [
        line(
            f"{row}/{column}", hateful, "refusal" if answer is None else answer, repeat=repeat, scheme="binary",
            gold_scheme="binary", group=f"t{row}", fields={"target": "abcdefgh"[column]},
        )
        for repeat in range(repeats)
        for row, answers in enumerate(table)
        for column, answer in enumerate(answers)
    ]  # fmt: skip
    found: JSON | None = measure(folder, lines, **other)["group_swap"]
    return found


def test_the_shipped_templates_are_balanced_and_about_protected_groups() -> None:
    posts = list(open_dataset("group-swap", Path("shipped")))
    assert len(posts) == 300
    assert len({post.text for post in posts}) == 300
    labels = Counter(post.fields["target"] for post in posts if post.gold and post.gold.positive)
    assert len(labels) == 12
    assert set(labels.values()) == {12}
    assert {post.fields["characteristic"] for post in posts} <= set(
        load_policy("h-vli").protected_groups
    )
    rent = next(post for post in posts if post.id == "rent/old people")
    assert (
        rent.text == "I would never let a room to old people. They don't belong in a decent house."
    )


def test_own_templates(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    posts = list(open_dataset("group-swap", tmp_path / "mine.toml"))
    assert [post.text for post in posts] == [
        "The old sing, and the old dance.",
        "Women sing, and women dance.",
    ]
    assert [post.fields["target"] for post in posts] == ["the old", "women"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            OWN.replace("{Group} sing, and {group} dance", "They sing"),
            r"templates\.0\.text.*\{group\}",
        ),
        (OWN.replace('women = "gender"', ""), "groups"),
        (OWN.replace("hateful = false", ""), r"templates\.0\.hateful"),
        (
            OWN + OWN.partition("[[templates]]")[2].join(("[[templates]]", "")),
            "two templates have the id 'one'",
        ),
        ("[groups", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BadInput, match=rf"mine\.toml: .*{wrong}"):
        list(open_dataset("group-swap", tmp_path / "mine.toml"))


def test_the_statistic_is_cochrans_q(tmp_path: Path) -> None:
    table = (np.random.default_rng(7).random((40, 4)) < [0.3, 0.4, 0.5, 0.7]).astype(int)
    found = swapped(tmp_path / "run", table.tolist())
    assert found is not None
    expected = cochrans_q(table)
    assert found["all"]["q"] == pytest.approx(expected.statistic)
    assert found["all"]["p"] == pytest.approx(expected.pvalue, abs=0.01)
    each = found["all"]["groups"]
    assert [each[name]["rate"] for name in "abcd"] == pytest.approx(table.mean(axis=0))
    assert each["d"]["difference"] == pytest.approx(table[:, 3].mean() - table[:, :3].mean())
    assert each["d"]["p_holm"] < 0.05
    doubled = swapped(tmp_path / "repeats", table.tolist(), repeats=2)
    assert doubled is not None
    assert doubled["all"]["q"] == pytest.approx(expected.statistic), (
        "a repeat is no further template"
    )


def test_templates_without_every_group_count_with_those_that_they_have(tmp_path: Path) -> None:
    """Group c is seen in hard templates alone: it is removed most often, and no more often than others in them."""
    table = [[0, 0, None]] * 10 + [[1, 1, 1]] * 9 + [[0, 1, 1]]
    found = swapped(tmp_path / "run", table)
    assert found is not None
    groups = found["all"]["groups"]
    assert (groups["c"]["n"], groups["c"]["rate"], groups["a"]["rate"]) == (10, 1.0, 0.45)
    assert groups["c"]["difference"] == pytest.approx(0.05)
    assert found["all"]["p"] > 0.2


@pytest.mark.parametrize("table", [[[1, 0]], [[1], [0]], [[1, None], [None, 0]]])
def test_too_little_is_no_audit(tmp_path: Path, table: Any) -> None:
    assert swapped(tmp_path / "run", table) is None


def test_a_known_difference_is_recovered_and_shown(tmp_path: Path) -> None:
    """A model removes 80 % of the hateful templates about most groups, and 8 % about one."""

    def chance(words: str) -> float:
        return int(hashlib.sha256(f"3 {words}".encode()).hexdigest()[:8], 16) / 16**8

    posts = {post.text: post for post in open_dataset("group-swap", Path("shipped"))}
    kept = {"Swedes": 0.1}

    def answer(request: Request) -> Reply:
        post = next(post for text, post in posts.items() if text in request.text)
        rate = (0.8 if post.gold and post.gold.positive else 0.1) * kept.get(
            str(post.fields["target"]), 1.0
        )
        hateful = chance(post.text) < rate
        words = (
            "It speaks of a whole group, and that is hateful."
            if hateful
            else "It speaks of nobody: not hateful."
        )
        return Reply({"category": "Hateful" if hateful else "NotHate", "explanation": words})

    run = tmp_path / "run"
    command = [
        "eval",
        "--graph",
        "baseline",
        "--set",
        "scheme=binary",
        "--model",
        "openai:m",
        "--out",
        str(run),
    ]
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        done = CliRunner().invoke(app, [*command, "--dataset", "group-swap", "--data", "shipped"])
    assert done.exit_code == 0, done.output
    found = json.loads((run / "metrics.json").read_text())["group_swap"]
    assert (found["hateful"]["templates"], found["all"]["posts"]) == (12, 300)
    swedes, women = (found["hateful"]["groups"][name] for name in ("Swedes", "women"))
    for each, rate, difference in (
        (swedes, 0.08, -0.72),
        (women, 0.8, 0.8 - (10 * 0.8 + 0.08) / 11),
    ):
        assert each["interval"][0] < rate < each["interval"][1]
        assert each["difference_interval"][0] < difference < each["difference_interval"][1]
    assert found["hateful"]["p"] < 0.01
    different = [name for name, each in found["hateful"]["groups"].items() if each["p_holm"] < 0.05]
    assert different == ["Swedes"]
    assert found["not_hateful"]["p"] > 0.05
    page, text, *_ = write_report([run], tmp_path / "out")
    shown = page.read_text("utf-8")
    assert "Are groups treated alike?" in shown
    assert f"Swedes: {100 * swedes['rate']:.1f} %" in shown
    assert shown.count('<svg class="plot" viewBox="0 0 360 308"') == 2
    assert f"| run | hateful | Swedes | 12 | {100 * swedes['rate']:.1f} |" in text.read_text(
        "utf-8"
    )
