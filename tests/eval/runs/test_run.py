"""A run loses nothing: killed, interrupted, out of disk, out of network, it goes on where it stopped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.eval.runs.worker import job, posts
from tribunal.errors import BadInput
from tribunal.eval.runs.lifecycle import lock_run_folder
from tribunal.runner.engine import decide_posts
from tribunal.runner.job import RunEngine, RunJob, RunOptions
from tribunal.runner.journal import RESULTS, SUPERSEDED, replace_results
from tribunal.runner.outage import LOST_IN_A_ROW
from tribunal.runner.results import Sample
from tribunal.runner.tally import RunTally
from tribunal.settings.context import context_from


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / RESULTS).read_text("utf-8").splitlines()]


def word(request: Request) -> str:
    found = re.search(r"word-\d+\.", request.text)
    assert found is not None
    return found[0]


async def start(
    folder: Path, server: ScriptedServer, number: int, in_flight: int, *more: str
) -> Any:
    environment = {
        **os.environ, "PYTHONPATH": str(PROJECT), "OPENAI_BASE_URL": f"{server.url}/v1", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "tests.eval.runs.worker",
        str(folder),
        str(number),
        str(in_flight),
        *more,
    ]
    return await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def decided(server: ScriptedServer, folder: Path, work: RunJob, workers: int = 1) -> RunTally:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    folder.mkdir(exist_ok=True)
    return await decide_posts(work, folder, RunOptions(engine=RunEngine(workers=workers)))


async def test_a_line_is_the_record_with_gold_fields_and_place(tmp_path: Path) -> None:
    async with ScriptedServer(court_script()) as server:
        tally = await decided(server, tmp_path, job(3, 2))
    assert (tally.done, tally.stopped, tally.outcomes["negative"]) == (3, "", 3)
    for place, line in enumerate(sorted(lines(tmp_path), key=lambda line: int(line["place"]))):
        assert list(line)[:5] == ["place", "repeat", "seconds", "outcome", "post_id"]
        assert (line["place"], line["repeat"], line["post_id"]) == (place, 0, f"post-{place}")
        assert line["gold"] == {
            "label": place % 2,
            "scheme": "binary",
            "positive": bool(place % 2),
            "name": "gold",
        }
        assert line["fields"] == {"difficulty": "Easy"}
        assert line["category"] == "NotHate"
        assert "text" not in line


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("kills", "number"), [(6, 64), pytest.param(20, 160, marks=pytest.mark.slow)]
)
async def test_killed_at_many_moments_and_resumed_each_time(
    kills: int, number: int, tmp_path: Path
) -> None:
    in_flight, moments = 8, random.Random(20)
    async with ScriptedServer(court_script(), latency=0.05) as server:
        runner = await start(tmp_path, server, number, in_flight, "--again")
        killed = torn = 0
        ended = -signal.SIGKILL
        while ended != 0:
            before = len(server.requests)
            runner.stdin.write(b"again\n")
            child = int(await runner.stdout.readline())
            ending = asyncio.ensure_future(runner.stdout.readline())
            while len(server.requests) == before and not ending.done():
                await asyncio.sleep(0.005)
            if killed < kills and not ending.done():
                await asyncio.sleep(moments.uniform(0.0, 0.09))
                os.kill(child, signal.SIGKILL)
                killed += 1
            ended = int(await ending)
            assert ended in (0, -signal.SIGKILL)
            held = tmp_path / RESULTS
            if (
                ended and moments.random() < 0.3 and held.stat().st_size
            ):  # and sometimes the last line is torn
                os.truncate(held, held.stat().st_size - moments.randint(1, 40))
                torn += 1
        runner.stdin.close()
        await runner.wait()
    assert killed == kills
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(number))
    asked = Counter(word(request) for request in server.requests)
    assert len(asked) == number
    assert sum(asked.values()) - number <= killed * in_flight + torn


@pytest.mark.long
async def test_ctrl_c_finishes_what_is_in_flight_and_a_second_one_stops_at_once(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(court_script(), latency=0.7) as server:
        (tmp_path / "once").mkdir()
        once = await start(tmp_path / "once", server, 50, 4)
        while len(server.requests) < 4:
            await asyncio.sleep(0.01)
        once.send_signal(signal.SIGINT)
        said, complaints = await once.communicate()
        assert said.decode() == "4 interrupted\n", complaints.decode()
        assert len(lines(tmp_path / "once")) == len(server.requests) == 4
    async with ScriptedServer(court_script(), latency=30) as server:
        (tmp_path / "twice").mkdir()
        twice = await start(tmp_path / "twice", server, 50, 4)
        while len(server.requests) < 4:
            await asyncio.sleep(0.01)
        twice.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)
        twice.send_signal(signal.SIGTERM)
        said, complaints = await asyncio.wait_for(twice.communicate(), 20)
        assert said.decode() == "0 stopped at once\n", complaints.decode()


async def test_ctrl_c_is_heard_where_no_post_waits_for_an_answer(tmp_path: Path) -> None:
    def interrupt(tally: RunTally) -> None:
        if tally.done == 1 and not tally.interrupted:
            os.kill(os.getpid(), signal.SIGINT)

    work = RunJob(
        graph="baseline",
        context=context_from({"model": "rehearsal"}),
        samples=posts(500),
        count=500,
    )
    tally = await decide_posts(work, tmp_path, RunOptions(watch=interrupt))
    assert (tally.stopped, len(lines(tmp_path))) == ("interrupted", tally.done)
    assert tally.done < 100


@pytest.mark.long
async def test_a_full_disk_stops_the_run_with_whole_lines_and_it_goes_on(tmp_path: Path) -> None:
    async with ScriptedServer(court_script()) as server:
        process = await start(tmp_path, server, 30, 2, "20000")
        said, complaints = await process.communicate()
        assert "a result could not be written" in said.decode(), complaints.decode()
        held = len(lines(tmp_path))
        assert 0 < held < 30
        tally = await decided(server, tmp_path, job(30, 2))
    assert (tally.before, tally.done, tally.stopped) == (held, 30 - held, "")
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(30))


@pytest.mark.long
async def test_a_lost_network_stops_the_run_and_costs_no_post(tmp_path: Path) -> None:
    answered: list[Request] = []

    def script(request: Request) -> Reply | Fault:
        if len(answered) == 20:
            return Fault(drop=True)
        answered.append(request)
        return Reply({"category": "NotHate", "explanation": "words"})

    async with ScriptedServer(script) as server:
        # One at a time: of several in flight, a dropped one would be a failure of its own if an answer came after it.
        tally = await decided(server, tmp_path, job(100, 1))
        assert f"{LOST_IN_A_ROW} posts in a row had no answer" in tally.stopped
        assert tally.done == len(lines(tmp_path)) == 20
        assert {line["outcome"] for line in lines(tmp_path)} == {"verdict"}
    async with ScriptedServer(court_script()) as server:
        again = await decided(server, tmp_path, job(100, 4))
    assert (again.before, again.done, again.stopped) == (20, 80, "")


async def test_a_refused_key_stops_the_run_at_once(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: Fault(status=401, message="no such key")) as server:
        tally = await decided(server, tmp_path, job(50, 2))
    assert "See to the key" in tally.stopped
    assert len(server.requests) <= 4
    assert lines(tmp_path) == []


async def test_one_post_without_an_answer_is_its_own_failure(tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        return (
            Fault(drop=True)
            if word(request) == "word-3."
            else Reply({"category": "NotHate", "explanation": "w"})
        )

    async with ScriptedServer(script) as server:
        tally = await decided(server, tmp_path, job(8, 2))
    assert (tally.stopped, tally.outcomes["failure"], tally.outcomes["negative"]) == ("", 1, 7)


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (Fault(429, "slow down", headers={"Retry-After": "7200"}), "Wait, or use another key"),
        (Fault(503, "overloaded"), "See to the model's server"),
    ],
    ids=["a rate limit for hours", "a server that is down"],
)
async def test_what_ails_every_post_stops_the_run_and_is_no_result(
    fault: Fault, remedy: str, tmp_path: Path
) -> None:
    async with ScriptedServer(lambda request: fault) as server:
        tally = await decided(server, tmp_path, job(60, 4))
    assert f"{LOST_IN_A_ROW} posts in a row had no answer" in tally.stopped
    assert remedy in tally.stopped
    assert lines(tmp_path) == []


async def test_data_that_break_off_cost_nothing_that_was_in_flight(tmp_path: Path) -> None:
    class Breaking:
        def __iter__(self) -> Any:
            yield from posts(4)
            raise BadInput("data set: its files have changed")

    work = RunJob(
        graph="baseline", context=job(1, 1).context, samples=Breaking(), count=9, in_flight=5
    )
    async with ScriptedServer(court_script(), latency=0.2) as server:
        with pytest.raises(BadInput, match="files have changed"):
            await decided(server, tmp_path, work)
        assert len(lines(tmp_path)) == len(server.requests) == 4


async def test_a_graph_that_breaks_costs_nothing_that_was_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tribunal.docket.session import judge_post as heard

    async def judge_post(text: str, *given: Any, **more: Any) -> Any:
        if text == "word-2.":
            raise KeyError("cues")
        return await heard(text, *given, **more)

    monkeypatch.setattr("tribunal.runner.decider.judge_post", judge_post)
    async with ScriptedServer(court_script(), latency=0.2) as server:
        tally = await decided(server, tmp_path, job(50, 4))
        assert "graph baseline: post post-2: KeyError: 'cues' (test_run.py, line " in tally.stopped
        assert 2 <= len(server.requests) == len(lines(tmp_path)) <= 4
    monkeypatch.setattr("tribunal.runner.decider.judge_post", heard)
    async with ScriptedServer(court_script()) as server:
        assert (await decided(server, tmp_path, job(50, 4))).stopped == ""
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(50))


async def test_failures_are_retried_alone(tmp_path: Path) -> None:
    broken = {"yes": True}

    def script(request: Request) -> Reply | Fault:
        if broken["yes"] and word(request) in ("word-1.", "word-4."):
            return Fault(status=400, message="broken")
        return Reply({"category": "NotHate", "explanation": "words"})

    async with ScriptedServer(script) as server:
        await decided(server, tmp_path, job(6, 2))
        broken["yes"] = False
        assert (
            replace_results(tmp_path, lambda start: b"" if start.outcome == "failure" else None)
            == 2
        )
        before = len(server.requests)
        tally = await decided(server, tmp_path, job(6, 2))
    assert (tally.before, tally.done) == (4, 2)
    assert {word(request) for request in server.requests[before:]} == {"word-1.", "word-4."}
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(6))
    assert (tmp_path / SUPERSEDED).read_text("utf-8").count("\n") == 2


async def test_repeats_are_drawn_anew_past_the_cache(tmp_path: Path) -> None:
    work = job(2, 2, cache=str(tmp_path / "cache.sqlite"))
    work = RunJob(
        graph="baseline",
        context=work.context,
        samples=work.samples,
        count=2,
        repeats=3,
        in_flight=2,
    )
    async with ScriptedServer(court_script()) as server:
        await decided(server, tmp_path / "one", work)
        assert len(server.requests) == 6
        await decided(server, tmp_path / "two", work)  # the same draws, served from the cache
        assert len(server.requests) == 6
    assert sorted((line["place"], line["repeat"]) for line in lines(tmp_path / "one")) == [
        (place, repeat) for place in range(2) for repeat in range(3)
    ]
    assert {call["repeat"] for line in lines(tmp_path / "one") for call in line["calls"]} == {
        0,
        1,
        2,
    }


async def test_a_post_that_can_t_be_taken_in_is_a_failure_and_costs_no_call(tmp_path: Path) -> None:
    bad = [
        Sample(id="a", text=""),
        Sample(id="b", image=str(tmp_path / "none.png")),
        Sample(id="c", text="word-0."),
    ]
    work = RunJob(
        graph="baseline", context=context_from({"model": "openai:s"}), samples=bad, count=3
    )
    async with ScriptedServer(court_script()) as server:
        tally = await decided(server, tmp_path, work)
    assert (len(server.requests), tally.outcomes["failure"], tally.stopped) == (1, 2, "")
    assert {line["fault"]["kind"] for line in lines(tmp_path) if line["fault"]} == {"input"}


async def test_tokens_of_another_run_are_a_posts_budget(tmp_path: Path) -> None:
    work = RunJob(graph="arcade", context=context_from({"model": "openai:s"}), samples=posts(2), count=2,
               budgets={"post-0": 30, "post-1": 10_000})  # fmt: skip
    async with ScriptedServer(court_script()) as server:
        await decided(server, tmp_path, work)
    calls = {line["post_id"]: line["usage"]["calls"] for line in lines(tmp_path)}
    assert calls == {"post-0": 3, "post-1": 8}


STORM: list[Reply | Fault] = [
    Fault(status=500), Fault(status=503), Fault(status=429, headers={"Retry-After": "0"}), Fault(status=400),
    Fault(drop=True), Fault(drop="middle"), Fault(raw=b"not json"), Reply("no JSON at all"), Reply(""),
    Reply({"category": "Nothing", "explanation": "words"}), Reply(refusal="I won't"),
    Reply("cut off", finish_reason="length"), Reply("", finish_reason="content_filter"), Fault(hang=True),
]  # fmt: skip


@pytest.mark.long
async def test_a_storm_of_faults_ends_every_post_in_the_outcome_that_the_server_knows(
    tmp_path: Path,
) -> None:
    """A fifth of the posts get one fault for all their calls, of every kind; the rest are answered."""
    number = 5 * len(STORM)

    def fault_for(text: str) -> Reply | Fault | None:
        place = int(text.removeprefix("word-").removesuffix("."))
        return STORM[place // 5] if place % 5 == 0 else None

    def script(request: Request) -> Reply | Fault:
        return fault_for(word(request)) or Reply({"category": "Hateful", "explanation": "words"})

    async with ScriptedServer(script) as server:
        tally = await decided(server, tmp_path, job(number, 16, timeout=2.0, attempts=2))
    found = {line["post_id"]: line["outcome"] for line in lines(tmp_path)}
    assert len(found) == tally.done == number
    for post in posts(number):
        given = fault_for(post.text)
        refused = isinstance(given, Reply) and bool(
            given.refusal or given.finish_reason == "content_filter"
        )
        expected = "verdict" if given is None else "refusal" if refused else "failure"
        assert found[post.id] == expected, given
    assert tally.outcomes == Counter(
        positive=number - len(STORM), refusal=2, failure=len(STORM) - 2
    )
    assert tally.calls <= len(server.requests)


# Beside these, 401 and 402 end a run, and have a test of their own.
AT_RANDOM: list[Reply | Fault] = [
    *STORM,
    Fault(status=502, raw=b"<html>"),
    Fault(status=404),
    Fault(status=408),
]


@pytest.mark.long
async def test_a_fifth_of_all_calls_fail_and_every_request_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def they_do(_: Any) -> bool:
        return True

    monkeypatch.setattr("tribunal.models.keys.retry_delay", lambda attempt: 0.0)
    # Where the last post has no answer a run asks the models once more, which is no request of any post's.
    monkeypatch.setattr("tribunal.runner.outage.UnansweredPosts.models_still_answer", they_do)
    draws, faults, answered = random.Random(5), 0, court_script()

    def script(request: Request) -> Reply | Fault:
        nonlocal faults
        if draws.random() >= 0.2:
            return answered(request)
        faults += 1
        return draws.choice(AT_RANDOM)

    context = context_from({"model": "openai:scripted", "rounds": 1, "attempts": 3, "timeout": 0.5})
    work = RunJob(graph="arcade", context=context, samples=posts(60), count=60, in_flight=12)
    async with ScriptedServer(script) as server:
        tally = await decided(server, tmp_path, work)
    held, places = lines(tmp_path), list(range(60))
    assert (tally.stopped, sorted(line["place"] for line in held), faults > 20) == (
        "",
        places,
        True,
    )
    assert {line["outcome"] for line in held} == {"verdict", "refusal", "failure"}
    assert sum(call["attempts"] for line in held for call in line["calls"]) == len(server.requests)


def test_two_processes_never_share_a_folder(tmp_path: Path) -> None:
    refused = pytest.raises(BadInput, match="another process is at this run")
    with lock_run_folder(tmp_path), refused, lock_run_folder(tmp_path):
        pass
    with lock_run_folder(tmp_path):
        pass
