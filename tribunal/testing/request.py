"""One request to a chat model, as it came over the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

JSON = dict[str, Any]
Protocol = Literal["openai", "gemini", "anthropic", "ollama"]

_HINT = re.compile(r"\[\[(\w+)=([^\[\]]*)\]\]")
_ROLES = {"model": "assistant", "developer": "system"}


@dataclass
class Asked:
    """What the body of a request says, whatever its protocol.

    `messages` are (role, text), roles by their OpenAI names (system, user, assistant). `images` are the picture parts
    in order, as data URIs or URLs. `response_format` is as it was sent, whatever the provider calls it; `schema` is the
    JSON schema in it.
    """

    model: str = ""
    messages: list[tuple[str, str]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    temperature: float | None = None
    max_tokens: int | None = None
    response_format: Any = None
    schema: JSON | None = None

    def add(self, role: str, words: list[str]) -> None:
        """Add a message, by the name that the protocol has for its role."""
        self.messages.append((_ROLES.get(role, role), "\n".join(words)))

    @cached_property
    def text(self) -> str:
        """Everything in words that the model was shown."""
        return "\n\n".join(text for _, text in self.messages)

    @cached_property
    def hints(self) -> dict[str, str]:
        """The marks `[[name=value]]` in what was shown; of two with one name the first counts."""
        return dict(reversed(_HINT.findall(self.text))) if "[[" in self.text else {}

    @property
    def format(self) -> Literal["json_schema", "json_object", ""]:
        """Whether a schema, bare JSON or nothing was asked for."""
        if self.schema is not None:
            return "json_schema"
        return "json_object" if self.response_format else ""


@dataclass(kw_only=True)
class Request(Asked):
    """One request. Times are seconds of the machine's monotonic clock.

    `latency` is what the server was told to take. `finished` stays None while the request is under way; `status` stays
    None for one whose connection was dropped, or that the client didn't wait for.
    """

    protocol: Protocol
    path: str
    headers: dict[str, str]
    body: JSON
    index: int
    arrived: float
    latency: float = 0.0
    finished: float | None = None
    status: int | None = None


def schema_in(held: Any, *names: str) -> JSON | None:
    """Return what stands under these names, one within the other, or None if that is no object."""
    for name in names:
        held = held.get(name) if isinstance(held, dict) else None
    return held if isinstance(held, dict) else None
