"""A scripted model server on loopback: what the tests and the benchmark talk to in place of a provider.

It speaks the providers' own wire protocols (OpenAI, Gemini, Anthropic, Ollama), answers what a script says, and keeps
what it was shown. HTTP is read straight off asyncio's transport, since in a benchmark the server shares the machine
with the client that is measured.

    async with ScriptedServer(in_order(["first answer", Fault(status=429), {"label": 1}])) as server:
        ...  # a client on f"{server.url}/v1"
    assert "the post" in server.seen(0)

As a process of its own, it says its port in one line of JSON:
`python -m tests.doubles --port 0 --latency 0.2 --script MODULE:NAME`.
"""

from __future__ import annotations

from tests.doubles import anthropic, gemini, ollama
from tribunal.testing.openai import embedding
from tribunal.testing.replies import (
    Answer,
    Fault,
    InOrder,
    Latency,
    Reply,
    Script,
    ScriptError,
    in_order,
)
from tribunal.testing.request import Request
from tribunal.testing.server import WIRES, ScriptedServer

__all__ = [
    "Answer",
    "Fault",
    "InOrder",
    "Latency",
    "Reply",
    "Request",
    "Script",
    "ScriptError",
    "ScriptedServer",
    "embedding",
    "in_order",
]

WIRES.update({"gemini": gemini, "anthropic": anthropic, "ollama": ollama})
