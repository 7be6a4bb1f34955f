"""A record explained: every graph, every outcome, and nothing claimed that the record doesn't hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tribunal
from tests.cases.letters import CUE, OTHER, POST, VERDICT, Page, told
from tests.court import court_script, decide
from tests.doubles import Reply, ScriptedServer
from tribunal.core.text import count_noun
from tribunal.docket.session import submit_review
from tribunal.errors import BadInput
from tribunal.explanations.case_drawing import draw_fragment, draw_markdown, draw_page
from tribunal.explanations.case_view import CaseView
from tribunal.explanations.quotations import MarkedCue, cut_segments
from tribunal.explanations.view_maker import safe_link, view_case
from tribunal.graphs import GRAPHS
from tribunal.runner.prices import Price, Prices
from tribunal.schema import Appealed, Cue, Evidence, Record

WEEDS = "Immigrants: the weeds in our garden."
# So that no graph looks anything up.
OFFLINE: dict[str, dict[str, Any]] = {"antihate": {"mode": "no-knowledge"}}


def read(made: CaseView) -> Page:
    """The page of an explanation, which nothing can be loaded from and nothing runs in."""
    found = Page(draw_page(made))
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "iframe", "object", "embed", "link", "base", "form"}
    assert not [
        name
        for _, held in found.elements
        for name in held
        if name == "style" or name.startswith("on")
    ]
    assert all(each.get("scope") in ("col", "row") for each in found.all("th"))
    assert len(found.all("table")) == len(found.all("caption"))
    assert all(each.get("alt") for each in found.all("img"))
    for each in found.all("a"):
        assert str(each["href"]).startswith(("#", "http://", "https://"))
        assert str(each["href"]).startswith("#") or "noreferrer" in str(each["rel"])
    inner = Page(draw_fragment(made))
    assert inner.text in found.text
    return found


@pytest.mark.parametrize("graph", GRAPHS)
async def test_every_graph(graph: str) -> None:
    record = await tribunal.ajudge(WEEDS, graph=graph, **OFFLINE.get(graph, {}))
    made = view_case(record, post=WEEDS)
    found, written = read(made), draw_markdown(made)
    assert made.post.text == WEEDS
    for words in (
        made.title,
        made.first,
        count_noun(record.usage.calls, "call"),
        "unknown, since no price",
    ):
        assert str(words) in found.text
    for named in (*(cue.id for cue in record.cues), *(opinion.id for opinion in record.opinions)):
        assert named in found.text
    spoken = {turn.text for turn in record.transcript if turn.text}
    assert all(" ".join(words.split()) in found.text for words in spoken)
    assert "not recorded" in found.text
    assert "## Who decided" in written
    assert made.trial.tables or not record.transcript, "whatever was said stands in a table"


async def test_a_row_a_cue_and_a_column_a_step() -> None:
    """Of two cues one is withdrawn, the other conceded; the judge names one. The gatekeeper's own is a third."""
    said = [
        {
            "cue_id": "C1",
            "target_group": "x",
            "claim": "x",
            "argument": "stands-still",
            "stance": "press",
        },
        {
            "cue_id": "C2",
            "target_group": "x",
            "claim": "x",
            "argument": "no-longer",
            "stance": "withdraw",
        },
    ]
    answers = [
        {
            "cue_id": each,
            "target_group": "x",
            "claim": "x",
            "argument": f"answer-{each}",
            "stance": stance,
        }
        for each, stance in (("C1", "concede"), ("C2", "refute"))
    ]
    script = told(investigation={"cues": [CUE | {"type": "Metaphor"}, OTHER | {"type": "Metaphor"}]},
                  prosecution={"arguments": said}, defence={"arguments": answers})  # fmt: skip
    async with ScriptedServer(script) as server:
        record = await decide(server, POST, graph="multiround", rounds=2)
    turn = record.transcript[2]  # the hybrid's prosecutor may withdraw
    taken_back = turn.arguments[1].model_copy(update={"stance": "withdraw"})
    turn = turn.model_copy(update={"arguments": (turn.arguments[0], taken_back)})
    record = record.model_copy(
        update={"transcript": (*record.transcript[:2], turn, *record.transcript[3:])}
    )
    made = view_case(record, post=POST)
    [table] = made.trial.tables
    assert table.columns == ("Round 1", "Round 2", "Judge")
    assert [[[word.chip for word in cell] for cell in row.cells] for row in table.rows] == [
        [["brought", "conceded"], ["pressed", "conceded"], ["named in the reasons"]],
        [["brought", "refuted"], ["withdrawn", "refuted"], ["named in the reasons"]],
    ]
    assert [each.chip for each in made.trial.cues[1].standing] == ["withdrawn", "refuted"]
    found = read(made)
    for words in ("stands-still", "no-longer", "answer-C1", "first-why"):
        assert words in found.text
    assert [(part.text, part.cues) for part in made.post.segments] == [
        ("They are ", ()), ("rats, all Muslims", (1,)), (". ", ()), ("Women too", (2,)), (".", ()),
    ]  # fmt: skip
    assert made.applied is not None
    assert made.applied.sentence
    assert ("Protected characteristics that are named", "religion") in made.applied.rests_on


