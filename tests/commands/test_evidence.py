"""`tribunal evidence`: a post's chain as it is printed, and what is said where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tests.doubles.web import Site, SitePage
from tribunal.commands import app
from tribunal.retrievers.web.archive import Archive, StoredPage, page_id

HOSTILE = "\x1b[2J\u202eevil [red]markup[/red]"


def run(*arguments: str, ends: int = 0, terminal: bool = False) -> str:
    """What a command prints, or the one line with which it fails."""
    width = {"COLUMNS": "60", "FORCE_COLOR": "1", "TERM": "xterm"} if terminal else {}
    result = CliRunner().invoke(app, ["evidence", *arguments], env=width)
    assert result.exit_code == ends, result.output
    return result.stderr if ends else result.stdout


def a_page(path: str, **more: Any) -> StoredPage:
    url = f"https://example.org/{path}"
    fields: dict[str, Any] = {
        "title": f"About {path}", "language": "en", "date": "2026-03-04", "text": "Words.\nMore words.",
        "truncated": False, "content_type": "text/html", "status": 200, "fetched_at": "2026-11-21T10:00:00+00:00",
        "body_sha": "0" * 64,
    }  # fmt: skip
    fields |= more
    return StoredPage(id=page_id(url, fields["text"]), url=url, final_url=url, **fields)


def a_hit(path: str, title: str) -> dict[str, Any]:
    return {
        "query": "q",
        "url": f"https://example.org/{path}",
        "title": title,
        "snippet": "",
        "engine": "e",
        "rank": 1,
    }


async def two_turns(archive: Archive) -> None:
    run = await archive.begin_run(
        "post-7", "the words of the post", {"model": "openai:x", "search": "duckduckgo,searxng"}
    )
    plan = {
        "turn": 1,
        "thought": f"Look it up {HOSTILE}",
        "entities": ["the image", "the words"],
        "claims": [],
    }
    await archive.add_decision(run, "plan", plan)
    failed = {"engine": "duckduckgo", "kind": "rate_limit", "message": "HTTP 202"}
    await archive.add_search(
        run, 1, "who said that", "searxng", [a_hit("a", "First"), a_hit("b", "Second")], [failed]
    )
    await archive.add_search(run, 1, "nobody knows", None, [], [failed])
    await archive.add_decision(run, "relevance", {"turn": 1, "chosen": ["https://example.org/a"]})
    page = a_page("a", title=f"Title {HOSTILE}")
    await archive.add_fetch(run, 1, page.url, await archive.add_page(page))
    evidence = {
        "id": "E1", "query": "who said that", "url": page.url, "page_id": page.id, "title": page.title,
        "passage": "Words.\nMore words.", "stance": "supports", "window": 2, "start": 0, "end": 18,
    }  # fmt: skip
    await archive.add_decision(run, "evidence", evidence)
    await archive.add_decision(
        run, "page", {"turn": 1, "url": page.url, "page_id": page.id, "evidence": ["E1"]}
    )
    judged = {"turn": 1, "url": page.url, "judgement": "hate", "reasoning": "It repeats a slur."}
    await archive.add_decision(run, "judgement", judged)
    await archive.add_decision(
        run, "sufficiency", {"turn": 1, "sufficient": False, "missing": "who spread it"}
    )
    await archive.add_search(run, 2, "who spread it", "searxng", [a_hit("c", "Third")])
    await archive.add_decision(run, "relevance", {"turn": 2, "chosen": ["https://example.org/c"]})
    await archive.add_fetch(
        run, 2, "https://example.org/c", None, "https://example.org/c: robots: asks not to"
    )
    await archive.add_decision(run, "sufficiency", {"turn": 2, "sufficient": True, "missing": ""})
    steps = [
        {"claim": "It repeats a slur", "evidence": ["E1", "E9"]},
        {"claim": "So it is hate", "evidence": []},
    ]
    verdict = {
        "outcome": "verdict",
        "label": 1,
        "hateful": True,
        "confidence": 0.83,
        "explanation": "x",
        "steps": steps,
    }
    await archive.add_decision(run, "verdict", verdict)


@pytest.fixture
def held(tmp_path: Path) -> Path:
    async def write() -> None:
        archive = await Archive.open(tmp_path / "e.sqlite")
        await archive.begin_run("post-1", "another", {})
        await two_turns(archive)
        await archive.close()

    asyncio.run(write())
    return tmp_path / "e.sqlite"


CHAIN = """
Turn 1
  thought: Look it up [U+001B][2J[U+202E]evil [red]markup[/red]
  entities to verify: the image; the words
  searched “who said that”: 2 hits by searxng
    duckduckgo failed (rate_limit): HTTP 202
    relevant     First
      https://example.org/a
    not relevant Second
      https://example.org/b
  searched “nobody knows”: 0 hits by no engine
    duckduckgo failed (rate_limit): HTTP 202
  page “Title [U+001B][2J[U+202E]evil [red]markup[/red]”, 2026-03-04
    https://example.org/a
    text/html, en, fetched 21 Nov 2026, 10:00 UTC, id {page}
    E1 supports (window 2, characters 0 to 18)
      “Words.
      More words.”
    judgement: hate; It repeats a slur.
  enough? no; who spread it

Turn 2
  searched “who spread it”: 1 hit by searxng
    relevant     Third
      https://example.org/c
  no page: https://example.org/c: robots: asks not to
  enough? yes

Verdict: HATE (0.83)
  It repeats a slur
    [E1] supports, https://example.org/a
      “Words.
      More words.”
    [E9] is not in the archive
  So it is hate
"""


def test_a_chain_reads_from_the_queries_to_the_verdict(held: Path) -> None:
    out = run("post-7", "--archive", str(held))
    head, _, chain = out.partition("\nTurn 1")
    assert head.startswith("Post post-7\n  run ")
    assert "model openai:x, search duckduckgo,searxng" in head
    assert "\nTurn 1" + chain == CHAIN.format(page=a_page("a").id)
    assert run("latest", "--archive", str(held)) == out  # the latest


def test_a_terminal_gets_no_escape_but_our_own(held: Path) -> None:
    out = run("latest", "--archive", str(held), terminal=True)
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    assert "evil [red]markup" in out
    assert max(len(line) for line in out.splitlines()) < 90  # colours included


def test_json_is_one_object_with_all_of_it(held: Path) -> None:
    trail = json.loads(run("post-7", "--archive", str(held), "--json"))
    assert trail["run"]["post_id"] == "post-7"
    assert [each["kind"] for each in trail["entries"]].count("search") == 3
    assert trail["pages"][a_page("a").id]["text"] == "Words.\nMore words."


def test_a_run_without_a_verdict_says_so(held: Path) -> None:
    assert "No verdict is archived" in run("post-1", "--archive", str(held))


def test_runs_are_listed(held: Path) -> None:
    lines = run("--archive", str(held)).splitlines()
    assert [line.split()[0] for line in lines] == ["post", "post-1", "post-7"]
    assert lines[1].split()[-3:] == ["0", "0", "none"]
    assert lines[2].split()[-4:] == ["3", "1", "HATE", "(0.83)"]


def test_the_default_archive_is_that_of_the_data_folder(tmp_path: Path) -> None:
    assert "no such file" in run(ends=2)

    async def write() -> None:
        await (await Archive.open()).close()

    asyncio.run(write())
    assert "holds no run yet" in run("latest", ends=2)
    assert run().split()[0] == "post"


OURS = """
import os
from tribunal.retrievers.web.search.engine import Hit

class Library:
    name = "our-library"

    async def search(self, query, k):
        return [Hit(query=query, url=os.environ["OUR_PAGE"], title=query, snippet="", engine=self.name, rank=1)]

ENGINE = Library()
"""


@pytest.mark.long
@pytest.mark.parametrize("named", ["our_search:ENGINE", "ours"])
def test_a_search_engine_of_ones_own_from_the_command_line_to_the_archive(
    tmp_path: Path, named: str
) -> None:
    """By its place, and by the name of the entry point that an installed package declares."""
    (tmp_path / "our_search.py").write_text(OURS)
    package = tmp_path / "ours-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[tribunal.search]\nours = our_search:ENGINE\n")
    with Site(
        {"/": SitePage("<p>Vermin is a derogatory word when it is said of people.</p>")}
    ) as site:
        environment = {
            **os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{tmp_path}", "OUR_PAGE": f"{site.url}/",
            "TRIBUNAL_FETCH_ALLOW": site.host,
        }  # fmt: skip
        judge = [
            "judge",
            "Gardeners are vermin",
            "--graph",
            "antihate",
            "--model",
            "rehearsal",
            "--set",
            f"search={named}",
        ]
        start = [sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()"]
        done = subprocess.run(
            [*start, *judge, "--set", "archive=e.sqlite"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("e.sqlite-*"))  # it was closed with the loop
    shown = run("latest", "--archive", str(tmp_path / "e.sqlite"))
    assert "1 hit by our-library" in shown
    assert "“Vermin is a derogatory word when it is said of people.”" in shown
