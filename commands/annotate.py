"""Have people label posts as H-VLI was labelled, in Label Studio: `tribunal annotate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tribunal.commands import shared_options as shared
from tribunal.commands.command_group import Sectioned
from tribunal.commands.errors import report_write_errors
from tribunal.commands.options import with_settings
from tribunal.commands.printing import print_template
from tribunal.commands.run_options import EPILOG, end_run, print_warning, read_price_table, watch_run, with_posts
from tribunal.errors import BadInput
from tribunal.terminal import say_json

app = typer.Typer(
    no_args_is_help=True, help="Have people label posts in Label Studio, as for H-VLI, and make a data set."
)
_SHOWN = 20  # posts that are named; --json names all

Labelled = Annotated[
    list[Path],
    typer.Argument(metavar="EXPORT…", help="What Label Studio exported, as JSON or JSON-MIN; of both stages, if any."),
]
Tasks = Annotated[Path, typer.Option(metavar="DIR", help="The folder that annotate export wrote.")]


@with_settings
@with_posts
def export(
    data: Annotated[Path, typer.Argument(metavar="IN", help="A table of posts, or the files of a data set.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The annotation's folder, new or begun.")],
    dataset: Annotated[str, typer.Option(help="The data set (docs/datasets.md).")] = "table",
    balance: Annotated[
        str | None, typer.Option(metavar="FIELD,…", help="As tribunal eval has it: pattern, label, or a field.")
    ] = None,
    annotators: Annotated[int, typer.Option(min=1, help="How many people label each post.")] = 3,
    joint_only: Annotated[
        bool,
        typer.Option(
            "--joint-only",
            help="Ask people for the joint label alone, and show the model's other two, as in the paper.",
        ),
    ] = False,
    image_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Who is asked about images alone. Default: --model.")
    ] = None,
    no_priors: Annotated[bool, typer.Option("--no-priors", help="Ask no model, so that it leads nobody.")] = False,
    inline_images: Annotated[
        bool, typer.Option("--inline-images", help="Put images into the tasks, as data URIs.")
    ] = False,
    image_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The prefix of a copied image's name. Default: local files."),
    ] = None,
    in_flight: shared.InFlight = 16,
    retry: shared.Retry = None,
    prices: shared.PriceTable = None,
    as_json: shared.AsJson = False,
    *,
    settings: dict[str, Any],
    posts: dict[str, Any],
) -> None:
    """Ask a model about each post's text alone and image alone, and write tasks for Label Studio.

    The same command on the same folder goes on where it stopped.
    """
    from tribunal.eval.annotation.exporting import AnnotationRequest, export_tasks
    from tribunal.eval.runs.tally import describe_progress
    from tribunal.exports.label_studio import LOCAL_FILES

    if inline_images and image_prefix is not None:
        raise BadInput("image_prefix: stands before the name of a copy; leave --inline-images out, or it")
    if no_priors and (joint_only or image_model):
        raise BadInput(
            f"no_priors: {'joint_only' if joint_only else 'image_model'} needs a model; leave one of the two out"
        )
    wanted = AnnotationRequest(
        data=data,
        dataset=dataset,
        balance=balance,
        **posts,
        settings=settings,
        image_model=image_model,
        priors=not no_priors,
        annotators=annotators,
        joint_only=joint_only,
        inline=inline_images,
        prefix=LOCAL_FILES if image_prefix is None else image_prefix,
    )
    with watch_run(read_price_table(prices), quiet=as_json, in_flight=in_flight, retry=retry) as options:
        done = export_tasks(wanted, out, options)
    tallies = done.tallies.values()
    if as_json:
        say_json(
            {
                "out": str(out),
                "tasks": done.tasks,
                "priors": {side: dict(counted) for side, counted in done.priors.items()},
                "calls": sum(each.calls for each in tallies),
                "tokens": sum(each.tokens for each in tallies),
                "images_lost": done.images_lost,
                "images_on_the_web": done.images_on_the_web,
                "stopped": done.stopped or None,
            }
        )
    else:
        if done.images_lost:
            print_warning(f"{done.images_lost:,} posts are without their image, which can't be read")
        if done.images_on_the_web:
            where = "are on the web: annotators' browsers fetch them from there"
            print_warning(f"{done.images_on_the_web:,} images {where}")
        priced = options.prices is not None
        progress = {side: describe_progress(tally, priced=priced) for side, tally in done.tallies.items()}
        print_template("annotate_export", done=done, progress=progress, annotators=annotators, out=out)
    end_run(*tallies)


app.command("export", cls=Sectioned, epilog=EPILOG)(export)


@app.command("again")
def write_second_stage(
    exports: Labelled,
    tasks: Tasks,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder for the tasks of the second stage.")],
    as_json: shared.AsJson = False,
) -> None:
    """Write tasks for the posts that a further person should look at, with what the first annotators chose."""
    from tribunal.eval.annotation.importing import import_labels, write_second_stage

    taken = import_labels(exports, tasks)
    with report_write_errors(out):
        count = write_second_stage(taken, out)
    if as_json:
        say_json({"out": str(out), "tasks": count, "posts": [each.post.id for each in taken.posts_to_review]})
    else:
        print_template("annotate_export", done={"tasks": count, "stopped": ""}, progress={}, annotators=None, out=out)


@app.command("import")
def import_annotations(
    exports: Labelled,
    tasks: Tasks,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The data set: .jsonl, .csv or .parquet. Left out: none is written."),
    ] = None,
    keep: Annotated[
        str,
        typer.Option(metavar="LEVEL,…", help="The levels of consensus that are kept; the paper's are the first three."),
    ] = "perfect,strong,weak,adjudicated",
    misaligned: Annotated[
        bool, typer.Option("--misaligned", help="Keep posts that people gave another label than they came with.")
    ] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Import what annotators chose: consensus, agreement, gold labels, patterns, and the data set."""
    from tribunal.commands.review import export_format
    from tribunal.eval.annotation.consensus import LACKS
    from tribunal.eval.annotation.importing import import_labels, summarize_labels, write_dataset

    form = None if out is None else export_format(None, out)
    levels = [each.strip() for each in keep.split(",") if each.strip()]
    taken = import_labels(exports, tasks, levels=levels, by_intent=not misaligned)
    summary = summarize_labels(taken)
    if out is not None and form is not None:
        with report_write_errors(out):
            summary["images_lost"] = write_dataset(taken, out, form)
        summary["out"] = str(out)
    if as_json:
        say_json(summary)
        return
    print_template("annotate_import", labels=summary)
    print_template("annotate_notes", aside=True, labels=summary, lacks=LACKS, most=_SHOWN)
    if out is not None and summary["images_lost"]:
        print_warning(f"{summary['images_lost']:,} posts are without their image, which is gone")
