"""What a whole run may spend: calls, tokens and money, over its starts, its retries and its sister runs."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.commands import app
from tribunal.models.budget import Limits, Spending
from tribunal.runner.budget import RunBudget, RunLimits
from tribunal.settings.context import context_from

USAGE = {"usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}}
ANSWER = Reply({"category": "NotHate", "explanation": "words"}, extra=USAGE)


def posts(folder: Path, number: int = 20) -> Path:
    path = folder / "posts.csv"
    path.write_text(
        "id,text,label\n" + "".join(f"{place},word-{place}.,0\n" for place in range(number))
    )
    return path


async def batch(server: ScriptedServer, folder: Path, *more: str) -> Any:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    own = ["batch", str(posts(folder)), "--out", str(folder / "out.csv"), "--graph", "baseline"]
    return await asyncio.to_thread(
        CliRunner().invoke, app, [*own, "--model", "openai:scripted", "--concurrency", "4", *more]
    )


@pytest.mark.parametrize(
    ("limit", "more", "said"),
    [
        (
            "--run-max-tokens",
            "8000",
            "8,000 of at most 8,000 tokens are spent; to go on, give --run-max-tokens",
        ),
        (
            "--run-max-tokens",
            "8500",
            "8,000 of at most 8,500 tokens are spent, and a post may take 1,000; to go on",
        ),
        (
            "--run-max-cost",
            "0.02",
            "0.0196 of a cost of at most 0.0200 is spent, and a post may take 0.0028; to go on",
        ),
    ],
)
async def test_a_run_stops_at_its_limit_and_goes_on_with_more(
    limit: str, more: str, said: str, tmp_path: Path
) -> None:
    # 0.0028 a post
    (tmp_path / "prices.toml").write_text('["openai:scripted"]\ninput = 2.0\noutput = 10.0\n')
    prices = ("--prices", str(tmp_path / "prices.toml"))
    async with ScriptedServer(lambda request: ANSWER) as server:
        stopped = await batch(server, tmp_path, *prices, limit, more)
        assert stopped.exit_code == 1, stopped.output
        assert said in stopped.stderr
        assert not (tmp_path / "out.csv").exists()
        decided = len(server.requests)
        assert decided == (7 if "cost" in limit else 8)
        again = await batch(server, tmp_path, *prices, limit, more)
        assert (again.exit_code, len(server.requests)) == (1, decided)
        done = await batch(server, tmp_path, *prices, limit, "100000")
        assert (done.exit_code, len(server.requests)) == (0, 20), done.output


ODD_USAGE: dict[str, Any] = {
    "missing": None,
    "null": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
    "zero": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "negative": {"prompt_tokens": -900, "completion_tokens": -100, "total_tokens": -1000},
    "words": {"prompt_tokens": "many", "completion_tokens": [], "total_tokens": {}},
    "absurd": {"prompt_tokens": 10**30, "completion_tokens": 10**30, "total_tokens": 10**30},
}


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
@pytest.mark.parametrize("odd", ODD_USAGE)
async def test_a_limit_of_tokens_holds_where_the_usage_of_a_server_is_odd(
    odd: str, workers: str, tmp_path: Path
) -> None:
    answer = Reply({"category": "NotHate", "explanation": "words"}, extra={"usage": ODD_USAGE[odd]})
    most = 4_000
    async with ScriptedServer(lambda request: answer) as server:
        stopped = await batch(server, tmp_path, "--run-max-tokens", str(most), "--workers", workers)
        requests = len(server.requests)
    [folder] = tmp_path.glob("out.csv.run*")
    calls = [
        call
        for line in (folder / "results.jsonl").read_text().splitlines()
        for call in json.loads(line)["calls"]
    ]
    spent = sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls)
    assert (stopped.exit_code, all(call["estimated"] for call in calls)) == (1, True), (
        stopped.output
    )
    assert 1 < requests < 20, "it stops before the table is over, and not at once"
    assert most - 2 * spent / requests < spent <= most


async def test_what_was_decided_anew_and_tries_without_an_answer_count(tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        broken = "word-0." in request.text or "word-1." in request.text
        return (
            Fault(status=409, message="broken") if broken and len(server.requests) < 20 else ANSWER
        )

    async with ScriptedServer(script) as server:
        await batch(server, tmp_path)
        spent = len(server.requests)
        stopped = await batch(
            server, tmp_path, "--retry", "failures", "--run-max-calls", str(spent + 1)
        )
    assert stopped.exit_code == 1, stopped.output
    assert f"{spent + 1} of at most {spent + 1} calls are spent" in stopped.stderr
    assert len(server.requests) == spent + 1


async def test_a_cost_that_cannot_be_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["openai:another"]\ninput = 2.0\noutput = 10.0\n')
    async with ScriptedServer(lambda request: ANSWER) as server:
        without = await batch(server, tmp_path, "--run-max-cost", "1")
        assert (without.exit_code, len(server.requests)) == (2, 0)
        assert "run_max_cost: takes prices by model; give --prices FILE" in without.stderr
        unpriced = await batch(
            server, tmp_path, "--run-max-cost", "1", "--prices", str(tmp_path / "prices.toml")
        )
    assert unpriced.exit_code == 1
    assert (
        "a model has no price, so what the run costs is not known; add it to the file of --prices"
        in unpriced.stderr
    )
    assert len(server.requests) == 1  # nobody knew before what a post costs, so it went alone


async def test_the_runs_of_a_comparison_share_a_limit(tmp_path: Path) -> None:
    posts(tmp_path)
    (tmp_path / "setups.toml").write_text(
        'graph = "baseline"\nsettings = { model = "openai:scripted", scheme = "binary" }\n'
        "[entries.cold.settings.temperatures]\nclassifier = 0.1\n"
        "[entries.warm.settings.temperatures]\nclassifier = 0.2\n"
    )
    async with ScriptedServer(lambda request: ANSWER) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        command = ["compare", str(tmp_path / "setups.toml"), "--on", str(tmp_path / "posts.csv"),
                   "--out", str(tmp_path / "runs"), "--run-max-calls", "25", "--yes", "--json"]  # fmt: skip
        stopped = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert (stopped.exit_code, len(server.requests)) == (1, 25), stopped.output
        assert [run["calls"] for run in json.loads(stopped.stdout)["runs"]] == [20, 5]
        again = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert (again.exit_code, len(server.requests)) == (1, 25), again.output


def test_posts_under_way_are_held_at_their_own_limit_or_at_the_dearest() -> None:
    own = RunBudget(RunLimits(Limits(calls=10)), context=context_from({"max_calls": 4}))
    assert [own.reserve_post() for _ in range(3)] == [True, True, False]
    own.settle_post(Spending(calls=1, tokens=100))
    own.settle_post(Spending(calls=1, tokens=100))
    assert [own.reserve_post() for _ in range(3)] == [True, True, False]
    dear = RunBudget(RunLimits(Limits(calls=10)))
    # nobody knows what one costs
    assert [dear.reserve_post(), dear.reserve_post()] == [
        True,
        False,
    ]
    dear.settle_post(Spending(calls=3, tokens=100))
    assert [dear.reserve_post() for _ in range(3)] == [True, True, False]
    dear.settle_post(None)
    dear.settle_post(Spending())
    assert (dear.under_way, dear.reserve_post(), dear.reserve_post()) == (0, True, False)
    assert (
        RunBudget(RunLimits(Limits(calls=10)), [Spending(calls=10, tokens=0)]).reserve_post()
        is False
    )


def test_a_post_of_a_worker_that_died_is_not_begun_again_over_the_limit() -> None:
    budget = RunBudget(RunLimits(Limits(calls=12)), context=context_from({"max_calls": 4}))
    assert [budget.reserve_post() for _ in range(4)] == [True, True, True, False]
    assert not budget.explain_exhaustion(more=0)
    budget.count_repeated_post()  # what it has cost is unknown: as much as it may
    assert budget.explain_exhaustion(more=0).startswith(
        "4 of at most 12 calls are spent, and a post may take 4"
    )
