"""What a client of the real `langgraph dev` server may set and send, and what its operator's files are safe from."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import socket
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests import PROJECT
from tests.security.dangerous import assert_refused, dangerous

POST = {"text": "Good morning, everybody."}
GRAPHS = list(json.loads((PROJECT / "langgraph.json").read_text())["graphs"])
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def together(asked: Iterable[Coroutine[Any, Any, str]]) -> list[str]:
    """The answers of requests of which sixteen are under way at once."""
    room = asyncio.Semaphore(16)

    async def one(request: Coroutine[Any, Any, str]) -> str:
        async with room:
            return await request

    return await asyncio.gather(*map(one, asked))


async def refusal(
    client: Any, graph: str, context: dict[str, Any], image: str | None = None
) -> str:
    """What a run ends with that is not answered."""
    post = {**POST, "image": image}
    try:
        done = await client.runs.wait(None, graph, input=post, context=context, raise_error=False)
    except httpx.HTTPStatusError as refused:  # the server didn't begin a run
        return str(refused.response.json()["detail"])
    assert "__error__" in done, (graph, context, image)
    return str(done["__error__"]["message"])


async def test_no_graph_takes_a_dangerous_setting_from_a_client(
    client: Any, operator: Path
) -> None:
    asked = [(graph, context, value) for graph in GRAPHS for context, value in dangerous(operator)]
    answers = await together(refusal(client, graph, context) for graph, context, _ in asked)
    for (_, context, value), said in zip(asked, answers, strict=True):
        assert_refused(said, context, value)
    assert not (operator / "out.sqlite").exists()


async def test_what_the_operator_allows_is_taken(client: Any, operator: Path) -> None:
    cache = operator / "open" / "answers.sqlite"
    Image.effect_noise((32, 32), 90).save(operator / "open" / "post.png")
    context = {"cache": str(cache), "rounds": 1, "judge_model": "rehearsal"}
    posted = {**POST, "image": str(operator / "open" / "post.png")}
    done = await client.runs.wait(None, "arcade", input=posted, context=context)
    assert done["outcome"]["outcome"] == "verdict"
    assert cache.exists()


async def test_an_image_s_path_tells_nothing_of_what_lies_there(
    client: Any, operator: Path
) -> None:
    paths = (
        "/etc/passwd",
        "/etc/no-such-file",
        "/etc",
        "/dev/tty",
        "/proc/self/environ",
        f"{operator}/open/../log",
    )
    answers = await together(refusal(client, "arcade", {}, path) for path in paths)
    [line] = {said.replace(path, "PATH") for path, said in zip(paths, answers, strict=True)}
    assert "'PATH': a client of this server may not name a file on it" in line
    assert "TRIBUNAL_ALLOW=image=/folder/*" in line


async def test_a_kept_image_s_path_tells_nothing_either(client: Any, operator: Path) -> None:
    unknown = f"{operator}/data/images/{'0' * 64}.png"
    assert "may not name a file on it" in await refusal(client, "arcade", {}, unknown)


def special(folder: Path) -> Iterator[Path]:
    """Everything of a file system that is no regular file, by names that the operator allows."""
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    yield folder / "pipe"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    yield folder / "socket"
    (folder / "folder").mkdir()
    yield folder / "folder"
    for number, place in enumerate(
        ("/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/environ", os.ttyname(pty.openpty()[1]))
    ):
        (folder / f"link-{number}").symlink_to(place)
        yield folder / f"link-{number}"


async def test_what_is_no_regular_file_is_refused_at_once_and_the_server_goes_on(
    client: Any, operator: Path
) -> None:
    files = list(special(operator / "open" / "special"))
    images = await together(
        refusal(client, "baseline", {}, str(file)) for file in files for _ in range(12)
    )
    assert all(said.startswith("image: ") for said in images)
    settings = ("policy", "prompts", "line_up", "threshold_file", "cache", "perspectives")
    held = [(name, file) for name in settings for file in files if file.name != "folder"]
    graph = {"perspectives": "predict"}
    asked = [
        ({name: [str(file)] if name == "perspectives" else str(file)}, name) for name, file in held
    ]
    for said in await together(
        refusal(client, graph.get(name, "arcade"), each) for each, name in asked
    ):
        assert "may not set this" not in said
    archive = [{"archive": str(file), "search": "none"} for file in files]
    await together(refusal(client, "antihate", each) for each in archive)
    done = await client.runs.wait(None, "arcade", input=POST)
    assert done["outcome"]["outcome"] == "verdict"


async def test_another_part_of_a_run_can_t_be_given_what_its_beginning_could_not(
    client: Any, operator: Path
) -> None:
    thread = (await client.threads.create())["thread_id"]
    hostile = {"text": "Immigrants: the weeds in our garden."}
    await client.runs.wait(thread, "arcade", input=hostile, interrupt_before=["judge"])
    context = {"cache": str(operator / "late.sqlite")}
    run = await client.runs.create(thread, "arcade", input=None, context=context)
    await client.runs.join(thread, run["run_id"])
    assert "a client of this server may not set this" in str(await client.threads.get(thread))
    assert not (operator / "late.sqlite").exists()
    values = (await client.threads.get_state(thread))["values"]
    post, settings = (
        values["post"],
        {**values["context"]["settings"], "judge_model": "ollama:gemma3:4b"},
    )
    image = {"ref": "/etc/passwd", "sha256": "0" * 64, "mime": "image/png", "width": 1, "height": 1}
    seen_by_a_model = {
        "post": {**post, "image": image},
        "context": {**values["context"], "settings": settings},
    }
    await client.threads.update_state(thread, seen_by_a_model)
    run = await client.runs.create(thread, "arcade", input=None)
    await client.runs.join(thread, run["run_id"])
    assert "may not name a file on it" in str(await client.threads.get(thread))


async def test_settings_in_configurable_are_refused(client: Any) -> None:
    given: Any = {"configurable": {"rounds": 2}}
    for graph in GRAPHS:
        with pytest.raises(
            httpx.HTTPStatusError, match=r'rounds: 2: .*context=\{\\"rounds\\": 2\}'
        ):
            await client.runs.wait(None, graph, input=POST, config=given)
    with pytest.raises(httpx.HTTPStatusError, match="rounds: 2: "):
        await client.assistants.create("arcade", config=given)
    theirs: Any = {"configurable": {"thread_label": "theirs"}}
    done = await client.runs.wait(None, "arcade", input=POST, config=theirs)
    assert done["outcome"]["outcome"] == "verdict"
