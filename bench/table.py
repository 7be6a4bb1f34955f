"""A table of figures, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from tribunal.process.terminal import say


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    say("| " + " | ".join(head) + " |")
    say("|" + "---|" * len(head))
    for row in rows:
        say("| " + " | ".join(row) + " |")
    say("")
