"""One exchange with one model, carried to its end: an answer in the form asked for, a refusal, or a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from tribunal.errors import BadModelOutput, CallFailed, Refused
from tribunal.model_objects import fingerprint
from tribunal.models.answer import Unreadable
from tribunal.models.client import ask_client, sees_images, takes_temperature
from tribunal.models.diagnosis import LENGTH, Diagnosis, diagnose, finish_of, refusal_in
from tribunal.models.door import Door
from tribunal.models.exchange import Exchange
from tribunal.models.extra_body import extra_for
from tribunal.models.image import picture
from tribunal.models.providers import Rung
from tribunal.models.providers.completion import Completion
from tribunal.models.room import space_in
from tribunal.models.size import fewest_tokens, repeats_itself
from tribunal.models.tries import tried

if TYPE_CHECKING:
    from tribunal.models.cache import Cache

MOST_OUTPUT_TOKENS = 32_768
# With less room than this an answer isn't asked for.
LEAST_OUTPUT_TOKENS = 256


async def carry_out(exchange: Exchange, door: Door) -> Any:
    """Ask one model until it has answered in the form asked for, refused, or failed.

    Raises:
        Refused, CallFailed, BadModelOutput: as `ask`.
    """
    await prepare(exchange, door)
    if exchange.context.cache is None:
        return await _answered(exchange, door)
    from tribunal.models.cache import cache_here  # SQLite, for those who keep answers

    cache, key = await cache_here(exchange.context.cache), _cache_key(exchange, door)
    value = await _remembered(exchange, cache, key)
    if value is None:
        value = await _answered(exchange, door)
        await _remember(exchange, cache, key)
    return value


async def prepare(exchange: Exchange, door: Door) -> None:
    """Leave out what the model is known not to take, and load the image."""
    model, post, learned = exchange.model, exchange.question.post, door.learned
    client = door.client(model, exchange.provider, door.keys(model, exchange.provider).keys[0])
    exchange.rung = learned.rung(exchange)
    takes_one = (
        exchange.provider.takes_temperature
        and takes_temperature(client)
        and not learned.leaves_out("temperature", exchange)
    )
    exchange.temperature = exchange.wanted_temperature if takes_one else None
    bounds = door.server(exchange.provider).bounds
    exchange.bounds = frozenset() if learned.leaves_out("bounds", exchange) else bounds
    exchange.no_system = learned.leaves_out("system", exchange)
    exchange.extra = extra_for(model, exchange.context.extra_body)
    exchange.stream = not learned.leaves_out("stream", exchange)
    exchange.base_url = door.server(exchange.provider).url
    if post.image is None:
        return
    if not sees_images(client) or learned.leaves_out("image", exchange):
        _make_blind(exchange)
        return
    seen = await picture(post.image.ref, exchange.context.image_edge, sha256=post.image.sha256)
    exchange.image = (seen.data_uri, seen.sha256)


def _make_blind(exchange: Exchange) -> None:
    """Go on without the image, and say so; without a text there is nothing left to go on with."""
    exchange.blind = True
    if not exchange.question.post.text:
        raise CallFailed(f"{exchange.model} can't see images, and the post has no text", kind="blind")
    seat = exchange.question.role.seat
    exchange.warnings.append(f"{seat}: {exchange.model} can't see the image and judged the text alone")


# What is answered


async def _answered(exchange: Exchange, door: Door) -> Any:
    """The form, filled in; asked for again where an answer was cut off, with a higher limit, or can't be read."""
    role = exchange.question.role
    asked_again = False
    while True:
        message = await _message(exchange, door)
        if refusal := refusal_in(message):
            form, words = refusal
            raise Refused(f"the model declined: {words[:300]}", form=form)
        cut = finish_of(message) in LENGTH
        if cut and not role.cut_is_fine and not repeats_itself(exchange.said):
            _give_more_room(exchange, door)
            continue
        try:
            if cut and not role.cut_is_fine:
                raise Unreadable("the answer went on repeating itself until it was cut off")
            return exchange.question.read(exchange.said, exchange.warnings)
        except Unreadable as problem:
            if asked_again:
                raise BadModelOutput(f"the answer could not be read, even when asked again: {problem}") from problem
            asked_again = True
            exchange.ask_again(problem)


def _give_more_room(exchange: Exchange, door: Door) -> None:
    """Let the answer be longer, once, and no longer than the model's context is known to hold."""
    limit, context = exchange.max_output_tokens, door.learned.contexts.get(exchange.model)
    if exchange.cut_at is not None:
        raise BadModelOutput(
            f"the answer was cut off twice, the second time at {exchange.last_completion_tokens or limit} of "
            f"{limit} tokens, after a prompt of {exchange.last_prompt_tokens}"
        )
    exchange.cut_at, most = limit, MOST_OUTPUT_TOKENS
    if context and exchange.last_prompt_tokens:
        most = context - exchange.last_prompt_tokens
        if most <= limit:
            raise BadModelOutput(_no_more_room(limit))
    exchange.max_output_tokens = max(limit, min(limit * 4, most, MOST_OUTPUT_TOKENS))


