"""The hybrid court over the wire: what it adds to ARCADE, who is shown it, and what each shortcut spares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.court import argument, court_script, cue, decide, side_by_side
from tests.decided import store_of
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.graphs.hybrid import PASSAGE, hybrid, hybrid_script, part
from tribunal.errors import BadInput

TRIAL = {
    False: ["gatekeeper", "investigation", "defence", "prosecution", "defence", "judge"],
    True: ["gatekeeper", "indictment", "defence", "judge"],
}
SPEAKERS = ("indictment", "investigation", "prosecution", "defence", "judge")


@pytest.mark.parametrize("scheme", ["fine", "binary"])
@pytest.mark.parametrize(
    "script", [{"explicit": True}, {"implicit": False}, {}], ids=["fast", "dismissed", "deep"]
)
async def test_with_everything_off_each_request_is_arcades_to_the_byte(
    script: Any, scheme: str
) -> None:
    sent = []
    for graph, settings in (
        ("arcade", {}),
        ("tribunal", {"early_exit": False, "policy_examples": False}),
    ):
        async with ScriptedServer(court_script(**script)) as server:
            await decide(server, "post-words", graph=graph, scheme=scheme, **settings)
        sent.append([json.dumps(request.body) for request in server.requests])
    assert sent[0] == sent[1]


def rests_on(request: Request) -> list[str]:
    """What a request lists as that which may be rested on; empty where it lists nothing."""
    listed = request.text.partition("You may rest only on the following:\n")[2]
    return [line.removeprefix("- ") for line in listed.partition("\n\n")[0].splitlines()]


@pytest.mark.parametrize("explicit", [False, True], ids=["deep", "fast"])
@pytest.mark.parametrize("much", [False, True], ids=["the post alone", "all there can be"])
async def test_all_who_argue_and_judge_may_rest_on_the_same(
    much: bool, explicit: bool, tmp_path: Path
) -> None:
    listed = ["the post: its text, as its readers understand it"]
    settings: dict[str, Any] = {"rounds": 2}
    if much:
        Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
        await store_of()
        settings |= {
            "web": True, "perspectives": ["example-harm"], "precedents": "ours", "image": str(tmp_path / "a.png"),
            "earlier": ["Look at this garden."], "appeal": {"reason": "It is about roses."},
        }  # fmt: skip
        listed = [
            "the post: its text and its image, as its readers understand it",
            "the earlier posts of the conversation, for what the post means",
            "the passages, each cited by its id in brackets, as in [E1]",
            "the earlier cases that people decided, each cited by its id in brackets, as in [P1]",
            "the readings of the annotators",
            "what the appeal says",
        ]
    async with hybrid(hybrid_script(explicit=explicit)) as it:
        await it.decide("They are the weeds in our garden.", **settings)
    known = (
        "what is commonly known, such as a stereotype, a piece of history or what a code word means"
    )
    for request in it.model.requests:
        told = [
            *listed,
            *(
                []
                if part(request) == "defence"
                else [f"{known}, where you state it in your reason"]
            ),
        ]
        assert rests_on(request) == (told if part(request) in SPEAKERS else []), part(request)
        assert "evidence in the post" not in request.text
        assert "\n\n\n" not in request.text, part(request)


@pytest.mark.parametrize("explicit", [False, True], ids=["deep", "fast"])
@pytest.mark.parametrize("perspectives", [False, True], ids=["alone", "perspectives"])
@pytest.mark.parametrize("web", [False, True], ids=["offline", "web"])
async def test_who_is_shown_what(web: bool, perspectives: bool, explicit: bool) -> None:
    named = ["example-harm", "example-newsroom"] if perspectives else []
    async with hybrid(hybrid_script(explicit=explicit)) as it:
        record = await it.decide(web=web, perspectives=named, rounds=2)
        url = it.site.url
    court = [name for name in it.parts if name in TRIAL[explicit]]
    assert court == TRIAL[explicit]
    assert it.parts.count("perspective") == len(named)
    assert it.parts.count("queries") == web
    for request in it.model.requests:
        name = part(request)
        told = name in SPEAKERS
        if name != "perspective":
            assert ("reason-of-example-harm" in request.text) == (told and perspectives), name
        if told or name == "gatekeeper":
            assert (PASSAGE in request.text) == (told and web), name
            assert ("[E1]" in request.text and f"{url}/1" in request.text) == (told and web), name
            # The part, the post, and what is known beside it.
            if told and (web or perspectives):
                at = [
                    request.text.index(words)
                    for words in ("# Your p", "the weeds in our garden", "# What is known")
                ]
                assert at == sorted(at)
    assert {opinion.id for opinion in record.opinions} == set(named)
    assert [each.id for each in record.evidence] == (["E1"] if web else [])
    assert record.outcome == "verdict"
    assert not any("threshold" in warning or "retriev" in warning for warning in record.warnings)


async def test_retrieval_is_in_flight_beside_the_gatekeeper() -> None:
    beside_it = ("gatekeeper", "perspective", "queries")
    script = side_by_side(
        hybrid_script(), {"at once": 4}, lambda each: "at once" if part(each) in beside_it else ""
    )
    async with hybrid(script) as it:
        await it.decide(web=True, perspectives=["example-harm", "example-newsroom"])
    [gate], beside = it.asked("gatekeeper"), [*it.asked("perspective"), *it.asked("queries")]
    assert gate.finished is not None
    assert len(beside) == 3
    assert all(gate.arrived < gate.finished and each.arrived < gate.finished for each in beside)
    # Nobody argues before all of it is there.
    before = [request for request in it.model.requests if part(request) not in (*SPEAKERS,)]
    [investigation] = it.asked("investigation")
    assert all(
        each.finished is not None and each.finished <= investigation.arrived for each in before
    )


async def test_a_web_that_fails_leaves_the_trial_to_go_on_and_is_said() -> None:
    async with hybrid(hybrid_script(queries=Fault(status=400, message="no such thing"))) as it:
        record = await it.decide(web=True)
    assert record.outcome == "verdict"
    assert any("the look at the web failed" in warning for warning in record.warnings)
    assert any("no passage from the web was found" in warning for warning in record.warnings)
    async with hybrid(hybrid_script(queries=Reply(refusal="no"))) as it:
        record = await it.decide(web=True, perspectives=["example-harm"])
    assert record.outcome == "verdict"
    assert any("the look at the web was refused" in warning for warning in record.warnings)
    assert len(record.opinions) == 1


async def test_a_perspective_that_fails_is_said_and_missed() -> None:
    async with hybrid(hybrid_script(perspective=Fault(status=400))) as it:
        record = await it.decide(perspectives=["example-harm"])
    assert (record.outcome, record.opinions) == ("verdict", ())
    assert any(
        "perspective example-harm failed and was left out" in warning for warning in record.warnings
    )


async def test_a_citation_of_what_is_not_there_is_struck_out() -> None:
    ruled = {
        "category": "Religious",
        "explanation": "C1 stands [C1], so says one [E1, E7], and another [E8].",
    }
    brought = {"cues": [cue("implied-cue", "Metaphor", justification="it is known [E2]")]}
    denied = {"arguments": [argument("it is a song [E9]", "refute")]}
    async with hybrid(hybrid_script(judge=ruled, investigation=brought, defence=denied)) as it:
        record = await it.decide(web=True, rounds=1)
    assert len(it.asked("judge")) == len(it.asked("investigation")) == len(it.asked("defence")) == 1
    assert record.explanation == "C1 stands [C1], so says one [E1], and another."
    assert record.steps[0].evidence == ("E1",)
    assert record.cues[0].justification == "it is known"
    assert record.transcript[-1].arguments[0].argument == "it is a song"
    said = "cited {}, which this case doesn't hold; that was struck out"
    for who, ids in (("prosecutor", "E2"), ("defender", "E9"), ("judge", "E7, E8")):
        assert f"the {who} {said.format(ids)}" in record.warnings


async def test_an_explanation_that_is_nothing_but_a_wrong_citation_is_asked_for_again() -> None:
    judge = [{"category": "Religious", "explanation": each} for each in ("[E7]", "so says [E1]")]
    async with hybrid(hybrid_script(judge=judge)) as it:
        record = await it.decide(web=True, rounds=1)
    assert len(it.asked("judge")) == 2
    assert record.explanation == "so says [E1]"


# Less for the same verdict


async def test_a_defence_that_concedes_every_cue_ends_the_debate() -> None:
    conceding = {"arguments": [argument("granted", "concede")]}
    async with ScriptedServer(court_script(defence=conceding)) as server:
        record = await decide(server, graph="tribunal")
    assert [part(request) for request in server.requests] == [
        "gatekeeper",
        "investigation",
        "defence",
        "judge",
    ]
    assert "granted" in server.requests[3].text
    assert [(saving.id, saving.calls) for saving in record.saved] == [("early_exit", 4)]
    async with ScriptedServer(court_script(defence=conceding)) as server:
        record = await decide(server, graph="arcade")
    assert (len(server.requests), record.saved) == (8, ())
    async with ScriptedServer(court_script(defence=conceding)) as server:
        await decide(server, graph="arcade", early_exit=True)
    assert len(server.requests) == 4


async def test_a_prosecution_that_withdraws_every_cue_ends_the_debate() -> None:
    withdrawing = {"arguments": [argument("taken back", "withdraw")]}
    await store_of()  # without an exhibit it presses every cue
    cleared = {"category": "NotHate", "explanation": "judge-words"}
    async with ScriptedServer(court_script(prosecution=withdrawing, judge=cleared)) as server:
        record = await decide(
            server, "They are the weeds in our garden.", graph="tribunal", precedents="ours"
        )
    parts = [part(request) for request in server.requests]
    assert parts == ["gatekeeper", "investigation", "defence", "prosecution", "judge"]
    assert [(saving.id, saving.calls) for saving in record.saved] == [("early_exit", 3)]


async def test_one_cue_in_dispute_keeps_the_debate_going() -> None:
    two = {"cues": [cue("first", "Metaphor"), cue("second", "Metaphor")]}
    split = {
        "arguments": [argument("granted", "concede", "C1"), argument("not so", "refute", "C2")]
    }
    async with ScriptedServer(court_script(investigation=two, defence=split)) as server:
        record = await decide(server, graph="tribunal", rounds=2)
    assert (len(server.requests), record.saved) == (6, ())


@pytest.mark.long
async def test_a_clear_first_look_spares_the_trial() -> None:
    clear = {"category": "NotHate", "explanation": "an everyday remark", "confidence": 0.97}
    async with ScriptedServer(court_script(triage=clear)) as server:
        record = await decide(
            server, graph="tribunal", triage="openai:small", perspectives=["example-harm"]
        )
    [request] = server.requests
    assert (part(request), request.model, request.temperature) == ("triage", "small", 0.0)
    assert (record.track, record.category, record.confidence) == ("triage", "NotHate", 0.97)
    assert [saving.id for saving in record.saved] == ["triage"]


async def test_a_first_look_that_is_not_clear_is_shown_to_nobody() -> None:
    unsure = {"category": "Sexist", "explanation": "triage-words", "confidence": 0.89}
    async with ScriptedServer(court_script(triage=unsure, implicit=False)) as server:
        record = await decide(server, graph="tribunal", triage="openai:small")
    assert [part(request) for request in server.requests] == [
        "triage",
        "gatekeeper",
        "investigation",
    ]
    assert not any("triage-words" in request.text for request in server.requests[1:])
    assert (record.track, record.saved) == ("dismissed", ())
    async with ScriptedServer(court_script(triage=Fault(status=400), implicit=False)) as server:
        record = await decide(server, graph="tribunal", triage="openai:small")
    assert record.track == "dismissed"
    assert any("first look gave no decision" in warning for warning in record.warnings)


async def test_what_the_providers_cache_served_is_on_record() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    cached = {"usage": {**usage, "prompt_tokens_details": {"cached_tokens": 64}}}
    ruled = Reply({"category": "Religious", "explanation": "words"}, extra=cached)
    async with ScriptedServer(court_script(explicit=True, judge=ruled)) as server:
        record = await decide(server, graph="tribunal")
    assert record.usage.cached_tokens == 64
    assert [(saving.id, saving.tokens) for saving in record.saved] == [("prompt_cache", 64)]


# Sure or not


async def test_the_judge_is_asked_for_a_confidence_only_where_something_needs_it() -> None:
    sure = {"category": "Religious", "explanation": "words", "confidence": 0.6}
    for settings, asked in (
        ({}, False),
        ({"threshold": 0.5}, True),
        ({"judge_draws": 3}, True),
        ({"web": False}, False),
    ):
        async with ScriptedServer(court_script(explicit=True, judge=sure)) as server:
            record = await decide(server, graph="tribunal", **settings)
        judge = server.requests[3]
        assert judge.schema is not None
        assert ("confidence" in judge.schema["properties"]) == asked
        assert ("- confidence:" in judge.text) == asked
        assert record.confidence == (0.6 if asked else None)


@pytest.mark.parametrize(("threshold", "uncertain"), [(0.6, False), (0.61, True)])
async def test_below_the_threshold_a_verdict_is_uncertain(
    threshold: float, uncertain: bool
) -> None:
    sure = {"category": "Religious", "explanation": "words", "confidence": 0.6}
    async with ScriptedServer(court_script(explicit=True, judge=sure)) as server:
        record = await decide(server, graph="tribunal", threshold=threshold)
    assert (record.outcome, record.uncertain) == ("verdict", uncertain)


@pytest.mark.parametrize("said", [85, "85 %", 85.0])
async def test_a_confidence_in_percent_is_taken_for_what_it_is(said: Any) -> None:
    answer = {"category": "Religious", "explanation": "words", "confidence": said}
    async with ScriptedServer(court_script(explicit=True, judge=answer, triage=answer)) as server:
        record = await decide(server, graph="tribunal", threshold=0.5)
        first_look = await decide(
            server, graph="tribunal", triage="openai:small", triage_confidence=0.8
        )
    assert (record.confidence, first_look.confidence) == (0.85, 0.85)
    assert len(server.requests) == 4 + 1
    assert "a confidence of 85 was taken as 0.85" in record.warnings
    assert "a confidence of 85 was taken as 0.85" in first_look.warnings


@pytest.mark.parametrize("said", [7, 850, -0.5, "quite"])
async def test_a_confidence_that_could_be_anything_is_asked_for_again(said: Any) -> None:
    answers = [
        {"category": "Religious", "explanation": "words", "confidence": each}
        for each in (said, 0.85)
    ]
    async with ScriptedServer(court_script(explicit=True, judge=answers)) as server:
        record = await decide(server, graph="tribunal", threshold=0.5)
    assert (record.confidence, len(server.requests)) == (0.85, 5)


async def test_judges_who_agree_spare_the_rest_of_the_draws() -> None:
    sure = Reply({"category": "Religious", "explanation": "words", "confidence": 0.9})
    async with ScriptedServer(
        side_by_side(court_script(explicit=True, judge=sure), {"judge": 3})
    ) as server:
        record = await decide(server, graph="tribunal", judge_draws=5)
    judges = [request for request in server.requests if part(request) == "judge"]
    assert sorted(request.temperature or 0 for request in judges) == [0.1, 0.7, 0.7]
    assert max(request.arrived for request in judges) < min(
        request.finished or 0 for request in judges
    )
    assert [(saving.id, saving.calls) for saving in record.saved] == [("judge_draws", 2)]
    assert (len(record.votes), record.confidence, record.uncertain) == (3, 0.9, False)


async def test_agreement_decides_and_a_dissenting_vote_lowers_the_confidence() -> None:
    votes = [("Religious", 0.9), ("NotHate", 0.9), ("NotHate", 0.8), ("NotHate", 0.7)]
    answers = [
        {"category": name, "explanation": f"for {name}", "confidence": sure} for name, sure in votes
    ]
    async with ScriptedServer(court_script(explicit=True, judge=answers)) as server:
        record = await decide(server, graph="tribunal", judge_draws=4, draw_temperature=1.1)
    assert [request.temperature for request in server.requests[4:]] == [1.1, 1.1, 1.1]
    assert (record.category, len(record.votes), record.confidence) == ("NotHate", 4, 0.6)
    assert record.uncertain
    assert {call.draw for call in record.calls if call.role == "judge"} == {0, 1, 2, 3}


async def test_a_tie_is_uncertain_whatever_the_confidence() -> None:
    answers = [
        {"category": name, "explanation": "words", "confidence": 1.0}
        for name in ("Religious", "NotHate")
    ]
    async with ScriptedServer(court_script(explicit=True, judge=answers)) as server:
        record = await decide(server, graph="tribunal", judge_draws=2, threshold=0.1)
    assert record.tie
    assert record.uncertain


async def test_a_threshold_from_a_file(tmp_path: Path) -> None:
    from tribunal.nodes.threshold import Threshold

    fitted = Threshold.model_validate(FITTED)
    (tmp_path / "fit.json").write_text(fitted.model_dump_json())
    sure = {"category": "Religious", "explanation": "words", "confidence": 0.6}
    async with ScriptedServer(court_script(explicit=True, judge=sure)) as server:
        record = await decide(server, graph="tribunal", threshold_file=str(tmp_path / "fit.json"))
        assert record.uncertain
        assert any(
            "fitted to another graph (arcade, now tribunal)" in warning
            for warning in record.warnings
        )
        own = await decide(
            server, graph="tribunal", threshold_file=str(tmp_path / "fit.json"), threshold=0.2
        )
        assert not own.uncertain
        (tmp_path / "fit.json").write_text("{}")
        with pytest.raises(BadInput, match="threshold_file"):
            await decide(server, graph="tribunal", threshold_file=str(tmp_path / "fit.json"))


FITTED: dict[str, Any] = {
    "threshold": 0.61, "agreement": 0.95, "level": 0.9, "coverage": 0.5, "agreement_held_out": 0.96, "n_fit": 100,
    "n_held_out": 100, "seed": 0, "graph": "arcade", "scheme": "fine", "models": {"model": "openai:scripted"},
    "policy": "other", "fitted_from": "run", "at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip


# Budgets


@pytest.mark.parametrize("most", [5, 6, 8, 12])
async def test_those_who_run_at_the_same_time_leave_each_other_enough(most: int) -> None:
    async with hybrid() as it:
        record = await it.decide(
            web=True, perspectives=["example-harm", "example-newsroom"], max_calls=most
        )
    assert len(it.model.requests) <= most
    assert it.parts[-1] == "judge"
    assert record.outcome == "verdict"


async def test_a_post_without_words_is_tried_and_not_looked_up(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "post.png")
    async with hybrid() as it:
        record = await it.decide(
            "", image=str(tmp_path / "post.png"), web=True, perspectives=["example-harm"]
        )
    assert set(it.parts) <= {"gatekeeper", "investigation", "defence", "prosecution", "judge"}
    assert any(
        "the post has no text, so nothing was looked up" in warning for warning in record.warnings
    )
