"""An evaluation in its folder: what it holds, what it goes on with, what it refuses, and how it may be stopped."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation, evaluate
from tribunal.eval.runs.lifecycle import lock_run_folder
from tribunal.runner.job import RunOptions
from tribunal.runner.journal import RESULTS, RUN
from tribunal.runner.outage import LOST_IN_A_ROW
from tribunal.runner.tally import RunTally

ANSWER = Reply(
    {"category": "NotHate", "explanation": "words"}, prompt_tokens=30, completion_tokens=10
)


def posts(tmp_path: Path, number: int, *blank: int) -> Path:
    """Posts of one word each; those named have an image that is none, and no words."""
    (tmp_path / "broken.png").write_bytes(b"none")
    rows = [
        f"p{place},,broken.png,0" if place in blank else f"p{place},word-{place}.,,0"
        for place in range(number)
    ]
    path = tmp_path / "posts.csv"
    path.write_text("id,text,image,label\n" + "\n".join(rows) + "\n")
    return path


def wanted(data: Path, graph: str = "baseline", repeats: int = 1, **settings: Any) -> Evaluation:
    return Evaluation(
        graph=graph, dataset="table", data=data, repeats=repeats,
        settings={"model": "openai:scripted", "scheme": "binary", "attempts": 1, **settings},
    )  # fmt: skip


async def decided(
    server: ScriptedServer, evaluation: Evaluation, out: Path, **more: Any
) -> RunTally:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(evaluate, evaluation, out, **more)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / RESULTS).read_bytes().splitlines()]


def held(folder: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((folder / RUN).read_bytes())
    return run


async def test_a_budget_is_what_the_post_cost_there_served_from_a_cache_or_not(
    tmp_path: Path,
) -> None:
    data = posts(tmp_path, 2)
    debate = wanted(data, "arcade", cache=str(tmp_path / "cache.sqlite"))
    async with ScriptedServer(court_script(explicit=True)) as server:
        await decided(server, debate, tmp_path / "paid")
        await decided(server, debate, tmp_path / "served")
        assert {line["usage"]["calls"] for line in lines(tmp_path / "served")} == {0}
        debate = wanted(data, "arcade")
        for name in ("paid", "served"):
            await decided(server, debate, tmp_path / f"by-{name}", budget_from=tmp_path / name)
            assert {line["usage"]["calls"] for line in lines(tmp_path / f"by-{name}")} == {4}
        cut = lines(tmp_path / "paid")[:1]
        (tmp_path / "paid" / RESULTS).write_text(json.dumps(cut[0]) + "\n")
        with pytest.raises(
            BadInput, match=r"budget_from: .*has no result of post 'p\d'; give a finished run"
        ):
            await decided(server, debate, tmp_path / "cut", budget_from=tmp_path / "paid")


async def test_a_run_that_never_had_a_result_may_be_put_right(tmp_path: Path) -> None:
    data, out = posts(tmp_path, 1), tmp_path / "run"
    async with ScriptedServer(court_script()) as server:
        with pytest.raises(BadInput, match="provider:model"):
            await decided(server, wanted(data, model="nobody:x"), out)
        assert (await decided(server, wanted(data), out)).done == 1
    assert held(out)["settings"]["model"] == "openai:scripted"


async def test_posts_that_cost_no_call_don_t_hide_that_the_network_is_gone(tmp_path: Path) -> None:
    data = posts(tmp_path, 60, *range(3, 60, 4))
    async with ScriptedServer(lambda request: Fault(drop=True)) as server:
        tally = await decided(
            server,
            wanted(data).model_copy(update={"in_order": True}),
            tmp_path / "run",
            options=RunOptions(in_flight=4),
        )
    assert f"{LOST_IN_A_ROW} posts in a row had no answer" in tally.stopped
    assert {line["fault"]["kind"] for line in lines(tmp_path / "run")} == {"input"}
    assert held(tmp_path / "run")["finished"] is None


async def test_what_should_be_known_of_the_posts_is_told_before_the_first(tmp_path: Path) -> None:
    path, warned = tmp_path / "posts.csv", list[str]()
    path.write_text("id,text,label\na,word-0.,0\nb,word-1.,\nc,word-2.,1\n")

    def script(request: Request) -> Reply:
        assert warned
        return ANSWER

    async with ScriptedServer(script) as server:
        await decided(
            server, wanted(path), tmp_path / "run", options=RunOptions(warn=warned.append)
        )
    assert [warning.partition(": ")[2].partition(":")[0] for warning in warned] == [
        "1 rows were left out"
    ]


async def test_a_disk_that_fills_as_results_are_put_on_it_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        if os.fstat(file).st_ino == results.stat().st_ino:
            raise OSError(28, "No space left on device")
        sync(file)

    results, sync = tmp_path / "run" / RESULTS, os.fsync
    async with ScriptedServer(court_script()) as server:
        await decided(server, wanted(posts(tmp_path, 3)), tmp_path / "run")
        os.truncate(results, 0)
        monkeypatch.setattr(os, "fsync", full)
        monkeypatch.setattr("tribunal.runner.journal.SYNC_EVERY", 0.0)
        tally = await decided(
            server, wanted(posts(tmp_path, 3)), tmp_path / "run", options=RunOptions(in_flight=1)
        )
    assert "No space left on device" in tally.stopped
    assert 0 < tally.done < 3


def test_a_folder_that_can_t_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BadInput, match=r"out: .*file: can't be written: .*; take another folder"),
        lock_run_folder(tmp_path / "file"),
    ):
        pass
    for content, says in (
        (None, "has results and no run.json"),
        ("{", "can't be used"),
        ("[]", "holds no object"),
    ):
        folder = tmp_path / says.split()[0].strip("'")
        folder.mkdir(exist_ok=True)
        (folder / RESULTS).write_text("a result\n")
        if content is not None:
            (folder / RUN).write_text(content)
        with pytest.raises(BadInput, match=says) as raised:
            evaluate(wanted(posts(tmp_path, 1)), folder)
        assert str(raised.value).count("take another folder") == 1
