"""The end of a command: one line for a wrong input, a status for every outcome, a question before it spends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from typer import Exit

from tribunal.errors import BadInput, TribunalError
from tribunal.terminal import say
from tribunal.text import one_line

STATUS = {"verdict": 0, "refusal": 3, "failure": 4, "pending": 5}
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of ours into one line on standard error and exit status 2, and Ctrl-C into status 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(INTERRUPTED) from None
    except TribunalError as error:
        say(f"tribunal: error: {one_line(str(error))}", aside=True)
        raise Exit(BAD_INPUT) from None


def ask_to_go_on(command: str, *, yes: bool) -> None:
    """Ask on standard error, unless that was answered.

    Raises:
        BadInput: nobody can answer, or the answer is no.
    """
    if yes:
        return
    try:
        go_on = typer.confirm("Go on?", err=True)
    except typer.Abort:
        raise BadInput(f"{command}: nobody answered; give --yes to spend without being asked") from None
    if not go_on:
        raise BadInput(f"{command}: not begun, and nothing was spent")


@contextmanager
def report_write_errors(path: Path, option: str = "out") -> Iterator[None]:
    """Name the option and its file if it can't be written.

    Raises:
        BadInput: it can't.
    """
    try:
        yield
    except OSError as error:
        raise BadInput(f"{option}: {path}: can't be written: {error.strerror or error}") from error
