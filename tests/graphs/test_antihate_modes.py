"""AntiHateAgent without the web, without a search, without details; and its baseline."""

from __future__ import annotations

import pytest

from tests.graphs.research_world import POST, part, researcher, world
from tribunal.errors import BadInput
from tribunal.eval.doubles.scripted import Fault, Reply


@pytest.mark.parametrize(
    ("mode", "parts"),
    [("no-knowledge", ["verdict"]), ("zero-shot", ["words"])],
)
async def test_modes_without_the_web(mode: str, parts: list[str]) -> None:
    async with world(
        researcher(verdict={"label": "NON-HATE", "confidence": 1, "steps": [{"claim": "x", "evidence": []}]})
    ) as it:
        record = await it.decide(mode=mode)
        assert it.search.log == it.site.log == []
    assert it.parts == parts
    assert record.outcome == "verdict"
    if mode == "zero-shot":
        assert (record.hateful, record.explanation) == (True, "because")
        assert it.model.requests[0].max_tokens == 200
        assert it.model.requests[0].response_format is None


@pytest.mark.parametrize(
    ("said", "hateful"),
    [("not hate speech: fine", False), ("**Hate speech:** [bad]", True), ("Hate speech: x", True)],
)
async def test_the_baseline_is_read_from_words(said: str, hateful: bool) -> None:
    async with world(researcher(words=Reply(said))) as it:
        record = await it.decide(mode="zero-shot")
    assert record.hateful is hateful


async def test_the_baseline_that_answers_otherwise_is_a_failure_and_has_three_tries() -> None:
    async with world(researcher(words=Reply("It depends."))) as it:
        record = await it.decide(mode="zero-shot")
    assert (record.outcome, len(it.model.requests)) == ("failure", 2)
    async with world(researcher(words=Fault(500, "down"))) as it:
        record = await it.decide(mode="zero-shot")
    assert (record.outcome, len(it.model.requests)) == ("failure", 3)


async def test_without_a_search_api_the_model_names_pages_and_none_may_carry_the_post_outward() -> None:
    secret = "a sentence of the post that is long enough to be told from others by anybody"
    urls: dict[str, list[str]] = {"urls": []}
    async with world(researcher(urls=lambda request: Reply(urls))) as it:
        urls["urls"] = [f"{it.site.url}/1", f"{it.site.url}/2", f"{it.site.url}/?q={secret.replace(' ', '+')}"]
        record = await it.decide(secret, mode="no-search", max_turns=1)
        assert it.search.log == []
        assert not any("sentence" in seen.path for seen in it.site.log)
    assert it.parts[0] == "urls"
    assert "relevance" not in it.parts
    assert len(record.evidence) == 2
    assert record.research is not None
    [refused] = [page for page in record.research["pages"] if page["error"]]
    assert "outward" in refused["error"]


async def test_without_instructional_details() -> None:
    async with world(researcher()) as it:
        await it.decide(max_turns=2)
        await it.decide("second post", mode="no-details", max_turns=2)
    full = {part(request): request for request in it.model.requests if POST in request.text}
    short = {part(request): request for request in it.model.requests if "second post" in request.text}
    for name, words in (
        ("queries", "Use search operators"),
        ("passages", "Copy; don't"),
        ("verdict", "Evidence is never"),
    ):
        assert words in full[name].text
        assert words not in short[name].text


async def test_wrong_settings_cost_no_call() -> None:
    async with world(researcher()) as it:
        for settings, says in (
            ({"search": "altavista"}, "altavista"),
            ({"search": "searxng", "searxng_url": None}, "SEARXNG_URL"),
            ({"search": "replay:nothing.sqlite"}, "nothing.sqlite"),
            ({"mode": "majority"}, "mode: majority"),
        ):
            with pytest.raises(BadInput, match=says):
                await it.decide(**settings)
        assert it.model.requests == []
