"""`tribunal policy`: a shipped policy as the TOML file it is, to be copied and changed."""

from __future__ import annotations

from typing import Annotated

import typer

from tribunal.commands.completing import policy_names
from tribunal.commands.errors import ending_well
from tribunal.terminal import say


def policy(
    name: Annotated[
        str, typer.Argument(help="A shipped policy, or a TOML file to check.", autocompletion=policy_names)
    ] = "h-vli",
) -> None:
    """Print a policy after checking it; `tribunal policy > mine.toml` is where one's own begins."""
    with ending_well():
        from importlib.resources import files
        from pathlib import Path

        from tribunal.prompts import policy as policies

        policies.policy(name)
        shipped = name in policies.shipped()
        source = files("tribunal.prompts").joinpath(f"policies/{name}.toml") if shipped else Path(name).expanduser()
        say(source.read_text("utf-8").removesuffix("\n"), lines=True)
