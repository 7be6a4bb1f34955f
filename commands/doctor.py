"""`tribunal doctor`: what is usable here, what is missing, and how to get it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tribunal.commands.errors import ending_well


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    offline: Annotated[bool, typer.Option(help="Ask no server whether it answers.")] = False,
) -> None:
    """Say which models can be used here: keys found, servers answering, what is missing. Spends nothing."""
    with ending_well():
        import asyncio
        import json

        findings = asyncio.run(_examine(offline))
        if as_json:
            typer.echo(json.dumps(findings, ensure_ascii=False))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table("", "what", "found", box=None, pad_edge=False)
        for finding in findings["checks"]:
            mark = {"ok": "[green]✓[/]", "missing": "[yellow]–[/]", "broken": "[red]✗[/]"}[finding["state"]]
            table.add_row(mark, finding["what"], finding["found"])
        Console(highlight=False).print(table)


async def _examine(offline: bool) -> dict[str, Any]:
    import asyncio

    from tribunal import plugins
    from tribunal.context import REHEARSAL
    from tribunal.environment import data_folder, environment
    from tribunal.models.providers import PROVIDERS

    held = environment()
    named = held.get("TRIBUNAL_MODEL")
    checks = [_check("model in force", "ok", named or f"{REHEARSAL}: offline, by rules; set TRIBUNAL_MODEL or --model")]
    if named:
        checks[0] = _named(named, held)
    rehearsal = REHEARSAL.partition(":")[0]
    providers = [name for name in (*PROVIDERS, *plugins.names("tribunal.providers")) if name != rehearsal]
    checks += await asyncio.gather(*(_provider(name, held, offline) for name in providers))
    checks.append(_check("rehearsal", "ok", "always there; no moderator, for trying things out"))
    checks.append(_folder(data_folder()))
    checks.append(_studio())
    return {"checks": checks}


def _check(what: str, state: str, found: str) -> dict[str, str]:
    return {"what": what, "state": state, "found": found}


def _named(named: str, held: dict[str, str]) -> dict[str, str]:
    from tribunal.errors import BadInput
    from tribunal.models.seating import checked_models

    try:
        checked_models(named, held, "TRIBUNAL_MODEL")
    except BadInput as error:
        return _check("model in force", "broken", str(error))
    return _check("model in force", "ok", f"{named} (TRIBUNAL_MODEL)")


async def _provider(name: str, held: dict[str, str], offline: bool) -> dict[str, str]:
    from tribunal.errors import BadInput
    from tribunal.models.providers import find_provider

    try:
        provider = find_provider(name, "model")
    except BadInput as error:
        return _check(name, "broken", str(error))
    assert provider is not None  # noqa: S101 (it is ours, or declared)
    keys = provider.key_pool(held)
    if provider.keys_wanted(held) and not keys:
        where = f" (from {provider.where})" if provider.where else ""
        return _check(name, "missing", f"no key; set {' or '.join(provider.keys)}{where}")
    count = "no key needed" if not keys else f"{len(keys)} key{'s' if len(keys) > 1 else ''}"
    if offline or provider.listing is None:
        return _check(name, "ok", f"{count}; not asked")
    url = provider.url(held, provider.listing)
    state, answer = await _asked(url, provider.headers(keys[0] if keys else None), keys)
    # A server of one's own that isn't running is no fault.
    state = "missing" if provider.keyless and state == "silent" else "ok" if state == "ok" else "broken"
    return _check(name, state, f"{count}; {answer}")


async def _asked(url: str, headers: dict[str, str], keys: list[str]) -> tuple[str, str]:
    """Whether a server answers (`ok`, `silent`, or its status), and that in words."""
    from urllib.parse import urlsplit

    import aiohttp

    from tribunal.models.diagnosis import scrub
    from tribunal.models.providers.http import session_here

    host, within = urlsplit(url).hostname, aiohttp.ClientTimeout(total=10)
    try:
        session = await session_here()
        async with session.get(url, headers=headers, timeout=within, allow_redirects=False) as response:
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return "silent", f"{host} doesn't answer: {scrub(str(error) or type(error).__name__, keys)}"
    return ("ok", f"{host} answers") if 200 <= status < 300 else (str(status), f"{host} says {status}")


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
