"""What the tests of batches share."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Any

import httpx
import pyarrow.parquet as pq


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def posts(count: int) -> bytes:
    return lines(
        *(
            {"id": f"p{number}", "text": f"Good morning, number {number}!"}
            for number in range(count)
        )
    )


async def sent(
    client: httpx.AsyncClient, content: bytes, kind: str = "application/x-ndjson", **more: Any
) -> httpx.Response:
    headers = {"Content-Type": kind, **more.pop("headers", {})}
    return await client.post(
        "/v1/batches", content=content, headers=headers, params={"graph": "baseline", **more}
    )


async def ended(client: httpx.AsyncClient, address: str, **more: Any) -> dict[str, Any]:
    while True:
        batch: dict[str, Any] = (await client.get(address, **more)).json()
        if batch["finished"] is not None:
            return batch
        await asyncio.sleep(0.05)


async def table(
    client: httpx.AsyncClient, batch_id: str, form: str, **more: Any
) -> list[dict[str, Any]]:
    got = await client.get(f"/v1/batches/{batch_id}/results", params={"format": form, **more})
    assert got.status_code == 200, got.text
    if form == "parquet":
        return list(pq.read_table(io.BytesIO(got.content)).to_pylist())
    if form == "csv":
        return list(csv.DictReader(io.StringIO(got.content.decode(), newline=""), strict=True))
    return [json.loads(line) for line in got.text.splitlines()]
