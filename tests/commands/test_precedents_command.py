"""`tribunal precedents`: from what people decided in the terminal, or from a file, to a store that a run names."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tests.court import court_script, part
from tests.decided import held_by
from tests.doubles import ScriptedServer
from tests.openai_server import OpenAIServer
from tests.test_docs import blocks
from tribunal.commands import app
from tribunal.prompts.policy import load_policy
from tribunal.retrievers.precedents.store import precedents_folder
from tribunal.runner.pins import collect_pins
from tribunal.settings.context import Context

POST = "They are the weeds in our garden."
UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.2}


def run(*words: str, ends: int = 0) -> str:
    done = CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})
    assert done.exit_code == ends, done.output
    return done.output if ends else done.stdout


def found(*words: str) -> Any:
    return json.loads(run("precedents", *words, "--json"))


def table(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(number: int, text: str, category: str = "Racist", **other: str) -> dict[str, str]:
    made = {
        "id": f"case-{number}", "post_id": f"post-{number}", "text": text, "category": category, "action": "edit",
        "decided": f"2026-10-{number:02}T09:00:00+00:00", "policy": "h-vli", "policy_sha": "ab" * 8, "note": "because",
    }  # fmt: skip
    return {**made, **other}


async def tried(*posts: str) -> list[str]:
    """Posts that wait for a person, by their threads."""
    from tribunal.docket.session import judge_post
    from tribunal.settings.context import context_from

    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)):
        context = context_from({"model": "openai:scripted", "review": True})
        return [
            str((await judge_post(post, graph="tribunal", context=context)).thread)
            for post in posts
        ]


def test_what_people_decide_in_the_terminal_becomes_a_precedent_and_goes_with_its_case() -> None:
    threads = asyncio.run(
        tried("The weeds of our garden.", "Those people are weeds.", "Weeds in the garden!")
    )
    run(
        "review",
        "decide",
        threads[0],
        "--category",
        "NotHate",
        "--note",
        "it speaks of plants",
        "--reviewer",
        "kim",
    )
    run("review", "decide", threads[1], "--accept", "--reviewer", "kim")
    said = run("precedents", "build", "ours")
    assert "ours: 2 cases (1 accepted, 1 changed)" in said
    assert "2 added, 0 removed" in said
    nearest = found("show", "ours", "--search", "The weeds in our garden.")
    assert [(each["case"], each["category"], each["how"], each["note"]) for each in nearest] == [
        (threads[0], "NotHate", "changed", "it speaks of plants"), (threads[1], "Religious", "accepted", ""),
    ]  # fmt: skip
    assert {each["policy_sha"] for each in nearest} == {load_policy("h-vli").sha}
    assert found("show", "ours", "--case", threads[0])["text"] == "The weeds of our garden."
    assert "holds none of this id" in run("precedents", "show", "ours", "--case", "case-0", ends=2)
    assert b"kim" not in held_by(precedents_folder() / "ours")
    run("review", "decide", threads[2], "--category", "Racist", "--reviewer", "kim")
    assert "1 added, 0 removed" in run("precedents", "build", "ours")
    assert "3 cases" in run("precedents", "show", "ours")
    assert [each["name"] for each in found("show")] == ["ours"]


def test_a_file_is_a_source_and_an_erased_case_leaves_with_the_next_build(tmp_path: Path) -> None:
    rows = [
        row(1, "Those people are weeds."), row(2, "The weeds grow again.", "NotHate", action="accept"),
        row(3, ""), row(4, "those PEOPLE are weeds"),
    ]  # fmt: skip
    file = table(tmp_path / "last-month.csv", *rows)
    built = found("build", "ours", "--from", str(file))
    assert (built["rows"], built["copies"], built["left_out"]) == (2, 1, 1)
    assert built["sources"] == [{"kind": "file", "name": "last-month.csv", "cases": 4}]
    assert (built["first"][:10], built["last"][:10], built["policies"]) == (
        "2026-10-02",
        "2026-10-04",
        {"ab" * 8: 2},
    )
    table(file, *rows[1:2])
    assert found("build", "ours", "--from", str(file))["gone"] == 1
    assert "from: ours was built from the file last-month.csv" in run(
        "precedents", "build", "ours", ends=2
    )
    assert "holds another store" in run("precedents", "build", "ours", "--from", "database", ends=2)
    assert "give --from database" in run("precedents", "build", "ours", "--from", "docket", ends=2)
    assert found("build", "ours", "--from", "database", "--replace")["rows"] == 0
    assert "No decided case has anything" in run("precedents", "show", "ours", "--search", POST)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text\nwords\n", "row 1: has no column 'category'; it has text"),
        (
            "text,category,how\nwords,Racist,burnt\n",
            "row 1: how = 'burnt': is not accepted, changed, appealed",
        ),
        ("text,category,hateful\nwords,Racist,perhaps\n", "row 1: hateful = 'perhaps'"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_line(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(content)
    assert says in run("precedents", "build", "ours", "--from", "own.csv", ends=2)
    assert not (precedents_folder() / "ours" / "manifest.json").exists()


def test_a_hostile_store_commands_no_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[2J[red]x[/red]\x1b]0;t\x07 \u202eweeds"
    file = table(
        tmp_path / "own.csv",
        row(1, f"They are the weeds {hostile}", hostile, note=hostile, policy=hostile),
    )
    said = run("precedents", "build", "ours", "--from", str(file))
    for words in (("show", "ours"), ("show", "ours", "--search", POST), ("show",)):
        said += run("precedents", *words)
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert "[U+202E]" in said


@pytest.mark.long
def test_what_the_page_shows_runs(tmp_path: Path) -> None:
    [block] = blocks(PROJECT / "docs" / "precedents.md", "sh")
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-ec", block], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "Racist; changed, 1 Oct 2026, under a policy not known (case-1, similarity 0.70)" in said
    assert (
        "NotHate; changed, 2 Oct 2026, under a policy not known (case-2, similarity 0.70)" in said
    )


# In an evaluation


def test_eval_leaves_the_posts_own_cases_out_and_pins_the_store(tmp_path: Path) -> None:
    """A store of the very posts that are evaluated: no post is shown its own decision, by its id or by its words."""
    posts = {
        "post-1": "They are the weeds in our garden.",
        "post-2": "The weeds in our garden grow.",
        "post-3": "Weeds!",
    }
    store = [row(n, text, category=f"Of{n}") for n, text in enumerate(posts.values(), start=1)]
    store += [
        row(4, "THEY are the weeds in our garden!", "Of1"),
        row(5, "Another wording of weeds.", "Of2", post_id="post-2"),
    ]
    run("precedents", "build", "ours", "--from", str(table(tmp_path / "store.csv", *store)))
    table(
        tmp_path / "posts.csv",
        *({"id": id, "text": text, "label": "hate"} for id, text in posts.items()),
    )

    async def evaluated(out: str, *more: str) -> tuple[Any, ScriptedServer]:
        async with OpenAIServer(court_script(explicit=True)) as server:
            words = [
                "eval",
                "--dataset",
                "table",
                "--data",
                "posts.csv",
                "--out",
                out,
                "--model",
                "openai:scripted",
            ]
            done = await asyncio.to_thread(
                CliRunner().invoke, app, [*words, "--concurrency", "1", *more]
            )
        return done, server

    done, server = asyncio.run(
        evaluated("run", "--set", "precedents=ours", "--set", "precedents_k=9")
    )
    assert done.exit_code == 0, done.output
    shown = {}
    for request in server.requests:
        if part(request) == "judge":
            own = next(
                id
                for id, text in posts.items()
                if f"\n{text}\n" in request.text.partition("# What is")[0]
            )
            shown[own] = {f"Of{n}" for n in range(1, 4) if f"decided: Of{n}" in request.text}
    assert shown == {"post-1": {"Of2", "Of3"}, "post-2": {"Of1", "Of3"}, "post-3": {"Of1", "Of2"}}
    held = json.loads((tmp_path / "run" / "run.json").read_text())["precedents"]["ours"]
    assert (held["sha"], held["embedding"], held["cases"]) == (
        found("show", "ours")["sha"],
        "tfidf",
        4,
    )
    line = json.loads((tmp_path / "run" / "results.jsonl").read_text().splitlines()[0])
    assert line["precedents"][0]["id"] == "P1"
    assert "precedents" not in asyncio.run(collect_pins("tribunal", Context(model="rehearsal")))
    # A run doesn't go on with another store.
    run("precedents", "build", "ours", "--from", str(table(tmp_path / "store.csv", *store[:2])))
    done, _ = asyncio.run(evaluated("run", "--set", "precedents=ours", "--set", "precedents_k=9"))
    assert done.exit_code == 2
    assert "precedents ours: then" in done.output
