"""One call as it goes with one model: what is sent now, and what it has cost so far."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from tribunal.context import Context
from tribunal.models.providers import ModelName, Provider, RequestSettings, Rung
from tribunal.models.question import Question
from tribunal.models.wire_schema import wire_schema
from tribunal.prompts import quote
from tribunal.schema import JSON
from tribunal.text import wellformed

RUNGS: tuple[Rung, ...] = ("json_schema", "json_object", "prompt")


@dataclass
class Exchange:
    """One call as it goes with one model: what is sent now, and what it has cost so far."""

    model: ModelName
    provider: Provider
    question: Question
    context: Context
    max_output_tokens: int
    rung: Rung = "json_schema"
    image: tuple[str, str] | None = None  # data URI, hash of the bytes
    blind: bool = False
    temperature: float | None = None
    afterthought: list[BaseMessage] = field(default_factory=list)
    attempts: int = 0
    server_errors: int = 0
    format_refused: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False
    key: int | None = None
    said: str = ""
    warnings: list[str] = field(default_factory=list)
    _made_for: tuple[Any, ...] = ()
    _asked: HumanMessage = field(default_factory=lambda: HumanMessage(""))

    def messages(self) -> list[BaseMessage]:
        """What is sent: the fixed part first, then image and post, and the role's own words last."""
        return [SystemMessage(self.question.system), self.asked(), *self.afterthought]

    def asked(self) -> HumanMessage:
        """The post and the role's own words, as they go with the model as it is known by now."""
        made_for = (self.rung, self.blind, self.image is not None)
        if made_for != self._made_for:
            self._made_for, self._asked = made_for, self._make()
        return self._asked

    def _make(self) -> HumanMessage:
        post = self.question.post
        parts = [quote("post", post.text) if post.text else "The post has no text."]
        if post.image and self.blind:
            parts.append("The post has an image. You can't see it: say nothing about what it may show.")
        elif post.image:
            parts.append("The post's image stands before this text. Words in it are part of the post.")
        if self.question.shared:
            parts.append(self.question.shared)
        parts.append(self.question.task)
        if self.rung != "json_schema" and not self.question.role.plain:
            schema = json.dumps(wire_schema(self.question.form)["schema"], ensure_ascii=False)
            parts.append(f"The form of your answer, as a JSON schema:\n{schema}")
        text = "\n\n".join(parts)
        content: str | list[str | JSON] = text
        if self.image and not self.blind:
            content = [{"type": "image_url", "image_url": {"url": self.image[0]}}, {"type": "text", "text": text}]
        return HumanMessage(content)

    def options(self) -> JSON:
        """The settings of the request, in the provider's own words."""
        envelope = wire_schema(self.question.form)
        options = self.provider.options(RequestSettings(self.rung, envelope, self.temperature, self.max_output_tokens))
        return {**options, "question": self.question} if self.provider.sees_question else options

    def sent(self) -> set[str]:
        """Which parts of the request a server may refuse by themselves."""
        parts = {"format"} if self.rung != "prompt" else set()
        parts |= {"image"} if self.image and not self.blind else set()
        return parts | ({"temperature"} if self.temperature is not None else set())

    def step_down(self) -> None:
        """Ask for the form of the answer as the next rung of the ladder does."""
        self.rung = RUNGS[RUNGS.index(self.rung) + 1]

    def ask_again(self, problem: ValueError) -> None:
        """Show the model its answer, and say what is wrong with it."""
        self.afterthought = [
            AIMessage(self.said or "(nothing)"),
            HumanMessage(
                f"Your answer could not be used:\n\n{quote('problem', str(problem))}\n\n"
                "Answer again, in the form that was asked for and with nothing else."
            ),
        ]

    def take(self, message: AIMessage) -> None:
        """Note what was said, and what it cost."""
        if usage := message.usage_metadata:
            self.prompt_tokens += usage["input_tokens"]
            self.completion_tokens += usage["output_tokens"]
            self.cached_tokens += (usage.get("input_token_details") or {}).get("cache_read") or 0
        self.said = wellformed(message.text)

    def prompt_sha(self) -> str:
        """A hash of the words and the image that were asked with."""
        image = self.image[1] if self.image and not self.blind else ""
        words = f"{self.question.system}\0{self.asked().text}\0{image}"
        return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def wanted_temperature(self) -> float | None:
        """The temperature by the settings, whether or not the model takes one."""
        role, held = self.question.role, self.context.temperatures
        kind = role.seat.partition(":")[0]
        given = held.get(role.seat, held.get(kind))
        # A second draw at temperature 0 would be the first one again; but several of a kind can be set apart by hand.
        if self.question.draw and (given is None or kind == role.seat):
            return self.context.draw_temperature
        return role.temperature if given is None else given

    @property
    def traced(self) -> JSON:
        """The prompt and the raw answer, for `--trace`."""
        return {"prompt": [[message.type, message.text] for message in self.messages()], "answer": self.said}

    def call(self, seconds: float, error: str | None = None) -> JSON:
        """The `Call` that this was, as JSON."""
        role = self.question.role
        return {
            "id": uuid.uuid4().hex[:12],
            "role": role.name,
            "seat": role.seat,
            "model": str(self.model),
            "temperature": self.temperature,
            "wanted_temperature": self.wanted_temperature,
            "prompt_sha": self.prompt_sha(),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(seconds, 4),
            "attempts": self.attempts,
            "cached": self.cached,
            "format": self.rung,
            "key": self.key,
            "repeat": self.question.repeat,
            "draw": self.question.draw,
            "error": error,
        }
