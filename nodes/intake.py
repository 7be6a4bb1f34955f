"""Taking a post in: everything that can be wrong with it, or with the settings, is found here, before any call."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite
from pydantic import ValidationError

from tribunal.core.calls import REHEARSAL
from tribunal.core.language import language_of_post
from tribunal.core.text import REPLACED, wellformed
from tribunal.core.times import new_id
from tribunal.errors import BadInput
from tribunal.models.image import Picture, load_picture, store_picture
from tribunal.models.registry import check_models, current_registry
from tribunal.models.stops import can_stop
from tribunal.nodes.agents import node
from tribunal.nodes.channels import merge_messages, messages_taken_in, post_in_messages
from tribunal.nodes.state import CaseRuntime, CaseState, PostInput
from tribunal.nodes.threshold import THRESHOLDS, parse_threshold
from tribunal.nodes.verdict import describe_misfits
from tribunal.process.model_objects import object_names
from tribunal.prompts.catalogue import load_form_texts
from tribunal.prompts.policy import policy_in_force, redefine_policy
from tribunal.prompts.set_file import warn_of_other_models
from tribunal.prompts.sets import load_prompts
from tribunal.schema import JSON, Appeal, Image, Post
from tribunal.settings.base import EveryGraph
from tribunal.settings.contents import LINE_UPS, apply_line_up_text
from tribunal.settings.context import (
    Context,
    context_of_run,
    refuse_configurable,
    refuse_stops,
    refuse_unused_settings,
    settings_for_record,
    settings_of,
)
from tribunal.settings.graph_settings import GRAPHS
from tribunal.settings.systems import system_of
from tribunal.settings.validation import describe_validation_error
from tribunal.trust import for_clients, for_strangers

_REPAIRED = "holds U+FFFD in place of characters that can't be read, stored or sent"
_received: list[tuple[object, str | type[EveryGraph]]] = []  # the nodes that `received_by` has made
MOST_EARLIER = 20  # earlier posts of a conversation


class Receive(Protocol):
    """A node that takes a post in."""

    async def __call__(self, state: CaseState, runtime: CaseRuntime) -> JSON:
        """Take a post in."""


@node
async def receive(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Take a post in, in a custom pipeline, which decides on hate speech and may use any setting.

    Raises:
        BadInput: the field, the value, and the way out.
    """
    task = context_of_run(runtime).task
    if task != "hate":
        raise BadInput(
            f"task: {task!r}: this graph decides on hate speech alone; mv_debate, baseline, self_consistency and "
            "symmetric_debate take every task"
        )
    if not can_stop(runtime):
        refuse_stops(context_of_run(runtime))
    return await _take_post_in(state, runtime)


def received_by(graph: str | type[EveryGraph]) -> Receive:
    """Return `receive` for one graph, which also refuses settings without effect on it.

    Args:
        graph: the name of one of our graphs or of a `System`; or the settings class of a composed graph.
    """
    name = graph if isinstance(graph, str) else None
    load_form_texts(graph if isinstance(graph, str) else graph.graph)

    @node
    @functools.wraps(receive)
    async def receive_here(state: CaseState, runtime: CaseRuntime) -> JSON:
        given = context_of_run(runtime)
        refuse_unused_settings(graph, given, can_stop=can_stop(runtime))
        if given.stops:
            settings = settings_of(graph) if isinstance(graph, str) else graph
            await asyncio.to_thread(settings.refuse_unknown_stops, given.stops)
        return await _take_post_in(state, runtime, name)

    _received.append((receive_here, graph))
    return receive_here


def graph_received(node: object) -> str | type[EveryGraph] | None:
    """Return the graph that a `receive` was made for, as in `received_by`; None for another node.

    Plain `receive` is for any graph: it takes every setting, by the class `Context`.
    """
    if node is receive:
        return Context
    return next((graph for each, graph in _received if each is node), None)


