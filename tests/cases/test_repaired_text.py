"""Text that a store or a wire can't take is repaired at every door, and the record says so: an author can't evade."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typer.testing import CliRunner

from tests.service.conftest import POSTGRES, new_postgres_database
from tests.untyped import graph
from tribunal.commands import app
from tribunal.docket.keeping import keep_options
from tribunal.docket.session import judge_post
from tribunal.eval.batch import batch
from tribunal.schema import JSON
from tribunal.settings.context import context_from

BAD = {"NUL": "Good \0 day.", "half a pair": "Good \ud83d\udfff\udfff day."}
REHEARSED = {"model": "rehearsal"}
Door = Callable[[JSON, Path], Awaitable[list[str]]]


async def by_python(post: JSON, folder: Path) -> list[str]:
    kept = keep_options("python", True, True, database=f"sqlite:///{folder / 'kept.sqlite'}")
    given = {"text": "Good day.", **post}
    record = await judge_post(
        given.pop("text"), graph="tribunal", context=context_from(REHEARSED), keep=kept, **given
    )
    assert (record.outcome, record.kept is not None) == ("verdict", True)
    return list(record.warnings)


async def by_command(post: JSON, folder: Path) -> list[str]:
    """As a shell gives it, which can't pass NUL: in its place stands a byte that is no UTF-8."""
    options: dict[str, list[str]] = {"text": [], "earlier": ["--earlier"], "post_id": ["--id"]}
    arguments = [] if "text" in post else ["Good day."]
    for field, value in post.items():
        text = value[0] if isinstance(value, list) else value
        arguments += [*options[field], text.replace("\0", "\udcff")]
    command = ["judge", *arguments, "--model", "rehearsal", "--json"]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout)["warnings"])


def by_batch(suffix: str) -> Door:
    async def door(post: JSON, folder: Path) -> list[str]:
        row = {
            "text": "Good day.",
            **{{"post_id": "id"}.get(name, name): value for name, value in post.items()},
        }
        table, out = folder / f"in{suffix}", folder / "out.jsonl"
        if suffix == ".csv":
            cells = {
                name: json.dumps(cell) if isinstance(cell, list) else cell
                for name, cell in row.items()
            }
            names, values = (
                ",".join(cells),
                ",".join('"' + cell.replace('"', '""') + '"' for cell in cells.values()),
            )
            # CSV in UTF-8 can't hold half a pair.
            table.write_text(
                f"{names}\n{values}\n".replace("\ud83d", "\0").replace("\udfff", "\0"), "utf-8"
            )
        else:
            table.write_text(json.dumps(row) + "\n")
        await asyncio.to_thread(batch, table, out, graph="baseline", settings=REHEARSED)
        [line] = map(
            json.loads, (folder / "out.jsonl.run" / "results.jsonl").read_text().splitlines()
        )
        assert line["outcome"] == "verdict"
        return list(line["warnings"])

    return door


def by_checkpointer(kind: str, *, in_message: bool = False) -> Door:
    """A graph that somebody runs with a checkpointer of LangGraph's, as LangGraph's server does."""

    async def door(post: JSON, folder: Path) -> list[str]:
        given: JSON = {"text": "Good day.", **post}
        if in_message:
            given["messages"] = [
                {"type": "human", "content": [{"type": "text", "text": given.pop("text")}]}
            ]
        async with AsyncExitStack() as stack:
            saver: BaseCheckpointSaver[Any]
            if kind == "sqlite":
                if version("langgraph-checkpoint-sqlite") == "3.0.2":
                    pytest.skip(
                        "this release's own saver doesn't open with the aiosqlite that is locked"
                    )
                saver = await stack.enter_async_context(
                    AsyncSqliteSaver.from_conn_string(str(folder / "steps.sqlite"))
                )
            else:
                server = os.environ.get(POSTGRES) or pytest.skip(
                    f"no PostgreSQL: {POSTGRES} names none"
                )
                name = stack.enter_context(new_postgres_database(server))
                opened = AsyncPostgresSaver.from_conn_string(f"{server}/{name}")
                saver = postgres = await stack.enter_async_context(opened)
                await postgres.setup()
            court = graph("tribunal").copy({"checkpointer": saver})
            state = await court.ainvoke(
                given, {"configurable": {"thread_id": "one"}}, context=REHEARSED
            )
            assert state["outcome"]["outcome"] == "verdict"
            assert not any(bad in repr(state) for bad in (r"\x00", r"\ud83d", r"\udfff"))
            return list(state["warnings"])

    return door


DOORS: dict[str, Door] = {
    "Python": by_python,
    "command": by_command,
    "CSV": by_batch(".csv"),
    "JSONL": by_batch(".jsonl"),
    "graph, SQLite": by_checkpointer("sqlite"),
    "graph, PostgreSQL": by_checkpointer("postgresql"),
    "message, PostgreSQL": by_checkpointer("postgresql", in_message=True),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("field", ["text", "earlier", "post_id"])
async def test_it_is_repaired_and_told(door: str, bad: str, field: str, tmp_path: Path) -> None:
    if door == "command" and sys.platform != "linux":
        pytest.skip("arguments are bytes on Linux")
    post = {field: [BAD[bad]] if field == "earlier" else BAD[bad]}
    warnings = await DOORS[door](post, tmp_path)
    assert [each.partition(":")[0] for each in warnings if "U+FFFD" in each] == [field]


async def test_an_author_s_id_loses_no_verdict(tmp_path: Path) -> None:
    assert not any("U+FFFD" in each for each in await by_python({"author": "kim \ud83d"}, tmp_path))
