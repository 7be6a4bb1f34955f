"""`tribunal doctor`: what is usable here, what is missing, and how to get it."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from tribunal.commands.shared_options import AsJson
from tribunal.errors import BadInput
from tribunal.terminal import say_json, screen
from tribunal.text import count_noun, parse_json, scrub

if TYPE_CHECKING:
    from pathlib import Path

    from tribunal.schema import JSON

_MARKS = {"ok": ("✓", "green"), "missing": ("–", "yellow"), "broken": ("✗", "red")}


def doctor(
    as_json: AsJson = False,
    offline: Annotated[bool, typer.Option(help="Ask no server whether it answers.")] = False,
) -> None:
    """Say which models can be used here: keys found, servers answering, what is missing. Spends nothing."""
    checks = asyncio.run(_run_checks(offline))
    if as_json:
        say_json({"checks": [each._asdict() for each in checks]})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("", "what", "found", box=None, pad_edge=False)
    for check in checks:
        mark, colour = _MARKS[check.state]
        table.add_row(Text(mark, style=colour), check.what, check.found)
    screen().print(table)


class Check(NamedTuple):
    """The state of one thing: `ok`, `missing` or `broken`, and that in words."""

    what: str
    state: str
    found: str


class ProviderCheck(NamedTuple):
    """A provider as it was found, and the models that its server lists; None: it wasn't asked, or lists none."""

    check: Check
    models: list[str] | None = None


async def _run_checks(offline: bool) -> list[Check]:
    from tribunal import plugins
    from tribunal.calls import REHEARSAL
    from tribunal.environment import data_folder, environment
    from tribunal.models.registry import PROVIDERS

    held = environment()
    rehearsal = REHEARSAL.partition(":")[0]
    names = [name for name in (*PROVIDERS, *plugins.names("tribunal.providers")) if name != rehearsal]
    found = await asyncio.gather(*(_check_provider(name, held, offline) for name in names))
    has_studio = find_spec("langgraph_api") is not None
    studio = "langgraph dev serves every graph" if has_studio else "install tribunal-court[studio] for langgraph dev"
    return [
        _check_models_in_force(held, dict(zip(names, found, strict=True))),
        *(each.check for each in found),
        Check("rehearsal", "ok", "always there; no moderator, for trying things out"),
        _check_folder(data_folder()),
        Check("studio", "ok" if has_studio else "missing", studio),
    ]


def _check_models_in_force(held: dict[str, str], found: dict[str, ProviderCheck]) -> Check:
    """Check the models of TRIBUNAL_MODEL: whether they can be asked, and whether their servers list them."""
    from tribunal.calls import REHEARSAL
    from tribunal.models.registry import resolve_models

    what, named = "model in force", held.get("TRIBUNAL_MODEL")
    if not named:
        return Check(what, "ok", f"{REHEARSAL}: offline, by rules; set TRIBUNAL_MODEL or --model")
    try:
        models = resolve_models(named, held, "TRIBUNAL_MODEL")
    except BadInput as error:
        return Check(what, "broken", str(error))
    for model in models:
        server = found.get(model.provider, ProviderCheck(Check("", "ok", "")))
        if server.check.state != "ok":
            return Check(what, "broken", f"{model} (TRIBUNAL_MODEL); {model.provider}: {server.check.found}")
        if server.models is not None and not any(_is_named(model.model, listed) for listed in server.models):
            some = ", ".join(server.models[:5]) + (", …" if len(server.models) > 5 else "")
            why = f"its server doesn't list it; it lists {some or 'none'}"
            return Check(what, "missing", f"{model} (TRIBUNAL_MODEL); {why}")
    return Check(what, "ok", f"{named} (TRIBUNAL_MODEL)")


def _is_named(model: str, listed: str) -> bool:
    """Return whether a listed name is the model, in full or without Ollama's tag or the date of its release."""
    return listed == model or listed.startswith((f"{model}:latest", f"{model}-20"))


async def _check_provider(name: str, held: dict[str, str], offline: bool) -> ProviderCheck:
    from tribunal.models.registry import find_provider

    try:
        provider = find_provider(name, "model")
        assert provider is not None  # noqa: S101 (it is ours, or declared)
        provider.check_address(held)
    except BadInput as error:
        return ProviderCheck(Check(name, "broken", str(error)))
    keys = provider.key_pool(held)
    if provider.needs_key(held) and not keys:
        where = f" (from {provider.where})" if provider.where else ""
        return ProviderCheck(Check(name, "missing", f"no key; set {' or '.join(provider.keys)}{where}"))
    count = count_noun(len(keys), "key") if keys else "no key needed"
    if offline or provider.listing is None:
        return ProviderCheck(Check(name, "ok", f"{count}; not asked"))
    url = provider.request_url(held, provider.listing)
    headers = {**provider.account_headers(held), **provider.headers(keys[0] if keys else None)}
    state, answer, models = await _ask_server(url, headers, keys)
    setting = provider.address_setting(held)
    if state == "silent" and provider.takes_no_key and not setting:
        # A server of one's own that isn't running is no fault, where nobody said that there is one.
        return ProviderCheck(Check(name, "missing", f"not running ({urlsplit(url).netloc})"))
    if state == "silent":
        state, answer = "broken", answer + (f" (the address is that of {setting})" if setting else "")
    return ProviderCheck(Check(name, state, f"{count}; {answer}"), models)


async def _ask_server(url: str, headers: dict[str, str], keys: list[str]) -> tuple[str, str, list[str] | None]:
    """Return whether a server answers (`ok`, `silent` or `broken`), that in words, and which models it lists."""
    from tribunal.models.providers.http import fetch

    parts = urlsplit(url)
    try:
        async with asyncio.timeout(10):
            status, _, raw = await fetch("GET", url, headers, keys=keys)
    except (OSError, ValueError) as error:
        return "silent", f"{parts.hostname} doesn't answer: {scrub(str(error) or type(error).__name__, keys)}", None
    if not 200 <= status < 300:
        asked = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        moved = "; it redirects, so set the base URL to its new place" if status < 400 else ""
        return "broken", f"{parts.hostname} says {status} ({asked}){moved}", None
    return "ok", f"{parts.hostname} answers", _models_in(raw)


def _models_in(raw: bytes) -> list[str] | None:
    """Return the models that a server lists, in OpenAI's form, Anthropic's, Gemini's or Ollama's; None of another."""
    try:
        body: JSON = parse_json(raw)
        # A page of a longer list says nothing of what it lacks.
        if body.get("has_more") or body.get("nextPageToken"):
            return None
        listed: Any = body.get("data", body.get("models"))
        return [str(each.get("id") or each["name"]).removeprefix("models/") for each in listed]
    except (ValueError, AttributeError, TypeError, KeyError):
        return None


def _check_folder(folder: Path) -> Check:
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if os.access(nearest, os.W_OK):
        return Check("data folder", "ok", str(folder))
    return Check("data folder", "broken", f"{folder} can't be written; set TRIBUNAL_DATA to one that can")
