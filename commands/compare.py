"""`tribunal compare`: setups, prompt sets and moderation logs on the same posts, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option
from typer.models import TyperPath

from tribunal.commands import shared_options as shared
from tribunal.commands.database import run_in_store
from tribunal.commands.options import parse_pairs, parse_settings
from tribunal.commands.printing import ask_to_go_on, format_p_value, format_share, print_template
from tribunal.commands.run_options import (
    end_comparison,
    parse_data,
    print_warning,
    read_price_table,
    watch_run,
    with_engine,
    with_posts,
)
from tribunal.commands.shared_options import dataset_names, graph_names
from tribunal.errors import BadInput
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.eval.compare.moderation_log import Decision
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

_SHOWN = 50  # changed verdicts that are printed for each entry


@with_engine
@with_posts
def compare(
    setups: Annotated[
        Path | None, Argument(metavar="[SETUPS.toml]", help="What is compared (docs/compare.md).")
    ] = None,
    on: Annotated[
        list[str] | None,
        Option(metavar="PATH", help="The posts: a table, or with --dataset a data set's files."),
    ] = None,
    out: Annotated[
        Path, Option(metavar="DIR", help="The folder of the comparison and its runs, new or begun.")
    ] = Path("compared"),
    dataset: Annotated[
        str,
        Option(
            help="The data set: table, h-vli, fhm, … (docs/datasets.md).",
            autocompletion=dataset_names,
        ),
    ] = "table",
    prompts: Annotated[
        list[str] | None,
        Option(
            metavar="FOLDER",
            click_type=TyperPath(),
            help="Compare a prompt set: a folder, or shipped. Give it again for each.",
        ),
    ] = None,
    encoding: shared.Encoding = None,
    log: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Compare what another system did: CSV, TSV, JSONL, JSON or Parquet.",
        ),
    ] = None,
    log_column: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=NAME",
            help="The log's column of id, text, score or removed, or a path into an object (score=TOXICITY.value).",
        ),
    ] = None,
    their_threshold: Annotated[
        float | None,
        Option(help="The log's posts of this score or more were removed. Default: column removed."),
    ] = None,
    removed_as: Annotated[
        list[str] | None,
        Option(
            metavar="VALUE",
            help="A value of the column removed that means removed; may be given again.",
        ),
    ] = None,
    decisions: Annotated[
        Path | None,
        Option(
            metavar="DIR|FILE",
            help="Run nothing: compare --log with a run's folder or tribunal batch's table. Default without --on: the "
            "database's cases.",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        Option(
            help="The graph of entries that name none. Default: tribunal.",
            autocompletion=graph_names,
        ),
    ] = None,
    model: Annotated[
        str | None, Option(metavar="MODEL", help="The model of entries that name none.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="A setting of every run; may be given again."),
    ] = None,
    final: Annotated[
        bool,
        Option(
            "--final",
            help="Compare prompts on a test split. Every look is counted, in run.json too.",
        ),
    ] = False,
    unlabelled: shared.Unlabelled = False,
    repeats: shared.Repeats = None,
    cluster: shared.Cluster = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    prices: shared.PriceTable = None,
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
    database: shared.Database = None,
    *,
    carried: dict[str, Any],
    posts: dict[str, Any],
) -> None:
    """Compare setups, prompt sets and moderation logs on the same posts: errors, costs, changed verdicts.

    Says first what the runs take, and asks. The same command goes on where it stopped.
    """
    from tribunal.plugins import require_extra

    require_extra("compare", "eval")
    from tribunal.commands.experiment_shown import print_run_costs, will_spend
    from tribunal.eval.compare.comparison import (
        compare_entries,
        compare_with_decisions,
        write_comparison,
    )
    from tribunal.eval.compare.entries import log_entry, read_entries
    from tribunal.eval.compare.moderation_log import Decisions, read_decisions
    from tribunal.eval.compare.plan import plan_comparison, run_comparison
    from tribunal.eval.evaluate import Evaluation
    from tribunal.eval.experiments.estimate import CallPace, estimate_runs

    columns = parse_pairs(log_column, "log-column", "ROLE=NAME")
    if encoding:
        posts["columns"]["encoding"] = encoding
        columns |= {"encoding": encoding} if log is not None else {}
    settings = parse_settings([*(set_ or []), *([f"model={model}"] if model else [])])
    entries = read_entries(
        setups,
        prompts=prompts or (),
        log=log_entry(log, columns, their_threshold, removed_as or ()),
        graph=graph,
        settings=settings,
    )
    if not on:
        if entries.runs or not entries.logs:
            raise BadInput(
                "on: a comparison needs posts: give --on PATH; only --log can do without"
            )
        if decisions is not None:
            ours = Decisions(read_decisions(decisions), str(decisions))
        else:
            ours = Decisions(run_in_store(database, _decisions_of_store), "the database")
        compared = compare_with_decisions(entries, ours)
        write_comparison(out, compared)
        if as_json:
            say_json({**compared, "out": str(out)})
        else:
            _print_comparison(compared, out)
        if compared["rehearsed"]:
            print_warning(
                f"the rehearsal model took part in {compared['rehearsed']} of these decisions"
            )
        return
    if decisions is not None:
        raise BadInput(f"decisions: {decisions}: replaces the runs; leave out --on, or --decisions")
    gold: Literal["needed", "none"] = "none" if unlabelled else "needed"
    wanted = Evaluation(
        dataset=dataset, data=parse_data(on), settings={}, repeats=repeats, gold=gold, **posts
    )
    plan = plan_comparison(entries, wanted, out, final=final)
    table = read_price_table(prices)
    estimates = estimate_runs(plan.ready_runs, [out])
    print_run_costs("compare_plan", estimates, CallPace(in_flight), table, aside=True, plan=plan)
    ask_to_go_on("compare", yes=yes or not will_spend(plan.ready_runs, retry))
    with watch_run(table, quiet=as_json, in_flight=in_flight, retry=retry, **carried) as options:
        ran = run_comparison(plan, options, lambda text: None if as_json else say(text, aside=True))

    def compare_and_write() -> JSON:
        compared = compare_entries(plan, table, cluster)
        write_comparison(out, compared)
        return compared

    show = None if as_json else lambda compared: _print_comparison(compared, out)
    end_comparison(ran, out, compare_and_write, show)


async def _decisions_of_store(store: Store) -> list[Decision]:
    from tribunal.eval.compare.moderation_log import stored_decisions

    return [each async for each in stored_decisions(store)]


def _print_comparison(compared: JSON, out: Path) -> None:
    rows = []
    for name, row in compared["entries"].items():
        rates = [
            format_share(row[each]["value"])
            for each in ("agreement", "missed_hate", "wrong_removals", "removed")
        ]
        formats = {
            "calls": "{:.1f}",
            "tokens": "{:,.0f}",
            "money_per_1000": "{:.2f}",
            "hours_per_1000": "{:.1f}",
        }
        costs = [
            "–" if row[each] is None else form.format(row[each]) for each, form in formats.items()
        ]
        changed = "–"
        test = None
        if row["against_first"]:
            changed = row["against_first"]["changed"]
            test = row["against_first"]["accuracy"]
        p = format_p_value(test["p_holm"]) if test else "–"
        rows.append((name, row["graph"] or row["kind"], row["posts"], *rates, *costs, changed, p))
    heads = (
        "entry",
        "graph",
        "posts",
        "agree",
        "missed hate",
        "wrong removals",
        "removed",
        "calls",
        "tokens",
    )
    print_table((*heads, "money/1000", "hours/1000", "changed", "p (Holm)"), rows)
    changes = [
        (name, each["post"], each["gold"] or "–", each["from"], each["to"])
        for name, row in compared["entries"].items()
        for each in row["changes"][:_SHOWN]
    ]
    if changes:
        print_table(("entry", "post", "gold", "from", "to"), changes)
    print_template("compare", c=compared, out=str(out), most=_SHOWN)
