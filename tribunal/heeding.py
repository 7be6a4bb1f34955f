"""Whether a graph heeds what a run sets. A setting that would do nothing is refused, and never recorded as used.

Which graphs heed a setting stands in `tribunal.settings`. Here stand the modes and the seats of each graph, and which
setting does nothing while another one is as it is. Where one setting takes another's place by rank, as the model of a
seat takes that of all seats, both are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.graph_nodes import ALL, agents_of
from tribunal.learnt import learnt
from tribunal.schema import JSON
from tribunal.seats import KINDS
from tribunal.settings import GRAPHS, SETTINGS, listed
from tribunal.systems import system_of

Values = Mapping[str, Any]

MODES: dict[str, tuple[str, ...]] = {
    "tribunal": ("full", "leave-out", "criterion-only", "examples-only", "no-search", "no-details"),
    "predict": (
        "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    ),
    "antihate": ("full", "no-knowledge", "no-search", "no-details", "zero-shot"),
    "baseline": ("full", "zero-shot"),
    "self_consistency": ("full", "zero-shot"),
}  # fmt: skip
# Who may sit in a graph. Of several of a kind, such as view:surface, the kind.
SITTING: dict[str, tuple[str, ...]] = {
    "tribunal": ("triage", "gatekeeper", "prosecutor", "defender", "judge", "perspective", "researcher"),
    "arcade": ("gatekeeper", "prosecutor", "defender", "judge"),
    "multiround": ("prosecutor", "defender", "judge"),
    "predict": ("perspective", "debater", "judge", "annotator"),
    "antihate": ("researcher", "judge", "classifier"),
    "mv_debate": ("view", "judge", "reflection", "summary"),
    "baseline": ("classifier",),
    "self_consistency": ("classifier",),
    "symmetric_debate": ("agent",),
}
_OF_THE_WEB = tuple(name for name, each in SETTINGS.items() if each.graphs == SETTINGS["search"].graphs)
_OF_PERSPECTIVES = ("leave_out", "embedding", "seats.perspective", "temperatures.perspective")
_OF_SEARCHING = ("search", "searxng_url", "hits")
_ONE_CALL = ("no-knowledge", "zero-shot")


class Idle(NamedTuple):
    """Settings that do nothing in these graphs while others are as `when` says.

    `names` may hold one seat of a table, such as `seats.triage`. `why` says what is missing, and the way out.
    """

    names: tuple[str, ...]
    graphs: tuple[str, ...]
    when: Callable[[Values], bool]
    why: str


def _unheard(own: Values) -> bool:
    return own["perspectives"] in ([], ["none"])


def _of_a_seat(*seats: str) -> tuple[str, ...]:
    return tuple(f"{table}.{seat}" for seat in seats for table in ("seats", "temperatures"))


IDLE = (
    Idle(_OF_THE_WEB, ("tribunal",), lambda own: not own["web"], "nothing is looked up; set web as well"),
    Idle(_of_a_seat("researcher"), ("tribunal",), lambda own: not own["web"], "nothing is looked up; set web as well"),
    Idle(
        ("mode",),
        ("tribunal",),
        lambda own: own["mode"] in ("no-search", "no-details") and not own["web"],
        "nothing is looked up; set web as well",
    ),
    Idle(_OF_PERSPECTIVES, ("tribunal",), _unheard, "no perspective is heard; name some with perspectives"),
    Idle(
        ("mode",),
        ("tribunal",),
        lambda own: own["mode"] in ("leave-out", "criterion-only", "examples-only") and _unheard(own),
        "no perspective is heard; name some with perspectives",
    ),
    Idle(
        ("precedents_k",),
        ("tribunal",),
        lambda own: not own["precedents"],
        "no store of precedents is named; set precedents as well",
    ),
    Idle(
        ("triage_confidence", *_of_a_seat("triage")),
        ("tribunal",),
        lambda own: not own["triage"],
        "there is no first look; set triage as well",
    ),
    Idle(
        ("triage_confidence", *_of_a_seat("triage")),
        ("tribunal",),
        lambda own: bool(learnt(own["triage"])),
        "the first look was fitted, with thresholds of its own; leave it out, or name a model with triage",
    ),
    Idle(("review_rule",), ("tribunal",), lambda own: not own["review"], "nothing is reviewed; set review as well"),
    Idle(
        ("perspectives", *_OF_PERSPECTIVES),
        ("predict",),
        lambda own: own["mode"] == "base",
        "the mode base hears no perspective; choose another",
    ),
    Idle(
        _of_a_seat("annotator"),
        ("predict",),
        lambda own: own["mode"] != "base",
        "the annotator sits in the mode base alone; choose that mode",
    ),
    Idle(
        ("judge_model", *_of_a_seat("judge", "debater")),
        ("predict",),
        lambda own: own["mode"] in ("majority", "single", "base", "criterion-only", "examples-only"),
        "there is no debate in this mode; choose another",
    ),
    Idle(
        (
            *(name for name in _OF_THE_WEB if name != "archive"),
            "aux_model",
            "seats.researcher",
            "max_calls",
            "max_tokens",
        ),
        ("antihate",),
        lambda own: own["mode"] in _ONE_CALL,
        "this mode makes one call and looks nothing up; choose another",
    ),
    Idle(
        _of_a_seat("classifier"),
        ("antihate",),
        lambda own: own["mode"] != "zero-shot",
        "the classifier sits in the mode zero-shot alone; choose that mode",
    ),
    Idle(
        _of_a_seat("judge"),
        ("antihate",),
        lambda own: own["mode"] == "zero-shot",
        "in the mode zero-shot the classifier decides; choose another mode",
    ),
    Idle(
        _OF_SEARCHING,
        ("tribunal", "antihate"),
        lambda own: own["mode"] == "no-search" and not own["search"].startswith("replay:"),
        "the mode no-search asks no search engine; choose another",
    ),
    Idle(
        ("searxng_url",),
        ("tribunal", "antihate"),
        lambda own: "searxng" not in (name.strip() for name in own["search"].split(",")),
        "no SearXNG server is searched; set search to searxng",
    ),
    Idle(
        ("fresh",),
        ("tribunal", "antihate"),
        lambda own: not own["search"].startswith("replay:"),
        "nothing is replayed; set search to replay:FILE",
    ),
    Idle(
        ("scheme",),
        ("baseline", "self_consistency"),
        lambda own: own["mode"] == "zero-shot",
        "the mode zero-shot is always binary; leave it out",
    ),
    Idle(
        ("draw_temperature",),
        ("tribunal", "arcade", "multiround"),
        lambda own: own["judge_draws"] == 1,
        "the judge is drawn once; set judge_draws as well",
    ),
    Idle(
        ("top_k", *_of_a_seat("reflection")),
        ("mv_debate",),
        lambda own: own["reflection_mode"] == "none",
        "nothing is revised; set reflection_mode to gated or always",
    ),
    Idle(
        ("tau",),
        ("mv_debate",),
        lambda own: own["reflection_mode"] != "gated",
        "no gain is asked for; set reflection_mode to gated",
    ),
)


def seats_in(graph: str) -> tuple[str, ...]:
    """Return who may sit in a graph: one of ours, or that of a `System`; nobody where that isn't known."""
    system = system_of(graph)
    return system.seats if system else SITTING.get(graph, ())


