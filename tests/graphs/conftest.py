"""One real `langgraph dev` server for every file of tests that asks one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests import PROJECT
from tests.dev_server import dev_server


@pytest.fixture(scope="session")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of whoever runs the server. In `open` lies what its clients may name."""
    folder = tmp_path_factory.mktemp("operator")
    (folder / "open").mkdir()
    return folder


@pytest.fixture(scope="session")
def url(operator: Path) -> Iterator[str]:
    """The address of a server of this project's graphs, whose clients may name files of one folder and one model."""
    named = "image policy prompts line_up threshold_file archive cache perspectives precedents"
    allow = ",".join(
        [*(f"{each}={operator}/open/*" for each in named.split()), "model=ollama:gemma3:*"]
    )
    with dev_server(PROJECT, operator, allow=allow, keep="yes") as address:
        yield address


@pytest.fixture
async def client(url: str) -> Any:
    """A client of that server."""
    async with get_client(url=url) as made:
        yield made
