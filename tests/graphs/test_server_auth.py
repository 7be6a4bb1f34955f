"""The example's `auth` on the real dev server: who is let in, what each key reaches, and where no key is written."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import APIStatusError

from tests import PROJECT
from tests.dev_server import dev_server, variables_of
from tests.service.live import key_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server auth")]

POST = {"text": "Immigrants: the weeds in our garden."}
PAGE = PROJECT / "docs" / "deployment.md"
SCOPES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "shop": (("judge",), {}),
    "other": (("judge",), {}),
    "admin": (("admin",), {}),
    "auditor": (("audit",), {}),
    "limited": (("judge",), {"daily_calls": 5}),
}


class Deployment(NamedTuple):
    """A running server, its folder, and its keys by name."""

    url: str
    folder: Path
    keys: dict[str, str]

    def client(self, name: str) -> Any:
        """A client that sends this key."""
        return get_client(url=self.url, api_key=self.keys[name])

    def post(self, path: str, headers: dict[str, str], **body: Any) -> httpx.Response:
        """Send a request, with these headers only."""
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example project, with `auth` and `http` as docs/deployment.md shows them, and one graph of ours."""
    folder = tmp_path_factory.mktemp("deployment") / "project"
    shutil.copytree(
        PROJECT / "examples" / "project",
        folder,
        ignore=shutil.ignore_patterns("__pycache__", ".langgraph_api"),
    )
    [shown] = re.findall(r"^```json\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    served = json.loads((folder / "langgraph.json").read_text()) | json.loads(shown)
    (folder / "graphs" / "arcade.py").write_text(
        'from tribunal.graphs import graph as named\n\ngraph = named("arcade")\n'
    )
    served["graphs"]["arcade"] = "./graphs/arcade.py:graph"
    (folder / "langgraph.json").write_text(json.dumps(served))
    return folder


@pytest.fixture(scope="module")
def deployment(folder: Path) -> Iterator[Deployment]:
    database = f"sqlite:///{folder / 'keys.sqlite'}"
    with dev_server(folder, folder, more={"TRIBUNAL_DATABASE": database}) as url:
        # Before the first key nobody is let in.
        assert httpx.post(f"{url}/threads", json={}).status_code == 401
        made = {
            name: asyncio.run(key_of(database, *scopes, **limits))
            for name, (scopes, limits) in SCOPES.items()
        }
        yield Deployment(url, folder, made)
    written = [path for path in folder.rglob("*") if path.is_file() and path.name != "keys.sqlite"]
    assert any(".langgraph_api" in path.parts for path in written)  # the threads and checkpoints
    for secret in (key.encode().rpartition(b"_")[2] for key in made.values()):
        assert [path for path in written if secret in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X-API-Key": "tribunal_0123456789ab_of-nobody"}, 401),
        ({"X-API-Key": "{shop}x"}, 401),
        ({"X-API-Key": "\xe9"}, 401),
        ({"Authorization": "Basic {shop}"}, 401),
        ({"X-Auth-Scheme": "langsmith"}, 401),  # Studio's own way in
        ({"X-API-Key": "{auditor}"}, 403),
        ({"X-API-Key": "{limited}"}, 403),
        ({"X-API-Key": "{shop}"}, 200),
        ({"Authorization": "Bearer {shop}"}, 200),
        ({"Authorization": "bearer {admin}"}, 200),
    ],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/threads", {}),
        ("/assistants/search", {}),
        ("/runs/wait", {"assistant_id": "arcade", "input": POST, "context": {"rounds": 1}}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ],
    ids=["thread", "assistants", "run", "mcp"],
)
def test_who_is_let_in(
    deployment: Deployment, headers: dict[str, str], status: int, path: str, body: dict[str, Any]
) -> None:
    sent = {
        name: value.format(**deployment.keys).encode("latin-1") for name, value in headers.items()
    }
    sent["Accept"] = b"application/json, text/event-stream"
    got = httpx.post(f"{deployment.url}{path}", json=body, headers=sent, timeout=60)  # type: ignore[arg-type]
    assert got.status_code == status, got.text
    assert not [key for key in deployment.keys.values() if key in got.text]
    if path == "/runs/wait" and status == 200:
        assert got.json()["outcome"]["outcome"] == "verdict"


