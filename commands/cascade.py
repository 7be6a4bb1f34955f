"""`tribunal cascade`: which model looks at a post first, which next, and when a person decides."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import RunPrices
from tribunal.terminal import say, say_json, screen

if TYPE_CHECKING:
    from tribunal.schema import JSON

app = typer.Typer(
    no_args_is_help=True,
    help="Plan cascades: cheap models decide what is clear to them, a court the rest, a person what is left.",
)
NO_PLAN = 1


class Of(StrEnum):
    """What the agreement is promised of."""

    all = "all"
    models = "models"


@app.callback()
def _group() -> None:
    pass


@app.command("plan")
def plan(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="The folders of one run to four over the same labelled posts: each is a stage that can be used.",
        ),
    ],
    agreement: Annotated[float, typer.Option(help="The share of posts that are decided as the gold, at least.")] = 0.95,
    level: Annotated[float, typer.Option(help="How sure that is to be.")] = 0.9,
    of: Annotated[
        Of,
        typer.Option(
            help="The posts that agreement is promised of: all, those of people included; or those of models."
        ),
    ] = Of.all,
    cost_person: Annotated[
        float | None,
        typer.Option(
            metavar="COST",
            help="What a post costs that a person decides, in the unit of the prices. Default: the fewest posts for "
            "people, and of such plans the one with the cheapest models.",
        ),
    ] = None,
    person_accuracy: Annotated[
        float, typer.Option(metavar="SHARE", help="The share of posts that a person decides as the gold does.")
    ] = 1.0,
    one_threshold: Annotated[
        bool,
        typer.Option(
            "--one-threshold",
            help="One threshold a stage for both verdicts, as --triage-confidence and --threshold are one.",
        ),
    ] = False,
    first_look: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A first look that tribunal first-look fit made, as the first stage. Posts that it was fitted on are "
            "left out.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="For --first-look, of runs that hold no texts: the files of their data set."),
    ] = None,
    prices: RunPrices = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="The field by which posts belong together and count as one, as tribunal fit takes it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan and its figures as JSON.")] = False,
) -> None:
    """Find the cheapest order of models and a person that holds a promised agreement.

    Each model decides the posts of which it is sure enough; the next one sees the rest, and a person what is left. Half
    of the posts choose the plan, the other half shows that it holds the promise. Each plan that is asked for on the
    same results is counted beside them, and tested more strictly. Ends with status 1 where no plan is shown to hold it.
    """
    with ending_well():
        from tribunal.commands.evaluate import warn
        from tribunal.eval.measures.cascade import Promise
        from tribunal.eval.measures.cascade_report import planned
        from tribunal.eval.runs.prices import read_prices

        promise = Promise(agreement, level, of.value, person_accuracy, cost_person, one_threshold)
        table = read_prices(prices) if prices else None
        found = planned(folders, promise, prices=table, cluster=cluster, first_look=first_look, data=data)
        for warning in found["warnings"]:
            warn(warning)
        if as_json:
            say_json(found)
        else:
            _show(found)
        if found["plan"] is None:
            say(f"tribunal: {_no_plan(found)}", aside=True)
            raise typer.Exit(NO_PLAN)


def _show(found: JSON) -> None:
    from tribunal.threshold import counted_as

    say(
        f"{counted_as(found['posts'], found['clusters'])}; {_half(found['chosen_on'])} choose the plan, "
        f"{_half(found['promised_on'])} show that it holds"
    )
    for name, many in found["left_out"].items():
        say(f"left out: {many:,} labelled posts of {name}, which another run doesn't hold")
    if found["fitted_on"]:
        say(f"left out: {found['fitted_on']:,} posts on which a first look was fitted, or on nearly the same")
    if found["plan"] is not None:
        for told in _told(found):
            say(told)
    where = "that show it" if found["plan"] is not None else "that choose, which promise nothing"
    say(f"figures of the {found[found['figures_of']]['posts']:,} posts {where}; intervals at 95 %:")
    _table(found)


def _half(half: JSON) -> str:
    if half["clusters"] == half["posts"]:
        return f"{half['posts']:,}"
    return f"{half['posts']:,} (counted as {half['clusters']:,})"


def _told(found: JSON) -> list[str]:
    """The plan in words, and what is promised of it."""
    made, promise = found["plan"], found["promise"]
    said = [f"plan: {made['name']}"]
    for number, stage in enumerate(made["stages"], start=1):
        how = f"{_rule(stage, 'hateful', 'hate')}; {_rule(stage, 'harmless', 'no hate')}"
        said.append(
            f"  {number}. {stage['run']} is asked about {stage['reached']:.1%} of posts and decides "
            f"{stage['decided']:.1%}: {'those of which it is sure, without its audit' if stage['first'] else how}"
        )
    said.append(f"  {len(made['stages']) + 1}. a person decides {made['people']:.1%}")
    who = {"all": "of all posts", "models": "of the posts that models decide"}[promise["of"]]
    people = ""
    if promise["of"] == "all":
        sure = promise["person_accuracy"]
        people = "; people are taken to be right" if sure == 1 else f"; people are taken to be right in {sure:.1%}"
    said.append(
        f"promised: at least {promise['agreement']:.1%} {who} agree with the gold, at level {promise['level']:g}"
        f"{people}"
    )
    said.append(
        f"try {promise['attempt']} on these results, tested at an error of {promise['error']:.4f}; each further one is "
        "tested at a quarter of the error before, so that all of them together keep the level"
    )
    return said


def _rule(stage: JSON, kind: str, called: str) -> str:
    least, bare = stage[kind], kind in stage["without_confidence"]
    if least is None:
        return f"{called} where no confidence is stated" if bare else f"never {called}"
    sure = "at any confidence" if least == 0 else f"from {least:g} on"
    return f"{called} {sure}{', or where none is stated' if bare else ''}"


def _table(found: JSON) -> None:
    from rich.table import Table

    money, people = found["cost_in"] == "money", found["promise"]["cost_person"] is not None
    costs = {**({"money": "models cost"} if money else {}), **({"with_people": "with people"} if people else {})}
    heads = ("", "agree", "of models'", "missed hate", "false alarms", "people", "calls", "tokens", *costs.values())
    table = Table(*heads, box=None, pad_edge=False)
    for each in [*([found["plan"]] if found["plan"] else []), *found["beside"]]:
        shares = (_share(each, name) for name in ("agreement", "agreement_of_models", "missed_hate", "false_alarms"))
        row = [*shares, f"{each['people']:.1%}", f"{each['calls']:.2f}", f"{each['tokens']:,.0f}"]
        row += [f"{each[name]:.4g}" for name in costs]
        table.add_row(each["name"], *row)
    screen(wide=True).print(table)
    unit = "calls, tokens and costs" if money else "calls and tokens"
    say(
        f"{unit} are a post. “of models'”, missed hate (of their verdicts of no hate) and false alarms (of their "
        "verdicts of hate) are of the posts that models decide."
    )
    if not money:
        say("No prices are known, so tokens are taken for the cost: give them with --prices.")


def _share(row: JSON, name: str) -> str:
    if row[name] is None:
        return "–"
    ends = row[f"{name}_interval"]
    return f"{row[name]:.1%}" + (f" ({ends[0]:.1%}–{ends[1]:.1%})" if ends else "")


def _no_plan(found: JSON) -> str:
    """Why there is none, and how many posts it takes."""
    promise, needed = found["promise"], found["needed"]
    said = (
        f"no plan is shown to hold an agreement of {promise['agreement']:g} at level {promise['level']:g} with these "
    )
    said += f"{found['posts']:,} labelled posts"
    if needed["seen"] is None:
        return f"{said}: no model decides any of them"
    seen = f"of the posts that choose, the surest plan has {needed['seen']:.1%} wrong"
    if needed["likely"] is None:
        return f"{said}; {seen}, so more posts would not help: give a lower agreement or better models"
    likely = f", and about {needed['likely']:,} if as many are wrong as there"
    if needed["likely"] <= found["posts"]:
        likely = ", and more than these by what the other posts show"
    likely *= needed["likely"] > needed["least"]
    more = "" if promise["attempt"] == 1 else "; each further try on the same results is tested more strictly"
    return (
        f"{said}; {seen}: it takes at least {needed['least']:,} without one error{likely}; give more posts, or a "
        f"lower agreement or level{more}"
    )
