"""A run on a cluster is harmed in every way, and its output holds every post once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request
from tests.eval.ray.cluster import harmed, places, posts_file, started
from tests.openai_server import OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def ended(posts: Path, out: Path | str, *more: str) -> tuple[int, str, str]:
    """How a command ended, and what it said and complained of. It is given again where a loaded machine was too slow
    for Ray, whose processes have 30 s to start: nothing was decided then."""
    for _ in range(3):
        run = started(posts, out, "--engine", "ray", "--workers", "2", *more)
        said, complaints = run.communicate()
        if "timed out during startup" not in complaints:
            break
    return run.returncode, said, complaints


def test_a_worker_a_node_and_the_driver_are_killed_and_every_post_is_there_once() -> None:
    took = harmed(1200, 0)
    assert (took["lines"], took["twice"], took["exits"]) == (1200, 0, [-9, 0]), took["said"]
    # what was in flight when somebody was killed, and nothing else
    assert took["served"] <= 1200 + 64 + 2 * 32


def test_the_budget_is_kept_whoever_is_killed() -> None:
    took = harmed(1200, 900)
    assert took["served"] <= 900, took["said"]
    assert (took["twice"], took["exits"]) == (0, [-9, 1])
    assert took["lines"] > 600
    assert "--run-max-calls more than 900" in took["said"][1]


def test_an_outage_stops_the_run_and_afterwards_it_goes_on(tmp_path: Path) -> None:
    answer, away = court_script(), True

    def script(request: Request) -> Reply | Fault:
        if away or re.search(r"word-(7|31)\.", request.text):
            return Fault(status=500)
        return answer(request)

    posts, out = posts_file(tmp_path, 60), tmp_path / "out.jsonl"
    with OpenAIServer(script):
        _, said, complaints = ended(posts, out, "--set", "attempts=1")
        assert re.search(r"1\d posts in a row had no answer", complaints), complaints
        assert json.loads(said)["done"] == 0
        away = False
        _, said, complaints = ended(posts, out, "--set", "attempts=1")
    assert json.loads(said)["outcomes"] == {"negative": 58, "failure": 2}, complaints
    assert places(tmp_path / "out.jsonl.run") == dict.fromkeys(range(60), 1)


def test_a_rest_that_one_worker_is_told_of_is_kept_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one key")
    monkeypatch.setenv("OPENAI_API_KEY_1", "another key")
    # the key that is to rest, and of every request after
    answer, rested = (
        court_script(),
        list[str](),
    )

    def script(request: Request) -> Reply | Fault:
        key = request.headers["authorization"]
        if rested:
            rested.append(key)
        elif len(server.requests) > 40:
            rested.append(key)
            return Fault(status=429, headers={"retry-after": "600"})
        return answer(request)

    posts, out = posts_file(tmp_path, 120), tmp_path / "out.jsonl"
    with OpenAIServer(script, latency=0.2) as server:
        _, said, complaints = ended(posts, out, "--concurrency", "8")
    assert json.loads(said)["done"] == 120, complaints
    # Those that were on their way. A worker that isn't told of it sends every second request of its half by this key.
    assert rested[1:].count(rested[0]) < 12


def test_a_folder_of_parts_in_an_object_store_goes_on_from_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.server import ThreadedMotoServer
    from pyarrow.fs import S3FileSystem

    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    store.start()
    host, port = store.get_host_and_port()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    try:
        s3 = S3FileSystem(
            endpoint_override=f"http://{host}:{port}",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        s3.create_dir("bucket")
        posts, out = posts_file(tmp_path, 60), "s3://bucket/decided/"
        with OpenAIServer(court_script()) as server:
            status, said, complaints = ended(posts, out, "--run-max-calls", "25")
            assert status == 1, complaints
            assert json.loads(said)["done"] == 25
            status, said, complaints = ended(posts, out)
            assert status == 0, complaints
            assert len(server.requests) == 60
        found = pq.read_table("bucket/decided", filesystem=s3).to_pylist()
        manifest = json.loads(s3.open_input_file("bucket/decided/_manifest.json").read())
        assert json.loads(s3.open_input_file("bucket/decided/_run.json").read())["finished"]
    finally:
        store.stop()
    assert sorted(row["id"] for row in found) == sorted(f"post-{place}" for place in range(60))
    assert {row["outcome"] for row in found} == {"verdict"}
    assert sum(part["rows"] for part in manifest["parts"]) == 60
