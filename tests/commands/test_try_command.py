"""`tribunal try`: the service of this machine alone, and its page in the browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from tribunal.commands import app
from tribunal.service.replica.options import ServiceOptions


@pytest.mark.parametrize(
    ("more", "opens"), [((), ["http://127.0.0.1:41234/try"]), (("--no-open",), [])]
)
def test_it_serves_on_loopback_and_opens_the_page(
    more: tuple[str, ...], opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[ServiceOptions] = []
    opened: list[str] = []

    def run(options: ServiceOptions, started: Callable[[str], object]) -> None:
        served.append(options)
        started("http://127.0.0.1:41234")

    monkeypatch.setenv("TRIBUNAL_SERVE_HOST", "0.0.0.0")
    monkeypatch.setenv("TRIBUNAL_SERVE_TRY", "false")
    monkeypatch.setattr("tribunal.service.serving.run", run)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    done = CliRunner().invoke(
        app, ["try", "--model", "rehearsal:court", "--graph", "arcade", *more]
    )
    assert (done.exit_code, done.stdout) == (0, "http://127.0.0.1:41234/try\n"), done.output
    [options] = served
    assert (options.host, options.port, options.try_, options.graph) == (
        "127.0.0.1",
        0,
        True,
        "arcade",
    )
    assert options.settings == {"model": "rehearsal:court"}
    assert opened == opens


def test_two_models_are_refused() -> None:
    done = CliRunner().invoke(
        app, ["try", "--model", "rehearsal:court", "--set", "model=openai:gpt-5"]
    )
    assert (done.exit_code, "is given by --model and by --set; give it once" in done.output) == (
        2,
        True,
    )