def begin_graph(graph: str, state: type[CaseState], output: Any) -> StateGraph[Any, Any, Any, Any]:
    """Return the builder of one of our graphs, whose first node, `receive`, takes the post in.

    Args:
        graph: its name.
        state: the channels of its state.
        output: the channels that it returns.
    """
    settings: Any = settings_of(graph)
    builder = StateGraph(
        state, context_schema=settings, input_schema=PostInput, output_schema=output
    )
    builder.add_node("receive", received_by(graph))
    builder.add_edge(START, "receive")
    return builder


async def _take_post_in(state: CaseState, runtime: CaseRuntime, graph: str | None = None) -> JSON:
    """Check the post and the settings, and clear the state of an earlier case on this thread."""
    given = context_of_run(runtime)
    _check_configurable(runtime.context, own_nodes=graph not in GRAPHS)
    line_up = await LINE_UPS.load(given.line_up, afresh=True) if given.line_up else None
    context = apply_line_up_text(given, line_up) if line_up else given
    door = await current_registry()
    door.refresh_environment()
    await door.refresh_exams()
    messages = merge_messages([], state["messages"]) if state.get("messages") else []
    sent = _post_as_sent(state, messages) if messages else state
    text = _checked_text(sent, context)
    ref = _checked_ref(sent)
    if not text.strip() and ref is None:
        raise BadInput("text: there is neither a text nor an image; give one or both")
    earlier = _checked_earlier(state, context)
    appeal = _checked_appeal(state, context)
    models = check_models(context, door.environment)
    from_file = await policy_in_force(context.policy)
    policy = redefine_policy(from_file, context.policy_definition)
    if policy.task != context.task:
        raise BadInput(
            f"policy: {context.policy}: is one for the task {policy.task}, and the task is {context.task}; set both "
            "alike, or leave the policy out"
        )
    system = graph if graph and graph not in GRAPHS and system_of(graph) else None
    prompts = await load_prompts(
        context.prompts, afresh=True, system=system, edits=context.prompt_texts
    )
    threshold = await _threshold_file_text(context)
    own = dict(prompts.own) or None
    texts = {
        "graph": graph,
        "line_up": line_up,
        "threshold_file": threshold,
        "system": system,
        "prompts": own,
    }
    held: JSON = {name: value for name, value in texts.items() if value is not None}
    warnings = list[str]()
    if threshold and context.threshold is None:  # else the file calibrates, and promises nothing
        fitted = parse_threshold(threshold, str(context.threshold_file))
        warnings = describe_misfits(fitted, graph, context, policy.sha)
    warnings += warn_of_other_models(prompts.name, prompts.file, models)
    if for_clients():
        held["case"] = new_id()  # a thread may have one case after the other
    if context.cache:
        from tribunal.models.cache import open_cache  # SQLite, for those who keep answers

        await open_cache(context.cache)
    image: Image | None = None
    if ref is not None:
        picture = await _load_picture(ref, context.image_edge)
        image = picture.image
        ref = image.ref
        warnings += picture.notes
    name = _checked_name(state, "post_id")
    post_texts = {"text": text, "earlier": "".join(earlier), "post_id": name or ""}
    post_texts["appeal"] = appeal.reason + appeal.context if appeal else ""
    warnings += [
        f"{field}: {_REPAIRED}" for field, value in post_texts.items() if REPLACED in value
    ]
    named = _checked_name(state, "language")
    # The rehearsal model reads English alone; to read what tells languages apart would double its time to a verdict.
    words = "" if set(map(str, models)) == {REHEARSAL} else text
    language, language_from = (
        await language_of_post(named, words) if named or words else (None, None)
    )
    post = Post(
        id=name or _id_of(text, image.sha256 if image else "", earlier),
        text=text,
        image=image,
        language=language,
        language_from=language_from,
        earlier=earlier,
        appeal=appeal,
    )
    _label_run(graph=graph, post_id=post.id, policy=policy.sha)
    return {
        "image": ref if sent is state else None,
        **(
            {"messages": Overwrite(messages_taken_in(messages, text, pictured=ref is not None))}
            if messages
            else {}
        ),
        "post": post.dump(),
        "context": {"settings": settings_for_record(given), "policy": from_file.source, **held},
        "policy": {"name": policy.name, "sha": policy.sha},
        "prompts": prompts.dump(),
        "round": 0,
        **{name: clean for name, clean in _CLEAN.items() if state.get(name)},
        **(_CLEAN_IF_THERE if state.get("post") else {}),
        "warnings": Overwrite(warnings),
    }


