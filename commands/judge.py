"""`tribunal judge`: one post to its verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.errors import STATUS, ending_well
from tribunal.commands.explain import check_out, form_of, written
from tribunal.commands.keeping import Keep, KeepIn, KeepText, told, wanted_by
from tribunal.commands.options import Graph, with_settings
from tribunal.terminal import say_json

if TYPE_CHECKING:
    from tribunal.kept.wanted import Wanted
    from tribunal.schema import Record

EPILOG = """\b
Exit status: 0 a verdict, 2 wrong usage or input, 3 the model refused, 4 a technical failure, 5 a person has to decide
(tribunal review)."""


@with_settings
def judge(
    text: Annotated[
        str | None, typer.Argument(help="The text of the post; without it, or as -, it is read from standard input.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="The image of the post: a path, a URL, a data URI, or - for standard input.")
    ] = None,
    graph: Graph = "tribunal",
    post_id: Annotated[str | None, typer.Option("--id", help="What to call the post in the record.")] = None,
    earlier: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="An earlier post of the conversation; once for each, the oldest first."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    trace: Annotated[bool, typer.Option(help="Show every prompt and raw answer, on standard error.")] = False,
    explain: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what led to the outcome as a page to look at (.html, .md or .json)."),
    ] = None,
    keep: Keep = None,
    keep_text: KeepText = None,
    database: KeepIn = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Decide whether a post is hate speech, and show why."""
    from tribunal.errors import BadInput

    with ending_well():
        words, picture = _post(text, image)
        if trace:
            if "trace" in settings:
                raise BadInput("trace: is given by --trace and by --set; give it once")
            settings["trace"] = True
        kept = wanted_by("command", keep, keep_text, database, review=bool(settings.get("review")))
        if explain:
            check_out(explain)
        record = _run(words, picture, graph, settings, post_id, earlier or [], as_json, kept)
        if explain:
            _explain(record, words, picture, earlier or [], explain)
    raise typer.Exit(STATUS[record.outcome])


def _explain(record: Record, text: str | None, image: str | None, earlier: list[str], out: Path) -> None:
    """Write the case as a page, and say its name on standard error: standard output may be the record alone."""
    import asyncio
    from datetime import UTC, datetime

    from tribunal.explained.finding import AtHand, explained

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    given = {"text": text or "", "image": image, "earlier": earlier}
    found = AtHand(record, given, decided_at=now, case=record.thread or record.kept)
    written(asyncio.run(explained(found)), form_of(out), out, aside=True)


def _run(
    text: str | None,
    image: str | None,
    graph: str,
    settings: dict[str, Any],
    post_id: str | None,
    earlier: list[str],
    as_json: bool,
    kept: Wanted | None,
) -> Record:
    import asyncio

    from tribunal.cases.session import hear
    from tribunal.commands.show import Courtroom
    from tribunal.context import context_from
    from tribunal.graphs import load_seats

    load_seats(graph, settings)
    context = context_from(settings)
    room = Courtroom(quiet=as_json, trace=context.trace, post=text)
    with room:
        record = asyncio.run(
            hear(
                text,
                image,
                graph=graph,
                context=context,
                post_id=post_id,
                earlier=earlier,
                listen=room.listen,
                keep=kept,
            )
        )
    if as_json:
        say_json(record.dump())
    else:
        room.close(record)
        told(record)
    return record


def _post(text: str | None, image: str | None) -> tuple[str | None, str | None]:
    """The text, and a reference to the image, with standard input read where it stands for one of them."""
    from tribunal.errors import BadInput
    from tribunal.models.image import keep, keep_bytes

    if image == "-":
        if text == "-":
            raise BadInput("image: -: standard input can't be the text as well; give one of them another way")
        return text, keep_bytes(sys.stdin.buffer.read(), "standard input")
    if image is not None and image.startswith("data:"):
        image = keep(image)
    if text == "-" or (text is None and image is None and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"text: standard input is not UTF-8: {error}; convert it") from error
    return text, image
