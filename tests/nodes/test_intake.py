"""Bad input: each in one line with the way out, before any model is called."""

from __future__ import annotations

import base64
import io
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tests.doubles.web import Site, SitePage
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.settings.context import context_from


def png(size: tuple[int, int] = (20, 20)) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", size, "red").save(out, "PNG")
    return out.getvalue()


FILES = {
    "fake.png": b"this is no image",
    "cut.png": png((200, 200))[:200],
    "empty.png": b"",
    "big.png": b"\0" * (20 * 1024 * 1024 + 1),
    "cache.db": b"this is no database, and long enough to be seen to be none" * 20,
    "policy.toml": b"name = 'x'",
}
ONE_MODEL = "give provider:model, where provider is one of openai, google_genai"


@pytest.mark.parametrize(
    ("post", "settings", "says"),
    [
        ({"text": None}, {}, "text: there is neither a text nor an image; give one or both"),
        ({"text": " \n\t"}, {}, "neither a text nor an image"),
        ({"text": "", "image": ""}, {}, "neither a text nor an image"),
        ({"text": 7}, {}, "text: int: is not a text; give a string"),
        (
            {"text": "x" * 131_073},
            {},
            "131073 characters: over the 131072 that are taken; shorten it, or raise max_text",
        ),
        ({"text": "12345"}, {"max_text": 4}, "text: 5 characters: over the 4"),
        ({"image": ["a"]}, {}, "image: list: is not a reference; give a path or a data URI"),
        ({"image": "nowhere.png"}, {}, "image: nowhere.png: No such file or directory"),
        (
            {"image": "fake.png"},
            {},
            "image: fake.png: is not an image of a known format; give AVIF",
        ),
        ({"image": "cut.png"}, {}, "image: cut.png: can't be read whole"),
        ({"image": "empty.png"}, {}, "image: empty.png: is empty"),
        ({"image": "big.png"}, {}, "image: big.png: is over 20 MB"),
        ({"image": "http://127.0.0.1/a.png"}, {}, "download it and give the file"),
        ({"image": "data:image/png;base64,!!"}, {}, "its base64 is broken"),
        (
            {"image": "data:image/png;base64," + base64.b64encode(b"no image").decode()},
            {},
            "is not an image",
        ),
        ({"image": "half\udcff.png"}, {}, "can't be written as text; rename the file"),
        ({"post_id": 4}, {}, "post_id: int: is not a text"),
        ({"language": ["en"]}, {}, "language: list: is not a text"),
        ({}, {"graph": "nonsense"}, "nonsense"),
        ({}, {"model": "nonsense"}, f"model: 'nonsense': not a model; {ONE_MODEL}"),
        ({}, {"model": "acme:big"}, f"model: 'acme:big': not a model; {ONE_MODEL}"),
        ({}, {"model": "openai:"}, "model: 'openai:': not a model"),
        ({}, {"model": "openai:a,,openai:b"}, "model: '': not a model"),
        ({}, {"model": "rehearsal:big"}, "there is one rehearsal model"),
        ({}, {"judge_model": "acme:big"}, "judge_model: 'acme:big': not a model"),
        ({}, {"aux_model": "acme:big"}, "aux_model: 'acme:big': not a model"),
        ({}, {"seats": {"defender": "acme:big"}}, "seats.defender: 'acme:big': not a model"),
        (
            {},
            {"seats": {"bailiff": "openai:a"}},
            "there is no seat 'bailiff'; the seats are triage, gatekeeper, prosecutor",
        ),
        ({}, {"temperatures": {"bailiff": 0.1}}, "there is no seat 'bailiff'"),
        ({}, {"temperatures": {"judge": 3}}, "judge: 3.0 is not between 0 and 2"),
        ({}, {"scheme": "coarse"}, "scheme: 'coarse': Input should be 'fine' or 'binary'"),
        ({}, {"rounds": 0}, "rounds: 0: Input should be greater than or equal to 1"),
        ({}, {"rounds": 11}, "rounds: 11: Input should be less than or equal to 10"),
        ({}, {"round": 1}, "round: no such setting; did you mean rounds"),
        (
            {},
            {"policy": "nowhere.toml"},
            "policy: nowhere.toml: No such file or directory; give one of h-vli",
        ),
        ({}, {"policy": "policy.toml"}, "policy: policy.toml: definition: Field required"),
        ({}, {"cache": "cache.db"}, "cache: cache.db: can't be used: file is not a database"),
        ({}, {"cache": "fake.png/cache.db"}, "cache: fake.png/cache.db: can't be used"),
        (
            {},
            {"model": "anthropic:claude"},
            "model: anthropic:claude: no key; set ANTHROPIC_API_KEY in the environment",
        ),
        ({}, {"model": "google_genai:g"}, "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        (
            {},
            {"judge_model": "qwen:q"},
            "judge_model: qwen:q: no key; set DASHSCOPE_API_KEY or QWEN_API_KEY",
        ),
        ({}, {"seats": {"judge": "glm:g"}}, "seats.judge: glm:g: no key; set ZAI_API_KEY"),
        ({}, {"model": "openai:a,anthropic:b"}, "model: anthropic:b: no key"),
    ],
)
async def test_bad_input(
    post: dict[str, Any], settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    async with ScriptedServer(court_script()) as server:
        with pytest.raises(BadInput) as told:
            await _judge(server, post, settings)
    assert says in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    assert (server.requests, server.others) == ([], [])


async def _judge(server: ScriptedServer, post: dict[str, Any], settings: dict[str, Any]) -> None:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    graph = settings.pop("graph", "arcade")
    context = context_from({"model": "openai:scripted", **settings})
    given: dict[str, Any] = {"text": "a post", **post}
    await judge_post(
        given.pop("text"), given.pop("image", None), graph=graph, context=context, **given
    )


async def test_openai_itself_wants_a_key() -> None:
    with pytest.raises(
        BadInput, match="model: openai:gpt: no key; set OPENAI_API_KEY in the environment"
    ):
        await judge_post("a post", graph="arcade", context=context_from({"model": "openai:gpt"}))


async def test_a_cache_of_another_make(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE answers (question TEXT)")
    database.close()
    async with ScriptedServer(court_script()) as server:
        with pytest.raises(BadInput, match=r"cache: .*other\.db: can't be used: no such column"):
            await decide(server, cache=str(tmp_path / "other.db"))
    assert server.requests == []


async def test_the_same_post_has_the_same_id() -> None:
    async with ScriptedServer(court_script(implicit=False)) as server:
        first, second = await decide(server, "a post"), await decide(server, "a post")
        other = await decide(server, "another post")
    assert first.post_id == second.post_id
    assert first.post_id.startswith("post-")
    assert first.post_id != other.post_id


async def test_a_post_that_is_only_an_image(tmp_path: Path) -> None:
    (tmp_path / "post.png").write_bytes(png())
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, None, image="post.png")
        again = await decide(
            server, "", image="data:image/png;base64," + base64.b64encode(png()).decode()
        )
    assert record.outcome == again.outcome == "verdict"
    assert record.post_id == again.post_id
    assert "The post has no text." in server.requests[0].text
    assert "The post's image stands before this text." in server.requests[0].text
    assert [len(request.images) for request in server.requests] == [1, 1, 1, 1]
    assert "base64" not in again.model_dump_json()


async def test_a_model_that_no_seat_uses_is_not_said_to_have_taken_part() -> None:
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, model=None, aux_model="openai:a", judge_model="openai:b")
    assert record.warnings == ()
    assert [call.model for call in record.calls] == ["openai:a", "openai:a"]


async def test_an_image_url_that_is_not_allowed_is_not_fetched() -> None:
    async with (
        Site({"/a.png": SitePage(png(), "image/png")}) as site,
        ScriptedServer(court_script()) as server,
    ):
        with pytest.raises(BadInput, match=r"image: http.*port"):
            await decide(server, "hello", image=f"{site.url}/a.png")
        assert (site.log, server.requests) == ([], [])


async def test_an_image_url_is_fetched_checked_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"/a.png": SitePage(png(), "image/png"), "/b.png": SitePage("<p>no", "text/html")}
    async with Site(pages) as site, ScriptedServer(court_script(implicit=False)) as server:
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        record = await decide(server, "hello", image=f"{site.url}/a.png")
        assert record.outcome == "verdict"
        assert server.requests[0].images[0].startswith("data:image/jpeg;base64,")
        with pytest.raises(BadInput, match="content_type"):
            await decide(server, "hello", image=f"{site.url}/b.png")
