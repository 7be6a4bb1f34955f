"""Verdicts under two policies: which should have changed by each kind of evidence, and rates known over 300 posts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles import Reply, Request, ScriptedServer
from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.measures.rule_change import measure_rule_change
from tribunal.eval.report import write_report
from tribunal.prompts.policy import load_policy
from tribunal.schema import JSON

POSTS = 300
OLD = load_policy("h-vli").source
AGE = '[[clauses]]\nid = "1.6"\ncategory = "OtherHate"\nrule = "An insult because of age."\n'
# The shipped policy with a clause of its own on age, and in other ways.
ADDED = OLD.replace("[translations.de]\n", f"{AGE}\n[translations.de]\n", 1)
REWORDED = OLD.replace("body size or social class.", "body size.", 1)
ELSEWHERE = REWORDED.replace(
    "ideology or their position", "ideology, their club or their position", 1
)


def run(folder: Path, policy: str, lines: list[dict[str, Any]], **settings: Any) -> RunColumns:
    texts = {"texts": {"policy": policy}, "settings": {"policy": "ours.toml", **settings}}
    return read_columns(write_run(folder, lines, **texts))


def change(
    tmp_path: Path, old: Any, new: Any, before: str = OLD, after: str = ADDED, **settings: Any
) -> JSON | None:
    """The rule change between posts a, b, …; a post is its verdict, or its verdict and what else its line holds."""

    def lines(posts: Any) -> list[dict[str, Any]]:
        told = [each if isinstance(each, tuple) else (each, {}) for each in posts]
        return [
            line(name, **{"gold": 0, "answer": answer, **more})
            for name, (answer, more) in zip("abcdef", told, strict=False)
        ]

    first = run(tmp_path / "old", before, lines(old), **settings)
    return measure_rule_change(first, run(tmp_path / "new", after, lines(new), **settings))


def fields(**held: Any) -> dict[str, Any]:
    return {"fields": held}


@pytest.mark.parametrize(
    ("by", "old", "new", "after"),
    [
        # a should change and does, b should and doesn't, c should not and does, d should not and doesn't.
        ("changes", [(0, fields(changes=each)) for each in ("yes", 1, "No", False)], (5, 0, 5, 0), ADDED),
        ("gold", (0, 0, 0, 0), [(5, {"gold": 5}), (0, {"gold": 5}), 5, 0], ADDED),
        ("clause", [(0, fields(clause=each)) for each in ("1.6", ["1.6"], "1.5, 1.6", "")], (5, 0, 5, 0), ADDED),
        ("cited", [(5, {"clauses": each}) for each in (["1.5"], ["1.5"], ["1.1", "1.5"], ["1.2"])],
         (0, 5, 0, 5), REWORDED),
    ],
)  # fmt: skip
def test_which_should_have_changed(tmp_path: Path, by: str, old: Any, new: Any, after: str) -> None:
    found = change(tmp_path, old, new, after=after)
    assert found is not None
    assert (found["by"], found["one_clause"], found["clauses_shown"]) == (by, True, True)
    assert [(found[name]["n"], found[name]["value"]) for name in ("should", "should_not")] == [
        (2, 0.5),
        (2, 0.5),
    ]
    assert (found["stuck"], found["beside"], found["difference"]["difference"]) == (
        ["b"],
        ["c"],
        0.0,
    )


def test_what_differs_between_the_policies(tmp_path: Path) -> None:
    found = change(tmp_path / "1", (0,), (5,), before=ADDED, after=ELSEWHERE)
    assert found is not None
    assert [found[name] for name in ("added", "removed", "reworded", "elsewhere")] == [
        [], ["1.6"], ["1.5"], ["exclusions"],
    ]  # fmt: skip
    assert (found["one_clause"], found["by"], found["n"]) == (False, None, 0)
    hidden = change(tmp_path / "2", (0,), (5,), policy_clauses=False)
    assert hidden is not None
    assert hidden["clauses_shown"] is False
    assert change(tmp_path / "3", (0,), (5,), after=OLD) is None, "the same policy"
    assert change(tmp_path / "4", (0,), (5,), after=f"# the same rules\n{OLD}") is None


def test_known_rates_are_recovered_and_shown(tmp_path: Path) -> None:
    """A model follows the new clause in 7 of 10 posts, and changes 1 in 20 others."""
    (tmp_path / "added.toml").write_text(ADDED, "utf-8")
    (tmp_path / "old.toml").write_text(f"{OLD}\n# ours\n", "utf-8")
    ages = [number % 2 == 0 for number in range(POSTS)]
    rows = [
        f"p{n},Number {n}. He is {'too old' if age else 'too slow'}.,0,{'1.6' * age}"
        for n, age in enumerate(ages)
    ]
    (tmp_path / "posts.csv").write_text("\n".join(["id,text,label,clause", *rows]))
    draws = random.Random(3)
    follows = [draws.random() < (0.7 if age else 0.05) for age in ages]

    def answer(request: Request) -> Reply:
        number = int(request.text.rpartition("Number ")[2].partition(".")[0])
        is_new = "An insult because of age" in request.text
        hateful = is_new and follows[number]
        reason = (
            "It insults an old man, and that is hateful."
            if hateful
            else "It is about speed, so it is not hateful."
        )
        return Reply({"category": "Hateful" if hateful else "NotHate", "explanation": reason})

    setups = "".join(
        f'[entries.{name}]\nsettings = {{ policy = "{tmp_path}/{name}.toml" }}\n'
        for name in ("old", "added")
    )
    head = 'graph = "baseline"\nsettings = { scheme = "binary", model = "openai:m" }\n'
    (tmp_path / "setups.toml").write_text(head + setups)
    command = [
        "compare",
        str(tmp_path / "setups.toml"),
        "--on",
        str(tmp_path / "posts.csv"),
        "--cluster",
        "post",
    ]
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        done = CliRunner().invoke(
            app, [*command, "--out", str(tmp_path / "out"), "--yes", "--json"]
        )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["rule_changes"]
    assert (found["first"], found["second"], found["added"], found["by"]) == (
        "old",
        "added",
        ["1.6"],
        "clause",
    )
    true = {"should": 0.7, "should_not": 0.05, "difference": 0.65}
    for name, rate in true.items():
        low, high = found[name]["interval"]
        assert low < rate < high, name
        assert high - low < 0.2, name
    low, high = found["should"]["interval"]
    shown = f"{100 * found['should']['value']:.1f} ({100 * low:.1f} to {100 * high:.1f}) of 150"
    assert shown in (tmp_path / "out" / "comparison.md").read_text("utf-8")
    page, text, *_ = write_report(
        [tmp_path / "out" / "old", tmp_path / "out" / "added"], tmp_path / "r", cluster="post"
    )
    assert shown in text.read_text("utf-8")
    assert "Do verdicts follow a changed rule?" in page.read_text("utf-8")