async def test_what_the_gatekeeper_alone_saw_has_a_row_of_its_own() -> None:
    scan = {"cues": [CUE, OTHER]}
    async with ScriptedServer(told(gatekeeper=scan, indictment={"cues": [CUE]})) as server:
        record = await decide(server, POST, graph="arcade")
    made = view_case(record, post=POST)
    [table] = made.trial.tables
    assert [(row.cue, row.cells[0][0].chip, row.cells[-1][0].chip) for row in table.rows] == [
        (1, "found", "named in the reasons"), (2, "found", "not charged"),
    ]  # fmt: skip
    assert [cue.by for cue in made.trial.cues] == ["the prosecution", "the gatekeeper alone"]


@pytest.mark.parametrize(
    ("answer", "outcome", "decided"),
    [
        (Reply(refusal="I can't."), "refusal", "declined to answer"),
        (Reply("no JSON at all"), "failure", "failed"),
    ],
)
async def test_no_verdict(answer: Reply, outcome: str, decided: str) -> None:
    async with ScriptedServer(told(judge=answer)) as server:
        record = await decide(server, POST)
    made = view_case(record, post=POST)
    assert (made.outcome, made.tone, made.decided[0].how) == (outcome, "open", decided)
    assert "openai:scripted (judge)" in made.decided[0].by
    assert made.trial.tables[0].columns[-1] in ("Refusal", "Failure")
    read(made)


async def test_a_person_decided_after_a_question() -> None:
    unsure = {**VERDICT, "confidence": 0.2}
    async with ScriptedServer(told(judge=unsure)) as server:
        record = await decide(server, POST, graph="tribunal", review=True)
        assert view_case(record, post=POST).decided[-1].by == "not decided yet"
        thread = str(record.thread)
        await submit_review(thread, {"type": "response", "args": "who says so?", "reviewer": "kim"})
        edit = {
            "type": "edit",
            "args": {"action": "decide", "args": {"category": "Sexist", "note": "the second one"}},
        }
        done = await submit_review(thread, {**edit, "reviewer": "lee"})
    made = view_case(done, post=POST)
    assert [(each.by, each.how) for each in made.decided] == [
        ("kim", "returned the case with a question"),
        ("openai:scripted (judge)", "found Religious, confidence 0.20; a person overruled it"),
        ("lee", "changed Religious, the model's verdict, to Sexist"),
    ]
    assert made.trial.reasons == VERDICT["explanation"], "the court's own, and not the person's"
    [earlier] = made.earlier_trials
    assert (earlier.question, earlier.outcome, len(earlier.tables)) == (
        "who says so?",
        "Religious",
        1,
    )
    found = read(made)
    assert "the second one" in found.text
    appeal = Appealed(
        id="a", kind="appeal", at="2026-11-20", appellant="them", reason="not-meant-so", before=done.dump(),
        decided_by="lee", result="reversed", reviewer="max", decided="2026-11-21", note="they are right",
    )  # fmt: skip
    after = done.model_copy(
        update={"appeals": (appeal,), "category": "NotHate", "label": 0, "hateful": False}
    )
    heard = read(view_case(after, post=POST))
    assert "decided the appeal: reversed" in heard.text


def cited() -> Record:
    """A record with evidence from three addresses, of which one may be linked to."""
    record = tribunal.judge(WEEDS, graph="baseline")
    addresses = ("https://example.com/a?b=1", "javascript:alert(1)", "")
    evidence = tuple(
        Evidence.model_validate(
            Evidence.of(f"E{number}", f"passage {number}", "supports", f"title {number}", address)
        )
        for number, address in enumerate(addresses, start=1)
    )
    evidence = (evidence[0].model_copy(update={"page_id": "p1"}), *evidence[1:])
    pages = {"run": "r", "turn": 1, "pages": [{"page_id": "p1", "date": "2025-02-03"}]}
    return record.model_copy(update={"evidence": evidence, "research": pages})