async def answer_of(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return the answer of a call, or the status with which the server refused it."""
    try:
        return await call()
    except (APIStatusError, httpx.HTTPStatusError) as refused:  # the second by `runs.wait`
        return refused.response.status_code


async def test_a_key_reaches_its_own_threads_only(deployment: Deployment) -> None:
    async with deployment.client("shop") as mine, deployment.client("other") as theirs:
        thread = (await mine.threads.create())["thread_id"]
        done = await mine.runs.wait(thread, "arcade", input=POST, context={"rounds": 1})
        assert done["outcome"]["outcome"] == "verdict"
        own = await mine.threads.get(thread)
        assert own["metadata"]["owner"] == deployment.keys["shop"].split("_")[1]
        state = await mine.threads.get_state(thread)
        reached = [
            lambda: theirs.threads.get(thread),
            lambda: theirs.threads.get_state(thread),
            lambda: theirs.threads.get_history(thread),
            lambda: theirs.threads.update_state(thread, {"warnings": ["theirs"]}),
            lambda: theirs.threads.update(thread, metadata={"owner": "theirs"}),
            lambda: theirs.threads.copy(thread),
            lambda: theirs.threads.delete(thread),
            lambda: theirs.runs.list(thread),
            lambda: theirs.runs.wait(thread, "arcade", input=POST),
            lambda: theirs.runs.create(
                thread, "arcade", input=None, checkpoint=state["checkpoint"]
            ),
            lambda: theirs.threads.create(thread_id=thread, if_exists="do_nothing"),
        ]
        answers = [await answer_of(each) for each in reached]
        assert [each for each in answers if each not in (403, 404, 409, [])] == [], answers
        assert await theirs.threads.search() == []
        assert await theirs.threads.search(metadata={"owner": own["metadata"]["owner"]}) == []
        assert (await mine.threads.get_state(thread))["values"]["outcome"] == done["outcome"]
        assert [each["thread_id"] for each in await mine.threads.search(ids=[thread])] == [thread]


async def test_nobody_gives_a_thread_to_another(deployment: Deployment) -> None:
    async with deployment.client("shop") as mine:
        thread = (await mine.threads.create(thread_id=str(uuid4()), metadata={"owner": "theirs"}))[
            "thread_id"
        ]
        await mine.threads.update(thread, metadata={"owner": "theirs"})
        owner = (await mine.threads.get(thread))["metadata"]["owner"]
    assert owner == deployment.keys["shop"].split("_")[1]


async def test_only_an_admin_changes_assistants_and_nobody_has_a_store(
    deployment: Deployment,
) -> None:
    async with deployment.client("shop") as mine, deployment.client("admin") as admin:
        made = await admin.assistants.create("arcade", name="For everybody", context={"rounds": 1})
        assert (await mine.assistants.get(made["assistant_id"]))["name"] == "For everybody"
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: mine.assistants.create("arcade", name="mine"),
            lambda: mine.assistants.update(made["assistant_id"], name="mine"),
            lambda: mine.assistants.delete(made["assistant_id"]),
            lambda: mine.store.put_item(["a"], "b", {}),
            lambda: mine.crons.create("arcade", schedule="0 0 1 1 *", input=POST),
        ]
        assert [await answer_of(each) for each in refused] == [403] * len(refused)


def test_the_image_of_langgraph_build_is_told_of_it(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "langgraph_cli", "dockerfile", str(tmp_path / "Dockerfile")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    served = variables_of(tmp_path / "Dockerfile")
    auth = json.loads(served["LANGGRAPH_AUTH"])
    assert (auth["path"].rpartition("/")[2], auth["disable_studio_auth"]) == ("auth.py:auth", True)
    assert json.loads(served["LANGGRAPH_HTTP"])["app"] == "tribunal.service.mounted:app"
    assert "**/.env" in (folder / ".dockerignore").read_text().splitlines()


async def test_what_is_wrong_with_the_database_is_for_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handler = runpy.run_path(str(PROJECT / "examples" / "project" / "auth.py"))["authenticate"]
    monkeypatch.setenv("TRIBUNAL_DATABASE", f"sqlite:///{tmp_path}")  # a folder
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await handler({b"x-api-key": b"tribunal_0123456789ab_of-nobody"})
    assert refused.value.status_code == 503
    assert str(tmp_path) not in str(refused.value)


def test_the_other_checks_of_the_server_still_answer(deployment: Deployment) -> None:
    """A misspelt setting is refused by our `http.app`, and our own routes check the same keys themselves."""
    key = {"X-API-Key": deployment.keys["shop"]}
    misspelt = deployment.post(
        "/runs/wait", key, assistant_id="arcade", input=POST, context={"rouns": 1}
    )
    assert (misspelt.status_code, "did you mean rounds" in misspelt.text) == (422, True)
    assert deployment.post("/v1/judge", {}, **POST).status_code == 401
    judged = deployment.post("/v1/judge?wait=60", key, graph="arcade", **POST)
    assert judged.json()["outcome"] == "verdict"
