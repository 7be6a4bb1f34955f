"""`tribunal eval`: a graph over a data set, to a folder of results and measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.completing import dataset_names, graph_names, protocol_names
from tribunal.commands.engines import with_engine
from tribunal.commands.errors import INTERRUPTED, ending_well
from tribunal.commands.options import GRAPH, pairs, with_settings
from tribunal.terminal import Unprinted, printing, say, say_json

if TYPE_CHECKING:
    from tribunal.eval.runs.tally import Tally

EPILOG = """\b
Exit status: 0 everything is decided, 1 stopped before the end (the same command goes on), 2 wrong usage or input,
130 interrupted (the same command goes on)."""
STOPPED = 1

InFlight = Annotated[int, typer.Option("--concurrency", min=1, max=1024, help="Posts in flight, at most.")]
PriceTable = Annotated[Path | None, typer.Option("--prices", metavar="FILE", help="A TOML file of prices, by model.")]
RunPrices = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", help="A TOML file of prices, by model. Default: those that each run was last given."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


@with_settings
@with_engine
def evaluate(
    data: Annotated[
        list[str],
        typer.Option(metavar="PATH", help="Where its files are; of several sets, NAME=PATH for each, given again."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run's folder, new or begun.")],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Its name: h-vli, fhm, sbic, …, or table (docs/datasets.md); several, joined by +. Default: the "
            "protocol's.",
            autocompletion=dataset_names,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(help=f"{GRAPH} Default: that of the protocol, else tribunal.", autocompletion=graph_names),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which split, where not the usual one.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME", help="Of table: the column of text, id, label, image, language, earlier, group."
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE=LABEL", help="Of table: what a label's value means: hate, not, a category."),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many posts, drawn by the seed. Default: all.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Another seed, another sample and another order. Default: 0.")
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Take the posts as their files have them, not shuffled by the seed.")
    ] = False,
    skip_missing_images: Annotated[
        bool,
        typer.Option("--skip-missing-images", help="Leave out the posts whose image isn't there, and count them."),
    ] = False,
    extras: Annotated[
        bool | None,
        typer.Option(
            "--extras/--no-extras",
            show_default=False,
            help="Show what a set has beside a post: the title over a comment (kold), the words read in an image "
            "(mmhs150k). Default: yes, but not under a protocol.",
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD,…",
            help="pattern: an equal quota of each SMI pattern; label, or a field of the set such as implicit: so many "
            "of each label or value, of several of each combination.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[/CONDITION]",
            autocompletion=protocol_names,
            help="The posts and settings of a paper's table, such as arcade-table4 (tribunal protocols lists them). "
            "paper: of the table in which the set's own paper evaluated the graph. What you set yourself beats it, "
            "with a warning.",
        ),
    ] = None,
    paper_models: Annotated[bool, typer.Option("--paper-models", help="Ask the models that the paper asked.")] = False,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="How often each post is decided, drawn anew. Default: the protocol's, or 1."),
    ] = None,
    in_flight: InFlight = 16,
    retry: Annotated[
        list[str] | None, typer.Option(help="Decide again what ended so: failures, refusals; may be given again.")
    ] = None,
    budget_from: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Give each post the tokens that another run spent on it.")
    ] = None,
    prices: PriceTable = None,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Write the posts' texts into the results.")] = False,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
    carried: dict[str, Any],
) -> None:
    """Run a graph over a data set, and measure it. The same command on the same folder goes on where it stopped."""
    from tribunal.eval.evaluate import Evaluation, summary
    from tribunal.eval.evaluate import evaluate as run_evaluation
    from tribunal.eval.runs.prices import read_prices
    from tribunal.eval.runs.progress import shown

    with ending_well():
        wanted = Evaluation(
            graph=graph,
            dataset=dataset,
            data=data_of(data),
            settings=settings,
            split=split,
            columns=pairs(columns, "columns", "ROLE=NAME"),
            labels=pairs(labels, "labels", "VALUE=LABEL"),
            samples=samples,
            seed=seed,
            balance=balance,
            protocol=protocol,
            paper_models=paper_models,
            repeats=repeats,
            in_order=in_order,
            skip_missing_images=skip_missing_images,
            extras=extras,
        )
        table = read_prices(prices) if prices else None
        with shown(priced=table is not None, quiet=as_json) as watch:
            tally = run_evaluation(
                wanted,
                out,
                in_flight=in_flight,
                retry=retry or (),
                budget_from=budget_from,
                prices=table,
                keep_text=keep_text,
                watch=watch,
                warn=warn,
                **carried,
            )
        with telling(tally):
            if as_json:
                say_json(summary(tally, out))
            else:
                _print(tally, out, priced=table is not None)
    warn_of_rehearsal(tally.rehearsed, tally.before + tally.done)
    raise typer.Exit(status(tally))


def warn(warning: str) -> None:
    """Say what a reader of the results should know, on standard error."""
    say(f"tribunal: warning: {warning}", aside=True)


def warn_of_rehearsal(rehearsed: int, results: int) -> None:
    """Say on standard error, as the last word, that results are the rehearsal model's."""
    if rehearsed:
        from tribunal.rehearsed import REHEARSED

        warn(f"{rehearsed:,} of {results:,} results are no moderation and no measure: {REHEARSED}")


def status(tally: Tally) -> int:
    """How a run ends, as a process does; says on standard error how to go on."""
    if not tally.stopped:
        return 0
    left = tally.total - tally.before - tally.done
    rest = f"{left:,} of {tally.total:,} are left, and the same command goes on with them"
    if not left:
        rest = f"all {tally.total:,} are decided and kept, and the same command does the rest"
    say(f"tribunal: {tally.stopped}; {rest}", aside=True)
    return INTERRUPTED if tally.interrupted else STOPPED


@contextmanager
def telling(tally: Tally) -> Iterator[None]:
    """Print what a run came to; a run that can't be told of has stopped by that, with everything kept."""
    try:
        with printing():
            yield
    except Unprinted as error:
        tally.stopped = tally.stopped or str(error)


def _print(tally: Tally, out: Path, *, priced: bool) -> None:
    from tribunal.commands.metrics import show
    from tribunal.eval.runs.progress import in_words

    say(f"{tally.at:,} decided ({tally.done:,} now, {tally.before:,} before): {in_words(tally, priced=priced)}")
    if tally.measured is not None:
        show(tally.measured)
    say(f"results: {out}; tribunal report {out} makes a page of them")


def data_of(given: list[str]) -> Path | dict[str, Path]:
    """Where the files are: one path, or one by each set's name."""
    from tribunal.errors import BadInput

    if len(given) == 1 and (Path(given[0]).exists() or "=" not in given[0]):
        return Path(given[0])
    if any("=" not in each for each in given):
        raise BadInput(f"data: {' and '.join(given)}: one set takes one path; for several sets give NAME=PATH for each")
    return {name: Path(path) for name, path in pairs(given, "data", "NAME=PATH").items()}
