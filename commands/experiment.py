"""`tribunal experiment`: the papers' tables, each as one command: planned, run, and written beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.asking import ask_to_go_on
from tribunal.commands.completing import experiment_names
from tribunal.commands.engines import with_engine
from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import (
    EPILOG,
    AsJson,
    InFlight,
    PriceTable,
    data_of,
    status,
    telling,
    warn,
    warn_of_rehearsal,
)
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.eval.experiments.costing import Line, Pace
    from tribunal.eval.experiments.planning import Plan, Wanted
    from tribunal.eval.experiments.running import Ran
    from tribunal.eval.runs.prices import Prices
    from tribunal.eval.runs.tally import Watch
    from tribunal.schema import JSON

app = typer.Typer(
    no_args_is_help=True,
    help="The tables of the papers, each as one command: planned, run, and written with the paper's figures beside.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as arcade-table3.", autocompletion=experiment_names)]
Data = Annotated[
    list[str],
    typer.Option(
        metavar="PATH",
        help="Where the sets' files are: the folder of one set, a folder that holds one for each set by its name, or "
        "NAME=PATH for each, given again. A set that isn't given is a gap in the table.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the runs and the table, new or begun. Default: runs/NAME."),
]
Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A model of yours, in the place of those that the table compares; given again, a row each.",
    ),
]
Aux = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Who argues or looks things up, whichever --model decides: asked once for all."),
]
PaperModels = Annotated[
    bool,
    typer.Option(
        "--paper-models",
        help="Ask the models that the paper asked: in the seats that it fixes, and without --model in its rows.",
    ),
]
Samples = Annotated[int | None, typer.Option(min=1, help="How many posts of each run. Default: as many as the paper.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Another seed, other posts and another order.")]
Repeats = Annotated[int | None, typer.Option(min=1, help="How often each post is decided. Default: as in the paper.")]
SkipImages = Annotated[
    bool, typer.Option("--skip-missing-images", help="Leave out the posts whose image isn't there, and count them.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting of every run by its name, such as search=searxng or seats.judge=openai:gpt-5 "
        "(docs/settings.md). May be given again. One that departs from the paper is said in the table.",
    ),
]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Calls a second, for the time that it takes.")]
CallSeconds = Annotated[
    float, typer.Option(min=0.001, help="Seconds a call, for the time that it takes where no rate is given.")
]
MeasuredIn = Annotated[
    Path | None,
    typer.Option(
        "--measured-in",
        metavar="DIR",
        help="Estimate by what the runs in this folder have taken a post, such as a trial of a few posts.",
    ),
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the experiments: table, data sets, how many runs, and what isn't at hand."""
    with ending_well():
        from tribunal.eval.experiments.declared import experiments

        rows = [_listed(name) for name in experiments()]
        if as_json:
            say_json(rows)
            return
        for row in rows:
            lines = [
                f"{row['name']}: {row['paper']}, {row['table']}. {row['title']}",
                f"    data: {', '.join(row['datasets'])}; runs with one model of yours: {row['runs']}",
                *(f"    not at hand: {each}" for each in row["not_at_hand"]),
            ]
            say("\n".join(lines), lines=True)


def _listed(name: str) -> JSON:
    from tribunal.eval.experiments.declared import Models, experiment

    held = experiment(name)
    return {
        "name": name,
        "paper": held.paper,
        "table": held.table,
        "title": held.title,
        "datasets": held.datasets,
        "runs": len(held.runs(held.datasets, Models(own=("MODEL",)))),
        "not_at_hand": list(held.gaps),
    }


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one experiment in full: conditions, the paper's figures, how the paper was read, and where it is silent."""
    with ending_well():
        from tribunal.commands.experiment_shown import show_experiment
        from tribunal.eval.experiments.declared import Models, experiment
        from tribunal.eval.experiments.table import table_of

        held = experiment(name)
        if as_json:
            protocol = held.protocol.model_dump(mode="json", exclude={"name", "paper", "table", "title", "missing"})
            say_json({**_listed(name), "protocol": protocol, "shape": held.shape.model_dump(mode="json")})
            return
        show_experiment(held, table_of(held, {}, Models(paper=True)))


@app.command()
def plan(
    name: Name,
    data: Data,
    out: Out = None,
    model: Model = None,
    aux_model: Aux = None,
    paper_models: PaperModels = False,
    samples: Samples = None,
    seed: Seed = None,
    repeats: Repeats = None,
    skip_missing_images: SkipImages = False,
    set_: Set = None,
    in_flight: InFlight = 16,
    prices: PriceTable = None,
    rate: Rate = None,
    call_seconds: CallSeconds = 3.0,
    measured_in: MeasuredIn = None,
    as_json: AsJson = False,
) -> None:
    """Say what an experiment takes: posts, calls, tokens, money and time of each run. Asks no model and no server."""
    from tribunal.commands.experiment_shown import show_plan

    with ending_well():
        wanted = _wanted(
            name, data, out, model, aux_model, paper_models, set_, samples=samples, seed=seed, repeats=repeats,
            skip_missing_images=skip_missing_images,
        )  # fmt: skip
        planned, lines, pace, table = _planned(wanted, in_flight, prices, rate, call_seconds, measured_in)
        if as_json:
            from tribunal.eval.experiments.costing import plan_as_json

            say_json(plan_as_json(planned, lines, pace, table))
        else:
            show_plan(planned, lines, pace, table)


