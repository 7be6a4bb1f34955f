"""Have people label posts as H-VLI was labelled, in Label Studio: `tribunal annotate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from tribunal.commands import shared_options as shared
from tribunal.commands.command_group import Sectioned
from tribunal.commands.printing import print_template, report_write_errors
from tribunal.commands.run_options import EPILOG, print_warning, with_posts
from tribunal.commands.shared_options import policy_names
from tribunal.errors import BadInput
from tribunal.process.terminal import say_json
from tribunal.settings.names import Scheme

app = Typer(
    no_args_is_help=True,
    help="Have people label posts in Label Studio, as for H-VLI, and make a data set.",
)
_SHOWN = 20  # posts that are named; --json names all

Labelled = Annotated[
    list[Path],
    Argument(
        metavar="EXPORT…",
        help="What Label Studio exported, as JSON or JSON-MIN; of both stages, if any.",
    ),
]
Tasks = Annotated[Path, Option(metavar="DIR", help="The folder that annotate export wrote.")]


@with_posts
def export(
    data: Annotated[
        Path, Argument(metavar="IN", help="A table of posts, or the files of a data set.")
    ],
    out: Annotated[Path, Option(metavar="DIR", help="The annotation's folder, new or begun.")],
    dataset: Annotated[str, Option(help="The data set (docs/datasets.md).")] = "table",
    balance: Annotated[
        str | None,
        Option(metavar="FIELD,…", help="As tribunal eval has it: pattern, label, or a field."),
    ] = None,
    encoding: shared.Encoding = None,
    annotators: Annotated[int, Option(min=1, help="How many people label each post.")] = 3,
    policy: Annotated[
        str,
        Option(
            metavar="NAME",
            help="The policy of the categories, or a TOML file.",
            autocompletion=policy_names,
        ),
    ] = "h-vli",
    scheme: Annotated[Scheme, Option(help="Label by category, or only hate or not.")] = "fine",
    inline_images: Annotated[
        bool, Option("--inline-images", help="Put images into the tasks, as data URIs.")
    ] = False,
    image_prefix: Annotated[
        str | None,
        Option(metavar="TEXT", help="The prefix of a copied image's name. Default: local files."),
    ] = None,
    as_json: shared.AsJson = False,
    *,
    posts: dict[str, Any],
) -> None:
    """Write the posts as tasks for Label Studio: people label text, image, and both together."""
    from tribunal.eval.annotation.exchange import AnnotationRequest, export_tasks
    from tribunal.review.label_studio import LOCAL_FILES

    if inline_images and image_prefix is not None:
        raise BadInput(
            "--image-prefix is for copied images; leave it out, or leave out --inline-images"
        )
    if encoding:
        posts["columns"]["encoding"] = encoding
    wanted = AnnotationRequest(
        data=data,
        dataset=dataset,
        balance=balance,
        **posts,
        settings={"policy": policy, "scheme": scheme},
        annotators=annotators,
        inline=inline_images,
        prefix=LOCAL_FILES if image_prefix is None else image_prefix,
    )
    done = export_tasks(wanted, out)
    for warning in done.warnings:
        print_warning(warning)
    if as_json:
        say_json(
            {
                "out": str(out),
                "tasks": done.tasks,
                "images_lost": done.images_lost,
                "images_on_the_web": done.images_on_the_web,
            }
        )
        return
    if done.images_lost:
        print_warning(f"{done.images_lost:,} posts are without their image, which can't be read")
    if done.images_on_the_web:
        print_warning(
            f"{done.images_on_the_web:,} images are on the web: annotators' browsers fetch them from there"
        )
    print_template("annotate_export", tasks=done.tasks, annotators=annotators, out=out)


app.command("export", cls=Sectioned, epilog=EPILOG)(export)


@app.command("again")
def write_second_stage(
    exports: Labelled,
    tasks: Tasks,
    out: Annotated[Path, Option(metavar="DIR", help="A folder for the tasks of the second stage.")],
    as_json: shared.AsJson = False,
) -> None:
    """Write tasks for the posts that a further person should look at, with what the first annotators chose."""
    from tribunal.eval.annotation.exchange import import_labels, write_second_stage

    taken = import_labels(exports, tasks)
    with report_write_errors(out):
        count = write_second_stage(taken, out)
    if as_json:
        say_json(
            {
                "out": str(out),
                "tasks": count,
                "posts": [each.post.id for each in taken.posts_to_review],
            }
        )
    else:
        print_template("annotate_export", tasks=count, annotators=None, out=out)


@app.command("import")
def import_annotations(
    exports: Labelled,
    tasks: Tasks,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The data set: .jsonl, .csv or .parquet. Left out: none is written.",
        ),
    ] = None,
    keep: Annotated[
        str,
        Option(
            metavar="LEVEL,…",
            help="The levels of consensus that are kept; the paper's are the first three.",
        ),
    ] = "perfect,strong,weak,adjudicated",
    misaligned: Annotated[
        bool,
        Option(
            "--misaligned", help="Keep posts that people gave another label than they came with."
        ),
    ] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Import what annotators chose: consensus, agreement, gold labels, patterns, and the data set."""
    from tribunal.commands.review import export_format
    from tribunal.eval.annotation.consensus import LACKS
    from tribunal.eval.annotation.exchange import import_labels, summarize_labels, write_dataset

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
