"""The words for the person who posted: what the model is shown, and what it may not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import tribunal
from tests.cases.letters import CUE, GOOD, OTHER, POST, VERDICT, Page, is_explainer, told
from tests.court import decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.cases.author_letter import write_letter
from tribunal.cases.case_drawing import draw_markdown, draw_page
from tribunal.cases.case_view import AuthorLetter
from tribunal.cases.session import submit_review
from tribunal.cases.view_maker import CaseAtHand, PostAtHand, fields_of_post
from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.schema import Record

SCRIPTED = Context(model="openai:scripted")
FIXED = "We looked at your post and decided that it is hate speech. Our rules don't allow that."
ONE_GROUND = {"indictment": {"cues": [CUE, OTHER]}, "judge": VERDICT | {"explanation": "C1 decides it."}}


def case_of(record: Record, post: PostAtHand) -> CaseAtHand:
    """The case of a record, with its post at hand."""
    return CaseAtHand(record, dict(fields_of_post(post)))


async def asked(
    *answers: Any, post: Any = POST, language: str | None = None, **court: Any
) -> tuple[AuthorLetter, list[Request]]:
    """A decided case explained by these answers, and what was sent for it."""
    async with ScriptedServer(told(*answers, **{**ONE_GROUND, **court})) as server:
        record = await decide(server, POST)
        made = await write_letter(case_of(record, post), language=language, context=SCRIPTED)
        return made, [request for request in server.requests if is_explainer(request)]


async def test_what_is_asked_and_what_comes_of_it() -> None:
    made, [request] = await asked(GOOD)
    assert (made.source, made.title, made.text) == ("written", GOOD["title"], GOOD["text"])
    assert (made.outcome, made.hateful, made.language, made.quoted) == ("verdict", True, "en", ("rats, all Muslims",))
    shown = request.text
    held = ("[G1]", "words: rats, all Muslims", "group: Muslims", "characteristic: religion", "in English", POST)
    for words in (*held, "the post is hate speech", made.rule):
        assert words in shown
    # The decision rests on one cue: no word of the other is told as a ground, nor what the court is called.
    grounds = shown.partition("<<<grounds")[2].partition(">>>")[0]
    for words in ("Women", "Sexist", "gender", "G2"):
        assert words not in grounds
    for words in ("Prosecutor", "Defender", "defence-1", "scripted", "openai"):
        assert words not in shown
    assert request.temperature == 0
    assert set(request.schema["properties"]) == {"title", "text", "grounds", "decision"}  # type: ignore[index]


WRONG: dict[str, dict[str, Any]] = {
    "another group": {"text": "Your post attacks “rats, all Muslims” and women too.", "grounds": []},
    "another category": {"text": "Your post is against our rules on what is Sexist."},
    "another characteristic": {"text": "Your post attacks people for their disability."},
    "words that no ground quotes": {"text": "Your post says “Women too”, which is against our rules."},
    "a ground that there is none of": {"grounds": [{"id": "G2", "words": "post"}]},
    "words that it doesn't use": {"grounds": [{"id": "G1", "words": "never said"}]},
    "more than anybody reads": {"text": "“" * 50_000},
    "another decision": {"decision": "not_hate_speech"},
    "a word of the court": {"text": "The prosecutor found “rats, all Muslims” in your post."},
    "an address": {"text": "Your post is against our rules: see https://example.com/rules"},
    "the model": {"text": "Your post was read by openai:scripted and is against our rules."},
    "another language": {
        "text": "Wir haben entschieden, dass Ihr Beitrag gegen unsere Regeln verstößt und entfernt wird."
    },
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_the_decision_does_not_rest_on_is_asked_for_again_and_then_not_taken(wrong: str) -> None:
    bad = {**GOOD, "grounds": [], **WRONG[wrong]}
    made, requests = await asked(bad, GOOD)
    assert (made.source, made.text, len(requests)) == ("written", GOOD["text"], 2)
    assert requests[1].text.startswith(requests[0].text), "it is told what was wrong, after what it was asked"
    made, requests = await asked(bad, bad)
    assert (made.source, made.text, len(requests)) == ("fixed", FIXED, 2)
    assert any("the fixed text is used" in each for each in made.warnings)
    assert made.quoted == ("rats, all Muslims",)
    dumped = str(made.dump())
    assert "fixed text" not in dumped, "why it is the fixed one is nothing for them"
    assert str(WRONG[wrong].get("text")) not in dumped + draw_page(made) + draw_markdown(made)


async def test_a_model_that_fails_or_declines_leaves_the_fixed_text_in_their_language() -> None:
    for answer in (Reply(refusal="I can't."), Fault(400, "no")):
        made, _ = await asked(answer, language="de")
        assert (made.source, made.language) == ("fixed", "de")
        assert "verstößt gegen unsere Regeln" in made.title
        assert "Hassrede" in made.text
        assert "Die Entscheidung beruht auf" in Page(draw_page(made)).text
    made, requests = await asked({**GOOD, "decision": "x"}, {**GOOD, "decision": "x"}, language="is")
    assert "in Icelandic" in requests[0].text
    assert made.language == "en", "there is no fixed text in Icelandic"


async def test_nothing_of_anybody_else_is_shown_to_the_model_or_to_them() -> None:
    """The reviewer, the other trial, the posts before theirs, and the words that the court was shown beside it."""
    post = {"text": POST, "earlier": ["an-earlier-post-of-others"], "image": None}
    unsure = {**VERDICT, "confidence": 0.2}
    named = {**GOOD, "text": "Our moderator kim decided that your post is against our rules.", "grounds": []}
    async with ScriptedServer(told(named, {**GOOD, "grounds": []}, judge=unsure)) as server:
        record = await decide(server, POST, graph="tribunal", review=True)
        edit = {"type": "edit", "args": {"action": "decide", "args": {"category": "Religious", "note": "secret-note"}}}
        done = await submit_review(str(record.thread), {**edit, "reviewer": "kim (desk)"})
        made = await write_letter(case_of(done, post), context=SCRIPTED)
        first, second = [request for request in server.requests if is_explainer(request)]
    assert made.source == "written"
    assert "names 'kim'" in second.text
    for words in ("an-earlier-post-of-others", "secret-note", "kim", "scripted", "defence-1"):
        assert words not in first.text
        assert words not in draw_page(made) + draw_markdown(made) + made.model_dump_json()


async def test_where_nothing_is_held_against_it_no_ground_is_named() -> None:
    nothing = {"title": "Fine", "text": "Your post is not against our rules.", "grounds": [],
               "decision": "not_hate_speech"}  # fmt: skip
    bad = {**nothing, "text": "Your post is not against our rules, though some may call it Racist."}
    made, requests = await asked(bad, nothing, judge={"category": "NotHate", "explanation": "C1 and C2 fall"})
    assert (made.hateful, made.quoted, made.rule, made.text) == (False, (), "", nothing["text"])
    assert "No ground is held against the post." in requests[0].text
    assert "rats, all Muslims" not in requests[0].text.replace(POST, "")
    assert "names Racist" in requests[1].text


async def test_what_waits_or_failed_is_said_plainly_and_asks_nobody() -> None:
    async with ScriptedServer(told(judge={**VERDICT, "confidence": 0.2})) as server:
        record = await decide(server, POST, graph="tribunal", review=True)
        made = await write_letter(case_of(record, POST), context=SCRIPTED)
        assert (made.outcome, made.hateful, made.source, made.quoted) == ("pending", None, "fixed", ())
        assert "A person will look at it" in made.text
        failed = record.model_copy(update={"outcome": "failure"})
        assert "Nothing is held against it" in (await write_letter(case_of(failed, POST), context=SCRIPTED)).text
        assert not [request for request in server.requests if is_explainer(request)]


async def test_words_that_were_erased_are_not_told_back() -> None:
    made, requests = await asked(post=None)
    assert (made.source, made.quoted, made.post, requests) == ("fixed", (), None, [])
    assert any("isn't available" in each for each in made.warnings)


async def test_the_image_is_shown_and_one_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    _, [request] = await asked(GOOD, post={"text": POST, "image": str(picture)})
    assert "The post's image stands before this text" in request.text
    made, [request] = await asked(GOOD, post={"text": POST, "image": "https://example.com/gone.png"})
    assert "The post has no image." in request.text
    assert any("without the image" in each for each in made.warnings)


async def test_the_rehearsal_model_writes_it_too() -> None:
    for graph in ("arcade", "baseline", "mv_debate"):
        record: Record = await tribunal.ajudge("Immigrants: the weeds in our garden.", graph=graph)
        made = await write_letter(case_of(record, "Immigrants: the weeds in our garden."))
        assert (made.source, made.hateful) == ("written", True), graph
    sarcastic = await tribunal.ajudge("Lovely weather, as always.", graph="mv_debate", task="sarcasm")
    with pytest.raises(BadInput, match="only decisions on hate speech"):
        await write_letter(case_of(sarcastic, "x"))
    with pytest.raises(BadInput, match="language"):
        await write_letter(case_of(record, "x"), language="no such")
