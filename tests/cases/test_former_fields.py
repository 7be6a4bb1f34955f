"""Cases of an earlier version, which hold fields that no case has any more, are read."""

from __future__ import annotations

import json
import sqlite3

import tribunal
from tests.commands.test_judge import run
from tribunal.docket.erasure import without_words
from tribunal.nodes.verdict import find_wrong_outcome
from tribunal.schema import Record, Verdict
from tribunal.settings.context import Context
from tribunal.settings.environment import data_folder

FORMER = {"first_look": "9f86d081" * 8}


def test_a_record_and_an_outcome_of_an_earlier_version_are_read() -> None:
    record = tribunal.judge("Good morning.")
    assert Record.model_validate({**record.dump(), **FORMER}) == record
    assert without_words({**record.dump(), **FORMER}) == without_words(record.dump())
    outcome = Verdict(
        label=0, category="NotHate", hateful=False, explanation="Nothing was found."
    ).dump()
    assert find_wrong_outcome({"outcome": {**outcome, **FORMER}}, Context()) is None
    assert "is no field" in (
        find_wrong_outcome({"outcome": {**outcome, "other": 1}}, Context()) or ""
    )


def test_a_stored_case_of_an_earlier_version_is_shown() -> None:
    kept = json.loads(run("judge", "Good morning.", "--keep", "--json").stdout)["kept"]
    with sqlite3.connect(data_folder() / "service.sqlite") as database:
        [(record,)] = database.execute("SELECT record FROM cases WHERE id = ?", (kept,))
        database.execute(
            "UPDATE cases SET record = ?", (json.dumps({**json.loads(record), **FORMER}),)
        )
    shown = run("cases", "show", kept)
    assert shown.exit_code == 0, shown.output
    assert "NotHate" in shown.stdout
