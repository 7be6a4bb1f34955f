"""Settings from the command line: each by an option of its own or by `--set`, and what a wrong one is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer

from tests import PROJECT
from tests.commands.command_paths import leaves
from tests.commands.test_judge import run
from tribunal.commands import app
from tribunal.commands.command_group import REMOVED_COMMANDS
from tribunal.commands.options import OPTIONS, SETTINGS_SECTION, flag_of_setting, with_settings
from tribunal.errors import BadInput
from tribunal.settings.context import Context, context_from
from tribunal.settings.graph_settings import GRAPHS, SECTIONS, SETTINGS, describe_setting
from tribunal.settings.names import RENAMED

PAGE = PROJECT / "docs" / "settings.md"
# A value of each setting that is not its default, as text.
VALUES = {
    "task": "sarcasm", "policy": "mine.toml", "policy_language": "post",
    "prompt_texts": '{"arcade/judge" = "Decide."}', "policy_definition": "Words.",
    "prompts": "mine", "scheme": "binary", "model": "rehearsal", "judge_model": "rehearsal",
    "aux_model": "rehearsal", "seats": "judge=rehearsal", "temperatures": "judge=0.5", "draw_temperature": "0.5",
    "extra_body": '{"openai:x" = {top_k = 1}}',
    "line_up": "l.toml", "perspectives": "all", "leave_out": "kold", "embedding": "e", "web": "true",
    "precedents": "ours", "precedents_k": "2",
    "search": "none", "searxng_url": "http://localhost", "archive": "a.sqlite", "fresh": "true", "max_turns": "2",
    "hits": "2", "max_pages": "2", "max_windows": "2", "window_tokens": "1000", "window_overlap": "100",
    "max_seconds": "2", "triage": "rehearsal", "triage_confidence": "0.5", "rounds": "2", "early_exit": "true",
    "boxes": "true", "policy_examples": "true", "policy_clauses": "true",
    "mode": "base", "views": "surface,deep", "top_k": "2", "reflection_mode": "none", "tau": "0.5", "history": "all",
    "draws": "2", "agents": "2", "judge_draws": "2", "threshold": "0.5", "threshold_file": "t.json", "review": "true",
    "review_rule": "all", "max_calls": "2", "max_tokens": "2", "max_text": "2", "image_edge": "100",
    "max_output_tokens": "100", "timeout": "2", "attempts": "2", "cache": "c.sqlite", "repeat": "2", "trace": "true",
    "answer_order": "label-first", "debate_memory": "arguments", "turns_shown": "none", "cue_limit": "3",
    "judge_rejects": "both-tracks", "examples_k": "2", "stops": "defend",
}  # fmt: skip


def settings_of(*arguments: str) -> dict[str, Any]:
    """What a command is given for these options, once it has been checked."""
    from typer.testing import CliRunner

    given: dict[str, Any] = {}

    def command(*, settings: dict[str, Any]) -> None:
        given.update(settings)

    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(with_settings(command))
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, BadInput):
        raise done.exception
    usual = context_from({}).model_dump()
    return {
        name: value
        for name, value in context_from(given).model_dump().items()
        if value != usual[name]
    }


def test_every_setting_is_known_here() -> None:
    assert VALUES.keys() == Context.model_fields.keys()


@pytest.mark.parametrize("name", VALUES)
def test_every_setting_can_be_set_by_its_name(name: str) -> None:
    value = VALUES[name]
    seat = name in ("seats", "temperatures")
    assert name in settings_of("--set", f"{name}.{value}" if seat else f"{name}={value}")


@pytest.mark.parametrize("name", [*OPTIONS, "threshold_file"])
def test_an_option_of_its_own_sets_the_same(name: str) -> None:
    option = flag_of_setting(name).split()[0]
    value = VALUES[name]
    given = [option] if name in OPTIONS and OPTIONS[name] is None else [option, value]
    seat = name in ("seats", "temperatures")
    assert settings_of(*given) == settings_of(
        "--set", f"{name}.{value}" if seat else f"{name}={value}"
    )


@pytest.mark.parametrize(
    ("given", "comes_to"),
    [
        ("cache=7", {"cache": "7"}),
        ('cache="7"', {"cache": "7"}),
        ("cache=2026-01-01", {"cache": "2026-01-01"}),
        ("model=openai:a = b", {"model": "openai:a = b"}),
        ("seats.view:deep=openai:a", {"seats": {"view:deep": "openai:a"}}),
        ('seats={"judge": "openai:a"}', {"seats": {"judge": "openai:a"}}),
        (
            'temperatures={judge = 0, "view:deep" = 1}',
            {"temperatures": {"judge": 0, "view:deep": 1}},
        ),
        ('perspectives=["a", "b,c"]', {"perspectives": ["a", "b,c"]}),
        ("perspectives= a, b", {"perspectives": ["a", "b"]}),
        ("web=true", {"web": True}),
        ("web=yes", {"web": True}),
        ("early_exit=false", {"early_exit": False}),
        ("max_seconds=1e2", {"max_seconds": 100}),
        ("window_tokens=4_000", {"window_tokens": 4000}),
    ],
)
def test_a_value_is_read_as_it_is_meant(given: str, comes_to: dict[str, Any]) -> None:
    assert settings_of("--set", given) == comes_to


def test_set_is_heeded() -> None:
    done = run(
        "judge",
        "Immigrants: the weeds in our garden.",
        "--json",
        "--set",
        "rounds=1",
        "--set",
        "max_text=50",
    )
    record = json.loads(done.stdout)
    assert record["rounds"] == 1
    assert "over the 3 that are taken" in run("judge", "hello", "--set", "max_text=3").stderr
    traced = run("judge", "hello", "--json", "--set", "trace=true")
    assert "rapid scan" in traced.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "rounds=0"], "rounds: 0: Input should be greater than or equal to 1"),
        (["--set", "rounds=many"], "rounds: 'many': Input should be a valid integer"),
        (["--set", "windw_tokens=7"], "windw_tokens: no such setting; did you mean window_tokens"),
        (
            ["--set", "window-tokens=7"],
            "window-tokens: no such setting; did you mean window_tokens",
        ),
        (["--set", "samples=7"], "samples: is called draws now"),
        (["--set", "seats.bailiff=rehearsal"], "there is no seat 'bailiff'"),
        (["--set", "rounds.judge=7"], "rounds.judge: no such setting; did you mean rounds"),
        (["--set", "rounds"], "set: 'rounds': give it as NAME=VALUE"),
        (["--set", "=3"], "set: '=3': give it as NAME=VALUE"),
        (["--set", "hits=2", "--set", "hits=3"], "set: 'hits=3': hits is set twice; set it once"),
        (
            ["--set", "seats.judge=rehearsal", "--set", "seats.judge=rehearsal"],
            "seats is set twice; set it once",
        ),
        (["--set", "seats=x", "--set", "seats.judge=rehearsal"], "seats is set twice; set it once"),
        (
            ["--set", "rounds=2", "--rounds", "2"],
            "rounds: is given by --rounds and by --set; give it once",
        ),
        (
            ["--set", "seats.judge=rehearsal", "--seat", "triage=rehearsal"],
            "seats: is given by --seat and by --set",
        ),
        (
            ["--set", "threshold_file=a", "--threshold", "b"],
            "threshold_file: is given by --threshold FILE and by --set",
        ),
        (
            ["--set", "trace=true", "--trace"],
            "trace: is given by --trace and by --set; give it once",
        ),
    ],
)
def test_a_wrong_assignment_is_one_line(arguments: list[str], says: str) -> None:
    done = run("judge", "a post", *arguments)
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.startswith("tribunal: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["judge", "a post"], ["eval"], ["batch", "in.csv"]])
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--judge-samples", "it is called --set judge_draws=VALUE now"),
        ("--sample-temperature", "it is called --set draw_temperature=VALUE now"),
        ("--record", "it is called --set archive=VALUE now"),
        ("--draw", "it is called --set repeat=VALUE now"),
        ("--window-tokens", "give it as --set window_tokens=VALUE"),
        ("--window-token", "did you mean --set window_tokens=VALUE"),
        ("--judg-model", "did you mean --set judge_model=VALUE"),
        ("--jsn", "did you mean --json?"),
    ],
)
def test_an_option_that_is_none_names_the_one_that_is_meant(
    command: list[str], option: str, says: str
) -> None:
    done = run(*command, option, "1")
    assert done.exit_code == 2
    assert f"No such option: {option}; {says}" in done.stderr


def test_an_option_unlike_any_other_is_only_refused() -> None:
    done = run("judge", "a post", "--qqqq")
    assert done.exit_code == 2
    assert done.stderr.rstrip().endswith("No such option: --qqqq")


def test_samples_are_posts_in_eval_and_draws_elsewhere() -> None:
    assert "it is called --set draws=VALUE now" in run("judge", "a post", "--samples", "3").stderr
    assert "No such option" not in run("eval", "--samples", "3").stderr


@pytest.mark.parametrize("command", ["judge", "eval", "batch"])
def test_help_lists_the_options_of_settings_in_a_section(command: str) -> None:
    text = run(command, "--help", COLUMNS="100").stdout
    positions = [text.index(f"\n{title}:\n") for title in ("Options", SETTINGS_SECTION)]
    assert positions == sorted(positions)
    for name in OPTIONS:  # `eval` takes in no decisions of people, and looks the web up by --set
        assert (f"  {flag_of_setting(name)} " in text) != (
            command == "eval" and name in ("review", "web")
        )


@pytest.mark.parametrize("words", REMOVED_COMMANDS)
def test_a_removed_command_names_its_replacement(words: str) -> None:
    assert words not in dict(leaves(typer.main.get_command(app)))
    done = run(*words.split(), "anything")
    assert done.exit_code == 2
    assert REMOVED_COMMANDS[words] in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_of_judge_fits_on_one_screen() -> None:
    assert len(run("judge", "--help").stdout.splitlines()) <= 50


def test_no_command_has_more_than_40_options_and_help_cuts_nothing() -> None:
    root = typer.main.get_command(app)
    commands = dict(leaves(root))
    assert len(commands) <= 60
    assert len({words.split()[0] for words in commands}) <= 26
    for words, command in commands.items():
        options = [
            each
            for each in command.get_params(typer.Context(command))
            if each.param_type_name == "option"
        ]
        assert len(options) <= 40 + 1, words  # and --help
    text = run("--help", COLUMNS="80").stdout.split("\n", 1)[1]
    assert "..." not in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_lists_the_settings_that_it_heeds(graph: str) -> None:
    text = run("graphs", graph, COLUMNS="200").stdout
    for name, setting in SETTINGS.items():
        listed = f"\n{flag_of_setting(name)} " in text
        assert listed == (not setting.graphs or graph in setting.graphs), name


def page() -> str:
    """The page of all settings, as the model has them."""
    parts = [
        "# Settings\n",
        "The settings of a run: in Studio, from Python (`tribunal.judge(text, rounds=2)`), in an experiment's file, or",
        "on the command line. There `--set NAME=VALUE` sets any of them; the usual ones have options. A setting that",
        "names no graph applies to every graph. Written by tests/commands/test_options.py.\n",
    ]
    schema = Context.model_json_schema()["properties"]
    for title, section in SECTIONS.items():
        parts += [
            f"## {title}\n",
            "| Setting | What it does | Values | Option |",
            "|---|---|---|---|",
        ]
        for name in section:
            option = (
                "`--set`"
                if flag_of_setting(name).startswith("--set")
                else f"`{flag_of_setting(name)}`"
            )
            option = option if "--" in option else flag_of_setting(name)  # in Studio alone
            parts.append(
                f"| `{name}` | {describe_setting(name)} | {_values(schema[name])} | {option} |"
            )
        parts.append("")
    renamed = ", ".join(f"`{old}` (`{new}`)" for old, new in RENAMED.items())
    return "\n".join(
        [*parts, f"Called otherwise before, and refused with the new name: {renamed}.", ""]
    )


def _values(schema: dict[str, Any]) -> str:
    """What a setting takes: its choices, or its type and bounds."""
    kind = next((each for each in schema.get("anyOf", []) if each["type"] != "null"), schema)
    if "enum" in kind:
        return ", ".join(kind["enum"])
    types = {
        "integer": "integer", "number": "number", "boolean": "true/false", "array": "list of names",
        "object": "table", "string": "text",
    }  # fmt: skip
    if "minimum" in kind and "maximum" in kind:
        bounds = f"{_number(kind['minimum'])}–{_number(kind['maximum'])}"
    else:
        words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
        bounds = " ".join(
            f"{word} {_number(kind[bound])}" for bound, word in words.items() if bound in kind
        )
    return f"{types[kind['type']]} {bounds}".rstrip()


def _number(bound: float) -> str:
    """Return a bound without a needless decimal."""
    return str(bound).removesuffix(".0")


def test_the_page_of_settings_is_the_model() -> None:
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()


def test_old_names_are_nowhere_in_the_docs() -> None:
    told = "\n".join(
        path.read_text("utf-8") for path in Path(PROJECT / "docs").glob("*.md") if path != PAGE
    )
    assert not [
        old for old in ("--judge-samples", "--sample-temperature", "`judge_samples`") if old in told
    ]
