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

    from tribunal.context import REHEARSAL, data_folder, environment
    from tribunal.models.providers import PROVIDERS

    held = environment()
    named = held.get("TRIBUNAL_MODEL")
    checks = [_check("model in force", "ok", named or f"{REHEARSAL}: offline, by rules; set TRIBUNAL_MODEL or --model")]
    if named:
        checks[0] = _named(named, held)
    checks += await asyncio.gather(*(_provider(provider, held, offline) for provider in PROVIDERS.values()))
    checks.append(_check("rehearsal", "ok", "always there; no moderator, for trying things out"))
    checks.append(_folder(data_folder()))
    checks.append(_studio())
    return {"checks": checks}


def _check(what: str, state: str, found: str) -> dict[str, str]:
    return {"what": what, "state": state, "found": found}


def _named(named: str, held: dict[str, str]) -> dict[str, str]:
    from tribunal.errors import BadInput
    from tribunal.models.providers import missing_key, provider_named, specs

    try:
        for spec in specs(named, "TRIBUNAL_MODEL"):
            provider = provider_named(spec.provider)
            if provider.keys_wanted(held) and not provider.key_pool(held):
                raise missing_key(spec, "TRIBUNAL_MODEL")
    except BadInput as error:
        return _check("model in force", "broken", str(error))
    return _check("model in force", "ok", f"{named} (TRIBUNAL_MODEL)")


async def _provider(provider: Any, held: dict[str, str], offline: bool) -> dict[str, str]:
    import httpx

    from tribunal.models.diagnosis import scrub

    keys = provider.key_pool(held)
    if provider.keys_wanted(held) and not keys:
        return _check(provider.name, "missing", f"no key; set {' or '.join(provider.keys)} (from {provider.where})")
    count = "no key needed" if not keys else f"{len(keys)} key{'s' if len(keys) > 1 else ''}"
    if offline:
        return _check(provider.name, "ok", f"{count}; not asked")
    url, headers = provider.listing(held, keys[0] if keys else None)
    try:
        async with httpx.AsyncClient(timeout=10) as client:
            answer = await client.get(url, headers=headers)
    except httpx.HTTPError as error:
        state = "missing" if provider.name == "ollama" else "broken"
        reason = scrub(str(error) or type(error).__name__, keys)
        return _check(provider.name, state, f"{count}; {httpx.URL(url).host} doesn't answer: {reason}")
    if answer.is_success:
        return _check(provider.name, "ok", f"{count}; {httpx.URL(url).host} answers")
    return _check(provider.name, "broken", f"{count}; {httpx.URL(url).host} says {answer.status_code}")


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
