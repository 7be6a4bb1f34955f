"""`tribunal judge`: one post to its verdict."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tribunal.commands.errors import STATUS, ending_well
from tribunal.commands.options import Graph, with_settings
from tribunal.terminal import say_json

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
        outcome = _run(words, picture, graph, settings, post_id, earlier or [], as_json)
    raise typer.Exit(STATUS[outcome])


def _run(
    text: str | None,
    image: str | None,
    graph: str,
    settings: dict[str, Any],
    post_id: str | None,
    earlier: list[str],
    as_json: bool,
) -> str:
    import asyncio

    from tribunal.cases.session import hear
    from tribunal.commands.show import Courtroom
    from tribunal.context import context_from

    context = context_from(settings)
    room = Courtroom(quiet=as_json, trace=context.trace, post=text)
    with room:
        record = asyncio.run(
            hear(text, image, graph=graph, context=context, post_id=post_id, earlier=earlier, listen=room.listen)
        )
    if as_json:
        say_json(record.dump())
    else:
        room.close(record)
    return record.outcome


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
