"""`tribunal prompts compare`: two prompt sets over the same posts, and which prompt changed which verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import TyperPath

from tribunal.commands import shared_options as shared
from tribunal.commands.errors import ask_to_go_on
from tribunal.commands.options import Graph, with_settings
from tribunal.commands.printing import format_p_value, format_share, print_template
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

_PLACE = TyperPath()  # a shell completes it as one
_SHOWN = 50  # changed verdicts that are printed
_SET = "A folder of prompts; or shipped: those that come with Tribunal."


@with_settings
@with_engine
@with_posts
def compare(
    first: Annotated[str, typer.Argument(metavar="A", click_type=_PLACE, help=_SET)],
    second: Annotated[str, typer.Argument(metavar="B", click_type=_PLACE, help=_SET)],
    data: Annotated[
        list[str],
        typer.Option(
            metavar="PATH", help="The posts: a table, or with --dataset the files of a data set, as for eval."
        ),
    ],
    out: shared.ComparisonFolder,
    dataset: shared.ComparedDataset = "table",
    graph: Graph = "tribunal",
    by_seat: Annotated[
        bool,
        typer.Option("--by-seat", help="Also exchange each differing prompt alone."),
    ] = False,
    final: Annotated[
        bool,
        typer.Option("--final", help="Allow a test split. Every look at it is counted, and noted in run.json."),
    ] = False,
    repeats: shared.Repeats = None,
    cluster: shared.Cluster = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    prices: shared.PriceTable = None,
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
    *,
    settings: dict[str, Any],
    carried: dict[str, Any],
    posts: dict[str, Any],
) -> None:
    """Run a graph with two prompt sets over the same posts, and compare them, post by post.

    It first says what the sets differ in and how many calls it takes, and asks. The same command goes on where it
    stopped.
    """
    from tribunal.plugins import require_extra

    require_extra("prompts compare", "eval")
    from tribunal.commands.experiment_shown import print_run_costs, will_spend
    from tribunal.eval.evaluate import Evaluation
    from tribunal.eval.experiments.estimate import CallPace, costs_as_json, estimate_runs
    from tribunal.eval.prompt_sets.comparison import compare_prompt_sets, write_comparison
    from tribunal.eval.prompt_sets.differences import list_differences
    from tribunal.eval.prompt_sets.plan import plan_comparison, run_comparison

    wanted = Evaluation(
        graph=graph, dataset=dataset, data=parse_data(data), settings=settings, repeats=repeats, **posts
    )
    plan = plan_comparison(first, second, wanted, out, by_seat=by_seat, final=final)
    table, estimates = read_price_table(prices), estimate_runs(plan.ready_runs, [out])
    pace = CallPace(in_flight)
    values = {
        "plan": plan,
        "differences": list_differences(plan.first, plan.second),
        "free": [
            each.ready.run.name
            for each in estimates
            if each.by == "tried" and costs_as_json(each.rest, pace, None)["calls"][1] == 0
        ],
    }
    print_run_costs("prompts_plan", estimates, pace, table, aside=True, **values)
    ask_to_go_on("prompts compare", yes=yes or not will_spend(plan.ready_runs, retry))
    running: dict[str, Any] = {"in_flight": in_flight, "retry": retry, **carried}
    with watch_run(table, quiet=as_json, **running) as options:
        ran = run_comparison(plan, options, lambda text: None if as_json else say(text, aside=True))

    def compare_runs() -> JSON:
        compared = compare_prompt_sets(plan, table, cluster=cluster)
        write_comparison(out, compared)
        return compared

    end_comparison(ran, out, compare_runs, None if as_json else lambda compared: _print_comparison(compared, out))


def _print_comparison(compared: JSON, out: Path) -> None:
    print_template("prompts_compare", part="head", c=compared)
    rows = [
        (f"{kind.removeprefix('by_')}: {name}", each["n"], *_accuracy_cells(each))
        for kind, groups in compared["groups"].items()
        for name, each in groups.items()
    ]
    if rows:
        print_table(("posts", "n", "A", "B", "only A right", "only B right", "p", "p (Holm)"), rows)
    if compared["by_prompt"]:
        effects = [
            (each["prompt"], each["changed"], each["put_right"], each["put_wrong"], *_p_cells(each["accuracy"]))
            for each in compared["by_prompt"]
        ]
        print_table(("A with this prompt of B", "changed", "put right", "put wrong", "p", "p (Holm)"), effects)
    print_template("prompts_compare", part="changes", c=compared)
    changes = [
        (each["post"], each["gold"] or "–", each["from"], each["to"], ", ".join(each["changed_by"]) or "–")
        for each in compared["changes"][:_SHOWN]
    ]
    if changes:
        print_table(("post", "gold", "A", "B", "also changed by"), changes)
    print_template("prompts_compare", part="end", c=compared, most=_SHOWN, page=str(out / "comparison.md"))


def _accuracy_cells(each: JSON) -> tuple[Any, ...]:
    shares = format_share(each["first"]), format_share(each["second"])
    return (*shares, each["only_first_right"], each["only_second_right"], *_p_cells(each))


def _p_cells(each: JSON | None) -> tuple[str, str]:
    return (format_p_value(each["p"]), format_p_value(each["p_holm"])) if each else ("–", "–")
