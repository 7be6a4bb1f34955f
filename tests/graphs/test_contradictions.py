"""Labels that contradict each other are asked for again once; then the verdict is uncertain, with a warning."""

from __future__ import annotations

from typing import Any

import pytest

from tests.court import argument, court_script, cue, decide, part
from tests.decided import store_of
from tests.doubles import ScriptedServer
from tribunal.schema import Record

GRAPHS = ["arcade", "multiround", "tribunal"]
WRONG, RIGHT = {"cues": [cue("c", "Metaphor", category="Sexist")]}, {"cues": [cue("c", "Metaphor")]}
SEXIST = {"category": "Sexist", "explanation": "judge-words"}
RELIGIOUS = {"category": "Religious", "explanation": "judge-words"}
NOT_HATE = {"category": "NotHate", "explanation": "judge-words"}


async def judged(graph: str = "arcade", **said: Any) -> tuple[Record, list[str]]:
    settings = said.pop("settings", {})
    async with ScriptedServer(court_script(**said)) as server:
        record = await decide(server, graph=graph, rounds=1, **settings)
    return record, [part(request) for request in server.requests]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_cue_whose_characteristic_and_category_differ_is_asked_for_again_once(
    graph: str,
) -> None:
    record, asked = await judged(graph, investigation=[WRONG, RIGHT])
    assert asked.count("investigation") == 2
    assert ([each.category for each in record.cues], record.uncertain) == (["Religious"], False)
    assert not any("contradicted" in warning for warning in record.warnings)
    record, asked = await judged(graph, investigation=WRONG, judge=SEXIST)
    assert asked.count("investigation") == 2
    assert (record.category, record.uncertain) == ("Sexist", True)
    said = (
        "prosecutor contradicted itself, even when asked "
        "again: cues.0: the characteristic religion is of the category"
    )
    assert any(said in warning for warning in record.warnings)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("answers", "times", "category", "uncertain"),
    [
        ([RELIGIOUS], 1, "Religious", False),
        ([NOT_HATE], 1, "NotHate", False),
        ([SEXIST, RELIGIOUS], 2, "Religious", False),
        ([SEXIST, SEXIST], 2, "Sexist", True),
        ([SEXIST, "no JSON at all"], 2, "Sexist", True),
    ],
)
async def test_a_category_that_no_cue_has_is_asked_for_again_once(
    graph: str, answers: list[Any], times: int, category: str, uncertain: bool
) -> None:
    record, asked = await judged(graph, judge=answers)
    assert asked.count("judge") == times
    assert (record.category, record.uncertain) == (category, uncertain)
    warned = "judge contradicted itself, even when asked again: category: Sexist: no cue that stands is of it"
    assert any(f"{warned} (C1 is Religious)" in warning for warning in record.warnings) is uncertain


async def test_a_hateful_verdict_without_any_cue_is_uncertain() -> None:
    hateful = {"category": "Hateful", "explanation": "judge-words"}
    settings = {"scheme": "binary"}
    record, _ = await judged(
        explicit=True, indictment={"cues": []}, judge=hateful, settings=settings
    )
    assert (record.category, record.uncertain) == ("Hateful", True)
    record, _ = await judged(explicit=True, judge=hateful, settings=settings)
    assert (record.category, record.uncertain) == ("Hateful", False)


async def test_a_cue_that_was_withdrawn_bears_nothing_out() -> None:
    await store_of()
    script = court_script(prosecution={"arguments": [argument("p", "withdraw")]}, judge=RELIGIOUS)
    async with ScriptedServer(script) as server:
        record = await decide(
            server,
            "They are the weeds in our garden.",
            graph="tribunal",
            precedents="ours",
            rounds=2,
            early_exit=False,
        )
    assert (record.category, record.uncertain) == ("Religious", True)
    assert any(
        "no cue that stands is of it (no cue stands)" in warning for warning in record.warnings
    )
