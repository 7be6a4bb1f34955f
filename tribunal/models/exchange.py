"""One call as it goes with one model: what is sent now, and what it has cost so far."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from tribunal.context import Context
from tribunal.language import name_of
from tribunal.models.answer import Unreadable
from tribunal.models.providers import LISTS, RANGES, ModelName, Provider, RequestSettings, Rung
from tribunal.models.providers.completion import Completion, Message, Speaker
from tribunal.models.question import Question
from tribunal.models.size import IMAGE_TOKENS, most_tokens
from tribunal.models.wire_schema import choices, wire_schema
from tribunal.prompts.marks import Ours, listing, operators, ours, quote, shown, word
from tribunal.prompts.sets import PromptSet
from tribunal.schema import JSON, ShownPart
from tribunal.text import one_line, wellformed

REFUSED = "refused: "  # how the error of a call begins that the provider declined
Part = Literal["format", "bounds", "system", "temperature", "image", "stream"]
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
    bounds: frozenset[str] = frozenset()
    no_system: bool = False
    stream: bool = True  # whether the answer may be streamed to those who listen
    base_url: str | None = None
    extra: JSON = field(default_factory=dict)
    complaint: str = ""
    cut_at: int | None = None  # the limit that cut an answer off, before it was raised
    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    attempts: int = 0
    server_errors: int = 0  # bare 500s in a row
    refused: set[Part] = field(default_factory=set)  # what the server has named as not taken
    lowered_from: Rung | None = None  # the rung that got bare 500s, while it isn't shown that they are for the format
    stood_the_test: bool = False  # whether that was shown
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False
    key: int | None = None
    said: str = ""
    served: str | None = None  # what the provider calls the model that answered
    shown: set[ShownPart] = field(default_factory=set)  # what stood in a request that was answered
    warnings: list[str] = field(default_factory=list)
    _made_for: tuple[Any, ...] = ()
    _words: str = ""

    def messages(self) -> list[Message]:
        """What is sent: the fixed part first, then image and post, and the role's own words last."""
        told: list[Message] = [*self.told()]
        if self.image and not self.blind:
            asked, words = told[-1]
            image = {"type": "image_url", "image_url": {"url": self.image[0]}}
            told[-1] = asked, [image, {"type": "text", "text": words}]
        return told

    def told(self) -> list[tuple[Speaker, str]]:
        """The words of what is sent."""
        system, words = self.question.system, self.words
        if self.no_system or self.complaint:
            # One turn of the user's: many chat templates take no two in a row.
            words = "\n\n".join(filter(None, (system if self.no_system else "", words, self.complaint)))
        return [("human", words)] if self.no_system else [("system", system), ("human", words)]

    @property
    def words(self) -> str:
        """The post and the role's own words, as they go with the model as it is known by now."""
        made_for = (self.rung, self.blind)
        if made_for != self._made_for:
            self._made_for, self._words = made_for, self._make()
        return self._words

    def _make(self) -> str:
        post = self.question.post
        tag = word(post.language or "")
        seen = ours("none") if post.image is None else ours("unseen") if self.blind else ours("shown")
        parts = [_post_in_words(self.question.prompts, post.text, seen, tag, post.earlier)]
        if self.question.shared:
            parts.append(self.question.shared)
        parts.append(self.question.task)
        if self.rung != "json_schema" and not self.question.role.plain:
            # Bounds of strings stay out of the words: a small model reads them as a length to reach.
            schema = json.dumps(self.schema(LISTS | RANGES)["schema"], ensure_ascii=False)
            parts.append(f"The form of your answer, as a JSON schema:\n{schema}")
        return "\n\n".join(parts)

    def schema(self, bounds: frozenset[str]) -> JSON:
        """The form of the answer as this run asks for it, with these bounds."""
        return wire_schema(self.question.form, bounds, label_first=self.context.answer_order == "label-first")

    def options(self) -> JSON:
        """The settings of the request, in the provider's own words."""
        wanted = RequestSettings(
            self.rung,
            self.schema(self.bounds),
            self.temperature,
            self.max_output_tokens,
            self.most_prompt_tokens,
            self.extra,
            self.base_url,
            self.stream,
        )
        options = self.provider.options(wanted)
        # A function, because a trace writes out every other setting.
        return {**options, "question": lambda: self.question} if self.provider.sees_question else options

    def sent(self) -> set[Part]:
        """Which parts of the request a server may refuse by themselves."""
        parts: set[Part] = {"format"} if self.rung != "prompt" else set()
        parts |= {"bounds"} if self.bounds and self.rung == "json_schema" else set()
        parts |= set() if self.no_system else {"system"}
        parts |= {"image"} if self.image and not self.blind else set()
        parts |= {"stream"} if self.stream else set()
        return parts | ({"temperature"} if self.temperature is not None else set())

    def holds(self) -> set[ShownPart]:
        """What of the case stands in the request as it is now."""
        question = self.question
        held: set[ShownPart] = {"text"} if question.post.text else set()
        held |= {"image"} if question.post.image and not self.blind else set()
        return held | ({"policy"} if question.tells_the_policy else set())

    def step_down(self) -> None:
        """Ask for the form of the answer as the next rung of the ladder does."""
        self.rung = RUNGS[RUNGS.index(self.rung) + 1]

    def ask_again(self, problem: Unreadable) -> None:
        """Say what was wrong and what may be answered, at a higher temperature.

        The wrong answer itself isn't shown: small models copy it.
        """
        named = {} if self.question.role.plain else choices(self.question.form)
        valid = [f"- `{field}` is one of: {', '.join(map(str, values))}" for field, values in named.items()]
        problem_said = shown(quote("problem", problem.complaint))
        self.complaint = "\n\n".join(
            [
                f"You answered this before, and the answer could not be used:\n\n{problem_said}",
                *(["These values are valid:\n" + "\n".join(valid)] if valid else []),
                "Answer again from the beginning, in the form that was asked for and with nothing else.",
            ]
        )
        self.warm_up()

    def warm_up(self) -> None:
        """Ask at a higher temperature from now on: at the same one, a model that went wrong goes the same way again."""
        if self.temperature is not None:
            self.temperature = max(self.temperature, min(1.0, max(0.5, round(self.temperature + 0.3, 2))))

    @property
    def most_prompt_tokens(self) -> int:
        """How many tokens the prompt has at most, by its length."""
        words = most_tokens(self.question.system) + most_tokens(self.words) + most_tokens(self.complaint)
        return words + (IMAGE_TOKENS if self.image and not self.blind else 0)

    def take(self, answered: Completion) -> None:
        """Note what was said, to what, and what it cost."""
        self.shown |= self.holds()
        if answered.usage:
            self.last_prompt_tokens, self.last_completion_tokens, cached = answered.usage
            self.prompt_tokens += self.last_prompt_tokens
            self.completion_tokens += self.last_completion_tokens
            self.cached_tokens += cached
        self.served = one_line(wellformed(answered.model))[:120] or None
        self.said = wellformed(answered.text)

    def prompt_sha(self) -> str:
        """A hash of the words and the image that were asked with."""
        image = self.image[1] if self.image and not self.blind else ""
        digest = _begun(self.question.system).copy()
        digest.update(f"{self.words}\0{image}".encode("utf-8", "replace"))
        return str(digest.hexdigest())[:16]

    @property
    def wanted_temperature(self) -> float | None:
        """The temperature by the settings, whether or not the model takes one."""
        role, held = self.question.role, self.context.temperatures
        kind = role.seat.partition(":")[0]
        given = held.get(role.seat, held.get(kind, held.get(role.temperature_of)))
        if role.drawn_alike:
            return self.context.draw_temperature if given is None else given
        # A second draw at temperature 0 would be the first one again; but several of a kind can be set apart by hand.
        if self.question.draw and (given is None or kind == role.seat):
            return self.context.draw_temperature
        return role.temperature if given is None else given

    @property
    def traced(self) -> JSON:
        """The prompt and the raw answer, for `--trace`."""
        return {"prompt": [[*each] for each in self.told()], "answer": self.said}

    def call(self, seconds: float, error: str | None = None) -> JSON:
        """The `Call` that this was, as JSON."""
        role = self.question.role
        # What a cache answered, and what a provider declined, was shown too, and no message was taken of it.
        shown = self.shown | self.holds() if self.cached or (error or "").startswith(REFUSED) else self.shown
        return {
            "id": secrets.token_hex(6),
            "role": role.name,
            "seat": role.seat,
            "model": str(self.model),
            **({"model_class": type(given).__name__} if (given := self.provider.client) else {}),
            "served": self.served,
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
            "shown": sorted(shown),
            "repeat": self.question.repeat,
            "draw": self.question.draw,
            "error": error,
        }


@lru_cache(maxsize=64)
def _begun(system: str) -> Any:
    """Return the digest of a prompt as far as its standing instructions, to be copied and gone on with."""
    return hashlib.sha256(f"{system}\0".encode("utf-8", "replace"))


@lru_cache(maxsize=128)
def _post_in_words(prompts: PromptSet, text: str, image: Ours, tag: Ours, earlier: tuple[str, ...]) -> str:
    """The post as every seat of a case is shown it; `tag` is its language."""
    filled = {
        "post": quote("post", text, lines=True) if text else "",
        "image": image,
        "language": ours("{} ({})", operators(name_of(tag)), tag) if tag else "",
        "earlier": listing("earlier", earlier) if earlier else "",
    }
    return prompts.render("post", filled)
