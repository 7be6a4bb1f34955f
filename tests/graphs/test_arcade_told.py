"""Who is told what in ARCADE's court, and in which words each cue reaches the next speaker (paper, D.3; SYSTEMS.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.court import QUOTED, argument, court_script, cue, decide, part
from tests.decided import store_of
from tests.doubles import Request, ScriptedServer
from tribunal.prompts.policy import load_policy
from tribunal.schema import Record

COURTS: list[tuple[str, bool]] = [
    ("arcade", False), ("arcade", True), ("multiround", False), ("tribunal", False), ("tribunal", True),
    ("baseline", False),
]  # fmt: skip
TYPES = "Types of cue:"
RELATIONS = ("Endorsement:", "Opposition:", "Role assignment:", "joint message")
MEANS = ("Allegory:", "Juxtaposition:", "Selective association:", "left for the reader to infer",
         "pronoun without a name", "need not stand in the image")  # fmt: skip


@pytest.fixture
def picture(tmp_path: Path) -> str:
    Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
    return str(tmp_path / "a.png")


async def asked(graph: str, explicit: bool = False, **settings: Any) -> list[Request]:
    async with ScriptedServer(court_script(explicit=explicit)) as server:
        await decide(server, graph=graph, **settings)
    return list(server.requests)


# What the debate alone is to find, in whatever words: one who has no debate is asked without a hint at it.
HINTS = re.compile(
    r"\bimpl(?:y|ies|ied|ici)|dehumani|stereotyp|metaphor|allegor|sarcas|ironi|irony|satir|\brelat|each contribute"
    r"|call on others|harmless|openly", re.IGNORECASE
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["fine", "binary"])
async def test_the_baseline_and_the_gatekeeper_are_sent_nothing_that_coaches_them(
    scheme: str,
) -> None:
    """The whole request that is shipped: a gain of ARCADE over its baseline is the debate's."""
    for request in (
        *(await asked("baseline", scheme=scheme)),
        (await asked("arcade", scheme=scheme))[0],
    ):
        said = "\n".join(str(message["content"]) for message in request.body["messages"])
        assert HINTS.findall(said) == [], part(request)
        assert not any(words in said for words in (TYPES, *RELATIONS, *MEANS))


@pytest.mark.parametrize(("graph", "explicit"), COURTS)
@pytest.mark.parametrize("sees", [False, True], ids=["without", "unseen"])
async def test_without_an_image_that_is_shown_nothing_is_said_of_one(
    graph: str, explicit: bool, sees: bool, picture: str
) -> None:
    sent = await asked(
        graph, explicit, **({"image": picture, "model": "openai:gpt-3.5-turbo"} if sees else {})
    )
    assert sent
    for request in sent:
        assert not request.images
        ours = QUOTED.sub("", request.text)
        told = ours.replace("The post has no image.", "").replace(
            "The post has an image. You can't see it", ""
        )
        assert "image" not in told.replace("say nothing about what it may show", ""), part(request)
        assert not any(
            words in told for words in (*RELATIONS, load_policy("h-vli").together, "picture")
        ), part(request)


# Who belongs to no protected group (published code: `target_group must come from the defined protected groups`)

NO_GROUP = "Residents, people in general, a party and things are no such group, unless the policy lists them."
NO_CUE = {
    "gatekeeper": "Name none if nobody whom the post attacks belongs to a protected group.",
    "indictment": "If nobody whom the post attacks belongs to a protected group, bring no cue: give an empty list.",
    "investigation": "or if nobody whom the post attacks belongs to a protected group.",
    "judge": "Reject a cue if nobody whom it attacks belongs to a protected group.",
}
NEUTRAL = "Reject a cue if the post speaks of its own author, or if its context is neutral"


@pytest.mark.parametrize("scheme", ["fine", "binary"])
@pytest.mark.parametrize(("graph", "explicit"), COURTS[:-1])
async def test_an_attack_on_no_protected_group_is_no_cue(
    graph: str, explicit: bool, scheme: str
) -> None:
    sent = {part(request): request for request in await asked(graph, explicit, scheme=scheme)}
    for name in sent.keys() & NO_CUE.keys():
        assert f"{NO_CUE[name]} {NO_GROUP}" in sent[name].text, name
        if name != "judge":
            assert "minItems" not in str(sent[name].schema)
    assert (NEUTRAL in sent["judge"].text) is explicit
    assert "it is credible that the author means hate by it" in sent["judge"].text


@pytest.mark.parametrize(("graph", "explicit"), COURTS[:-1])
async def test_only_the_cue_types_of_the_track_are_named(graph: str, explicit: bool) -> None:
    """The paper and the code name them to who brings cues and who judges."""
    for request in await asked(graph, explicit):
        named = part(request) in ("indictment", "investigation", "judge")
        assert ('- "Direct"' in request.text) is (named and explicit), part(request)
        assert all(
            (f'- "{kind}"' in request.text) is named for kind in ("Socio-cultural", "Metaphor")
        )


