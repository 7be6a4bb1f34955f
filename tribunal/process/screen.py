"""rich's console, made safe. `tribunal.process.terminal.screen` makes it, where something is to be laid out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tribunal.core.text import make_visible

_FILLED_UP = re.compile(r"[ \t]+(?=\n)")


class Screen(Console):
    """A console that makes every piece of text visible, and fills up no line."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich's, piece by piece; its own movements of the cursor are no text."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(make_visible(piece.text), piece.style)

    @property
    def file(self) -> IO[str]:
        """Return where it is printed to."""
        held: Any = super().file
        return held if isinstance(held, _Unfilled) else _Unfilled(held)  # type: ignore[return-value]

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new


class _Unfilled:
    """A file that is written without the blanks with which rich fills lines up to the width of a terminal."""

    def __init__(self, file: IO[str]) -> None:
        self._held = file

    def write(self, text: str) -> int:
        self._held.write(_FILLED_UP.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)
