"""The four protocols: which one a path belongs to, and what is written in it."""

from __future__ import annotations

from typing import Protocol

from tribunal.eval.doubles.scripted import anthropic, gemini, ollama, openai
from tribunal.eval.doubles.scripted.replies import Events, Reply, encoded
from tribunal.eval.doubles.scripted.request import JSON, Asked, Request
from tribunal.eval.doubles.scripted.request import Protocol as Name


class Wire(Protocol):
    """What a protocol's file holds: how its paths end, its words for a finish reason, the type of what it streams, and
    its forms."""

    ENDS: tuple[str, ...]
    FINISH: dict[str, str]
    STREAM: str

    def read(self, body: JSON, path: str) -> Asked:
        """What a request says. Raises KeyError, TypeError or AttributeError for one that isn't in this protocol."""

    def write(self, request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
        """An answer, with its finish reason in the protocol's word, and its tokens."""

    def streams(self, request: Request) -> bool:
        """Whether the request asks for a stream."""

    def stream(self, request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
        """An answer in events, with its finish reason in the protocol's word, and its tokens."""

    def error(self, status: int, message: str, code: str | None) -> JSON:
        """An error."""

    def failed(self, error: JSON) -> bytes:
        """An error in the middle of a stream."""


WIRES: dict[Name, Wire] = {"openai": openai, "gemini": gemini, "anthropic": anthropic, "ollama": ollama}


def protocol_of(path: str) -> Name | None:
    """The protocol in which chat is served at a path; None where none is."""
    return next((name for name, wire in WIRES.items() if path.endswith(wire.ENDS)), None)


def answer(request: Request, reply: Reply) -> bytes:
    """An answer in the protocol of its request."""
    return WIRES[request.protocol].write(request, reply, *_told(request, reply))


def stream(request: Request, reply: Reply) -> Events:
    """The same in events."""
    return WIRES[request.protocol].stream(request, reply, *_told(request, reply))


def _told(request: Request, reply: Reply) -> tuple[str, int, int]:
    """The finish reason in the protocol's word, and the tokens of prompt and answer."""
    prompt = reply.prompt_tokens if reply.prompt_tokens is not None else len(request.text) // 4 + 1
    completion = reply.completion_tokens if reply.completion_tokens is not None else len(reply.text) // 4 + 1
    return WIRES[request.protocol].FINISH.get(reply.finish_reason, reply.finish_reason), prompt, completion


def error(protocol: Name, status: int, message: str, code: str | None = None) -> bytes:
    """An error in the provider's own form."""
    return encoded(WIRES[protocol].error(status, message, code))
