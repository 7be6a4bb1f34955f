"""Taking a post in: everything that can be wrong with it, or with the settings, is found here, before any call."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import ValidationError

from tribunal.context import Context, context_given, describe, kept_settings
from tribunal.errors import BadInput
from tribunal.heeding import refuse_stops, refuse_unheeded, refuse_unknown_stops
from tribunal.language import language_of
from tribunal.line_up import filled_in, source
from tribunal.models.door import door_here
from tribunal.models.image import Picture, kept_picture, picture
from tribunal.models.seating import check_models
from tribunal.nodes.agents import node
from tribunal.nodes.certainty import misfits, threshold_source
from tribunal.nodes.chat import joined, sent_in, taken
from tribunal.nodes.state import Court, PostInput
from tribunal.prompts.in_force import prompts_in_force
from tribunal.prompts.policy import policy_in_force
from tribunal.rehearsed import REHEARSAL
from tribunal.schema import JSON, Appeal, Image, Post
from tribunal.stops import can_stop
from tribunal.store.ids import new_id
from tribunal.systems import system_of
from tribunal.text import wellformed
from tribunal.threshold import threshold_from
from tribunal.tracing import label_graph_run
from tribunal.trust import for_clients

MOST_EARLIER = 20  # earlier posts of a conversation


class Receive(Protocol):
    """A node that takes a post in."""

    async def __call__(self, state: Court, runtime: Runtime[Context]) -> JSON: ...


@node
async def receive(state: Court, runtime: Runtime[Context]) -> JSON:
    """Take a post in, in a pipeline of one's own, which decides on hate speech and may heed any setting.

    Raises:
        BadInput: the field, the value, and the way out.
    """
    if (task := context_given(runtime).task) != "hate":
        raise BadInput(
            f"task: {task!r}: this graph decides on hate speech alone; mv_debate, baseline, self_consistency and "
            "symmetric_debate take every task"
        )
    if not can_stop(runtime):
        refuse_stops(context_given(runtime))
    return await _taken_in(state, runtime)


def received_by(graph: str) -> Receive:
    """`receive` for one of our own graphs, or a `System`'s: it also refuses every setting that the graph doesn't heed.

    Args:
        graph: its name, or the system's.
    """

    @node
    @functools.wraps(receive)
    async def receive_here(state: Court, runtime: Runtime[Context]) -> JSON:
        given = context_given(runtime)
        refuse_unheeded(graph, given, can_stop=can_stop(runtime))
        if given.stops:
            await asyncio.to_thread(refuse_unknown_stops, graph, given)  # which reads the files of the graph
        return await _taken_in(state, runtime, graph)

    return receive_here


async def _taken_in(state: Court, runtime: Runtime[Context], graph: str | None = None) -> JSON:
    """Check the post and the settings, and clear what an earlier case left on this thread."""
    given = context_given(runtime)
    line_up, door = await source(given, afresh=True), await door_here()
    context = filled_in(given, line_up)
    door.look_around()
    messages = joined([], state.get("messages"))
    sent = _sent(state, messages)
    text, ref = _checked_text(sent, context), _checked_ref(sent)
    if not text.strip() and ref is None:
        raise BadInput("text: there is neither a text nor an image; give one or both")
    earlier, appeal = _checked_earlier(state, context), _checked_appeal(state, context)
    models = check_models(context, door.environment)
    policy = await policy_in_force(context.policy)
    if policy.task != context.task:
        raise BadInput(
            f"policy: {context.policy}: is one for the task {policy.task}, and the task is {context.task}; set both "
            "alike, or leave the policy out"
        )
    system = graph if graph and system_of(graph) else None
    prompts = await prompts_in_force(context.prompts, afresh=True, system=system)
    texts = {"line_up": line_up, "threshold_file": await threshold_source(context, afresh=True)}
    held: JSON = {name: text for name, text in texts.items() if text is not None}
    warnings = _misfits(held, graph, context, policy.sha)
    if system:
        held["system"] = system
    if prompts.own:
        held["prompts"] = dict(prompts.own)
    if for_clients():
        held["case"] = new_id()  # a thread may have one case after the other
    if context.cache:
        from tribunal.models.cache import cache_here  # SQLite, for those who keep answers

        await cache_here(context.cache)
    image: Image | None = None
    if ref is not None:
        image = (await _looked_at(ref, context.image_edge)).image
        ref = image.ref
    said = _checked_name(state, "language")
    # The rehearsal model reads English alone; to read what tells languages apart would double its time to a verdict.
    told_by = "" if set(map(str, models)) == {REHEARSAL} else text
    language, language_from = await language_of(said, told_by)
    post = Post(
        id=_checked_name(state, "post_id") or _id_of(text, image.sha256 if image else "", earlier),
        text=text,
        image=image,
        language=language,
        language_from=language_from,
        earlier=earlier,
        appeal=appeal,
    )
    label_graph_run(graph=graph, post_id=post.id, policy=policy.sha)
    return {
        "image": ref if sent is state else None,
        **({"messages": Overwrite(taken(messages, text, pictured=ref is not None))} if messages else {}),
        "post": post.dump(),
        "context": {"settings": kept_settings(given), "policy": policy.source, **held},
        "policy": {"name": policy.name, "sha": policy.sha},
        "prompts": prompts.dump(),
        "round": 0,
        **{name: clean for name, clean in _CLEAN.items() if state.get(name)},
        "warnings": Overwrite(warnings),
    }


def _misfits(held: JSON, graph: str | None, context: Context, policy_sha: str) -> list[str]:
    """What the fitted threshold, if there is one, was fitted to and this case isn't."""
    if "threshold_file" not in held:
        return []
    return misfits(threshold_from(str(context.threshold_file), held["threshold_file"]), graph, context, policy_sha)


