"""A screening classifier that is fitted on the cases that people decided in the service's database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_screening import changed, posts, text
from tests.service.decided_here import courtroom, decided, run


@pytest.mark.long
async def test_reviewed_cases_are_exported_and_fitted_on(database: str, tmp_path: Path) -> None:
    """The court finds hate in every post, and people in two of five. What they decided counts."""
    async with courtroom(database) as (client, _):
        hate = await decided(client, None, text=text(0, hate=True), post_id="p0")
        calm = await decided(client, "NotHate", text=text(2, hate=False), post_id="p2")
        await decided(client, "NotHate", text=text(3, hate=False), earlier=["before"])
    month = tmp_path / "month.jsonl"
    done = await run("review", "export", "--out", str(month), "--database", database)
    assert done.exit_code == 0, done.output
    few = await run("screening", "fit", str(month), "--out", str(tmp_path / "model"))
    assert (few.exit_code, "1 of 2 posts are hate: too few of one label" in few.stderr) == (2, True), few.output
    # As many more of these cases as a fit takes, each with words of its own.
    rows = {row["id"]: row for row in map(json.loads, month.read_text("utf-8").splitlines())}
    more = [
        {**rows[hate if label == "hate" else calm], "id": f"case-{name}", "text": words}
        for name, words, label in posts(700)
    ]
    month.write_text("".join(json.dumps(row) + "\n" for row in more), "utf-8")
    # The audit sends one post in a thousand to the court, so that none of those below is among them.
    fit = ("screening", "fit", str(month), "--out", str(tmp_path / "model"), "--audit", "0.001")
    done = await run(*fit, "--json")
    assert done.exit_code == 0, done.output
    held = json.loads(done.stdout)
    assert held["foretold"]["agreement"] > 0.95
    assert "reviewed cases are a selected sample" in held["warnings"][0]
    # It was fitted to the policy that is in force, and says so of another one.
    asked = ("judge", text(9, hate=False), "--model", "rehearsal", "--triage", f"screening:{tmp_path / 'model'}")
    assert json.loads((await run(*asked, "--json")).stdout)["warnings"] == []
    changed(tmp_path / "model", policy="f" * 16)
    [warned] = json.loads((await run(*asked, "--json")).stdout)["warnings"]
    assert "was fitted to another policy (ffffffffffff, now" in warned
