"""`tribunal explain`: a case, to look at: for an auditor, or for the person who posted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from tribunal.commands.printing import report_write_errors
from tribunal.commands.run_options import read_price_table
from tribunal.commands.shared_options import Database, PriceTable
from tribunal.errors import BadInput
from tribunal.process.terminal import as_json, say, say_json

if TYPE_CHECKING:
    from tribunal.explanations.case_view import AuthorLetter, CaseView
    from tribunal.explanations.view_maker import CaseAtHand

Format = Literal["html", "markdown", "json"]
# The settings of a case that its letter heeds too: the models that were asked, but none that only argue.
_CALL_SETTINGS = ("model", "timeout", "max_output_tokens", "attempts", "extra_body", "task")
_SUFFIXES: dict[str, Format] = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


def explain(
    case: Annotated[
        str,
        Argument(
            metavar="CASE",
            help="A kept case's id, a thread of tribunal review list, or a file of tribunal judge --json; - is "
            "standard input.",
        ),
    ],
    form: Annotated[
        Format | None,
        Option(
            "--format",
            help="html, markdown or json. Default: as --out ends; without --out, markdown.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write to this file, and print its name.")
    ] = None,
    told_to: Annotated[
        Literal["auditor", "poster"],
        Option(
            "--for",
            help="auditor: all of it. poster: a notice to the person who posted, about nobody else; a model writes "
            "what has no sentence in their language.",
        ),
    ] = "auditor",
    language: Annotated[
        str | None,
        Option(
            metavar="TAG", help="With --for poster: the language, such as ko. Default: the post's."
        ),
    ] = None,
    model: Annotated[
        str | None,
        Option(metavar="MODEL", help="With --for poster: who writes it, as provider:model."),
    ] = None,
    mapping: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --for poster: the measure and the redress, by category. See tribunal dsa statements --help.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        Option(metavar="TEXT", help="The words of the post, where the case doesn't hold them."),
    ] = None,
    image: Annotated[
        str | None,
        Option(metavar="FILE", help="The image of the post, where the case doesn't hold it."),
    ] = None,
    policy: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="The policy's file at that time, where the case doesn't hold it."
        ),
    ] = None,
    prices: PriceTable = None,
    database: Database = None,
) -> None:
    """Explain a case: the post with each cue's words marked, the debate step by step, the policy, who decided."""
    import asyncio

    form = (
        form
        or (_SUFFIXES.get(out.suffix.lower()) if out else None)
        or ("html" if out else "markdown")
    )
    for name, value in (("language", language), ("model", model), ("mapping", mapping)):
        if value and told_to == "auditor":
            raise BadInput(
                f"{name}: {value}: belongs to the letter to an author; give --for poster as well"
            )
    if prices and told_to == "poster":
        raise BadInput(f"prices: {prices}: a letter to the author has no costs; leave it out")

    async def draw() -> CaseView | AuthorLetter:
        from tribunal.explanations.author_letter import write_letter
        from tribunal.explanations.notices import read_mapping
        from tribunal.review.explain import view_with_image
        from tribunal.settings.context import context_from

        measures = read_mapping(mapping) if mapping else None
        at_hand = await _find_case(case, database)
        given = {
            name: value for name, value in (("text", text), ("image", image)) if value is not None
        }
        if given:
            at_hand = at_hand._replace(post={**(at_hand.post or {}), **given})
        if policy:
            at_hand = at_hand._replace(
                policy_text=_read_text(policy, "policy", "give its file as it was")
            )
        if told_to == "auditor":
            table = read_price_table(prices)
            return await view_with_image(at_hand, table.cost_of_call if table else None)
        settings = {
            name: value
            for name, value in (at_hand.settings or {}).items()
            if name in _CALL_SETTINGS
        }
        context = context_from({**settings, **({"model": model} if model else {})})
        return await write_letter(at_hand, language=language, context=context, mapping=measures)

    picture = asyncio.run(draw())
    for warning in picture.warnings if told_to == "poster" else ():
        say(f"note: {warning}", aside=True)
    write_picture(picture, form, out)


def check_output_file(out: Path) -> None:
    """Check, before anything is spent, that a file can be written.

    Raises:
        BadInput: it can't.
    """
    import os

    folder = next(each for each in out.absolute().parents if each.exists())
    if out.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput(f"explain: {out}: can't be written; name a file in a folder of yours")


def write_picture(
    picture: CaseView | AuthorLetter, form: Format, out: Path | None, *, aside: bool = False
) -> None:
    """Print a case or a letter, or write it into a file and print the file's name (`aside`: on standard error).

    Raises:
        BadInput: the file can't be written.
    """
    from tribunal.explanations.case_drawing import draw_markdown, draw_page
    from tribunal.process.files import write_whole

    if out is None and form == "json":
        say_json(picture.dump(), indent=1)
        return
    if form == "json":
        words = as_json(picture.dump(), indent=1) + "\n"
    else:
        words = draw_page(picture) if form == "html" else draw_markdown(picture)
    if out is None:
        say(words.rstrip("\n"), lines=True)
        return
    with report_write_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, words)
    say(str(out), aside=aside)


def format_of_file(out: Path) -> Format:
    """Return the format that a file's name asks for: HTML, where it asks for none."""
    return _SUFFIXES.get(out.suffix.lower(), "html")


def _read_text(file: Path, what: str, way_out: str) -> str:
    from tribunal.process.files import read_regular

    try:
        return read_regular(file.expanduser()).decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{what}: {file}: {why}; {way_out}") from error


async def _find_case(case: str, database: str | None) -> CaseAtHand:
    from tribunal.review import explain as explanations

    at_hand = None
    if case == "-":
        at_hand = explanations.case_from_json(sys.stdin.read(), "standard input")
    elif not explanations.is_case_id(case):
        way_out = "give a case's id, or a file with what tribunal judge --json printed"
        at_hand = explanations.case_from_json(_read_text(Path(case), "case", way_out), case)
    if at_hand is not None and (at_hand.post or not (at_hand.case or at_hand.record.thread)):
        return at_hand
    from tribunal.docket.docket import docket_here
    from tribunal.store.table_versions import database_problems

    store = (await docket_here(database)).store
    if at_hand is not None:
        with database_problems(store.address, f"case {case}"):
            return await explanations.add_kept_words(store, at_hand)
    with database_problems(store.address, f"case {case}"):
        found = await explanations.find_in_store(store, case)
    if found is None:
        raise BadInput(
            f"case: {case}: there is no such case in {store.address}; tribunal review list shows them"
        )
    return found