def heeds_setting(graph: str, name: str) -> bool:
    """Return whether a graph heeds a setting. One that has no `System` heeds those that every graph heeds."""
    system = system_of(graph)
    return system.heeds_setting(name) if system else graph in (SETTINGS[name].graphs or (graph,))


def refuse_unheeded(graph: str, context: Context, *, can_stop: bool = False) -> None:
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
    for _, refusal in unheeded(graph, context):
        raise BadInput(refusal)


def refuse_stops(context: Context) -> None:
    """Refuse stops where nobody could go on with a run that stops.

    Raises:
        BadInput: there are some.
    """
    if context.stops:
        raise BadInput(
            f"stops: {_shown(context.stops)}: nobody can go on from a stop here; step through in Studio "
            "(langgraph dev), or by a graph that you compile with a checkpointer and run on a thread"
        )


def refuse_unknown_stops(graph: str, context: Context) -> None:
    """Refuse the first stop that is nobody's name in a graph.

    Raises:
        BadInput: the name, and those that there are.
    """
    if graph not in GRAPHS:  # the nodes of a system of one's own are not known by name
        return
    agents, seats = agents_of(graph), SITTING[graph]
    for name in context.stops:
        kind, colon, _ = name.partition(":")
        if name not in (ALL, *agents, *seats) and not (colon and kind in seats and kind in KINDS):
            raise BadInput(
                f"stops: {name!r}: no agent of {graph} has this name; give all, a node ({', '.join(agents)}), or a "
                f"seat ({', '.join(seats)})"
            )


