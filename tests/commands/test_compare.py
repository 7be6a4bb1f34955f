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
promise = { agreement = 0.7, level = 0.9 }
settings = { scheme = "binary" }
[setups.dear]
graph = "baseline"
settings = { model = "openai:large" }
[setups.cheap]
graph = "baseline"
settings = { model = "openai:small" }
[setups.blunt]
graph = "baseline"
settings = { model = "openai:blunt" }
"""


def answer(request: Request) -> Reply:
    """Two models that see the word of hateful posts, one of which misses a post; and one that calls all hateful."""
    number = int(request.text.rpartition("number-")[2].split(".")[0])
    hateful = {"large": number % 2 == 1, "small": number % 2 == 1 and number != 1, "blunt": True}[request.model]
    said = {"category": "Hateful" if hateful else "NotHate", "explanation": f"It says so in post {number}."}
    return Reply(said, prompt_tokens=100 if request.model == "large" else 10, completion_tokens=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"p{number},number-{number}. {'x' * number},{number % 2}\n" for number in range(POSTS))
    (tmp_path / "decided.csv").write_text(f"id,text,label\n{rows}")
    (tmp_path / "setups.toml").write_text(SETUPS)
    (tmp_path / "prices.toml").write_text(
        "".join(f'["openai:{name}"]\ninput = 1.0\noutput = 1.0\n' for name in ("large", "small", "blunt"))
    )
    return tmp_path


def compared(folder: Path, *more: str) -> Result:
    given = ["--on", str(folder / "decided.csv"), "--out", str(folder / "out"), "--cluster", "post", *more]
    return CliRunner().invoke(app, ["compare", str(folder / "setups.toml"), *given])


def test_the_cheapest_of_those_that_cannot_be_told_apart_is_recommended(folder: Path) -> None:
    with ScriptedServer(answer) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"  # taken away again before the next test (conftest)
        done = compared(folder, "--prices", str(folder / "prices.toml"), "--yes", "--json")
        assert done.exit_code == 0, done.output
        asked = len(server.requests)
        again = compared(folder, "--prices", str(folder / "prices.toml"))
    held = json.loads(done.stdout)
    assert (held["recommended"], held["best"], held["like_it"]) == ("cheap", "dear", ["cheap"])
    blunt, cheap = held["setups"]["blunt"], held["setups"]["cheap"]
    assert (blunt["agreement"]["value"], blunt["missed_hate"]["value"], blunt["wrong_removals"]["value"]) == (0.5, 0, 1)
    assert cheap["missed_hate"]["value"] == 1 / 20
    assert cheap["missed_hate"]["interval"][0] < 1 / 20 < cheap["missed_hate"]["interval"][1]
    assert (cheap["calls"], cheap["tokens"]) == (1, 15)
    assert cheap["money_per_1000"] == pytest.approx(0.015)
    # Of 40 verdicts with at most one error, 0.7 is shown; of the 40 of which half are wrong, nothing: all go to people.
    promised = {
        name: (each["promised"]["shown"], each["promised"]["hours_per_1000"]) for name, each in held["setups"].items()
    }
    assert promised == {"dear": (True, 0), "cheap": (True, 0), "blunt": (False, 10)}
    assert held["setups"]["dear"]["money_per_1000"] > cheap["money_per_1000"]
    assert asked == 3 * POSTS
    assert again.exit_code == 0, again.output
    assert len(server.requests) == asked, "what was decided isn't asked again"
    assert "can't be told apart from it on these posts: cheap" in again.stdout
    page = (folder / "out" / "setups.md").read_text()
    assert "Recommended: `cheap`" in page or "Recommended: cheap" in page


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[setups.one]\ngraph = 'baseline'\n", "setups: "),
        ("[setups.one]\ngraph = 'baseline'\n[setups.two]\nmodel = 'x'\n", "setups.two.graph"),
        ("promise = { agreement = 95 }\n" + SETUPS.partition("}")[2], "promise.agreement: 95"),
        ("[setups.one\n", "can't be read"),
        ("[setups.one]\ngraph = 'baseline'\n[setups.two]\ngraph = 'baselin'\n", "baselin"),
    ],
)
def test_a_wrong_file_costs_no_call(folder: Path, text: str, wrong: str) -> None:
    (folder / "setups.toml").write_text(text)
    done = compared(folder, "--yes")
    assert done.exit_code == 2
    assert wrong in done.stderr
    assert not (folder / "out" / "setups.json").exists()
