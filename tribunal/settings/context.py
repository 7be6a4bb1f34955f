"""The settings of a case: `Context`, which has the settings of every graph, and the values in force in a run.

What a run sets here takes precedence over the environment, and the environment over defaults
(`tribunal.settings.environment`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, final

from tribunal.core.calls import JSON
from tribunal.core.text import parse_json, shorten_repr
from tribunal.errors import BadInput
from tribunal.settings.base import COMPOSED, GRAPH_SETTINGS, PLACES, EveryGraph
from tribunal.settings.client_settings import check_request
from tribunal.settings.graph_settings import (
    SETTINGS,
    AntihateSettings,
    MvDebateSettings,
    PredictSettings,
    SelfConsistencySettings,
    SymmetricDebateSettings,
    TribunalSettings,
    describe_setting,
)
from tribunal.settings.names import MODE_WORDS, POLICIES, Mode, Task
from tribunal.trust import ALLOW, settings_come_from_clients

if TYPE_CHECKING:
    from langgraph.runtime import Runtime
    from typing_extensions import Unpack

    from tribunal.typed_names import SettingsKeywords


@final
class Context(  # type: ignore[misc]  # each base has a `model_construct` of its own fields
    MvDebateSettings,
    SelfConsistencySettings,
    SymmetricDebateSettings,
    AntihateSettings,
    PredictSettings,
    TribunalSettings,
):
    """The settings of a case: the models of its seats, its rounds, its policy, and its budget.

    It has the settings of every graph, for callers that name no graph and for nodes that serve several. A graph refuses
    those that it doesn't have, and a setting that it doesn't have is at its default here.
    """

    graph = ""
    seated: ClassVar[tuple[str, ...]] = ()
    modes: ClassVar[tuple[Mode, ...]] = tuple(MODE_WORDS)

    if TYPE_CHECKING:

        def __init__(self, **settings: Unpack[SettingsKeywords]) -> None:
            """Take the settings by name; a model may be an object."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Refuse a subclass: its own fields fit into no case and no record.

        Raises:
            BadInput: always.
        """
        raise BadInput(
            f"{cls.__name__}: Context can't be subclassed; write a dataclass of your own with a field "
            "`tribunal: Context`, and give it as context_schema"
        )

    def idle_settings(self) -> Iterator[tuple[Any, str]]:
        """Nothing is idle while no graph is named."""
        yield from ()

    @classmethod
    def describe_field(cls, name: str) -> str:
        """Return the description of a setting in a form, with the graphs that have it."""
        return describe_setting(name)


def context_from(values: Mapping[str, Any]) -> Context:
    """Return the context of these values.

    Raises:
        BadInput: naming the first wrong field, its value, and the allowed values.
    """
    return Context(**values)


def settings_of(graph: str) -> type[EveryGraph]:
    """Return the class of a graph's settings, its `context_schema`: one of our graphs, or a `System`, by name or place.

    A composed graph has the settings that its pieces heed, once it is loaded. Any other graph may have every setting.
    """
    return COMPOSED.get(graph) or GRAPH_SETTINGS.get(PLACES.get(graph, graph), Context)


def widen(settings: EveryGraph) -> Context:
    """Return the settings of a graph as a `Context`, whose other settings are at their defaults."""
    if isinstance(settings, Context):
        return settings
    values = dict(settings)
    if values.get("task", "hate") != "hate":
        values["scheme"] = "binary"
    return Context.model_construct(settings.model_fields_set, **values)


def settings_for_record(context: Context) -> JSON:
    """Return a run's settings for its record: plain JSON, without defaults and addresses with a password."""
    settings = context.model_dump(mode="json", exclude_defaults=True)
    if "@" in (context.searxng_url or ""):
        del settings["searxng_url"]
    return settings


def context_of_run(runtime: Runtime[Context] | None) -> Context:
    """Return the context that a run was given; the defaults if its caller gave none, where LangGraph has None.

    Raises:
        BadInput: a parent graph's context holds no settings of ours as `tribunal`; or, on a server, its client may not
            set one of them.
    """
    given = own_context(runtime.context) if runtime else None
    if given is None:
        return _DEFAULT
    check_client(given)
    return widen(given)


