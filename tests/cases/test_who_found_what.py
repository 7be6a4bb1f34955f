"""Letters, statements, notices and exports tell the models' category from the one that a person decided."""

from __future__ import annotations

from typing import Any, NamedTuple

import lxml.html  # type: ignore[import-untyped]
import pytest

from tests.cases.letters import CUE, OTHER, POST, VERDICT, told
from tests.court import decide
from tests.doubles import ScriptedServer
from tribunal.explanations.author_letter import write_letter
from tribunal.explanations.case_drawing import draw_page
from tribunal.explanations.deciders import decision_steps
from tribunal.explanations.view_maker import CaseAtHand
from tribunal.prompts.policy import load_policy
from tribunal.review.case_tables import case_row
from tribunal.review.statements import category_explanation, decision_facts
from tribunal.schema import JSON, Appealed, Record, Review

RELIGIOUS: JSON = {"outcome": "verdict", "category": "Religious", "hateful": True}
NOT_HATE: JSON = {"outcome": "verdict", "category": "NotHate", "hateful": False}
REFUSAL: JSON = {"outcome": "refusal", "category": None, "hateful": None}
HATEFUL = "is hate speech of the category"


class Situation(NamedTuple):
    """What was decided in a case, and what has to be told of it."""

    court: JSON
    action: str | None
    category: str
    appeal: str | None = None
    facts: tuple[str, ...] = ()
    finder: str = "A person found"
    letter: str | None = None  # of the letter's section on how it was decided


SITUATIONS = {
    "models alone": Situation(
        RELIGIOUS, None, "Religious", facts=(f"The system found that it {HATEFUL} Religious.", "No person reviewed"),
        finder="An automated system found", letter="No person looked at your post",
    ),
    "accepted": Situation(
        RELIGIOUS, "accept", "Religious",
        facts=(f"The system found that it {HATEFUL} Religious.", "confirmed the category Religious."),
        finder="An automated system and a person found", letter="found the same category: “Religious”",
    ),
    "changed category": Situation(
        RELIGIOUS, "edit", "Sexist",
        facts=(f"The system found that it {HATEFUL} Religious.", f"case and found that it {HATEFUL} Sexist."),
        letter="had found the category “Religious”. A person decided on the category “Sexist”",
    ),
    "overturned": Situation(
        NOT_HATE, None, "Religious", "reversed",
        facts=("The system found that it falls under the category NotHate.", f"found that it {HATEFUL} Religious."),
        letter="had found the category “NotHate”. A person decided on the category “Religious”",
    ),
    "refusal decided by a person": Situation(
        REFUSAL, "edit", "Racist", facts=("came to no verdict.", f"found that it {HATEFUL} Racist."),
        letter="came to no decision. A person decided on the category “Racist”",
    ),
    "failure reopened": Situation(
        REFUSAL, None, "Racist", "changed", facts=("came to no verdict.", f"found that it {HATEFUL} Racist."),
        letter="came to no decision. A person decided on the category “Racist”",
    ),
    "appeal granted": Situation(
        RELIGIOUS, None, "NotHate", "reversed",
        facts=(f"The system found that it {HATEFUL} Religious.", "found that it falls under the category NotHate."),
    ),
}  # fmt: skip


@pytest.fixture(params=SITUATIONS)
async def case(request: pytest.FixtureRequest) -> tuple[Situation, Record]:
    """A situation, and a record of it."""
    wanted = SITUATIONS[request.param]
    async with ScriptedServer(
        told(**{"indictment": {"cues": [CUE, OTHER]}, "judge": VERDICT})
    ) as server:
        record = await decide(server, POST)
    return wanted, as_decided(record, wanted)


