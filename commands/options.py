"""The options of the model and the graph, declared once: of `tribunal judge`, `eval` and `batch`, and what they set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tribunal.commands.shared_options import graph_names, perspective_list, policy_names
from tribunal.core.text import parse_json, parse_toml
from tribunal.errors import BadInput

if TYPE_CHECKING:
    from tribunal.settings.context import Context

# Settings that have a value for each seat, so that one seat can be set by itself: seats.judge.
BY_SEAT = ("seats", "temperatures")
GRAPH = "A graph of tribunal graphs, or your own as file.py:graph or module:graph."
Graph = Annotated[str, Option(metavar="GRAPH", help=GRAPH, autocompletion=graph_names)]
# The settings that most people change: each has an option, with the metavar of its value. `--set` sets the rest.
OPTIONS: dict[str, str | None] = {
    "model": "MODEL",
    "seats": "NAME=MODEL",
    "policy": "NAME|FILE",
    "prompts": "FOLDER",
    "scheme": "fine|binary",
    "rounds": "N",
    "web": None,
    "perspectives": "NAME,…",
    "threshold": "NUMBER|FILE",
    "review": None,
}
SETTINGS_SECTION = "Settings"
# Names that a shell completes.
_COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "policy": policy_names,
    "perspectives": perspective_list,
}
_FLAGS = {"seats": "--seat"}  # the other options are named like their setting
# --threshold takes a number or a file; a file is a setting of its own.
_SHARED = {"threshold_file": "--threshold FILE"}
# Only a server can resume a run that stopped, so a command has no option for it.
_STUDIO_ONLY = ("stops",)
_SET = Option(
    "--set",
    metavar="NAME=VALUE",
    rich_help_panel=SETTINGS_SECTION,
    help="Any other setting (tribunal graphs NAME lists them).",
)


def parse_settings(given: list[str]) -> dict[str, Any]:
    """Return the settings that `--set` gives, by the names of the fields of `Context`, which checks them.

    Raises:
        BadInput: there is no `=`, or something is set twice.
    """
    settings: dict[str, Any] = {}
    for each in given:
        name, equals, text = (part.strip() for part in each.partition("="))
        if not equals or not name:
            raise BadInput(f"set: {each!r}: give it as NAME=VALUE")
        setting, _, seat = name.partition(".")
        held = settings
        if seat and setting in BY_SEAT:
            held = settings.setdefault(setting, {})
            name = seat
        if not isinstance(held, dict) or name in held:
            raise BadInput(f"set: {each!r}: {setting} is set twice; set it once")
        held[name] = _parse_value(setting, text)
    return settings


def _parse_value(setting: str, text: str) -> Any:
    """Return a value as it is meant: text for a setting that takes text, a list of names where there are commas."""
    from tribunal.settings.context import Context

    field = Context.model_fields.get(setting)
    takes = str(field.annotation) if field else ""
    value = _parse_toml_or_json(text)
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")] if takes == "list[str]" else value
    is_text = takes in ("<class 'str'>", "str | None", "dict[str, str]") and not isinstance(
        value, dict
    )
    return text if is_text else value


def _parse_toml_or_json(text: str) -> Any:
    """Return a TOML or JSON value; anything else, a date of TOML's among it, is text."""
    try:
        held = parse_toml(f"value = {text}")
    except ValueError:
        try:
            return parse_json(text)
        except ValueError:
            return text
    value = held["value"]
    return (
        value
        if len(held) == 1 and isinstance(value, str | int | float | bool | list | dict)
        else text
    )


def extend_options(
    command: Callable[..., None],
    parameter: str,
    parse: Callable[..., Any],
) -> Callable[..., None]:
    """Return a command with more options beside its own.

    Args:
        command: the command.
        parameter: what it is given of them: what `parse` returns.
        parse: its parameters are the options.
    """
    own, added = (
        dict(inspect.signature(each, eval_str=True).parameters) for each in (command, parse)
    )
    del own[parameter]

    def with_options(**given: Any) -> None:
        parsed = parse(**{name: given.pop(name) for name in added})
        command(**given, **{parameter: parsed})

    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (own | added).values()
    ]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__ = command.__name__
    with_options.__doc__ = command.__doc__
    return with_options


def _option(name: str) -> Any:
    return Option(
        flag_of_setting(name),
        metavar=OPTIONS[name],
        help=_SHORT_HELP[name],
        rich_help_panel=SETTINGS_SECTION,
        show_default=False,
        autocompletion=_COMPLETIONS.get(name),
    )


