"""`tribunal experiment`: the papers' tables and one's own, each as one command: planned, run, written, exported."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Argument, Option, Typer

from tribunal.commands import shared_options as shared
from tribunal.commands.options import extend_options, parse_settings
from tribunal.commands.printing import ask_to_go_on, print_template
from tribunal.commands.run_options import (
    EPILOG,
    end_run,
    parse_data,
    read_price_table,
    report_output_errors,
    watch_run,
    with_engine,
)
from tribunal.commands.shared_options import experiment_names
from tribunal.errors import BadInput
from tribunal.process.files import write_whole
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.eval.experiments.estimate import CallPace, RunEstimate
    from tribunal.eval.experiments.plan import ExperimentPlan
    from tribunal.runner.prices import Prices
    from tribunal.schema import JSON

TableFormat = Literal["latex", "markdown", "csv"]
app = Typer(
    no_args_is_help=True,
    help="The tables of the papers, and your own, each as one command: planned, run, and written with the paper's "
    "figures beside.",
)
_NAME = Argument(
    metavar="NAME",
    help="Such as arcade-table3, or FILE.toml of your own.",
    autocompletion=experiment_names,
)


def _experiment_as_json(name: str) -> JSON:
    from tribunal.eval.experiments.experiment import ChosenModels, find_experiment

    experiment = find_experiment(name, ChosenModels(own=("MODEL",)))
    return {
        "name": experiment.name,
        "paper": experiment.protocol.paper,
        "table": experiment.protocol.table,
        "title": experiment.protocol.title,
        "datasets": experiment.dataset_names,
        "runs": len(experiment.planned_runs(experiment.dataset_names)),
        "not_at_hand": list(experiment.protocol.missing),
    }


@app.command("show")
def show(
    name: Annotated[
        str | None,
        Argument(
            metavar="[NAME|FOLDER]",
            help="An experiment, a file of your own, or with --to the folder of a run experiment. Without it: a list.",
            autocompletion=experiment_names,
        ),
    ] = None,
    to: Annotated[
        TableFormat | None,
        Option(
            "--to",
            help="Write the table of FOLDER, finished or not: LaTeX for booktabs, Markdown, or CSV.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", metavar="FILE", help="With --to: the file. Default: print it."),
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """List the experiments; show one with conditions, the paper's figures and gaps; or write the table of a folder."""
    if output is not None and to is None:
        raise BadInput("--output: belongs to --to FORMAT; give that too")
    if name is None:
        if to is not None:
            raise BadInput(
                "--to: which folder? Give the folder of an experiment: tribunal experiment show FOLDER --to …"
            )
        from tribunal.eval.protocols.protocol import load_protocols

        rows = [_experiment_as_json(name) for name in load_protocols()]
        if as_json:
            say_json(rows)
        else:
            print_template("experiment_list", experiments=rows)
    elif to is not None:
        _write_table(Path(name), to, output)
    else:
        _show_experiment(name, as_json)


def _show_experiment(name: str, as_json: bool) -> None:
    from tribunal.commands.experiment_shown import (
        common_settings,
        paper_rows,
        print_table_of_paper,
        settings_by_dataset,
    )
    from tribunal.eval.experiments.experiment import ChosenModels, find_experiment
    from tribunal.eval.experiments.table import build_table
    from tribunal.eval.experiments.table_check import check_table

    experiment = find_experiment(name, ChosenModels(paper=True))
    check_table(experiment)
    held = _experiment_as_json(name)
    if as_json:
        fields = experiment.protocol.model_dump(
            mode="json", exclude={"name", "paper", "table", "title", "missing"}
        )
        say_json({**held, "protocol": fields, "shape": experiment.shape.model_dump(mode="json")})
        return
    table = build_table(experiment, {})
    protocol = experiment.protocol
    common = common_settings(experiment.protocol)
    by_condition = {
        name: settings_by_dataset(protocol, name, common) for name in protocol.conditions
    }
    values = {
        "experiment": experiment, "protocol": protocol, "runs": held["runs"], "notes": table.notes, "common": common,
        "by_condition": by_condition,
    }  # fmt: skip
    print_template("experiment", part="head", **values)
    print_table_of_paper(paper_rows(table, experiment))
    print_template("experiment", part="end", **values)


class PlannedRuns(NamedTuple):
    """A planned experiment, what its runs take, and by what that is told."""

    plan: ExperimentPlan
    estimates: list[RunEstimate]
    pace: CallPace
    prices: Prices | None


