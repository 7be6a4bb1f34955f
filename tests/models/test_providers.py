"""Every provider through the same door: its address, its key, its words for form and limit, its faults and refusals."""

from __future__ import annotations

import base64
import io
import logging
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image as Pillow

from tests.court import court_script, part
from tests.doubles import Fault, Reply, ScriptedServer
from tests.models.classified import CUT, GOOD, came_of
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.models.providers import Endpoint, ModelName
from tribunal.models.registry import PROVIDERS, model_names
from tribunal.schema import Record
from tribunal.settings.context import context_from

PROSE = "It is certainly sexist."


class Way(NamedTuple):
    """How a provider is reached."""

    model: str
    protocol: str
    path: str
    address: str
    root: str
    key: str | None
    header: str
    before: str = ""


GEMINI = Way("google_genai:gemini-2.5-flash", "gemini", "/v1beta/models/gemini-2.5-flash:generateContent",
             "GOOGLE_GEMINI_BASE_URL", "", "GOOGLE_API_KEY", "x-goog-api-key")  # fmt: skip
ANTHROPIC = Way("anthropic:claude-haiku-4-5", "anthropic", "/v1/messages", "ANTHROPIC_BASE_URL", "",
                "ANTHROPIC_API_KEY", "authorization", "Bearer ")  # fmt: skip
OLLAMA = Way("ollama:llama3.2-vision", "ollama", "/api/chat", "OLLAMA_HOST", "", None, "")
QWEN = Way("qwen:qwen3-vl-plus", "openai", "/v1/chat/completions", "DASHSCOPE_BASE_URL", "/v1",
           "DASHSCOPE_API_KEY", "authorization", "Bearer ")  # fmt: skip
GLM = Way("glm:glm-4.6v", "openai", "/v1/chat/completions", "GLM_BASE_URL", "/v1", "ZAI_API_KEY", "authorization",
          "Bearer ")  # fmt: skip
WAYS = [GEMINI, ANTHROPIC, OLLAMA, QWEN, GLM]
KEY = "sk-ant-zero-0123456789"


@pytest.fixture
def png(tmp_path: Path) -> str:
    file = tmp_path / "post.png"
    Pillow.new("RGB", (40, 30), "red").save(file)
    return str(file)


async def judged(
    way: Way,
    answers: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    graph: str = "baseline",
    **settings: Any,
) -> tuple[Record, ScriptedServer]:
    """A post through a graph on this provider's scripted endpoint."""
    image = settings.pop("image", None)
    script = answers if callable(answers) else court_script(classifier=answers)
    async with ScriptedServer(script) as server:
        monkeypatch.setenv(way.address, f"{server.url}{way.root}")
        if way.key:
            monkeypatch.setenv(way.key, KEY)
        context = context_from({"model": way.model, "attempts": 2, "timeout": 10, **settings})
        return await judge_post("a post", image, graph=graph, context=context), server


by_way = pytest.mark.parametrize("way", WAYS, ids=[way.model.partition(":")[0] for way in WAYS])


@by_way
async def test_a_call_as_it_goes_over_the_wire(
    way: Way, monkeypatch: pytest.MonkeyPatch, png: str
) -> None:
    answer = Reply(GOOD, prompt_tokens=11, completion_tokens=7)
    record, server = await judged(way, answer, monkeypatch, image=png, max_output_tokens=333)
    assert came_of(record) == ("verdict", None, 1)
    request = server.requests[0]
    assert (request.protocol, request.path) == (way.protocol, way.path)
    assert request.model == way.model.partition(":")[2]
    assert request.headers["accept-encoding"] == "gzip, deflate"  # all that we unpack
    if way.key:
        assert request.headers[way.header] == way.before + KEY
    assert (request.temperature, request.max_tokens, request.format) == (0.8, 333, "json_schema")
    assert request.schema is not None
    assert request.schema["properties"]["category"]["enum"][0] == "NotHate"
    assert request.schema["required"] == ["category", "explanation"]
    assert [role for role, _ in request.messages] == ["system", "user"]
    assert "Protected groups" in request.messages[0][1]
    assert "a post" in request.messages[1][1]
    seen = Pillow.open(io.BytesIO(base64.b64decode(request.images[0].partition(",")[2])))
    assert (len(request.images), seen.size, seen.format) == (1, (40, 30), "JPEG")
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (11, 7)
    assert record.calls[0].key == (0 if way.key else None)
    assert record.warnings == ()