def as_decided(record: Record, wanted: Situation, note: str = "kim-note") -> Record:
    names = [each.name for each in load_policy("h-vli").categories("fine")]
    label = names.index(wanted.category)
    update: JSON = {
        "category": wanted.category,
        "label": label,
        "hateful": label > 0,
        "clauses": (),
    }
    if wanted.action:
        told: Any = {
            "reason": "uncertain",
            "court": wanted.court,
            "action": wanted.action,
            "reviewer": "kim",
        }
        update["review"] = Review(**told, note=note)
    if wanted.appeal:
        at = "2026-08-30T10:00:00+00:00"
        appeal: Any = {
            "id": "appeal-1",
            "kind": "appeal",
            "at": at,
            "appellant": "user-7",
            "reason": "why",
        }
        appeal |= {
            "before": wanted.court,
            "result": wanted.appeal,
            "reviewer": "lee",
            "decided": at,
            "note": note,
        }
        update["appeals"] = (Appealed(**appeal),)
    return record.model_copy(update=update)


def row_of(record: Record) -> JSON:
    row: JSON = {
        name: getattr(record, name)
        for name in ("graph", "outcome", "category", "hateful", "uncertain")
    }
    row |= {
        "id": "case-1",
        "practice": None,
        "via": "service",
        "policy_sha": None,
        "created": 1.7e9,
        "finished": 1.7e9,
        "erased": None,
    }
    return row | {"batch_id": None, "settings": {}, "post": {"text": POST}, "record": record.dump()}


def test_a_statement_says_who_found_what(case: tuple[Situation, Record]) -> None:
    wanted, record = case
    facts = decision_facts(row_of(record), ["text"])
    assert all(each in facts for each in wanted.facts), facts
    models = wanted.court["category"]
    if models != wanted.category:
        assert f"The system found that it {HATEFUL} {wanted.category}" not in facts
    assert category_explanation(row_of(record), load_policy("h-vli")).startswith(
        f"{wanted.finder} that"
    )


async def test_a_letter_and_its_notice_say_who_found_what(case: tuple[Situation, Record]) -> None:
    wanted, record = case
    letter = await write_letter(CaseAtHand(record, {"text": POST}), language="en")
    if wanted.letter is None:
        assert letter.notice is None
        return
    page = lxml.html.fromstring(draw_page(letter))
    [section] = page.xpath("//section[@data-about='automation']")
    assert wanted.letter in " ".join(section.text_content().split())
    assert "kim-note" not in page.text_content()
    assert letter.notice is not None
    by_person = bool(wanted.action or wanted.appeal)
    assert (letter.notice.models_category, letter.notice.category) == (
        wanted.court["category"],
        wanted.category,
    )
    assert letter.notice.by_person is by_person


def test_an_export_and_the_history_say_who_found_what(case: tuple[Situation, Record]) -> None:
    wanted, record = case
    row = case_row(row_of(record))
    by = "appeal" if wanted.appeal else "person" if wanted.action else "models"
    assert (row["category"], row["decided_by"]) == (wanted.category, by)
    if by != "models":
        assert (row["court_outcome"], row["court_category"]) == (
            wanted.court["outcome"],
            wanted.court["category"],
        )
    models, *people = decision_steps(record, None)
    assert (wanted.court["category"] or "declined") in models.how
    if wanted.action == "edit":
        assert ("gave no verdict" in people[0].how) is (wanted.court["category"] is None)


@pytest.mark.parametrize("language", ["en", "de"])
async def test_a_letter_translates_the_reason_that_a_person_chose(language: str) -> None:
    policy = load_policy("h-vli")
    names = [each.name for each in policy.categories("fine")]
    number = names.index("Religious")
    chosen = policy.reasons_for(policy.categories("fine")[number])[0]
    async with ScriptedServer(
        told(**{"indictment": {"cues": [CUE, OTHER]}, "judge": VERDICT})
    ) as server:
        record = await decide(server, POST)
    decided = as_decided(record, SITUATIONS["overturned"], chosen)
    letter = await write_letter(CaseAtHand(decided, {"text": POST}), language=language)
    assert letter.notice is not None
    assert letter.notice.reason
    assert (letter.notice.reason == chosen) is (language == "en")
    assert letter.notice.reason in lxml.html.fromstring(draw_page(letter)).text_content()
