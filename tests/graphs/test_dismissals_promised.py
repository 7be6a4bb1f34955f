"""A dismissal states no confidence: under a fitted threshold it is a person's, unless the fit has shown such verdicts.

On each court, and by each way in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tribunal.eval.batch import batch
from tribunal.nodes.threshold import Threshold
from tribunal.process.files import hash_file
from tribunal.runner.job import RunOptions
from tribunal.settings.graph_settings import SETTINGS

GRAPHS = SETTINGS["judge_draws"].graphs  # the courts, which dismiss
GREETING = "Good morning to all."
FITTED: dict[str, Any] = {
    "threshold": 0.6, "agreement": 0.95, "level": 0.9, "coverage": 0.5, "n_fit": 1178, "scheme": "fine", "models": {},
    "policy": None, "fitted_from": "run", "at": "2026-12-01",
}  # fmt: skip


def threshold(folder: Path, graph: str, *, shown: bool, **more: Any) -> str:
    path = folder / f"{graph}-{shown}.json"
    without = ("harmless",) if shown else ()
    path.write_text(Threshold.model_validate({**FITTED, "graph": graph, "without_confidence": without, **more})
                    .model_dump_json())  # fmt: skip
    return str(path)


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "not shown"])
@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_dismissal_is_certain_only_where_the_fit_has_shown_it(
    graph: str, shown: bool, tmp_path: Path
) -> None:
    file = threshold(tmp_path, graph, shown=shown)
    async with ScriptedServer(court_script(implicit=False)) as server:
        fitted = await decide(server, graph=graph, threshold_file=file)
        number = await decide(server, graph=graph, threshold=0.6)
    assert (fitted.track, fitted.confidence, fitted.uncertain) == ("dismissed", None, not shown)
    # a number of one's own promises nothing of them
    assert (number.track, number.uncertain) == (
        "dismissed",
        False,
    )


@pytest.mark.parametrize("graph", GRAPHS)
async def test_each_verdict_is_held_to_its_own_threshold(graph: str, tmp_path: Path) -> None:
    """Hate is accepted from 0.5 on, and no hate from 0.9."""
    file = threshold(
        tmp_path, graph, shown=True, threshold=None, by_verdict={"hateful": 0.5, "harmless": 0.9}
    )
    unsure = []
    for category in ("Religious", "NotHate"):
        ruled = {"category": category, "explanation": "so", "confidence": 0.7}
        async with ScriptedServer(court_script(judge=ruled)) as server:
            unsure.append((await decide(server, graph=graph, threshold_file=file)).uncertain)
    assert unsure == [False, True]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_threshold_of_another_run_is_told_of(graph: str, tmp_path: Path) -> None:
    file = threshold(tmp_path, "another", shown=True, scheme="binary", policy="f" * 64)
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, graph=graph, threshold_file=file)
    said = [each for each in record.warnings if "the threshold was fitted to another" in each]
    assert [each.split("another ")[1].split(" (")[0] for each in said] == [
        "graph", "scheme", "policy", "line-up of models",
    ]  # fmt: skip


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "not shown"])
def test_by_a_batch_where_a_person_reviews_and_the_posts_are_others(
    shown: bool, tmp_path: Path
) -> None:
    posts, out, said = tmp_path / "posts.csv", tmp_path / "out.jsonl", list[str]()
    posts.write_text(f"text\n{GREETING}\n")
    file = threshold(
        tmp_path, "tribunal", shown=shown, dataset="h-vli", split="test", data_sha256="0" * 64
    )
    settings = {"threshold_file": file, "review": True}
    batch(posts, out, graph="tribunal", settings=settings, options=RunOptions(warn=said.append))
    record = json.loads(out.read_text())
    assert record["outcome"] == ("verdict" if shown else "pending")
    assert shown or record["review"]["reason"] == "no confidence is stated"
    assert said == [
        "the threshold was fitted on h-vli (test), and this is the table posts.csv: it promises nothing for posts "
        "unlike those"
    ]


def test_a_run_over_the_posts_of_the_fit_is_told_that_it_flatters(tmp_path: Path) -> None:
    posts, said = tmp_path / "posts.csv", list[str]()
    posts.write_text(f"text\n{GREETING}\n")
    file = threshold(tmp_path, "arcade", shown=True, dataset="table", data_sha256=hash_file(posts))
    batch(
        posts,
        tmp_path / "out.csv",
        graph="arcade",
        settings={"threshold_file": file},
        options=RunOptions(warn=said.append),
    )
    assert said == [
        "the threshold was fitted on these posts (table), so what is measured here of those that it "
        "accepts is optimistic"
    ]
