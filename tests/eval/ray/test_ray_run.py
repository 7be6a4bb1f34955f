"""`--engine ray` on one machine: the same run as this machine's own, and no key in what Ray writes."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.court import court_script
from tests.eval.ray.cluster import started
from tests.eval.runs.test_server_restarts import KILLS, Restarted
from tests.openai_server import OpenAIServer
from tribunal.errors import BadInput
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.ray.cluster import join_cluster
from tribunal.runner.job import RunEngine

KEY, OTHER_KEY = "sk-marker-of-a-key-7f3a", "sk-marker-of-another-1c9e"


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Ray writes its logs, of a machine with one key in `.env` and one in its environment. A short path, since
    sockets lie there."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    Path(".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", OTHER_KEY)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def table(folder: Path, number: int) -> Path:
    """Posts, the last three of which have the ids of the first."""
    rows = [
        {"id": f"post-{place % (number - 3)}", "text": f"word-{place}.", "likes": place}
        for place in range(number)
    ]
    path = folder / "posts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def told(run: Path) -> list[tuple[int, str]]:
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text("utf-8").splitlines()]
    return sorted((line["place"], line["post_id"]) for line in lines)


@pytest.mark.long
def test_a_run_begun_by_one_engine_goes_on_by_the_other_and_no_key_is_written_down(
    tmp_path: Path, sessions: Path
) -> None:
    posts, out = table(tmp_path, 40), tmp_path / "out.csv"
    with OpenAIServer(court_script()) as server:
        begun = started(posts, out, "--run-max-calls", "10")
        begun.communicate()
        assert len(told(tmp_path / "out.csv.run")) == len(server.requests) == 10
        run = started(posts, out, "--engine", "ray", "--workers", "2")
        said, complaints = run.communicate()
        assert run.returncode == 0, complaints
        asked = len(server.requests)
    assert asked == 40
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    summary = json.loads(said)
    assert (summary["done"], summary["calls"], summary["stopped"]) == (40, 30, None)
    assert told(tmp_path / "out.csv.run") == [
        (place, sample.id) for place, sample in enumerate(PostTable(posts))
    ]
    assert [row.split(",")[1] for row in out.read_text().splitlines()] == [
        "text",
        *(f"word-{at}." for at in range(40)),
    ]
    written = [path for path in sessions.rglob("*") if path.is_file()]
    assert any("driver" in path.name for path in written)
    for key in (KEY, OTHER_KEY):
        assert not [path for path in written if key.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_comparison_is_the_same_by_either_engine_on_one_cluster(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"post-{at},word-{at}.,{('hate', 'not')[at % 2]}\n" for at in range(80))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    schemes = "".join(
        f'[entries.{name}]\nsettings = {{ scheme = "{name}" }}\n' for name in ("binary", "fine")
    )
    (tmp_path / "setups.toml").write_text(
        f'graph = "baseline"\nsettings = {{ model = "openai:scripted" }}\n{schemes}'
    )
    with OpenAIServer(court_script()) as server:
        for out in ("embedded", "ray"):
            command = [sys.executable, "-m", "tribunal", "compare", str(tmp_path / "setups.toml"), "--engine", out,
                       "--on", str(tmp_path / "posts.csv"), "--out", str(tmp_path / out), "--yes"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        assert len(server.requests) == 2 * 2 * 80
    for cell in ("binary", "fine"):
        assert told(tmp_path / "ray" / cell) == told(tmp_path / "embedded" / cell)
        measured = [
            json.loads((tmp_path / out / cell / "metrics.json").read_text())
            for out in ("embedded", "ray")
        ]
        for what in ("n", "accuracy", "confusion", "clusters"):
            assert measured[0][what] == measured[1][what]
    assert len([*sessions.rglob("gcs_server.out")]) == 1  # one cluster was started


@pytest.mark.long
async def test_a_run_under_ray_outlives_five_restarts_of_its_server(
    tmp_path: Path, sessions: Path
) -> None:
    restarted, over = Restarted(), asyncio.Event()
    async with OpenAIServer(restarted.script) as first:
        port = first.port
    posts = table(tmp_path, 20 * KILLS + 60)
    serving = asyncio.ensure_future(restarted.serve(port, over))
    more = (
        "--engine",
        "ray",
        "--workers",
        "2",
        "--concurrency",
        "4",
        "--wait-for-server",
        "5m",
        "--set",
        "attempts=1",
    )
    run = started(posts, tmp_path / "out.csv", *more)
    said, complaints = await asyncio.to_thread(run.communicate)
    over.set()
    await serving
    assert run.returncode == 0, complaints
    assert json.loads(said)["outcomes"].keys() <= {"positive", "negative"}
    assert told(tmp_path / "out.csv.run") == [
        (place, sample.id) for place, sample in enumerate(PostTable(posts))
    ]
    assert {each: count for each, count in restarted.answered.items() if count > 1} == {}
    assert complaints.count("the run pauses until its server is back, for 5 min at most") == KILLS
    assert complaints.count("its server answers again since") == KILLS


def test_an_address_of_the_ray_client_is_refused_with_the_way_out() -> None:
    with (
        pytest.raises(
            BadInput, match=r"address: ray://head:10001: is the Ray Client's.*--address auto"
        ),
        join_cluster(RunEngine("ray", None, "ray://head:10001")),
    ):
        pass
