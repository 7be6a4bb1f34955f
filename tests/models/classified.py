"""One post through the one-call graph, over the wire, and what came of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tribunal.schema import Record

GOOD = {"category": "Sexist", "explanation": "because"}
PROSE = "It is certainly sexist, if you ask me."
CUT = '{"category": "Sexist", "explanation": "bec'


async def classify(
    answers: Any, text: str = "a post", **settings: Any
) -> tuple[Record, ScriptedServer]:
    """A post through the one-call graph on a server that gives these answers, the last one for ever; or by a script."""
    async with ScriptedServer(
        answers if callable(answers) else court_script(classifier=answers)
    ) as server:
        return await decide(
            server, text, graph="baseline", **{"attempts": 2, "timeout": 10, **settings}
        ), server


def came_of(record: Record) -> tuple[str, str | None, int]:
    """The outcome, the kind of fault, and how many requests the calls say it took."""
    kind = record.fault["kind"] if record.fault else None
    return record.outcome, kind, sum(call.attempts for call in record.calls)


def chat_completion(said: str) -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said},
        "finish_reason": "stop",
    }
    return json.dumps(
        {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    ).encode()


def png(folder: Path, colour: str = "red") -> Path:
    out = io.BytesIO()
    Pillow.new("RGB", (20, 20), colour).save(out, "PNG")
    file = folder / f"{colour}.png"
    file.write_bytes(out.getvalue())
    return file
