"""ROOST Coop: our plugin in Node, loaded and run as Coop does it; and requests as Coop's own parts make them."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import PROJECT
from tests.service.conftest import serving
from tests.service.live import listening
from tribunal.service.replica import keys
from tribunal.store.engine import Store

ABUSE = "Immigrants are vermin and should be deported."
HELLO = "Good morning, dear neighbours!"
PLUGIN = PROJECT / "examples" / "coop"
HOST = Path(__file__).with_name("coop_host.cjs")
NODE = shutil.which("node")


def given(value: dict[str, Any], content_id: str = "i-1") -> dict[str, Any]:
    """The input of a signal as a rule's condition makes it; what isn't there is left out of the JSON."""
    return {"value": value, "contentId": content_id, "userId": "u-7", "orgId": "o-1", "contentType": "Comment"}


def text(words: str) -> dict[str, Any]:
    return {"type": "STRING", "value": words}


def field(name: str, kind: str, of: str | None = None) -> dict[str, Any]:
    container = {"containerType": kind, "keyScalarType": None, "valueScalarType": of} if of else None
    return {"name": name, "type": kind, "required": False, "container": container}


def item(**data: Any) -> dict[str, Any]:
    """A whole item, with its type as Coop holds it."""
    schema = [
        field("title", "STRING"), field("at", "DATETIME"), field("body", "STRING"), field("tags", "ARRAY", "STRING"),
        field("pictures", "ARRAY", "IMAGE"), field("author", "RELATED_ITEM"),
    ]  # fmt: skip
    kind = {
        "id": "t-1", "kind": "CONTENT", "name": "Comment", "description": None, "version": "2026-01-01",
        "schemaVariant": "original", "orgId": "o-1", "schema": schema, "schemaFieldRoles": {"creatorId": "author"},
    }  # fmt: skip
    return {"itemType": kind, "data": {"author": {"id": "u-7", "typeId": "t-2", "name": "Ann"}, **data}}


async def asked(client: httpx.AsyncClient, value: dict[str, Any]) -> httpx.Response:
    return await client.post("/v1/signals/coop", json=given(value))


async def test_a_text_is_scored(database: str) -> None:
    async with serving(database, graph="arcade") as client:
        for words, hateful in ((ABUSE, True), (HELLO, False)):
            got = await asked(client, text(words))
            assert got.status_code == 200, got.text
            result = got.json()
            assert result["outputType"] == {"scalarType": "NUMBER"}
            assert (result["score"] > 0.5, result["hateful"], result["rehearsed"]) == (hateful, hateful, True)
            case = (await client.get(f"/v1/cases/{result['case']}")).json()
            assert (case["post"], case["record"]["hateful"]) == ({"text": words, "post_id": "i-1"}, hateful)


async def test_of_a_whole_item_its_texts_and_its_first_image_are_judged(tmp_path: Path, image: str) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}", graph="baseline") as client:
        value = item(
            title="Hello", at="2026-01-01T00:00:00.000Z", body=HELLO, tags=["one", "two"], pictures=[{"url": image}]
        )
        got = await asked(client, value)
        assert got.status_code == 200, got.text
        post = (await client.get(f"/v1/cases/{got.json()['case']}")).json()["post"]
        assert post == {"text": f"Hello\n\n{HELLO}\n\none\n\ntwo", "image": image, "post_id": "i-1"}


@pytest.fixture
def image() -> str:
    """A red dot."""
    return (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO"
        "9TXL0Y4OHwAAAABJRU5ErkJggg=="
    )


NOT_JUDGED: list[tuple[dict[str, Any], str]] = [
    ({"type": "VIDEO", "value": {"url": "https://example.com/a.mp4"}}, "value.type: VIDEO"),
    ({"type": "IMAGE", "value": {"url": "/etc/passwd"}}, "image: '/etc/passwd'"),
    (text("  "), "value: holds neither"),
    (item(at="2026-01-01T00:00:00.000Z"), "value: holds neither"),
    (item(body=7, pictures="no list", tags={"a": None}), "value: holds neither"),
    ({"type": "STRING"}, "value."),
    ({}, "value."),
]


async def test_what_is_not_judged(tmp_path: Path) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}", graph="baseline") as client:
        for value, named in NOT_JUDGED:
            got = await asked(client, value)
            assert (got.status_code, got.json()["error"]["kind"]) == (400, "bad_input"), got.text
            assert got.json()["error"]["message"].startswith(named)
        assert (await client.get("/v1/cases")).json()["cases"] == []


async def test_without_a_verdict_there_is_no_score(tmp_path: Path) -> None:
    """A person has to decide."""
    settings = {"review": True, "review_rule": ["all"]}
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}", graph="tribunal", settings=settings) as client:
        got = await asked(client, text(HELLO))
        assert (got.status_code, got.json()["error"]["kind"]) == (422, "undecided"), got.text
        assert "score" not in got.json()


async def key_for(database: str, scope: str) -> str:
    store = await Store.open(database)
    try:
        return await keys.add_key(store, scope, [scope], keys.KeyLimits())
    finally:
        await store.close()


@pytest.mark.long
@pytest.mark.skipif(NODE is None, reason="no Node to run the plugin in")
async def test_the_plugin_gives_coop_what_it_reads(database: str) -> None:
    key, wrong = await key_for(database, "judge"), await key_for(database, "audit")
    async with listening(database, graph="arcade") as address:
        inputs = [given(text(ABUSE)), given(item(body=HELLO), "i-2"), given(text(" "))]
        done = await in_node({"url": f"{address}/", "apiKey": key}, inputs)
        assert done["manifest"] == ["string", "string", "string", "boolean"]
        assert (done["missing"], done["listed"], done["disabled"]) == ([], True, [False, True])
        bad, good, empty = done["results"]
        assert (bad["outputType"], good["outputType"]) == (done["outputType"],) * 2 == ({"scalarType": "NUMBER"},) * 2
        assert bad["score"] > 0.5 > good["score"]
        assert empty["thrown"].startswith("Tribunal: 400 bad_input: value: holds neither")
        [refused] = (await in_node({"url": address, "apiKey": wrong}, inputs[:1]))["results"]
        assert refused["thrown"].startswith("Tribunal: 403 forbidden")
        assert wrong not in json.dumps(refused)
        async with httpx.AsyncClient(base_url=address, timeout=60, headers={"X-API-Key": wrong}) as client:
            kept = (await client.get("/v1/cases")).json()["cases"]
        assert {case["post"]["post_id"] for case in kept} == {"i-1", "i-2"}


async def in_node(config: dict[str, Any], inputs: list[dict[str, Any]]) -> dict[str, Any]:
    assert NODE is not None
    node = await asyncio.create_subprocess_exec(
        NODE, HOST, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    given = json.dumps({"plugin": str(PLUGIN), "config": config, "inputs": inputs})
    out, error = await node.communicate(given.encode())
    assert node.returncode == 0, error.decode()
    done: dict[str, Any] = json.loads(out)
    return done


async def test_coops_own_openai_signal_can_be_pointed_here(database: str) -> None:
    """With OPEN_AI_BASE_URL=https://…/v1, its built-in signals `hate` and `hate/threatening` ask Tribunal."""
    key = await key_for(database, "judge")
    async with serving(database, graph="arcade") as client:
        for words, hateful in ((ABUSE, True), (HELLO, False)):
            got = await client.post(
                "/v1/moderations",
                json={"model": "omni-moderation-latest", "input": [{"type": "text", "text": words}]},
                headers={"Authorization": f"Bearer {key}"},
            )
            assert got.status_code == 200, got.text
            scores = got.json()["results"][0]["category_scores"]
            assert (scores["hate"] > 0.5) == hateful
            assert isinstance(scores["hate/threatening"], int | float)
