"""The class that the settings of every graph derive from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, field_validator

from tribunal.core.calls import JSON
from tribunal.core.text import shorten_repr, suggest_name
from tribunal.errors import BadInput
from tribunal.process.model_objects import name_objects
from tribunal.settings.form import arrange_form, collect_edits
from tribunal.settings.names import (
    ALL,
    CONCLUDING,
    KINDS,
    LIMITS,
    MODE_WORDS,
    MODELS,
    POLICIES,
    POLICY,
    RENAMED,
    SHIPPED_POLICIES,
    TECHNICAL,
    VIEWS,
    VOTES,
    Mode,
    agents_of,
    join_names,
    nodes_heeding,
)
from tribunal.settings.setting import DECLARED, SETTABLE_SEATS, Setting, is_settable_seat, setting
from tribunal.settings.validation import describe_validation_error

GRAPH_SETTINGS: dict[
    str, type[EveryGraph]
] = {}  # by the name of the graph; systems of one's own add theirs
PLACES: dict[str, str] = {}  # the name of the graph that was loaded from a place
COMPOSED: dict[
    str, type[EveryGraph]
] = {}  # the settings of a composed graph without a system, by its place


# fmt: off
class EveryGraph(BaseModel):
    """The settings that every graph has, and the graph's facts that its class describes."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    graph: ClassVar[str] = ""  # its name; empty in a class that several graphs share
    is_ours: ClassVar[bool] = True  # else a system or a composed graph of the user
    # The nodes that heed each setting, for a graph of the user that was checked.
    heeding: ClassVar[Mapping[str, Sequence[str]]] = {}
    about: ClassVar[str] = ""
    # Of several of a kind, such as view:surface, the kind. Empty: unknown, so any seat is accepted.
    seated: ClassVar[tuple[str, ...]] = ()
    modes: ClassVar[tuple[Mode, ...]] = ("full",)

    policy: str = setting(
        POLICY, "Policy",
        "The definition and the categories that a decision rests on: a shipped policy by its name, or a TOML file.",
        "", default="the task's own: h-vli, sarcasm or misinformation", clients="named things",
    )
    policy_language: Literal["policy", "post"] = setting(
        POLICY, "Language of the policy",
        "The language in which agents read the policy. policy: its own. post: the post's, if the policy is translated "
        "into it.",
        "policy", clients="anything",
    )
    prompts: str | None = setting(
        POLICY, "Prompts", "A folder of your own prompts. A file replaces ours of the same name; the others stay ours.",
        None, default="ours",
    )
    prompt_texts: dict[str, str] = setting(
        POLICY, "Prompts by name",
        "Texts to use in place of prompts, by the prompt's name, such as arcade/judge. They take precedence over "
        "`prompts`. In Studio, each prompt of the graph is a field.",
        dict, default="none", words=True,
    )
    model: str | None = setting(
        MODELS, "Model",
        "The model of every seat that has none of its own, as provider:model. Of several, separated by commas, the "
        "next is asked if one refuses or fails.",
        None, default="TRIBUNAL_MODEL, else the offline rehearsal model", clients="named things",
    )
    seats: dict[str, str] = setting(
        MODELS, "Models by seat",
        "A model for one seat, by the seat's name: gatekeeper, prosecutor, defender, judge, … It takes precedence over "
        "every other model. view:surface is one of several views; view is all of them.",
        dict, clients="named things",
    )
    temperatures: dict[str, float] = setting(
        MODELS, "Temperatures by seat", "A temperature for one seat, by the seat's name, from 0 to 2.",
        dict, default="each seat's published one", clients="anything",
    )
    extra_body: dict[str, dict[str, Any]] = setting(
        MODELS, "Further fields of requests",
        "Fields to add to the body of each request, by model, as provider:model or with * for any letters, such as "
        "{'openai:qwen3*' = {chat_template_kwargs = {enable_thinking = false}}}. For OpenAI-compatible servers and "
        "Ollama.",
        dict,
    )
    line_up: str | None = setting(
        MODELS, "Line-up",
        "Models, temperatures and views under one name: a shipped line-up, such as mv-debate-paper, or a TOML file "
        "with [seats], [temperatures], [extra_body] and views. What a run sets itself takes precedence.",
        None,
    )
    threshold: float | None = setting(
        VOTES, "Threshold (confidence)",
        "The confidence, from 0 to 1, below which a verdict is uncertain. If it is set, whoever decides states one; "
        "the confidence of a vote is the winner's share.",
        None, default="that of `threshold_file`, else 0.75", nodes=CONCLUDING, ge=0, le=1,
        clients="anything",
    )
    threshold_file: str | None = setting(
        VOTES, "Threshold file",
        "A file made by the command tribunal fit. What it doesn't accept, dismissals too, is uncertain.",
        None, nodes=CONCLUDING,
    )
    max_text: int = setting(
        LIMITS, "Longest post (characters)", "How many characters a post may have.",
        131_072, nodes=["receive"], ge=1, le=1_000_000, clients="up to default",
    )
    image_edge: int = setting(
        LIMITS, "Image edge (pixels)", "Images are scaled down until their longer edge has this many pixels.",
        1024, nodes=["receive"], ge=64, le=4096, clients="up to default",
    )
    max_output_tokens: int = setting(
        LIMITS, "Longest answer (tokens)", "How many tokens one answer may have.",
        2048, ge=16, le=65536, clients="up to default",
    )
    timeout: float = setting(
        LIMITS, "Time for a request (seconds)", "How many seconds one request may take.",
        120.0, gt=0, le=3600, clients="up to default",
    )
    attempts: int = setting(
        LIMITS, "Attempts", "How often a request is sent at most, if it fails for a passing reason.",
        4, ge=1, le=20, clients="up to default",
    )
    cache: str | None = setting(
        TECHNICAL, "Cache", "A SQLite file of answers. A call that was made before is answered from it.",
        None,
    )
    repeat: int = setting(
        TECHNICAL, "Repeat", "Which repeat of a run this is. The cache answers a call only within its repeat.",
        0, ge=0, clients="anything",
    )
    trace: bool = setting(
        TECHNICAL, "Trace", "Stream every prompt and raw answer as custom events.",
        False, clients="anything",
    )
    stops: list[str] = setting(
        TECHNICAL, "Stops",
        "Stop before these agents are asked, and show the whole prompt: names of nodes, such as defend, or of "
        "seats, such as defender; all: every agent. Only where a run can be resumed: in Studio, on langgraph "
        "dev, or with a checkpointer of your own.",
        list, clients="anything",
    )
