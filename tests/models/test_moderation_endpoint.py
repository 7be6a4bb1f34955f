"""OpenAI's moderation endpoint, over the wire by OpenAI's own client, beside a chat model in `tribunal compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import png
from tribunal import BadInput, ajudge
from tribunal.commands import app
from tribunal.schema import Record

GRAPH = "guard_models.graphs:openai_moderation"
MODEL = "guard_models.moderation:PROVIDER:omni-moderation-latest"
SETUPS = f"""
settings = {{ scheme = "binary" }}
[entries.moderation]
graph = "{GRAPH}"
settings = {{ model = "{MODEL}" }}
[entries.chat]
graph = "baseline"
settings = {{ model = "openai:scripted" }}
"""


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example package, as where it is installed, and a key."""
    monkeypatch.syspath_prepend(PROJECT / "examples" / "guard_models")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-words-of-a-test")


async def moderate(
    server: ScriptedServer, text: str | None, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> Record:
    monkeypatch.setenv("OPENAI_MODERATION_BASE_URL", f"{server.url}/v1")
    return await ajudge(text, graph=GRAPH, model=MODEL, **{"scheme": "binary", **more})


async def test_its_scores_of_text_and_image_are_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threat = {"hate": 0.6, "hate/threatening": 0.9, "harassment": 0.7}
    answers: list[Reply | Fault] = [
        Reply(threat), Reply({"hate": 0.2, "harassment": 0.8}), Fault(429, headers={"retry-after": "0"}), Reply(threat),
    ]  # fmt: skip
    async with ScriptedServer(lambda request: answers.pop(0)) as server:
        hateful = await moderate(server, "a post", monkeypatch, image=str(png(tmp_path)))
        clean = await moderate(server, "another", monkeypatch)
        fine = await moderate(server, "again", monkeypatch, scheme="fine", policy="moderations")
        with pytest.raises(
            BadInput, match="names hate and hate/threatening alone; give --scheme binary"
        ):
            await moderate(server, "a post", monkeypatch, scheme="fine", policy="h-vli")
    first, *_ = server.requests
    kinds = [each["type"] for each in first.body["input"]]
    assert (first.path, first.body["model"], kinds) == (
        "/v1/moderations", "omni-moderation-latest", ["image_url", "text"],
    )  # fmt: skip
    assert first.headers["authorization"] == "Bearer sk-words-of-a-test"
    assert (hateful.hateful, hateful.probability, hateful.shown) == (True, 0.9, ("text", "image"))
    assert "hate 0.600, hate/threatening 0.900, harassment 0.700" in hateful.explanation
    assert (clean.hateful, clean.probability) == (False, 0.2)
    assert (fine.category, fine.calls[0].attempts, len(server.requests)) == (
        "hate/threatening",
        2,
        4,
    )
    assert fine.calls[0].served == "omni-moderation-2024-09-26"


async def test_an_error_of_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(
        lambda request: Fault(401, "Incorrect API key: sk-words-of-a-test")
    ) as server:
        record = await moderate(server, "a post", monkeypatch)
    assert (record.outcome, (record.fault or {})["kind"]) == ("failure", "authentication")
    assert "\n" not in record.explanation
    assert "sk-words" not in record.explanation


def test_it_is_compared_with_a_chat_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Reply:
        number = int(request.text.rpartition("number-")[2].split(".")[0])
        if request.protocol == "moderations":
            return Reply({"hate": 0.9 if number % 2 else 0.1})
        return Reply({"category": "Hateful", "explanation": f"It says so in post {number}."})

    rows = "".join(
        f"p{number},number-{number}. {'x' * number},{number % 2}\n" for number in range(12)
    )
    (tmp_path / "decided.csv").write_text(f"id,text,label\n{rows}")
    (tmp_path / "setups.toml").write_text(SETUPS)
    on, out = str(tmp_path / "decided.csv"), str(tmp_path / "out")
    with ScriptedServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        command = [
            "compare",
            str(tmp_path / "setups.toml"),
            "--on",
            on,
            "--out",
            out,
            "--cluster",
            "post",
        ]
        done = CliRunner().invoke(app, [*command, "--yes", "--json"])
    assert done.exit_code == 0, done.output
    held = json.loads(done.stdout)
    assert (held["best"], held["entries"]["moderation"]["agreement"]["value"]) == (
        "moderation",
        1.0,
    )
    # its tokens are estimated: the endpoint counts none
    assert held["entries"]["moderation"]["calls"] == 1
