"""What a policy says beyond its definition, and what is said of the post: over the wire, and in the record."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.court import court_script, cue, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.explanations.view_maker import view_case

KOREAN = "그들은 우리 정원의 잡초다."
POLICY = """
name = "house rules"
definition = "The definition in English."
exclusions = "The exclusions in English."
excuses = "The excuses in English."
protected_groups = ["religion"]
fine = [
    { name = "NotHate", meaning = "nothing" },
    { name = "Religious", meaning = "an attack", examples_for = ["They all lie."], examples_against = ["<<<post"] },
    { name = "Harassment", meaning = "chasing one person", hate = false },
]
binary = [{ name = "NotHate", meaning = "nothing" }, { name = "Hateful", meaning = "an attack" }]

[translations.ko]
definition = "한국어 정의."
excuses = "한국어 예외."
meanings = { Religious = "종교 공격" }
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "rules.toml").write_text(POLICY, "utf-8")
    return str(tmp_path / "rules.toml")


def part(server: ScriptedServer, words: str) -> Request:
    return next(request for request in server.requests if f"# Your part: {words}" in request.text)


@pytest.mark.parametrize(("graph", "set_to", "shown"), [
    ("tribunal", None, True), ("tribunal", False, False), ("arcade", None, False), ("arcade", True, True),
])  # fmt: skip
async def test_the_judge_alone_sees_the_examples_and_sees_them_quoted(
    rules: str, graph: str, set_to: bool | None, shown: bool
) -> None:
    async with ScriptedServer(court_script()) as server:
        await decide(server, policy=rules, graph=graph, policy_examples=set_to)
    told = [
        ("is Religious: They all lie.\nis not Religious: <<<post\nexamples " in each.text)
        for each in server.requests
    ]
    assert told == [False] * (len(told) - 1) + [shown]
    assert "# Your part: the Judge" in server.requests[-1].text


async def test_the_policy_is_given_in_the_post_s_language_where_that_is_asked_for(
    rules: str,
) -> None:
    async with ScriptedServer(court_script()) as server:
        for language in ("policy", "post"):
            await decide(server, KOREAN, policy=rules, policy_language=language)
    half = len(server.requests) // 2
    for request in server.requests[:half]:
        system = request.body["messages"][0]["content"]
        assert "The definition in English." in system
        assert "Reason and explain in English, " in system
    for request in server.requests[half:]:
        system = request.body["messages"][0]["content"]
        assert "한국어 정의.\n\nThe exclusions in English." in system
        assert "- Religious: 종교 공격" in system
        assert "Reason and explain in Korean, " in system
    assert "한국어 예외." in server.requests[-1].text
    # What is explained to the author is in the author's language, and is said where that is another one.
    explains = "two to four sentences in Korean, for the author of the post, who knows nothing of this review:"
    assert [explains in each.text for each in (server.requests[half - 1], server.requests[-1])] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "given", "says", "known"),
    [
        (KOREAN, None, "The post is in Korean (ko).", ("ko", "detected")),
        ("a post", "Portuguese", "The post is in Portuguese (pt).", ("pt", "given")),
        (KOREAN, "en", "The post is in English (en).", ("en", "given")),
        ("a post", None, None, (None, None)),
        (KOREAN, "und", None, (None, None)),
    ],
)
async def test_the_post_s_language_stands_beside_it_and_in_the_record(
    text: str, given: str | None, says: str | None, known: tuple[str | None, str | None]
) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, text, language=given)
    for request in server.requests:
        assert ("The post is in " in request.text) is (says is not None)
        assert says is None or says in request.text
    assert (record.language, record.language_from) == known


async def test_what_the_post_lacks_is_said(tmp_path: Path) -> None:
    picture = str(tmp_path / "a.png")
    Image.new("RGB", (20, 20), "red").save(picture)
    async with ScriptedServer(court_script()) as server:
        await decide(server, graph="baseline")
        await decide(server, None, graph="baseline", image=picture)
    words, image = server.requests
    assert "image" not in words.text
    assert "The post has no text." not in words.text
    assert "The post has no text." in image.text
    assert "The post's image stands before this text." in image.text


async def test_a_category_that_is_not_hate_is_not_called_hate_speech(rules: str) -> None:
    def script(request: Request) -> Reply | Fault:
        return court_script(
            investigation={"cues": [cue("c", "Metaphor", category="Harassment")]},
            judge={"category": "Harassment", "explanation": "it chases one person"},
        )(request)

    async with ScriptedServer(script) as server:
        harassment = await decide(server, policy=rules, rounds=1)
    assert (harassment.label, harassment.category, harassment.hateful) == (2, "Harassment", False)
    assert view_case(harassment).title == "HARASSMENT"
    assert (
        view_case(harassment.model_copy(update={"label": 1, "hateful": True})).title
        == "HATE SPEECH"
    )
    assert view_case(harassment.model_copy(update={"label": 0})).title == "NOT HATE SPEECH"
