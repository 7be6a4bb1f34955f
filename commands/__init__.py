"""The `tribunal` command, assembled from its sub-commands.

Whatever is heavy is imported inside the commands that need it, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tribunal.commands import (
    audit,
    batch,
    doctor,
    evaluate,
    evidence,
    fit,
    graphs,
    judge,
    keys,
    metrics,
    perspectives,
    policy,
    prompts,
    protocols,
    report,
    review,
    serve,
    sweep,
    webhooks,
)
from tribunal.commands.sections import Sectioned, Visible
from tribunal.terminal import say

app = typer.Typer(
    name="tribunal",
    cls=Visible,
    help="Decides whether a social-media post is hate speech, and shows why.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"tribunal {version('tribunal')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


app.command("judge", cls=Sectioned, epilog=judge.EPILOG)(judge.judge)
app.command("eval", cls=Sectioned, epilog=evaluate.EPILOG)(evaluate.evaluate)
app.command("batch", cls=Sectioned, epilog=evaluate.EPILOG)(batch.batch)
app.command("sweep", epilog=evaluate.EPILOG)(sweep.sweep)
app.command("metrics")(metrics.metrics)
app.command("fit")(fit.fit)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("graphs")(graphs.graphs)
app.command("policy")(policy.policy)
app.command("protocols")(protocols.protocols)
app.command("serve", cls=serve.Serving, epilog=serve.EPILOG)(serve.serve)
app.command("migrate")(serve.migrate)
app.add_typer(keys.app, name="keys")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(audit.app, name="audit")
app.add_typer(review.app, name="review")
app.add_typer(perspectives.app, name="perspectives")
app.add_typer(prompts.app, name="prompts")
app.add_typer(evidence.app, name="evidence")
