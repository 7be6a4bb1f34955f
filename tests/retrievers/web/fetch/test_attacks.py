"""The fetcher against hostile servers, names and pages, over real sockets on loopback.

Each attack is carried out; what happens is compared with what is written beside it; and the table in docs/fetching.md
is made of the same list (set TRIBUNAL_UPDATE_DOCS=1 to write it anew).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import groupby

import pytest

from tests import PROJECT
from tests.retrievers.web.fetch import (
    address_attacks,
    kind_attacks,
    outward_attacks,
    packing_attacks,
    page_attacks,
    robots_attacks,
    url_attacks,
    wire_attacks,
)
from tests.retrievers.web.fetch.attack import Attack
from tests.retrievers.web.fetch.small_web import Web
from tribunal.retrievers.web.fetch.target import RANGES

DOC = PROJECT / "docs" / "fetching.md"
ATTACKS = [
    *address_attacks.ATTACKS,
    *url_attacks.ATTACKS,
    *wire_attacks.ATTACKS,
    *packing_attacks.ATTACKS,
    *kind_attacks.ATTACKS,
    *robots_attacks.ATTACKS,
    *outward_attacks.ATTACKS,
    *page_attacks.ATTACKS,
]


@pytest.mark.parametrize(
    "attempt", ATTACKS, ids=[c.attack.encode("ascii", "replace").decode()[:80] for c in ATTACKS]
)
async def test_attack(web: Web, attempt: Attack) -> None:
    assert await attempt.run(web) == attempt.outcome, attempt.happens


def test_the_table_in_the_docs_is_what_was_tested() -> None:
    by_outcome: dict[str, list[str]] = {}
    for (outcome, _), alike in groupby(ATTACKS, lambda each: (each.outcome, each.happens)):
        by_outcome.setdefault(outcome, []).append(_alike(each.attack for each in alike))
    rows = [f"| {outcome} | {'; '.join(attacks)} |" for outcome, attacks in by_outcome.items()]
    attacks = "\n".join(["| outcome | attacks |", "|---|---|", *rows])
    ranges = f"{', '.join(dict.fromkeys(RANGES.values()))}."
    page = DOC.read_text(encoding="utf-8")
    made = page
    for name, table in (("attacks", attacks), ("ranges", ranges)):
        start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, rest = made.split(start)
        made = before + start + table + end + rest.split(end)[1]
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        DOC.write_text(made, encoding="utf-8")
    else:
        assert page == made, "docs/fetching.md is stale: run this test with TRIBUNAL_UPDATE_DOCS=1"


def _alike(attacks: Iterable[str]) -> str:
    """Return the attacks that end alike as one cell: what they have in common is said once."""
    names = list(attacks)
    head = names[0].partition(", ")[0]
    return "; ".join(
        [_cell(names[0]), *(_cell(name.removeprefix(f"{head}, ")) for name in names[1:])]
    )


def _cell(text: str) -> str:
    text = re.sub(r": `http[^`]*`", "", text)
    return (text if len(text) <= 150 else text[:149] + "…").replace("|", "\\|").replace("\n", " ")
