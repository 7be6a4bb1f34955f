"""The options of the model and the graph, declared once: of `tribunal judge`, `eval` and `batch`, and what they set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from tribunal.commands.shared_options import graph_names, perspective_list, policy_names
from tribunal.core.text import parse_json, parse_toml
from tribunal.errors import BadInput

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
_COMPLETIONS: dict[str, Callable[[str], list[str]]] = {"policy": policy_names, "perspectives": perspective_list}
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
            held, name = settings.setdefault(setting, {}), seat
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
    is_text = takes in ("<class 'str'>", "str | None", "dict[str, str]") and not isinstance(value, dict)
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
    return value if len(held) == 1 and isinstance(value, str | int | float | bool | list | dict) else text


def extend_options(
    command: Callable[..., None],
    parameter: str,
    parse: Callable[..., Any],
    check: Callable[[Mapping[str, Any], Any], None] | None = None,
) -> Callable[..., None]:
    """Return a command with more options beside its own.

    Args:
        command: the command.
        parameter: what it is given of them: what `parse` returns.
        parse: its parameters are the options.
        check: refuses values of the command's own options, and of these; it is called before the command.
    """
    own, added = (dict(inspect.signature(each, eval_str=True).parameters) for each in (command, parse))
    del own[parameter]

    def with_options(**given: Any) -> None:
        parsed = parse(**{name: given.pop(name) for name in added})
        if check is not None:
            check(given, parsed)
        command(**given, **{parameter: parsed})

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (own | added).values()]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
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


def parse_pairs(given: list[str] | None, option: str, form: str, *, blank: bool = False) -> dict[str, str]:
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
    settings: dict[str, Any] = {**options, "seats": parse_pairs(options["seats"], "seat", "NAME=PROVIDER:MODEL")}
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
            raise BadInput(f"{name}: is given by {flag_of_setting(name)} and by --set; give it once")
        settings[name] = value
    return settings


def check_before_imports(options: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Check a graph, settings and files of a command before LangGraph is imported, which takes most of its start.

    Args:
        options: the command's own options. Settings are not checked beside a protocol, which has some of its own, or
            beside imported predictions.
        settings: the fields of `Context` that the user set.

    Raises:
        BadInput: one of them is wrong.
    """
    from tribunal import DEFAULT_GRAPH
    from tribunal.graphs import GRAPHS, check_name, load_seats
    from tribunal.models.registry import model_names
    from tribunal.nodes.threshold import THRESHOLDS
    from tribunal.prompts.policy import POLICY_TEXTS
    from tribunal.prompts.sets import PROMPT_TEXTS
    from tribunal.settings.context import context_from, refuse_unused_settings

    graph = options.get("graph") or DEFAULT_GRAPH
    check_name(graph)
    if options.get("prices") is not None:
        from tribunal.runner.prices import read_prices

        read_prices(options["prices"])
    _check_data(options.get("data") or [options.get("posts") or ""])
    if options.get("protocol") is not None or options.get("predictions") is not None:
        return
    load_seats(graph, settings)
    context = context_from(settings)
    for field in ("model", "aux_model", "judge_model", "triage"):
        if names := getattr(context, field):
            model_names(names, field)
    for seat, names in context.seats.items():
        model_names(names, f"seats.{seat}")
    if graph not in GRAPHS:  # its own prompts are known once it is loaded
        return
    refuse_unused_settings(graph, context)
    for field, texts in {"policy": POLICY_TEXTS, "prompts": PROMPT_TEXTS, "threshold_file": THRESHOLDS}.items():
        if field in settings:
            texts.read(getattr(context, field))


def _check_data(places: Sequence[str]) -> None:
    for place in places:
        path = place.partition("=")[2] if not Path(place).exists() and "=" in place else place
        if path and "://" not in path and not Path(path).exists():
            raise BadInput(f"data: {path}: no such file or folder")


def _settings_parser(*left_out: str) -> Callable[..., dict[str, Any]]:
    """Return `_parse_options` with the options of the settings, except these, and --set as its parameters."""
    options: dict[str, Any] = {
        name: Annotated[_type_of_option(name) | None, _option(name)] for name in OPTIONS if name not in left_out
    }
    options["set"] = Annotated[list[str] | None, _SET]

    def parse(**given: Any) -> dict[str, Any]:
        return _parse_options(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, default=None, annotation=each) for name, each in options.items()]
    parse.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return parse


# Adds the options of the settings to a command, which is given their values as `settings`.
with_settings = partial(extend_options, parameter="settings", parse=_settings_parser())
# The same for a command that decides posts: what is wrong is refused before it begins.
with_checked_settings = partial(with_settings, check=check_before_imports)
# A run of `eval` takes in no decisions of people, so it has no --review. --set web=true looks things up.
with_settings_of_eval = partial(
    extend_options, parameter="settings", parse=_settings_parser("review", "web"), check=check_before_imports
)
