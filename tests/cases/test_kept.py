"""Verdicts that are kept: by every way in, with what they were come to by, and never at the cost of the verdict."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tribunal
from tests import PROJECT
from tests.service.conftest import check_exit
from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.prompts.sets import PromptSet, shipped_prompts
from tribunal.schema import Record
from tribunal.testing import ScriptedModel

POST = "Immigrants: the weeds in our zwetschgen garden."
MODEL = ("--model", "rehearsal")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def listed(*options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("cases", "list", "--json", *options).stdout)
    return found


def whole(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("cases", "show", case, "--json").stdout)
    return found


async def test_every_way_in_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text(f"id,text\na,Good morning\nb,{POST}\n")
    settings: dict[str, Any] = {"model": "rehearsal"}

    def at_the_terminal() -> None:
        assert "case-" in run("judge", POST, *MODEL, "--keep").stderr
        assert run("judge", POST, *MODEL).exit_code == 0
        assert run("batch", "posts.csv", "--out", "out.jsonl", *MODEL, "--keep").exit_code == 0
        tribunal.judge(POST, post_id="p", keep=True, **settings)

    await asyncio.to_thread(at_the_terminal)
    record = await tribunal.ajudge(POST, keep=True, **settings)
    async for event in tribunal.trial(POST, keep=True, **settings):
        last = event
    assert isinstance(last, Record)
    await tribunal.ajudge(POST, **settings)
    await asyncio.to_thread(_found, tmp_path, record, last)


def _found(tmp_path: Path, record: Record, last: Record) -> None:
    found = listed()
    assert sorted(row["via"] for row in found) == [
        "batch",
        "batch",
        "command",
        "python",
        "python",
        "python",
    ]
    assert {row["outcome"] for row in found} == {"verdict"}
    assert {record.kept, last.kept} < {row["id"] for row in found}
    assert [row["post_id"] for row in listed("--via", "batch", "--category", "OtherHate")] == ["b"]
    assert [row["post_id"] for row in listed("--post", "p")] == ["p"]
    assert (
        len(listed("--policy", "h-vli")) == len(listed("--policy", found[0]["policy_sha"][:6])) == 6
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {line["kept"] for line in lines} == {row["id"] for row in found if row["via"] == "batch"}

    case = whole(record.kept or "")
    assert case["post"] == {"text": POST}
    assert case["record"] == record.dump()
    assert record.protocol
    texts = {
        sha: run("cases", "show", sha, "--text").stdout
        for sha in (case["policy_sha"], case["prompts_sha"], record.protocol)
    }
    assert texts[case["policy_sha"]].startswith("# The definition, groups and labels")
    assert PromptSet("", json.loads(texts[case["prompts_sha"]])).sha == shipped_prompts().sha
    assert json.loads(texts[record.protocol])["settings"] == {
        "model": "rehearsal",
        "policy": "h-vli",
    }


def test_the_environment_says_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUNAL_KEEP", "no-text")
    assert run("judge", POST, *MODEL).exit_code == 0
    assert run("judge", POST, *MODEL, "--no-keep").exit_code == 0
    [bare] = listed()
    case = whole(bare["id"])
    assert "zwetschgen" not in json.dumps(case)
    assert (case["post"], case["category"], bool(case["post_sha"])) == (None, "OtherHate", True)
    assert [call["model"] for call in case["record"]["calls"]][-1] == "rehearsal:court"
    monkeypatch.setenv("TRIBUNAL_KEEP", "no")
    run("judge", POST, *MODEL, "--review", "--set", "review_rule=all")
    assert [row["outcome"] for row in listed()] == ["pending", "verdict"], (
        "what waits lies there all the same"
    )
    monkeypatch.setenv("TRIBUNAL_KEEP", "always")
    wrong = run("judge", POST, *MODEL)
    check_exit(wrong, 2, "'always': is no way to keep; give yes, no, no-text")


def test_a_file_of_the_working_folder_leads_no_post_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TRIBUNAL_KEEP=yes\nTRIBUNAL_DATABASE=sqlite:///theirs.sqlite\n")
    assert run("judge", POST, *MODEL).exit_code == 0
    assert listed() == []
    assert run("judge", POST, *MODEL, "--keep").exit_code == 0
    assert not (tmp_path / "theirs.sqlite").exists()
    assert len(listed()) == 1


def test_without_words_none_is_left_once_it_is_decided() -> None:
    assert (
        run(
            "judge", POST, *MODEL, "--review", "--set", "review_rule=hateful", "--no-keep-text"
        ).exit_code
        == 5
    )
    [row] = listed()
    data = Path(os.environ["TRIBUNAL_DATA"])
    held = b"".join(path.read_bytes() for path in data.glob("service.sqlite*"))
    assert b"zwetschgen" in held, "a person has to read it"
    said = ("--category", "NotHate", "--note", "zwetschgen, the plant", "--reviewer", "kim")
    assert run("review", "decide", row["id"], *said).exit_code == 0
    assert b"zwetschgen" not in b"".join(path.read_bytes() for path in data.glob("service.sqlite*"))
    [row] = listed()
    assert (row["category"], row["reviewer"], row["outcome"]) == ("NotHate", "kim", "verdict")


def test_a_wrong_database_is_found_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch, scripted_model: ScriptedModel
) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", "mysql://host/name")
    with pytest.raises(BadInput, match="mysql: is no kind that is known"):
        tribunal.judge(POST, keep=True)
    assert not scripted_model.requests


async def test_a_database_that_can_t_be_written_loses_no_verdict(
    tmp_path: Path, scripted_model: ScriptedModel
) -> None:
    first = await tribunal.ajudge(POST, keep=True, graph="baseline")
    assert first.kept
    file = tmp_path / "tribunal-data" / "service.sqlite"
    with sqlite3.connect(file) as other:
        other.execute("DROP TABLE audit_head")  # whoever can't tell the audit log, keeps nothing
    second = await tribunal.ajudge(POST, keep=True, graph="baseline")
    assert (second.outcome, second.kept) == (first.outcome, None)
    assert second.warnings[-1].startswith("this verdict could not be kept (")
    assert [row["id"] for row in await asyncio.to_thread(listed)] == [first.kept]


@pytest.mark.slow
def test_many_processes_keep_in_one_file(tmp_path: Path) -> None:
    script = (
        "import sys, tribunal\n"
        "for number in range(5):\n"
        f"    record = tribunal.judge({POST!r}, post_id=f'{{sys.argv[1]}}-{{number}}', model='rehearsal', keep=True)\n"
        "    assert record.kept, record.warnings\n"
    )
    command, environment = (
        [sys.executable, "-c", script],
        {**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    others = [subprocess.Popen([*command, str(number)], env=environment) for number in range(4)]
    assert [each.wait() for each in others] == [0] * 4
    assert len({row["post_id"] for row in listed()}) == 20
    assert "20 entries, each follows" in run("audit", "verify").stdout
