"""Clients that others' generators make of the OpenAPI document, and ten routes called through one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.service.live import key_of, listening, sqlite

pytestmark = pytest.mark.long

CALLS = """
import io, sys
from tribunal_client import AuthenticatedClient
from tribunal_client.api.batches import create_batch, get_batch, get_batch_results, list_batches
from tribunal_client.api.cases import explain_case, get_case, list_cases
from tribunal_client.api.monitoring import get_health, get_usage
from tribunal_client.api.verdicts import judge
from tribunal_client.api.webhooks import create_webhook, delete_webhook
from tribunal_client.models import CreateBatchBatchForm, JudgeJsonJudgeRequest, WebhookRequest
from tribunal_client.types import File

client = AuthenticatedClient(sys.argv[1], sys.argv[2], timeout=60, raise_on_unexpected_status=True)
assert get_health.sync(client=client).alive
judged = judge.sync_detailed(client=client, body=JudgeJsonJudgeRequest(text="Good morning!", post_id="p-1"), wait=60)
assert judged.parsed.outcome == "verdict", judged
case_id = judged.headers["Tribunal-Case"]
assert get_case.sync(case_id, client=client).record.post_id == "p-1"
assert [each.id for each in list_cases.sync(client=client, post_id="p-1").cases] == [case_id]
assert explain_case.sync(case_id, client=client).told_to == "auditor"
form = CreateBatchBatchForm(file=File(io.BytesIO(b"id,text\\nr-1,Good morning!\\n"), "posts.csv", "text/csv"))
made = create_batch.sync(client=client, body=form)
assert get_batch.sync(made.id, client=client).posts == 1
assert [each.id for each in list_batches.sync(client=client).batches] == [made.id]
assert get_batch_results.sync_detailed(made.id, client=client, partial=True).status_code == 200
hook = create_webhook.sync(client=client, body=WebhookRequest("https://127.0.0.1:9/a"))
assert delete_webhook.sync_detailed(hook.id, client=client).status_code == 204
assert get_usage.sync(client=client, days=1).days
"""


def outside(*command: str) -> list[str]:
    """A command in the environment of the generators, which is apart from ours."""
    if not (uv := os.environ.get("UV")):
        pytest.skip("uv doesn't run this")
    pins = PROJECT / ".ci" / "clients.txt"
    return [
        uv,
        "run",
        "--quiet",
        "--offline",
        "--no-project",
        "--isolated",
        "--with-requirements",
        str(pins),
        *command,
    ]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(outside(*command), cwd=folder, capture_output=True, text=True)
    if "--offline" in done.stderr or "network was disabled" in done.stderr:
        pytest.skip("the generators of .ci/clients.txt aren't at hand: .ci/run fetches them")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def document(tmp_path: Path, app_document: dict[str, Any]) -> Path:
    (tmp_path / "openapi.json").write_text(json.dumps(app_document), "utf-8")
    return tmp_path


def test_models_are_generated_of_every_part_without_a_warning(document: Path) -> None:
    command = [
        "datamodel-codegen",
        "--input",
        "openapi.json",
        "--input-file-type",
        "openapi",
        "--output",
        "made.py",
    ]
    scopes = ["--openapi-scopes", "schemas", "paths", "parameters", "requestbodies"]
    assert run(document, *command, "--formatters", "builtin", *scopes) == ""
    run(document, "python", "-W", "error", "made.py")


async def test_ten_routes_are_called_through_a_generated_client(
    document: Path, app_document: dict[str, Any]
) -> None:
    command = [
        "openapi-python-client",
        "generate",
        "--path",
        "openapi.json",
        "--fail-on-warning",
        "--meta",
        "none",
    ]
    run(document, *command, "--output-path", "tribunal_client")
    made = {path.stem for path in document.glob("tribunal_client/api/*/*.py")}
    assert {
        each["operationId"]
        for methods in app_document["paths"].values()
        for each in methods.values()
    } <= made
    database = sqlite(document)
    key = await key_of(database, "judge", "review", "audit", "admin")
    (document / "calls.py").write_text(CALLS)
    async with listening(database, graph="baseline") as url:
        script = await asyncio.create_subprocess_exec(
            *outside("python", "calls.py", url, key), cwd=document, stderr=asyncio.subprocess.PIPE
        )
        _, stderr = await script.communicate()
    assert script.returncode == 0, stderr.decode()
