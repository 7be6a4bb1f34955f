"""A case from Python and from a notebook: watched as it happens, drawn as a page, and awaited where a loop runs."""

from __future__ import annotations

import asyncio
import json
from html.parser import HTMLParser
from typing import Any

import pytest

import tribunal
from tests.court import court_script, cue
from tests.openai_server import OpenAIServer
from tribunal.core.text import count_noun
from tribunal.docket.session import judge_post
from tribunal.graphs import GRAPHS
from tribunal.schema import Evidence, Opinion, Record, Review, Step
from tribunal.settings.context import Context

HOSTILE = '<script>alert(1)</script><img src="http://a.example/x.png" onerror=x>&amp;"\'\u202e{0}%s'


async def test_judge_in_a_running_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"await tribunal\.ajudge\("):
        tribunal.judge("Good morning.")
    assert (await tribunal.ajudge("Good morning.")).outcome == "verdict"


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_trial_gives_every_event_and_at_last_the_record(graph: str) -> None:
    listened: list[dict[str, Any]] = []
    settings: dict[str, Any] = {"search": "none"} if graph == "antihate" else {}
    heard = await judge_post(
        "Good morning.", graph=graph, context=Context(**settings), listen=listened.append
    )
    *events, record = [
        event async for event in tribunal.trial("Good morning.", graph=graph, **settings)
    ]
    assert isinstance(record, Record)
    assert (record.category, record.explanation) == (heard.category, heard.explanation)
    kinds = [event["event"] for event in events if isinstance(event, dict)]
    assert len(kinds) == len(events)
    assert sorted(kinds) == sorted(event["event"] for event in listened)
    assert kinds.count("call") == len(record.calls)
    json.dumps(events)


async def test_whoever_stops_watching_ends_the_case() -> None:
    with OpenAIServer(court_script()) as server:
        case = tribunal.trial("a post", graph="arcade", model="openai:m")
        async for event in case:
            if isinstance(event, dict) and event["event"] == "turn":
                break
        await case.aclose()
        await asyncio.sleep(0.5)
        assert len(server.requests) <= 2  # the gatekeeper, and whoever was asked in the same moment
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "judge_post" in repr(task.get_coro())]


class Page(HTMLParser):
    """Every tag and attribute of a page, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + "\n"


HARMLESS = {"article", "p", "strong", "details", "summary", "ul", "li", "br", "span"}


def drawn(record: Record) -> Page:
    return Page(record._repr_html_())


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_record_of_every_graph_draws_itself(graph: str) -> None:
    settings: dict[str, Any] = {"search": "none"} if graph == "antihate" else {}
    record = tribunal.judge(
        "Immigrants are vermin and should be deported.", graph=graph, **settings
    )
    page = drawn(record)
    assert page.tags <= HARMLESS
    assert page.attributes <= {"style", "open", "role"}
    calls = count_noun(record.usage.calls, "call")
    for words in (record.explanation, "not a moderation decision", calls, record.post_id):
        assert words in page.words
    for each in (
        *(found.claim for found in record.cues),
        *(opinion.reason for opinion in record.opinions),
    ):
        assert each in page.words
    for turn in record.transcript:
        assert turn.text in page.words


def test_a_claim_is_drawn_once() -> None:
    words = drawn(tribunal.judge("Immigrants: the weeds in our garden.")).words
    assert words.count("C1 concedes: ") == 1
    assert words.split("Debate")[1].count("unwanted and to be rooted out: “") == 0


def test_a_hostile_record_is_nothing_but_text() -> None:
    said: Any = {
        "investigation": {
            "cues": [cue(HOSTILE, "Metaphor", target_group=HOSTILE, justification=HOSTILE)]
        },
        "judge": {"explanation": HOSTILE, "category": "Religious"},
    }
    with OpenAIServer(court_script(**said)):
        record = tribunal.judge(
            "a post", graph="arcade", rounds=1, model="openai:m", post_id=HOSTILE
        )
    passage = Evidence.model_validate(Evidence.of("G1", HOSTILE, "supports", HOSTILE, HOSTILE))
    opinion = Opinion(
        id=HOSTILE,
        title=HOSTILE,
        language="en",
        stance="hate",
        label_name=HOSTILE,
        reason=HOSTILE,
        examples=(),
    )
    review = Review(
        reason=HOSTILE, court={"category": HOSTILE}, action="edit", reviewer=HOSTILE, at=HOSTILE
    )
    full = record.model_copy(
        update={
            "category": HOSTILE, "evidence": (passage,), "opinions": (opinion,), "review": review,
            "warnings": (HOSTILE,), "steps": (Step(claim=HOSTILE, evidence=("G1",)),),
        }
    )  # fmt: skip
    for each in (
        full,
        full.model_copy(update={"outcome": "pending"}),
        full.model_copy(update={"outcome": "failure"}),
    ):
        page = drawn(each)
        assert page.tags <= HARMLESS
        assert page.attributes <= {"style", "open", "role"}
        assert page.words.count("<script>alert(1)</script>") > 8
        assert "\u202e" not in page.words


def test_a_page_loads_nothing() -> None:
    page = tribunal.judge("Immigrants are vermin.")._repr_html_()
    assert "http" not in page
    assert "url(" not in page
    assert len(page) < 10_000