def test_evidence_has_its_link_passage_and_date() -> None:
    made = view_case(cited(), post=WEEDS)
    assert [(each.href, each.date) for each in made.evidence] == [
        ("https://example.com/a?b=1", "2025-02-03"), (None, "unknown"), (None, "unknown"),
    ]  # fmt: skip
    found = read(made)
    assert [each["href"] for each in found.all("a") if not str(each["href"]).startswith("#")] == [
        "https://example.com/a?b=1"
    ]
    assert "javascript:alert(1)" in found.text, "it is told, and leads nowhere"


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a.b/c",
        "//a.b/c",
        "http:a",
        "https://user:word@a.b/",
        "https://a.b/\n",
        'https://a.b/"x',
        "http://[",
        "data:x",
    ],
)
def test_no_other_address_is_linked_to(address: str) -> None:
    assert safe_link(address) is None


@given(
    st.text(alphabet="ab .“”\n", max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=5),
)
def test_marks_cover_just_what_they_are_of(text: str, spans: list[tuple[int, int]]) -> None:
    cue = Cue(id="C1", **CUE)
    held = [
        MarkedCue(cue, number, [(begin, min(begin + long, len(text)))])
        for number, (begin, long) in enumerate(spans, start=1)
        if begin < len(text)
    ]
    cut = cut_segments(text, held)
    assert "".join(each.text for each in cut) == text
    at = 0
    for each in cut:
        for number, (begin, end) in ((mark.number, mark.spans[0]) for mark in held):
            assert (number in each.cues) == (begin <= at and at + len(each.text) <= end)
            assert (number in each.ends) == (at + len(each.text) == end)
        at += len(each.text)


def test_what_is_not_at_hand_is_said_to_be_unknown() -> None:
    record = tribunal.judge(WEEDS, graph="arcade")
    made = view_case(record.model_copy(update={"policy": {"name": "gone", "sha": "0" * 16}}))
    assert not made.post.segments
    assert "isn't available" in made.post.absent
    assert made.trial.cues[0].marked is None
    assert made.applied is not None
    assert "isn't stored" in made.applied.absent
    read(made)
    with pytest.raises(BadInput, match="its hash is"):
        view_case(
            record, policy_text=tribunal_policy().replace("Hate speech abuses", "Hate abuses")
        )
    prices = Prices({"rehearsal:court": Price(input=1, output=2)})
    priced = view_case(record, price=prices.cost_of_call)
    assert priced.cost.money.endswith("by the price table")
    assert (
        "no price for rehearsal:court"
        in view_case(record, price=Prices({}).cost_of_call).cost.money
    )


def tribunal_policy() -> str:
    from tribunal.prompts.policy import load_policy

    return load_policy("h-vli").source


async def test_python_gives_it_and_says_where_it_can_t_wait() -> None:
    record = await tribunal.ajudge(WEEDS, graph="arcade")
    made = await tribunal.aexplain(record, text=WEEDS)
    assert isinstance(made, CaseView)
    assert made.post.text == WEEDS
    assert "<mark>" in made._repr_html_()
    with pytest.raises(RuntimeError, match="aexplain"):
        tribunal.explain(record)
    again = await asyncio.to_thread(lambda: tribunal.explain(record, text=WEEDS, told_to="poster"))
    assert again.told_to == "poster"


async def test_a_dismissed_case_says_that_nobody_judged_it() -> None:
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, POST)
    made = view_case(record, post=POST)
    assert made.decided[0].by == "ended early: nothing found, so no judge decided"
    assert "No cue was brought." in read(made).text


@pytest.mark.parametrize(
    "claim", ["“" * 100_000, "“a b” " * 20_000, "'a' " * 50_000, "a " * 50_000]
)
def test_a_claim_of_any_length_is_read_at_once(claim: str) -> None:
    """To look for quotations takes the square of what is read; without a bound the first of these took minutes."""
    record = tribunal.judge(WEEDS, graph="multiround", rounds=1)
    long = record.cues[0].model_copy(update={"claim": claim, "justification": claim})
    post = "a b " * 10_000
    made = view_case(record.model_copy(update={"cues": (long,)}), post=post)
    assert made.post.text == post
