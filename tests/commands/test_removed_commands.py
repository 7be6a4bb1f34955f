"""Commands of the version before this one: one line that names the replacement, and status 2."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from tests.commands.command_paths import leaves
from tribunal.commands import app
from tribunal.commands.command_group import REMOVED_COMMANDS


def existing_commands() -> set[str]:
    """Every command and every group, by its words."""
    words = [name.split() for name, _ in leaves(typer.main.get_command(app))]
    return {" ".join(each[:count]) for each in words for count in range(1, len(each) + 1)}


EXISTING = existing_commands()


@pytest.mark.parametrize("name", [name for name in REMOVED_COMMANDS if name not in EXISTING])
@pytest.mark.parametrize("rest", [(), ("--help",), ("x", "--json")])
def test_a_removed_command_names_its_replacement(name: str, rest: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*name.split(), *rest])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"tribunal {name} was removed" in done.stderr
    assert REMOVED_COMMANDS[name] in done.stderr


def test_a_command_that_exists_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("report", "review list"):
        monkeypatch.setitem(REMOVED_COMMANDS, name, "something else")
        assert CliRunner().invoke(app, [*name.split(), "--help"]).exit_code == 0