# fmt: on

    # Model objects that were given; the settings name them, and keep them alive.
    _objects: tuple[Any, ...] = PrivateAttr(default=())

    def __init__(self, **given: Any) -> None:
        """Check settings by name; a model may be an object.

        No state, record or error holds an object: its name takes its place. Without a policy the task's own is in
        force, and a task without categories has one scheme.

        Raises:
            BadInput: the first setting that is wrong, or that the graph doesn't have.
        """
        try:
            named, objects = name_objects(given)
        except TypeError as error:
            raise BadInput(str(error)) from error
        if named.get("task", "hate") != "hate":
            named |= {"scheme": "binary"}
            if "scheme" not in type(self).model_fields:
                del named["scheme"]
        named = collect_edits(named, self.graph)
        task: Any = str(named.get("task", "hate"))  # which validation is to refuse, if there is no such task
        named["policy"] = named.get("policy") or POLICIES.get(task, "")
        for name, value in named.items():
            if name not in type(self).model_fields:
                raise BadInput(self.explain_unknown(name, value))
        try:
            super().__init__(**named)
        except ValidationError as error:
            raise BadInput(describe_validation_error(error)) from error
        self._objects = objects

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Register the class of a graph, and the settings that a class declares."""
        for name, of_field in cls.model_fields.items():
            words = of_field.json_schema_extra
            if isinstance(words, Setting):
                words.name = name
                DECLARED.setdefault(name, words)
        if vars(cls).get("graph"):
            GRAPH_SETTINGS[cls.graph] = cls

    @field_validator("seats", "temperatures")
    @classmethod
    def _seats_exist(cls, by_seat: dict[str, Any]) -> dict[str, Any]:
        for seat in by_seat:
            kind, colon, name = seat.partition(":")
            if not is_settable_seat(seat):
                raise ValueError(f"there is no seat {seat!r}; the seats are {', '.join(SETTABLE_SEATS)}")
            if kind == "view" and colon and name not in VIEWS:
                raise ValueError(f"there is no seat {seat!r}; the views are {', '.join(VIEWS)}")
        return by_seat

    @field_validator("temperatures")
    @classmethod
    def _temperatures_bounded(cls, by_seat: dict[str, float]) -> dict[str, float]:
        for seat, temperature in by_seat.items():
            if not 0 <= temperature <= 2:
                raise ValueError(f"{seat}: {temperature} is not between 0 and 2")
        return by_seat

    @field_validator("extra_body")
    @classmethod
    def _extra_is_extra(cls, by_model: dict[str, JSON]) -> dict[str, JSON]:
        for model, fields in by_model.items():
            ours = next((name for name in ("model", "messages", "stream") if name in fields), None)
            if ours:
                raise ValueError(f"{model}: {ours} is what a request is made of, and can't be given beside it")
        return by_model

    @classmethod
    def explain_unknown(cls, name: str, value: Any) -> str:
        """Return why the class doesn't take a setting: another name, a typo, or a setting of other graphs."""
        if name in RENAMED:
            return f"{name}: is called {RENAMED[name]} now"
        if name not in DECLARED:
            way = suggest_name(name, DECLARED) or f"the settings are {', '.join(sorted(cls.model_fields))}"
            return f"{name}: no such setting; {way}"
        graphs: Sequence[str] = DECLARED[name].graphs
        what = "a setting"
        if name == "mode" and (having := graphs_with_mode(value)):
            graphs = having
            what = "a mode"
        whose = f"is {what} of {_the(graphs)}, and {cls.graph or 'this graph'} has no use for it"
        return f"{name}: {shorten_repr(value)}: {whose}; leave it out"

    @classmethod
    def find_unused(cls, given: EveryGraph) -> Iterator[tuple[str, str]]:
        """Yield each setting that the graph doesn't have, or that has no effect in it, with the refusal.

        Args:
            given: settings of any class. A setting counts as set if it differs from its default, because Studio sends
                every default too.
        """
        values = {name: value for name, value in given if value != DECLARED[name].default_value}
        for name, value in values.items():
            # The scheme of other tasks is set by the class itself.
            if name not in cls.model_fields and not (name == "scheme" and values.get("task", "hate") != "hate"):
                yield name, cls.explain_unknown(name, value)
        own = {name: value for name, value in values.items() if name in cls.model_fields}
        yield from cls.model_construct(**own).list_idle()

    def list_idle(self) -> Iterator[tuple[str, str]]:
        """Yield each setting, or seat of a table, that has no effect while the others are as they are."""
        graph = self.graph
        if not graph:
            return
        idle = {name: why for names, why in reversed([*self.idle_settings()]) for name in names}
        for name, value in self:
            if value == DECLARED[name].default_value or (name == "scheme" and getattr(self, "task", "hate") != "hate"):
                continue
            if name == "mode" and value not in self.modes:
                yield name, self.explain_unknown(name, value)
            elif name in idle:
                yield name, f"{name}: {shorten_repr(value)}: {graph} has no use for it here: {idle[name]}"
        for seat in (f"{table}.{each}" for table in ("seats", "temperatures") for each in getattr(self, table)):
            kind = seat.partition(":")[0].partition(".")[2]
            if self.seated and kind not in self.seated:
                others = [each for each, settings in GRAPH_SETTINGS.items() if kind in settings.seated]
                sits = f"it is a seat of {_the(others)}" if others else f"its seats are {', '.join(self.seated)}"
                yield seat, f"{seat}: nobody of that name sits in {graph}; {sits}"
            elif why := idle.get(seat.partition(":")[0]):
                yield seat, f"{seat}: {graph} has no use for it here: {why}"

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield settings that have no effect while others are as they are, with the reason and the way out.

        One may be a seat of a table, such as `seats.triage`. A class adds its own rules beside its fields. Where one
        setting overrides another, as the model of a seat that of all seats, neither is idle.
        """
        yield from ()

    @classmethod
    def refuse_unknown_stops(cls, names: Iterable[str]) -> None:
        """Refuse the first stop that is nobody's name in one of our graphs. It reads the files of the graph.

        Raises:
            BadInput: the unknown name, and the known names.
        """
        if not (cls.graph and cls.is_ours):
            return
        agents = agents_of(cls.graph)
        seats = cls.seated
        for name in names:
            kind, colon, _ = name.partition(":")
            if name not in (ALL, *agents, *seats) and not (colon and kind in seats and kind in KINDS):
                raise BadInput(
                    f"stops: {name!r}: no agent of {cls.graph} has this name; give all, a node ({', '.join(agents)}), "
                    f"or a seat ({', '.join(seats)})"
                )

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JSON:
        """Return the form of the settings in groups (`tribunal.settings.form`), with the graph's facts for each."""
        schema = super().model_json_schema(*args, **kwargs)
        fields = schema["properties"]
        for name, form in fields.items():
            form["description"] = cls.describe_field(name)
        if cls.graph:
            cls._describe_for_graph(fields)
        schema["properties"] = arrange_form(fields, cls.graph)
        return schema

    @classmethod
    def describe_field(cls, name: str) -> str:
        """Return the description of a setting in a form: its effect, and its default."""
        return f"{DECLARED[name].does} Default: {DECLARED[name].default}."

    @classmethod
    def _describe_for_graph(cls, fields: dict[str, JSON]) -> None:
        """Add the graph's facts to the fields of a form: its seats, policies, modes and nodes."""
        several = [seat for seat in cls.seated if seat in KINDS]
        for table, value in (
            ("seats", {"type": "string", "examples": ["rehearsal"]}),
            ("temperatures", {"type": "number", "minimum": 0, "maximum": 2}),
        ):
            if not cls.seated:
                continue
            fields[table] |= {
                "properties": {seat: {"title": seat.capitalize(), **value} for seat in cls.seated},
                "additionalProperties": False,
                **({"patternProperties": {f"^{seat}:": value for seat in several}} if several else {}),
            }
            fields[table]["description"] = f"Seats: {', '.join(cls.seated)}. {fields[table]['description']}"
        fields["policy"]["examples"] = list(SHIPPED_POLICIES if "task" in fields else SHIPPED_POLICIES[:1])
        if "mode" in fields:
            fields["mode"] |= {"enum": list(cls.modes)}
            fields["mode"]["description"] = f"{describe_modes(cls.modes)} Default: full."
        for name, form in fields.items():
            if cls.is_ours:
                form["langgraph_nodes"] = nodes_heeding(name, DECLARED[name].nodes, cls.graph)
            elif heeding := cls.heeding.get(name):
                form["langgraph_nodes"] = list(heeding)


def describe_modes(modes: Iterable[Mode], *, graphs: bool = False) -> str:
    """Describe modes, each with the graphs that have it if `graphs` are asked for."""
    described = []
    for mode in modes:
        having = f" ({join_names(graphs_with_mode(mode))})" if graphs and mode != "full" else ""
        described.append(f"{mode}{having}: {MODE_WORDS[mode]}")
    return f"Which variant of the system runs. {'; '.join(described)}."


def graphs_with_mode(mode: str) -> list[str]:
    """Return the graphs that can run in a mode."""
    return [name for name, each in GRAPH_SETTINGS.items() if "mode" in each.model_fields and mode in each.modes]


def _the(graphs: Sequence[str]) -> str:
    """Return graphs by name, as a sentence has them: the graph tribunal; the graphs tribunal and predict."""
    return f"the graph{'s' * (len(graphs) > 1)} {join_names(graphs)}"
