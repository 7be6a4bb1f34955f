"""A dismissal of the service waits for a person, unless the fitted threshold in force was shown for such verdicts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.graphs.test_dismissals_promised import GREETING, threshold
from tests.service.conftest import serving


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "not shown"])
async def test_by_the_service(shown: bool, database: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"threshold_file": threshold(tmp_path, "tribunal", shown=shown), "review": True}
    async with ScriptedServer(court_script(implicit=False)) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"  # taken away again before the next test (conftest)
        async with serving(database, settings={"model": "openai:scripted", **settings}) as client:
            got = await client.post("/v1/judge?wait=60", json={"text": GREETING, "graph": "tribunal"})
    assert got.json()["outcome"] == ("verdict" if shown else "pending"), got.text
