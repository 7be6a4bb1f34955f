"""What lies outside a run's folder and settings, and still decides its results: indexes, stores, models' servers."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from tribunal.context import Context
from tribunal.environment import environment
from tribunal.errors import BadInput
from tribunal.eval.runs.runfile import beside, changes
from tribunal.graphs import GRAPHS
from tribunal.learnt import learnt
from tribunal.line_up import in_force
from tribunal.models.providers import provider_of
from tribunal.models.seating import check_models
from tribunal.nodes.predict.perspective import searchers
from tribunal.retrievers.first_look.look import open_look
from tribunal.retrievers.perspectives.store import Store
from tribunal.retrievers.precedents.opening import open_precedents
from tribunal.schema import JSON


async def pins(graph: str, context: Context) -> JSON:
    """The perspectives that are heard, the store of precedents and the fitted first look, each by the hash of its
    content, and the address of each provider's server.

    Within `opened_once` the run reads the very indexes that are hashed here.

    Raises:
        BadInput: a perspective, the store, the first look, the line-up or a model is wrong.
    """
    stores = await searchers(context) if _hears_perspectives(graph, context) else ()
    models, around = check_models(await in_force(context, afresh=True), environment()), environment()
    providers = {model.provider: provider_of(model) for model in models}
    return {
        "perspectives": {
            each.perspective.name: {"sha": each.fingerprint, "embedding": each.embedding}
            for each in stores
            if isinstance(each, Store)
        },
        **await _precedents(context),
        **await _first_look(context),
        "servers": {name: address(each.base_url(around)) for name, each in sorted(providers.items())},
    }


# What a process that decides posts has to find as the run was begun with it.
_EVERYWHERE = (
    "models", "policy", "tribunal", "prompts", "files", "code", "perspectives", "precedents", "first_look", "servers",
)  # fmt: skip


def pinned(run: JSON) -> JSON:
    """Of a run.json, what every process that decides posts of the run has to find as it is told there."""
    return {name: run[name] for name in _EVERYWHERE if name in run}


async def check_pins(graph: str, context: Context, wanted: JSON) -> None:
    """See that what decides results is here what it was where the run was begun.

    Args:
        graph: its name, or its file.
        context: the settings of the run.
        wanted: what `pinned` gave there.

    Raises:
        BadInput: something differs; what, there and here. Or as `pins`.
    """
    here = pinned({**await asyncio.to_thread(beside, graph, context), **await pins(graph, context)})
    if differs := next(changes(wanted, here), None):
        raise BadInput(f"{differs}, in a process that decides posts; leave it as it was until the run is done")


async def _precedents(context: Context) -> JSON:
    """The store of precedents, if one is named: a run without one is told as it was before there were any."""
    if not context.precedents:
        return {}
    store = await open_precedents(context.precedents)
    held = {"sha": store.fingerprint, "embedding": store.embedding, "cases": len(store)}
    return {"precedents": {store.name: held}}


async def _first_look(context: Context) -> JSON:
    """The first look that was fitted, if one is named. Whether it is switched off changes, so records say that."""
    if (folder := learnt(context.triage)) is None:
        return {}
    look = await asyncio.to_thread(open_look, folder)
    return {"first_look": {"sha": look.sha, "fitted_from": look.manifest.fitted_from, "at": look.manifest.at}}


def _hears_perspectives(graph: str, context: Context) -> bool:
    if graph == "predict":
        return context.mode != "base"
    named = context.perspectives not in ([], ["none"])
    return named and (graph == "tribunal" or graph not in GRAPHS)


def address(url: str | None) -> str | None:
    """Host, port and path of a server: no user, password or query; None where it is the provider's own."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{host}{parts.path.rstrip('/')}" or None