def own_context(given: Any) -> EveryGraph | None:
    """Return our settings of the context of a run, or None if it has none.

    Args:
        given: our settings; or the context of a parent graph, of any kind, which holds them as its key or attribute
            `tribunal`, or holds settings by name there.

    Raises:
        BadInput: its `tribunal` is neither.
    """
    held = given
    if not isinstance(given, EveryGraph):
        held = (
            given.get("tribunal")
            if isinstance(given, Mapping)
            else getattr(given, "tribunal", None)
        )
    if held is None or isinstance(held, EveryGraph):
        return held
    if isinstance(held, Mapping):
        return context_from(held)
    raise BadInput(
        f"tribunal: {type(held).__name__}: is no settings; give a Context, or a table of settings by name"
    )


def context_of(state: Mapping[str, Any], runtime: Runtime[Context] | None = None) -> Context:
    """Return the settings in force: the settings of the case, in its channel `context`, after `receive`.

    So a router is a function of the state alone, and a case goes on with the settings that it began with, whatever the
    part of a run is given that takes it up again. A piece that runs where nothing received a post has those of the run.

    They are validated when they change, by the class of the case's graph: a client may edit the state.

    Raises:
        BadInput: the case's value is no settings; or, on a server, its client may not set one of them.
    """
    case = state.get("context")
    if case is None:
        return context_of_run(runtime or current_runtime())
    settings = case.get("settings") if isinstance(case, dict) else None
    if not isinstance(settings, dict):
        raise BadInput(
            'context: holds no settings; give {"settings": {…}}, with the settings by name'
        )
    from_clients = settings_come_from_clients()
    allowed = (os.environ.get(ALLOW), os.environ.get("TRIBUNAL_MODEL")) if from_clients else None
    context = _validate_case(json.dumps(settings, sort_keys=True), str(case.get("graph")), allowed)
    if context.searxng_url is None and "searxng" in context.search:
        # An address with a password lies in no case: it is given to each part of a run.
        address = context_of_run(runtime or current_runtime()).searxng_url
        return (
            context.model_copy(update={"searxng_url": address})
            if "@" in (address or "")
            else context
        )
    return context


@lru_cache(maxsize=256)  # every call of a case asks for its settings, several times
def _validate_case(written: str, graph: str, allowed: tuple[str | None, ...] | None) -> Context:
    """Return the settings of a case, checked as a client's if something is `allowed`: the operator's environment."""
    try:
        settings = settings_of(graph)(**parse_json(written))
    except BadInput as error:
        raise BadInput(f"context.settings: {error}") from error
    if allowed is not None:
        check_client(settings)
    refuse_unused_settings(graph, settings, can_stop=True)
    return widen(settings)


def warn_of_overruled_settings(state: Mapping[str, Any], runtime: Runtime[Context]) -> list[str]:
    """Return a warning if this part of a run was given settings that differ from the case's, which are used.

    Raises:
        BadInput: on a server, where its client may not set one of them.
    """
    given = own_context(runtime.context)
    if given is None or state.get("context") is None:
        return []
    held = context_of(state, runtime)
    # Stops are of each part of a run. The other two follow the task, so nobody need have given them.
    follow = {"stops"}
    task: Task = getattr(given, "task", "hate")
    follow |= {"policy"} if given.policy == POLICIES[task] else set()
    follow |= {"scheme"} if task != "hate" else set()
    chosen = given.model_fields_set - follow
    differ = sorted(name for name in chosen if getattr(given, name) != getattr(held, name))
    if not differ:
        return []
    context_of_run(runtime)
    return [
        f"the case keeps the settings that it began with; given since, and not heeded: {', '.join(differ)}"
    ]