@by_way
async def test_a_whole_debate(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    record, server = await judged(way, court_script(), monkeypatch, graph="arcade", rounds=2)
    assert [part(request) for request in server.requests] == [
        "gatekeeper", "investigation", "defence", "prosecution", "defence", "judge",
    ]  # fmt: skip
    assert [request.temperature for request in server.requests] == [0.0, 0.8, 0.8, 0.8, 0.8, 0.1]
    assert "prosecution-2" in server.requests[4].text
    assert record.category == "Religious"


FAULTS: list[tuple[str, Any, str, int]] = [
    ("401", Fault(401, "bad key"), "authentication", 1),
    ("403", Fault(403, "forbidden"), "authentication", 1),
    ("429", Fault(429, "slow down"), "rate_limit", 2),
    ("500", Fault(500, "internal"), "server", 2),
    ("503", Fault(503, "overloaded"), "server", 2),
    ("504", Fault(504, "deadline exceeded"), "server", 2),
    ("529", Fault(529, "overloaded"), "server", 2),
    ("a page", Fault(502, raw=b"<html>Bad gateway</html>"), "server", 2),
    ("hangs", Fault(hang=True), "timeout", 2),
    ("drops", Fault(drop=True), "connection", 2),
    ("drops midway", Fault(drop="middle"), "connection", 2),
    ("404", Fault(404, "no such model"), "request", 1),
    ("prose", Reply(PROSE), "bad_output", 2),
    ("empty", Reply(""), "bad_output", 2),
    ("cut off", Reply(CUT, "length"), "bad_output", 2),
    ("broken off", Reply(CUT), "bad_output", 2),
    ("out of range", Reply({"category": 9, "explanation": "x"}), "bad_output", 2),
]


# Gemini's client is asked everything; of the others, what goes through code of their own.
SHORTER = ("401", "429", "500", "hangs", "drops midway", "prose", "cut off")
MATRIX = [
    pytest.param(way, *case[1:], id=f"{way.model.partition(':')[0]}-{case[0]}")
    for way in WAYS
    for case in FAULTS
    if way is GEMINI or case[0] in SHORTER[: 1 if way.protocol == "openai" else None]
]


@pytest.mark.parametrize(("way", "answer", "kind", "attempts"), MATRIX)
async def test_a_fault_is_a_failure_of_its_kind(
    way: Way, answer: Any, kind: str, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = isinstance(answer, Fault) and answer.hang
    record, server = await judged(way, answer, monkeypatch, timeout=0.3 if hangs else 10)
    assert came_of(record) == ("failure", kind, attempts)
    assert len(server.requests) == attempts
    assert record.fault == {
        "seat": "classifier",
        "role": "classifier",
        "model": way.model,
        "kind": kind,
    }
    assert KEY not in record.model_dump_json()


@pytest.mark.parametrize("way", [GEMINI, ANTHROPIC, OLLAMA], ids=["gemini", "anthropic", "ollama"])
@pytest.mark.parametrize(
    "first",
    [
        Fault(500, "x"),
        Fault(drop="middle"),
        Reply(PROSE),
        Reply(""),
        Reply(CUT, "length"),
        Reply(CUT),
    ],
    ids=["500", "drops", "prose", "empty", "cut off", "broken off"],
)
async def test_what_passes_is_tried_again(
    way: Way, first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, server = await judged(way, [first, GOOD], monkeypatch)
    assert came_of(record) == ("verdict", None, 2)
    limit = 4 * 2048 if isinstance(first, Reply) and first.finish_reason == "length" else 2048
    assert server.requests[1].max_tokens == limit


REFUSALS: list[tuple[str, Way, Any, str]] = [
    ("gemini block", GEMINI, Reply(extra={"block_reason": "PROHIBITED_CONTENT"}), "block_reason"),
    ("gemini block, other", GEMINI, Reply(extra={"block_reason": "OTHER"}), "block_reason"),
    ("gemini safety", GEMINI, Reply(refusal="no"), "content_filter"),
    ("gemini safety midway", GEMINI, Reply(CUT, "content_filter"), "content_filter"),
    ("gemini recitation", GEMINI, Reply("", "RECITATION"), "content_filter"),
    ("gemini in words", GEMINI, Reply("I can’t help with that."), "plain_text"),
    ("anthropic stop", ANTHROPIC, Reply(refusal="I won't."), "content_filter"),
    ("anthropic stop, untold", ANTHROPIC, Reply("", "refusal"), "content_filter"),
    ("anthropic in words", ANTHROPIC, Reply("I'm not able to help with this."), "plain_text"),
    ("anthropic 400", ANTHROPIC, Fault(400, "Output blocked by content filtering policy"), "safety_error"),
    ("ollama in words", OLLAMA, Reply(refusal="I cannot create hateful content."), "plain_text"),
    ("qwen 400", QWEN, Fault(400, "Output data may contain inappropriate content.", "data_inspection_failed"),
     "safety_error"),
    ("glm 1301", GLM, Fault(400, body={"error": {"code": "1301", "message": "系统检测到敏感内容"}}),
     "safety_error"),
    ("glm finish", GLM, Reply("", "sensitive"), "content_filter"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "answer", "form"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
async def test_a_refusal_in_its_own_form(
    way: Way,
    answer: Any,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)  # Gemini's client says aloud that the answer is empty
    record, server = await judged(way, answer, monkeypatch)
    assert came_of(record) == ("refusal", form, 1)
    assert len(server.requests) == 1
    assert record.label is None


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        (way, Fault(429, "slow down", headers={"Retry-After": "0.5"}))
        for way in WAYS
        if way is not OLLAMA  # a server of one's own sends none, and its client drops the headers
    ]
    + [
        (
            GEMINI,
            Fault(
                429,
                body={
                    "error": {
                        "code": 429,
                        "status": "RESOURCE_EXHAUSTED",
                        "message": "You exceeded your current quota, please check your plan and billing details.",
                        "details": [
                            {
                                "violations": [
                                    {
                                        "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
                                    }
                                ]
                            },
                            {
                                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                                "retryDelay": "0.5s",
                            },
                        ],
                    }
                },
            ),
        )
    ],
)
async def test_what_the_server_asks_to_wait_is_waited(
    way: Way, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, server = await judged(way, [fault, GOOD], monkeypatch)
    assert came_of(record) == ("verdict", None, 2)
    assert server.requests[1].arrived - server.requests[0].arrived >= 0.5


async def test_gemini_s_quota_of_a_day_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    details = [
        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20s"},
    ]
    message = "You exceeded your current quota, please check your plan and billing details."
    body = {
        "error": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": message,
            "details": details,
        }
    }
    record, _ = await judged(GEMINI, Fault(429, body=body), monkeypatch)
    assert came_of(record) == ("failure", "quota", 1)


async def test_gemini_s_way_of_saying_that_a_key_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT")
    record, _ = await judged(GEMINI, fault, monkeypatch)
    assert came_of(record) == ("failure", "authentication", 1)


@pytest.mark.parametrize(
    ("way", "refusal"),
    [
        (GEMINI, Fault(400, "Unknown name 'responseJsonSchema' at 'generation_config'")),
        (ANTHROPIC, Fault(400, "output_config.format: not supported by this model")),
        (OLLAMA, Fault(500, "failed to load grammar")),
        (
            QWEN,
            Fault(
                400, "'response_format.type' must be json_object or text", "invalid_parameter_error"
            ),
        ),
        (GLM, Fault(500, "")),
    ],
    ids=["gemini", "anthropic", "ollama", "qwen", "glm, a bare 500"],
)
async def test_down_the_ladder(way: Way, refusal: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(request: Any) -> Reply | Fault:
        return refusal if request.schema else Reply(GOOD)

    record, server = await judged(way, script, monkeypatch, attempts=4)
    assert record.outcome == "verdict"
    assert record.calls[0].format == ("tool_call" if way is ANTHROPIC else "json_object")
    [last] = [request for request in server.requests if not request.schema]
    assert last.format == ("" if way is ANTHROPIC else "json_object")
    assert ("as a JSON schema" in last.messages[-1][1]) == (way is not ANTHROPIC)


@pytest.mark.parametrize("way", [GEMINI, ANTHROPIC, QWEN])
async def test_several_keys(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [KEY, "sk-ant-one-abcdefghij", "sk-ant-two-abcdefghij"]
    monkeypatch.setenv(f"{way.key}_1", keys[1])
    monkeypatch.setenv(f"{way.key}_2", keys[2])

    def script(request: Any) -> Reply | Fault:
        bad = request.headers[way.header].endswith(keys[1])
        return Fault(401, f"what is {keys[1]}?") if bad else court_script()(request)

    record, server = await judged(way, script, monkeypatch, graph="arcade", rounds=1)
    used = [
        keys.index(request.headers[way.header].removeprefix(way.before))
        for request in server.requests
    ]
    assert used == [0, 1, 2, 0, 2]
    assert [call.key for call in record.calls] == [0, 2, 0, 2]
    assert not any(key in record.model_dump_json() for key in keys)


async def test_a_server_that_isn_t_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in WAYS:
        monkeypatch.setenv(way.address, f"http://127.0.0.1:9{way.root}")
        if way.key:
            monkeypatch.setenv(way.key, KEY)
        context = context_from({"model": way.model, "attempts": 2, "timeout": 10})
        record = await judge_post("a post", graph="baseline", context=context)
        assert came_of(record) == ("failure", "connection", 2), way.model


async def test_a_model_that_takes_no_temperature_by_its_published_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = ANTHROPIC._replace(model="anthropic:claude-opus-5")
    record, server = await judged(way, GOOD, monkeypatch)
    assert came_of(record) == ("verdict", None, 1)
    assert "temperature" not in server.requests[0].body
    assert (record.calls[0].temperature, record.calls[0].wanted_temperature) == (None, 0.8)


# Names, keys and addresses


def test_models_by_name() -> None:
    assert model_names("openai:gpt-4o-mini", "model") == (ModelName("openai", "gpt-4o-mini"),)
    assert model_names("ollama:llama3.2:3b , qwen: qwen-max", "model") == (
        ModelName("ollama", "llama3.2:3b"),
        ModelName("qwen", "qwen-max"),
    )
    assert model_names("rehearsal", "model") == model_names("rehearsal:court", "model")
    assert str(ModelName("openai", "org/model")) == "openai:org/model"
    for wrong in ("", "gpt-4o", ":x", "openai:", "openai: ", "Openai:x", "openai:a,"):
        with pytest.raises(BadInput, match="not a model"):
            model_names(wrong, "model")


def test_keys_by_name() -> None:
    pool = PROVIDERS["openai"].key_pool
    assert pool({}) == []
    assert pool({"OPENAI_API_KEY": "a", "OPENAI_API_KEY_2": "c", "OPENAI_API_KEY_1": "b"}) == [
        "a",
        "b",
        "c",
    ]
    assert pool({"OPENAI_API_KEY_10": "k", "OPENAI_API_KEY_9": "j"}) == ["j", "k"]
    assert pool(
        {
            "OPENAI_API_KEY": "a",
            "OPENAI_API_KEY_1": "a",
            "OPENAI_API_KEY_X": "x",
            "OPENAI_API_KEYS": "y",
        }
    ) == ["a"]
    qwen = PROVIDERS["qwen"].key_pool
    assert qwen({"QWEN_API_KEY": "q"}) == ["q"]
    assert qwen({"QWEN_API_KEY": "q", "DASHSCOPE_API_KEY_1": "d"}) == ["d"]
    assert PROVIDERS["glm"].key_pool({"ZHIPUAI_API_KEY": "z", "OPENAI_API_KEY": "a"}) == ["z"]


def test_addresses_by_name() -> None:
    assert PROVIDERS["openai"].base_url({}) == "https://api.openai.com/v1"
    assert PROVIDERS["openai"].base_url({"OPENAI_BASE_URL": "http://here/v1"}) == "http://here/v1"
    assert PROVIDERS["qwen"].base_url({"OPENAI_BASE_URL": "http://here/v1"}) == (
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
    )
    assert PROVIDERS["glm"].base_url(
        {"ZHIPUAI_BASE_URL": "https://open.bigmodel.cn/api/paas/v4"}
    ) == ("https://open.bigmodel.cn/api/paas/v4")
    assert PROVIDERS["openai"].needs_key({})
    assert not PROVIDERS["openai"].needs_key({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"})
    assert not PROVIDERS["ollama"].needs_key({})


def test_an_endpoint_keeps_its_key_to_itself() -> None:
    endpoint = Endpoint(ModelName("openai", "x"), "http://here", KEY)
    assert KEY not in repr(endpoint)
    assert endpoint != Endpoint(ModelName("openai", "x"), "http://here", "another")


async def test_a_server_of_one_s_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way("openai:local", "openai", "", "OPENAI_BASE_URL", "/v1", None, "")
    record, server = await judged(way, GOOD, monkeypatch)
    assert record.outcome == "verdict"
    assert server.requests[0].headers["authorization"] == "Bearer none"
    assert "max_tokens" in server.requests[0].body
    assert record.calls[0].key is None
