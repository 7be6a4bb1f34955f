"""The options of the model and the graph, declared once: of `tribunal judge`, `eval` and `batch`, and what they set."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from tribunal.commands.completing import graph_names, perspective_list, perspective_names, policy_names, precedent_names
from tribunal.errors import BadInput
from tribunal.settings import SECTIONS, SETTINGS, EverySetting, describe_setting
from tribunal.text import parse_json, parse_toml

# Settings that have a value for each seat, so that one seat can be set by itself: seats.judge.
BY_SEAT = ("seats", "temperatures")
GRAPH = (
    "The graph: one of those that tribunal graphs draws, an installed system, or a pipeline of your own as "
    "file.py:graph or module:graph."
)
Graph = Annotated[str, typer.Option(help=GRAPH, autocompletion=graph_names)]
# The settings that most people set. Their options stand together, before the sections of the others.
COMMON = ("model", "policy", "rounds", "web", "perspectives", "review")
COMMON_SECTION = "Common settings"
# What a shell completes the values of some settings with.
_NAMES: dict[str, Callable[[str], list[str]]] = {
    "policy": policy_names,
    "perspectives": perspective_list,
    "leave_out": perspective_names,
    "precedents": precedent_names,
}
# The settings that have an option of their own; the others are given by --set.
OWN = [name for name, each in SETTINGS.items() if each.option]
# Options that are named otherwise than their setting.
_FLAGS = {"seats": ("--seat",), "temperatures": ("--temperature",)}
# Options that take several names, separated by commas.
_LISTS = ("perspectives", "views", "review_rule")
# --threshold takes a number or a file, each a setting of its own.
_SHARED = {"threshold_file": "--threshold FILE"}
# A command runs to its end: nobody could go on from a stop.
_STUDIO_ONLY = ("stops",)
_OTHERS = [name for name in SETTINGS if name not in OWN and name not in (*_SHARED, *_STUDIO_ONLY)]
_SET = typer.Option(
    "--set",
    metavar="NAME=VALUE",
    rich_help_panel="Every setting",
    help="Any setting by its name, such as window_tokens=1000 or seats.judge=openai:gpt-5. VALUE is text, or a number, "
    f"a list or a table in TOML or JSON. May be given again. Only this way: {', '.join(_OTHERS)}.",
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
    from tribunal.context import Context

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


def extend_options(command: Callable[..., None], parameter: str, parse: Callable[..., Any]) -> Callable[..., None]:
    """Return a command with more options beside its own.

    Args:
        command: the command.
        parameter: what it is given of them: what `parse` returns.
        parse: its parameters are the options.
    """
    own, added = (dict(inspect.signature(each, eval_str=True).parameters) for each in (command, parse))
    del own[parameter]

    def with_options(**given: Any) -> None:
        parsed = parse(**{name: given.pop(name) for name in added})
        command(**given, **{parameter: parsed})

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (own | added).values()]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of the settings beside its own; it is given what they set as `settings`."""
    return extend_options(command, "settings", _parse_options)


def _option(name: str) -> Any:
    setting = SETTINGS[name]
    return typer.Option(
        *_flags(name),
        metavar=setting.option if isinstance(setting.option, str) and not setting.option.startswith("-") else None,
        help=help_of_setting(name),
        rich_help_panel=COMMON_SECTION if name in COMMON else setting.section,
        show_default=False,
        autocompletion=_NAMES.get(name),
    )


def _kind_of(declared: Any) -> Any:
    """Return the type of a setting's option: a number or a switch as it is, and whatever else as text."""
    kinds = {*(get_args(declared) or (declared,))} & {bool, int, float}
    return kinds.pop() if kinds and get_origin(declared) is not dict else str


# --threshold takes a file too.
OPTION_TYPES: dict[str, Any] = {name: _kind_of(kind) for name, kind in get_type_hints(EverySetting).items()}
OPTION_TYPES |= {"threshold": str, **dict.fromkeys(_FLAGS, list[str])}


def _flags(name: str) -> tuple[str, ...]:
    """Return the flags of a setting's own option. One that is off by default has none to turn it off."""
    option = SETTINGS[name].option
    if isinstance(option, str) and option.startswith("-"):
        return tuple(option.split(","))
    return _FLAGS.get(name) or (f"--{name.replace('_', '-')}",)


def flag_of_setting(name: str) -> str:
    """Return how a setting is given: by an option of its own, or by --set; or in Studio alone."""
    if name in _STUDIO_ONLY:
        return "in Studio"
    if name not in OWN:
        return _SHARED.get(name, f"--set {name}")
    return _flags(name)[0].partition("/")[0]


def help_of_setting(name: str) -> str:
    """Return a setting's description, with the options for the names of other settings."""
    words = describe_setting(name)
    if name == "threshold":
        words += f" FILE: {SETTINGS['threshold_file'].does}"
    return re.sub(r"`(\w+)`", lambda named: flag_of_setting(named[1]), words)


def parse_pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    """Parse several `NAME=VALUE`.

    Raises:
        BadInput: one is not of the form.
    """
    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadInput(f"{option}: {each!r}: give it as {form}")
        pairs[name.strip()] = value.strip()
    return pairs


def _parse_options(*, set: list[str] | None, **own: Any) -> dict[str, Any]:
    """Return the fields of `Context` that the options set.

    Raises:
        BadInput: an option is not of its form, or one setting is given in two ways.
    """
    settings: dict[str, Any] = {**own, "seats": parse_pairs(own["seats"], "seat", "NAME=PROVIDER:MODEL")}
    settings["temperatures"] = {}
    for name, value in parse_pairs(own["temperatures"], "temperature", "NAME=NUMBER").items():
        try:
            settings["temperatures"][name] = float(value)
        except ValueError as error:
            raise BadInput(f"temperature: {name}={value}: {value!r} is not a number") from error
    for name in _LISTS:
        settings[name] = [each.strip() for each in own[name].split(",")] if own[name] else None
    if own["threshold"] is not None:
        try:
            settings["threshold"] = float(own["threshold"])
        except ValueError:
            settings["threshold_file"] = settings.pop("threshold")
    settings = {name: value for name, value in settings.items() if value not in (None, {})}
    for name, value in parse_settings(set or []).items():
        if name in settings:
            raise BadInput(f"{name}: is given by {flag_of_setting(name)} and by --set; give it once")
        settings[name] = value
    return settings


def _option_parameters() -> list[inspect.Parameter]:
    """Return the options of the settings, the common ones first, and --set."""
    others = [name for section in SECTIONS.values() for name in section if name in OWN and name not in COMMON]
    options: dict[str, Any] = {name: Annotated[OPTION_TYPES[name] | None, _option(name)] for name in (*COMMON, *others)}
    options["set"] = Annotated[list[str] | None, _SET]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, keyword, default=None, annotation=each) for name, each in options.items()]


_parse_options.__signature__ = inspect.Signature(_option_parameters())  # type: ignore[attr-defined]