def _fit_in(exchange: Exchange, door: Door, diagnosis: Diagnosis) -> bool:
    """Ask for no longer an answer than the context has room for; says whether there is room for one."""
    space, limit = space_in(diagnosis.details), exchange.max_output_tokens
    if space.context:
        door.learned.contexts[exchange.model] = space.context
    room = space.left(exchange.last_prompt_tokens)
    if exchange.cut_at is not None:  # this much was refused, and less was too little
        room = limit // 2 if room is None else room
        if not exchange.cut_at < room < limit:
            raise BadModelOutput(_no_more_room(exchange.cut_at))
    elif room is None or not LEAST_OUTPUT_TOKENS <= room < limit:
        return False
    else:
        seat = exchange.question.role.seat
        exchange.warnings.append(f"{seat}: {exchange.model} has room for {room} tokens of answer, and not for {limit}")
    exchange.max_output_tokens = room
    return True


def _no_more_room(limit: int) -> str:
    return f"the answer was cut off at {limit} tokens, and the model's context has room for no more"


async def _message(exchange: Exchange, door: Door) -> Completion:
    """One answer, past every passing fault."""
    pool = door.keys(exchange.model, exchange.provider)

    async def send(number: int) -> Completion | Diagnosis:
        key = pool.keys[number]
        exchange.key = None if key is None else number
        got = await _send(exchange, door, key)
        if isinstance(got, Completion) and exchange.lowered_from:
            return await _tested(exchange, door, key, exchange.lowered_from, got)
        return got

    def adapt(diagnosis: Diagnosis) -> bool:
        return _adapt(exchange, door, diagnosis)

    most_tries = exchange.question.role.tries or exchange.context.attempts
    got = await tried(pool, send, most_tries, adapt)
    if isinstance(got, Completion):
        door.learned.from_answer(exchange)
        return got
    exchange.rung = exchange.lowered_from or exchange.rung
    if got.kind == "refused":
        raise Refused(f"the provider declined: {got.message}", form="safety_error")
    tries = f" ({exchange.attempts} tries)" if got.passes and exchange.attempts > 1 else ""
    where = _address(exchange, door, got.kind) if got.kind in ("connection", "moved") else ""
    raise CallFailed(f"{got.kind.replace('_', ' ')}: {got.message}{tries}{where}", kind=got.kind)


async def _tested(
    exchange: Exchange, door: Door, key: str | None, above: Rung, got: Completion
) -> Completion | Diagnosis:
    """An answer that came below a rung that got bare 500s: held to the test that they were for the format.

    The same request goes out once more at the rung above. The answer below counts only where that gets a bare 500 once
    more, and nobody else was answered there meanwhile; else there was an outage, and the call goes on above.
    """
    below, exchange.rung, exchange.lowered_from, exchange.server_errors = exchange.rung, above, None, 0
    again = await _send(exchange, door, key)
    if isinstance(again, Completion) or not again.bare_500 or not door.learned.may_be_the_format(exchange):
        return again
    exchange.rung, exchange.stood_the_test = below, True
    return got


def _address(exchange: Exchange, door: Door, kind: str) -> str:
    """Where the address of a server comes from that can't be reached, or has moved."""
    provider = exchange.provider
    name = provider.address_setting(door.environment)
    if kind == "moved":
        name = name or next(iter(provider.base_urls), None)
        return f" ({name})" if name else ""
    if name:
        return f"; is its server running? The address is that of {name}"
    own = provider.keyless and provider.base_urls
    return f"; is its server running? {provider.base_urls[0]} sets another address" if own else ""


async def _send(exchange: Exchange, door: Door, key: str | None) -> Completion | Diagnosis:
    """One request, with this key."""
    client, turns = door.client(exchange.model, exchange.provider, key), door.learned.turns[exchange.model]
    turn, timed_out, answered = await turns.take(), False, False
    exchange.attempts += 1
    try:
        async with asyncio.timeout(exchange.context.timeout):
            role = exchange.question.role
            question = exchange.question
            asked = {
                "seat": role.seat,
                "role": role.name,
                "post_id": question.post.id,
                "policy": question.policy.sha,
            }
            options = exchange.options()
            message = await ask_client(
                client, exchange.messages(), options, door.secrets, asked, stream=exchange.stream
            )
        answered = True
    except TimeoutError:
        timed_out = True
        return Diagnosis("timeout", f"no answer within {exchange.context.timeout:g} s. {_SLOW}")
    except Exception as error:  # noqa: BLE001 (every client has a tree of its own; `diagnose` tells them apart)
        shown = "\n".join(words for _, words in exchange.told())
        return diagnose(error, sent=exchange.sent(), secrets=door.secrets, shown=shown)
    finally:
        turns.over(turn, timed_out=timed_out, answered=answered)
    exchange.take(message)
    _notice_a_cut_prompt(exchange, door)
    return message


_SLOW = (
    "The model may be slow or go round in circles, or its server may answer fewer requests at a time than it is sent: "
    "raise --timeout, lower --max-output-tokens or --concurrency, or give the server more slots"
)


