"""A command with many options: its help in sections, and a way out from an option that there is none of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from tribunal.settings import RENAMED, SETTINGS
from tribunal.text import near, one_line, visible


class Visible(TyperGroup):
    """Shows what was typed in an error of usage with nothing in it that a terminal would obey."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """As ever."""
        with _told_visibly():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """As ever."""
        with _told_visibly():
            return super().invoke(ctx)


@contextmanager
def _told_visibly() -> Iterator[None]:
    try:
        yield
    except TyperException as error:
        if hasattr(error, "message"):
            error.message = one_line(visible(str(error.message)))
        raise


class Sectioned(TyperCommand):
    """Shows its options by the section that each names as its `rich_help_panel`, with no need of rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and then section after section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            if shown := each.get_help_record(ctx):
                sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(shown)
        for title, shown_there in sections.items():
            if shown_there:
                with formatter.section(title):
                    formatter.write_dl(shown_there)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever; but an option that there is none of names what was meant, where that can be told."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of the error is private to typer, and moves between its versions; its fields stay.
            option = getattr(error, "option_name", None)
            if option is not None and hasattr(error, "possibilities") and (hint := self._hint(option)):
                ctx.fail(f"No such option: {option}; {hint}")
            raise

    def _hint(self, option: str) -> str | None:
        name = option.lstrip("-").replace("-", "_")
        if name in RENAMED:
            return f"it is called {self._spelling(RENAMED[name])} now"
        if name in SETTINGS:
            return f"give it as {self._spelling(name)}"
        found = near(name, {*SETTINGS, *(str(each.name) for each in self.params)})
        return f"did you mean {' or '.join(map(self._spelling, found))}?" if found else None

    def _spelling(self, name: str) -> str:
        """How a setting, or an option that is none, is given to this command."""
        option = next((each for each in self.params if each.name == name), None)
        return option.opts[0] if option else f"--set {name}=VALUE"
