"""Which graph heeds which setting: what `tribunal.settings` says of it is what is read while the graph runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from PIL import Image

from tribunal.cases.session import hear
from tribunal.context import Context, context_from
from tribunal.errors import BadInput
from tribunal.eval.doubles.web import SearchServer, Site, SitePage
from tribunal.graphs import GRAPHS, graph
from tribunal.settings import SETTINGS

POST = "Immigrants: the weeds in our garden."
# Read for every graph, and heeded only by some; each is tested by what it does, below.
BY_WHAT_IT_DOES = {"task", "scheme"}
# Who reads a setting without heeding it.
ONLY_LOOKS = {
    # Whether the key of every model is there, be it asked or not.
    "check_models": {"model", "aux_model", "judge_model", "triage", "seats"},
    # Whether the file is one, before the first call; who heeds it reads it in `confidence_wanted`.
    "fitted_threshold": {"threshold", "threshold_file"},
    # Whether the judge gives a confidence, which a review needs; `hear` refuses a review in any other graph.
    "confidence_wanted": {"review"},
}
# What the rehearsal model leaves unread: it is no server that could be slow.
OF_SERVERS = {"timeout", "attempts"}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "tribunal": [
        {},
        {"web": True, "perspectives": ["example-harm", "example-newsroom"], "judge_draws": 3},
        {"triage": "rehearsal", "review": True},
    ],
    "arcade": [{}, {"judge_draws": 3}],
    "multiround": [{}, {"judge_draws": 3}],
    "mv_debate": [{"rounds": 2}],
}


class Watched(Context):
    """Settings that note which of them is read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name in SETTINGS and name not in ONLY_LOOKS.get(sys._getframe(1).f_code.co_name, ()):
            Watched.read.add(name)
        return super().__getattribute__(name)


async def read_by(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The settings that a graph reads on its way to a verdict, in each of its variants."""
    Image.new("RGB", (20, 10), "red").save(tmp_path / "post.png")
    page = "<html><title>Weeds</title><body><p>Calling immigrants weeds in a garden is an insult.</p></body></html>"
    pages: dict[str, SitePage | str] = {"/1": page}
    read: set[str] = set()
    async with Site(pages) as site, SearchServer(lambda query: [{"url": f"{site.url}/1", "title": "weeds"}]) as search:
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        for variant in VARIANTS.get(name, [{}]):
            settings = Watched(search="searxng", searxng_url=search.url, **variant)
            Watched.read.clear()
            state = await graph(name).ainvoke({"text": POST, "image": "post.png"}, context=settings)
            assert state["outcome"]["outcome"] == "verdict", state["outcome"]
            read |= Watched.read
    return read


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_reads_what_it_is_said_to_heed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = await read_by(name, tmp_path, monkeypatch) - BY_WHAT_IT_DOES
    heeded = {each for each, words in SETTINGS.items() if name in (words.graphs or GRAPHS)} - BY_WHAT_IT_DOES
    assert read <= heeded, f"read, and said not to be heeded: {read - heeded}"
    assert heeded - OF_SERVERS <= read, f"said to be heeded, and never read: {heeded - OF_SERVERS - read}"


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_takes_other_tasks_only_if_it_is_said_to(name: str) -> None:
    settings = context_from({"task": "sarcasm", "search": "none"})
    if name in SETTINGS["task"].graphs:
        assert (await hear(POST, graph=name, context=settings)).task == "sarcasm"
    else:
        with pytest.raises(BadInput, match="task: 'sarcasm'"):
            await hear(POST, graph=name, context=settings)


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_asks_by_the_scheme_only_if_it_is_said_to(name: str) -> None:
    asked = [
        {call.prompt_sha for call in (await hear(POST, graph=name, context=settings)).calls}
        for settings in (context_from({"scheme": scheme, "search": "none"}) for scheme in ("fine", "binary"))
    ]
    assert (asked[0] != asked[1]) is (name in SETTINGS["scheme"].graphs)
