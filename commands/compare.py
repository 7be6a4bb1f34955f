"""`tribunal compare`: setups on the same decided posts, and which one is worth its price."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands import shared_options as shared
from tribunal.commands.errors import ask_to_go_on
from tribunal.commands.printing import format_share, print_template
from tribunal.commands.run_options import (
    end_comparison,
    parse_data,
    read_price_table,
    watch_run,
    with_engine,
    with_posts,
)
from tribunal.terminal import print_table, say

if TYPE_CHECKING:
    from tribunal.schema import JSON


@with_engine
@with_posts
def compare_setups(
    setups: Annotated[Path, typer.Argument(metavar="SETUPS", help="The setups: a TOML file (docs/decided_cases.md).")],
    on: Annotated[
        list[str],
        typer.Option(
            "--on", metavar="PATH", help="Posts that people decided: a table, or with --dataset a data set's files."
        ),
    ],
    out: shared.ComparisonFolder,
    dataset: shared.ComparedDataset = "table",
    cluster: shared.Cluster = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    prices: shared.PriceTable = None,
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
    *,
    carried: dict[str, Any],
    posts: dict[str, Any],
) -> None:
    """Run setups (graphs with their models) on posts that people decided, and compare what they get wrong and cost.

    It first says what they take, and asks. The same command goes on where it stopped.
    """
    from tribunal.plugins import require_extra

    require_extra("compare", "eval")
    from tribunal.commands.experiment_shown import print_run_costs, will_spend
    from tribunal.eval.evaluate import Evaluation, run_series
    from tribunal.eval.experiments.estimate import CallPace, estimate_runs
    from tribunal.eval.experiments.plan import open_evaluations
    from tribunal.eval.setups.comparison import PAGE, compare_setups, plan_setups, write_setups
    from tribunal.eval.setups.setups_file import read_setups

    held = read_setups(setups)
    wanted = Evaluation(graph="baseline", dataset=dataset, data=parse_data(on), settings={}, **posts)
    evaluations = plan_setups(held, wanted, out)
    ready = asyncio.run(open_evaluations(evaluations, out))
    table, estimates = read_price_table(prices), estimate_runs(ready, [out])
    print_run_costs("compare_plan", estimates, CallPace(in_flight), table, aside=True)
    ask_to_go_on("compare", yes=yes or not will_spend(ready, retry))
    with watch_run(table, quiet=as_json, in_flight=in_flight, retry=retry, **carried) as options:
        ran = run_series(
            list(evaluations.items()), out, options, lambda text: None if as_json else say(text, aside=True)
        )

    def compare() -> JSON:
        compared = compare_setups(held, out, table, cluster=cluster)
        write_setups(out, compared)
        return compared

    end_comparison(ran, out, compare, None if as_json else lambda compared: _print_setups(compared, out / PAGE))


def _print_setups(compared: JSON, page: Path) -> None:
    rows = [
        (
            name, each["graph"], each["posts"], format_share(each["agreement"]["value"]),
            format_share(each["missed_hate"]["value"]), format_share(each["wrong_removals"]["value"]),
            f"{each['calls']:.1f}", f"{each['tokens']:,.0f}",
            "–" if each["money_per_1000"] is None else f"{each['money_per_1000']:.2f}",
            *(
                "–" if work["hours_per_1000"] is None else f"{work['hours_per_1000']:.1f}"
                for work in (each, each["promised"])
                if work is not None
            ),
        )
        for name, each in compared["setups"].items()
    ]  # fmt: skip
    heads = ("setup", "graph", "posts", "agree", "missed hate", "wrong removals", "calls", "tokens")
    promised = ["hours/1000 promised"] if compared["promise"] else []
    print_table((*heads, "money/1000", "hours/1000", *promised), rows)
    print_template("compare", c=compared, page=str(page))
