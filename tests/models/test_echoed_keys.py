"""A server that gives back the key it was sent, in every place there is: it is nowhere to be found afterwards."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langchain_core.tracers.schemas import Run
from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD
from tests.models.test_providers import Way
from tests.models.test_redirects import EVERY
from tests.untyped import graph
from tribunal.core.text import SHORTEST
from tribunal.docket.session import judge_post
from tribunal.errors import CallFailed
from tribunal.models.embeddings import find_embedder
from tribunal.settings.context import context_from
from tribunal.testing.server import send

# No key looks like it: nothing but its being known strikes it out.
KEY = "Zq7Lm2xPd9Rt4wZk8vB1"
by_way = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[] if way in EVERY[:3] else pytest.mark.long) for way in EVERY],
    ids=[way.model.partition(":")[0] for way in EVERY],
)
Echo = Callable[[str], Reply | Fault]


def escaped(key: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in key)


def at_a_cut(most: int) -> Echo:
    """Words of which a cut after so many leaves all but one of the key's characters."""
    return lambda key: Fault(
        400, raw=(" " * 20 + "x" * (most - len(key) - 19) + key + " and more").encode()
    )


# Each place is given what the server was sent: the header's value, without what stands before the key.
ECHOES: dict[str, Echo] = {
    "explanation": lambda key: Reply({**GOOD, "explanation": f"because of {key}"}),
    "escaped": lambda key: Reply(
        '{"category": "Sexist", "explanation": "of ' + escaped(key) + '"}'
    ),
    "bearer": lambda key: Reply({**GOOD, "explanation": f"Authorization: Bearer {key}"}),
    "a field's value": lambda key: Reply({**GOOD, "category": key}),
    "a long value": lambda key: Reply({**GOOD, "category": "x" * (56 - len(key)) + key}),
    "prose": lambda key: Reply(f"Your key is {key}."),
    "cut off in the key": lambda key: Reply(
        '{"category": "Sexist", "explanation": "' + key[:-1], "length"
    ),
    "refusal": lambda key: Reply(refusal=f"I can't help with that, {key}."),
    "refusal, cut": lambda key: Reply(
        refusal="I'm sorry, but I can't help. " + "x" * (272 - len(key)) + key
    ),
    "plain refusal": lambda key: Reply(f"I'm sorry, but I can't help with {key}."),
    "content filter": lambda key: Reply(f"Filtered for {key}", "content_filter"),
    "finish reason": lambda key: Reply(GOOD, f"stop-{key}"),
    "another field": lambda key: Reply(
        GOOD, extra={"system_fingerprint": key, "id": key, "model": key}
    ),
    "an error for 200": lambda key: Fault(
        200, body={"error": {"code": 400, "message": f"bad {key}"}}
    ),
    "a page for 200": lambda key: Fault(200, raw=f"<html>{key}</html>".encode()),
    "401": lambda key: Fault(401, f"Incorrect API key provided: {key}"),
    "400": lambda key: Fault(400, f"response_format: {key} is not supported"),
    "404": lambda key: Fault(404, f"no model {key}"),
    "429": lambda key: Fault(429, f"limit of {key}", headers={"Retry-After": "0"}),
    "500": lambda key: Fault(
        500, body={"error": {"message": "oops", "headers": {"key": key}, key: "name"}}
    ),
    "redirect": lambda key: Fault(
        307, key, headers={"Location": f"http://{key}.example/{key}?key={key}"}
    ),
    "error, cut at 400": at_a_cut(400),
    "error, cut at 2000": at_a_cut(2000),
    "error, all but one": lambda key: Fault(400, f"bad {key[:-1]}"),
    "error, escaped": lambda key: Fault(
        400, raw=('{"error": {"message": "bad ' + escaped(key) + '"}}').encode()
    ),
}