# What an earlier case on the same thread may have left. A channel that holds nothing is left alone: each write costs.
_CLEAN: JSON = {
    "scan": [],
    "cues": None,
    "transcript": Overwrite([]),
    "track": None,
    "calls": Overwrite([]),
    "budget_spent": False,
    "outcome": None,
    "evidence": Overwrite([]),
    "opinions": Overwrite([]),
    "precedents": [],
    "saved": [],
    "question": None,
    "early_exit": False,
    "reserved": 0,
    "budget_from": 0,
}


async def _looked_at(ref: str, edge: int) -> Picture:
    """The image of a post. What came in the post or from the web becomes a file of the data folder."""
    if ref.startswith("data:"):
        return await kept_picture(ref, edge)
    if not ref.casefold().startswith(("http://", "https://")):
        return await picture(ref, edge)
    from tribunal.retrievers.web.fetch.errors import FetchError  # the web, for those whose image lies there
    from tribunal.retrievers.web.fetch.kinds import IMAGES
    from tribunal.retrievers.web.library import web_reader

    try:
        page = await (await web_reader()).fetcher.fetch(ref, accept=IMAGES)
    except FetchError as error:
        raise BadInput(f"image: {ref[:200]}: {error.reason}: {error}; download it and give the file") from error
    return await kept_picture(ref, edge, page.body)


def _sent(state: PostInput, messages: Sequence[JSON]) -> PostInput:
    """What was sent, with the post's own fields filled from the message that it came in, where it came in one."""
    message = sent_in(messages)
    if message is None:
        return state
    if state.get("text") or state.get("image"):
        raise BadInput(
            "messages: this thread holds a post as text or image, and another one in a message; give one of the two, "
            "and begin a new thread to change from one way to the other"
        )
    return {**state, "text": message.text, "image": message.image}


def _checked_text(state: PostInput, context: Context) -> str:
    text: Any = state.get("text")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadInput(f"text: {type(text).__name__}: is not a text; give a string")
    if len(text) > context.max_text:
        raise BadInput(
            f"text: {len(text)} characters: over the {context.max_text} that are taken; shorten it, or raise max_text"
        )
    return wellformed(text)


def _checked_ref(state: PostInput) -> str | None:
    ref: Any = state.get("image")
    if ref is None or ref == "":
        return None
    if not isinstance(ref, str):
        raise BadInput(f"image: {type(ref).__name__}: is not a reference; give a path or a data URI")
    if wellformed(ref) != ref:
        raise BadInput(f"image: {wellformed(ref)[:80]}: the name can't be written as text; rename the file")
    return ref


def _checked_earlier(state: PostInput, context: Context) -> tuple[str, ...]:
    earlier: Any = state.get("earlier")
    if earlier is None:
        return ()
    if not isinstance(earlier, list | tuple) or not all(isinstance(each, str) for each in earlier):
        raise BadInput("earlier: is not a list of texts; give the earlier posts of the conversation, the oldest first")
    kept = tuple(wellformed(each) for each in earlier if each.strip())
    if len(kept) > MOST_EARLIER:
        raise BadInput(f"earlier: {len(kept)} posts: over the {MOST_EARLIER} that are taken; give the last ones")
    if (length := sum(map(len, kept))) > context.max_text:
        raise BadInput(
            f"earlier: {length} characters: over the {context.max_text} that are taken; give the last posts, or raise "
            "max_text"
        )
    return kept


def _checked_appeal(state: PostInput, context: Context) -> Appeal | None:
    given: Any = state.get("appeal")
    if given is None:
        return None
    try:
        appeal = Appeal.model_validate(given)
    except ValidationError as error:
        raise BadInput(f"appeal: {describe(error)}") from error
    said = Appeal(reason=wellformed(appeal.reason.strip()), context=wellformed(appeal.context.strip()))
    if not said.reason:
        raise BadInput("appeal.reason: is empty; say why the verdict is wrong")
    if (length := len(said.reason) + len(said.context)) > context.max_text:
        raise BadInput(f"appeal: {length} characters: over the {context.max_text} that are taken; shorten it")
    return said


def _checked_name(state: PostInput, field: Literal["post_id", "language"]) -> str | None:
    name: Any = state.get(field)
    if name is None:
        return None
    if not isinstance(name, str):
        raise BadInput(f"{field}: {type(name).__name__}: is not a text; give a string, or leave it out")
    return wellformed(name)


async def name_post(given: PostInput, context: Context) -> str | None:
    """Return the id that `receive` gives a post; None where it isn't known yet, or the post is wrong.

    Args:
        given: the post, as a graph is given it.
        context: its settings.
    """
    try:
        if name := _checked_name(given, "post_id"):
            return name
        text, ref = _checked_text(given, context), _checked_ref(given)
        if ref is not None and ref.casefold().startswith(("http://", "https://")):
            return None  # the id is that of the image's bytes, which nobody has fetched yet
        seen = "" if ref is None else (await picture(ref, context.image_edge)).image.sha256
        return _id_of(text, seen, _checked_earlier(given, context))
    except BadInput:
        return None  # `receive` says what is wrong


def _id_of(text: str, image_sha256: str, earlier: Sequence[str]) -> str:
    """Return an id: the same post in the same conversation always gets the same."""
    content = "\n".join((image_sha256, text, *map(repr, earlier))).encode()
    return "post-" + hashlib.sha256(content).hexdigest()[:12]
