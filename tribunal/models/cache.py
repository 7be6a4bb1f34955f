"""The call cache: answers on disk, so that ten judges pay for one debate."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.models.model_call import ModelCall
from tribunal.models.registry import ModelRegistry
from tribunal.models.role import UnreadableAnswer
from tribunal.process.database import Database, DatabaseError
from tribunal.process.loops import PerLoop
from tribunal.process.model_objects import fingerprint

_SCHEMA = [
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, prompt_tokens INTEGER"
    " NOT NULL, completion_tokens INTEGER NOT NULL, format TEXT NOT NULL, temperature REAL, blind INTEGER"
    " NOT NULL, stored TEXT DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
]
_LOOK_UP = "SELECT text, prompt_tokens, completion_tokens, format, temperature, blind FROM answers WHERE key = ?"
_PUT = (
    "INSERT OR REPLACE INTO answers (key, text, prompt_tokens, completion_tokens, format, temperature, blind)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


async def _open_database(path: str) -> Database:
    database = None
    try:
        database = await Database.open(
            await asyncio.to_thread(Path(path).expanduser), schema=_SCHEMA
        )
        # a table of another make is found now, not in the middle of a case
        await database.rows(_LOOK_UP, "")
    except DatabaseError as error:
        if database:
            await database.close()
        why = error.__cause__ or error
        raise BadInput(
            f"cache: {path}: can't be used: {why}; give a file of its own, in a folder that can be written"
        ) from error
    return database


_caches: PerLoop[Database] = PerLoop(_open_database, Database.close)


async def open_cache(path: str) -> Database:
    """Return the running event loop's cache in this file, opened at its first use and closed with the loop.

    It is a SQLite file of answers by key, made where it isn't there, and safe to share between processes. An answer
    lies there with what it cost when it was asked for, and with how it was: in which response format, at which
    temperature, and whether by a model that couldn't see the image.

    Raises:
        BadInput: the file can't be opened, or is something else.
    """
    return await _caches.get(path)


async def read_answer(cache: Database, key: str, call: ModelCall) -> Any:
    """Return the usable answer under a key, noted in the call; None where there is none."""
    try:
        rows = await cache.rows(_LOOK_UP, key)
        if not rows:
            return None
        call.answer_text = rows[0]["text"]
        value = call.read_answer(take_empty=True)  # it was asked for again before it was kept
    except DatabaseError as error:
        call.warnings.append(f"an answer could not be looked up: cache: {error.__cause__ or error}")
        return None
    except UnreadableAnswer:
        return None
    call.prompt_tokens, call.completion_tokens = tuple(rows[0])[1:3]
    call.cached = True
    call.forms = (rows[0]["format"],)
    call.left_out = {}
    call.set_temperature = rows[0]["temperature"]
    if rows[0]["blind"] and call.question.post.image:
        call.leave_out_image()
    return value


async def write_answer(cache: Database, key: str, call: ModelCall) -> None:
    """Keep the answer of a call, in the place of one that is there. Where it can't be kept, the call says so."""
    cost = call.prompt_tokens, call.completion_tokens
    asked = call.response_format, call.temperature, call.without_image
    try:
        await cache.write(_PUT, key, call.answer_text, *cost, *asked)
    except DatabaseError as error:
        call.warnings.append(f"an answer could not be kept: cache: {error.__cause__ or error}")


def cache_key(call: ModelCall, registry: ModelRegistry) -> str:
    """Return a key that names all that the answer to a call depends on.

    It is that of the call as it is meant, and not as what a server is known to refuse by now has made it: the next
    process, which knows nothing yet, is to find the same answers.
    """
    question = call.question
    image = call.question.post.image
    provider = call.provider
    environment = registry.environment
    depends_on: dict[str, Any] = {
        "endpoint": provider.base_url(environment),
        "model": str(call.model),
        "system": question.system,
        "task": "\n\n".join(filter(None, (question.shared, question.write_task()))),
        "post": question.post.text,
        "image": image and [image.sha256, call.context.image_edge],
        "schema": call.answer_schema(provider.schema_bounds(environment)),
        "temperature": call.wanted_temperature,
        "max_tokens": call.max_output_tokens,
        "draw": (question.repeat, question.draw),
    }
    if question.post.earlier:
        depends_on["earlier"] = question.post.earlier
    if question.reading:
        depends_on["reading"] = question.reading
    if call.extra:
        depends_on["extra_body"] = call.extra
    if provider.client:
        depends_on["object"] = fingerprint(provider.client)
    return hashlib.sha256(
        json.dumps(depends_on, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()
