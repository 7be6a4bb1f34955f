"""What a worker of a cluster does, without a cluster."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tribunal.eval.ray.cluster import ClusterWorker
from tribunal.runner.job import RunJob, order_of_job
from tribunal.runner.pins import collect_pins, describe_surroundings, pins_of_run
from tribunal.schema import JSON
from tribunal.settings.context import context_from


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker changes its folder and quiets the log of its process, which here is that of the tests."""
    log = logging.getLogger("tribunal")
    level = log.level
    monkeypatch.chdir(".")
    yield
    log.setLevel(level)


async def worker(folder: Path, **differs: object) -> ClusterWorker:
    """A worker whose leader has found these pins where it is."""
    context = context_from({"model": "openai:scripted", "scheme": "binary", "attempts": 1})
    run = {
        **describe_surroundings("baseline", context),
        **await collect_pins("baseline", context),
        **differs,
    }
    order, _ = order_of_job(
        RunJob("baseline", context, samples=(), count=0), None, pins_of_run(run)
    )
    return ClusterWorker(order.model_dump(mode="json"), str(folder))


JOB: JSON = {"number": 0, "place": 3, "repeat": 0, "max_tokens": None}
POST = json.dumps({"id": "post-3", "text": "word-3."}).encode()


async def test_a_post_comes_back_as_its_line_and_a_rest_is_told(tmp_path: Path) -> None:
    async with OpenAIServer(court_script()) as server:
        there = await worker(tmp_path)
        run = asyncio.ensure_future(there.run())
        assert await there.receive() == [({"ready": True}, b"")]
        await there.send(JOB, POST)
        [told] = await there.receive()
        assert told is not None
        answer, line = told
        assert len(server.requests) == 1
        run.cancel()
    assert answer == {"number": 0, "end": "decided", "unkept": 0, "slowed": {}}
    held = json.loads(line)
    assert (held["place"], held["repeat"], held["post_id"], held["outcome"]) == (
        3,
        0,
        "post-3",
        "verdict",
    )


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        (
            {"tribunal": "0.0.1"},
            r'machine .*: tribunal: then "0\.0\.1", now .*in a process that decides posts',
        ),
        ({"policy": {"name": "h-vli", "sha": "another"}}, r'machine .*: sha: then "another", now '),
    ],
)
async def test_a_machine_that_differs_ends_the_run_and_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: JSON, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    there = await worker(tmp_path, **differs)
    await there.run()
    told, end = await there.receive()
    assert told is not None
    assert re.match(said, told[0]["bad_input"])
    assert end is None
