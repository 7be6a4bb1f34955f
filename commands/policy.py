"""`tribunal policy`: a policy as its TOML file, to be copied and changed; and a new one tried on decided cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer
from typer.core import TyperGroup

from tribunal.commands.command_group import Sectioned
from tribunal.commands.options import GRAPH, with_settings
from tribunal.commands.printing import ask_to_go_on, print_template
from tribunal.commands.run_options import (
    EPILOG,
    end_run,
    read_price_table,
    report_output_errors,
    watch_run,
)
from tribunal.commands.shared_options import (
    AsJson,
    InFlight,
    PriceTable,
    Retry,
    Yes,
    graph_names,
    policy_names,
)
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON

_SHOW = "show"


class _Showing(TyperGroup):
    """`tribunal policy NAME` is `tribunal policy show NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with the command put in where none is named."""
        if not args or (
            args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx)
        ):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


app = Typer(
    name="policy",
    cls=_Showing,
    help="Print a policy, or try a new one on cases that people decided.",
    rich_markup_mode=None,
)


@app.command(_SHOW)
def show(
    name: Annotated[
        str,
        Argument(help="A shipped policy, or a TOML file to check.", autocompletion=policy_names),
    ] = "h-vli",
) -> None:
    """Check and print a policy. Begin your own with `tribunal policy > mine.toml`.

    `show` may be left out.
    """
    from importlib.resources import files

    from tribunal.process.files import read_text
    from tribunal.prompts import policy as policies

    policies.load_policy(name)
    shipped = name in policies.list_shipped_policies()
    own = "" if shipped else read_text(Path(name).expanduser())
    text = (
        files("tribunal.prompts").joinpath(f"policies/{name}.toml").read_text("utf-8")
        if shipped
        else own
    )
    say(text.removesuffix("\n"), lines=True)


@with_settings
def try_(
    new: Annotated[
        str,
        Argument(metavar="POLICY", help="The new policy: a TOML file, or a shipped one's name."),
    ],
    on: Annotated[
        Path, Option(metavar="FILE", help="Decided cases, as tribunal review export writes them.")
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="The run's folder, new or begun. Default: FILE.NAME-OF-POLICY.run."
        ),
    ] = None,
    graph: Annotated[
        str | None, Option(help=f"{GRAPH} Default: that of the cases.", autocompletion=graph_names)
    ] = None,
    in_flight: InFlight = 16,
    retry: Retry = None,
    prices: PriceTable = None,
    keep_text: Annotated[
        bool, Option("--keep-text", help="Show the posts' words in the report.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Judge decided cases under a new policy, and show which verdicts would change.

    It first says how many posts it judges, and asks. The same command goes on where it stopped.
    """
    from tribunal.eval.policy_trial import plan_trial, try_policy

    folder = out or on.with_name(f"{on.name}.{Path(new).stem}.run")
    trial = plan_trial(new, on, folder, graph=graph, settings=settings)
    if trial.left:
        from tribunal.settings.environment import setting

        context = trial.context
        named = [
            context.model or setting("TRIBUNAL_MODEL") or "rehearsal",
            context.judge_model,
            context.aux_model,
        ]
        models = list(
            dict.fromkeys(
                each for each in (*named, context.triage, *context.seats.values()) if each
            )
        )
        calls = "an unknown number of" if trial.calls is None else f"about {trial.calls:,}"
        say(
            f"{trial.left:,} of {trial.posts:,} posts by {trial.graph} under {new}, with {', '.join(models)}: "
            f"{calls} calls, by what their cases took",
            aside=True,
        )
        ask_to_go_on("policy try", yes=yes or models == ["rehearsal"])
    running: dict[str, Any] = {"in_flight": in_flight, "retry": retry, "keep_text": keep_text}
    with watch_run(read_price_table(prices), quiet=as_json, **running) as options:
        tally = try_policy(trial, options)
    with report_output_errors(tally):
        changes: JSON = tally.measured or {}
        if as_json:
            say_json({**changes, "out": str(folder), "stopped": tally.stopped or None})
        else:
            _print_changes(changes, folder)
    end_run(tally)


app.command("try", cls=Sectioned, epilog=EPILOG)(try_)


def _print_changes(changes: JSON, folder: Path) -> None:
    print_template("policy_try", part="head", changes=changes)
    rows = [
        (
            each["post_id"],
            _with_clauses(each["from"], each["clauses_then"]),
            _with_clauses(each["to"], each["clauses_now"]),
            each["people"],
            "yes" if each["agrees_now"] else "no",
        )
        for each in changes["changes"][:_SHOWN]
    ]
    if rows:
        print_table(("post", "from", "to", "people decided", "agrees now"), rows)
    print_template(
        "policy_try", part="end", changes=changes, most=_SHOWN, page=str(folder / "changes.html")
    )
    say(
        "These are reviewed cases: a selected sample, in which the court was mostly unsure.",
        aside=True,
    )


def _with_clauses(outcome: str, clauses: list[str]) -> str:
    return f"{outcome} ({', '.join(clauses)})" if clauses else outcome


_SHOWN = 50
