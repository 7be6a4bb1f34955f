"""`tribunal trust`: the `.env` file of this folder, and whether its lines are in force."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from tribunal.errors import BadInput
from tribunal.process.files import forget_answer, remember_answer
from tribunal.process.terminal import is_watched, say
from tribunal.settings.environment import FILE, DotEnv, read_dotenv


def trust(
    remove: Annotated[bool, Option("--remove", help="Trust the file no longer.")] = False,
) -> None:
    """Put the .env file of this folder in force: addresses, data folder, database and whatever else it names.

    Keys and TRIBUNAL_MODEL count without it. A changed file is no longer trusted.
    """
    file = Path.cwd() / FILE
    if remove:
        say(f"{FILE} is not trusted any more" if forget_answer(file) else f"{FILE} was not trusted")
        return
    held = read_dotenv()
    if not held.raw:
        raise BadInput(
            f"{FILE}: there is none in this folder that can be read; write one, or go to its folder"
        )
    _show_places(held, aside=False)
    remember_answer(file, held.raw, trusted=True)
    say(f"{FILE} is trusted as it is now")


def read_dotenv_and_ask() -> DotEnv:
    """Return what the `.env` file sets; ask once whether it is trusted, where somebody sits at the terminal."""
    held = read_dotenv()
    needs_none = {"trust", "--help", "--version"} & set(
        sys.argv[1:]
    ) or "_TRIBUNAL_COMPLETE" in os.environ
    is_asked = is_watched(aside=True) and sys.stdin and sys.stdin.isatty() and not needs_none
    if held.is_trusted is not None or not held.places or not is_asked:
        return held
    _show_places(held, aside=True)
    answer = typer.confirm("Trust this file?", err=True)
    try:
        remember_answer(Path.cwd() / FILE, held.raw, trusted=answer)
    except OSError as error:
        say(f"the answer can't be kept, so it doesn't count: {error}", aside=True)
        return held
    return held._replace(is_trusted=answer)


def _show_places(held: DotEnv, *, aside: bool) -> None:
    """Print the lines that a trusted file puts in force."""
    say(
        f"{Path.cwd() / FILE} sets:" if held.places else f"{FILE} sets nothing that needs trust",
        aside=aside,
    )
    for name, value in held.places.items():
        is_secret = name.endswith(("KEY", "TOKEN", "PASSWORD", "SECRET"))
        shown = "…" if is_secret else re.sub(r"//[^/@\s]*@", "//…@", value)
        say(f"  {name}={shown}", aside=aside)