@pytest.mark.parametrize("sees", [False, True], ids=["text", "text and image"])
async def test_a_pronoun_clears_only_a_post_that_lets_no_group_be_inferred(
    sees: bool, picture: str
) -> None:
    shown: dict[str, Any] = {"image": picture} if sees else {}
    sent = {part(request): request for request in await asked("arcade", **shown)}
    inferred = "neither its text nor its image lets" if sees else "nothing in it lets"
    assert (
        f"a protected group is meant only if {inferred} a reader plausibly infer one."
        in sent["defence"].text
    )
    only = (
        'says only "they" is a reason to reject a cue only if '
        f"{inferred} a reader plausibly infer a protected group."
    )
    assert only in sent["judge"].text
    assert "if its readers can infer who is meant" in sent["investigation"].text


async def test_an_indictment_without_a_cue_is_still_answered_and_judged() -> None:
    script = court_script(
        explicit=True,
        indictment={"cues": []},
        judge={"category": "NotHate", "explanation": "It insults a party."},
    )
    async with ScriptedServer(script) as server:
        record = await decide(server)
    assert [part(request) for request in server.requests] == [
        "gatekeeper",
        "indictment",
        "defence",
        "judge",
    ]
    assert all("(nothing)" in request.text for request in server.requests[2:])
    assert (record.cues, record.category) == ((), "NotHate")
    assert "argued on 'C1', which is no cue of this case; that was left out" in "".join(
        record.warnings
    )


@pytest.mark.parametrize("explicit", [True, False], ids=["fast", "deep"])
async def test_hostility_towards_individuals_is_excused_without_a_condition(explicit: bool) -> None:
    defence = next(each for each in await asked("arcade", explicit) if part(each) == "defence")
    excused = (
        "aimed at the author, at individual people or at "
        "something that is not a person: then it is no hate speech"
    )
    assert excused in defence.text
    assert "have nothing to do with" not in defence.text


KNOWN = "- what is commonly known, such as a stereotype"


@pytest.mark.parametrize("explicit", [True, False], ids=["fast", "deep"])
async def test_common_knowledge_counts_where_the_reason_states_it_but_not_for_the_defence(
    explicit: bool,
) -> None:
    for request in (await asked("arcade", explicit, rounds=2))[1:]:
        known = (
            "You may rest only on the following:\n- the post: its text, as its readers understand it\n"
            + KNOWN
        )
        assert (known in request.text) is (part(request) != "defence"), part(request)


async def test_the_first_look_is_not_pushed_towards_being_sure() -> None:
    script = court_script(triage={"explanation": "words", "category": "NotHate", "confidence": 0.5})
    async with ScriptedServer(script) as server:
        await decide(server, graph="tribunal", triage="openai:scripted")
    look = next(request for request in server.requests if part(request) == "triage").text
    assert not re.search(r"[Mm]ost posts|you are sure of it|you are not sure", look)
    assert "how sure you are, from 0 to 1" in look


async def test_an_explanation_names_words_group_and_rule_and_no_sides() -> None:
    """The author of the post saw no debate."""
    script = court_script(triage={"explanation": "words", "category": "NotHate", "confidence": 0.5})
    async with ScriptedServer(script) as server:
        await decide(server, graph="tribunal", triage="openai:scripted")
    told = (
        "for the author of the post, who knows nothing of this "
        "review: the words of the post that decide it, the group"
    )
    for request in server.requests:
        assert (told in request.text) is (part(request) in ("triage", "judge")), part(request)
        assert "the other side's reasons" not in request.text


# What is said of a cue


async def test_whom_a_cue_attacks_is_said_in_words_and_by_characteristic() -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, rounds=2)
    defence, prosecution, judge = server.requests[2], server.requests[3], server.requests[-1]
    whom = "C1 (Metaphor)\n  target_group: Muslims\n  characteristic: religion\n  claim: "
    assert f"{whom}implied-cue" in defence.text
    assert f"{whom}claim\n  refutes: defence-1" in prosecution.text
    assert judge.text.count(whom) == 4
    assert (record.cues[0].target_group, record.cues[0].characteristic) == ("Muslims", "religion")
    cues = server.requests[1].schema
    assert cues is not None
    named = cues["$defs"]["Cue"]["properties"]
    assert named["characteristic"]["enum"] == list(load_policy("h-vli").protected_groups)
    assert "enum" not in named["target_group"]


@pytest.mark.parametrize("graph", ["arcade", "multiround", "tribunal"])
async def test_from_round_2_on_a_cue_keeps_its_type_category_and_first_justification(
    graph: str,
) -> None:
    async with ScriptedServer(court_script()) as server:
        await decide(server, graph=graph, rounds=3)
    head = "C1 (Metaphor)\n  target_group: Muslims\n  characteristic: religion\n  claim: claim"
    reasons = "justification: first-why\n  category: Religious"
    pressed = f"{head}\n  {reasons}\n  presses: "
    *_, prosecution, defence, _judge = server.requests
    assert f"{pressed}prosecution-2" in prosecution.text
    assert f"{pressed}prosecution-3" in defence.text
    # Once: the words that are answered don't say it again.
    assert prosecution.text.count("first-why") == defence.text.count("first-why") == 1