def holds_key(text: str) -> bool:
    """Whether a text holds the key, or half of it, as it is or as JSON may write it."""
    half = len(KEY) // 2
    forms = (KEY[:half], KEY[-half:], KEY[half // 2 : half // 2 + half])
    return any(
        form in each
        for form in (*forms, *map(escaped, forms))
        for each in (text, text.replace("\\\\", "\\"))
    )


@pytest.fixture
def sent_key(monkeypatch: pytest.MonkeyPatch) -> Callable[[Way, ScriptedServer], None]:
    def use(way: Way, server: ScriptedServer) -> None:
        monkeypatch.setenv(way.address, f"{server.url}{way.root}")
        monkeypatch.setenv(way.key or "OLLAMA_API_KEY", KEY)

    return use


def echoing(way: Way, echo: Echo) -> Callable[[Request], Reply | Fault]:
    """A server that answers with the very value that came in the header."""
    header, before = (way.header, way.before) if way.key else ("authorization", "Bearer ")

    def script(request: Request) -> Reply | Fault:
        key = request.headers[header].removeprefix(before)
        assert key == KEY
        return echo(key)

    return script


@by_way
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_what_a_server_gives_back_is_struck_out_everywhere(
    way: Way,
    echo: Echo,
    sent_key: Callable[[Way, ScriptedServer], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    events: list[Any] = []
    cache = tmp_path / "cache.sqlite"
    settings = {
        "model": way.model,
        "attempts": 2,
        "trace": True,
        "cache": str(cache),
        "timeout": 10,
    }
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with ScriptedServer(echoing(way, echo)) as server:
            sent_key(way, server)
            record = await judge_post(
                "a post", graph="baseline", context=context_from(settings), listen=events.append
            )
    assert server.requests
    assert not holds_key(record.model_dump_json())
    assert not holds_key(json.dumps(events, ensure_ascii=False))
    assert not holds_key(caplog.text)
    assert not any(holds_key(text) for text in capfd.readouterr())
    assert not any(holds_key(str(warning.message)) for warning in warned)
    with sqlite3.connect(cache) as database:
        assert not holds_key(str(database.execute("SELECT * FROM answers").fetchall()))
    database.close()


PLACES = ["explanation", "escaped", "refusal", "another field", "401", "500", "error, cut at 400"]


@by_way
@pytest.mark.parametrize("place", PLACES)
async def test_who_listens_is_told_it_neither(
    way: Way, place: str, sent_key: Callable[[Way, ScriptedServer], None]
) -> None:
    """Not by LangChain's traces, which hold each request, answer and error, nor word by word."""
    runs, heard = RunCollectorCallbackHandler(), ""
    context = context_from({"model": way.model, "attempts": 1, "timeout": 10})
    async with ScriptedServer(echoing(way, ECHOES[place])) as server:
        sent_key(way, server)
        post, config = {"text": "a post"}, RunnableConfig(callbacks=[runs])
        async for given in graph("baseline").astream(
            post, config, context=context, stream_mode="messages"
        ):
            heard += given[0].text
    traced = [each for run in runs.traced_runs for each in every(run)]
    asked = [each for each in traced if each.run_type in ("llm", "chat_model")]
    assert asked
    assert all(each.outputs or each.error for each in asked)
    for each in traced:
        assert not holds_key(
            f"{each.serialized} {each.inputs} {each.outputs} {each.error} {each.extra}"
        )
    assert not holds_key(heard)


def every(run: Run) -> list[Run]:
    """A traced run, and all within it."""
    return [run, *(each for child in run.child_runs for each in every(child))]


@pytest.mark.parametrize(
    "place", ["explanation", "prose", "refusal", "error, cut at 400", "401", "redirect"]
)
def test_no_file_that_a_run_leaves_holds_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results, the measures, the report, the docket of cases that wait, and what the terminal shows."""
    way = EVERY[0]
    (tmp_path / "posts.csv").write_text("id,text,label\na,some words,1\nb,other words,0\n")
    with ScriptedServer(echoing(way, ECHOES[place])) as server:
        monkeypatch.setenv(way.address, f"{server.url}{way.root}")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        shared = ("--graph", "baseline", "--model", way.model, "--set", "attempts=1")
        said = [
            told("eval", "--dataset", "table", "--data", "posts.csv", "--out", "run", *shared),
            told("report", "run", "--out", "report"),
            told("judge", "some words", "--review", *shared),
            told("judge", "some words", "--json", "--trace", *shared),
            told("doctor"),
        ]
        assert len(server.requests) >= 3
    assert not any(holds_key(each) for each in said)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"results.jsonl", "metrics.json"} <= {path.name for path in files} or place == "401"
    for path in files:
        assert not holds_key(path.read_bytes().decode("latin-1")), path.name


def told(*arguments: str) -> str:
    from tribunal.commands import app

    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


@pytest.mark.long
async def test_a_client_of_somebody_else_s_is_no_way_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for echo in ECHOES.values():
        way = EVERY[0]._replace(
            model="tests.models.plugged:PROVIDER:big", address="PLUGGED_BASE_URL"
        )
        async with ScriptedServer(echoing(way, echo)) as server:
            monkeypatch.setenv("PLUGGED_BASE_URL", f"{server.url}/v1")
            monkeypatch.setenv("PLUGGED_API_KEY", KEY)
            context = context_from({"model": way.model, "attempts": 1})
            record = await judge_post("a post", graph="baseline", context=context)
        assert not holds_key(record.model_dump_json())


@pytest.mark.parametrize(
    "body", ['{"data": [{"index": 0, "embedding": ["KEY"]}]}', '{"KEY": 1}', "KEY", '["KEY"]']
)
@pytest.mark.parametrize("status", [200, 400, 401])
async def test_embeddings_tell_it_neither(
    status: int, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EchoingEmbeddings(status, body.replace("KEY", KEY).encode()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        in_force = find_embedder("openai:e")
        assert in_force is not None
        with pytest.raises(CallFailed) as caught:
            await in_force.embed(["a text"], "query")
    link: BaseException | None = caught.value
    while link:
        assert not holds_key(str(link))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


class EchoingEmbeddings(ScriptedServer):
    """One that answers everything so."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(court_script())
        self._answers = status, body

    async def respond(
        self, writer: Any, method: str, path: str, headers: dict[str, str], data: bytes
    ) -> None:
        send(writer, *self._answers)


@pytest.mark.parametrize("key", ["none", "EMPTY", "because", "NotHate"])
async def test_a_placeholder_is_an_ordinary_word(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(key) < SHORTEST
    monkeypatch.setenv("OPENAI_API_KEY", key)
    async with ScriptedServer(
        lambda request: Reply({"category": "NotHate", "explanation": f"Of {key} it speaks."})
    ) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        record = await judge_post(
            "a post", graph="baseline", context=context_from({"model": "openai:x"})
        )
    assert (record.category, record.explanation) == ("NotHate", f"Of {key} it speaks.")
