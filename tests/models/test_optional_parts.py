"""What a server refuses of a request, in words that nobody knows: optional part x how it is refused x provider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD, came_of, classify, png
from tests.models.test_providers import ANTHROPIC, GEMINI, OLLAMA, QWEN, Way
from tribunal.docket.session import judge_post
from tribunal.models.ladder import MOST_TRIES, learnt_of
from tribunal.settings.context import context_from

WAYS = {"gemini": GEMINI, "anthropic": ANTHROPIC, "ollama": OLLAMA, "openai": QWEN}
PARTS: dict[str, Callable[[Request], bool]] = {
    "schema": lambda request: request.format == "json_schema",
    "temperature": lambda request: request.temperature is not None,
    "system": lambda request: "system" in dict(request.messages),
    "image": lambda request: bool(request.images),
    "limit": lambda request: "max_tokens" in request.body,
    "limit by either name": lambda request: (
        "max_tokens" in request.body or "max_completion_tokens" in request.body
    ),
    "added": lambda request: "top_k" in request.body or "top_k" in request.body.get("options", {}),
}
HOW = {
    "400": Fault(400, "Invalid request"),
    "404": Fault(404, "Not here"),
    "413": Fault(413, "No"),
    "415": Fault(415, "No"),
    "422": Fault(422, "Unprocessable"),
    "500": Fault(500, "oops"),
    "page": Fault(400, raw=b"<html>Bad request</html>"),
}
NAMED = {
    "schema": Fault(400, "response_format produces a constraint that has too many states"),
    "temperature": Fault(400, "Unsupported value: 'temperature'"),
    "system": Fault(400, "Conversation roles must alternate user/assistant/user/assistant"),
    "image": Fault(404, "No endpoints found that support image input"),
    "limit": Fault(
        400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    ),
    "limit by either name": Fault(400, "Unknown fields: max_tokens, max_completion_tokens"),
    "added": Fault(400, "Unrecognized request argument supplied: top_k"),
}
LINE_UP = '[seats]\njudge = "{model}"\n[extra_body."*"]\ntop_k = 5\n'


def has_part(way: str, part: str) -> bool:
    if "limit" in part:
        return way == "openai"
    return part != "added" or way in ("openai", "ollama")


async def judge_twice(
    way: Way, part: str, fault: Fault, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> tuple[list[str], list[int], list[Request]]:
    def script(request: Request) -> Reply | Fault:
        return fault if PARTS[part](request) else court_script(classifier=GOOD)(request)

    settings = {"model": way.model, "timeout": 10}
    if part == "added":
        file = folder / "line-up.toml"
        file.write_text(LINE_UP.format(model=way.model))
        settings["line_up"] = str(file)
    image = str(png(folder)) if part == "image" else None
    async with ScriptedServer(script) as server:
        monkeypatch.setenv(way.address, f"{server.url}{way.root}")
        if way.key:
            monkeypatch.setenv(way.key, "sk-ant-zero-0123456789")
        records = [
            await judge_post("a post", image, graph="baseline", context=context_from(settings))
            for _ in "12"
        ]
    return (
        [record.outcome for record in records],
        [came_of(record)[2] for record in records],
        server.requests,
    )


CELLS = [
    pytest.param(way, part, how, id=f"{way}-{part}-{how}")
    for way in WAYS
    for part in PARTS
    if has_part(way, part)
    for how in (*HOW, "named")
    if (part, how)
    != ("limit by either name", "500")  # each bare 500 costs one of the four attempts
]


@pytest.mark.long
@pytest.mark.parametrize(("way", "part", "how"), CELLS)
async def test_a_part_that_is_refused_is_left_out_and_learnt(
    way: str, part: str, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fault = NAMED[part] if how == "named" else HOW[how]
    outcomes, attempts, requests = await judge_twice(WAYS[way], part, fault, monkeypatch, tmp_path)
    assert outcomes == ["verdict", "verdict"]
    is_confirmed = how == "500"  # once more in full, in case that it was an outage
    assert attempts[0] <= (3 if how == "named" else MOST_TRIES + is_confirmed)
    assert attempts[1] == 1
    assert not PARTS[part](requests[-1])


async def test_what_was_dropped_for_nothing_comes_back() -> None:
    def script(request: Request) -> Reply | Fault:
        return Fault(400, "Invalid request") if "system" in dict(request.messages) else Reply(GOOD)

    async with ScriptedServer(script) as server:
        records = []
        for _ in range(2):
            settings = {"model": "openai:scripted"}
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
                records.append(
                    await judge_post("a post", graph="baseline", context=context_from(settings))
                )
    assert [came_of(record)[2] for record in records] == [4, 1]
    assert server.requests[-1].temperature == 0.8


async def test_when_nothing_helps_the_first_message_is_shown_and_what_was_tried() -> None:
    told = iter(range(100))

    def script(request: Request) -> Fault:
        return Fault(400, f"complaint {next(told)}")

    record, _ = await classify(script)
    assert came_of(record) == ("failure", "request", MOST_TRIES)
    assert "complaint 0" in record.explanation
    assert "complaint 1" not in record.explanation
    for words in ("temperature", "system role", f"{MOST_TRIES} requests"):
        assert words in record.explanation


async def test_a_field_of_the_run_s_own_stays_and_is_said_to_stand_in_the_way() -> None:
    def script(request: Request) -> Reply | Fault:
        return Fault(400, "Unknown field: top_k") if "top_k" in request.body else Reply(GOOD)

    record, server = await classify(script, extra_body={"*": {"top_k": 5}})
    assert came_of(record) == ("failure", "request", 1)
    assert "extra_body: top_k" in record.explanation
    assert {request.body["top_k"] for request in server.requests} == {5}


async def test_a_server_that_has_answered_knows_its_parts() -> None:
    down = False

    def script(request: Request) -> Reply | Fault:
        return Fault(400, "Invalid request") if down else Reply(GOOD)

    async with ScriptedServer(script) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            context = context_from({"model": "openai:scripted"})
            await judge_post("a post", graph="baseline", context=context)
            down = True
            record = await judge_post("a post", graph="baseline", context=context)
            assert learnt_of("openai:scripted", f"{server.url}/v1").lessons == {}
    assert came_of(record) == ("failure", "request", 1)