# A cue that is left out


async def test_nothing_is_called_as_before_where_no_cue_was_left_out() -> None:
    assert not any("as before" in request.text for request in await asked("arcade", rounds=3))


TWO = {"cues": [cue("first", "Metaphor"), cue("second", "Metaphor", justification="second-why")]}
BOTH = {"arguments": [argument("d-1", "refute", "C1"), argument("d-2", "refute", "C2")]}


@pytest.mark.parametrize("graph", ["arcade", "multiround", "tribunal"])
async def test_a_cue_that_the_prosecutor_forgets_stands_as_it_stood(graph: str) -> None:
    async with ScriptedServer(court_script(investigation=TWO, defence=BOTH)) as server:
        record = await decide(server, graph=graph, rounds=3)
    said = [request for request in server.requests if part(request) in ("prosecution", "defence")]
    for request in said[2:]:  # from what the prosecutor said in round 2 on
        assert (
            "C2 (Metaphor)\n  target_group: Muslims\n  characteristic: religion\n  claim: second"
            in request.text
        )
        assert "presses, as before: second-why" in request.text
    assert "presses, as before: second-why" in server.requests[-1].text
    for k in (2, 3):
        assert (
            f"the prosecutor left out C2 in round {k}; what it said of it before stands"
            in record.warnings
        )
        turn = next(turn for turn in record.transcript if turn.id == f"prosecutor/{k}")
        assert [(each.cue_id, each.held) for each in turn.arguments] == [
            ("C1", False),
            ("C2", True),
        ]


async def withdrawing(server: ScriptedServer) -> Record:
    """A case of the hybrid in which something was decided before, so that the prosecutor may withdraw."""
    await store_of()
    return await decide(
        server, "They are the weeds in our garden.", graph="tribunal", precedents="ours", rounds=3
    )


@pytest.mark.parametrize("graph", ["arcade", "multiround", "tribunal"])
async def test_a_prosecutor_presses_and_withdraws_only_what_an_exhibit_proves_wrong(
    graph: str,
) -> None:
    taken_back = {"arguments": [argument("p", "withdraw")]}
    async with ScriptedServer(court_script(prosecution=taken_back)) as server:
        record = await decide(server, graph=graph, rounds=2)
    pressing = next(request for request in server.requests if part(request) == "prosecution")
    assert "Press every cue again." in pressing.text
    assert "withdraw" not in "".join(request.text for request in server.requests)
    assert "stance" not in str(pressing.schema)
    assert [
        each.stance
        for turn in record.transcript
        for each in turn.arguments
        if turn.seat == "prosecutor"
    ] == ["press"]
    if graph == "tribunal":
        async with ScriptedServer(court_script(prosecution=taken_back)) as server:
            await withdrawing(server)
        pressing, judge = server.requests[3], server.requests[-1]
        assert "proves that it is strictly harmless. Then withdraw it" in pressing.text
        assert "Do not count a cue that the Prosecutor withdrew" in judge.text


@pytest.mark.parametrize("explicit", [True, False], ids=["fast", "deep"])
async def test_a_cue_that_the_defence_leaves_out_is_conceded(explicit: bool) -> None:
    charged: dict[str, Any] = {"indictment" if explicit else "investigation": TWO}
    answered = {"arguments": [argument("d-2", "refute", "C2")]}
    async with ScriptedServer(
        court_script(explicit=explicit, defence=answered, **charged)
    ) as server:
        record = await decide(server, rounds=1)
    *_, defence, judge = server.requests
    assert "A cue that you leave out is conceded. An empty list concedes them all." in defence.text
    assert '"concede"' not in defence.text
    arguments = (defence.schema or {})["properties"]["arguments"]
    assert arguments["description"] == "A cue that is left out is conceded."
    assert "stance" not in str(defence.schema)
    assert [(each.cue_id, each.stance) for each in record.transcript[-1].arguments] == [
        ("C2", "refute"), ("C1", "concede"),
    ]  # fmt: skip
    assert "claim: first\n  concedes: (not answered)" in judge.text
    assert (
        "left unanswered in the end is conceded: it stands, unless a rule above rejects it."
        in judge.text
    )


async def test_what_was_last_said_of_it_is_held_and_a_withdrawn_cue_is_let_go() -> None:
    rounds = [
        {"arguments": [argument("p-1", "withdraw", "C1"), argument("p-2", "press", "C2")]},
        {"arguments": []},
    ]
    async with ScriptedServer(
        court_script(investigation=TWO, defence=BOTH, prosecution=rounds)
    ) as server:
        record = await withdrawing(server)
    last = next(turn for turn in record.transcript if turn.id == "prosecutor/3")
    assert [(each.cue_id, each.stance, each.argument, each.held) for each in last.arguments] == [
        ("C2", "press", "p-2", True),
    ]  # fmt: skip
    assert "presses, as before: p-2" in server.requests[-2].text
    assert "C1" not in "".join(warning for warning in record.warnings)
