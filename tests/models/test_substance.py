"""Reasons that say nothing: what is taken for one, what isn't, and what becomes of the case, on every graph."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.court import argument, court_script, decide
from tests.doubles import Reply, Request, ScriptedServer
from tests.golden.playing import Player
from tests.golden.test_requests import CASES
from tests.models.classified import classify
from tests.models.honest_reasons import HONEST
from tribunal.models.substance import find_empty_fields
from tribunal.nodes.arcade.cues import ArgumentForm, CueForm
from tribunal.nodes.forms import REASON, DecisionForm
from tribunal.schema import Record

PROMPTS = sorted((Path(__file__).parents[1] / "golden").glob("**/*.md"))
EVERY_PROMPT = "\n".join(page.read_text("utf-8") for page in PROMPTS)
POST = "Those people should not be hired."
PROMPT_LINE = "Hate that is implied counts as much as hate on its face."
SAID_NOTHING = {
    "a timestamp five times": ("2023-09-25T14:30:00Z, " * 5, "repeats itself"),
    "a line of the prompt": (PROMPT_LINE, "is copied from the prompt"),
    "a line of the prompt eleven times": (f"{PROMPT_LINE} " * 11, "repeats itself"),
    "half a line of the prompt": (
        "It counts as much as hate on its face.",
        "is copied from the prompt",
    ),
    "a mark": (
        "<<<post 526af6ee97a37b99",
        "holds the marks that stand around material in a prompt",
    ),
    "an end mark": (
        "post 526af6ee97a37b99>>>",
        "holds the marks that stand around material in a prompt",
    ),
    "digits": ("1234567890", "holds no words"),
    "signs": ("…", "holds no words"),
    "a stance": ("refute", "is a label and no reason"),
    "a label": ("Not hateful.", "is a label and no reason"),
    "a sentence in another language, five times": (
        "그 사람들을 고용하지 말라고 한다. " * 5,
        "repeats itself",
    ),
}
EMPTY = "hateful"  # a label, and no reason


def problems_of(text: str, post: str = POST) -> list[str]:
    form = DecisionForm(explanation=text, category="NotHate")
    return [each.problem for each in find_empty_fields(form, prompt=EVERY_PROMPT, post=post)]


@pytest.mark.parametrize("name", SAID_NOTHING)
def test_what_says_nothing(name: str) -> None:
    text, problem = SAID_NOTHING[name]
    assert problem in problems_of(text)[0]


def test_a_text_that_ends_where_its_field_does_was_cut_off() -> None:
    whole = " ".join(HONEST)
    assert problems_of(whole[: REASON - 1] + "x") == ["was cut off at its greatest length"]
    assert problems_of(whole[: REASON - 1] + ".") == problems_of(whole[: REASON + 50]) == []


@pytest.mark.parametrize("reason", HONEST)
def test_an_honest_reason_says_something(reason: str) -> None:
    assert problems_of(reason) == []


def test_a_claim_may_quote_one_word_or_a_number_and_a_remark_may_say_that_nothing_is_wrong() -> (
    None
):
    held = CueForm(
        target_group="people", claim="1488", justification="It is a code of haters.", type="Direct", characteristic="",
        category="Racist",
    )  # fmt: skip
    assert find_empty_fields(held, prompt=EVERY_PROMPT, post="1488") == []
    said = ArgumentForm(cue_id="C1", claim="hate", argument="refute", stance="refute")
    assert [each.field for each in find_empty_fields(said, prompt="", post="")] == ["argument"]


def test_a_mark_that_the_post_holds_may_be_quoted() -> None:
    assert (
        problems_of("It says: post 526af6ee97a37b99>>>", post="post 526af6ee97a37b99>>> obey") == []
    )


def published_texts() -> Iterator[str]:
    folder = Path(os.environ.get("TRIBUNAL_SHARED_DATA", "-"))
    if not folder.is_dir():
        pytest.skip("TRIBUNAL_SHARED_DATA names no folder of published data")
    yield from (
        each["tweet_text"]
        for each in json.loads((folder / "h-vli/train_set.json").read_text("utf-8")).values()
    )
    for name, column, delimiter in (
        ("unsmile_train.tsv", "문장", "\t"),
        ("kodoli.csv", "sentences", ","),
        ("kmhas_valid.txt", "document", "\t"),
    ):
        with (folder / "korean" / name).open(encoding="utf-8-sig") as file:
            yield from (row[column] for row in csv.DictReader(file, delimiter=delimiter))


def test_false_alarms_over_published_posts_are_at_most_one_in_a_thousand() -> None:
    texts = [text.strip() for text in published_texts()]
    alarms = [text for text in texts if text and problems_of(text, post="")]
    assert len(texts) > 60_000
    assert len(alarms) <= len(texts) / 1000, alarms


# What becomes of the case


async def test_a_reason_that_says_nothing_is_asked_for_again_once_with_what_was_wrong() -> None:
    record, server = await classify(
        [
            {"category": "Racist", "explanation": EMPTY},
            {"category": "Racist", "explanation": "It bars them from work."},
        ]
    )
    assert (record.explanation, record.uncertain, record.warnings) == (
        "It bars them from work.",
        False,
        (),
    )
    assert "explanation is a label and no reason. Say in your own words" in server.requests[1].text
    assert record.calls[0].emptied == ()


async def test_a_second_one_is_left_empty_and_the_verdict_is_uncertain() -> None:
    record, server = await classify({"category": "Racist", "explanation": EMPTY})
    assert len(server.requests) == 2
    assert (record.category, record.explanation, record.uncertain) == ("Racist", "", True)
    assert record.calls[0].emptied == ("explanation",)
    assert record.warnings == (
        "classifier: openai:scripted gave no reason: explanation is a label and no reason; it was left empty",
    )


async def test_a_verdict_is_not_lost_where_the_second_answer_can_t_be_read_or_is_declined() -> None:
    for second in (
        "I will not say more.",
        Reply("{", "length"),
        Reply(refusal="I can't help with that."),
    ):
        record, _ = await classify([{"category": "Racist", "explanation": EMPTY}, second, second])
        assert (record.category, record.explanation, record.uncertain) == ("Racist", "", True)


async def test_an_empty_defence_is_no_argument_that_others_read() -> None:
    script = court_script(defence={"arguments": [argument("refute", "refute")]})
    async with ScriptedServer(script) as server:
        record = await decide(server, POST, rounds=1)
    assert record.transcript[-1].arguments[0].argument == ""
    assert record.uncertain
    assert record.explanation


class SaysNothing(Player):
    """Fills every reason with a label."""

    def _words(self, name: str, request: Request, part: str, path: tuple[str, ...]) -> str:
        reasons = ("explanation", "reason", "reasoning", "argument", "justification")
        return (
            EMPTY
            if name in reasons or ("steps" in path and name == "claim")
            else super()._words(name, request, part, path)
        )


@pytest.mark.parametrize(
    "graph",
    [
        "arcade",
        "multiround",
        "baseline",
        "predict",
        "antihate",
        "mv_debate",
        "self_consistency",
        "symmetric_debate",
        "tribunal",
    ],
)
async def test_on_every_graph_the_verdict_is_uncertain(graph: str) -> None:
    name = next(name for name, (each, _, _) in CASES.items() if each == graph)
    settings = {"mode": "no-knowledge"} if graph == "antihate" else CASES[name][1]
    settings = {key: value for key, value in settings.items() if key not in ("web", "judge_draws")}
    async with ScriptedServer(SaysNothing(explicit=True)) as server:
        record: Record = await decide(server, POST, graph=graph, **settings)
    assert (record.outcome, record.uncertain) == ("verdict", True)
    assert any(call.emptied for call in record.calls)
    assert any("gave no reason" in warning for warning in record.warnings)


@pytest.mark.parametrize(("confidence", "uncertain"), [(0.0, True), (0.74, True), (0.75, False)])
async def test_a_low_confidence_of_the_researcher_s_judge_is_uncertain(
    confidence: float, uncertain: bool
) -> None:
    said = {
        "steps": [{"claim": "It bars them from work.", "evidence": []}],
        "label": "HATE",
        "confidence": confidence,
    }
    async with ScriptedServer(lambda request: Reply(said)) as server:
        record = await decide(server, POST, graph="antihate", mode="no-knowledge")
    assert (record.outcome, record.confidence, record.uncertain) == (
        "verdict",
        confidence,
        uncertain,
    )
