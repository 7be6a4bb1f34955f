"""AntiHateAgent replayed from the archive, and what of a page the state carries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.doubles.web import Site
from tests.graphs.research_world import POST, html, part, researcher, world


async def test_the_same_run_replayed_with_the_network_off() -> None:
    async with world(researcher(enough_at=2), None, _two_turns) as it:
        first = await it.decide(max_turns=3)
        asked = len(it.model.requests)
        searched, fetched = len(it.search.log), len(it.site.log)
        again = await it.decide(
            max_turns=3, search="replay:evidence.sqlite", archive="replayed.sqlite"
        )
        assert (len(it.search.log), len(it.site.log)) == (searched, fetched)
    assert again.evidence == first.evidence
    assert again.research is not None
    assert first.research is not None
    assert again.research["judgements"] == first.research["judgements"]
    assert [part(request) for request in it.model.requests[asked:]] == ["verdict"]
    assert again.steps == first.steps


def _two_turns(site: Site, query: str) -> list[dict[str, str]]:
    return [{"url": f"{site.url}/{query.split()[1][0]}", "title": "t", "content": "c"}]


async def test_a_replay_with_fresh_answers_reads_the_recorded_pages_and_names_what_is_not_there() -> (
    None
):
    async with world(researcher(enough_at=1)) as it:
        await it.decide()
        searched, fetched = len(it.search.log), len(it.site.log)
        it.model.script = researcher(enough_at=1)
        same = await it.decide(search="replay:evidence.sqlite", archive="fresh.sqlite", fresh=True)
        assert len(same.evidence) == 2
        other = {"queries": ["query 1a", "unheard of", "query 1c"]}
        it.model.script = researcher(enough_at=1, queries=other)
        new = await it.decide(
            search="replay:evidence.sqlite", archive="fresh.sqlite", fresh=True, max_turns=1
        )
        assert (len(it.search.log), len(it.site.log)) == (searched, fetched)
    assert any("'unheard of' is not in the archive" in warning for warning in new.warnings)
    assert len(new.evidence) == 2


async def test_state_carries_page_ids_and_no_page() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    from tribunal.graphs.antihate import builder
    from tribunal.settings.context import context_from

    marker = "a sentence of the page that nobody quotes"
    async with world(researcher(enough_at=1), {"/1": html("evidence-one is here.", marker)}) as it:
        os.environ["OPENAI_BASE_URL"] = f"{it.model.url}/v1"
        saver = InMemorySaver()
        config: Any = {"configurable": {"thread_id": "1"}}
        context = context_from({"model": "openai:scripted", **it.settings})
        await builder.compile(checkpointer=saver).ainvoke({"text": POST}, config, context=context)
        held = (
            str([each.checkpoint for each in saver.list(None)])
            + str(saver.blobs)
            + str(saver.writes)
        )
    assert "evidence-one" in held
    assert marker not in held
    assert _written(marker)


def _written(words: str) -> bool:
    return words.encode() in b"".join(each.read_bytes() for each in Path().glob("evidence.sqlite*"))
