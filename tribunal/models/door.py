"""The one door to chat models: `ask`.

A role is data: a prompt file, a form to answer in, a temperature, a seat. Everything else about a call is here, once:
which model sits in the seat, structured output and its ladder, refusals, retries, keys, budgets, the cache, and the
record of it all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime
from pydantic import BaseModel
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from tribunal.budget import check_budget
from tribunal.context import REHEARSAL, Context, context_of, dotenv, environment
from tribunal.errors import BadModelOutput, CallFailed, ModelError, Refused
from tribunal.line_up import in_force
from tribunal.loops import PerLoop
from tribunal.models.answer import Unreadable, read_answer
from tribunal.models.cache import Cache, Cached, cache_key
from tribunal.models.diagnosis import LENGTH, Diagnosis, diagnose, finish_of, refusal_in
from tribunal.models.image import picture
from tribunal.models.keys import LONGEST_REST, KeyPool
from tribunal.models.providers import (
    SETTINGS,
    Endpoint,
    ModelName,
    RequestSettings,
    Rung,
    http_client,
    missing_key,
    provider_named,
    sees_images,
    specs,
    takes_temperature,
)
from tribunal.prompts import quote, render, variables
from tribunal.prompts.policy import QUESTIONS, Policy, policy_in_force
from tribunal.schema import JSON, Post, Scheme
from tribunal.text import wellformed

Filled = TypeVar("Filled", bound=BaseModel)
RUNGS: tuple[Rung, ...] = ("json_schema", "json_object", "prompt")
MOST_ROOM = 32_768


@dataclass(frozen=True)
class Role(Generic[Filled]):
    """What a seat is asked to do in one call.

    `form` makes the form of the answer from the policy and the scheme in force; `falls_to` names the setting whose
    model sits here when the seat has none of its own; a `final` role is asked even when the budget is spent. A role
    with `plain` answers in words, which that function reads or finds fault with (ValueError). `room` (tokens) and
    `tries` take the place of the settings where a system sets its own.
    """

    name: str
    seat: str
    prompt: str
    form: Callable[[Policy, Scheme], type[Filled]]
    temperature: float | None
    falls_to: Literal["aux_model", "judge_model", "triage"] = "aux_model"
    system: str = "court"
    final: bool = False
    plain: Callable[[str], Filled] | None = None
    room: int | None = None
    tries: int | None = None


@dataclass(frozen=True)
class Answer(Generic[Filled]):
    """What came back: the form filled in, and the state's update that goes with it: `calls` and `warnings`."""

    value: Filled
    log: JSON = field(default_factory=dict)


async def ask(
    role: Role[Filled],
    state: Mapping[str, Any],
    runtime: Runtime[Context],
    *,
    check: Callable[[Filled], None] | None = None,
    draw: int = 0,
    shared: str = "",
    **material: Any,
) -> Answer[Filled]:
    """Ask the model in the role's seat about the post of this case.

    Args:
        role: what is asked.
        state: the case; `post` and `calls` are read.
        runtime: its context decides on models, policy, budget.
        check: raises ValueError where an answer of the right form is still wrong; the model is then asked again.
        draw: which of several draws of the same call this is.
        shared: what every seat of the case is shown beside the post; it stands before the role's own words, so that
            providers' prompt caches serve it to the next seat.
        material: what the role's prompt is filled with beside the post.

    Raises:
        Refused: every model of the seat declined, or failed after the first had declined.
        BudgetSpent: the post's budget leaves nothing for this seat.
        CallFailed: a technical failure of every model of the seat.
        BadModelOutput: the same, because of what was answered.
    """
    context, door = await in_force(context_of(runtime)), await door_here()
    check_budget(context, role.seat, state, final=role.final)
    post = Post.model_validate(state["post"])
    policy = await policy_in_force(context.policy)
    question = Question(
        role=role,
        form=role.form(policy, context.scheme),
        system=standing_instructions(role.system, policy, context.scheme),
        post=post,
        shared=shared,
        task=render(role.prompt, material),
        material=material,
        policy=policy,
        scheme=context.scheme,
        check=check,
        repeat=context.repeat,
        draw=draw,
    )
    calls: list[JSON] = []
    warnings: list[str] = []
    first: ModelError | None = None
    for spec in door.models_for(context, role.seat, role.falls_to):
        runtime.stream_writer({"event": "asking", "seat": role.seat, "role": role.name, "model": str(spec)})
        exchange = Exchange(spec=spec, question=question, context=context, room=role.room or context.max_output_tokens)
        started = time.perf_counter()
        try:
            value = await door.put(exchange)
        except ModelError as fault:
            fault.seat, fault.role, fault.model = role.seat, role.name, str(spec)
            call = exchange.call(time.perf_counter() - started, error=_kind(fault))
            first = first or fault
        else:
            call = exchange.call(time.perf_counter() - started)
        calls.append(call)
        warnings += exchange.warnings
        runtime.stream_writer({"event": "call", **call, **(exchange.traced if context.trace else {})})
        if call["error"] is None:
            if first is not None:
                warnings.append(f"{role.seat}: {spec} answered in place of {first.model}: {first}")
            return Answer(value, {"calls": calls, "warnings": warnings})
    assert first is not None  # noqa: S101 (a seat has at least one model)
    first.calls, first.warnings = calls, warnings
    raise first


