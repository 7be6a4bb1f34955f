"""`tribunal doctor`: what is usable here, what is missing, and how to get it."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from tribunal.commands.errors import ending_well
from tribunal.parsed import from_json
from tribunal.terminal import say_json, screen


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    offline: Annotated[bool, typer.Option(help="Ask no server whether it answers.")] = False,
) -> None:
    """Say which models can be used here: keys found, servers answering, what is missing. Spends nothing."""
    with ending_well():
        import asyncio

        findings = asyncio.run(_examine(offline))
        if as_json:
            say_json(findings)
            return
        from rich.table import Table
        from rich.text import Text

        table = Table("", "what", "found", box=None, pad_edge=False)
        for finding in findings["checks"]:
            mark, colour = _MARKS[finding["state"]]
            table.add_row(Text(mark, style=colour), finding["what"], finding["found"])
        screen().print(table)


_MARKS = {"ok": ("✓", "green"), "missing": ("–", "yellow"), "broken": ("✗", "red")}


class Listed(NamedTuple):
    """A provider as it was found: what is said of it, and the models that its server lists; None: it wasn't asked."""

    check: dict[str, str]
    models: list[str] | None = None


async def _examine(offline: bool) -> dict[str, Any]:
    import asyncio

    from tribunal import plugins
    from tribunal.environment import data_folder, environment
    from tribunal.models.providers import PROVIDERS
    from tribunal.rehearsed import REHEARSAL

    held = environment()
    rehearsal = REHEARSAL.partition(":")[0]
    providers = [name for name in (*PROVIDERS, *plugins.names("tribunal.providers")) if name != rehearsal]
    found = await asyncio.gather(*(_provider(name, held, offline) for name in providers))
    return {
        "checks": [
            _in_force(held, dict(zip(providers, found, strict=True))),
            *(each.check for each in found),
            _check("rehearsal", "ok", "always there; no moderator, for trying things out"),
            _folder(data_folder()),
            _studio(),
        ]
    }


def _check(what: str, state: str, found: str) -> dict[str, str]:
    return {"what": what, "state": state, "found": found}


def _in_force(held: dict[str, str], found: dict[str, Listed]) -> dict[str, str]:
    """The models of TRIBUNAL_MODEL: whether they can be asked, and whether their servers list them."""
    from tribunal.errors import BadInput
    from tribunal.models.seating import checked_models
    from tribunal.rehearsed import REHEARSAL

    what, named = "model in force", held.get("TRIBUNAL_MODEL")
    if not named:
        return _check(what, "ok", f"{REHEARSAL}: offline, by rules; set TRIBUNAL_MODEL or --model")
    try:
        models = checked_models(named, held, "TRIBUNAL_MODEL")
    except BadInput as error:
        return _check(what, "broken", str(error))
    for model in models:
        server = found.get(model.provider, Listed({}))
        if server.check.get("state") not in ("ok", None):
            return _check(what, "broken", f"{model} (TRIBUNAL_MODEL); {model.provider}: {server.check['found']}")
        if server.models is not None and not any(_is_named(model.model, listed) for listed in server.models):
            some = ", ".join(server.models[:5]) + (", …" if len(server.models) > 5 else "")
            why = f"its server doesn't list it; it lists {some or 'none'}"
            return _check(what, "missing", f"{model} (TRIBUNAL_MODEL); {why}")
    return _check(what, "ok", f"{named} (TRIBUNAL_MODEL)")


def _is_named(model: str, listed: str) -> bool:
    """Whether a listed name is the model's: in full, without Ollama's tag, or without the date of its release."""
    return listed == model or listed.startswith((f"{model}:latest", f"{model}-20"))


async def _provider(name: str, held: dict[str, str], offline: bool) -> Listed:
    from tribunal.errors import BadInput
    from tribunal.models.providers import find_provider

    try:
        provider = find_provider(name, "model")
        assert provider is not None  # noqa: S101 (it is ours, or declared)
        provider.check_address(held)
    except BadInput as error:
        return Listed(_check(name, "broken", str(error)))
    keys = provider.key_pool(held)
    if provider.keys_wanted(held) and not keys:
        where = f" (from {provider.where})" if provider.where else ""
        return Listed(_check(name, "missing", f"no key; set {' or '.join(provider.keys)}{where}"))
    count = "no key needed" if not keys else f"{len(keys)} key{'s' if len(keys) > 1 else ''}"
    if offline or provider.listing is None:
        return Listed(_check(name, "ok", f"{count}; not asked"))
    url = provider.url(held, provider.listing)
    state, answer, models = await _asked(
        url, {**provider.account_headers(held), **provider.headers(keys[0] if keys else None)}, keys
    )
    setting = provider.address_setting(held)
    if state == "silent" and setting:
        answer += f" (the address is that of {setting})"
    # A server of one's own that isn't running is no fault, where nobody said that there is one.
    absent = provider.keyless and state == "silent" and not setting
    return Listed(
        _check(name, "missing" if absent else "ok" if state == "ok" else "broken", f"{count}; {answer}"), models
    )


async def _asked(url: str, headers: dict[str, str], keys: list[str]) -> tuple[str, str, list[str] | None]:
    """Whether a server answers (`ok`, `silent`, or its status), that in words, and which models it lists."""
    import asyncio
    from urllib.parse import urlsplit

    from tribunal.models.providers.http import fetch
    from tribunal.scrub import scrub

    parts = urlsplit(url)
    try:
        async with asyncio.timeout(10):
            status, _, raw = await fetch("GET", url, headers, keys=keys)
    except (OSError, ValueError) as error:
        return "silent", f"{parts.hostname} doesn't answer: {scrub(str(error) or type(error).__name__, keys)}", None
    if not 200 <= status < 300:
        asked = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        moved = "; it redirects, so set the base URL to its new place" if status < 400 else ""
        return str(status), f"{parts.hostname} says {status} ({asked}){moved}", None
    return "ok", f"{parts.hostname} answers", _models_in(raw)


def _models_in(raw: bytes) -> list[str] | None:
    """The models that a server lists, in OpenAI's form, Anthropic's, Gemini's or Ollama's; None: it is another."""

    try:
        body = from_json(raw)
        # A page of a longer list says nothing of what it lacks.
        if body.get("has_more") or body.get("nextPageToken"):
            return None
        return [
            str(each.get("id") or each["name"]).removeprefix("models/") for each in body.get("data", body.get("models"))
        ]
    except (ValueError, AttributeError, TypeError, KeyError):
        return None


def _folder(folder: Any) -> dict[str, str]:
    import os

    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if os.access(nearest, os.W_OK):
        return _check("data folder", "ok", str(folder))
    return _check("data folder", "broken", f"{folder} can't be written; set TRIBUNAL_DATA to one that can")


def _studio() -> dict[str, str]:
    from importlib.util import find_spec

    if find_spec("langgraph_api"):
        return _check("studio", "ok", "langgraph dev serves every graph")
    return _check("studio", "missing", "install tribunal[studio] for langgraph dev")
