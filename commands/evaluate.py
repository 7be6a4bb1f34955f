"""`tribunal eval` and `batch`: a graph over a data set or a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.models import TyperPath

from tribunal.commands import shared_options as shared
from tribunal.commands.options import (
    GRAPH,
    Graph,
    flag_of_setting,
    parse_pairs,
    with_settings,
    with_settings_of_eval,
)
from tribunal.commands.printing import print_template
from tribunal.commands.run_options import (
    end_run,
    parse_data,
    print_totals,
    print_warning,
    read_price_table,
    report_output_errors,
    watch_run,
    with_engine,
    with_posts,
)
from tribunal.commands.shared_options import dataset_names, graph_names, protocol_names
from tribunal.errors import BadInput
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.eval.batch import BatchOutput
    from tribunal.runner.tally import RunTally


@with_settings_of_eval
@with_engine
@with_posts
def evaluate(
    data: Annotated[
        list[str],
        Option(
            metavar="PATH",
            help="The data set's files, by path or URL (s3://, hf://, https://, …); of several sets, NAME=PATH for "
            "each.",
        ),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="The run's folder, new or begun.")],
    dataset: Annotated[
        str | None,
        Option(
            help="The data set: h-vli, fhm, sbic, …, or table (docs/datasets.md); several, joined by +. Default: the "
            "protocol's.",
            autocompletion=dataset_names,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        Option(
            help=f"{GRAPH} Default: that of the protocol, else tribunal.",
            autocompletion=graph_names,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Import a model's predictions as the run; no graph runs. CSV, TSV, JSONL, JSON or Parquet with id, "
            "label or category, and optionally confidence and explanation.",
        ),
    ] = None,
    in_order: Annotated[
        bool, Option("--in-order", help="Take the posts in the order of their files, unshuffled.")
    ] = False,
    extras: Annotated[
        bool | None,
        Option(
            "--extras/--no-extras",
            show_default=False,
            help="Show what a set has beside a post: the title over a comment (kold), the words read in an image "
            "(mmhs150k). Default: yes, but not under a protocol.",
        ),
    ] = None,
    balance: Annotated[
        str | None,
        Option(
            metavar="FIELD,…",
            help="pattern: an equal quota of each SMI pattern. label, or a field of the set such as implicit: "
            "--samples posts of each value; of several, of each combination.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        Option(
            metavar="NAME[/CONDITION]",
            autocompletion=protocol_names,
            help="Take the posts and settings of a paper's table (tribunal experiment show). paper: the table in which "
            "the set's own paper evaluated the graph. Your settings override it; a warning names them.",
        ),
    ] = None,
    paper_models: shared.PaperModels = False,
    repeats: shared.Repeats = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    budget_from: Annotated[
        Path | None,
        Option(metavar="DIR", help="Give each post the tokens that another run spent on it."),
    ] = None,
    prices: shared.PriceTable = None,
    keep_text: shared.KeepTexts = False,
    unlabelled: shared.Unlabelled = False,
    as_json: shared.AsJson = False,
    *,
    settings: dict[str, Any],
    carried: dict[str, Any],
    posts: dict[str, Any],
) -> None:
    """Run a graph over a data set, and measure it. The same command on the same folder goes on where it stopped."""
    if predictions is not None:
        beside: dict[str, Any] = {
            "--budget-from": budget_from,
            "--graph": graph,
            "--paper-models": paper_models,
            "--protocol": protocol,
            "--repeats": repeats,
            "--retry": retry,
        }
        _refuse_beside_predictions(beside, settings)
    from tribunal.commands.results import print_metrics
    from tribunal.eval.evaluate import Evaluation, summarize_run
    from tribunal.eval.evaluate import evaluate as run_evaluation

    wanted = Evaluation(
        graph=graph,
        dataset=dataset,
        data=parse_data(data, posts["columns"]),
        settings=settings,
        balance=balance,
        protocol=protocol,
        paper_models=paper_models,
        repeats=repeats,
        in_order=in_order,
        extras=extras,
        gold="none" if unlabelled else "needed",
        **posts,
    )
    running: dict[str, Any] = {
        "in_flight": in_flight,
        "retry": retry,
        "keep_text": keep_text,
        **carried,
    }
    with watch_run(read_price_table(prices), quiet=as_json, **running) as options:
        if predictions is None:
            tally = run_evaluation(wanted, out, options, budget_from=budget_from)
        else:
            from tribunal.eval.predictions import import_predictions

            tally = import_predictions(wanted, predictions, out, options)
    with report_output_errors(tally):
        if as_json:
            say_json(summarize_run(tally, out))
        else:
            print_totals(tally, priced=options.prices is not None)
            if tally.measured is not None:
                print_metrics(tally.measured)
            say(f"Results: {out}. For a report: tribunal report {out}")
    end_run(tally)


def _refuse_beside_predictions(options: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse options that change nothing about predictions that are there already."""
    from tribunal.eval.predictions import SETTINGS

    given = {**options, **{flag_of_setting(name): name not in SETTINGS for name in settings}}
    useless = next((flag for flag, value in given.items() if value), None)
    if useless:
        raise BadInput(
            f"{useless}: has no effect with --predictions, which asks no model; remove it"
        )


