"""Which graph heeds which setting: what `graph_settings` says of it is what is read while the graph runs."""

from __future__ import annotations

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.config import get_config
from PIL import Image

from tests.decided import store_of
from tests.doubles.web import SearchServer, Site, SitePage
from tests.where_heeded import where_heeded
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, graph
from tribunal.settings.context import Context, context_from
from tribunal.settings.graph_settings import SETTINGS
from tribunal.settings.names import nodes_heeding, nodes_of

POST = "Immigrants: the weeds in our garden."
# Read for every graph, and heeded only by some; each is tested by what it does: below, in test_answer_order.py, or in
# test_edited_words.py.
BY_WHAT_IT_DOES = {"task", "scheme", "answer_order", "policy_definition"}
# Of symmetric_debate's, the node that opens a round reads it for the agents of that round.
BUDGET = {"max_calls", "max_tokens"}
# Who reads a setting without heeding it.
ONLY_LOOKS = {
    # Whether the key of every model is there, be it asked or not.
    "check_models": {"model", "aux_model", "judge_model", "triage", "seats"},
    # Whether the file is one, before the first call; who heeds it reads it in `confidence_wanted`.
    "_threshold_file_text": {"threshold", "threshold_file"},
    # Whether a confidence is given, which a review and several draws of a judge need; other graphs refuse these.
    "confidence_wanted": {"review", "judge_draws"},
    # Whether an address with a password is missing from what the case holds.
    "context_of": {"search", "searxng_url"},
    # Whether a part of a run was given other settings than the case holds: all of them.
    "warn_of_overruled_settings": set(SETTINGS),
    "warn_of_overruled_settings.<locals>.<listcomp>": set(SETTINGS),
    # Whether the settings are sound by themselves, and which of them a record keeps.
    "_windows_go_forward": {"window_tokens", "window_overlap"},
    "settings_for_record": {"searxng_url"},
    # Whether there is a fitted first look, whose audit is told of the verdict.
    "deliver": {"triage"},
    # Whether the rehearsal model would look first.
    "_check_triage": {"triage", "seats"},
}
# What the rehearsal model leaves unread: it is no server that could be slow.
OF_SERVERS = {"timeout", "attempts"}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "tribunal": [
        {},
        {"web": True, "perspectives": ["example-harm", "example-newsroom"], "judge_draws": 3},
        {"triage": "rehearsal", "review": True},
        {"precedents": "ours"},
    ],
    "arcade": [{}, {"judge_draws": 3}],
    "multiround": [{}, {"judge_draws": 3}],
    "mv_debate": [{"rounds": 2}],
}


def noting(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Note from here on which settings are read, of whatever context they are read from."""
    read: set[str] = set()
    plain = Context.__getattribute__

    def noted(self: Context, name: str) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        code = frame.f_back.f_code
        looks = ONLY_LOOKS.get(code.co_qualname) or ONLY_LOOKS.get(code.co_name) or set()
        if name in SETTINGS and name not in looks:
            read.add(name)
        return plain(self, name)

    monkeypatch.setattr(Context, "__getattribute__", noted)
    return read


async def read_by(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The settings that a graph reads on its way to a verdict, in each of its variants."""
    Image.new("RGB", (20, 10), "red").save(tmp_path / "post.png")
    page = "<html><title>Weeds</title><body><p>Calling immigrants weeds in a garden is an insult.</p></body></html>"
    pages: dict[str, SitePage | str] = {"/1": page}
    read = noting(monkeypatch)
    await store_of()
    async with (
        Site(pages) as site,
        SearchServer(lambda query: [{"url": f"{site.url}/1", "title": "immigrants"}]) as search,
    ):
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        for variant in VARIANTS.get(name, [{}]):
            world = {"search": "searxng", "searxng_url": search.url}
            settings = Context(**where_heeded(name, world, **variant))
            state = await graph(name).ainvoke({"text": POST, "image": "post.png"}, context=settings)
            assert state["outcome"]["outcome"] == "verdict", state["outcome"]
    return read


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_reads_what_it_is_said_to_heed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = await read_by(name, tmp_path, monkeypatch) - BY_WHAT_IT_DOES
    heeded = {
        each for each, words in SETTINGS.items() if name in (words.graphs or GRAPHS)
    } - BY_WHAT_IT_DOES
    assert read <= heeded, f"read, and said not to be heeded: {read - heeded}"
    assert heeded - OF_SERVERS <= read, (
        f"said to be heeded, and never read: {heeded - OF_SERVERS - read}"
    )


@pytest.mark.parametrize("name", GRAPHS)
async def test_the_nodes_at_which_studio_offers_a_setting_read_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = set[tuple[str, str]]()
    noted = Context.__getattribute__

    def by_node(self: Context, setting: str) -> Any:
        if setting in SETTINGS:
            with suppress(RuntimeError):  # outside a run
                read.add((setting, get_config()["metadata"].get("langgraph_node", "")))
        return noted(self, setting)

    monkeypatch.setattr(Context, "__getattribute__", by_node)
    await read_by(name, tmp_path, monkeypatch)
    ran = {node for _, node in read}
    for setting, words in SETTINGS.items():
        if name not in (words.graphs or GRAPHS):
            continue
        offered = nodes_heeding(setting, words.nodes, name)
        assert offered, setting
        if setting in BY_WHAT_IT_DOES | BUDGET:
            continue
        if not words.nodes or setting == "aux_model":
            assert any((setting, each.rpartition(":")[2]) in read for each in offered), setting
            continue
        for node in (
            each for each in nodes_of(name) if each.name in words.nodes and each.name in ran
        ):
            assert (setting, node.name) in read, (setting, node)


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_takes_other_tasks_only_if_it_is_said_to(name: str) -> None:
    settings = context_from(where_heeded(name, {"search": "none"}, task="sarcasm"))
    if name in SETTINGS["task"].graphs:
        assert (await judge_post(POST, graph=name, context=settings)).task == "sarcasm"
    else:
        with pytest.raises(BadInput, match="task: 'sarcasm'"):
            await judge_post(POST, graph=name, context=settings)


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_asks_by_the_scheme_only_if_it_is_said_to(name: str) -> None:
    asked = []
    for scheme in ("fine", "binary"):
        settings = context_from(where_heeded(name, {"search": "none"}, scheme=scheme))
        if name not in SETTINGS["scheme"].graphs and scheme == "binary":
            with pytest.raises(BadInput, match="scheme: 'binary'"):
                await judge_post(POST, graph=name, context=settings)
            return
        asked.append(
            {
                call.prompt_sha
                for call in (await judge_post(POST, graph=name, context=settings)).calls
            }
        )
    assert asked[0] != asked[1]
