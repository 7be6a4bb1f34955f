"""docs/rehearsal.md names what the lexicon in force knows."""

from __future__ import annotations

from tests import PROJECT
from tribunal.nodes.rehearsal.lexicon import LEXICON
from tribunal.nodes.rehearsal.reading import AROUND, MOST_WEIGHED, NEGATION_REACH, REACH

PAGE = PROJECT.joinpath("docs/rehearsal.md").read_text("utf-8")


def test_the_page_names_the_lexicon_and_every_excuse_in_its_order() -> None:
    assert "`nodes/rehearsal/lexicon.toml`" in PAGE
    kinds = [kind for kind in LEXICON.excuses if kind != "nobody"]
    rows = [
        line
        for line in PAGE.splitlines()
        if line.startswith("| ") and line.split(" | ")[0][2:] in kinds
    ]
    assert [row.split(" | ")[0][2:] for row in rows] == kinds
    assert [kind for kind, row in zip(kinds, rows, strict=True) if "(weak)" in row] == [
        kind for kind in kinds if LEXICON.excuses[kind].weak
    ]


def test_the_page_gives_the_limits_in_force() -> None:
    assert NEGATION_REACH == 5
    assert "the five words before it" in PAGE
    for limit in (
        f"at most {REACH} characters",
        f"{AROUND} characters",
        f"At most {MOST_WEIGHED} in a post",
    ):
        assert limit in PAGE