def _check_configurable(context: Any, *, own_nodes: bool) -> None:
    """Refuse settings in `configurable`, unless the run is somebody else's graph, which may have names of its own."""
    configurable = get_config().get("configurable", {})
    is_inside_parent = "|" in configurable.get("checkpoint_ns", "")
    if is_inside_parent or not isinstance(context, EveryGraph | None):
        return
    models = own_nodes or (context is not None and bool(object_names(dict(context))))
    refuse_configurable(configurable, context, models=models)


def _label_run(**metadata: str | None) -> None:
    """Add metadata to LangSmith's run of this node, if there is one.

    A run that `tribunal.docket` begins has it from its start. One that a LangGraph server or `graph.ainvoke` begins has
    it here, once the post is known.
    """
    from langsmith import get_current_run_tree

    run = get_current_run_tree()
    if run is not None:
        run.add_metadata({name: value for name, value in metadata.items() if value})


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
    "reading": "",
    "reserved": 0,
    "budget_from": 0,
}
# The same of channels that only some graphs have. LangGraph leaves out those that this graph doesn't have.
_CLEAN_IF_THERE: JSON = {
    **{
        name: Overwrite([])
        for name in (
            "absent",
            "tried",
            "pages",
            "plans",
            "judgements",
            "debate",
            "dropped",
            "trials",
        )
    },
    "run": "",
    "turn": 0,
    "sufficient": None,
    "review": None,
}


async def _threshold_file_text(context: Context) -> str | None:
    """Return the current text of the run's threshold file; None if the run names no file."""
    name = context.threshold_file
    return await THRESHOLDS.load(name, afresh=True) if name else None


async def _load_picture(ref: str, edge: int) -> Picture:
    """Return the image of a post. What came in the post or from the web becomes a file of the data folder."""
    if ref.startswith("data:"):
        return await store_picture(ref, edge)
    if not ref.casefold().startswith(("http://", "https://")):
        return await load_picture(ref, edge)
    # the web, for those whose image lies there
    from tribunal.retrievers.web.fetch import FetchError
    from tribunal.retrievers.web.fetch.fetcher import IMAGES
    from tribunal.retrievers.web.fetch.target import parse_url
    from tribunal.retrievers.web.library import open_web_reader

    try:
        fetcher = (await open_web_reader()).fetcher
        target = parse_url(ref)
        if for_strangers() and target.scheme != "https" and target.place not in fetcher.allow:
            raise BadInput(
                f"image: {ref[:200]}: is not https; send its https address or a data URI, or ask the operator, who "
                f"allows a place with TRIBUNAL_FETCH_ALLOW={target.place}"
            )
        page = await fetcher.fetch(ref, accept=IMAGES)
    except FetchError as error:
        raise BadInput(
            f"image: {ref[:200]}: {error.reason}: {error}; download it and give the file"
        ) from error
    return await store_picture(ref, edge, page.body)


def _post_as_sent(state: PostInput, messages: Sequence[JSON]) -> PostInput:
    """If the post came as a chat message, copy the message's text and image into the post's own fields."""
    message = post_in_messages(messages)
    if message is None:
        return state
    if state.get("text") or state.get("image"):
        raise BadInput(
            "messages: this thread holds a post as text or image, and another one in a message; give one of the two, "
            "and begin a new thread to change from one way to the other"
        )
    return {**state, "text": message.text, "image": message.image}


