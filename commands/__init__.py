"""The `tribunal` command, assembled from its sub-commands.

A sub-command is imported when it is asked for, and whatever is heavy inside the command that needs it, so that `--help`
answers at once and a command waits for no other.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tribunal.commands.command_group import Command, on_demand
from tribunal.terminal import say

_SECTIONED, _OF_A_RUN = "command_group:Sectioned", "run_options:EPILOG"
# In the order of --help.
COMMANDS = {
    "judge": Command("judge:judge", _SECTIONED, "judge:EPILOG"),
    "eval": Command("evaluate:evaluate", _SECTIONED, _OF_A_RUN, extra="eval"),
    "batch": Command("evaluate:batch", _SECTIONED, _OF_A_RUN, extra="eval"),
    "sweep": Command("evaluate:sweep", epilog=_OF_A_RUN, extra="eval"),
    "fit": Command("fit:fit", extra="eval"),
    "shadow": Command("shadow:shadow", extra="eval"),
    "plan": Command("plan:plan_posts", extra="eval"),
    "compare": Command("compare:compare_setups", extra="eval"),
    "report": Command("results:report", extra="eval"),
    "export": Command("results:export", extra="eval"),
    "seal": Command("seal:seal", extra="eval"),
    "verify": Command("seal:verify", extra="eval"),
    "doctor": Command("doctor:doctor"),
    "trust": Command("trust:trust"),
    "explain": Command("explain:explain"),
    "graphs": Command("catalogue:graphs"),
    "transparency": Command("dsa:transparency", extra="service", shows_rows=True),
    "protocols": Command("catalogue:protocols", extra="eval"),
    "serve": Command("serve:serve", "serve:ServeCommand", "serve:EPILOG"),
    "try": Command("serve:open_try_page", extra="service"),
    "migrate": Command("serve:migrate", extra="service"),
    "forget": Command("cases:forget", shows_rows=True),
    "screening": Command("screening:app"),
    "experiment": Command("experiment:app", extra="eval"),
    "cascade": Command("cascade:app", extra="eval"),
    "keys": Command("serve:keys_app", extra="service", shows_rows=True),
    "webhooks": Command("webhooks:app", extra="service", shows_rows=True),
    "audit": Command("audit:app", shows_rows=True),
    "appeals": Command("appeals:app", extra="service", shows_rows=True),
    "review": Command("review:app", shows_rows=True),
    "cases": Command("cases:app", shows_rows=True),
    "annotate": Command("annotate:app", extra="eval"),
    "perspectives": Command("perspectives:app"),
    "precedents": Command("precedents:app"),
    "dsa": Command("dsa:app", extra="service", shows_rows=True),
    "policy": Command("policy:app"),
    "prompts": Command("catalogue:app"),
    "evidence": Command("evidence:app"),
}

app = typer.Typer(
    name="tribunal",
    cls=on_demand(COMMANDS),
    help="Decides whether a social-media post is hate speech, and shows why.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from tribunal import __version__

        say(f"tribunal {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass
