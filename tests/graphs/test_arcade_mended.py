"""What ARCADE's court mends in an answer, with a warning and no further call; what it offers and bounds on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.court import argument, court_script, cue, decide
from tests.doubles import ScriptedServer
from tests.models.honest_reasons import HONEST
from tribunal.models.wire_schema import wire_schema
from tribunal.nodes.arcade.cues import arguments_form
from tribunal.nodes.forms import decision_form
from tribunal.prompts.policy import load_policy

H_VLI = load_policy("h-vli")
GRAPHS = ["arcade", "multiround", "tribunal"]
ALL_BOUNDS = frozenset({"maxItems", "minItems", "maxLength", "minLength", "minimum", "maximum"})


@pytest.mark.parametrize("graph", GRAPHS)
async def test_an_argument_on_no_cue_of_the_case_is_left_out(graph: str) -> None:
    said = {
        "arguments": [argument("of nothing", "refute", "C9"), argument("of C1", "refute", "c1")]
    }
    async with ScriptedServer(court_script(defence=said)) as server:
        record = await decide(server, graph=graph, rounds=1)
    assert [call.attempts for call in record.calls if call.seat == "defender"] == [1]
    assert [(each.cue_id, each.argument) for each in record.transcript[-1].arguments] == [
        ("C1", "of C1")
    ]
    assert (
        "the defender argued on 'C9', which is no cue of this case; that was left out"
        in record.warnings
    )
    assert "of nothing" not in server.requests[-1].text


@pytest.mark.parametrize("graph", GRAPHS)
async def test_of_several_arguments_on_one_cue_the_last_counts(graph: str) -> None:
    said = {"arguments": [argument("at first", "press"), argument("at last", "withdraw", "Cue C1")]}
    async with ScriptedServer(court_script(prosecution=said)) as server:
        record = await decide(server, graph=graph, rounds=2)
    turn = next(turn for turn in record.transcript if turn.id == "prosecutor/2")
    assert [(each.stance, each.argument) for each in turn.arguments] == [("press", "at last")]
    assert "the prosecutor argued on C1 more than once; the last argument counts" in record.warnings


async def test_a_cue_that_is_not_restated_is_the_court_s() -> None:
    said = {"arguments": [{"cue_id": "C1", "stance": "refute", "argument": "a song"}]}
    async with ScriptedServer(court_script(defence=said)) as server:
        record = await decide(server, rounds=1)
    [each] = record.transcript[-1].arguments
    assert (each.target_group, each.claim) == ("Muslims", "implied-cue")
    assert "the defender did not restate C1; it was taken as the court holds it" in record.warnings
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "said",
    ["religious", "RELIGIOUS", " Religious. ", "label: Religious", "Category: religious", "Ｒｅｌｉｇｉｏｕｓ", 4, 4.0,
     "4", "label: 4", "4: Religious", "Religious (4)", "(4)"],
)  # fmt: skip
async def test_a_label_in_another_spelling_is_taken(said: Any) -> None:
    ruled = {"explanation": "so", "category": said}
    async with ScriptedServer(court_script(explicit=True, judge=ruled, classifier=ruled)) as server:
        record = await decide(server)
        alone = await decide(server, graph="baseline")
    assert (record.category, record.label, alone.label) == ("Religious", 4, 4)
    assert len(server.requests) == 4 + 1


@pytest.mark.parametrize(
    "said", ["-4", -4, 9, "3: Religious", "4.5", 4.5, True, "Religious or Racist", "", None, []]
)
def test_a_label_that_could_be_another_is_not_taken(said: Any) -> None:
    with pytest.raises(ValidationError):
        decision_form(H_VLI, "fine").model_validate({"explanation": "so", "category": said})


def test_a_stance_or_type_in_another_spelling_is_taken_and_its_number_is_not() -> None:
    form = arguments_form(("press", "withdraw"), ("C1",))(H_VLI, "fine")
    said = argument("so", "Stance: PRESS")
    assert form.model_validate({"arguments": [said]}).arguments[0].stance == "press"
    with pytest.raises(ValidationError):
        form.model_validate({"arguments": [{**said, "stance": "0"}]})


# Bounds


def bounds(form: type[BaseModel], name: str) -> dict[str, Any]:
    """A field of the form, or of its entries, as a server is sent it that takes every bound."""
    schema = wire_schema(form, ALL_BOUNDS)["schema"]
    parts = [schema, *schema.get("$defs", {}).values()]
    field: dict[str, Any] = next(
        part["properties"][name] for part in parts if name in part["properties"]
    )
    return {keyword: value for keyword, value in field.items() if keyword in ALL_BOUNDS}


async def test_a_text_beyond_its_bound_is_taken() -> None:
    long = " ".join(each for each in HONEST if "[E" not in each)
    ruled = {"explanation": long, "category": "Religious"}
    brought = {"cues": [cue("implied", "Metaphor", justification=long)]}
    async with ScriptedServer(court_script(judge=ruled, investigation=brought)) as server:
        record = await decide(server, rounds=1)
    assert (record.explanation, record.cues[0].justification, len(server.requests)) == (
        long.strip(),
        long.strip(),
        4,
    )


CIRCLES = "so it is, " * 40
WORDLESS = {"cues": [cue(CIRCLES, "Direct", justification=CIRCLES)]}
LEFT_OUT = "'s cues 1 had neither a claim nor a reason, and were left out"


async def test_a_cue_whose_claim_and_reason_say_nothing_is_none() -> None:
    async with ScriptedServer(court_script(gatekeeper=WORDLESS)) as server:
        record = await decide(server, rounds=1)
    assert record.track == "deep_dive"  # as if the gatekeeper had found nothing
    assert f"of the gatekeeper{LEFT_OUT}" in record.warnings
    implied = {"cues": [{**WORDLESS["cues"][0], "type": "Metaphor"}]}
    async with ScriptedServer(court_script(investigation=implied)) as server:
        record = await decide(server, rounds=1)
    assert (record.track, record.cues, record.uncertain) == ("dismissed", (), True)
    assert f"of the prosecutor{LEFT_OUT}" in record.warnings


async def test_an_indictment_whose_cue_says_nothing_brings_none() -> None:
    async with ScriptedServer(court_script(explicit=True, indictment=WORDLESS)) as server:
        record = await decide(server, rounds=1)
    assert (record.track, record.cues, record.outcome) == ("fast_track", (), "verdict")
    assert f"of the prosecutor{LEFT_OUT}" in record.warnings
