"""What a worker of a cluster does with a batch, without a cluster."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.court import court_script
from tribunal.context import context_from
from tribunal.eval.doubles.scripted import ScriptedServer
from tribunal.eval.ray.clerk import Clerk
from tribunal.eval.ray.worker import Worker, WorkOrder
from tribunal.eval.runs.deciding import Order
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.outage import LOST_IN_A_ROW
from tribunal.eval.runs.parts import Parts, Shape, gather
from tribunal.schema import JSON


class Near:
    """A clerk as the handle of its actor shows it."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self._clerk, name))


def work(folder: Path, **other: Any) -> WorkOrder:
    context = context_from({"model": "openai:scripted", "scheme": "binary", "attempts": 1})
    order, _ = Order.of("baseline", context, keep_text=False, keep=None, prices=None)
    parts = Parts.of_run(folder)
    attempt = parts.begin(4).attempt
    told = WorkOrder(
        order=order, parts=parts.at.path, spool=str(folder / "spool"), shape=Shape(), attempt=attempt, in_flight=4,
        limited=False, folder=str(folder), version=version("tribunal"), run="run",
    )  # fmt: skip
    return replace(told, **other)


def batch(*places: int) -> JSON:
    posts = [[place, 0, None, {"id": f"post-{place}", "text": f"word-{place}."}] for place in places]
    return {"batch": [0], "posts": [json.dumps(posts).encode()]}


async def decided(told: WorkOrder, clerk: Clerk, posts: JSON) -> JSON:
    """What a worker that has just begun says of a batch."""
    [row] = [row async for row in Worker(told, Near(clerk))(posts)]
    said: JSON = json.loads(row["told"][0])
    return said


def results(folder: Path) -> list[JSON]:
    return [json.loads(line) for line in (folder / RESULTS).read_text("utf-8").splitlines()]


async def test_a_batch_that_is_tried_again_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, clerk = work(tmp_path), Clerk(LOST_IN_A_ROW)
    async with ScriptedServer(court_script()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        first = await decided(told, clerk, batch(3, 4, 5))
        again = await decided(told, clerk, batch(3, 4, 5))
        assert len(server.requests) == 3
    assert (first["done"], first["calls"], first["outcomes"]) == (3, 3, {"negative": 3})
    assert {name: again[name] for name in ("done", "calls", "outcomes")} == {
        name: first[name] for name in ("done", "calls", "outcomes")
    }
    assert await gather(tmp_path) == 3
    assert sorted((line["place"], line["post_id"]) for line in results(tmp_path)) == [
        (3, "post-3"), (4, "post-4"), (5, "post-5"),
    ]  # fmt: skip


async def test_what_a_killed_worker_had_finished_of_a_batch_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, clerk = work(tmp_path), Clerk(LOST_IN_A_ROW)
    async with ScriptedServer(court_script()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        await decided(told, clerk, batch(0, 1))
        await gather(tmp_path)
        spool = tmp_path / "spool" / "00002-00000000-killed"
        spool.mkdir(parents=True)
        (tmp_path / RESULTS).rename(spool / RESULTS)
        said = await decided(replace(told, attempt=Parts.of_run(tmp_path).begin(4).attempt), clerk, batch(0, 1, 2))
        assert len(server.requests) == 3
    assert (said["wanted"], said["done"]) == (3, 3)
    assert not list((tmp_path / "spool").iterdir())
    assert await gather(tmp_path) == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"version": "0.0.1"}, r"has tribunal .*, and the run was started with 0\.0\.1; install the same version"),
        ({"parts": "/nowhere/parts"}, r"doesn't see /nowhere/parts.*give OUT on a path that all machines share"),
    ],
)
async def test_a_machine_that_differs_ends_the_run_and_says_how(tmp_path: Path, wrong: JSON, said: str) -> None:
    clerk = Clerk(LOST_IN_A_ROW)
    assert await decided(work(tmp_path, **wrong), clerk, batch(0)) == {}
    standing = await clerk.standing()
    assert standing.bad_input
    assert re.search(said, standing.stopped)
