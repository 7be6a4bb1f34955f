"""The words for the person who posted: what the model is shown, and what it may not name."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import lxml.html  # type: ignore[import-untyped]
import pytest
from PIL import Image

from tests import PROJECT
from tests.cases.letters import CUE, FRENCH, GOOD, OTHER, POST, VERDICT, Page, is_explainer, told
from tests.court import decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.core.text import parse_toml
from tribunal.docket.session import submit_review
from tribunal.explanations.author_letter import NoStatedReason, write_letter
from tribunal.explanations.case_drawing import draw_markdown, draw_page
from tribunal.explanations.case_view import AuthorLetter
from tribunal.explanations.notices import DecisionMapping, example_mapping
from tribunal.explanations.view_maker import CaseAtHand, PostAtHand, fields_of_post
from tribunal.prompts.policy import parse_policy
from tribunal.schema import Record
from tribunal.settings.context import Context

SCRIPTED = Context(model="openai:scripted")
FIXED = "We looked at your post and decided that it is hate speech. Our rules don't allow that."
ONE_GROUND = {
    "indictment": {"cues": [CUE, OTHER]},
    "judge": VERDICT | {"explanation": "C1 decides it."},
}
TODAY = date(2026, 8, 31)


def case_of(record: Record, post: PostAtHand) -> CaseAtHand:
    """The case of a record, with its post at hand."""
    return CaseAtHand(record, dict(fields_of_post(post)))


@pytest.fixture
def untranslated(tmp_path: Path) -> str:
    """A policy that is written in Korean, it says, and in no other language: English letters lack its words."""
    text = (
        (PROJECT / "prompts" / "policies" / "h-vli.toml")
        .read_text("utf-8")
        .partition("[translations.de]")[0]
    )
    path = tmp_path / "untranslated.toml"
    path.write_text(
        text.replace('name = "h-vli"', 'name = "untranslated"\nlanguage = "ko"'), "utf-8"
    )
    return str(path)


async def asked(
    *answers: Any,
    post: Any = POST,
    language: str | None = None,
    policy: str = "h-vli",
    **court: Any,
) -> tuple[AuthorLetter, list[Request]]:
    """A decided case explained by these answers, and what was sent for it."""
    async with ScriptedServer(told(*answers, **{**ONE_GROUND, **court})) as server:
        record = await decide(server, POST, policy=policy)
        made = await write_letter(case_of(record, post), language=language, context=SCRIPTED)
        return made, [request for request in server.requests if is_explainer(request)]


def lines_of(letter: AuthorLetter, about: str) -> list[str]:
    """The lines of a section of a letter, as its page shows them; none: it has no such section."""
    page = lxml.html.fromstring(draw_page(letter))
    return [
        " ".join(line.text_content().split())
        for line in page.xpath(f"//section[@data-about='{about}']/*[not(self::h3)]")
    ]


def sections_of(letter: AuthorLetter) -> list[str]:
    """The sections of a letter, by what they are about."""
    return [
        str(each.get("data-about"))
        for each in lxml.html.fromstring(draw_page(letter)).iter("section")
    ]


async def noticed(
    language: str, mapping: DecisionMapping | None = None, **changed: Any
) -> AuthorLetter:
    """The notice about a post that was decided to be hateful, without a model."""
    async with ScriptedServer(told(**ONE_GROUND)) as server:
        record = (await decide(server, POST)).model_copy(update=changed)
        made = await write_letter(
            case_of(record, POST), language=language, mapping=mapping, today=TODAY
        )
        assert not [request for request in server.requests if is_explainer(request)]
        return made


async def test_a_letter_is_a_notice_with_all_that_article_17_wants() -> None:
    redress = {
        "complaint": "https://example.org/complaints",
        "settlement": "https://example.org/settlement",
    }
    mapping = DecisionMapping.model_validate({**parse_toml(example_mapping()), "redress": redress})
    made = await noticed("en", mapping)
    assert (made.source, made.text, made.hateful, made.category) == (
        "fixed",
        FIXED,
        True,
        "Religious",
    )
    assert sections_of(made) == ["measure", "facts", "rule", "automation", "redress"]
    assert lines_of(made, "measure") == [
        "We removed your post.",
        "This applies in the European Union.",
    ]
    assert made.measures == ("DECISION_VISIBILITY_CONTENT_REMOVED",)
    assert lines_of(made, "facts") == [
        "We looked at your post on our own initiative.", "The decision rests on these words of your post:",
        "rats, all Muslims", "We take this as an attack on: Muslims (religion).",
    ]  # fmt: skip
    rule = lines_of(made, "rule")
    assert (
        rule[0] == "The ground is in our terms: Terms of service, section 3.2: attacks for a faith"
    )
    assert rule[1:3] == ["Category of our policy: Religious", "Number in our policy: 1.4"]
    assert (made.clauses, made.rule) == (
        ("1.4",),
        "An attack on people because of a faith, or of having none.",
    )
    assert any("quotes or shows hate in order to condemn" in each for each in rule), (
        "the exceptions stand there"
    )
    assert lines_of(made, "automation") == [
        "Your post was found by automated means.",
        "An automated system decided. No person looked at your post before the decision.",
    ]
    redressed = lines_of(made, "redress")
    assert made.complain_until == date(2027, 2, 28), "six months after the last of August"
    assert redressed[0].startswith("You can complain to us free of charge until 28 February 2027.")
    assert redressed[1:] == [
        "Send your complaint here: https://example.org/complaints",
        "You can turn to a certified out-of-court dispute settlement body.",
        "Such a body: https://example.org/settlement", "You can also go to court.",
    ]  # fmt: skip
    assert made.warnings == ()
    for drawn in (Page(draw_page(made)).text, draw_markdown(made)):
        for words in (
            "We removed your post.",
            "28 February 2027",
            "rats, all Muslims",
            "go to court",
        ):
            assert words in drawn


@pytest.mark.parametrize(
    ("language", "expected", "ground"),
    [
        ("de", ("Ein Angriff auf Menschen wegen eines Glaubens", "Religionsfeindlichkeit", "28. Februar 2027"),
         "Nutzungsbedingungen, Abschnitt 3.2"),
        ("ko", ("신앙이 있거나 없다는 이유로", "종교 혐오", "2027년 2월 28일"), "서비스 약관 제3.2조"),
    ],
)  # fmt: skip
async def test_it_is_in_their_language_by_the_policys_translations(
    language: str, expected: tuple[str, ...], ground: str
) -> None:
    made = await noticed(language, DecisionMapping.model_validate(parse_toml(example_mapping())))
    page = Page(draw_page(made)).text
    for words in (*expected, ground):
        assert words in page
    for english in ("attack", "Terms", "Category", "speech", "Religious", "(religion)"):
        assert english not in page, f"{english}: no word of the rule is English"
    assert (made.source, made.language, made.warnings) == ("fixed", language, ())


async def test_the_clauses_that_a_verdict_cites_are_told() -> None:
    made = await noticed("de", clauses=("1.2", "1.4"))
    assert (made.clauses, "Nummer in unserer Richtlinie: 1.2, 1.4" in lines_of(made, "rule")) == (
        ("1.2", "1.4"),
        True,
    )
    assert "wegen ihres Geschlechts. Ein Angriff auf Menschen wegen eines Glaubens" in made.rule


async def test_a_category_that_is_not_hate_is_told_as_what_it_is() -> None:
    async with ScriptedServer(told(**ONE_GROUND)) as server:
        record = await decide(server, POST)
        toxic = record.model_copy(update={"category": "Toxic", "label": 6, "hateful": False})
        policy = (PROJECT / "prompts" / "policies" / "h-vli.toml").read_text("utf-8")
        toxic_rule = '[[fine]]\nname = "Toxic"\nmeaning = "rude words for somebody"\nhate = false\n\n[[binary]]'
        german = '[translations.de.names]\nToxic = "Grobheit"'
        policy = policy.replace("[[binary]]", toxic_rule, 1).replace(
            "[translations.de.names]", german
        )
        policy = policy.replace(
            "[translations.de.meanings]",
            '[translations.de.meanings]\nToxic = "grobe Worte für jemanden"',
        )
        sha = parse_policy(policy).sha
        at_hand = case_of(toxic.model_copy(update={"policy": {"name": "h-vli", "sha": sha}}), POST)
        for language, *words in (
            ("en", "against our rules", "rude words for somebody", "Category of our policy: Toxic"),
            ("de", "gegen unsere Regeln", "grobe Worte für jemanden", "Grobheit"),
        ):
            made = await write_letter(at_hand._replace(policy_text=policy), language=language)
            page = Page(draw_page(made)).text
            assert (made.hateful, made.category, made.source) == (False, "Toxic", "fixed")
            for each in words:
                assert each in page
            for wrong in ("hate speech.", "not hate", "Hassrede.", "attack on: Muslims"):
                assert wrong not in made.title + made.text + " ".join(lines_of(made, "facts"))


async def test_a_post_that_stands_gets_a_letter_that_says_so() -> None:
    async with ScriptedServer(
        told(judge={"category": "NotHate", "explanation": "C1 and C2 fall"})
    ) as server:
        record = await decide(server, POST)
        for language, title in (("en", "Your post stands"), ("ko", "게시물은 그대로 유지됩니다")):
            made = await write_letter(case_of(record, POST), language=language)
            assert (made.title, made.notice, made.quoted, made.rule) == (title, None, (), "")
            assert "hate" not in made.text
        assert not [request for request in server.requests if is_explainer(request)]


async def test_a_decision_without_a_reason_has_no_letter() -> None:
    with pytest.raises(NoStatedReason, match=r"no reason can be stated .* a person should look"):
        await noticed("en", explanation=" ", cues=())
    assert (await noticed("en", explanation="")).quoted == ("rats, all Muslims",), "its cues stand"


async def test_what_the_policy_lacks_in_their_language_a_model_writes() -> None:
    made, [request] = await asked(FRENCH, language="fr")
    assert (made.source, made.title, made.text) == ("written", FRENCH["title"], FRENCH["text"])
    assert (made.language, made.rule, made.quoted) == ("fr", "", ("rats, all Muslims",))
    assert "Vous pouvez aussi saisir la justice." in lines_of(made, "redress")
    meaning = "an attack because of a faith, or of having none"
    assert meaning not in draw_page(made), "no English rule"
    shown = request.text
    held = (
        "[G1]",
        "words: rats, all Muslims",
        "group: Muslims",
        "characteristic: religion",
        "in French",
        POST,
    )
    for words in (*held, "the post is hate speech", "under the category: Religious", meaning):
        assert words in shown
    # The decision rests on one cue: no word of the other is told as a ground, nor what the court is called.
    grounds = shown.partition("<<<grounds")[2].partition(">>>")[0]
    for words in ("Women", "Sexist", "gender", "G2"):
        assert words not in grounds
    for words in ("Prosecutor", "Defender", "defence-1", "scripted", "openai"):
        assert words not in shown
    assert request.temperature == 0
    assert set(request.schema["properties"]) == {"title", "text", "grounds", "decision", "category"}  # type: ignore[index]


@pytest.mark.parametrize(
    "wrong", ["We removed it.", GOOD["text"], f"{FRENCH['text']} We removed it for these reasons."]
)
async def test_a_text_that_is_not_surely_in_their_language_is_withheld_with_a_line_that_says_so(
    wrong: str,
) -> None:
    bad = {**FRENCH, "title": "Ok", "text": wrong, "grounds": []}
    made, requests = await asked(bad, bad, language="fr")
    assert (made.source, made.language, len(requests)) == ("fixed", "fr", 2)
    assert wrong not in draw_page(made)
    assert any(
        "Le texte de cette règle n’est pas disponible dans cette langue" in each
        for each in lines_of(made, "rule")
    )
    assert any("add them under [translations.fr]" in each for each in made.warnings)


WRONG: dict[str, dict[str, Any]] = {
    "another group": {
        "text": "Your post attacks “rats, all Muslims” and women too.",
        "grounds": [],
    },
    "another category": {"text": "Your post is against our rules on what is Sexist."},
    "another characteristic": {"text": "Your post attacks people for their disability."},
    "words that no ground quotes": {
        "text": "Your post says “Women too”, which is against our rules."
    },
    "a ground that there is none of": {"grounds": [{"id": "G2", "words": "post"}]},
    "words that it doesn't use": {"grounds": [{"id": "G1", "words": "never said"}]},
    "more than anybody reads": {"text": "“" * 50_000},
    "another decision": {"decision": "stands"},
    "another category under which it was decided": {"category": "Sexist"},
    "a word of the court": {"text": "The prosecutor found “rats, all Muslims” in your post."},
    "an address": {"text": "Your post is against our rules: see https://example.com/rules"},
    "the model": {"text": "Your post was read by openai:scripted and is against our rules."},
    "another language": {
        "text": "Wir haben entschieden, dass Ihr Beitrag gegen unsere Regeln verstößt und entfernt wird."
    },
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_the_decision_does_not_rest_on_is_asked_for_again_and_then_not_taken(
    wrong: str, untranslated: str
) -> None:
    bad = {**GOOD, "grounds": [], **WRONG[wrong]}
    made, requests = await asked(bad, GOOD, language="en", policy=untranslated)
    assert (made.source, made.text, len(requests)) == ("written", GOOD["text"], 2)
    assert requests[1].text.startswith(requests[0].text), (
        "it is told what was wrong, after what it was asked"
    )
    made, requests = await asked(bad, bad, language="en", policy=untranslated)
    assert (made.source, made.text, len(requests)) == ("fixed", FIXED, 2)
    assert any("what it wrote is withheld" in each for each in made.warnings)
    assert made.quoted == ("rats, all Muslims",)
    dumped = str(made.dump())
    assert "withheld" not in dumped, "why it is the fixed one is nothing for them"
    assert str(WRONG[wrong].get("text")) not in dumped + draw_page(made) + draw_markdown(made)


async def test_a_model_that_fails_or_declines_leaves_the_fixed_text_in_their_language() -> None:
    for answer in (Reply(refusal="I can't."), Fault(409, "no")):
        made, _ = await asked(answer, language="es")
        assert (made.source, made.language) == ("fixed", "es")
        assert "infringe nuestras normas" in made.title
        assert "La decisión se basa en estas palabras" in Page(draw_page(made)).text
    made, requests = await asked(
        {**GOOD, "decision": "x"}, {**GOOD, "decision": "x"}, language="is"
    )
    assert "in Icelandic" in requests[0].text
    assert made.language == "en", "there is no fixed text in Icelandic"
    assert any("no fixed text in Icelandic" in each for each in made.warnings)


async def test_nothing_of_anybody_else_is_shown_to_the_model_or_to_them(untranslated: str) -> None:
    """The reviewer, the other trial, the posts before theirs, and the words that the court was shown beside it."""
    post = {"text": POST, "earlier": ["an-earlier-post-of-others"], "image": None}
    unsure = {**VERDICT, "confidence": 0.2}
    named = {
        **GOOD,
        "text": "Our moderator kim decided that your post is against our rules.",
        "grounds": [],
    }
    async with ScriptedServer(told(named, {**GOOD, "grounds": []}, judge=unsure)) as server:
        record = await decide(server, POST, graph="tribunal", review=True, policy=untranslated)
        edit = {
            "type": "edit",
            "args": {"action": "decide", "args": {"category": "Religious", "note": "secret-note"}},
        }
        done = await submit_review(str(record.thread), {**edit, "reviewer": "kim (desk)"})
        made = await write_letter(case_of(done, post), language="en", context=SCRIPTED)
        first, second = [request for request in server.requests if is_explainer(request)]
    assert made.source == "written"
    assert "names 'kim'" in second.text
    assert (
        lines_of(made, "automation")[0]
        == "An automated system examined your post, and a person decided."
    )
    for words in ("an-earlier-post-of-others", "secret-note", "kim", "scripted", "defence-1"):
        assert words not in first.text
        assert words not in draw_page(made) + draw_markdown(made) + made.model_dump_json()


async def test_where_nothing_is_held_against_it_no_ground_is_named() -> None:
    """In a language without fixed sentences a model says that a post stands."""
    nothing = {"title": "Um færsluna þína", "text": "Færslan þín brýtur ekki gegn reglum okkar og fær að standa áfram.",
               "grounds": [], "decision": "stands", "category": ""}  # fmt: skip
    bad = {**nothing, "text": f"{nothing['text']} Racist."}
    made, requests = await asked(
        bad, nothing, language="is", judge={"category": "NotHate", "explanation": "C1 falls"}
    )
    assert (made.hateful, made.quoted, made.rule, made.text) == (False, (), "", nothing["text"])
    assert "No ground is held against the post." in requests[0].text
    assert "rats, all Muslims" not in requests[0].text.replace(POST, "")
    assert "names Racist" in requests[1].text


async def test_what_waits_or_failed_is_said_plainly_and_asks_nobody() -> None:
    async with ScriptedServer(told(judge={**VERDICT, "confidence": 0.2})) as server:
        record = await decide(server, POST, graph="tribunal", review=True)
        made = await write_letter(case_of(record, POST), context=SCRIPTED)
        assert (made.outcome, made.hateful, made.source, made.quoted) == (
            "pending",
            None,
            "fixed",
            (),
        )
        assert "A person will look at it" in made.text
        failed = record.model_copy(update={"outcome": "failure"})
        assert (
            "Nothing is held against it"
            in (await write_letter(case_of(failed, POST), context=SCRIPTED)).text
        )
        assert not [request for request in server.requests if is_explainer(request)]


async def test_words_that_were_erased_are_not_told_back() -> None:
    made, requests = await asked(post=None, language="fr")
    assert (made.source, made.quoted, made.post, requests) == ("fixed", (), None, [])
    assert any("isn't available" in each for each in made.warnings)


async def test_the_image_is_shown_and_one_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    made, [request] = await asked(FRENCH, language="fr", post={"text": POST, "image": str(picture)})
    assert "The post's image stands before this text" in request.text
    made, [request] = await asked(
        FRENCH, language="fr", post={"text": POST, "image": "https://example.com/gone.png"}
    )
    assert "image" not in request.text
    assert any("without the image" in each for each in made.warnings)
