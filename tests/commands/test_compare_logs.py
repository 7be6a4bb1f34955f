"""`tribunal compare --log`: another system's log beside decisions that exist, from a table, a run and the store."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.service.at_desk import count_rehearsed
from tests.service.conftest import serving
from tests.service.live import sqlite
from tribunal.commands import app

# What we say of ten posts; they removed three: p0, p1 and p9.
OURS = [(f"p{number}", f"text {number}", round(0.95 - number / 10, 2)) for number in range(10)]
THEIRS = {"p0": 0.99, "p1": 0.9, "p9": 0.85}


def compare(log: Path, *arguments: str | Path) -> tuple[int, str, str]:
    given = ["--log", log, "--out", log.parent / "out", *arguments]
    done = CliRunner().invoke(app, ["compare", *map(str, given)])
    return done.exit_code, done.stdout, done.stderr


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    rows = [
        {"id": name, "text": text, "outcome": "verdict", "hateful": p >= 0.5, "probability": p}
        for name, text, p in OURS
    ]
    failed = {
        "id": "p10",
        "text": "text 10",
        "outcome": "failure",
        "hateful": None,
        "probability": None,
    }
    return table(tmp_path / "ours.csv", [*rows, failed])


def score(name: str) -> float:
    return THEIRS.get(name, 0.1)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("by", ["id", "text"])
def test_the_threshold_that_removes_as_much(
    kind: str, by: str, decided: Path, tmp_path: Path
) -> None:
    rows = [{by: {"id": name, "text": text}[by], "score": score(name)} for name, text, _ in OURS]
    log = table(
        tmp_path / f"log.{kind}",
        [*rows, rows[0], {by: {"id": "p10", "text": "text 10"}[by], "score": 0.9}],
    )
    code, said, _ = compare(log, "--decisions", decided, "--their-threshold", "0.8")
    assert code == 0, said
    assert (
        "10 posts are judged by both; left out: 1 (a post again), 1 (no decision of ours)." in said
    )
    assert "They removed 3 (30.0%" in said
    assert "Threshold 0.7: posts of this probability or more are removed." in said
    assert "Removed only by ours: 1. Removed only by theirs: 1." in said
    assert '"scoreThreshold": 0.7' in said
    differing = list(
        csv.DictReader((tmp_path / "out" / "differences.csv").read_text().splitlines())
    )
    named = {"id": ("p2", "p9"), "text": ("row 3", "row 10")}[by]
    assert [(each["id"], each["removed_by"]) for each in differing] == [
        (named[0], "ours"),
        (named[1], "theirs"),
    ]
    assert [(each["score"], each["probability"]) for each in differing] == [
        ("0.1", "0.75"),
        ("0.85", "0.05"),
    ]
    code, said, _ = compare(log, "--decisions", decided, "--their-threshold", "0.8", "--json")
    held = json.loads(said)
    told = held["removal"]["log"]
    assert (told["nearest"]["threshold"], told["posts"], told["other_side"]) == (0.7, 10, None)
    assert {
        name: (row["posts"], row["removed"]["value"]) for name, row in held["entries"].items()
    } == {
        "decisions": (10, 0.3),
        "log": (10, 0.3),
    }
    assert told["interval"][0] < 0.7 < told["interval"][1]


@pytest.mark.parametrize(
    ("removed", "options"),
    [
        (lambda name: "yes" if name in THEIRS else "no", ()),
        (lambda name: "Removed" if name in THEIRS else "kept", ()),
        (lambda name: 1 if name in THEIRS else 0, ()),
        (
            lambda name: "ban" if name in THEIRS else "",
            ("--removed-as", "ban", "--removed-as", "hide"),
        ),
    ],
)
def test_a_log_that_says_what_was_removed(
    removed: Any, options: tuple[str, ...], decided: Path, tmp_path: Path
) -> None:
    log = table(
        tmp_path / "log.csv", [{"post": name, "action": removed(name)} for name, *_ in OURS]
    )
    columns = ("--log-column", "id=post", "--log-column", "removed=action")
    code, said, _ = compare(log, "--decisions", decided, *columns, *options)
    assert (code, "Threshold 0.7:" in said, "They removed 3" in said) == (0, True, True), said


def test_perspective_s_own_answers_are_a_log(decided: Path, tmp_path: Path) -> None:
    rows = [
        {
            "comment": {"text": text},
            "attributeScores": {"TOXICITY": {"summaryScore": {"value": score(name)}}},
        }
        for name, text, _ in OURS
    ]
    log = table(tmp_path / "log.jsonl", rows)
    columns = (
        "--log-column",
        "text=comment.text",
        "--log-column",
        "score=attributeScores.TOXICITY.summaryScore.value",
    )
    code, said, _ = compare(log, "--decisions", decided, *columns, "--their-threshold", "0.8")
    assert (code, "Threshold 0.7:" in said) == (0, True), said


def test_scores_too_coarse_to_match_are_said_to_be(decided: Path, tmp_path: Path) -> None:
    decided.write_text(decided.read_text().replace("0.75", "0.85"))
    log = table(
        tmp_path / "log.csv",
        [{"id": name, "score": 1 - number / 10} for number, (name, *_) in enumerate(OURS)],
    )
    code, said, _ = compare(log, "--decisions", decided, "--their-threshold", "0.9")
    assert code == 0
    assert "No threshold removes just as many: many posts have the same probability." in said
    assert "On the other side: threshold 0." in said


async def test_decisions_of_the_store_are_found_by_id_and_by_text(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    posts = [
        "Immigrants are vermin and should be deported.",
        "Good morning!",
        "Lovely weather today.",
    ]
    async with serving(database, graph="baseline") as client:
        for number, text in enumerate(posts):
            named = {"post_id": "p0"} if number == 0 else {}
            assert (
                await client.post("/v1/judge?wait=60", json={"text": text, **named})
            ).status_code == 200
        await count_rehearsed(client.app)  # type: ignore[attr-defined]
    rows = [
        {"id": "p0", "text": "", "removed": "yes"},
        *({"id": "", "text": each, "removed": "no"} for each in posts[1:]),
    ]
    log = table(tmp_path / "log.csv", rows)
    code, said, aside = await asyncio.to_thread(compare, log, "--database", database)
    assert (code, "3 posts are judged by both." in said, "They removed 1" in said) == (
        0,
        True,
        True,
    ), said + aside
    assert "the rehearsal model took part in 3 of these decisions" in aside


def test_decisions_of_a_run(tmp_path: Path) -> None:
    table(tmp_path / "posts.csv", [{"id": name, "text": text} for name, text, _ in OURS])
    out = tmp_path / "out.jsonl"
    done = CliRunner().invoke(
        app, ["batch", str(tmp_path / "posts.csv"), "--out", str(out), "--graph", "baseline"]
    )
    assert done.exit_code == 0, done.stderr
    log = table(tmp_path / "log.csv", [{"id": name, "removed": "no"} for name, *_ in OURS])
    for decisions in (out, tmp_path / "out.jsonl.run"):
        code, said, _ = compare(log, "--decisions", decisions)
        assert (code, "10 posts are judged by both." in said) == (0, True), said


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        ([{"a": 1}], (), "log.csv row 1: has no column 'text' and no 'id'"),
        ([{"id": "p0"}], (), "has no column 'removed', and no --their-threshold is given"),
        ([{"id": "p0"}], ("--their-threshold", "0.5"), "has no column 'score'; it has id"),
        (
            [{"id": "p0", "score": "high"}],
            ("--their-threshold", "0.5"),
            "score = 'high': is not a number",
        ),
        ([{"id": "p0", "removed": "perhaps"}], (), "removed = 'perhaps': is not 1 or true"),
        ([{"id": "zz", "removed": "no"}], (), "none of its posts is decided in"),
        ([{"id": "p0", "removed": "no"}], ("--log-column", "colour=a"), "colour"),
        (
            [{"id": "p0", "removed": "no"}],
            ("--log-column", "a"),
            "log-column: 'a': give it as ROLE=NAME",
        ),
    ],
)
def test_a_wrong_log_is_one_line(
    rows: list[dict[str, Any]], options: tuple[str, ...], why: str, decided: Path, tmp_path: Path
) -> None:
    log = table(tmp_path / "log.csv", rows)
    code, said, aside = compare(log, "--decisions", decided, *options)
    assert (code, said, aside.count("\n")) == (2, "", 1), aside
    assert why in aside


def test_wrong_files_are_one_line(decided: Path, tmp_path: Path) -> None:
    log = table(tmp_path / "log.csv", [{"id": "p0", "removed": "no"}])
    other = table(tmp_path / "other.csv", [{"id": "p0"}])
    wrong: dict[tuple[Path | str, ...], str] = {
        (tmp_path / "gone.csv", "--decisions", decided): "gone.csv",
        (log, "--decisions", tmp_path / "gone.csv"): "gone.csv",
        (log, "--decisions", other): "has no column 'outcome' (give a run's folder",
        (log, "--decisions", decided, "--on", decided): "leave out --on",
        (log, "--decisions", decided, "--prompts", "shipped"): "on: a comparison needs posts",
    }
    for (file, *options), why in wrong.items():
        code, _, aside = compare(Path(file), *options)
        assert (code, aside.count("\n"), why in aside) == (2, 1, True), aside
