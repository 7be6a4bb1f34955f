"""`tribunal perspectives`: build, list, show and search the labelled texts that perspectives look up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.errors import ending_well

if TYPE_CHECKING:
    from rich.console import Console

    from tribunal.retrievers.perspectives.building import Progress
    from tribunal.retrievers.perspectives.manifest import Manifest

app = typer.Typer(
    no_args_is_help=True,
    help="Perspectives: labelling criteria, and the labelled texts that PREDICT's agents look up by them.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A perspective's name, TOML file, or index folder.")]


@app.command()
def build(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A perspective's name, or its TOML file.")],
    data: Annotated[Path, typer.Option(help="The folder that holds the files of its set.")],
    embedding: Annotated[
        str, typer.Option(help="hashing (offline), or provider:model, such as openai:text-embedding-3-small.")
    ] = "hashing",
    out: Annotated[
        Path | None, typer.Option(help="The folder for the index's own folder; left out: the data folder's.")
    ] = None,
) -> None:
    """Build a perspective's index from the files of its set. A build that was stopped goes on where it was."""
    from tribunal.retrievers.perspectives.building import build as build_index
    from tribunal.retrievers.perspectives.perspective import find, user_folder

    with ending_well():
        perspective = find(spec)
        folder = (out or user_folder()) / perspective.name
        with _progress(perspective.name) as progress:
            manifest = asyncio.run(build_index(perspective, data, embedding=embedding, out=out, progress=progress))
    console = _console()
    console.print(f"{perspective.name}: {_counts(manifest)}", highlight=False, markup=False)
    console.print(_how(manifest), highlight=False, markup=False)
    console.print(str(folder), highlight=False, markup=False, soft_wrap=True)


@app.command("list")
def list_() -> None:
    """List the perspectives there are, and which of them can be used."""
    from rich.table import Table

    from tribunal.retrievers.perspectives.manifest import read_manifest
    from tribunal.retrievers.perspectives.perspective import SHIPPED, available, load, user_folder

    table = Table("name", "language", "labels", "texts", "embedding", "from", box=None, pad_edge=False)
    with ending_well():
        held = available()
        elsewhere = {path.parent.name for path in user_folder().glob("*/manifest.json")} - set(held)
        for name in (*held, *sorted(elsewhere)):
            folder = user_folder() / name
            built = read_manifest(folder) if (folder / "manifest.json").exists() else None
            perspective = load(held[name]) if name in held else read_manifest(folder).perspective
            labels = f"{perspective.labels.hate} / {perspective.labels.not_hate}"
            origin = "its index" if name not in held else "shipped" if held[name].parent == SHIPPED else "yours"
            if perspective.texts:
                texts, embedding = f"{len(perspective.texts.hate) + len(perspective.texts.not_hate)}", "in memory"
            else:
                texts, embedding = (f"{built.rows:,}", built.embedding) if built else ("not built", "-")
            table.add_row(name, perspective.language, labels, texts, embedding, origin)
    _console(wide=True).print(table, highlight=False, markup=False)


@app.command()
def show(name: Name) -> None:
    """Show a perspective's criterion and its index, after checking every file of the index against its hash."""
    from tribunal.retrievers.perspectives.opening import open_index, resolve

    console = _console()

    def line(field: str, value: object) -> None:
        console.print(f"{field + ':':<11} {value}", highlight=False, markup=False, soft_wrap=True)

    with ending_well():
        perspective, folder = resolve(name)
        line("name", perspective.name)
        if perspective.title:
            line("title", perspective.title)
        line("language", perspective.language)
        line("hate", perspective.labels.hate)
        line("not hate", perspective.labels.not_hate)
        console.print(f"\n{perspective.criterion.strip()}\n", highlight=False, markup=False, soft_wrap=True)
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
    console = _console()
    for example in examples:
        head = f"{example.similarity:.3f}  {example.label_name}  row {example.row}"
        console.print(head, highlight=False, markup=False)
        console.print(f"       {example.text}", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{name}: reading", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, description=f"{name}: embedding", completed=done, total=total)

        yield advance


def _console(*, wide: bool = False) -> Console:
    from rich.console import Console

    console = Console()
    # Where nobody watches, a table is not cut to a terminal's width.
    return console if console.is_terminal or not wide else Console(width=200)


def _counts(manifest: Manifest) -> str:
    labels = manifest.perspective.labels
    skipped = f"; {manifest.skipped:,} rows without a text left out" if manifest.skipped else ""
    counts = f"{manifest.hate:,} {labels.hate}, {manifest.not_hate:,} {labels.not_hate}"
    return f"{manifest.rows:,} texts ({counts}){skipped}"


def _how(manifest: Manifest) -> str:
    precision = "exact search" if manifest.index == "exact" else "all compared at half precision"
    return (
        f"{manifest.embedding}, {manifest.dimension} numbers a text, {precision}, recall@3 {manifest.recall_at_3:.3f}"
    )
