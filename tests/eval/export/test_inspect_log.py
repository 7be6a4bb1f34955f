"""`tribunal export --to inspect`: Inspect's own package reads what is written, and its viewer shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from tests.dev_server import free_port
from tests.eval.export.test_frames import PRICES, a_run, exported
from tests.result_lines import line, write_run
from tribunal.commands import app

pytest.importorskip(
    "inspect_ai", reason="inspect-ai is not installed: pip install 'tribunal-court[inspect]'"
)


def log_of(folder: Path) -> Any:
    from inspect_ai.log import read_eval_log

    (file,) = folder.glob("*.eval")
    return read_eval_log(str(file))


def test_inspect_reads_posts_transcripts_verdicts_and_measures(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    started, finished = "2026-11-01T08:00:00+00:00", "2026-11-01T08:05:00+00:00"
    made = {"git": {"commit": "0a1b2c", "clean": False}, "packages": {"langgraph": "1.2.0"}}
    conditions: dict[str, Any] = {
        "settings": {"rounds": 2},
        "tribunal": "0.1.0",
        "environment": made,
    }
    run = a_run(tmp_path / "run", started=started, finished=finished, **conditions)
    done = exported(run, "--to", "inspect", "--prices", tmp_path / "prices.toml")
    assert done.exit_code == 0, done.output
    log = log_of(run / "export")
    assert (log.status, log.eval.task, log.eval.model) == (
        "success",
        "arcade on h-vli",
        "openai:big",
    )
    assert (log.eval.solver, log.eval.solver_args, log.eval.config.epochs) == (
        "arcade",
        {"rounds": 2},
        2,
    )
    assert (log.eval.revision.commit, log.eval.revision.dirty) == ("0a1b2c", True)
    assert log.eval.packages == {"tribunal": "0.1.0", "langgraph": "1.2.0"}
    assert (log.stats.started_at, log.stats.completed_at) == (started, finished)
    # Two verdicts with a gold label, both right; the refusal has none.
    correct, outcome = log.results.scores
    assert (
        correct.metrics["accuracy"].value,
        correct.scored_samples,
        correct.unscored_samples,
    ) == (1.0, 2, 1)
    assert {name: each.value for name, each in outcome.metrics.items()} == {
        "verdict": 2, "refusal": 1, "failure": 0, "pending": 0,
    }  # fmt: skip
    held = {(each.id, each.epoch): each for each in log.samples}
    assert held.keys() == {("p1", 1), ("p2", 1), ("p1", 2)}
    first = held["p1", 1]
    assert (first.input, first.target, first.total_time) == ("They should go home.", "Racist", 1.5)
    assert (first.scores["correct"].value, first.scores["correct"].answer) == ("C", "Racist")
    assert (first.scores["hateful"].value, first.scores["confidence"].value) == ("yes", 0.75)
    said = [(each.role, (each.metadata or {}).get("seat")) for each in first.messages]
    assert said == [
        ("user", None), ("assistant", "perspective:kold"), ("assistant", "prosecutor"), ("assistant", "defender"),
        ("assistant", "prosecutor"), ("assistant", "defender"), ("assistant", "judge"),
    ]  # fmt: skip
    assert "It sends them away." in first.messages[2].text
    assert first.messages[2].model == "openai:big"
    usage = first.model_usage["openai:big"]
    assert (usage.input_tokens, usage.output_tokens, usage.total_cost) == (
        2000,
        200,
        pytest.approx(0.006),
    )
    assert (first.metadata["topic"], first.metadata["cost"]) == ("=tea", pytest.approx(0.006))
    refused = held["p2", 1]
    assert (refused.scores.keys(), refused.output.stop_reason) == ({"outcome"}, "content_filter")
    assert "tribunal export --data" in refused.input


def test_what_a_rehearsal_decided_says_so_in_the_log_and_in_every_sample(tmp_path: Path) -> None:
    posts = tmp_path / "posts.csv"
    posts.write_text("id,text,label\na,good day,not\nb,good night,hate\n")
    command = [
        "eval",
        "--dataset",
        "table",
        "--data",
        str(posts),
        "--graph",
        "arcade",
        "--model",
        "rehearsal",
    ]
    assert CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")]).exit_code == 0
    assert exported(tmp_path / "run", "--to", "inspect", "--data", posts).exit_code == 0
    log = log_of(tmp_path / "run/export")
    assert log.eval.task == "REHEARSAL: arcade on table"
    assert "rehearsal" in log.eval.tags
    assert log.eval.metadata["rehearsed"].startswith(
        "2 of 2 results are no moderation and no measure"
    )
    assert {each.messages[0].text for each in log.samples} == {
        "Demo rules only: this is not a moderation decision."
    }
    assert {each.input for each in log.samples} == {"good day", "good night"}


def test_a_large_run_becomes_several_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.log import read_eval_log

    monkeypatch.setattr("tribunal.eval.export.inspect_log.SAMPLES_PER_LOG", 4)
    failed = line("bad", 1, "failure", explanation="no answer came")
    run = write_run(tmp_path / "run", [*(line(f"p{n}", n % 2, 1) for n in range(10)), failed], n=12)
    for _ in range(2):  # the second time replaces the logs of the first
        assert exported(run, "--to", "inspect").exit_code == 0
    logs = [read_eval_log(str(each)) for each in sorted((run / "export").glob("*.eval"))]
    assert [len(each.samples) for each in logs] == [4, 4, 3]
    samples = [sample for each in logs for sample in each.samples]
    assert sorted(each.id for each in samples) == sorted(["bad", *(f"p{n}" for n in range(10))])
    assert {each.status for each in logs} == {"cancelled"}  # the run isn't finished
    assert {each.results.scores[0].metrics["accuracy"].value for each in logs} == {0.5}
    assert [each.eval.metadata["part"][:11] for each in logs] == [
        "part 1 of 3",
        "part 2 of 3",
        "part 3 of 3",
    ]
    assert len({each.eval.eval_id for each in logs}) == 3
    (sample,) = [each for each in samples if each.id == "bad"]
    assert sample.error.message == "no answer came"


def test_no_post_names_a_file_outside_of_the_log(tmp_path: Path) -> None:
    from zipfile import ZipFile

    ids = ["../../etc/passwd", "/root", "..", "a/b", "x" * 300, "한국어"]
    run = write_run(tmp_path / "run", [line(each, 1, 1) for each in ids])
    assert exported(run, "--to", "inspect").exit_code == 0
    (file,) = (run / "export").glob("*.eval")
    names = [each for each in ZipFile(file).namelist() if each.startswith("samples/")]
    assert len(set(names)) == len(ids)
    assert all(re.fullmatch(r"samples/[^/.][^/]{0,150}\.json", each) for each in names), names
    assert sorted(each.metadata["post_id"] for each in log_of(run / "export").samples) == sorted(
        ids
    )


@contextmanager
def viewer(folder: Path) -> Iterator[str]:
    """Inspect's own viewer over a folder of logs; its address."""
    start = "import sys; from inspect_ai._cli.main import main; sys.argv[0] = 'inspect'; main()"
    command = [
        sys.executable,
        "-c",
        start,
        "view",
        "--log-dir",
        str(folder),
        "--port",
        str(free_port()),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for told in process.stdout:
                if found := re.search(r"http://[\d.]+:\d+", told):
                    yield found[0]
                    return
            raise AssertionError("the viewer ended before it was there")
        finally:
            process.kill()


@pytest.mark.long
def test_the_viewer_of_inspect_opens_it(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    assert exported(run, "--to", "inspect").exit_code == 0
    (file,) = (run / "export").glob("*.eval")
    with viewer(run / "export") as address:

        def got(path: str) -> bytes:
            with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
                held: bytes = answer.read()
                return held

        assert b"<title>Inspect View</title>" in got("/")
        (listed,) = json.loads(got("/api/logs"))["files"]
        assert listed["name"].endswith(file.name)
        assert (
            json.loads(got(f"/api/logs/{quote(listed['name'], safe='')}"))["eval"]["task"]
            == "arcade on h-vli"
        )
