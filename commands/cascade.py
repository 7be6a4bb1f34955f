"""Plan which model looks at a post first, which next, and when a person decides: `tribunal cascade`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from tribunal.commands.printing import print_template
from tribunal.commands.run_options import print_warning, read_price_table
from tribunal.commands.shared_options import AsJson, Cluster, RunPrices
from tribunal.process.terminal import print_table, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON

app = Typer(
    no_args_is_help=True,
    help="Plan cascades: cheap models decide what is clear to them, a court the rest, a person what is left.",
)
NO_PLAN = 1


class PromiseScope(StrEnum):
    """Name the posts that the agreement is promised of."""

    all = "all"
    models = "models"


@app.callback()
def _group() -> None:
    pass


@app.command("plan")
def plan_cascade(
    folders: Annotated[
        list[Path],
        Argument(
            metavar="RUN...",
            help="The folders of one run to four over the same labelled posts: each is a stage that can be used.",
        ),
    ],
    agreement: Annotated[
        float, Option(help="At least this share of posts is decided as the gold.")
    ] = 0.95,
    level: Annotated[float, Option(help="The confidence level of the promise.")] = 0.9,
    of: Annotated[
        PromiseScope,
        Option(
            help="all: promise agreement of every post, also those left to people. models: of the posts that models "
            "decide."
        ),
    ] = PromiseScope.all,
    cost_person: Annotated[
        float | None,
        Option(
            metavar="COST",
            help="The cost of a post that a person decides, in the prices' unit. Default: the plan with the "
            "fewest posts for people, then with the cheapest models.",
        ),
    ] = None,
    person_accuracy: Annotated[
        float, Option(metavar="SHARE", help="How often a person decides as the gold.")
    ] = 1.0,
    one_threshold: Annotated[
        bool,
        Option(
            "--one-threshold",
            help="One threshold a stage for both verdicts.",
        ),
    ] = False,
    prices: RunPrices = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest order of models and a person that holds a promised agreement.

    Half of the posts choose the plan, the other half shows that it holds the promise. Each plan on the same results
    is counted beside them, and tested more strictly. Ends with status 1 where no plan is shown to hold it.
    """
    from tribunal.eval.cascade.report import CascadePromise, plan_cascade
    from tribunal.eval.cascade.search import read_stages
    from tribunal.nodes.threshold import counted_as

    promise = CascadePromise(
        agreement, level, of.value, person_accuracy, cost_person, one_threshold
    )
    table = read_price_table(prices)
    stages = read_stages(folders, prices=table, cluster=cluster)
    result = plan_cascade(stages, promise)
    for warning in result["warnings"]:
        print_warning(warning)
    if as_json:
        say_json(result)
    else:
        posts = counted_as(result["posts"], result["clusters"])
        print_template("cascade", part="plan", posts=posts, result=result)
        _print_table(result)
        print_template("cascade", part="end", result=result)
    if result["plan"] is None:
        print_template("cascade", aside=True, part="no plan", result=result)
        raise Exit(NO_PLAN)


def _print_table(result: JSON) -> None:
    money = result["cost_in"] == "money"
    people = result["promise"]["cost_person"] is not None
    costs = {
        **({"money": "models cost"} if money else {}),
        **({"with_people": "with people"} if people else {}),
    }
    heads = (
        "",
        "agree",
        "of models'",
        "missed hate",
        "false alarms",
        "people",
        "calls",
        "tokens",
        *costs.values(),
    )
    rows = []
    for each in [*([result["plan"]] if result["plan"] else []), *result["beside"]]:
        shares = (
            _format_share(each, name)
            for name in ("agreement", "agreement_of_models", "missed_hate", "false_alarms")
        )
        row = [*shares, f"{each['people']:.1%}", f"{each['calls']:.2f}", f"{each['tokens']:,.0f}"]
        row += [f"{each[name]:.4g}" for name in costs]
        rows.append([each["name"], *row])
    print_table(heads, rows)


def _format_share(row: JSON, name: str) -> str:
    if row[name] is None:
        return "–"
    ends = row[f"{name}_interval"]
    return f"{row[name]:.1%}" + (f" ({ends[0]:.1%}–{ends[1]:.1%})" if ends else "")
