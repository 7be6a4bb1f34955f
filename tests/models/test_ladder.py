"""What a server refuses of a request's make-up: response formats, temperatures, images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.court import court_script, decide
from tests.models.classified import GOOD, came_of, png
from tribunal.eval.doubles.scripted import Fault, Reply, Request, ScriptedServer

# The ladder

NO_SCHEMA = Fault(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model")


def picky(takes: str, refusal: Fault, *, times: int | None = None) -> Callable[[Request], Reply | Fault]:
    """A server that answers only requests of this format."""
    refused = 0

    def script(request: Request) -> Reply | Fault:
        nonlocal refused
        if request.format != takes and (times is None or refused < times):
            refused += 1
            return refusal
        return court_script(classifier=GOOD)(request)

    return script


@pytest.mark.parametrize(
    ("takes", "rung", "attempts"), [("json_object", "json_object", 2), ("", "prompt", 3)], ids=["json mode", "words"]
)
@pytest.mark.parametrize(
    "refusal",
    [NO_SCHEMA, Fault(400, "bad request"), Fault(422, "unprocessable"), Fault(500, "Failed to parse grammar"),
     Fault(500, "JSON schema conversion failed")],
    ids=["400", "400 untold", "422", "500 grammar", "500 schema"],
)  # fmt: skip
async def test_down_the_ladder_and_it_is_remembered(takes: str, rung: str, attempts: int, refusal: Fault) -> None:
    async with ScriptedServer(picky(takes, refusal)) as server:
        first = await decide(server, graph="baseline")
        second = await decide(server, graph="baseline")
    assert came_of(first) == ("verdict", None, attempts)
    assert came_of(second) == ("verdict", None, 1)
    assert first.calls[0].format == second.calls[0].format == rung
    last = server.requests[-1]
    assert "The form of your answer, as a JSON schema:" in last.text
    assert '"OtherHate"' in last.text
    assert "as a JSON schema" not in server.seen(0)


async def test_bare_500s_step_down_and_are_believed_the_third_time() -> None:
    async with ScriptedServer(picky("json_object", Fault(500, "oops"))) as server:
        records = [await decide(server, graph="baseline") for _ in range(4)]
    assert [came_of(record) for record in records] == [("verdict", None, 3)] * 3 + [("verdict", None, 1)]


async def test_an_outage_is_not_taken_for_a_refused_format() -> None:
    async with ScriptedServer(picky("never", Fault(500, "oops"), times=3)) as server:
        first = await decide(server, graph="baseline", attempts=3)
        second = await decide(server, graph="baseline", attempts=3)
    assert came_of(first) == ("failure", "server", 3)
    assert came_of(second) == ("verdict", None, 1)
    assert second.calls[0].format == "json_schema"


async def test_a_temperature_that_is_refused_is_left_out_and_remembered() -> None:
    def script(request: Request) -> Reply | Fault:
        if request.temperature is not None:
            return Fault(400, "Unsupported value: 'temperature' does not support 0.8 with this model.")
        return Reply(GOOD)

    async with ScriptedServer(script) as server:
        first = await decide(server, graph="baseline")
        second = await decide(server, graph="baseline")
    assert [came_of(first), came_of(second)] == [("verdict", None, 2), ("verdict", None, 1)]
    assert [request.temperature for request in server.requests] == [0.8, None, None]
    assert (second.calls[0].temperature, second.calls[0].wanted_temperature) == (None, 0.8)
    assert {request.format for request in server.requests} == {"json_schema"}


async def test_a_server_that_refuses_everything_it_can() -> None:
    def script(request: Request) -> Reply | Fault:
        if request.images:
            return Fault(400, "unknown variant `image_url`, expected `text`")
        if request.temperature is not None:
            return Fault(400, "temperature is not supported")
        return Reply(GOOD) if not request.format else Fault(400, "response_format is not supported")

    async with ScriptedServer(script) as server:
        record = await decide(server, graph="baseline", image=str(png(Path())), attempts=1)
    assert came_of(record) == ("verdict", None, 5)


# Images


def no_images(request: Request) -> Reply | Fault:
    if request.images:
        return Fault(400, "Invalid content type. image_url is only supported by certain models.")
    return court_script()(request)


async def test_a_model_that_refuses_images_is_told_and_so_is_the_user(tmp_path: Path) -> None:
    async with ScriptedServer(no_images) as server:
        first = await decide(server, graph="baseline", image=str(png(tmp_path)))
        second = await decide(server, graph="baseline", image=str(png(tmp_path)))
    assert [came_of(first), came_of(second)] == [("verdict", None, 2), ("verdict", None, 1)]
    assert "The post has an image. You can't see it" in server.seen(1)
    assert "stands before this text" not in server.seen(1)
    for record in (first, second):
        assert record.warnings == ("classifier: openai:scripted can't see the image and judged the text alone",)


async def test_an_image_that_nobody_can_see_and_no_text(tmp_path: Path) -> None:
    async with ScriptedServer(no_images) as server:
        record = await decide(server, None, graph="baseline", image=str(png(tmp_path)))
    assert came_of(record) == ("failure", "blind", 1)
    assert "can't see images, and the post has no text" in record.explanation


async def test_a_text_only_model_by_its_published_profile(tmp_path: Path) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, graph="baseline", model="openai:gpt-3.5-turbo", image=str(png(tmp_path)))
    assert [len(request.images) for request in server.requests] == [0]
    assert "You can't see it" in server.seen(0)
    assert record.outcome == "verdict"
    assert len(record.warnings) == 1


async def test_one_odd_image_does_not_make_a_model_blind(tmp_path: Path) -> None:
    odd = ""

    def script(request: Request) -> Reply | Fault:
        return Fault(400, odd) if odd else Reply(GOOD)

    async with ScriptedServer(script) as server:
        for words in ("Could not process image", "something about the image"):
            odd = ""
            first = await decide(server, graph="baseline", image=str(png(tmp_path)))
            odd = words
            second = await decide(server, graph="baseline", image=str(png(tmp_path, "blue")))
            assert (first.outcome, second.outcome) == ("verdict", "failure")
            assert came_of(second)[1] == "request"
        odd = ""
        last = await decide(server, graph="baseline", image=str(png(tmp_path)))
    assert last.warnings == ()
    assert len(server.requests[-1].images) == 1


LLAMA_CPP = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(500, LLAMA_CPP),
        Fault(500, "scripted is not a multimodal model"),
        Fault(400, "scripted is not a multimodal model"),
        Fault(500, "this model is missing data required for image input"),
        Fault(501, "The model doesn't support vision"),
    ],
    ids=["llama.cpp", "vllm 500", "vllm 400", "ollama", "501"],
)
async def test_a_text_only_model_on_a_server_of_one_s_own(refusal: Fault, tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        return refusal if request.images else court_script()(request)

    async with ScriptedServer(script) as server:
        first = await decide(server, graph="baseline", image=str(png(tmp_path)), attempts=1)
        second = await decide(server, graph="baseline", image=str(png(tmp_path)), attempts=1)
    assert [came_of(first), came_of(second)] == [("verdict", None, 2), ("verdict", None, 1)]
    assert {request.format for request in server.requests} == {"json_schema"}
    assert second.warnings == ("classifier: openai:scripted can't see the image and judged the text alone",)


# Standing instructions


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(400, "System role not supported"),
        Fault(500, "Jinja Exception: Only user and assistant roles are supported!"),
        Fault(400, "Developer instruction is not enabled for models/gemma-3-4b-it"),
    ],
    ids=["vllm", "llama.cpp", "gemini"],
)
async def test_a_template_without_a_place_for_standing_instructions(refusal: Fault, tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        return refusal if "system" in dict(request.messages) else Reply(GOOD)

    async with ScriptedServer(script) as server:
        first = await decide(server, graph="baseline", image=str(png(tmp_path)))
        second = await decide(server, graph="baseline")
    assert [came_of(first), came_of(second)] == [("verdict", None, 2), ("verdict", None, 1)]
    (_, system), (_, user) = server.requests[0].messages
    assert server.requests[1].messages == [("user", f"{system}\n\n{user}")]
    assert len(server.requests[1].images) == 1
    assert [role for role, _ in server.requests[2].messages] == ["user"]
    assert first.calls[0].format == "json_schema"
