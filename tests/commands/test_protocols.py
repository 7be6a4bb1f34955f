"""`tribunal eval --protocol`: what is refused, and what is asked over the wire."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.court import court_script, part
from tests.doubles import Reply, Request, ScriptedServer
from tests.eval.protocols.planning import data_of, error
from tests.eval.protocols.sets import write_all
from tribunal.commands import app


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("sets"))


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--protocol", "arcade-tabel4"),
            "protocol: 'arcade-tabel4': there is none of that name; did you mean arcade-tab",
        ),
        (
            ("--protocol", "arcade-table4/k9"),
            "protocol: arcade-table4 has no condition 'k9' on fhm; it has arcade, arcade-as-code, base",
        ),
        (
            ("--protocol", "arcade-table5/k4", "--dataset", "fhm"),
            "arcade-table5 has no condition 'k4' on fhm",
        ),
        (
            ("--protocol", "arcade-table4", "--graph", "predict"),
            "graph: predict: arcade-table4 is of arcade, baseline",
        ),
        (
            ("--protocol", "arcade-table4/arcade", "--graph", "baseline"),
            "graph: baseline: arcade-table4/arcade is of arcade",
        ),
        (
            ("--protocol", "arcade-table4", "--dataset", "h-vli"),
            "dataset: h-vli: arcade-table4 is of fhm",
        ),
        (("--protocol", "arcade-table5"), "dataset: arcade-table5 is of h-vli, fhm; name one"),
        (
            ("--protocol", "paper", "--dataset", "hatecheck"),
            "protocol: paper: no paper has one for hatecheck",
        ),
        (
            ("--protocol", "paper"),
            "dataset: name one (a table of your own is `table`), or a protocol",
        ),
        (("--dataset", "fhm", "--paper-models"), "paper_models: is of a protocol; name one"),
        (
            ("--dataset", "fhm+sbic"),
            "data: fhm+sbic is several sets; give fhm=FOLDER and sbic=FOLDER",
        ),
        (("--dataset", "fhm+fhm"), "dataset: fhm+fhm: names a set twice"),
    ],
)
def test_what_contradicts_a_protocol_is_said_with_both(
    arguments: tuple[str, ...], says: str, sets: Path
) -> None:
    assert says in error("eval", "--data", str(sets / "fhm"), "--out", "run", *arguments)


def test_sets_that_can_not_be_pooled(sets: Path) -> None:
    says = error("eval", *data_of("fhm+mmsd", sets), "--out", "run")
    assert "dataset: fhm+mmsd: its sets have different tasks: hate, sarcasm" in says
    assert "labelled in different schemes" in error(
        "eval", *data_of("fhm+h-vli", sets), "--out", "run"
    )
    given = ("--data", f"sbic={sets / 'sbic'}", "--data", str(sets / "ghc"))
    assert "one set takes one path" in error(
        "eval", "--dataset", "sbic+ghc", *given, "--out", "run"
    )


# ------------------------------------------------------------------------------------------------------- over the wire


async def run(server: ScriptedServer, *arguments: str) -> Result:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(CliRunner().invoke, app, ("eval", *arguments, "--out", "run"))


def results(folder: str = "run") -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (Path(folder) / "results.jsonl").read_text("utf-8").splitlines()
    ]


def choices(request: Request) -> set[str]:
    """The categories that an answer may name."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    return set(schema["properties"]["category"]["enum"])


async def test_arcade_on_hateful_memes_has_two_rounds_and_a_binary_judge(sets: Path) -> None:
    verdict = {"category": "Hateful", "explanation": "words"}
    async with ScriptedServer(court_script(judge=verdict)) as server:
        done = await run(
            server, "--protocol", "paper", *data_of("fhm", sets), "--graph", "arcade", "--samples", "3",
            "--model", "openai:scripted",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        spoken = Counter(part(request) for request in server.requests)
        assert spoken == {
            "gatekeeper": 3,
            "investigation": 3,
            "defence": 6,
            "prosecution": 3,
            "judge": 3,
        }
        assert {frozenset(choices(each)) for each in server.requests if part(each) == "judge"} == {
            frozenset({"NotHate", "Hateful"})
        }
    assert {(line["scheme"], line["category"]) for line in results()} == {("binary", "Hateful")}
    assert "samples is 3, in the paper 500" in done.stderr
    held = json.loads(Path("run/run.json").read_bytes())
    assert (held["settings"]["rounds"], held["settings"]["scheme"], held["n"]) == (2, "binary", 3)
    assert held["protocol"]["sets"] == {
        "graph": "arcade",
        "repeats": 1,
        "scheme": "binary",
        "rounds": 2,
    }


async def test_figure_3_asks_the_baseline_at_its_temperature_over_the_pool(sets: Path) -> None:
    async with ScriptedServer(lambda request: Reply("not hate speech: words")) as server:
        done = await run(
            server, "--protocol", "antihate-figure3/baseline-t1.5", *data_of("sbic+ghc", sets), "--samples", "8",
            "--model", "openai:scripted", "--set", "archive=none.sqlite",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert [request.temperature for request in server.requests] == [1.5] * 8
    drawn = Counter(
        (line["dataset"], line["gold"]["label"])
        for line in (line["fields"] | line for line in results())
    )
    assert drawn == dict.fromkeys([("sbic", 0), ("sbic", 1), ("ghc", 0), ("ghc", 1)], 2)
    assert {line["post_id"].partition(":")[0] for line in results()} == {"sbic", "ghc"}
