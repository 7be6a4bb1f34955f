"""How a command ends: one line for a wrong input, a status for every outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tribunal.terminal import say
from tribunal.text import one_line

STATUS = {"verdict": 0, "refusal": 3, "failure": 4, "pending": 5}
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def ending_well() -> Iterator[None]:
    """Turn a `BadInput` into one line on standard error and exit status 2, and Ctrl-C into status 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        from tribunal.errors import TribunalError

        if not isinstance(error, TribunalError):
            raise
        say(f"tribunal: error: {one_line(str(error))}", aside=True)
        raise typer.Exit(BAD_INPUT) from None
