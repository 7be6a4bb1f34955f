"""Cases that people have decided in a database, for the tests of what is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.conftest import serving

UNSURE = {
    "category": "Religious",
    "explanation": "It says post-words, and so attacks a faith.",
    "confidence": 0.4,
}


async def run(*arguments: str) -> Result:
    """A command, as a person gives it."""
    from tribunal.commands import app

    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))


async def ran(*arguments: str) -> Result:
    """A command that ends in 0."""
    done = await run(*arguments)
    assert done.exit_code == 0, done.output
    return done


@asynccontextmanager
async def courtroom(
    database: str, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedServer]]:
    """A replica whose court is unsure of every post, and the model that plays it."""
    async with (
        OpenAIServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, settings={"model": "openai:scripted"}, **options) as client,
    ):
        yield client, server


async def judged(client: httpx.AsyncClient, **post: Any) -> str:
    """The id of a case that waits for a person."""
    asked = {"text": "post-words", "graph": "tribunal", "settings": {"review": True}, **post}
    got = await client.post("/v1/judge?wait=60", json=asked)
    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
    return str(got.headers["tribunal-case"])


async def decided(
    client: httpx.AsyncClient, category: str | None, *clauses: str, **post: Any
) -> str:
    """The id of a case that a person has decided: changed to this category, or, with None, accepted."""
    case = await judged(client, **post)
    said = {"action": "accept"} if category is None else {"action": "change", "category": category}
    done = await client.post(f"/v1/cases/{case}/decision", json={
        **said, "reviewer": "kim", "note": "kim-note", "clauses": list(clauses)
    })  # fmt: skip
    assert done.status_code == 200, done.text
    return case


async def contested(
    client: httpx.AsyncClient, category: str | None, *clauses: str, **post: Any
) -> str:
    """The id of a case that a person decided on appeal: changed to this category, or, with None, upheld."""
    got = await client.post("/v1/judge?wait=60", json={"graph": "tribunal", **post})
    assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
    case = str(got.headers["tribunal-case"])
    made = await client.post(
        f"/v1/cases/{case}/appeal", json={"appellant": "user-7", "reason": "It is a song."}
    )
    assert made.status_code == 201, made.text
    said = {"action": "uphold"} if category is None else {"action": "change", "category": category}
    at = f"{made.headers['location']}/decision"
    done = await client.post(at, json={
        **said, "note": "kim-note", "reviewer": "kim", "clauses": list(clauses)
    })  # fmt: skip
    assert done.status_code == 200, done.text
    return case
