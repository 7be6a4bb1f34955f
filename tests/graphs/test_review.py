"""A person decides: the case stops, survives its process, and is decided once."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests import PROJECT
from tests.court import court_script, decide
from tests.doubles import Reply, ScriptedServer
from tests.graphs.hybrid import PASSAGE, hybrid, hybrid_script, part
from tests.openai_server import OpenAIServer
from tribunal.docket.docket import Docket
from tribunal.docket.session import submit_review
from tribunal.errors import BadInput
from tribunal.schema import Record

SURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.9}
UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}


def edit(category: str, note: str = "", **more: Any) -> dict[str, Any]:
    return {
        "type": "edit",
        "args": {"action": "decide", "args": {"category": category, "note": note, **more}},
    }


async def waiting(server: ScriptedServer, **settings: Any) -> Record:
    record = await decide(server, "post-words", graph="tribunal", review=True, **settings)
    assert record.outcome == "pending"
    assert record.thread is not None
    return record


async def test_an_uncertain_verdict_waits_and_is_accepted() -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        record = await waiting(server)
        assert (record.label, record.category, record.hateful) == (None, None, None)
        assert record.review is not None
        assert record.review.court["category"] == "Religious"
        assert (record.confidence, record.uncertain) == (0.4, True)
        done = await submit_review(
            str(record.thread), {"type": "accept", "args": None, "reviewer": "kim"}
        )
    assert len(server.requests) == 4  # nothing was asked again
    assert (done.outcome, done.category, done.explanation) == (
        "verdict",
        "Religious",
        "judge-words",
    )
    assert done.review is not None
    assert (done.review.action, done.review.reviewer, done.review.reason) == (
        "accept",
        "kim",
        "the verdict is uncertain",
    )
    assert done.review.at
    assert (done.confidence, done.uncertain, done.review.court["uncertain"]) == (0.4, False, True)
    assert done.model_copy(update={"review": None}).dump() == {
        **record.model_copy(update={"review": None}).dump(),
        **{
            name: done.dump()[name]
            for name in ("outcome", "label", "category", "hateful", "explanation")
        },
        **{name: done.dump()[name] for name in ("confidence", "uncertain")},
        **{"probability": 1.0, "probability_from": "person"},
    }


async def test_an_edit_keeps_both_verdicts() -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        record = await waiting(server)
        done = await submit_review(str(record.thread), edit("nothate", "quoted to condemn it"))
    assert (done.label, done.category, done.hateful, done.explanation) == (
        0,
        "NotHate",
        False,
        "quoted to condemn it",
    )
    assert done.review is not None
    assert (done.review.court["category"], done.review.court["confidence"]) == ("Religious", 0.4)


async def test_a_question_brings_one_more_trial_with_it_before_the_agents() -> None:
    async with ScriptedServer(court_script(judge=UNSURE)) as server:
        record = await waiting(server, rounds=1)
        first = len(server.requests)
        again = await submit_review(
            str(record.thread),
            {"type": "response", "args": "is it a quotation?", "reviewer": "kim"},
        )
        later = server.requests[first:]
        assert [part(request) for request in later] == ["investigation", "defence", "judge"]
        assert all("is it a quotation?" in request.text for request in later)
        assert not any("is it a quotation?" in request.text for request in server.requests[:first])
        assert again.outcome == "pending"
        assert again.review is not None
        assert again.review.reason == "it was tried again for a reviewer's question"
        done = await submit_review(str(record.thread), edit("Sexist"))
    [trial] = done.trials
    assert (trial.question, trial.reviewer, trial.outcome["category"]) == (
        "is it a quotation?",
        "kim",
        "Religious",
    )
    assert [turn.id for turn in trial.transcript] == ["gatekeeper/0", "prosecutor/1", "defender/1"]
    assert (done.category, done.usage.calls) == ("Sexist", first + 3)


async def test_a_trial_that_a_person_asks_for_has_a_budget_of_its_own() -> None:
    async with ScriptedServer(court_script(judge=UNSURE)) as server:
        record = await waiting(server, max_calls=4)
        first = len(server.requests)
        await submit_review(str(record.thread), {"type": "response", "args": "why?"})
    assert [part(request) for request in server.requests[first:]] == [
        "investigation",
        "defence",
        "prosecution",
        "judge",
    ]


@pytest.mark.parametrize(
    ("script", "settings", "reason"),
    [
        ({"judge": Reply(refusal="no")}, {}, "the model refused"),
        ({"judge": SURE}, {"review_rule": ["hateful"]}, "every hateful post is reviewed"),
        ({"judge": SURE}, {"review_rule": ["Religious"]}, "every case of Religious is reviewed"),
        ({"judge": SURE}, {"review_rule": ["Sexist"]}, None),
        ({"judge": SURE}, {}, None),
        ({"investigation": {"cues": []}, "gatekeeper": {"cues": []}}, {"review_rule": ["all"]},
         "every case is reviewed"),
        ({"triage": {**UNSURE, "confidence": 0.99}}, {"triage": "openai:small", "review_rule": ["hateful"]},
         "every hateful post is reviewed"),
    ],
)  # fmt: skip
async def test_which_cases_a_person_sees(
    script: Any, settings: dict[str, Any], reason: str | None
) -> None:
    async with ScriptedServer(court_script(explicit=True, **script)) as server:
        record = await decide(server, graph="tribunal", review=True, **settings)
    assert (record.review.reason if record.review else None) == reason
    assert (record.outcome == "pending") == (reason is not None)
    if reason is None:  # nothing is kept of a case that nobody has to see
        assert record.thread is None
        docket = await Docket.open()
        assert await docket.entries(decided=True) == []


@pytest.mark.parametrize("reply", [Reply(refusal="no"), Reply("no JSON at all")])
async def test_without_a_verdict_a_person_decides_by_category(reply: Reply) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=reply)) as server:
        record = await decide(server, graph="tribunal", review=True)
        assert record.outcome == "pending"
        with pytest.raises(BadInput, match="verdict"):
            await submit_review(str(record.thread), {"type": "accept"})
        done = await submit_review(str(record.thread), edit("Sexist"))
    assert (done.outcome, done.category) == ("verdict", "Sexist")
    assert "Sexist" in done.explanation


async def test_choosing_the_models_category_keeps_its_explanation() -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        record = await waiting(server)
        done = await submit_review(str(record.thread), edit("Religious", "my note"))
    assert done.review is not None
    assert (done.review.action, done.review.note, done.explanation) == (
        "accept",
        "my note",
        "judge-words",
    )


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"type": "maybe"}, "maybe"),
        ({"type": "response", "args": "  "}, "takes the question"),
        (edit("Rude"), "Rude"),
        (edit("", label=9), "label: 9"),
        ({"type": "edit", "args": {"action": "decide", "args": {}}}, "an edit names one of"),
        (edit("Sexist", label=1), "label 1 is Racist, and not Sexist"),
    ],
)
async def test_a_wrong_answer_is_told_and_the_case_goes_on_waiting(
    answer: dict[str, Any], says: str
) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        record = await waiting(server)
        with pytest.raises(BadInput, match=says):
            await submit_review(str(record.thread), answer)
        done = await submit_review(
            str(record.thread), edit("", label=2) if says == "Rude" else {"type": "accept"}
        )
    assert done.outcome == "verdict"


async def test_two_reviewers_decide_the_same_case() -> None:
    async with ScriptedServer(court_script(judge=[UNSURE, Reply(UNSURE, delay=0.5)])) as server:
        record = await waiting(server, rounds=1)
        thread = str(record.thread)
        asked = asyncio.create_task(
            submit_review(thread, {"type": "response", "args": "why?", "reviewer": "kim"})
        )
        while len(server.requests) < 5:
            await asyncio.sleep(0.01)
        with pytest.raises(BadInput, match="is being decided by kim right now"):
            await submit_review(thread, {"type": "accept", "reviewer": "lee"})
        await asked
        await submit_review(thread, {"type": "accept", "reviewer": "lee"})
        with pytest.raises(BadInput, match="was decided already: accept by lee"):
            await submit_review(thread, edit("Sexist"))


async def test_an_unknown_case() -> None:
    with pytest.raises(BadInput, match="there is no such case"):
        await submit_review("case-of-nobody", {"type": "accept"})


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, strict about what it reads back from a checkpoint."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "LANGGRAPH_STRICT_MSGPACK": "true",
        **settings,
    }
    run = [sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()", *arguments]
    return subprocess.run(
        run, capture_output=True, text=True, env=environment, timeout=120, stdin=subprocess.DEVNULL
    )


async def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(command, *arguments)


@pytest.mark.long
async def test_stop_end_the_process_start_again_and_decide() -> None:
    """Across three processes, with a key, an image and a page about: none of them is left in the file."""
    pixels = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(pixels, "PNG")
    uri = "data:image/png;base64," + base64.b64encode(pixels.getvalue()).decode()
    async with hybrid(hybrid_script(explicit=True, judge=UNSURE)) as it:
        settings = [
            "--web",
            "--set",
            "search=searxng",
            "--set",
            f"searxng_url={it.settings['searxng_url']}",
            "--set",
            "archive=e.sqlite",
        ]
        os.environ |= {"OPENAI_BASE_URL": f"{it.model.url}/v1", "OPENAI_API_KEY": "sk-very-secret"}
        try:
            ask = [
                "judge",
                "post-words",
                "--image",
                uri,
                "--model",
                "openai:scripted",
                "--review",
                "--json",
                *settings,
            ]
            stopped = await run_command(*ask)
            assert stopped.returncode == 5, stopped.stderr
            pending = json.loads(stopped.stdout)
            listed = json.loads((await run_command("review", "list", "--json")).stdout)
            assert [case["thread"] for case in listed] == [pending["thread"]]
            shown = await run_command("review", "show", pending["thread"])
            assert "judge-words" in shown.stdout
            assert "post-words" in shown.stdout
            calls = len(it.model.requests)
            file = Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite"
            with sqlite3.connect(
                file
            ) as database:  # a state may lie over several pages of the file
                held = b"".join(
                    value for (value,) in database.execute("SELECT checkpoint FROM checkpoints")
                )
            database.close()
            held += b"".join(path.read_bytes() for path in file.parent.glob("service.sqlite*"))
            decided = await run_command(
                "review", "decide", pending["thread"], "--accept", "--json", "--reviewer", "kim"
            )
            assert decided.returncode == 0, decided.stderr
            assert len(it.model.requests) == calls
            late = await run_command("review", "decide", pending["thread"], "--category", "1")
        finally:
            del os.environ["OPENAI_API_KEY"]
    assert (late.returncode, "was decided already: accept by kim" in late.stderr) == (2, True)
    record = json.loads(decided.stdout)
    same = (
        "post_id",
        "transcript",
        "cues",
        "calls",
        "evidence",
        "policy",
        "warnings",
        "track",
        "rounds",
        "usage",
    )
    assert {name: record[name] for name in same} == {name: pending[name] for name in same}
    assert (record["outcome"], record["category"]) == ("verdict", "Religious")

    assert b"judge-words" in held
    assert b"sk-very-secret" not in held
    assert uri[200:260].encode() not in held
    assert pixels.getvalue()[100:160] not in held
    assert PASSAGE.encode() in held  # the passage that is cited, and nothing else of its page
    assert b"This page goes on about other things" not in held


@pytest.mark.slow
@pytest.mark.long
async def test_a_case_that_was_cut_off_is_listed_and_goes_on() -> None:
    async with OpenAIServer(
        court_script(explicit=True, judge=[Reply(UNSURE, delay=30), UNSURE])
    ) as server:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        arguments = ["judge", "post-words", "--model", "openai:scripted", "--review"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import tribunal; tribunal.main()", *arguments, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while len(server.requests) < 4:
            await asyncio.sleep(0.05)
        process.kill()
        await process.wait()
        [case] = json.loads((await run_command("review", "list", "--json")).stdout)
        assert case["status"] == "running"  # for half a minute nobody can know
        with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite") as held:
            held.execute("UPDATE replicas SET seen = seen - 31")
        held.close()
        [case] = json.loads((await run_command("review", "list", "--json")).stdout)
        assert case["status"] == "cut_off"
        refused = await run_command("review", "decide", case["thread"], "--accept")
        assert (refused.returncode, "its trial is not over" in refused.stderr) == (2, True)
        resumed = await run_command("review", "resume", case["thread"], "--json")
    assert resumed.returncode == 5, resumed.stderr
    assert [part(request) for request in server.requests] == [
        "gatekeeper",
        "indictment",
        "defence",
        "judge",
        "judge",
    ]
    assert json.loads(resumed.stdout)["outcome"] == "pending"


def test_the_cases_table_keeps_no_password(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(hybrid_script(explicit=True, judge=UNSURE)) as server:
            password = "http://user:hidden@127.0.0.1:9"
            await waiting(server, web=True, search="none,searxng", searxng_url=password)

    asyncio.run(run())
    with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite") as held:
        [(settings,)] = held.execute("SELECT settings FROM cases").fetchall()
    held.close()
    assert "hidden" not in settings
