"""`tribunal plan`: how many posts a comparison of two runs needs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson, Cluster
from tribunal.errors import BadInput
from tribunal.terminal import say_json


class PlannedMeasure(StrEnum):
    """A measure whose difference can be planned for."""

    ACCURACY = "accuracy"
    MACRO_F1 = "macro_f1"


def plan_posts(
    detect: Annotated[
        float, typer.Option(metavar="POINTS", help="The difference to detect, in percentage points, such as 2.0.")
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="A run to take accuracy and clusters from; of two over the same posts, also the share that one alone "
            "gets right.",
        ),
    ] = None,
    power: Annotated[float, typer.Option(help="The chance to find the difference if there is one.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="The chance to find one where there is none (two-sided).")] = 0.05,
    paired: Annotated[
        bool, typer.Option("--paired/--unpaired", help="Both runs decide the same posts, or each its own.")
    ] = True,
    measure: Annotated[
        PlannedMeasure, typer.Option(help="Of what the difference is; macro_f1 needs --run.")
    ] = PlannedMeasure.ACCURACY,
    accuracy: Annotated[
        float | None, typer.Option(metavar="SHARE", help="The lower accuracy of the two. Default: --run's, else 0.8.")
    ] = None,
    discordant: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The share of posts that one run alone gets right. Default: that of two runs given, else as of "
            "independent errors.",
        ),
    ] = None,
    cluster: Cluster = None,
    correlation: Annotated[
        float | None,
        typer.Option(metavar="ICC", help="The correlation within a cluster of posts. Default: --run's, else none."),
    ] = None,
    cluster_size: Annotated[
        float | None, typer.Option(metavar="POSTS", help="The posts of a cluster, with --correlation.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how many posts two runs need, so that a difference between them is found."""
    from tribunal.eval.measures.columns import read_columns
    from tribunal.eval.measures.power import ClusterDesign, PowerRequest, plan_posts

    for name, value, low, high in (
        ("detect", detect, 0, 100), ("power", power, 0, 1), ("alpha", alpha, 0, 1), ("accuracy", accuracy, 0, 1),
    ):  # fmt: skip
        if value is not None and not low < value < high:
            raise BadInput(f"{name}: {value:g}: give a number above {low} and below {high}")
    if power <= alpha:
        raise BadInput(f"power: {power:g}: is no more than alpha; give a chance above {alpha:g}, such as 0.8")
    for name, value, low in (("discordant", discordant, 0), ("correlation", correlation, 0)):
        if value is not None and not low <= value <= 1:
            raise BadInput(f"{name}: {value:g}: give a share from 0 to 1")
    if discordant is not None and not paired:
        raise BadInput(f"discordant: {discordant:g}: is of runs over the same posts; leave it out, or give --paired")
    if (correlation is None) != (cluster_size is None):
        given, other = ("correlation", "cluster-size") if cluster_size is None else ("cluster_size", "correlation")
        value = correlation if cluster_size is None else cluster_size
        raise BadInput(f"{given}: {value:g}: give --{other}, too")
    if cluster_size is not None and not 1 <= cluster_size < float("inf"):
        raise BadInput(f"cluster_size: {cluster_size:g}: give a number of posts from 1 on")
    if cluster is not None and not runs:
        raise BadInput(
            f"cluster: {cluster}: is a field of a run's posts; give --run, or --correlation and --cluster-size"
        )
    if len(runs or ()) > 2:
        raise BadInput(f"run: {len(runs or ())} were given; give one, or the two that are to be compared")
    design = None if correlation is None or cluster_size is None else ClusterDesign(correlation, cluster_size)
    planned = plan_posts(
        PowerRequest(detect / 100, power, alpha),
        [read_columns(folder) for folder in runs or ()],
        paired=paired,
        measure=measure.value,
        accuracy=accuracy,
        discordant=discordant,
        design=design,
        cluster=cluster,
    )
    if as_json:
        say_json(planned)
    else:
        print_template("plan", p=planned, points=f"{detect:g}")
