"""The `tribunal` command's group: sub-commands imported on demand, their errors, and help in sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer import Exit, Typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from tribunal.commands.printing import report_errors
from tribunal.core.text import make_visible, nearest_names, one_line
from tribunal.errors import BadInput
from tribunal.plugins import require_extra
from tribunal.settings.names import RENAMED


class RootGroup(TyperGroup):
    """Ends every command with a line and an exit status if it fails; the line holds nothing that a terminal obeys."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the arguments of `tribunal` itself."""
        with _visible_usage_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and turn its errors into a line and a status."""
        with report_errors(), _visible_usage_errors():
            return super().invoke(ctx)


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    try:
        yield
    except TyperException as error:
        if hasattr(error, "message"):
            error.message = one_line(make_visible(str(error.message)))
        raise


class Sectioned(TyperCommand):
    """Shows its options by the section that each names as its `rich_help_panel`, with no need of rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and then section after section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            shown = each.get_help_record(ctx)
            if shown:
                sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(
                    shown
                )
        for title, shown_there in sections.items():
            if shown_there:
                with formatter.section(title):
                    formatter.write_dl(shown_there)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an error about an unknown option suggests the one that was meant."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of the error is private to typer, and moves between its versions; its fields stay.
            option = getattr(error, "option_name", None)
            if (
                option is not None
                and hasattr(error, "possibilities")
                and (hint := self._hint(option))
            ):
                ctx.fail(f"No such option: {option}; {hint}")
            raise

    def _hint(self, option: str) -> str | None:
        name = option.lstrip("-").replace("-", "_")
        if name in RENAMED:
            return f"it is called {self._spelling(RENAMED[name])} now"
        # pydantic, which `--help` does without
        from tribunal.settings.graph_settings import SETTINGS

        if name in SETTINGS:
            return f"give it as {self._spelling(name)}"
        found = nearest_names(name, {*SETTINGS, *(str(each.name) for each in self.params)})
        return f"did you mean {' or '.join(map(self._spelling, found))}?" if found else None

    def _spelling(self, name: str) -> str:
        """Return how a setting is given to this command: as its option, or by `--set`."""
        option = next((each for each in self.params if each.name == name), None)
        return option.opts[0] if option else f"--set {name}=VALUE"


# Commands of earlier versions, with the command to use instead.
REMOVED_COMMANDS = {
    "appeals": "use tribunal review appeals",
    "audit head": "use tribunal audit verify",
    "audit key": "use tribunal audit verify",
    "audit publish": "use tribunal audit verify",
    "cases release": "use tribunal cases retry CASE --release",
    "cases text": "use tribunal cases show HASH --text",
    "dsa mapping": "use tribunal dsa statements --example-mapping",
    "evidence list": "use tribunal evidence",
    "evidence show": "use tribunal evidence POST",
    "experiment export": "use tribunal experiment show FOLDER --to FORMAT",
    "experiment list": "use tribunal experiment show",
    "forget": "use tribunal cases forget",
    "keys": "use tribunal service keys",
    "metrics": "use tribunal report --tables, or --json",
    "migrate": "use tribunal service migrate",
    "perspectives list": "use tribunal perspectives show",
    "perspectives search": "use tribunal perspectives show NAME --search TEXT",
    "plan": "use tribunal experiment plan --detect POINTS",
    "policy export": "a policy is a TOML file; use tribunal policy show",
    "policy import": "a policy is a TOML file; use tribunal policy show",
    "precedents list": "use tribunal precedents show",
    "precedents search": "use tribunal precedents show NAME --search TEXT",
    "prompts compare": "use tribunal compare",
    "prompts leaks": "the shipped prompts are checked in CI; there is no command for others",
    "prompts list": "use tribunal prompts show",
    "protocols": "use tribunal experiment show",
    "review release": "use tribunal review claim CASE --release",
    "screening": "use --set triage=MODEL with a small model, or tribunal cascade plan",
    "seal": "run.json names everything that a run depends on; tribunal report checks its results",
    "shadow": "use tribunal compare --log FILE",
    "sweep": "use tribunal experiment run FILE.toml",
    "transparency": "use tribunal dsa report",
    "verify": "tribunal report checks the results of a run when it reads them",
    "view": "use tribunal report, which writes samples.html; or tribunal export --to inspect",
    "webhooks": "use tribunal service webhooks",
}


class Command(NamedTuple):
    """A sub-command's place; each part is written as `file:name` in this folder.

    Args:
        place: its function, or the `Typer` of a group.
        cls: the class that it is made of, where that isn't typer's.
        epilog: what its help ends with.
        extra: the extra of our package that it needs, or None if the core has all of it.
        shows_rows: it prints what its database holds. What no row of ours holds is told as damage of the database.
    """

    place: str
    cls: str | None = None
    epilog: str | None = None
    extra: str | None = None
    shows_rows: bool = False


def on_demand(groups: Mapping[str, Mapping[str, Command]]) -> type[RootGroup]:
    """Return the class of a command group whose sub-commands are imported when they are used.

    Args:
        groups: the sub-commands by their section of the help, in its order.
    """
    commands = {name: command for group in groups.values() for name, command in group.items()}

    class OnDemand(RootGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands: Any = dict.fromkeys(commands)  # typer only reads the names

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return _make_command(cmd_name, commands[cmd_name]) if cmd_name in commands else None

        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write each section with the whole first sentence of every command's help."""
            for title, group in groups.items():
                with formatter.section(title):
                    formatter.write_dl(
                        [(name, _first_sentence(self.get_command(ctx, name))) for name in group]
                    )

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Return the sub-command with its arguments, once the extra that it needs is there."""
            for words in (" ".join(args[:1]), " ".join(args[:2])):
                if words in REMOVED_COMMANDS and words not in commands:
                    raise BadInput(f"tribunal {words} was removed; {REMOVED_COMMANDS[words]}")
            command = commands.get(args[0]) if args else None
            if command and command.extra and "--help" not in args:
                require_extra(args[0], command.extra)
            return super().resolve_command(ctx, args)

    return OnDemand


def _first_sentence(command: Any) -> str:
    return (
        str(command.help or "")
        .split("\n\n")[0]
        .partition(". ")[0]
        .replace("\n", " ")
        .removesuffix(".")
    )


def _make_command(name: str, declared: Command) -> Any:
    """Make a command as the only one of an app of its own."""
    alone = Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    found = _import_part(declared.place)
    if isinstance(found, Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name, cls=_import_part(declared.cls), epilog=_import_part(declared.epilog))(
            found
        )
    made = typer.main.get_group(alone).commands[name]
    if declared.shows_rows:
        _tell_damaged_rows_everywhere(made)
    return made


def _tell_damaged_rows_everywhere(command: Any) -> None:
    for each in getattr(command, "commands", {}).values():
        _tell_damaged_rows_everywhere(each)
    if not hasattr(command, "commands"):
        command.callback = _tell_damaged_rows(command.callback)


def _tell_damaged_rows(callback: Any) -> Any:
    """Return the function of a command so that rows which can't be read, or printed, end it with one line."""

    @wraps(callback)
    def run(**given: Any) -> Any:
        from tribunal.store.engine import shown_address
        from tribunal.store.table_versions import database_problems

        with database_problems(shown_address(given.get("database")), "what is kept there"):
            try:
                return callback(**given)
            except (Exit, typer.Abort) as ending:
                ended = ending
        raise ended

    return run


def _import_part(place: str | None) -> Any:
    if place is None:
        return None
    file, _, name = place.partition(":")
    return getattr(import_module(f"tribunal.commands.{file}"), name)