def unheeded(graph: str, context: Context) -> Iterator[tuple[str, str]]:
    """Each setting that a graph would only overlook, and why, in the words of a refusal."""
    if not seats_in(graph):
        return
    own = vars(context)
    given = [name for name, default in _DEFAULTS.items() if own[name] != default]
    if context.task != "hate" and "scheme" in given:
        given.remove("scheme")  # set by `Context` itself
    for name in given:
        if refusal := _refusal(graph, name, own):
            yield name, f"{name}: {_shown(own[name])}: {refusal}"
    for table in ("seats", "temperatures"):
        for seat in own[table]:
            kind = seat.partition(":")[0]
            if kind not in seats_in(graph):
                others = [each for each, seats in SITTING.items() if kind in seats]
                sits = f"it is a seat of {_the(others)}" if others else f"its seats are {', '.join(seats_in(graph))}"
                yield f"{table}.{seat}", f"{table}.{seat}: nobody of that name sits in {graph}; {sits}"
            elif why := _idle(graph, f"{table}.{kind}", own):
                yield f"{table}.{seat}", f"{table}.{seat}: {graph} has no use for it here: {why}"


def names(settings: Values, setting: str) -> bool:
    """Whether these settings set it: `tau`, or one seat of a table, as in `seats.judge`."""
    table, dot, seat = setting.partition(".")
    return seat in (settings.get(table) or {}) if dot else setting in settings


def without(settings: Values, left_out: Iterable[str]) -> JSON:
    """The settings but for these, each as `names` takes it."""
    kept = dict(settings)
    for name in left_out:
        table, dot, seat = name.partition(".")
        if dot:
            kept[table] = {key: value for key, value in kept[table].items() if key != seat}
        else:
            del kept[name]
    return kept


def _refusal(graph: str, name: str, own: Values) -> str:
    heeding = SETTINGS[name].graphs or GRAPHS
    if name == "mode":
        heeding = tuple(each for each, modes in MODES.items() if own["mode"] in modes)
    if not (graph in heeding or (graph not in GRAPHS and heeds_setting(graph, name))):
        what = "a mode" if name == "mode" else "a setting"
        return f"is {what} of {_the(heeding)}, and {graph} has no use for it; leave it out"
    why = _idle(graph, name, own)
    return f"{graph} has no use for it here: {why}" if why else ""


def _idle(graph: str, name: str, own: Values) -> str:
    return next((each.why for each in IDLE if graph in each.graphs and name in each.names and each.when(own)), "")


def _the(graphs: Sequence[str]) -> str:
    """Graphs by name, as a sentence has them: the graph tribunal; the graphs tribunal and predict."""
    return f"the graph{'s' * (len(graphs) > 1)} {listed(graphs)}"


def _shown(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:77]}…"


_DEFAULTS = vars(Context())
