"""A new policy tried on decided cases, and a threshold fitted on them: by the commands that people give."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import Reply
from tests.openai_server import OpenAIServer
from tests.service.conftest import check_exit
from tests.service.decided_here import courtroom, decided, ran, run
from tribunal.commands import app
from tribunal.eval.measures.fit_reviewed import fit_reviewed
from tribunal.eval.measures.risk_control import AgreementPromise

NOW_HARMLESS = {
    "category": "NotHate",
    "explanation": "<b>judge-words</b> under the new one",
    "confidence": 0.9,
}


async def exported(database: str, out: Path, *categories: str | None) -> list[str]:
    """The ids of cases that were decided so, in a file."""
    async with courtroom(database) as (client, _):
        made = [
            await decided(client, category, text=f"post number {place}", post_id=f"p{place}")
            for place, category in enumerate(categories)
        ]
    await ran("review", "export", "--out", str(out), "--database", database)
    return made


async def new_policy(folder: Path) -> Path:
    path, printed = folder / "new.toml", await run("policy")
    path.write_text(
        printed.stdout.replace("abuses, insults, demeans", "our-new-words, demeans"), "utf-8"
    )
    assert "our-new-words" in path.read_text("utf-8")
    return path


async def test_a_policy_says_which_verdicts_would_change(database: str, tmp_path: Path) -> None:
    month, folder = tmp_path / "month.parquet", tmp_path / "tried"
    await exported(database, month, "NotHate", None, None)
    policy = await new_policy(tmp_path)
    asked = (
        "policy", "try", str(policy), "--on", str(month), "--out", str(folder), "--model", "openai:scripted",
    )  # fmt: skip
    async with OpenAIServer(court_script(explicit=True, judge=NOW_HARMLESS)) as server:
        unasked = await run(*asked)
        assert unasked.exit_code == 2
        assert "3 of 3 posts by tribunal under" in unasked.output
        declined = await asyncio.to_thread(CliRunner().invoke, app, list(asked), input="n\n")
        check_exit(declined, 2, "nothing was spent")
        assert server.requests == [], "nothing is spent before somebody says so"
        done = await asyncio.to_thread(CliRunner().invoke, app, list(asked), input="y\n")
        assert done.exit_code == 0, done.output
        assert all("our-new-words" in request.text for request in server.requests)
        paid = len(server.requests)
        again = await run(*asked, "--json")
        assert (again.exit_code, len(server.requests)) == (0, paid), (
            "what is decided isn't asked, or asked for, again"
        )
    found: dict[str, Any] = json.loads(again.stdout)
    shown = {
        each["post_id"]: (each["from"], each["to"], each["people"]) for each in found["changes"]
    }
    agreed = ("Religious", "NotHate", "Religious")
    assert shown == {"p0": ("Religious", "NotHate", "NotHate"), "p1": agreed, "p2": agreed}
    [then] = found["then"]
    assert (then["policy"], then["graph"], then["models"], then["posts"]) == (
        "h-vli",
        "tribunal",
        "openai:scripted",
        3,
    )
    assert found["changed"]["share"] == 1
    assert (found["agreed_then"]["count"], found["agrees_now"]["count"]) == (2, 1)
    page = (folder / "changes.html").read_text("utf-8")
    assert "&lt;b&gt;judge-words" in page
    assert "<b>judge-words" not in page
    assert "post number" not in page, "no words of a post without --keep-text"


async def test_where_every_post_fails_nothing_is_said_of_what_would_change(
    sqlite: str, tmp_path: Path
) -> None:
    month = tmp_path / "month.parquet"
    await exported(sqlite, month, "NotHate", None)
    policy = await new_policy(tmp_path)
    asked = (
        "policy",
        "try",
        str(policy),
        "--on",
        str(month),
        "--model",
        "openai:scripted",
        "--yes",
    )
    async with OpenAIServer(lambda request: Reply("no JSON at all")):
        done = await run(*asked)
    assert done.exit_code == 4, done.output
    assert "2 of 2 posts have no verdict now: 2 failure" in done.output
    assert "would change (" not in done.output


def words(place: int) -> str:
    """A text like no other."""
    letters = random.Random(place)
    return " ".join("".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(8))


def reviewed(path: Path, count: int, **more: Any) -> Path:
    """A file as an export writes it: the court is right from a confidence of 0.5 on."""
    with path.open("w") as file:
        for place in range(count):
            sure = (place % 100) / 100
            right = sure >= 0.5
            row = {
                "id": f"case-{place}", "text": words(place), "label": "hate" if right else "not",
                "category": "Religious" if right else "NotHate", "scheme": "fine", "court_outcome": "verdict",
                "court_category": "Religious", "court_hateful": True, "court_confidence": sure, "rehearsed": False,
                "graph": "tribunal", "policy_sha": "0123456789abcdef", "line_up": '{"model": "openai:m"}', **more,
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return path


async def test_a_threshold_is_fitted_on_what_people_decided(tmp_path: Path) -> None:
    out = tmp_path / "threshold.json"
    done = await ran("fit", str(reviewed(tmp_path / "month.jsonl", 1000)), "--out", str(out))
    held = json.loads(out.read_text())
    assert 0.45 <= held["threshold"] <= 0.6
    assert (held["graph"], held["policy"], held["models"]) == (
        "tribunal",
        "0123456789abcdef",
        {"model": "openai:m"},
    )
    assert (held["n_fit"], held["clusters"]["by"], held["attempt"]) == (1000, "near-duplicates", 1)
    assert (tmp_path / "month.jsonl.fits.jsonl").exists()
    for options, attempt in (
        (["--cluster", "post"], 2),
        (["--agreement", "0.9"], 3),
        (["--cluster", "post"], 2),
    ):
        done = await run("fit", str(tmp_path / "month.jsonl"), "--out", str(out), *options)
        assert (done.exit_code, json.loads(out.read_text())["attempt"]) == (0, attempt), done.output


async def test_a_threshold_is_of_one_policy_and_of_real_models(tmp_path: Path) -> None:
    two = reviewed(tmp_path / "two.jsonl", 400)
    with two.open("a") as file:
        file.write(
            reviewed(tmp_path / "other.jsonl", 401, policy_sha="ffff").read_text().splitlines()[-1]
            + "\n"
        )
    check_exit(await run("fit", str(two)), 2, "choose with --policy-sha")
    await ran("fit", str(two), "--policy-sha", "0123456789abcdef", "--agreement", "0.8")
    check_exit(
        await run("fit", str(reviewed(tmp_path / "rules.jsonl", 100, rehearsed=True))),
        2,
        "rehearsal model",
    )


async def test_fits_on_cases_of_another_time_are_no_further_tries(
    tmp_path: Path,
) -> None:
    """As a service fits one month after the other."""
    ledger = tmp_path / "fits.jsonl"

    def attempt(first: int, **only: Any) -> int:
        rows = [
            json.loads(line)
            for line in reviewed(tmp_path / "all.jsonl", 2000).read_text().splitlines()
        ]
        part = [
            {**row, "id": f"case-{first + at:05}", **only}
            for at, row in enumerate(rows[first : first + 1000])
        ]
        return fit_reviewed(
            part, AgreementPromise(), fitted_from="reviewed cases", ledger=ledger
        ).attempt

    assert [attempt(0), attempt(1000), attempt(500), attempt(0), attempt(0, graph="arcade")] == [
        1,
        1,
        3,
        1,
        1,
    ]


async def test_a_threshold_from_the_database(database: str, tmp_path: Path) -> None:
    await exported(database, tmp_path / "month.csv", *(["NotHate"] * 2))
    done = await run("fit", "--reviewed", "--since", "2020-01-01", "--database", database)
    assert done.exit_code == 2
    assert (
        "no threshold shows it at level 0.9 with these 2 posts, which count as 1 (clusters by near-duplicates)"
        in done.output
    )
    both = await run("fit", "--reviewed", str(tmp_path / "month.csv"))
    check_exit(both, 2, "one of them")
