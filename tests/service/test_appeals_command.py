"""`tribunal review appeals`, on the database of a service that runs."""

from __future__ import annotations

import asyncio

from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import serving
from tests.service.test_appeals import CLEAN, SURE, appealed, by_the_court, tried
from tests.service.test_checkpoints import COURT
from tribunal.commands import app


async def test_from_the_terminal(database: str) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["review", "appeals", *arguments, "--database", database])
        return done.exit_code, done.output

    async with (
        ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server,
        serving(database, **COURT) as client,
    ):
        at = await by_the_court(client, server)
        where = (await appealed(client, at)).rpartition("/")[2]
        code, listed = await asyncio.to_thread(run)
        assert (code, listed.split()[:4]) == (
            0,
            [where, at.rpartition("/")[2], "appeal", "waiting"],
        )
        code, said = await asyncio.to_thread(run, where, "--reviewer", "kim", "--retry")
        assert (code, "a new trial is ordered" in said) == (0, True), said
        await tried(client, f"/v1/appeals/{where}")
        other = (where, "--reviewer", "lee", "--uphold")
        code, said = await asyncio.to_thread(run, *other)
        assert (code, "is kim (operator)'s, who ordered its new trial" in said) == (2, True), said
        change = (where, "--reviewer", "kim", "--change", "NotHate", "--note", "a song")
        code, said = await asyncio.to_thread(run, *change)
        assert (code, said.strip()) == (0, f"{where}: reversed: NotHate")
        assert (await client.get(at)).json()["record"]["explanation"] == "a song"
        code, said = await asyncio.to_thread(run, where, "--reviewer", "kim", "--uphold", "--retry")
        assert (code, "give one of --uphold" in said) == (2, True)
