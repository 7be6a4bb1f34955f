"""Settings that a graph wouldn't use. A run that sets one is refused, so that no record names a setting without effect.

Which graphs heed a setting follows from their classes (`tribunal.settings`). Here stands which setting does nothing
while another one is as it is. Where one setting overrides another, as the model of a seat that of all seats, both are
taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.graph_form import agents_of
from tribunal.schema import JSON
from tribunal.settings import GRAPHS, MODES, SETTINGS, join_names
from tribunal.shared_settings import ALL, KINDS, Research
from tribunal.systems import heeds_setting, seats_in
from tribunal.text import shorten_repr


def _settings_of_seats(*seats: str) -> tuple[str, ...]:
    return tuple(f"{table}.{seat}" for seat in seats for table in ("seats", "temperatures"))


_OF_THE_WEB = tuple(name for name in SETTINGS if name in vars(Research))
_OF_PERSPECTIVES = ("leave_out", "examples_k", "embedding", *_settings_of_seats("perspective"))
_OF_TRIAGE = ("triage_confidence", *_settings_of_seats("triage"))
_OF_LOOKING_UP = (*_OF_THE_WEB, "aux_model", "seats.researcher", "max_calls", "max_tokens")
_WITHOUT_DEBATE = ("majority", "single", "base", "criterion-only", "examples-only")
_NO_WEB = "nothing is looked up; set web as well"
_NO_PERSPECTIVE = "no perspective is heard; name some with perspectives"


def list_idle_settings(graph: str, own: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield settings that do nothing in a graph while its others are as they are, with what is missing and the way out.

    One may be a seat of a table, such as `seats.triage`.
    """
    mode, replayed = own.mode, own.search.startswith("replay:")
    if graph == "tribunal":
        if not own.web:
            yield (*_OF_THE_WEB, *_settings_of_seats("researcher")), _NO_WEB
            if mode in ("no-search", "no-details"):
                yield ("mode",), _NO_WEB
        if own.perspectives in ([], ["none"]):
            yield _OF_PERSPECTIVES, _NO_PERSPECTIVE
            if mode in ("leave-out", "criterion-only", "examples-only"):
                yield ("mode",), _NO_PERSPECTIVE
        if not own.precedents:
            yield ("precedents_k",), "no store of precedents is named; set precedents as well"
        if not own.triage:
            yield _OF_TRIAGE, "triage is off; set triage as well"
        if not own.review:
            yield ("review_rule",), "nothing is reviewed; set review as well"
    if graph in ("tribunal", "predict") and mode == "criterion-only":
        yield ("examples_k",), "the mode criterion-only shows no text; choose another"
    if graph == "predict":
        if mode == "base":
            yield ("perspectives", *_OF_PERSPECTIVES), "the mode base hears no perspective; choose another"
        else:
            yield _settings_of_seats("annotator"), "the annotator sits in the mode base alone; choose that mode"
        if mode in _WITHOUT_DEBATE:
            debating = ("judge_model", "debate_memory", *_settings_of_seats("judge", "debater"))
            yield debating, "there is no debate in this mode; choose another"
    if graph == "antihate":
        if mode in ("no-knowledge", "zero-shot"):
            unasked = tuple(name for name in _OF_LOOKING_UP if name != "archive")
            yield unasked, "this mode makes one call and looks nothing up; choose another"
        if mode == "zero-shot":
            yield _settings_of_seats("judge"), "in the mode zero-shot the classifier decides; choose another mode"
        else:
            yield _settings_of_seats("classifier"), "the classifier sits in the mode zero-shot alone; choose that mode"
    if graph in ("tribunal", "antihate"):
        if mode == "no-search" and not replayed:
            yield ("search", "searxng_url", "hits"), "the mode no-search asks no search engine; choose another"
        if "searxng" not in map(str.strip, own.search.split(",")):
            yield ("searxng_url",), "no SearXNG server is searched; set search to searxng"
        if not replayed:
            yield ("fresh",), "nothing is replayed; set search to replay:FILE"
    if graph in ("baseline", "self_consistency") and mode == "zero-shot":
        yield ("scheme",), "the mode zero-shot is always binary; leave it out"
    if graph in ("tribunal", "arcade", "multiround") and own.judge_draws == 1:
        yield ("draw_temperature",), "the judge is drawn once; set judge_draws as well"
    if graph == "mv_debate":
        if own.reflection_mode == "none":
            revising = ("top_k", *_settings_of_seats("reflection"))
            yield revising, "nothing is revised; set reflection_mode to gated or always"
        if own.reflection_mode != "gated":
            yield ("tau",), "no gain is asked for; set reflection_mode to gated"


