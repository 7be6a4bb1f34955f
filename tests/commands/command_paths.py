"""Every path that a command reads or writes: how the command is run on sound files, and where each path lies.

Kept by hand, and held against the commands themselves: a new command, or a new option that names a file, has to be put
here (test_command_paths.py). Files are those of sound_files.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

SKIPPED = {
    # Names a data set, an address of the web or of a server, or what begins a word.
    "judge searxng_url", "eval searxng_url", "batch searxng_url", "policy try searxng_url",
    "prompts import source",
    "service webhooks add url", "serve public_url", "dsa statements to", "dsa send to", "review import service",
    "cases list image", "review list image",  # with or without one
}  # fmt: skip
DATABASE = "data/service.sqlite"


class Reading(NamedTuple):
    """A command that reads a path: its arguments, and the path within the sound files.

    `first` is whether no reading before it has the same path: the others read it by the same code.
    """

    command: str
    parameter: str
    arguments: list[str]
    path: str
    first: bool

    def __str__(self) -> str:
        return f"{self.command} {self.parameter}"


# How each command is run. Where one of its words is a file, it is the path of the parameter named behind it.
COMMANDS: dict[str, tuple[str, dict[str, str]]] = {
    "judge": ("'Good morning.' --keep", {"image": "image.png", "explain": "new.html"}),
    "eval": (
        "--dataset table --data few.csv --out new --graph arcade",
        {"data": "few.csv", "out": "new", "budget_from": "run", "predictions": "few.csv"},
    ),
    "batch": (
        "few.csv --out new.jsonl --graph arcade",
        {"posts": "few.csv", "out": "new.jsonl", "run_folder": "begun"},
    ),
    "fit": ("sure --out new.json", {"source": "sure", "out": "new.json"}),
    "report": ("run --out new", {"folders": "run", "out": "new"}),
    "export": ("run --to csv --out new", {"folders": "run", "out": "new", "data": "few.csv"}),
    "explain": (
        "record.json --out new.md",
        {
            "case": "record.json", "out": "new.md", "image": "image.png", "policy": "policy.toml",
            "mapping": "mapping.toml",
        },
    ),
    "dsa report": ("--from 2020-01-01 --to 2030-01-01 --out new.md", {"out": "new.md"}),
    "serve": ("", {"prices": "prices.toml", "mapping": "mapping.toml"}),
    "try": ("--no-open", {}),
    "service migrate": ("", {}),
    "cases forget": ("--case {decided} --yes", {}),
    "experiment plan": (
        "arcade-table3 --data sets/h-vli --samples 4 --out new --model rehearsal",
        {"data": "sets/h-vli", "out": "new", "measured_in": "run", "runs": "run"},
    ),
    "experiment run": (
        "arcade-table3 --data sets/h-vli --samples 4 --out new --model rehearsal --yes",
        {"data": "sets/h-vli", "out": "new", "measured_in": "run"},
    ),
    "experiment show": ("tabled --to csv --output new", {"name": "tabled", "output": "new"}),
    "cascade plan": ("sure surer", {"folders": "sure"}),
    "service keys add": ("kim --scope judge", {}),
    "service keys list": ("", {}),
    "service keys revoke": ("none", {}),
    "service webhooks add": ("https://example.org/hook", {}),
    "service webhooks list": ("", {}),
    "service webhooks remove": ("none", {}),
    "service webhooks test": ("none", {}),
    "service webhooks replay": ("none", {}),
    "audit verify": ("", {"results": "run/results.jsonl"}),
    "service keys rotate": ("none", {}),
    "cases retry": ("{decided}", {}),
    "audit show": ("", {}),
    "review appeals": ("none --reviewer kim --uphold", {}),
    "review list": ("--decided", {}),
    "review show": ("{waiting}", {}),
    "review decide": ("{waiting} --accept", {}),
    "review resume": ("{waiting}", {}),
    "review claim": ("{waiting}", {}),
    "review export": ("--out new.jsonl", {"out": "new.jsonl"}),
    "review import": ("exported.json", {"labelled": "exported.json", "dataset": "new.jsonl"}),
    "cases list": ("", {}),
    "cases show": ("{decided}", {}),
    "cases export": ("--out new.jsonl --posts --records", {"out": "new.jsonl"}),
    "annotate export": ("few.csv --out new --columns label=label --labels hate=hate --labels not=not",
                        {"data": "few.csv", "out": "new"}),
    "annotate again": (
        "labelled.json --tasks annotated --out new",
        {"exports": "labelled.json", "tasks": "annotated", "out": "new"},
    ),
    "annotate import": (
        "labelled.json --tasks annotated --out new.jsonl",
        {"exports": "labelled.json", "tasks": "annotated", "out": "new.jsonl"},
    ),
    "perspectives build": (
        "spec.toml --data . --out new --embedding tfidf",
        {"spec": "spec.toml", "data": "table.csv", "out": "new"},
    ),
    "perspectives show": ("forum", {"name": "data/perspectives/forum"}),
    "precedents build": (
        "ours --from decided.jsonl",
        {"source": "decided.jsonl", "out": "new", "name": "data/precedents/ours"},
    ),
    "precedents show": ("ours", {"name": "data/precedents/ours"}),
    "dsa statements": ("--out new --mapping mapping.toml", {"out": "new", "mapping": "mapping.toml"}),
    "dsa send": ("--to http://127.0.0.1:9/statements", {}),
    "dsa list": ("", {}),
    "policy show": ("policy.toml", {"name": "policy.toml"}),
    "policy try": (
        "policy.toml --on cases.jsonl --out new --yes",
        {"new": "policy.toml", "on": "cases.jsonl", "out": "new"},
    ),
    "prompts export": ("new", {"folder": "new"}),
    "prompts check": ("prompts", {"folder": "prompts"}),
    "compare": (
        "setups.toml --on few.csv --out new",
        {
            "setups": "setups.toml", "on": "few.csv", "out": "new", "prompts": "prompts", "log": "few.csv",
            "decisions": "run",
        },
    ),
    "prompts import": ("h-vli published new", {"clone": "published", "to": "new"}),
    "evidence": ("p1 --archive archive.sqlite", {"archive": "archive.sqlite"}),
}  # fmt: skip
# Options that are added where they are tried, by parameter.
ADDED = {
    "prices": ("--prices prices.toml", "prices.toml"),
    "policy": ("--policy policy.toml", "policy.toml"),
    "prompts": ("--graph arcade --prompts prompts", "prompts"),
    "line_up": ("--set line_up=line_up.toml", "line_up.toml"),
    "archive": (
        "--graph antihate --set search=none --set archive=archive.sqlite",
        "archive.sqlite",
    ),
    "precedents": ("--graph tribunal --set precedents=ours", "data/precedents/ours"),
    "perspectives": ("--graph predict --perspectives forum", "data/perspectives/forum"),
    "threshold": (
        "--graph tribunal --set review=true --threshold threshold.json",
        "threshold.json",
    ),
    "cache": ("--set cache=cache.sqlite", "cache.sqlite"),
}
# Options that are added for what isn't among a command's own words.
EXTRA = {
    "judge image": "--image image.png", "judge explain": "--explain new.html", "eval budget_from": "--budget-from run",
    "eval predictions": "--predictions few.csv",
    "batch run_folder": "--run-folder begun", "export data": "--data few.csv",
    "explain image": "--image image.png", "explain policy": "--policy policy.toml",
    "experiment plan measured_in": "--measured-in run", "experiment plan runs": "--detect 2 --run run",
    "experiment run measured_in": "--measured-in run", "review import dataset": "--as-dataset new.jsonl",
    "audit verify results": "--results run/results.jsonl",
    "precedents build out": "--out new",
    "serve prices": "--prices prices.toml", "serve mapping": "--mapping mapping.toml",
    "compare prompts": "--graph arcade --prompts prompts",
    "compare log": "--log few.csv --log-column removed=label --removed-as hate",
    "explain mapping": "--for poster --mapping mapping.toml", "batch database": "--keep",
}  # fmt: skip
SETTINGS = [
    "policy", "prompts", "line_up", "archive", "precedents", "perspectives", "threshold", "cache",
]  # fmt: skip
OF_SETTINGS = ("judge", "eval", "batch", "policy try")
OF_PRICES = (
    "eval", "batch", "report", "export", "explain", "policy try", "cascade plan",
    "experiment plan", "experiment run", "compare",
)  # fmt: skip
NO_DATABASE = {
    "eval", "report", "export",
    "experiment plan", "experiment run", "experiment show", "cascade plan", "annotate export", "annotate again",
    "annotate import",
    "perspectives build", "perspectives show", "precedents show",
    "policy show", "policy try", "prompts export", "prompts check",
    "prompts import", "evidence",
}  # fmt: skip
# Other words, where those of the command leave the path alone.
INSTEAD = {
    "precedents build database": "new",
    "fit database": "--reviewed",
    "eval predictions": "--dataset table --data few.csv --out new",
    "compare database": "--log few.csv --log-column removed=label --removed-as hate --out new",
    "explain database": "{decided} --out new.md",
}
# Files that are not read: the case of record.json has no image; these settings are refused; a plan writes nothing.
UNREAD = {
    "explain image", "policy try policy", "experiment plan out",
}  # fmt: skip
PASSED_OVER = {"audit verify results"}  # their broken lines are counted, and passed over
_NAMES_A_PATH = ("FILE", "FOLDER", "DIR", "PATH", "SOURCE", "SPEC", "URL")
_BY_NAME = ("image", "triage", "perspectives")


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of the command line, by its words."""
    context = group.context_class(group, info_name="tribunal")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if hasattr(found, "list_commands"):
            yield from leaves(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


def path_parameters() -> set[str]:
    """Each command's parameters that name a file, a folder or a database."""
    from tribunal.commands import app

    found = set()
    for command, held in leaves(typer.main.get_command(app)):
        context = held.context_class(held, info_name=command)
        for each in held.get_params(context):
            metavar = each.metavar or ""
            if (
                type(each.type).__name__ == "TyperPath"
                or any(word in metavar for word in _NAMES_A_PATH)
                or each.name in _BY_NAME
            ):
                found.add(f"{command} {each.name}")
    return found - SKIPPED


def readings() -> list[Reading]:
    """Every command with each of its paths. Nothing of a command is imported."""
    made: list[Reading] = []
    for command, (words, own) in COMMANDS.items():
        shared = [*SETTINGS * (command in OF_SETTINGS), *["prices"] * (command in OF_PRICES)]
        shared += ["database"] * (command not in NO_DATABASE)
        for parameter in [*own, *shared]:
            more, path = EXTRA.get(f"{command} {parameter}", ""), own.get(parameter, DATABASE)
            if parameter in ADDED and parameter not in own:
                more, path = ADDED[parameter]
            own_words = INSTEAD.get(f"{command} {parameter}", words)
            if "--graph" in more:
                own_words = own_words.replace(" --graph arcade", "")
            first = path not in {each.path for each in made}
            made.append(
                Reading(
                    command, parameter, shlex.split(f"{command} {own_words} {more}"), path, first
                )
            )
    begun = shlex.split(
        "eval --dataset table --data few.csv --out run --graph baseline --keep-text --retry failures"
    )
    return [*made, Reading("eval", "begun", begun, "run", first=True)]
