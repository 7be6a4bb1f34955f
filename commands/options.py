"""The options of the model and the graph, declared once: of `tribunal judge`, `eval` and `batch`, and what they set."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from tribunal.commands.completing import (
    graph_names,
    perspective_list,
    perspective_names,
    policy_names,
    precedent_names,
)
from tribunal.settings import SECTIONS, SETTINGS, description

GRAPH = (
    "tribunal, arcade, multiround, predict, antihate, mv_debate, baseline, self_consistency or symmetric_debate "
    "(tribunal graphs draws them), an installed system by its name, or a pipeline of your own, as file.py:graph or "
    "module:graph."
)
Graph = Annotated[str, typer.Option(help=GRAPH, autocompletion=graph_names)]
# The settings that most people set. Their options stand together, before the sections of the others.
COMMON = ("model", "policy", "rounds", "web", "perspectives", "review")
COMMON_SECTION = "Common settings"


class Own(NamedTuple):
    """A setting's own option: its type, what its value is called, and its name where that isn't the setting's."""

    kind: Any = str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    names: Callable[[str], list[str]] | None = None


_MODEL, _FILE, _NAMES = Own(metavar="MODEL"), Own(metavar="FILE"), Own(metavar="NAME,…")
# The settings that have an option of their own; the others are given by --set.
OWN: dict[str, Own] = {
    "task": Own(),
    "policy": Own(metavar="NAME|FILE", names=policy_names),
    "policy_language": Own(),
    "prompts": Own(metavar="FOLDER"),
    "scheme": Own(),
    "model": _MODEL,
    "judge_model": _MODEL,
    "aux_model": _MODEL,
    "seats": Own(list[str], "NAME=MODEL", ("--seat",)),
    "temperatures": Own(list[str], "NAME=NUMBER", ("--temperature",)),
    "draw_temperature": Own(float),
    "line_up": Own(metavar="NAME|FILE"),
    "perspectives": _NAMES._replace(names=perspective_list),
    "leave_out": Own(metavar="NAME", names=perspective_names),
    "embedding": Own(),
    "precedents": Own(metavar="NAME|FOLDER", names=precedent_names),
    "precedents_k": Own(int),
    "web": Own(bool, flags=("--web",)),
    "search": Own(),
    "searxng_url": Own(metavar="URL"),
    "archive": _FILE,
    "fresh": Own(bool, flags=("--fresh",)),
    "max_turns": Own(int),
    "max_pages": Own(int),
    "max_seconds": Own(float),
    "triage": Own(metavar="MODEL|first-look:DIR"),
    "triage_confidence": Own(float),
    "rounds": Own(int),
    "early_exit": Own(bool, flags=("--early-exit/--no-early-exit",)),
    "boxes": Own(bool, flags=("--boxes",)),
    "mode": Own(),
    "views": _NAMES,
    "top_k": Own(int),
    "reflection_mode": Own(flags=("--reflection", "--reflection-mode")),
    "tau": Own(float),
    "history": Own(),
    "draws": Own(int),
    "agents": Own(int),
    "judge_draws": Own(int),
    "threshold": Own(metavar="NUMBER|FILE"),
    "review": Own(bool, flags=("--review",)),
    "review_rule": _NAMES,
    "max_calls": Own(int),
    "max_tokens": Own(int),
    "max_output_tokens": Own(int),
    "timeout": Own(float),
    "attempts": Own(int),
    "cache": _FILE,
}
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


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options beside its own; it is given what they set as `settings`."""
    from tribunal.commands.errors import ending_well

    own = inspect.signature(command, eval_str=True).parameters

    def with_options(**given: Any) -> None:
        with ending_well():
            settings = _settings({name: given.pop(name) for name in OWN}, given.pop("set"))
        command(**given, settings=settings)

    parameters = [each.replace(kind=_KEYWORD) for name, each in own.items() if name != "settings"]
    others = [name for section in SECTIONS.values() for name in section if name in OWN and name not in COMMON]
    parameters += [_option(name) for name in (*COMMON, *others)]
    parameters += [inspect.Parameter("set", _KEYWORD, default=None, annotation=Annotated[list[str] | None, _SET])]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _option(name: str) -> inspect.Parameter:
    own = OWN[name]
    section = COMMON_SECTION if name in COMMON else next(title for title, held in SECTIONS.items() if name in held)
    flags = own.flags or (flag(name),)
    option = typer.Option(
        *flags,
        metavar=own.metavar,
        help=help_of(name),
        rich_help_panel=section,
        show_default=False,
        autocompletion=own.names,
    )
    return inspect.Parameter(name, _KEYWORD, default=None, annotation=Annotated[own.kind | None, option])


def flag(name: str) -> str:
    """How a setting is given: by an option of its own, or by --set; or in Studio alone."""
    if name in _STUDIO_ONLY:
        return "in Studio"
    if name not in OWN:
        return _SHARED.get(name, f"--set {name}")
    return OWN[name].flags[0].partition("/")[0] if OWN[name].flags else f"--{name.replace('_', '-')}"


def help_of(name: str) -> str:
    """A setting's description, with the options for the names of other settings."""
    words = description(name)
    if name == "threshold":
        words += f" FILE: {SETTINGS['threshold_file'].does}"
    return re.sub(r"`(\w+)`", lambda named: flag(named[1]), words)


def _settings(own: dict[str, Any], assigned: list[str] | None) -> dict[str, Any]:
    """What the options set: the fields of `Context` that were given.

    Raises:
        BadInput: an option is not of its form, or one setting is given in two ways.
    """
    settings: dict[str, Any] = {
        **own,
        "seats": pairs(own["seats"], "seat", "NAME=PROVIDER:MODEL"),
        "temperatures": _numbers(pairs(own["temperatures"], "temperature", "NAME=NUMBER")),
        "perspectives": _names(own["perspectives"]),
        "views": _names(own["views"]),
        "review_rule": _names(own["review_rule"]),
        "threshold": None,
        **_threshold(own["threshold"]),
    }
    settings = {name: value for name, value in settings.items() if value not in (None, {})}
    if assigned:
        from tribunal.commands.assignments import assignments
        from tribunal.errors import BadInput

        for name, value in assignments(assigned).items():
            if name in settings:
                raise BadInput(f"{name}: is given by {flag(name)} and by --set; give it once")
            settings[name] = value
    return settings


def _names(given: str | None) -> list[str] | None:
    return [name.strip() for name in given.split(",")] if given else None


def _threshold(given: str | None) -> dict[str, Any]:
    """A number, or a file that holds one."""
    if given is None:
        return {}
    try:
        return {"threshold": float(given)}
    except ValueError:
        return {"threshold_file": given}


def pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    """What several `NAME=VALUE` come to.

    Raises:
        BadInput: one is not of the form.
    """
    from tribunal.errors import BadInput

    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadInput(f"{option}: {each!r}: give it as {form}")
        pairs[name.strip()] = value.strip()
    return pairs


def _numbers(pairs: dict[str, str]) -> dict[str, float]:
    from tribunal.errors import BadInput

    numbers = {}
    for name, value in pairs.items():
        try:
            numbers[name] = float(value)
        except ValueError as error:
            raise BadInput(f"temperature: {name}={value}: {value!r} is not a number") from error
    return numbers
