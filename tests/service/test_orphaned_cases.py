"""A case that stands in a replica's name, though the replica never learnt that it has it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.court import PATIENCE
from tests.service.conftest import serving
from tests.service.live import sqlite
from tribunal.docket.leases import NewCase


async def test_it_is_tried_all_the_same(tmp_path: Path) -> None:
    async with serving(sqlite(tmp_path), takeover=1.2) as client:
        caseload = client.app.state.replica.case_store  # type: ignore[attr-defined]
        new = NewCase(graph="baseline", post={"text": "Good morning!"}, settings={})
        # and the answer is lost
        case_id, *_ = await caseload.take_in(new, "", here=True, most_waiting=1)
        async with asyncio.timeout(PATIENCE):
            while (case := (await client.get(f"/v1/cases/{case_id}")).json())["status"] != "done":
                await asyncio.sleep(0.05)
    assert case["record"]["outcome"] == "verdict"