def refuse_unused_settings(
    graph: str | type[EveryGraph], context: EveryGraph, *, can_stop: bool = False
) -> None:
    """Refuse the first setting that a graph doesn't have, or that has no effect in it.

    Args:
        graph: the class of its settings, or a name, as of `settings_of`.
        context: the settings.
        can_stop: whether somebody can go on with a run that stops.

    Raises:
        BadInput: the setting, its value, and the graph or the setting that it needs.
    """
    if not can_stop:
        refuse_stops(context)
    settings = settings_of(graph) if isinstance(graph, str) else graph
    for _, refusal in settings.find_unused(context):
        raise BadInput(refusal)


def refuse_stops(context: EveryGraph) -> None:
    """Refuse stops where nobody could go on with a run that stops.

    Raises:
        BadInput: there are some.
    """
    if context.stops:
        raise BadInput(
            f"stops: {shorten_repr(context.stops)}: nobody can go on from a stop here; step through in Studio "
            "(langgraph dev), or by a graph that you compile with a checkpointer and run on a thread"
        )


# Settings whose names LangChain's configurable models read from `configurable` too.
_MODEL_FIELDS = frozenset({"model", "max_tokens", "timeout", "top_k", "extra_body"})


def refuse_configurable(
    configurable: Mapping[str, Any],
    given: EveryGraph | None,
    *,
    models: bool,
    as_keyword: bool = False,
) -> None:
    """Refuse settings in the `configurable` of a run's config: older graphs of LangGraph had theirs there.

    Args:
        configurable: where they are looked for.
        given: the settings that the run was given. LangGraph's server writes them into `configurable` as well.
        models: whether models of the caller's may read `configurable`: a model object, or a node of their own.
        as_keyword: whether the caller gives settings as keywords, and not in `context`.

    Raises:
        BadInput: the first one, its value, and where to give it.
    """
    named = {name: value for name, value in configurable.items() if name in SETTINGS}
    if models:
        named = {name: value for name, value in named.items() if name not in _MODEL_FIELDS}
    misplaced = [name for name in named if name not in _names_set_alike(given, named)]
    if misplaced:
        name = misplaced[0]
        shown = shorten_repr(named[name])
        instead = f"{name}={shown}" if as_keyword else f'context={{"{name}": {shown}}}'
        raise BadInput(
            f'{name}: {shown}: no setting is read from config["configurable"]; give {instead}'
        )


def _names_set_alike(given: EveryGraph | None, named: Mapping[str, Any]) -> set[str]:
    """Return the names that these settings set to the same values."""
    names = type(given).model_fields.keys() & named.keys() if given is not None else set()
    if given is None or not names:
        return set()
    try:
        meant = type(given)(**{name: named[name] for name in names})
    except BadInput:
        return set()
    # A text that comes back as it was shown sets nothing.
    names -= meant.model_fields_set - given.model_fields_set
    return {name for name in names if getattr(meant, name) == getattr(given, name)}


def setting_is_named(settings: Mapping[str, Any], setting: str) -> bool:
    """Return whether these settings set it: `tau`, or one seat of a table, as in `seats.judge`."""
    table, dot, seat = setting.partition(".")
    return seat in (settings.get(table) or {}) if dot else setting in settings


def leave_out_settings(settings: Mapping[str, Any], left_out: Iterable[str]) -> JSON:
    """Return the settings but for these, each named as `find_unused` does."""
    kept = dict(settings)
    for name in left_out:
        table, dot, seat = name.partition(".")
        if dot:
            kept[table] = {key: value for key, value in kept[table].items() if key != seat}
        else:
            del kept[name]
    return kept


def check_client(given: EveryGraph) -> None:
    """Refuse settings that a client gave and may not set.

    Raises:
        BadInput: the first one, its value, and TRIBUNAL_ALLOW.
    """
    if settings_come_from_clients():
        check_request({name: value for name, value in given if name in given.model_fields_set})


def current_runtime() -> Runtime[Context] | None:
    """Return the runtime of the run that this is called in; None outside of a run."""
    from langgraph.runtime import get_runtime

    try:
        return get_runtime(Context)
    except RuntimeError:
        return None


_DEFAULT = Context()
