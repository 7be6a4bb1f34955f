"""What seats are told of a post's language and of its disguised words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.court import QUOTED, court_script, decide, part
from tests.doubles import Request, ScriptedServer

# Posts whose language isn't detected: very short, romanised, in signs.
UNKNOWN = ["lol ok", "yeh log acche nahi", "7aga 3eb", "\U0001f41b\U0001f41b\U0001f5d1"]


async def asked(text: str, graph: str = "arcade", **settings: Any) -> dict[str, Request]:
    script = court_script(triage={"explanation": "words", "category": "NotHate", "confidence": 0.5})
    rounds = {} if graph == "baseline" else {"rounds": 1}
    async with ScriptedServer(script) as server:
        await decide(server, text, graph=graph, **rounds, **settings)
    return {part(request): request for request in server.requests}


@pytest.mark.parametrize("text", UNKNOWN)
@pytest.mark.parametrize(
    ("graph", "seat"), [("arcade", "judge"), ("baseline", "classifier"), ("tribunal", "triage")]
)
async def test_an_explanation_is_asked_for_in_the_posts_language_where_that_is_unknown(
    text: str, graph: str, seat: str
) -> None:
    sent = await asked(text, graph, **({"triage": "openai:scripted"} if seat == "triage" else {}))
    assert "in the language of the post" in sent[seat].text
    assert "The post is in" not in sent[seat].text
    known = await asked(text, graph, language="en")
    assert not any("in the language of the post" in request.text for request in known.values())


async def test_disguised_words_are_shown_plainly_beside_the_post_in_the_hybrid_only() -> None:
    text = "They are v3rm1n, all of them."
    for graph in ("arcade", "multiround", "baseline"):
        assert not any(
            "reading aid" in request.text for request in (await asked(text, graph)).values()
        )
    sent = await asked(text, "tribunal", triage="openai:scripted")
    assert sent.keys() == {"triage", "gatekeeper", "investigation", "defence", "judge"}
    for request in sent.values():
        quoted = {kind: words for kind, _, words in QUOTED.findall(request.text)}
        assert (quoted["post"], quoted["reading"]) == (text, "They are vermin, all of them.")
        assert "A reading aid, made by rules" in request.text
        assert "It may be wrong, and the post itself counts:" in request.text
    plain = await asked("They are weeds, all of them.", "tribunal")
    assert not any("reading aid" in request.text for request in plain.values())
