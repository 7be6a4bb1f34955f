"""Label Studio itself takes the tasks, shows three people the interface, and exports what they chose.

`pip install label-studio` into an environment of its own; TRIBUNAL_LABEL_STUDIO names its program, or it is found as
`label-studio`. Without it this test skips. It runs on the loopback with SQLite, tells nobody anything, and reaches no
network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.annotated import CASES, chosen, exported
from tests.dev_server import free_port
from tests.eval.annotation.test_annotate import kept, made, run, taken_in

PROGRAM = os.environ.get("TRIBUNAL_LABEL_STUDIO") or shutil.which("label-studio")
OWNER, PASSWORD = "one@example.org", "not-a-secret"

pytestmark = [
    pytest.mark.skipif(
        PROGRAM is None, reason="there is no Label Studio here; name one with TRIBUNAL_LABEL_STUDIO"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[str]:
    """A Label Studio of its own, whose local files are those of the annotation; gives its address."""
    home, port = tmp_path / "studio", free_port()
    home.mkdir()
    quiet = {
        "COLLECT_ANALYTICS": "False",
        "LATEST_VERSION_CHECK": "False",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    nowhere = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
    )
    files = {
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(tmp_path / "annotation"),
    }
    environment = {
        **os.environ,
        **quiet,
        **nowhere,
        **files,
        "HOME": str(home),
        "LABEL_STUDIO_BASE_DATA_DIR": str(home),
    }
    command = [
        str(PROGRAM), "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port), "--username", OWNER,
        "--password", PASSWORD, "--enable-legacy-api-token",
    ]  # fmt: skip
    with (home / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url, until = f"http://127.0.0.1:{port}", time.monotonic() + 300
            while True:
                assert process.poll() is None, (home / "log.txt").read_text("utf-8")
                assert time.monotonic() < until, (home / "log.txt").read_text("utf-8")
                try:
                    if httpx.get(f"{url}/health", timeout=5).is_success:
                        break
                except httpx.HTTPError:
                    time.sleep(0.5)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def person(url: str, address: str) -> httpx.Client:
    """Somebody who has signed up, or is there already; a client that speaks for them."""
    path = "login" if address == OWNER else "signup"
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        mark = re.search(
            r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get(f"/user/{path}/").text
        )
        assert mark is not None
        browser.post(
            f"/user/{path}/",
            data={"csrfmiddlewaretoken": mark[1], "email": address, "password": PASSWORD},
        )
        token = browser.get("/api/current-user/token").json()["token"]
    return httpx.Client(base_url=url, headers={"Authorization": f"Token {token}"}, timeout=60)


def project(owner: httpx.Client, folder: Path) -> dict[str, int]:
    """A project of an exported folder; gives the number of each post's task."""
    config = (folder / "label_config.xml").read_text("utf-8")
    made_of = {
        "title": folder.name,
        "label_config": config,
        "maximum_annotations": 3,
        "show_collab_predictions": True,
    }
    answer = owner.post("/api/projects", json=made_of)
    assert answer.status_code == 201, answer.text
    number = answer.json()["id"]
    tasks = json.loads((folder / "tasks.json").read_text("utf-8"))
    answer = owner.post(f"/api/projects/{number}/import", json=tasks)
    assert answer.status_code == 201, answer.text
    said = answer.json()
    assert said["task_count"] == len(tasks)
    listed = owner.get(f"/api/tasks?project={number}&fields=all&page_size=100").json()["tasks"]
    return {"project": number, **{task["data"]["post_id"]: task["id"] for task in listed}}


def label(who: httpx.Client, task: int, name: str, annotator: int) -> None:
    answer = who.post(
        f"/api/tasks/{task}/annotations/",
        json={"result": chosen(name, annotator), "lead_time": 3.2},
    )
    assert answer.status_code == 201, answer.text


def export(owner: httpx.Client, number: int, form: str) -> list[dict[str, Any]]:
    answer = owner.get(f"/api/projects/{number}/export", params={"exportType": form})
    assert answer.status_code == 200, answer.text
    tasks: list[dict[str, Any]] = answer.json()
    return tasks


@pytest.fixture
def annotation(tmp_path: Path) -> list[dict[str, Any]]:
    return made(tmp_path)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_both_stages(
    tmp_path: Path, annotation: list[dict[str, Any]], studio: str, clients: ExitStack
) -> None:
    folder = tmp_path / "annotation"
    addresses = (OWNER, "two@example.org", "three@example.org", "four@example.org")
    people = [clients.enter_context(person(studio, address)) for address in addresses]
    owner = people[0]
    first = project(owner, folder)
    storage = {"project": first["project"], "path": str(folder / "images"), "use_blob_urls": False}
    assert owner.post("/api/storages/localfiles", json=storage).status_code == 201
    for task in annotation:
        if image := task["data"]["image"]:
            answer = owner.get(image)
            assert answer.status_code == 200, answer.text
            assert answer.content == (folder / "images" / image.rpartition("/")[2]).read_bytes()
    for name, case in CASES.items():
        for annotator in range(len(case.labels)):
            label(people[annotator], first[name], name, annotator)
    whole = export(owner, first["project"], "JSON")
    assert {task["data"]["post_id"]: task["data"]["text"] for task in whole} == {
        name: case.text for name, case in CASES.items()
    }
    one = kept(tmp_path, "whole.json", whole)
    said = taken_in(tmp_path, one)
    assert said == taken_in(
        tmp_path, kept(tmp_path, "min.json", export(owner, first["project"], "JSON_MIN"))
    )
    assert said == taken_in(tmp_path, kept(tmp_path, "ours.json", exported(annotation))), (
        "our tests' shape is theirs"
    )

    done = run("annotate", "again", one, "--tasks", folder, "--out", tmp_path / "second")
    assert done.exit_code == 0, done.output
    second = project(owner, tmp_path / "second")
    for name in ("d", "e", "i"):
        label(people[3], second[name], name, 3)
    two = kept(tmp_path, "second.json", export(owner, second["project"], "JSON"))
    said = taken_in(tmp_path, one, two, "--out", tmp_path / "set.csv")
    assert (said["lacking"], said["rows"]) == ({}, 7)
    assert said["patterns"] == {
        "000": 1,
        "001": 1,
        "010": 1,
        "100": 1,
        "101": 1,
        "110": 1,
        "none": 1,
    }
