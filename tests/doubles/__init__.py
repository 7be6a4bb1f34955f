"""A scripted model server on loopback: what the tests and the benchmark talk to in place of a provider.

It speaks the providers' own wire protocols (OpenAI and its moderations, Gemini, Anthropic, Ollama), answers what a
script says, and keeps what it was shown.

    async with ScriptedServer(in_order(["first answer", Fault(status=429), {"label": 1}])) as server:
        ...  # a client on f"{server.url}/v1"
    assert "the post" in server.requests[0].text

As a process of its own, it says its port in one line of JSON:
`python -m tests.doubles --port 0 --latency 0.2 --script MODULE:NAME`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

from tests.doubles import anthropic, gemini, moderations, ollama
from tribunal.testing import server
from tribunal.testing.messages import (
    JSON,
    Answer,
    Fault,
    Reply,
    Request,
    Script,
    ScriptError,
    embedding,
)

__all__ = [
    "Answer",
    "Fault",
    "InOrder",
    "Reply",
    "Request",
    "Script",
    "ScriptError",
    "ScriptedServer",
    "embedding",
    "in_order",
]

server.WIRES.update(
    {"gemini": gemini, "anthropic": anthropic, "ollama": ollama, "moderations": moderations}
)


class ScriptedServer(server.ScriptedServer):
    """The server that comes with the package, which here lists its models too, and tells another process its counts."""

    def __init__(
        self, script: Script, *, models: Sequence[str] = ("scripted",), **more: Any
    ) -> None:
        """`models` are the names that are listed as served."""
        super().__init__(script, **more)
        self.models = tuple(models)

    def stats(self) -> JSON:
        """Give what another process may know: counts, its CPU seconds, and how long it was asked."""
        return {
            "served": self.served,
            "in_flight": self.in_flight,
            "peak": self.peak,
            "errors": [str(error) for error in self.errors],
            "cpu_seconds": time.process_time(),
            "seconds": self.last - self.first,
        }

    def answer_other(self, method: str, path: str, body: JSON) -> JSON | None:
        """Lists of models in each protocol, and the counts."""
        if path == "/scripted":
            if method == "DELETE":
                self.reset()
            return self.stats()
        answer = super().answer_other(method, path, body)
        if path.endswith("/api/tags"):
            return {
                "models": [
                    {"name": name, "model": name, "size": 0, "digest": ""} for name in self.models
                ]
            }
        if path.endswith("/v1beta/models"):
            return {
                "models": [{"name": f"models/{name}", "displayName": name} for name in self.models]
            }
        if path.endswith("/models"):
            common: dict[str, Any] = {
                "object": "model",
                "created": 0,
                "owned_by": "scripted",
                "type": "model",
            }
            return {
                "object": "list",
                "data": [{"id": name, **common} for name in self.models],
                "has_more": False,
            }
        return answer


class InOrder:
    """A script of given answers in turn, one a request; an item may itself be a script, asked for that one request.

    The request after the last one gets HTTP 599, and leaving the server's `with` block raises ScriptError.
    """

    def __init__(self, answers: Iterable[Answer | Script]) -> None:
        """Begin before the first answer."""
        self._answers = list(answers)
        self.played = 0

    @property
    def remaining(self) -> int:
        """The number of answers that haven't been asked for."""
        return len(self._answers) - self.played

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Return the next answer."""
        if not self.remaining:
            raise ScriptError(f"the script of {self.played} answers has run out")
        answer = self._answers[self.played]
        self.played += 1
        return answer(request) if callable(answer) else answer


in_order = InOrder