@app.command(epilog=EPILOG)
@with_engine
def run(
    name: Name,
    data: Data,
    out: Out = None,
    model: Model = None,
    aux_model: Aux = None,
    paper_models: PaperModels = False,
    samples: Samples = None,
    seed: Seed = None,
    repeats: Repeats = None,
    skip_missing_images: SkipImages = False,
    set_: Set = None,
    in_flight: InFlight = 16,
    retry: Annotated[
        list[str] | None, typer.Option(help="Decide again what ended so: failures, refusals; may be given again.")
    ] = None,
    prices: PriceTable = None,
    rate: Rate = None,
    call_seconds: CallSeconds = 3.0,
    measured_in: MeasuredIn = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without being asked.")] = False,
    as_json: AsJson = False,
    *,
    carried: dict[str, Any],
) -> None:
    """Run an experiment, and write its table beside the paper's. Plans and asks first; the same command goes on."""
    from contextlib import ExitStack
    from functools import cache

    from tribunal.commands.experiment_shown import show_plan
    from tribunal.eval.experiments.running import run_plan
    from tribunal.eval.runs.progress import shown

    with ending_well(), ExitStack() as stack:
        wanted = _wanted(
            name, data, out, model, aux_model, paper_models, set_, samples=samples, seed=seed, repeats=repeats,
            skip_missing_images=skip_missing_images,
        )  # fmt: skip
        planned, lines, pace, table = _planned(wanted, in_flight, prices, rate, call_seconds, measured_in)
        show_plan(planned, lines, pace, table, aside=True)
        spends = any((line.ready.left or retry) and not line.ready.rehearsed for line in lines)
        ask_to_go_on("experiment run", yes=yes or not spends)
        watch = stack.enter_context(shown(priced=table is not None, quiet=as_json))

        def watch_run(name: str, number: int, count: int) -> Watch:
            if not as_json:
                say(f"{number} of {count}: {name}", aside=True)
            return watch

        ran = run_plan(
            planned,
            in_flight=in_flight,
            watch_run=watch_run,
            warn=cache(warn),  # each warning once
            prices=table,
            retry=retry or (),
            **carried,
        )
        with telling(ran.tallies[-1][1]):
            _tell(planned, ran, as_json=as_json)
    tallies = [tally for _, tally in ran.tallies]
    warn_of_rehearsal(sum(each.rehearsed for each in tallies), sum(each.before + each.done for each in tallies))
    raise typer.Exit(status(tallies[-1]))


def _wanted(
    name: str,
    data: list[str],
    out: Path | None,
    models: list[str] | None,
    aux: str | None,
    paper: bool,
    assigned: list[str] | None,
    **of_the_posts: Any,
) -> Wanted:
    """What the options ask for.

    Raises:
        BadInput: there is no such experiment, or an option is not of its form.
    """
    from tribunal.commands.assignments import assignments
    from tribunal.eval.experiments.declared import Models, experiment
    from tribunal.eval.experiments.planning import Wanted

    held = experiment(name)
    asked = Models(own=tuple(dict.fromkeys(models or ())), paper=paper, aux=aux)
    return Wanted(held, data_of(data), out or Path("runs") / name, asked, assignments(assigned or []), **of_the_posts)


def _planned(
    wanted: Wanted,
    in_flight: int,
    prices: Path | None,
    rate: float | None,
    call_seconds: float,
    measured_in: Path | None,
) -> tuple[Plan, list[Line], Pace, Prices | None]:
    from tribunal.eval.experiments.costing import Pace, lines_of
    from tribunal.eval.experiments.planning import plan_of
    from tribunal.eval.runs.prices import read_prices

    table = read_prices(prices) if prices else None
    planned = plan_of(wanted)
    return planned, lines_of(planned, measured_in), Pace(in_flight, rate, call_seconds), table


def _tell(planned: Plan, ran: Ran, *, as_json: bool) -> None:
    from tribunal.commands.experiment_shown import show_table
    from tribunal.eval.evaluate import summary
    from tribunal.eval.experiments.table import written

    out = planned.wanted.out
    files = written(ran.table, out)
    if not as_json:
        show_table(ran.table)
        say(f"the table: {', '.join(map(str, files))}; the runs: {out}")
        return
    runs = [{"run": name, **summary(tally, out / name)} for name, tally in ran.tallies]
    say_json(
        {
            "experiment": planned.wanted.experiment.name,
            "out": str(out),
            "runs": runs,
            "gaps": dict(planned.gaps),
            "table": [str(file) for file in files],
            "stopped": ran.tallies[-1][1].stopped or None,
        }
    )
