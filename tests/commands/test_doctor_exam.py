"""`tribunal doctor --try`: a model is examined, the result is kept, and the verdicts of one that failed say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.commands.test_judge import run
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.core.calls import UNFIT_MODEL
from tribunal.nodes.peers.single_call import EXAM_POSTS

SLOTS = {"total_slots": 2, "default_generation_settings": {"n_ctx": 4096}}
FAILED = "tells hate apart 5 of 10, quotes the post 10 of 10, right form 10 of 10"


class LlamaServer(ScriptedServer):
    """A scripted server that tells of its slots, as llama.cpp's does."""

    def answer_other(self, method: str, path: str, body: Any) -> Any:
        """Answer `/props` beside what every scripted server answers."""
        return SLOTS if path == "/props" else super().answer_other(method, path, body)


def answer(request: Request, *, fit: bool = True) -> Reply:
    """Answer as a model that knows hate from the rest and quotes; or as one that says NotHate to everything."""
    post = next((each for each in EXAM_POSTS if each.text in request.text), EXAM_POSTS[-1])
    category = "OtherHate" if fit and post.is_hateful else "NotHate"
    quote = {"quote": f"“{' '.join(post.text.split()[:3])}”"} if "quote" in request.text else {}
    return Reply({"explanation": "why", "category": category, **quote})


def examine(server: ScriptedServer, *more: str) -> Any:
    return run(
        "doctor", "--try", "--model", "openai:scripted", *more, OPENAI_BASE_URL=f"{server.url}/v1"
    )


def test_a_fit_model_passes_and_the_figures_say_what_to_set() -> None:
    with LlamaServer(answer) as server:
        done = examine(server)
    assert done.exit_code == 0, done.output
    assert (
        "asks openai:scripted about 10 plain posts: 10 requests, 20 at most, about 8,000 tokens"
        in done.stderr
    )
    for words in ("Exam of openai:scripted: fit", "tells hate apart  10 of 10", "quotes the post   10 of 10",
                  "right form        10 of 10", "slots             2", "context           4,096 tokens a slot",
                  "fit: at least 9 of 10 in each", "set --concurrency 2", "set --set max_output_tokens=1024",
                  "set the server's context to 8,192 tokens a slot"):  # fmt: skip
        assert words in done.stdout
    assert 6_000 < sum(len(request.text) // 4 + 100 for request in server.requests) < 10_000


def test_what_a_server_refused_in_its_exam_is_printed() -> None:
    def without_temperature(request: Request) -> Reply | Fault:
        return (
            answer(request)
            if request.temperature is None
            else Fault(400, "Unsupported value: 'temperature'")
        )

    with ScriptedServer(without_temperature) as server:
        done = examine(server)
    assert done.exit_code == 0, done.output
    assert "learnt of openai:scripted the temperature: left out" in " ".join(done.stdout.split())


def test_verdicts_of_a_model_that_failed_carry_a_banner_until_it_passes(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("id,text,label\n1,hello,0\n2,good day,0\n")

    def judge(
        server: ScriptedServer, *more: str, command: tuple[str, ...] = ("judge", "hello")
    ) -> Any:
        shared = "--graph", "baseline", "--model", "openai:scripted"
        return run(*command, *more, *shared, OPENAI_BASE_URL=f"{server.url}/v1")

    with ScriptedServer(lambda request: answer(request, fit=False)) as server:
        failed = examine(server)
        assert (failed.exit_code, FAILED in " ".join(failed.stdout.split())) == (1, True), (
            failed.output
        )
        shown, page = judge(server, "--explain", "page.html"), tmp_path / "page.html"
        for text in (" ".join(shown.stdout.split()), page.read_text()):
            assert text.count("openai:scripted failed the exam") == 1, text
            assert FAILED in text
        [warning] = json.loads(judge(server, "--json").stdout)["warnings"]
        assert warning.startswith(UNFIT_MODEL)
        looked = run("doctor", TRIBUNAL_MODEL="openai:scripted", OPENAI_BASE_URL=f"{server.url}/v1")
        assert (looked.exit_code, "✗  exam of openai:scripted" in looked.stdout) == (1, True)
        measured = judge(
            server, "--out", "run", command=("eval", "--dataset", "table", "--data", "posts.csv")
        )
        assert measured.exit_code == 0, measured.output
        assert "2 by a model that failed its exam" in measured.output
        assert "a model that had failed its exam took part in 2 of 2 results" in measured.output
        run("report", "run")
        assert (
            "failed its exam (tribunal doctor --try) took part in 2 of 2"
            in (tmp_path / "run/report.md").read_text()
        )
        # At another address it is another model.
        other = run(
            "doctor",
            "--json",
            "--offline",
            TRIBUNAL_MODEL="openai:scripted",
            OPENAI_BASE_URL="http://else/v1",
        )
        assert (
            "not taken"
            in {each["what"]: each for each in json.loads(other.stdout)["checks"]}[
                "exam of openai:scripted"
            ]["found"]
        )
        server.script = answer
        assert examine(server).exit_code == 0
        assert json.loads(judge(server, "--json").stdout)["warnings"] == []


def test_answers_without_the_form_or_the_post_s_words_count_against_a_model() -> None:
    def poor(request: Request) -> Reply:
        if EXAM_POSTS[0].text in request.text:
            return Reply("It is hateful, I think.")
        return Reply({**json.loads(answer(request).text), "quote": "words of nobody"})

    with ScriptedServer(poor) as server:
        done = examine(server, "--json")
    [exam] = json.loads(done.stdout)["exams"]
    assert done.exit_code == 1
    assert (exam["told_apart"], exam["quoted"], exam["in_form"], exam["passed"]) == (9, 0, 9, False)
    assert exam["faults"][0].startswith(
        "post 1: the answer could not be read, even when asked again"
    )


def test_an_exam_that_cannot_be_finished_keeps_no_result(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: Fault(401)) as server:
        done = examine(server)
    assert done.exit_code == 1
    assert "not finished: openai: authentication" in " ".join(done.stdout.split())
    down = run("doctor", "--try", "--model", "openai:x", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert (down.exit_code, "127.0.0.1 doesn't answer" in " ".join(down.stdout.split())) == (
        1,
        True,
    )
    assert not (tmp_path / "data" / "exams.json").exists()


def test_the_rehearsal_model_can_be_examined_and_keeps_no_result(tmp_path: Path) -> None:
    done = run("doctor", "--try")
    assert "Exam of rehearsal:court: not fit" in done.stdout
    assert not (tmp_path / "data" / "exams.json").exists()


def test_what_is_broken_ends_in_1_only_where_it_is_in_force() -> None:
    down = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert run("doctor", **down).exit_code == 0  # the rehearsal model is in force
    assert run("doctor", TRIBUNAL_MODEL="openai:x", **down).exit_code == 1
    assert run("doctor", TRIBUNAL_MODEL="anthropic:x").exit_code == 1  # it has no key