def _kind(fault: ModelError) -> str:
    return f"refused: {fault.form}" if isinstance(fault, Refused) else getattr(fault, "kind", "failed")


@lru_cache(maxsize=64)
def standing_instructions(system: str, policy: Policy, scheme: Scheme) -> str:
    """The part that every call of a system shares, and that providers can therefore cache."""
    of_the_policy = {
        "name": policy.name,
        "definition": policy.definition,
        "exclusions": policy.exclusions,
        "groups": ", ".join(policy.protected_groups),
        "categories": policy.categories(scheme),
        "question": QUESTIONS[policy.task],
        "labels": policy.binary,
    }
    prompt = f"system/{system}"
    return render(prompt, {name: of_the_policy[name] for name in variables(prompt)})


@lru_cache(maxsize=256)
def wire_schema(form: type[BaseModel]) -> JSON:
    """A form's JSON schema as every provider takes it: closed objects, everything required, no bounds but enums."""
    return {"name": form.__name__, "strict": True, "schema": _closed(form.model_json_schema())}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _closed(part) for name, part in value.items()} if key in ("properties", "$defs") else _closed(value)
        for key, value in schema.items()
        if key not in ("title", "default", "maxLength", "minLength", "minItems", "maxItems", "minimum", "maximum")
    }
    if kept.get("type") == "object":
        kept |= {"additionalProperties": False, "required": list(kept.get("properties", {}))}
    return kept


@dataclass(frozen=True)
class Question:
    """One call as it is meant, whichever model is asked."""

    role: Role[Any]
    form: type[BaseModel]
    system: str
    post: Post
    task: str
    material: JSON
    policy: Policy
    scheme: Scheme
    check: Callable[[Any], None] | None
    repeat: int
    draw: int
    shared: str = ""


@dataclass
class Exchange:
    """One call as it goes with one model: what is sent now, and what it has cost so far."""

    spec: ModelName
    question: Question
    context: Context
    room: int
    rung: Rung = "json_schema"
    image: tuple[str, str] | None = None  # data URI, hash of the bytes
    blind: bool = False
    temperature: float | None = None
    afterthought: list[BaseMessage] = field(default_factory=list)
    attempts: int = 0
    server_errors: int = 0
    said_no: bool = False
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
        wanted = RequestSettings(self.rung, wire_schema(self.question.form), self.temperature, self.room)
        return provider_named(self.spec.provider).options(wanted)

    def sent(self) -> set[str]:
        """Which parts of the request a server may refuse by themselves."""
        parts = {"format"} if self.rung != "prompt" else set()
        parts |= {"image"} if self.image and not self.blind else set()
        return parts | ({"temperature"} if self.temperature is not None else set())

    def prompt_sha(self) -> str:
        """A hash of the words and the image that were asked with."""
        image = self.image[1] if self.image and not self.blind else ""
        words = f"{self.question.system}\0{self.asked().text}\0{image}"
        return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def wanted_temperature(self) -> float | None:
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
            "model": str(self.spec),
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