def refuse_unused_settings(graph: str, context: Context, *, can_stop: bool = False) -> None:
    """Refuse the first setting that a graph would only overlook.

    Args:
        graph: one of `settings.GRAPHS`, or that of a `System`. Another graph of one's own has no list of what it heeds,
            so it refuses stops alone.
        context: what was set: what differs from its default, since Studio sends every default with the rest.
        can_stop: whether somebody can go on with a run that stops.

    Raises:
        BadInput: the setting, its value, and the graph or the setting that it needs.
    """
    if not can_stop:
        refuse_stops(context)
    for _, refusal in find_unused_settings(graph, context):
        raise BadInput(refusal)


def refuse_stops(context: Context) -> None:
    """Refuse stops where nobody could go on with a run that stops.

    Raises:
        BadInput: there are some.
    """
    if context.stops:
        raise BadInput(
            f"stops: {shorten_repr(context.stops)}: nobody can go on from a stop here; step through in Studio "
            "(langgraph dev), or by a graph that you compile with a checkpointer and run on a thread"
        )


def refuse_unknown_stops(graph: str, context: Context) -> None:
    """Refuse the first stop that is nobody's name in a graph.

    Raises:
        BadInput: the name, and those that there are.
    """
    if graph not in GRAPHS:  # the nodes of a system of one's own are not known by name
        return
    agents, seats = agents_of(graph), seats_in(graph)
    for name in context.stops:
        kind, colon, _ = name.partition(":")
        if name not in (ALL, *agents, *seats) and not (colon and kind in seats and kind in KINDS):
            raise BadInput(
                f"stops: {name!r}: no agent of {graph} has this name; give all, a node ({', '.join(agents)}), or a "
                f"seat ({', '.join(seats)})"
            )


def find_unused_settings(graph: str, context: Context) -> Iterator[tuple[str, str]]:
    """Yield each setting that a graph would only overlook, and why, in the words of a refusal."""
    if graph not in GRAPHS and not seats_in(graph):
        return
    own = SimpleNamespace(**vars(context))  # what is only looked at here is not heeded
    for name, value in vars(own).items():
        # The scheme of other tasks is set by `Context` itself.
        if value == _DEFAULTS[name] or (name == "scheme" and own.task != "hate"):
            continue
        if refusal := _refusal(graph, name, own):
            yield name, f"{name}: {shorten_repr(value)}: {refusal}"
    for table in ("seats", "temperatures"):
        for seat in getattr(own, table):
            kind = seat.partition(":")[0]
            if kind not in seats_in(graph):
                others = [each for each in GRAPHS if kind in seats_in(each)]
                sits = f"it is a seat of {_the(others)}" if others else f"its seats are {', '.join(seats_in(graph))}"
                yield f"{table}.{seat}", f"{table}.{seat}: nobody of that name sits in {graph}; {sits}"
            elif why := _why_idle(graph, f"{table}.{kind}", own):
                yield f"{table}.{seat}", f"{table}.{seat}: {graph} has no use for it here: {why}"


def setting_is_named(settings: Mapping[str, Any], setting: str) -> bool:
    """Return whether these settings set it: `tau`, or one seat of a table, as in `seats.judge`."""
    table, dot, seat = setting.partition(".")
    return seat in (settings.get(table) or {}) if dot else setting in settings


def leave_out_settings(settings: Mapping[str, Any], left_out: Iterable[str]) -> JSON:
    """Return the settings but for these, each named as `find_unused_settings` does."""
    kept = dict(settings)
    for name in left_out:
        table, dot, seat = name.partition(".")
        if dot:
            kept[table] = {key: value for key, value in kept[table].items() if key != seat}
        else:
            del kept[name]
    return kept


def _refusal(graph: str, name: str, own: Any) -> str:
    heeding: Sequence[str] = SETTINGS[name].graphs or tuple(GRAPHS)
    if name == "mode":
        heeding = [each for each, modes in MODES.items() if own.mode in modes]
    if not (graph in heeding or (graph not in GRAPHS and heeds_setting(graph, name))):
        what = "a mode" if name == "mode" else "a setting"
        return f"is {what} of {_the(heeding)}, and {graph} has no use for it; leave it out"
    why = _why_idle(graph, name, own)
    return f"{graph} has no use for it here: {why}" if why else ""


def _why_idle(graph: str, name: str, own: Any) -> str:
    return next((why for names, why in list_idle_settings(graph, own) if name in names), "")


def _the(graphs: Sequence[str]) -> str:
    """Return graphs by name, as a sentence has them: the graph tribunal; the graphs tribunal and predict."""
    return f"the graph{'s' * (len(graphs) > 1)} {join_names(graphs)}"


_DEFAULTS = vars(Context())
