"""The `tribunal` command, assembled from its sub-commands.

A sub-command is imported when it is asked for, and whatever is heavy inside the command that needs it, so that `--help`
answers at once and a command waits for no other.
"""

from __future__ import annotations

from typing import Annotated

from typer import Exit, Option, Typer

from tribunal.commands.command_group import Command, on_demand
from tribunal.process.terminal import say

_SECTIONED = "command_group:Sectioned"
_OF_A_RUN = "run_options:EPILOG"
# By the groups of --help, in its order.
GROUPS = {
    "Decide": {
        "judge": Command("judge:judge", _SECTIONED, "judge:EPILOG"),
        "batch": Command("evaluate:batch", _SECTIONED, _OF_A_RUN, extra="eval"),
        "try": Command("serve:open_try_page", extra="service"),
        "serve": Command("serve:serve", "serve:ServeCommand", "serve:EPILOG"),
    },
    "Review": {
        "review": Command("review:app", shows_rows=True),
        "cases": Command("cases:app", shows_rows=True),
        "explain": Command("explain:explain"),
        "audit": Command("audit:app", shows_rows=True),
        "dsa": Command("dsa:app", extra="service", shows_rows=True),
    },
    "Evaluate": {
        "eval": Command("evaluate:evaluate", _SECTIONED, _OF_A_RUN, extra="eval"),
        "experiment": Command("experiment:app", extra="eval"),
        "report": Command("results:report", extra="eval"),
        "compare": Command("compare:compare", _SECTIONED, _OF_A_RUN, extra="eval"),
        "fit": Command("fit:fit", extra="eval"),
        "cascade": Command("cascade:app", extra="eval"),
        "export": Command("results:export", extra="eval"),
        "annotate": Command("annotate:app", extra="eval"),
    },
    "Build": {
        "graphs": Command("catalogue:graphs"),
        "policy": Command("policy:app"),
        "prompts": Command("catalogue:app"),
        "perspectives": Command("perspectives:app"),
        "precedents": Command("precedents:app"),
        "evidence": Command("evidence:evidence"),
    },
    "Set up": {
        "doctor": Command("doctor:doctor"),
        "trust": Command("trust:trust"),
        "service": Command("service:app", extra="service", shows_rows=True),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

app = Typer(
    name="tribunal",
    cls=on_demand(GROUPS),
    help="Decides whether a social-media post is hate speech, and shows why.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from tribunal import __version__

        say(f"tribunal {__version__}")
        raise Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    pass