@runtime_checkable
class Direct(Protocol):
    """A client that can be asked without LangChain's callbacks."""

    async def answer(self, messages: list[BaseMessage], **options: Any) -> AIMessage: ...


def listened_to() -> bool:
    """Whether somebody traces this run, or streams its messages: LangSmith, Studio, a callback of the caller's."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    return bool(getattr(callbacks, "handlers", callbacks))


class _Passing(Exception):
    """A fault that may be gone on the next try, after a pause in seconds (None: the usual back-off)."""

    def __init__(self, fault: Diagnosis, pause: float | None = None) -> None:
        super().__init__(fault.message)
        self.fault, self.pause = fault, pause


def _pause(state: RetryCallState) -> float:
    """Seconds until the next try: what the fault asks for, else doubling from half a second, with jitter."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _Passing) and error.pause is not None:
        return error.pause
    return back_off(state.attempt_number)


def back_off(attempt: int) -> float:
    return float(min(20.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25))


class Door:
    """The clients, keys and what has been learned of each model, of one event loop."""

    def __init__(self, beneath: Mapping[str, str]) -> None:
        self._beneath = beneath
        self._seen: dict[str, str] = {}
        self.environment: Mapping[str, str] = {}
        self._http: Any = None
        self._caches: dict[str, Cache] = {}
        self._clients: dict[Endpoint, BaseChatModel] = {}
        self._secrets: set[str] = set()  # of keys that are no longer used too: a call under way may still tell them
        self._forget()
        self.look_around()

    def _forget(self) -> None:
        self._pools: dict[str, KeyPool] = {}
        self._rungs: dict[ModelName, Rung] = {}
        self._bare_500s: dict[ModelName, int] = {}
        self._blind: set[ModelName] = set()
        self._sighted: set[ModelName] = set()
        self._no_temperature: set[ModelName] = set()

    def look_around(self) -> None:
        """Take in the environment as it is now; a new key or address makes new clients (a notebook sets it late)."""
        now = environment(self._beneath)
        matters = {name: value for name, value in now.items() if name.startswith(SETTINGS)}
        if matters != self._seen:
            self._forget()
            self._seen, self.environment = matters, now

    def models_for(self, context: Context, seat: str, falls_to: str) -> tuple[ModelName, ...]:
        """The models of a seat, the first to be asked first."""
        # A seat with a colon is one of a kind: `perspective:kold` falls back to `perspective`.
        own = context.seats.get(seat) or context.seats.get(seat.partition(":")[0])
        if own:
            return specs(own, f"seats.{seat}")
        general = getattr(context, falls_to)
        if general:
            return specs(general, falls_to)
        if context.model:
            return specs(context.model, "model")
        named = self.environment.get("TRIBUNAL_MODEL")
        return specs(named, "TRIBUNAL_MODEL") if named else specs(REHEARSAL, "model")

    def settings_in_play(self, context: Context) -> dict[str, str]:
        """Every setting that names models, so that all can be checked before the first call."""
        named = {"aux_model": context.aux_model, "judge_model": context.judge_model, "model": context.model}
        named |= {"triage": context.triage}
        named |= {f"seats.{seat}": names for seat, names in context.seats.items()}
        if not context.model and not (context.aux_model and context.judge_model):
            named |= {"TRIBUNAL_MODEL": self.environment.get("TRIBUNAL_MODEL") or REHEARSAL}
        return {field: names for field, names in named.items() if names}

    def check_settings(self, context: Context) -> set[ModelName]:
        """Every model that may be asked in this run.

        Raises:
            BadInput: one is no model, or its key is missing.
        """
        found = set()
        for setting, names in self.settings_in_play(context).items():
            for spec in specs(names, setting):
                provider = provider_named(spec.provider)
                if provider.keys_wanted(self.environment) and not provider.key_pool(self.environment):
                    raise missing_key(spec, setting)
                found.add(spec)
        return found

    async def put(self, exchange: Exchange) -> Any:
        """Ask one model until it has answered in the form asked for, refused, or failed.

        Raises:
            Refused, CallFailed, BadModelOutput: as `ask`.
        """
        await self._prepare(exchange)
        cache, key = await self._cache(exchange.context.cache), ""
        if cache:
            key = self._cache_key(exchange)
            if (value := await self._remembered(exchange, cache, key)) is not None:
                return value
        message = await self._reach(exchange)
        value = None
        more_room, asked_again = False, False
        while value is None:
            if refusal := refusal_in(message):
                form, words = refusal
                raise Refused(f"the model declined: {words[:300]}", form=form)
            if finish_of(message) in LENGTH:
                if more_room:
                    raise BadModelOutput(f"the answer was cut off twice, the second time at {exchange.room} tokens")
                more_room, exchange.room = True, max(exchange.room, min(exchange.room * 4, MOST_ROOM))
            else:
                try:
                    value = _checked(exchange, exchange.said)
                    break
                except Unreadable as problem:
                    if asked_again:
                        raise BadModelOutput(
                            f"the answer could not be read, even when asked again: {problem}"
                        ) from problem
                    asked_again = True
                    exchange.afterthought = _ask_again(exchange.said, problem)
            message = await self._reach(exchange)
        if cache:
            try:
                await cache.put(
                    key,
                    Cached(
                        exchange.said,
                        exchange.prompt_tokens,
                        exchange.completion_tokens,
                        exchange.rung,
                        exchange.temperature,
                        exchange.blind,
                    ),
                )
            except OSError as error:
                exchange.warnings.append(f"an answer could not be kept: {error}")
        return value

    async def _remembered(self, exchange: Exchange, cache: Cache, key: str) -> Any:
        """What was answered to the same call before; None where there is nothing, or nothing that can be used."""
        try:
            found = await cache.get(key)
        except OSError as error:
            exchange.warnings.append(f"an answer could not be looked up: {error}")
            return None
        if found is None:
            return None
        try:
            value = _checked(exchange, found.text)
        except Unreadable:
            return None
        exchange.cached, exchange.said = True, found.text
        exchange.prompt_tokens, exchange.completion_tokens = found.prompt_tokens, found.completion_tokens
        exchange.rung, exchange.temperature = cast("Rung", found.format), found.temperature
        if found.blind and not exchange.blind:
            self._cannot_see(exchange)
        return value

    async def _prepare(self, exchange: Exchange) -> None:
        spec, post = exchange.spec, exchange.question.post
        client = self._client(spec, self._pool(spec.provider), 0)
        plain = exchange.question.role.plain is not None
        exchange.rung = "prompt" if plain else self._rungs.get(spec, "json_schema")
        takes_one = spec not in self._no_temperature and takes_temperature(client)
        exchange.temperature = exchange.wanted_temperature if takes_one else None
        if post.image is None:
            return
        exchange.blind = spec in self._blind or not sees_images(client)
        if exchange.blind:
            self._cannot_see(exchange)
            return
        seen = await picture(post.image.ref, exchange.context.image_edge, sha256=post.image.sha256)
        exchange.image = (seen.data_uri, seen.sha256)

    def _cannot_see(self, exchange: Exchange) -> None:
        exchange.blind = True
        if not exchange.question.post.text:
            raise CallFailed(f"{exchange.spec} can't see images, and the post has no text", kind="blind")
        exchange.warnings.append(
            f"{exchange.question.role.seat}: {exchange.spec} can't see the image and judged the text alone"
        )

    def _cache_key(self, exchange: Exchange) -> str:
        """The call as it is meant, and not as what a server is known to refuse by now has made it: the next process,
        which knows nothing yet, is to find the same answers."""
        question, image = exchange.question, exchange.question.post.image
        return cache_key(
            endpoint=provider_named(exchange.spec.provider).base_url(self.environment),
            model=str(exchange.spec),
            system=question.system,
            task=f"{question.shared}\n\n{question.task}" if question.shared else question.task,
            post=question.post.text,
            image=image and [image.sha256, exchange.context.image_edge],
            schema=wire_schema(question.form),
            temperature=exchange.wanted_temperature,
            max_tokens=exchange.room,
            draw=(question.repeat, question.draw),
        )

    async def _reach(self, exchange: Exchange) -> AIMessage:
        """One answer, past every passing fault."""
        try:
            return await self._adapt(exchange)
        except _Passing as passing:
            first = passing
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Passing),
            stop=stop_after_attempt(exchange.question.role.tries or exchange.context.attempts),
            wait=_pause,
            reraise=True,
        )
        try:
            return await retrying(self._again, exchange, [first])
        except _Passing as passing:
            fault = passing.fault
            tries = f" ({exchange.attempts} tries)" if exchange.attempts > 1 else ""
            raise CallFailed(f"{fault.kind.replace('_', ' ')}: {fault.message}{tries}", kind=fault.kind) from None

    async def _again(self, exchange: Exchange, first: list[_Passing]) -> AIMessage:
        """The tries after the first, which was made without the cost of a retrying loop and counts as one of them."""
        if first:
            raise first.pop()
        return await self._adapt(exchange)

    async def _adapt(self, exchange: Exchange) -> AIMessage:
        """One try; what a server refuses of a request's make-up is left out at once, and remembered."""
        spec, pool = exchange.spec, self._pool(exchange.spec.provider)
        other_keys = len(pool.keys) - 1
        while True:
            number = await pool.take()
            exchange.key = number if pool.keys[number] is not None else None
            fault = await self._send(exchange, pool, number)
            if isinstance(fault, AIMessage):
                self._learn_rung(exchange)
                if exchange.image and not exchange.blind:
                    self._sighted.add(spec)
                return fault
            match fault.kind:
                case "format" if exchange.rung != "prompt":
                    exchange.rung, exchange.said_no = RUNGS[RUNGS.index(exchange.rung) + 1], True
                case "temperature":
                    self._no_temperature.add(spec)
                    exchange.temperature = None
                case "image" if spec in self._sighted:
                    raise CallFailed(f"request: it takes images, but not this one: {fault.message}", kind="request")
                case "image":
                    self._blind.add(spec)
                    self._cannot_see(exchange)
                case "authentication" | "quota":
                    pool.retire(number, fault.kind, fault.message)
                case "rate_limit":
                    pause = back_off(exchange.attempts) if fault.retry_after is None else fault.retry_after
                    pool.rest(number, pause)
                    if not (other_keys and pool.rested()):
                        raise _Passing(fault, 0.0)
                    other_keys -= 1  # another key can be used at once, which is no new try
                case "server" | "timeout" | "connection":
                    exchange.server_errors += fault.kind == "server"
                    if exchange.server_errors >= 2 and exchange.rung != "prompt":
                        # Some servers answer a format they don't know with a bare 500, every time.
                        exchange.rung, exchange.server_errors = RUNGS[RUNGS.index(exchange.rung) + 1], 0
                    if (fault.retry_after or 0) > LONGEST_REST:
                        raise CallFailed(f"{fault.message}: asks to wait {fault.retry_after:.0f} s", kind=fault.kind)
                    raise _Passing(fault, fault.retry_after)
                case "refused":
                    raise Refused(f"the provider declined: {fault.message}", form="safety_error")
                case _:
                    raise CallFailed(f"{fault.kind.replace('_', ' ')}: {fault.message}", kind=fault.kind)

    def _learn_rung(self, exchange: Exchange) -> None:
        """Start lower next time, where a server said no to a format, or has given bare 500s to it time and again."""
        if exchange.question.role.plain:
            return
        spec, known = exchange.spec, self._rungs.get(exchange.spec, "json_schema")
        if RUNGS.index(exchange.rung) <= RUNGS.index(known):
            self._bare_500s.pop(spec, None)
            return
        self._bare_500s[spec] = self._bare_500s.get(spec, 0) + 1
        if exchange.said_no or self._bare_500s[spec] >= 3:
            self._rungs[spec] = exchange.rung

    async def _send(self, exchange: Exchange, pool: KeyPool, number: int) -> AIMessage | Diagnosis:
        client = self._client(exchange.spec, pool, number)
        options = exchange.options()
        if provider_named(exchange.spec.provider).sees_question:
            options["question"] = exchange.question
        exchange.attempts += 1
        try:
            async with asyncio.timeout(exchange.context.timeout):
                message = await self._answered(client, exchange.messages(), options)
        except TimeoutError:
            return Diagnosis("timeout", f"no answer within {exchange.context.timeout:g} s")
        except NotImplementedError:
            raise  # the rehearsal model's, where a part is missing: a fault of ours, and no fault of a server
        except Exception as error:  # noqa: BLE001 (every client has a tree of its own; `diagnose` tells them apart)
            return diagnose(error, sent=exchange.sent(), secrets=self._secrets)
        if usage := message.usage_metadata:
            exchange.prompt_tokens += usage["input_tokens"]
            exchange.completion_tokens += usage["output_tokens"]
            exchange.cached_tokens += (usage.get("input_token_details") or {}).get("cache_read") or 0
        exchange.said = wellformed(message.text)
        return message

    async def _answered(self, client: BaseChatModel, messages: list[BaseMessage], options: JSON) -> AIMessage:
        """What the client says; past LangChain's callbacks where nobody listens to them, which is most of its cost."""
        if isinstance(client, Direct) and not listened_to():
            return await client.answer(messages, **options)
        return await client.ainvoke(messages, **options)

    def _pool(self, provider: str) -> KeyPool:
        if provider not in self._pools:
            keys = provider_named(provider).key_pool(self.environment)
            self._secrets.update(keys)
            self._pools[provider] = KeyPool(provider, keys)
        return self._pools[provider]

    def _client(self, spec: ModelName, pool: KeyPool, number: int) -> BaseChatModel:
        provider = provider_named(spec.provider)
        endpoint = Endpoint(spec, provider.base_url(self.environment), pool.keys[number])
        if endpoint not in self._clients:
            if self._http is None and provider.shares_http:
                self._http = http_client()
            self._clients[endpoint] = provider.make(endpoint, self._http)
        return self._clients[endpoint]

    async def _cache(self, path: str | None) -> Cache | None:
        if path is None:
            return None
        await self.open_cache(path)
        return self._caches[path]

    async def open_cache(self, path: str) -> None:
        """Open a cache off the event loop, before the first call needs it.

        Raises:
            BadInput: it can't be used.
        """
        if path not in self._caches:
            opened = await asyncio.to_thread(Cache, path)
            if self._caches.setdefault(path, opened) is not opened:
                opened.close()  # another post was quicker

    async def close(self) -> None:
        for endpoint, client in self._clients.items():
            if close := provider_named(endpoint.spec.provider).close:
                await close(client)
        if self._http is not None:
            await self._http.close()
        for cache in self._caches.values():
            cache.close()


def _checked(exchange: Exchange, text: str) -> Any:
    plain = exchange.question.role.plain
    value = (
        _in_words(plain, text) if plain else read_answer(text, exchange.question.form, post=exchange.question.post.text)
    )
    if exchange.question.check:
        try:
            exchange.question.check(value)
        except ValueError as problem:
            raise Unreadable(str(problem)) from problem
    return value


def _in_words(plain: Callable[[str], Any], text: str) -> Any:
    try:
        return plain(text)
    except ValueError as problem:
        raise Unreadable(str(problem)) from problem


def _ask_again(said: str, problem: Unreadable) -> list[BaseMessage]:
    return [
        AIMessage(said or "(nothing)"),
        HumanMessage(
            f"Your answer could not be used:\n\n{quote('problem', str(problem))}\n\n"
            "Answer again, in the form that was asked for and with nothing else."
        ),
    ]


async def _open_door() -> Door:
    return Door(await asyncio.to_thread(dotenv))


_doors = PerLoop(_open_door, Door.close)


async def door_here() -> Door:
    """The door of the running event loop, opened at its first use and closed with the loop."""
    return await _doors.here()