def _plan_runs(
    name: Annotated[str | None, _NAME] = None,
    data: Annotated[
        list[str] | None,
        Option(
            metavar="PATH",
            help="The folder of one set, a folder that holds one for each set by its name, or NAME=PATH for each, "
            "given again. Default: as the table's file says. A missing set is a gap in the table.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The folder of the runs and the table, new or begun. Default: runs/NAME.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            metavar="MODEL",
            help="Your model, instead of the table's models; given again, a row each.",
        ),
    ] = None,
    aux_model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="The model that argues or looks things up, asked once for every --model.",
        ),
    ] = None,
    paper_models: shared.PaperModels = False,
    samples: shared.Samples = None,
    seed: shared.Seed = None,
    repeats: shared.Repeats = None,
    skip_missing_images: shared.SkipMissingImages = False,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of every run, such as seats.judge=openai:gpt-5; may be given again. The table names those "
            "that depart from the paper.",
        ),
    ] = None,
    in_flight: shared.InFlight = 16,
    prices: shared.PriceTable = None,
    rate: Annotated[
        float | None, Option(min=0.001, help="Calls a second, to estimate the time.")
    ] = None,
    call_seconds: Annotated[
        float, Option(min=0.001, help="Seconds a call, to estimate the time without --rate.")
    ] = 3.0,
    measured_in: Annotated[
        Path | None,
        Option(
            "--measured-in",
            metavar="DIR",
            help="Estimate from the runs in this folder, such as a trial of a few posts.",
        ),
    ] = None,
) -> PlannedRuns | None:
    """Plan an experiment as the options say; None without its name.

    Raises:
        BadInput: there is no such experiment, or an option is not of its form.
    """
    if name is None:
        return None
    from tribunal.eval.evaluate import Evaluation
    from tribunal.eval.experiments.estimate import CallPace, estimate_plan
    from tribunal.eval.experiments.experiment import ChosenModels, find_experiment
    from tribunal.eval.experiments.plan import plan_experiment
    from tribunal.eval.experiments.table_check import check_table

    evaluation = Evaluation(
        data=parse_data(data) if data else {},
        settings=parse_settings(set_ or []),
        samples=samples,
        seed=seed,
        repeats=repeats,
        skip_missing_images=skip_missing_images,
    )
    models = ChosenModels(own=tuple(dict.fromkeys(model or ())), paper=paper_models, aux=aux_model)
    table = read_price_table(prices)
    experiment = find_experiment(name, models)
    check_table(experiment)
    plan = plan_experiment(experiment, evaluation, out or Path("runs") / experiment.name)
    return PlannedRuns(
        plan, estimate_plan(plan, measured_in), CallPace(in_flight, rate, call_seconds), table
    )


# Adds the options of a plan to a command, which is given the plan as `planned`.
_with_plan = partial(extend_options, parameter="planned", parse=_plan_runs)


@app.command("plan")
@_with_plan
def plan(
    detect: Annotated[
        float | None,
        Option(
            metavar="POINTS",
            help="Also say how many posts find this difference of accuracy, in percentage points.",
        ),
    ] = None,
    posts: Annotated[
        list[int] | None,
        Option(
            min=1,
            metavar="N",
            help="With --detect: the chance with so many posts; may be given again.",
        ),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        Option(
            "--run",
            metavar="DIR",
            help="With --detect: one or two runs to take accuracy, discordance and clusters from.",
        ),
    ] = None,
    power: Annotated[
        float, Option(help="The chance to find the difference if there is one.")
    ] = 0.8,
    alpha: Annotated[
        float, Option(help="The chance to find one where there is none (two-sided).")
    ] = 0.05,
    paired: Annotated[
        bool, Option("--paired/--unpaired", help="Both runs decide the same posts, or not.")
    ] = True,
    accuracy: Annotated[
        float | None,
        Option(metavar="SHARE", help="The lower accuracy of the two. Default: --run's, else 0.8."),
    ] = None,
    discordant: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="The share of posts that only one run gets right. Default: --run's.",
        ),
    ] = None,
    design_effect: Annotated[
        float | None,
        Option(
            min=1,
            metavar="FACTOR",
            help="How many posts tell as much as an independent one. Default: --run's.",
        ),
    ] = None,
    cluster: shared.Cluster = None,
    as_json: shared.AsJson = False,
    *,
    planned: PlannedRuns | None,
) -> None:
    """Say what an experiment takes: posts, calls, tokens, money and time of each run. Asks no model and no server.

    With --detect, it also says how many posts a difference needs; then NAME may be left out.
    """
    from tribunal.commands.experiment_shown import print_plan
    from tribunal.eval.experiments.estimate import plan_as_json

    needed = None
    if detect is not None:
        numbers = {each.ready.job.count for each in planned.estimates} if planned else set()
        request = {
            "power": power, "alpha": alpha, "paired": paired, "accuracy": accuracy, "discordant": discordant,
            "design_effect": design_effect, "cluster": cluster, "posts": sorted({*numbers, *(posts or ())}),
        }  # fmt: skip
        needed = _plan_posts(detect, request, runs or [])
    elif planned is None:
        raise BadInput("NAME: give an experiment (tribunal experiment show), or --detect POINTS")
    if as_json:
        say_json(
            {
                **(plan_as_json(*planned) if planned else {}),
                **({"detect": needed} if needed else {}),
            }
        )
        return
    if planned is not None:
        print_plan(*planned)
    if needed is not None:
        print_template("plan", p=needed, points=f"{detect:g}")


