"""One call to one model: the current request, the answer, and the cost so far."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from tribunal.core.calls import ShownPart
from tribunal.core.text import one_line
from tribunal.errors import CallFailed
from tribunal.models.completion import Completion, shared_counter
from tribunal.models.exam_results import label_served
from tribunal.models.prompt_values import image_state, render_post
from tribunal.models.providers import (
    LISTS,
    RANGES,
    ModelName,
    Provider,
    RequestSettings,
    ResponseFormat,
)
from tribunal.models.providers.wire import TokenCounts
from tribunal.models.role import Question, UnreadableAnswer
from tribunal.models.substance import EmptyField
from tribunal.models.wire_schema import allowed_values, wire_schema
from tribunal.prompts.marks import material_text, quote, short_word
from tribunal.schema import JSON
from tribunal.settings.context import Context

# What a request may leave out (`tribunal.models.ladder`).
Part = Literal[
    "extra", "tool_choice", "bounds", "temperature", "limit", "system", "stream", "format", "image"
]
PARTS: tuple[Part, ...] = get_args(Part)
REFUSED = "refused: "  # how the error of a call begins that the provider declined
IMAGE_TOKENS = 1500
# What is sent, in the pairs that LangChain takes for messages.
Speaker = Literal["system", "human"]
Message = tuple[Speaker, str | list[str | JSON]]


@dataclass
class ModelCall:
    """One call to one model: the current request and its cost so far."""

    model: ModelName
    provider: Provider
    question: Question
    context: Context
    max_output_tokens: int
    # in the order of preference
    forms: tuple[ResponseFormat, ...] = (
        "json_schema",
        "json_object",
        "prompt",
    )
    # how far each part of the request is stepped down
    left_out: dict[Part, int] = field(default_factory=dict)
    image: tuple[str, str] | None = None  # data URI, hash of the bytes
    set_temperature: float | None = None  # None: the model takes none
    provider_bounds: frozenset[str] = frozenset()
    takes_tool_choice: bool = True
    is_streamed: bool = False  # whether somebody listens
    has_substitute: bool = False  # whether another model is asked where this one isn't there
    base_url: str | None = None
    added_fields: JSON = field(default_factory=dict)  # of the body, by a line-up or the role
    # of the body, by the run's own setting `extra_body`
    own_fields: JSON = field(default_factory=dict)
    complaint: str = ""
    cut_at: int | None = None  # the limit that cut an answer off, before it was raised
    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = (
        False  # whether some tokens were counted here, since the server didn't say them
    )
    is_last_estimated: bool = False
    cached: bool = False
    key: int | None = None
    answer_text: str = ""
    flawed_answer: str | None = None  # of the right form; it has no reasons, or contradicts itself
    emptied: list[EmptyField] = field(default_factory=list)
    served: str | None = None  # what the provider calls the model that answered
    fingerprint: str | None = None  # what its server calls its weights and configuration
    shown: set[ShownPart] = field(default_factory=set)  # what stood in a request that was answered
    warnings: list[str] = field(default_factory=list)
    _words: dict[tuple[ResponseFormat, bool], str] = field(default_factory=dict)

    def level(self, part: Part) -> int:
        """Return how far a part of the request is stepped down; 0: it is sent in full."""
        return self.left_out.get(part, 0)

    def drop(self, part: Part) -> None:
        """Step a part of the request down by one, or leave it out."""
        self.left_out[part] = self.level(part) + 1
        if part == "image" and not self.question.post.text:
            raise CallFailed(
                f"{self.model} can't see images, and the post has no text", kind="blind"
            )

    @property
    def response_format(self) -> ResponseFormat:
        """How the form of the answer is asked for."""
        return self.forms[min(self.level("format"), len(self.forms) - 1)]

    @property
    def temperature(self) -> float | None:
        """The temperature that is sent."""
        return None if self.level("temperature") else self.set_temperature

    @property
    def bounds(self) -> frozenset[str]:
        """The keywords of bounds in the schema."""
        return frozenset() if self.level("bounds") else self.provider_bounds

    @property
    def without_image(self) -> bool:
        """Whether the post's image isn't shown to the model."""
        return bool(self.level("image"))

    @property
    def may_stream(self) -> bool:
        """Whether the answer is streamed."""
        return self.is_streamed and not self.level("stream")

    @property
    def extra(self) -> JSON:
        """The further fields of the body."""
        return {**({} if self.level("extra") else self.added_fields), **self.own_fields}

    @property
    def chooses_tool(self) -> bool:
        """Whether the model must answer by the tool that it is given."""
        return self.takes_tool_choice and not self.level("tool_choice")

    def sent_parts(self) -> set[Part]:
        """Return the parts of the request that can be stepped down: nothing that the run sets with `extra_body`."""
        names = self.provider.limit_names
        parts: dict[Part, bool] = {
            "extra": bool(self.added_fields) and not self.level("extra"),
            "tool_choice": self.response_format == "tool_call" and self.chooses_tool,
            "bounds": bool(self.bounds) and self.response_format == "json_schema",
            "temperature": self.temperature is not None and "temperature" not in self.own_fields,
            "limit": self.level("limit") < len(names) and self.own_fields.keys().isdisjoint(names),
            "system": bool(self.question.system) and not self.level("system"),
            "stream": self.may_stream,
            "format": self.response_format != self.forms[-1]
            and "response_format" not in self.own_fields,
            "image": self.sends_image,
        }
        return {part for part, is_sent in parts.items() if is_sent}

    def messages(self) -> list[Message]:
        """Return the messages: the standing instructions, then the image, the role's words, and the case.

        Providers' prompt caches serve what requests have in common from their begin. So the calls of a seat share its
        words over all posts, and the calls of a post its image, by far the longest part
        (`python -m bench --only prompt_caches`).
        """
        told: list[Message] = [*self.prompt_turns()]
        if self.image and not self.without_image:
            asked, words = told[-1]
            image = {"type": "image_url", "image_url": {"url": self.image[0]}}
            told[-1] = asked, [image, {"type": "text", "text": words}]
        return told

    def prompt_turns(self) -> list[tuple[Speaker, str]]:
        """Return the words of the request, by role."""
        system = self.question.system
        words = self.words
        merges = bool(self.level("system"))
        if merges or self.complaint:
            # One turn of the user's: many chat templates take no two in a row.
            words = "\n\n".join(filter(None, (system if merges else "", words, self.complaint)))
        return (
            [("system", system), ("human", words)] if system and not merges else [("human", words)]
        )

    @property
    def words(self) -> str:
        """The user's turn: the role's own words with the form of the answer, then the case."""
        made_for = self.response_format, self.without_image
        if made_for not in self._words:
            self._words[made_for] = "\n\n".join(self._write_parts())
        return self._words[made_for]

    def _write_parts(self) -> Iterator[str]:
        """Yield the task, the form if the request can't name it, the post, and the material that its calls share."""
        question = self.question
        post = self.question.post
        yield question.write_task(image_unseen=self.without_image)
        if self.response_format not in ("json_schema", "tool_call") and not question.role.plain:
            # Bounds of strings stay out of the words: a small model reads them as a length to reach.
            schema = json.dumps(self.answer_schema(LISTS | RANGES)["schema"], ensure_ascii=False)
            yield f"The form of your answer, as a JSON schema:\n{schema}"
        if question.own is None:
            image = image_state(post, unseen=self.without_image)
            tag = short_word(post.language or "")
            told = render_post(
                question.prompts, post.text, image, tag, post.earlier, question.reading
            )
            yield from filter(None, (told, question.shared))

    def answer_schema(self, bounds: frozenset[str]) -> JSON:
        """Return the form of the answer as this run asks for it, with these bounds."""
        envelope = wire_schema(self.question.form, bounds, label_first=self.question.label_first)
        return {**envelope, "strict": False} if self.level("bounds") else envelope

    def request_settings(self) -> RequestSettings:
        """Return the settings of the request as it is now."""
        return RequestSettings(
            self.response_format,
            self.answer_schema(self.bounds),
            self.temperature,
            self.max_output_tokens,
            self.most_prompt_tokens,
            self.extra,
            self.base_url,
            not self.level("stream"),
            self.level("limit"),
        )

    def request_options(self, wanted: RequestSettings) -> JSON:
        """Return the settings of the request, in the provider's own words."""
        options = self.provider.options(wanted)
        # A function, because a trace writes out every other setting.
        return (
            {**options, "question": lambda: self.question}
            if self.provider.sees_question
            else options
        )

    def shown_parts(self) -> set[ShownPart]:
        """Return the parts of the case that the current request shows."""
        question = self.question
        held: set[ShownPart] = {"text"} if question.post.text else set()
        held |= {"image"} if question.post.image and not self.without_image else set()
        return held | ({"policy"} if question.depends_on_policy else set())

    def leave_out_image(self) -> None:
        """Go on without the image, and say so; without a text there is nothing left to go on with."""
        self.left_out.pop("image", None)
        self.drop("image")
        self.warn_of_unseen_image()

    def warn_of_unseen_image(self) -> None:
        """Warn in the record that only the text was judged."""
        self.warn(f"{self.model} can't see the image and judged only the text")

    def warn(self, words: str) -> None:
        """Add a warning to the record of the case, once."""
        warning = f"{self.question.role.seat}: {words}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def quote_problem(self, problem: UnreadableAnswer) -> None:
        """Add the problem and the allowed answers to the request, and ask at a higher temperature.

        The wrong answer itself isn't shown: small models copy it.
        """
        named = {} if self.question.role.plain else allowed_values(self.question.form)
        valid = [
            f"- `{field}` is one of: {', '.join(map(str, values))}"
            for field, values in named.items()
        ]
        problem_said = material_text(quote("problem", problem.complaint))
        self.complaint = "\n\n".join(
            [
                f"You answered this before, and the answer could not be used:\n\n{problem_said}",
                *(["These values are valid:\n" + "\n".join(valid)] if valid else []),
                "Answer again from the beginning, in the form that was asked for and with nothing else.",
            ]
        )
        self.raise_temperature()

    def raise_temperature(self) -> None:
        """Ask at a higher temperature from now on: at the same one, a model that went wrong goes the same way again."""
        if self.set_temperature is not None:
            raised = min(1.0, max(0.5, round(self.set_temperature + 0.3, 2)))
            self.set_temperature = max(self.set_temperature, raised)

    @property
    def most_prompt_tokens(self) -> int:
        """The tokens that the prompt has at most, by its length: no model in use makes more of a text."""
        ascii_ones, others = _count_characters(self.question.system, self.words, self.complaint)
        return ascii_ones // 3 + others + (IMAGE_TOKENS if self.sends_image else 0)

    @property
    def fewest_prompt_tokens(self) -> int:
        """The tokens that the prompt has at least: no model in use makes fewer of a text."""
        ascii_ones, others = _count_characters(self.question.system, self.words)
        return ascii_ones // 6 + others // 3 - 2

    @property
    def sends_image(self) -> bool:
        """Return whether the current request includes the image."""
        return self.image is not None and not self.without_image

    def note_completion(self, answered: Completion) -> None:
        """Record the answer, its request and its cost."""
        self.shown |= self.shown_parts()
        usage = answered.usage
        self.last_prompt_tokens = usage.prompt or 0
        self.last_completion_tokens = usage.answer or 0
        self.prompt_tokens += self.last_prompt_tokens
        self.completion_tokens += self.last_completion_tokens
        self.cached_tokens += usage.cached
        self.is_last_estimated = answered.is_estimated
        self.is_estimated |= answered.is_estimated
        self.served = one_line(answered.model)[:120] or None
        self.fingerprint = one_line(answered.fingerprint)[:120] or None
        self.answer_text = answered.text

    def read_answer(self, *, take_empty: bool) -> Any:
        """Return the form, filled in, as `Question.parse_answer`; `take_empty`: without reasons that say nothing."""
        asked = "\n".join(words for _, words in self.prompt_turns())
        value = self.question.parse_answer(
            self.answer_text, self.warnings, asked, self.emptied if take_empty else None
        )
        for each in self.emptied:
            self.warn(
                f"{self.model} gave no reason: {each.field} {each.problem}; it was left empty"
            )
        return value

    async def estimate_missing(self, answered: Completion) -> Completion:
        """Return what came back with its tokens counted here where the server didn't say them."""
        usage = answered.usage
        if usage.prompt is not None and (usage.answer is not None or not answered.text):
            return answered._replace(usage=usage._replace(answer=usage.answer or 0))
        counter = await shared_counter()
        words = "\n".join(words for _, words in self.prompt_turns())
        prompt = usage.prompt or math.ceil(counter.count(words)) + (
            IMAGE_TOKENS if self.sends_image else 0
        )
        answer = usage.answer or math.ceil(counter.count(answered.text))
        return answered._replace(usage=TokenCounts(prompt, answer, usage.cached), is_estimated=True)

    def prompt_hash(self) -> str:
        """Return a hash of the words and the image that were asked with."""
        image = self.image[1] if self.image and self.sends_image else ""
        digest = _system_digest(self.question.system).copy()
        digest.update(f"{self.words}\0{image}".encode("utf-8", "replace"))
        return str(digest.hexdigest())[:16]

    @property
    def wanted_temperature(self) -> float | None:
        """The temperature by the settings, whether or not the model takes one."""
        role = self.question.role
        held = self.context.temperatures
        kind = role.seat.partition(":")[0]
        given = held.get(role.seat, held.get(kind, held.get(role.temperature_of)))
        if role.shares_draw_temperature:
            return self.context.draw_temperature if given is None else given
        # A second draw at temperature 0 would be the first one again; but several of a kind can be set apart by hand.
        if self.question.draw and (given is None or kind == role.seat):
            return self.context.draw_temperature
        return role.temperature if given is None else given

    def as_record(self, seconds: float, error: str | None = None) -> JSON:
        """Return the `Call` that this was, as JSON."""
        role = self.question.role
        # What a cache answered, and what a provider declined, was shown too, and no message was taken of it.
        shown = (
            self.shown | self.shown_parts()
            if self.cached or (error or "").startswith(REFUSED)
            else self.shown
        )
        return {
            "id": secrets.token_hex(6),
            "role": role.name,
            "seat": role.seat,
            "model": str(self.model),
            **({"model_class": type(given).__name__} if (given := self.provider.client) else {}),
            "served": label_served(self.served, self.fingerprint),
            "temperature": self.temperature,
            "wanted_temperature": self.wanted_temperature,
            "prompt_sha": self.prompt_hash(),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(seconds, 4),
            "attempts": self.attempts,
            "cached": self.cached,
            "format": self.response_format,
            "key": self.key,
            "shown": sorted(shown),
            "repeat": self.question.repeat,
            "draw": self.question.draw,
            **({"estimated": True} if self.is_estimated else {}),
            **({"emptied": [each.field for each in self.emptied]} if self.emptied else {}),
            "error": error,
        }


@lru_cache(maxsize=64)
def _system_digest(system: str) -> Any:
    """Return the digest of a prompt as far as its standing instructions, to be copied and gone on with."""
    return hashlib.sha256(f"{system}\0".encode("utf-8", "replace"))


def _count_characters(*texts: str) -> tuple[int, int]:
    """Return how many ASCII characters texts have, and how many others."""
    length = sum(map(len, texts))
    ascii_ones = sum(
        len(text) if text.isascii() else len(text.encode("ascii", "ignore")) for text in texts
    )
    return ascii_ones, length - ascii_ones