def _checked_string(
    state: PostInput, field: Literal["text", "image", "post_id", "language"], way: str
) -> str | None:
    """Return a field as it was given; None if it wasn't.

    Raises:
        BadInput: it is something else; `way` says what, and the way out.
    """
    value: Any = state.get(field)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{field}: {type(value).__name__}: {way}")
    return value


def _checked_text(state: PostInput, context: Context) -> str:
    text = _checked_string(state, "text", "is not a text; give a string") or ""
    if len(text) > context.max_text:
        raise BadInput(
            f"text: {len(text)} characters: over the {context.max_text} that are taken; shorten it, or raise max_text"
        )
    return wellformed(text)


def _checked_ref(state: PostInput) -> str | None:
    ref = _checked_string(state, "image", "is not a reference; give a path or a data URI")
    if ref and wellformed(ref) != ref:
        raise BadInput(
            f"image: {wellformed(ref)[:80]}: the name can't be written as text; rename the file"
        )
    return ref or None


def _checked_name(state: PostInput, field: Literal["post_id", "language"]) -> str | None:
    name = _checked_string(state, field, "is not a text; give a string, or leave it out")
    return name and wellformed(name)


def _checked_earlier(state: PostInput, context: Context) -> tuple[str, ...]:
    earlier: Any = state.get("earlier") or ()
    if not isinstance(earlier, list | tuple) or not all(isinstance(each, str) for each in earlier):
        raise BadInput(
            "earlier: is not a list of texts; give the earlier posts of the conversation, the oldest first"
        )
    kept = tuple(wellformed(each) for each in earlier if each.strip())
    if len(kept) > MOST_EARLIER:
        raise BadInput(
            f"earlier: {len(kept)} posts: over the {MOST_EARLIER} that are taken; give the last ones"
        )
    length = sum(map(len, kept))
    if length > context.max_text:
        over = f"over the {context.max_text} that are taken"
        raise BadInput(
            f"earlier: {length} characters: {over}; give the last posts, or raise max_text"
        )
    return kept


def _checked_appeal(state: PostInput, context: Context) -> Appeal | None:
    given: Any = state.get("appeal")
    if given is None:
        return None
    try:
        appeal = Appeal.model_validate(given)
    except ValidationError as error:
        raise BadInput(f"appeal: {describe_validation_error(error)}") from error
    said = Appeal(
        reason=wellformed(appeal.reason.strip()), context=wellformed(appeal.context.strip())
    )
    if not said.reason:
        raise BadInput("appeal.reason: is empty; say why the verdict is wrong")
    length = len(said.reason) + len(said.context)
    if length > context.max_text:
        raise BadInput(
            f"appeal: {length} characters: over the {context.max_text} that are taken; shorten it"
        )
    return said


async def name_post(given: PostInput, context: Context) -> str | None:
    """Return the id that `receive` gives a post; None where it isn't known yet, or the post is wrong.

    Args:
        given: the post, as a graph is given it.
        context: its settings.
    """
    try:
        name = _checked_name(given, "post_id")
        if name:
            return name
        text = _checked_text(given, context)
        ref = _checked_ref(given)
        if ref is not None and ref.casefold().startswith(("http://", "https://")):
            return None  # the id is that of the image's bytes, which nobody has fetched yet
        seen = "" if ref is None else (await load_picture(ref, context.image_edge)).image.sha256
        return _id_of(text, seen, _checked_earlier(given, context))
    except BadInput:
        return None  # `receive` says what is wrong


def _id_of(text: str, image_sha256: str, earlier: Sequence[str]) -> str:
    """Return an id: the same post in the same conversation always gets the same."""
    content = "\n".join((image_sha256, text, *map(repr, earlier))).encode()
    return "post-" + hashlib.sha256(content).hexdigest()[:12]
