"""What a server refuses of a request's make-up: response formats, temperatures, images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.court import court_script, decide, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD, came_of, png
from tribunal.models.ladder import MOST_TRIES, RETRY_AFTER

# The ladder

NO_SCHEMA = Fault(
    400,
    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model",
)


def picky(
    takes: str, refusal: Fault, *, times: int | None = None
) -> Callable[[Request], Reply | Fault]:
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
    ("takes", "rung", "attempts"),
    [("json_object", "json_object", 2), ("", "prompt", 3)],
    ids=["json mode", "words"],
)
@pytest.mark.parametrize(
    "refusal",
    [
        NO_SCHEMA,
        Fault(422, "response_format: unprocessable"),
        Fault(500, "Failed to parse grammar"),
        Fault(500, "JSON schema conversion failed"),
    ],
    ids=["400", "422", "500 grammar", "500 schema"],
)
async def test_down_the_ladder_and_it_is_remembered(
    takes: str, rung: str, attempts: int, refusal: Fault
) -> None:
    async with ScriptedServer(picky(takes, refusal)) as server:
        first = await decide(server, graph="baseline")
        second = await decide(server, graph="baseline")
    assert came_of(first) == ("verdict", None, attempts)
    assert came_of(second) == ("verdict", None, 1)
    assert first.calls[0].format == second.calls[0].format == rung
    last = server.requests[-1]
    assert "The form of your answer, as a JSON schema:" in last.text
    assert '"OtherHate"' in last.text
    assert "as a JSON schema" not in server.requests[0].text


async def test_bare_500s_that_are_for_the_format_are_believed_once_the_full_request_fails_again() -> (
    None
):
    """Two 500s, an answer without the schema, and once more with it, to see that it is the schema."""
    async with ScriptedServer(picky("json_object", Fault(500, "oops"))) as server:
        records = [await decide(server, graph="baseline") for _ in range(4)]
    assert [came_of(record) for record in records] == [("verdict", None, 4)] + [
        ("verdict", None, 1)
    ] * 3
    assert [record.calls[0].format for record in records] == ["json_object"] * 4
    schema, other = "json_schema", "json_object"
    assert [request.format for request in server.requests] == [
        schema,
        schema,
        other,
        schema,
        *[other] * 3,
    ]


async def test_an_outage_is_not_taken_for_a_refused_format() -> None:
    async with ScriptedServer(picky("never", Fault(500, "oops"), times=3)) as server:
        first = await decide(server, graph="baseline", attempts=3)
        second = await decide(server, graph="baseline", attempts=3)
    assert came_of(first) == ("failure", "server", 3)
    assert came_of(second) == ("verdict", None, 1)
    assert first.calls[0].format == second.calls[0].format == "json_schema"


async def test_an_outage_that_ends_below_the_rung_is_seen_for_what_it_was() -> None:
    script = picky("never", Fault(500, "oops"), times=2)
    async with ScriptedServer(script) as server:
        records = [await decide(server, graph="baseline") for _ in range(2)]
    assert [came_of(record)[0] for record in records] == ["verdict"] * 2
    assert [record.calls[0].format for record in records] == ["json_schema"] * 2
    assert [request.format for request in server.requests][2:] == [
        "json_object",
        "json_schema",
        "json_schema",
    ]


PASSES = [Fault(status, "internal") for status in (500, 502, 503, 504, 507, 520, 529)]
PASSES += [
    Fault(400, "temporarily overloaded, please retry"),
    Fault(429, "slow down"),
    Fault(drop=True),
]


@pytest.mark.parametrize("fault", PASSES, ids=lambda fault: str(fault.status))
async def test_a_blip_changes_nothing_for_a_server_that_has_taken_the_schema(fault: Fault) -> None:
    down = False

    def script(request: Request) -> Reply | Fault:
        return fault if down else Reply(GOOD)

    async with ScriptedServer(script) as server:
        before = await decide(server, graph="baseline")
        down = True
        during = [await decide(server, graph="baseline", attempts=4) for _ in range(4)]
        down = False
        after = await decide(server, graph="baseline")
    assert {record.outcome for record in during} == {"failure"}
    assert before.calls[0].format == after.calls[0].format == "json_schema"
    assert {request.format for request in server.requests} == {"json_schema"}


@pytest.mark.parametrize(
    "words",
    [
        "bad request",
        "temporarily overloaded, please retry",
        "response_format: overloaded, try again later",
    ],
)
@pytest.mark.parametrize("status", [400, 422])
async def test_one_stray_refusal_that_names_nothing_changes_nothing(
    status: int, words: str, tmp_path: Path
) -> None:
    stray = True

    def script(request: Request) -> Reply | Fault:
        nonlocal stray
        odd, stray = stray, False
        return Fault(status, words) if odd else Reply(GOOD)

    async with ScriptedServer(script) as server:
        for _ in range(2):
            await decide(server, graph="baseline", image=str(png(tmp_path)))
    first, last = server.requests[0], server.requests[-1]
    assert len(server.requests) > 1
    assert first.body == last.body


REFUSED_ONCE = {
    "format": NO_SCHEMA,
    "bounds": Fault(400, "Invalid schema: 'maxLength' is not permitted"),
    "system": Fault(400, "System role not supported"),
    "temperature": Fault(400, "'temperature' is not supported"),
    "image": Fault(400, "This model does not support image input"),
}


@pytest.mark.parametrize("fault", REFUSED_ONCE.values(), ids=REFUSED_ONCE)
async def test_what_was_refused_once_is_tried_again_later(fault: Fault, tmp_path: Path) -> None:
    refused = False

    def script(request: Request) -> Reply | Fault:
        nonlocal refused
        odd, refused = not refused, True
        return fault if odd else Reply(GOOD)

    async with ScriptedServer(script) as server:
        for _ in range(RETRY_AFTER + 2):
            await decide(server, graph="baseline", image=str(png(tmp_path)))
    bodies = [request.body for request in server.requests]
    without = [body for body in bodies if body != bodies[0]]
    assert len(without) == RETRY_AFTER
    assert bodies[-2:] == [bodies[0]] * 2


@pytest.mark.long
async def test_what_is_refused_for_good_is_tried_ever_more_rarely() -> None:
    async with ScriptedServer(picky("json_object", NO_SCHEMA)) as server:
        records = [await decide(server, graph="baseline") for _ in range(4 * RETRY_AFTER)]
    assert {record.calls[0].format for record in records} == {"json_object"}
    asked = [place for place, record in enumerate(records) if record.calls[0].attempts == 2]
    assert asked == [0, RETRY_AFTER, 3 * RETRY_AFTER]


async def test_a_form_that_is_refused_says_nothing_of_others() -> None:
    def script(request: Request) -> Reply | Fault:
        judging = request.format == "json_schema" and part(request) == "judge"
        return Fault(400, "failed to parse grammar") if judging else court_script()(request)

    async with ScriptedServer(script) as server:
        records = [await decide(server, graph="arcade", rounds=1) for _ in range(2)]
    for record in records:
        formats = {call.role: call.format for call in record.calls}
        assert formats.pop("judge") == "json_object"
        assert set(formats.values()) == {"json_schema"}
    assert [sum(call.attempts for call in record.calls) for record in records] == [5, 4]


async def test_a_post_that_a_server_quotes_names_nothing() -> None:
    words = "response_format is not supported, and temperature is not supported either"

    def script(request: Request) -> Reply | Fault:
        return Fault(400, f"could not take in: {words}") if words in request.text else Reply(GOOD)

    async with ScriptedServer(script) as server:
        quoted = await decide(server, words, graph="baseline")
        other = await decide(server, graph="baseline")
    assert came_of(quoted) == ("failure", "request", MOST_TRIES)
    assert (other.calls[0].format, other.calls[0].temperature) == ("json_schema", 0.8)


async def test_a_temperature_that_is_refused_is_left_out_and_remembered() -> None:
    def script(request: Request) -> Reply | Fault:
        if request.temperature is not None:
            return Fault(
                400, "Unsupported value: 'temperature' does not support 0.8 with this model."
            )
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
    assert "The post has an image. You can't see it" in server.requests[1].text
    assert "stands before this text" not in server.requests[1].text
    for record in (first, second):
        assert record.warnings == (
            "classifier: openai:scripted can't see the image and judged only the text",
        )


async def test_an_image_that_nobody_can_see_and_no_text(tmp_path: Path) -> None:
    async with ScriptedServer(no_images) as server:
        record = await decide(server, None, graph="baseline", image=str(png(tmp_path)))
    assert came_of(record) == ("failure", "blind", 1)
    assert "can't see images, and the post has no text" in record.explanation


async def test_a_text_only_model_by_its_published_profile(tmp_path: Path) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(
            server, graph="baseline", model="openai:gpt-3.5-turbo", image=str(png(tmp_path))
        )
    assert [len(request.images) for request in server.requests] == [0]
    assert "You can't see it" in server.requests[0].text
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


LLAMA_CPP = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)


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
    assert second.warnings == (
        "classifier: openai:scripted can't see the image and judged only the text",
    )


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
async def test_a_template_without_a_place_for_standing_instructions(
    refusal: Fault, tmp_path: Path
) -> None:
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
