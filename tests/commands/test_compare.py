"""`tribunal compare`: setups on the same decided posts over HTTP: what each gets wrong and costs, and the advice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.doubles import Reply, Request, ScriptedServer
from tribunal.commands import app

POSTS = 40
SETUPS = """
seconds_per_case = 36
settings = { scheme = "binary" }
[entries.dear]
graph = "baseline"
settings = { model = "openai:large" }
[entries.cheap]
graph = "baseline"
settings = { model = "openai:small" }
[entries.blunt]
graph = "baseline"
settings = { model = "openai:blunt" }
"""


def answer(request: Request) -> Reply:
    """Two models that see the word of hateful posts, one of which misses a post; and one that calls all hateful."""
    number = int(request.text.rpartition("number-")[2].split(".")[0])
    hateful = {"large": number % 2 == 1, "small": number % 2 == 1 and number != 1, "blunt": True}[
        request.model
    ]
    said = {
        "category": "Hateful" if hateful else "NotHate",
        "explanation": f"It says so in post {number}.",
    }
    return Reply(said, prompt_tokens=100 if request.model == "large" else 10, completion_tokens=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(
        f"p{number},number-{number}. {'x' * number},{number % 2}\n" for number in range(POSTS)
    )
    (tmp_path / "decided.csv").write_text(f"id,text,label\n{rows}")
    (tmp_path / "setups.toml").write_text(SETUPS)
    (tmp_path / "prices.toml").write_text(
        "".join(
            f'["openai:{name}"]\ninput = 1.0\noutput = 1.0\n'
            for name in ("large", "small", "blunt")
        )
    )
    return tmp_path


def compared(folder: Path, *more: str) -> Result:
    given = [
        "--on",
        str(folder / "decided.csv"),
        "--out",
        str(folder / "out"),
        "--cluster",
        "post",
        *more,
    ]
    return CliRunner().invoke(app, ["compare", str(folder / "setups.toml"), *given])


def test_the_cheapest_of_those_that_cannot_be_told_apart_is_recommended(folder: Path) -> None:
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = (
            f"{server.url}/v1"  # taken away again before the next test (conftest)
        )
        done = compared(folder, "--prices", str(folder / "prices.toml"), "--yes", "--json")
        assert done.exit_code == 0, done.output
        asked = len(server.requests)
        again = compared(folder, "--prices", str(folder / "prices.toml"))
    held = json.loads(done.stdout)
    assert (held["recommended"], held["best"], held["like_it"]) == ("cheap", "dear", ["cheap"])
    blunt, cheap = held["entries"]["blunt"], held["entries"]["cheap"]
    assert (
        blunt["agreement"]["value"],
        blunt["missed_hate"]["value"],
        blunt["wrong_removals"]["value"],
    ) == (0.5, 0, 1)
    assert cheap["missed_hate"]["value"] == 1 / 20
    assert cheap["missed_hate"]["interval"][0] < 1 / 20 < cheap["missed_hate"]["interval"][1]
    assert (cheap["calls"], cheap["tokens"]) == (1, 15)
    assert cheap["money_per_1000"] == pytest.approx(0.015)
    assert blunt["removed"]["value"] == 1
    assert (cheap["against_first"]["changed"], cheap["against_first"]["put_wrong"]) == (1, 1)
    assert [(each["post"], each["from"], each["to"]) for each in cheap["changes"]] == [
        ("p1", "Hateful", "NotHate")
    ]
    assert blunt["against_first"]["accuracy"]["only_first_right"] == 20
    assert (
        blunt["against_first"]["accuracy"]["p_holm"]
        < 0.001
        < cheap["against_first"]["accuracy"]["p_holm"]
    )
    assert (held["pairs"][0]["first"], held["pairs"][0]["second"]) == ("dear", "cheap")
    assert held["entries"]["dear"]["money_per_1000"] > cheap["money_per_1000"]
    assert asked == 3 * POSTS
    assert again.exit_code == 0, again.output
    assert len(server.requests) == asked, "what was decided isn't asked again"
    assert "can't be told apart from it on these posts: cheap" in again.stdout
    page = (folder / "out" / "comparison.md").read_text()
    assert "Recommended: `cheap`" in page or "Recommended: cheap" in page
    assert "| p1 | 1 | Hateful | NotHate | wrong |" in page


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[entries.one]\ngraph = 'baseline'\n", "two entries or more"),
        ("[entries.one]\ngraph = 'baseline'\n[entries.two]\nmodel = 'x'\n", "entries.two.model"),
        (
            "[entries.one]\n[entries.two]\nlog = 'log.csv'\ngraph = 'arcade'\n",
            "graph: nothing is run for a log",
        ),
        ("[entries.one]\n[entries.two]\ntheir_threshold = 0.5\n", "their_threshold: reads a log"),
        ("[entries.one]\n[entries.two]\nlog = 'log.csv'\ncolumns = { colour = 'a' }\n", "colour"),
        ("[entries.one\n", "is not TOML"),
        ("[entries.one]\ngraph = 'baseline'\n[entries.two]\ngraph = 'baselin'\n", "baselin"),
    ],
)
def test_a_wrong_file_costs_no_call(folder: Path, text: str, wrong: str) -> None:
    (folder / "setups.toml").write_text(text)
    done = compared(folder, "--yes")
    assert done.exit_code == 2
    assert wrong in done.stderr
    assert not (folder / "out" / "comparison.json").exists()


def test_a_log_is_a_row_beside_the_runs_and_may_be_the_first(folder: Path) -> None:
    rows = "".join(
        f"{number},number-{number}. {'x' * number},{number % 4 == 1:d}\n" for number in range(POSTS)
    )
    (folder / "log.csv").write_text(f"key,post,action\n{rows}")
    text = SETUPS.replace("[entries.dear]", "[entries.theirs]\nlog = 'log.csv'\ncolumns = { text = 'post', "
                          "removed = 'action' }\n[entries.dear]", 1)  # fmt: skip
    (folder / "setups.toml").write_text(text)
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        done = compared(folder, "--yes", "--json")
        assert done.exit_code == 0, done.output
        assert len(server.requests) == 3 * POSTS
    held = json.loads(done.stdout)
    assert list(held["entries"]) == ["theirs", "dear", "cheap", "blunt"]
    theirs, dear = held["entries"]["theirs"], held["entries"]["dear"]
    assert (theirs["kind"], theirs["posts"], theirs["agreement"]["value"], theirs["missed_hate"]["value"]) == (
        "log", POSTS, 0.75, 0.5,
    )  # fmt: skip
    assert (theirs["removed"]["value"], theirs["calls"], theirs["hours_per_1000"]) == (
        0.25,
        None,
        None,
    )
    assert (dear["against_first"]["changed"], dear["against_first"]["put_right"]) == (10, 10)
    assert (dear["changes"][0]["post"], dear["changes"][0]["from"], dear["changes"][0]["to"]) == (
        "p11", "kept", "Hateful",
    )  # fmt: skip
    assert held["best"] == "dear", "a log isn't recommended"
    assert (
        held["removal"]["theirs"]["removed"],
        held["removal"]["theirs"]["nearest"]["removed"],
    ) == (10, 20)
    differing = (folder / "out" / "differences.csv").read_text().splitlines()
    assert (differing[0], len(differing)) == ("log,id,removed_by,score,probability", 11)


def test_a_log_of_other_posts_costs_no_call(folder: Path) -> None:
    (folder / "log.csv").write_text("id,removed\nq1,yes\n")
    done = compared(folder, "--log", str(folder / "log.csv"), "--yes")
    assert done.exit_code == 2
    assert "has none of the posts of table, by id or text" in done.stderr
    assert not (folder / "out").exists()
