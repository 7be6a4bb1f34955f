"""The alerts and the board on a real Prometheus, which scrapes a real replica; skipped where none is installed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from tests import PROJECT
from tests.service.command import started
from tests.service.conftest import get_json
from tests.service.test_alerts import BOARD, RULES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus is installed"),
]


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[httpx.AsyncClient]:
    """A server with the files of `deploy/`, which scrapes another target, each second."""
    config: dict[str, Any] = yaml.safe_load((PROJECT / "deploy/prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(PROJECT / "deploy/alerts.yml")]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ("config.file", folder / "prometheus.yml"), ("storage.tsdb.path", folder), ("web.listen-address", address)
    process = await asyncio.create_subprocess_exec(
        "prometheus", *(f"--{name}={value}" for name, value in options), stdout=sys.stderr, stderr=sys.stderr
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}/api/v1", timeout=60) as client:
            while True:
                try:
                    if (await client.get("/status/buildinfo")).status_code == 200:
                        break
                except httpx.TransportError:
                    assert process.returncode is None
                await asyncio.sleep(0.1)
            yield client
    finally:
        process.terminate()
        await process.wait()


async def test_a_real_prometheus_scrapes_a_replica_and_understands_alerts_and_board(
    sqlite: str, tmp_path: Path
) -> None:
    expressions = [rule["expr"] for rule in RULES]
    expressions += [each["expr"] for panel in BOARD["panels"] for each in panel["targets"]]
    async with (
        started(sqlite, TRIBUNAL_MODEL="rehearsal") as service,
        prometheus(tmp_path, service.url.removeprefix("http://")) as server,
    ):
        await service.client.post("/v1/judge", params={"wait": 60}, json={"text": "Good morning!"})

        async def query(expression: str) -> list[dict[str, Any]]:
            answer = await get_json(server, "/query", params={"query": expression})
            assert answer["status"] == "success", answer
            found: list[dict[str, Any]] = answer["data"]["result"]
            return found

        while not await query('tribunal_posts_total{outcome="verdict"} > 0'):
            await asyncio.sleep(0.2)
        [up] = await query("up")
        assert (up["metric"]["job"], up["value"][1]) == ("tribunal", "1")
        for expression in expressions:
            await query(expression.replace("$__rate_interval", "1m"))
        answer = (await get_json(server, "/rules", "data"))["groups"]
        loaded = {rule["name"]: rule for group in answer for rule in group["rules"]}
        assert loaded.keys() == {rule["alert"] for rule in RULES}
        assert {rule["state"] for rule in loaded.values()} == {"inactive"}