# The help of a command has a line for each; `tribunal graphs NAME` and docs/settings.md have the whole description.
_SHORT_HELP = {
    "model": "The model of every seat, or several with commas.",
    "seats": "A model for one seat. Can be repeated.",
    "policy": "A shipped policy, or a TOML file.",
    "prompts": "A folder of your own prompts.",
    "scheme": "Labels: categories, or hateful and not.",
    "rounds": "Debate rounds, at most.",
    "web": "Look the post up on the web.",
    "perspectives": "The perspectives to ask, or all.",
    "threshold": "Verdicts below it are uncertain.",
    "review": "Stop for a person if the model is unsure.",
}


def _type_of_option(name: str) -> Any:
    """Return the type of a setting's option, as its metavar says: a number, a switch, otherwise text."""
    if name == "seats":
        return list[str]
    return {None: bool, "N": int}.get(OPTIONS[name], str)


def flag_of_setting(name: str) -> str:
    """Return how a setting is given: by an option of its own, by --set, or only in Studio."""
    if name in _STUDIO_ONLY:
        return "in Studio"
    if name in OPTIONS:
        return _FLAGS.get(name, f"--{name}")
    return _SHARED.get(name, f"--set {name}")


def parse_pairs(
    given: list[str] | None, option: str, form: str, *, blank: bool = False
) -> dict[str, str]:
    """Parse several `NAME=VALUE`, whose value may be `blank` if that is said.

    Raises:
        BadInput: one is not of the form.
    """
    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not (blank or value.strip()):
            raise BadInput(f"{option}: {each!r}: give it as {form}")
        pairs[name.strip()] = value.strip()
    return pairs


def _parse_options(*, set: list[str] | None, **options: Any) -> dict[str, Any]:
    """Return the fields of `Context` that the options set.

    Raises:
        BadInput: an option has a malformed value, or a setting is given twice.
    """
    settings: dict[str, Any] = {
        **options,
        "seats": parse_pairs(options["seats"], "seat", "NAME=PROVIDER:MODEL"),
    }
    if options["perspectives"]:
        settings["perspectives"] = [name.strip() for name in options["perspectives"].split(",")]
    if options["threshold"] is not None:
        try:
            settings["threshold"] = float(options["threshold"])
        except ValueError:
            settings["threshold_file"] = settings.pop("threshold")
    settings = {name: value for name, value in settings.items() if value not in (None, {})}
    for name, value in parse_settings(set or []).items():
        if name in settings:
            raise BadInput(
                f"{name}: is given by {flag_of_setting(name)} and by --set; give it once"
            )
        settings[name] = value
    return settings


def check_settings(graph: str, settings: Mapping[str, Any]) -> Context:
    """Check a graph and its settings before LangGraph is imported, which takes most of a command's start.

    Args:
        graph: its name, or its file.
        settings: the fields of `Context` that the user set.

    Raises:
        BadInput: there is no such graph, model or file, or a setting is wrong or has no effect.
    """
    from tribunal.graphs import GRAPHS, check_name, load_seats
    from tribunal.models.registry import model_names
    from tribunal.settings.context import context_from, refuse_unused_settings

    check_name(graph)
    load_seats(graph, settings)
    context = context_from(settings)
    for field in ("model", "aux_model", "judge_model", "triage"):
        names = getattr(context, field)
        if names:
            model_names(names, field)
    for seat, names in context.seats.items():
        model_names(names, f"seats.{seat}")
    if graph in GRAPHS:  # the settings and prompts of another are known once it is loaded
        refuse_unused_settings(graph, context)
        _check_files(context, settings)
    return context


def _check_files(context: Context, settings: Mapping[str, Any]) -> None:
    if "policy" in settings:
        from tribunal.prompts.policy import POLICY_TEXTS

        POLICY_TEXTS.read(context.policy)
    if context.prompts is not None:
        from tribunal.prompts.sets import PROMPT_TEXTS

        PROMPT_TEXTS.read(context.prompts)
    if context.threshold_file is not None:
        from tribunal.nodes.threshold import THRESHOLDS

        THRESHOLDS.read(context.threshold_file)


def _settings_parser(*left_out: str) -> Callable[..., dict[str, Any]]:
    """Return `_parse_options` with the options of the settings, except these, and --set as its parameters."""
    options: dict[str, Any] = {
        name: Annotated[_type_of_option(name) | None, _option(name)]
        for name in OPTIONS
        if name not in left_out
    }
    options["set"] = Annotated[list[str] | None, _SET]

    def parse(**given: Any) -> dict[str, Any]:
        return _parse_options(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=None, annotation=each)
        for name, each in options.items()
    ]
    parse.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return parse


# Adds the options of the settings to a command, which is given their values as `settings`.
with_settings = partial(extend_options, parameter="settings", parse=_settings_parser())
# A run of `eval` takes in no decisions of people, so it has no --review. --set web=true looks things up.
with_settings_of_eval = partial(
    extend_options, parameter="settings", parse=_settings_parser("review", "web")
)