def _plan_posts(detect: float, request: dict[str, Any], runs: list[Path]) -> JSON:
    """Return how many posts a difference of so many percentage points needs."""
    from tribunal.eval.measures.columns import read_columns
    from tribunal.eval.measures.power import PowerRequest, plan_posts

    for name, value, low, high in (
        ("detect", detect, 0, 100), ("alpha", request["alpha"], 0, 1), ("power", request["power"], request["alpha"], 1),
        ("accuracy", request["accuracy"], 0, 1), ("discordant", request["discordant"], 0, 1),
    ):  # fmt: skip
        if value is not None and not low < value < high:
            raise BadInput(f"{name}: {value:g}: give a number above {low:g} and below {high:g}")
    if len(runs) > 2:
        raise BadInput(f"run: {len(runs)} were given; give one, or the two that are to be compared")
    if request["cluster"] is not None and not runs:
        raise BadInput(
            f"cluster: {request['cluster']}: is a field of a run's posts; give --run, or --design-effect"
        )
    if request["discordant"] is not None and not request["paired"]:
        raise BadInput(
            f"discordant: {request['discordant']:g}: is of runs over the same posts; leave out --unpaired"
        )
    return plan_posts(
        PowerRequest(detect / 100, **request), [read_columns(folder) for folder in runs]
    )


@app.command(epilog=EPILOG)
@with_engine
@_with_plan
def run(
    retry: shared.Retry = None,
    yes: shared.Yes = False,
    as_json: shared.AsJson = False,
    *,
    planned: PlannedRuns | None,
    carried: dict[str, Any],
) -> None:
    """Run an experiment, and write its table beside the paper's. Plans and asks first; the same command goes on."""
    from tribunal.commands.experiment_shown import print_plan, print_table_of_paper, will_spend
    from tribunal.eval.evaluate import summarize_run
    from tribunal.eval.experiments.plan import run_plan
    from tribunal.eval.experiments.rendering import write_table

    if planned is None:
        raise BadInput("NAME: give an experiment: tribunal experiment show")
    able = [each for each in planned.estimates if not each.ready.lacks]
    planned = planned._replace(plan=planned.plan.without_lacking(), estimates=able)
    print_plan(*planned, aside=True)
    spends = will_spend((each.ready for each in planned.estimates), retry)
    ask_to_go_on("experiment run", yes=yes or not spends)
    running: dict[str, Any] = {"in_flight": planned.pace.in_flight, "retry": retry, **carried}
    out = planned.plan.out
    with watch_run(planned.prices, quiet=as_json, **running) as options:
        ran = run_plan(
            planned.plan, options, lambda text: None if as_json else say(text, aside=True)
        )
        with report_output_errors(ran.tallies[-1][1]):
            files = write_table(ran.table, out)
            if as_json:
                result = {
                    "experiment": planned.plan.experiment.name,
                    "out": str(out),
                    "runs": [
                        {"run": name, **summarize_run(tally, out / name)}
                        for name, tally in ran.tallies
                    ],
                    "gaps": dict(planned.plan.gaps),
                    "table": [str(file) for file in files],
                    "stopped": ran.tallies[-1][1].stopped or None,
                }
                say_json(result)
            else:
                print_table_of_paper(ran.table)
                say(f"the table: {', '.join(map(str, files))}; the runs: {out}")
    end_run(*(tally for _, tally in ran.tallies))


def _write_table(folder: Path, to: TableFormat, output: Path | None) -> None:
    """Write the table of an experiment's folder, with intervals, paired tests, and the paper's figures."""
    from tribunal.eval.experiments.plan import read_experiment_table
    from tribunal.eval.experiments.rendering import export_table
    from tribunal.runner.journal import report_unwritten

    text = export_table(read_experiment_table(folder), to)
    if output is None:
        say(text.rstrip("\n"), lines=True)
        return
    with report_unwritten(f"output: {output}"):
        write_whole(output, text)
    say(f"the table: {output}", aside=True)