def _notice_a_cut_prompt(exchange: Exchange, door: Door) -> None:
    """Warn where a server of one's own has read far less than it was sent: some cut a prompt and don't say so."""
    read = exchange.last_prompt_tokens
    # Of what it has in its cache a server may not count anything; a prompt that was cut fills a whole context.
    if door.server(exchange.provider).keys_wanted or read < _SMALLEST_CONTEXT:
        return
    if read < fewest_tokens(exchange.question.system) + fewest_tokens(exchange.words):
        seat, model = exchange.question.role.seat, exchange.model
        warning = (
            f"{seat}: {model} read {read} tokens of a longer prompt: its server cut the rest; give it more context"
        )
        if warning not in exchange.warnings:
            exchange.warnings.append(warning)


_SMALLEST_CONTEXT = 500


def _adapt(exchange: Exchange, door: Door, diagnosis: Diagnosis) -> bool:
    """Leave out what a server refuses of a request's make-up; says whether to send it again at once.

    What was named is remembered once the request without it is answered.
    """
    if not diagnosis.bare_500:
        exchange.server_errors = 0
    match diagnosis.kind:
        case "format" if exchange.rung != "prompt":
            exchange.step_down()
        case "bounds":
            exchange.bounds = frozenset()
        case "system":
            exchange.no_system = True
        case "too_long":
            return _fit_in(exchange, door, diagnosis)
        case "temperature":
            exchange.temperature = None
        case "stream":
            exchange.stream = False
        case "image" if exchange.model in door.learned.sighted:
            raise CallFailed(f"request: it takes images, but not this one: {diagnosis.message}", kind="request")
        case "image":
            door.learned.refused("image", exchange)  # without a text nothing more is answered
            _make_blind(exchange)
        case _:
            _before_the_next_try(exchange, door, diagnosis)
            return False
    exchange.refused.add(diagnosis.kind)
    return True


def _before_the_next_try(exchange: Exchange, door: Door, diagnosis: Diagnosis) -> None:
    """What is changed of a request whose fault may pass."""
    if diagnosis.kind == "timeout" and exchange.temperature == 0:
        # At this temperature a model that went round in circles does so again.
        exchange.warm_up()
        again = f"no answer in time at temperature 0, asked again at {exchange.temperature:g}"
        exchange.warnings.append(f"{exchange.question.role.seat}: {again}")
    if diagnosis.bare_500 and exchange.rung != "prompt":
        # Some servers answer a format they don't know so, every time. Whether this one does is seen below the rung.
        exchange.server_errors += 1
        if door.learned.may_be_the_format(exchange) and exchange.server_errors >= 2:
            exchange.lowered_from = exchange.lowered_from or exchange.rung
            exchange.step_down()
            exchange.server_errors = 0


# What was answered before


def _cache_key(exchange: Exchange, door: Door) -> str:
    """The call as it is meant, and not as what a server is known to refuse by now has made it: the next process, which
    knows nothing yet, is to find the same answers."""
    from tribunal.models.cache import cache_key

    question, image = exchange.question, exchange.question.post.image
    return cache_key(
        endpoint=door.server(exchange.provider).url,
        model=str(exchange.model),
        system=question.system,
        task=f"{question.shared}\n\n{question.task}" if question.shared else question.task,
        post=question.post.text,
        **({"earlier": question.post.earlier} if question.post.earlier else {}),
        image=image and [image.sha256, exchange.context.image_edge],
        schema=exchange.schema(door.server(exchange.provider).bounds),
        **({"extra_body": exchange.extra} if exchange.extra else {}),
        **({"object": fingerprint(given)} if (given := exchange.provider.client) else {}),
        temperature=exchange.wanted_temperature,
        max_tokens=exchange.max_output_tokens,
        draw=(question.repeat, question.draw),
    )


async def _remembered(exchange: Exchange, cache: Cache, key: str) -> Any:
    """What was answered to the same call before; None where there is nothing, or nothing that can be used."""
    try:
        found = await cache.get(key)
    except OSError as error:
        exchange.warnings.append(f"an answer could not be looked up: {error}")
        return None
    if found is None:
        return None
    try:
        value = exchange.question.read(found.text, exchange.warnings)
    except Unreadable:
        return None
    exchange.cached, exchange.said = True, found.text
    exchange.prompt_tokens, exchange.completion_tokens = found.prompt_tokens, found.completion_tokens
    exchange.rung, exchange.temperature = cast("Rung", found.format), found.temperature
    if found.blind and not exchange.blind:
        _make_blind(exchange)
    return value


async def _remember(exchange: Exchange, cache: Cache, key: str) -> None:
    from tribunal.models.cache import Cached

    kept = Cached(
        exchange.said,
        exchange.prompt_tokens,
        exchange.completion_tokens,
        exchange.rung,
        exchange.temperature,
        exchange.blind,
    )
    try:
        await cache.put(key, kept)
    except OSError as error:
        exchange.warnings.append(f"an answer could not be kept: {error}")
