"""Each hostile case is carried out, and the table in docs/security.md is made of the same list."""

from __future__ import annotations

import os

import pytest

from tests import PROJECT
from tests.security.hostile import CASES, Hostile

DOC = PROJECT / "docs" / "security.md"


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_comes_of_it(case: Hostile) -> None:
    assert case.play() == case.outcome


def test_the_table_in_the_docs_is_what_was_tested() -> None:
    rows = [f"| {case.what} | {case.way} | {case.outcome} |" for case in CASES]
    table = "\n".join(["| what comes in | by | what comes of it |", "|---|---|---|", *rows])
    held = DOC.read_text("utf-8")
    start, end = (
        "<!-- hostile: written by tests/security/test_hostile_table.py -->\n\n",
        "\n\n<!-- end of hostile -->",
    )
    before, rest = held.split(start)
    made = before + start + table + end + rest.split(end)[1]
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        DOC.write_text(made, "utf-8")
    else:
        assert held == made, "docs/security.md is stale: run this test with TRIBUNAL_UPDATE_DOCS=1"
