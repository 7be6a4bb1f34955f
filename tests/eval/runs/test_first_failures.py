"""A run whose first posts all fail in the same way stops and says why; one where every post failed ends with 4."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.court import court_script
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tribunal.commands import app

VERDICT = court_script(explicit=True, judge={"category": "Religious", "explanation": "judge-words"})
PACE = ("--concurrency", "1", "--model", "openai:scripted")


def babble(request: Request) -> Reply | Fault:
    return Reply("no JSON at all")


def table(path: Path, count: int) -> str:
    path.write_text(
        "id,text\n" + "".join(f"p{number},post number {number}\n" for number in range(count))
    )
    return str(path)


async def run(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, ["batch", *arguments, *PACE])


async def test_a_run_whose_first_posts_all_fail_the_same_way_stops_and_goes_on_with_retry(
    tmp_path: Path,
) -> None:
    posts, out = table(tmp_path / "posts.csv", 30), tmp_path / "out.jsonl"
    mended = False

    def mended_at_last(request: Request) -> Reply | Fault:
        return VERDICT(request) if mended else babble(request)

    async with OpenAIServer(mended_at_last):
        stopped = await run(posts, "--out", str(out))
        kept = out.exists()
        mended = True
        done = await run(posts, "--out", str(out), "--retry", "failures")
    assert stopped.exit_code == 1, stopped.output
    assert (
        "the first 10 posts all failed in the same way (bad_output by openai:scripted)"
        in stopped.stderr
    )
    assert "--retry failures" in stopped.stderr
    assert "20 of 30 posts left" in stopped.stderr
    assert not kept
    assert done.exit_code == 0, done.output
    assert {json.loads(line)["outcome"] for line in out.read_text().splitlines()} == {"verdict"}


async def test_the_number_is_chosen_and_one_success_ends_the_watch(tmp_path: Path) -> None:
    def all_but_the_third(request: Request) -> Reply | Fault:
        return VERDICT(request) if "post number 2" in request.text else babble(request)

    posts = table(tmp_path / "posts.csv", 12)
    async with OpenAIServer(all_but_the_third):
        early = await run(posts, "--out", str(tmp_path / "early.csv"), "--stop-after-failures", "2")
        late = await run(posts, "--out", str(tmp_path / "late.csv"), "--stop-after-failures", "3")
    assert (early.exit_code, "the first 2 posts all failed" in early.stderr) == (1, True), (
        early.output
    )
    assert late.exit_code == 0, late.output
    assert "11 failed" in late.stdout


async def test_where_every_post_failed_the_exit_status_says_so(tmp_path: Path) -> None:
    async with OpenAIServer(babble):
        few = await run(
            table(tmp_path / "few.csv", 3), "--out", str(tmp_path / "few.jsonl"), "--json"
        )
        many = await run(
            table(tmp_path / "many.csv", 12),
            "--out",
            str(tmp_path / "many.jsonl"),
            "--stop-after-failures",
            "0",
        )
    assert (few.exit_code, many.exit_code) == (4, 4), (few.output, many.output)
    assert "all 3 posts failed; first failure: " in few.stderr
    assert "--retry failures" in few.stderr
    assert json.loads(few.stdout)["outcomes"] == {"failure": 3}
