"""The options of `tribunal serve`: each on the command line and in the environment, and all of them in the docs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.test_docs import DOCS, holds
from tribunal.commands import app
from tribunal.commands.serve import default_as_text
from tribunal.errors import BadInput
from tribunal.service.replica.options import (
    ServiceOptions,
    flag_of_option,
    options_from,
    variable_of_option,
)

FIELDS = ServiceOptions.model_fields
# A value of each option that is not its default, as text.
VALUES = {
    "host": "::1", "database": "sqlite:///a", "graph": "arcade", "settings": '{"rounds": 2}', "prices": "p.toml",
    "mapping": "m.toml", "desk_verdict": "after",
    "public_url": "https://example.com", "desk_user_header": "X-User", "desk_proxy": "10.0.0.1,10.1.0.0/16",
    "desk_role_header": "X-Role", "desk_role": "lead", "webhook_retries": "1,2.5", "log_level": "debug",
    "batch_share": "0.5", "retain_words": "90d", "retain_cases": "365d", "retain_dismissed": "30d",
    "second_opinions": "0.1", "second_opinions_of_court": "0.1",
}  # fmt: skip


def value_of(name: str) -> str:
    """The text of an option's value: the one above, or the next number, or the other truth."""
    default = FIELDS[name].get_default(call_default_factory=True)
    if name in VALUES:
        return VALUES[name]
    return (
        "true" if default is False else "false" if default is True else default_as_text(default + 1)
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServiceOptions]:
    """What the command would have served with."""
    given: list[ServiceOptions] = []
    for name in [each for each in os.environ if each.startswith("TRIBUNAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("tribunal.service.serving.run", given.append)
    return given


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["serve", *arguments])


@pytest.mark.parametrize("name", FIELDS)
def test_an_option_and_its_variable_set_the_same(
    name: str, served: list[ServiceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = value_of(name)
    flag = flag_of_option(name)
    arguments = (
        [flag, value]
        if value not in ("true", "false")
        else [flag if value == "true" else f"--no-{flag[2:]}"]
    )
    if flag.startswith("--limit"):
        arguments = ["--limit", f"{name}={value}"]
    done = serve(*(["--set", "rounds=2"] if name == "settings" else arguments))
    assert done.exit_code == 0, done.output
    monkeypatch.setenv(variable_of_option(name), value)
    serve()
    by_option, by_variable = (getattr(each, name) for each in served)
    assert by_option == by_variable != FIELDS[name].get_default(call_default_factory=True)


def test_the_command_line_wins(
    served: list[ServiceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_SERVE_QUEUE", "7")
    monkeypatch.setenv("TRIBUNAL_SERVE_OPEN_METRICS", "true")
    serve("--queue", "8", "--no-open-metrics")
    assert (served[0].queue, served[0].open_metrics) == (8, False)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (
            {"TRIBUNAL_SERVE_QUEU": "1"},
            "TRIBUNAL_SERVE_QUEU: no such option; did you mean TRIBUNAL_SERVE_QUEUE",
        ),
        (
            {"TRIBUNAL_SERVE_PORT": "99999"},
            "port: '99999': Input should be less than or equal to 65535",
        ),
        ({"TRIBUNAL_SERVE_SETTINGS": "rounds=2"}, "settings: 'rounds=2': "),
        (
            {"TRIBUNAL_SERVE_LOG_LEVEL": "loud"},
            "log_level: 'loud': Input should be 'debug', 'info', 'warning' or",
        ),
    ],
)
def test_a_wrong_one_is_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput) as error:
        options_from(environment)
    assert str(error.value).startswith(says)


def test_what_kubernetes_sets_for_a_service_of_this_name_is_no_option() -> None:
    """It gives every container of a namespace {NAME}_SERVICE_HOST, {NAME}_SERVICE_PORT and {NAME}_PORT."""
    set_there = {
        "TRIBUNAL_SERVICE_HOST": "10.0.0.1",
        "TRIBUNAL_SERVICE_PORT": "80",
        "TRIBUNAL_PORT": "tcp://10.0.0.1:80",
    }
    assert options_from(set_there) == ServiceOptions()


def test_the_docs_have_every_option() -> None:
    lines = ["| option | default | what it sets |", "|---|---|---|"]
    for name, field in FIELDS.items():
        flag = "--set NAME=VALUE" if name == "settings" else flag_of_option(name)
        default: Any = field.get_default(call_default_factory=True)
        usual = "off" if default is False else "on" if default is True else default_as_text(default)
        shown = (
            ""
            if default in (None, {})
            else f"`{usual}`"
            if not isinstance(default, bool)
            else usual
        )
        lines.append(f"| `{flag}` | {shown} | {field.description} |")
    holds(Path(DOCS, "operating.md"), "options", "\n".join(lines))