_PLACE = TyperPath()  # a shell completes it as one


@with_settings
@with_engine
def batch(
    posts: Annotated[
        str,
        Argument(
            metavar="IN",
            click_type=_PLACE,
            help="CSV, TSV, JSONL or Parquet: a file or a folder of them, by its path or URL (s3://, …).",
        ),
    ],
    out: Annotated[
        str,
        Option(
            metavar="OUT",
            click_type=_PLACE,
            help="A path or URL, by its suffix: .jsonl (full records), .csv, .tsv, .parquet; or a folder, ending in "
            "a slash, for Parquet parts as they come.",
        ),
    ],
    graph: Graph = "tribunal",
    columns: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=NAME",
            help="The column of text, id, image (image= : judge by text alone), language, earlier, author (of which a "
            "kept case has a hash).",
        ),
    ] = None,
    encoding: shared.Encoding = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    prices: shared.PriceTable = None,
    run_folder: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="The folder for results while the batch runs. Default: OUT.run; for a URL, a folder "
            "that is named at the end.",
        ),
    ] = None,
    as_json: shared.AsJson = False,
    keep: shared.Keep = None,
    keep_text: shared.KeepText = None,
    database: shared.KeepIn = None,
    *,
    settings: dict[str, Any],
    carried: dict[str, Any],
) -> None:
    """Decide every row of a table. The same command goes on where it stopped."""
    from tribunal.docket.keeping import keep_options
    from tribunal.eval.batch import batch as run_batch
    from tribunal.eval.batch import find_output

    kept = keep_options(
        "batch", keep, keep_text, review=bool(settings.get("review")), database=database
    )
    if kept is None and any(each.startswith("author=") for each in columns or ()):
        raise BadInput(
            "--columns author=…: only kept cases note the author; give --keep or --review, or leave it out"
        )
    roles = parse_pairs(columns, "columns", "ROLE=NAME", blank=True) | (
        {"encoding": encoding} if encoding else {}
    )
    running: dict[str, Any] = {"in_flight": in_flight, "retry": retry, **carried}
    with watch_run(read_price_table(prices), quiet=as_json, **running) as options:
        tally = run_batch(
            posts,
            out,
            options,
            graph=graph,
            settings=settings,
            columns=roles,
            keep=kept,
            run_folder=run_folder,
        )
    with report_output_errors(tally):
        _print_batch(
            tally, find_output(out, run_folder), as_json, priced=options.prices is not None
        )
    end_run(tally)


def _print_batch(tally: RunTally, out: BatchOutput, as_json: bool, *, priced: bool) -> None:
    from tribunal.runner.tally import (
        count_empty_reasons,
        response_format_shares,
        warn_of_empty_reasons,
        warn_of_mixed_formats,
    )

    asked = response_format_shares(tally.asked)
    for warning in (
        warn_of_empty_reasons(empty := count_empty_reasons(tally.reasons)),
        warn_of_mixed_formats(asked),
    ):
        if warning:
            print_warning(warning)
    if as_json:
        printed = {
            "out": str(out),
            "run": out.kept_in,
            "total": tally.total,
            "done": tally.before + tally.done,
            "outcomes": dict(tally.outcomes),
            "uncertain": tally.uncertain,
            "calls": tally.calls,
            "tokens": tally.tokens,
            "rejoined": tally.rejoined,
            "waiting": tally.waiting,
            "unkept": tally.unkept,
            "rehearsed": tally.rehearsed,
            "rungs": asked,
            "empty_reasons": empty,
            "stopped": tally.stopped or None,
        }
        say_json(printed)
        return
    print_totals(tally, priced=priced)
    if tally.unkept:
        print_warning(
            f"not saved to the database: {tally.unkept:,}; the warnings of each result say why"
        )
    print_template("batch", tally=tally, out=out)
