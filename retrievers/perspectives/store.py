"""The stores of perspectives: an index that is built, or texts that play from memory, searched by cosine.

PREDICT's PRE phase (section 3.1) shows each perspective the three texts of its own set that are nearest to the post.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tribunal.core.text import equality_key, normalize_text
from tribunal.errors import BadInput, NotAtHand, TribunalError
from tribunal.models.embeddings import TFIDF, Embedder, Vectors, find_embedder
from tribunal.retrievers.indexes.manifest import MANIFEST, FileNote, IndexManifest, note_file
from tribunal.retrievers.indexes.ngrams import fit_ngrams
from tribunal.retrievers.indexes.text_index import (
    Progress,
    TextIndex,
    build_files,
    index_vectors,
    lock_build,
    map_index,
)
from tribunal.retrievers.perspectives.perspective import (
    EXAMPLES,
    LabelledText,
    Perspective,
    Searcher,
    find_perspective,
    find_source_files,
    is_path,
    list_spec_files,
    make_example,
    perspectives_folder,
    read_labelled_texts,
)
from tribunal.schema import Example, Stance
from tribunal.settings.contents import read_once

if TYPE_CHECKING:
    from tribunal.retrievers.perspectives.langchain import PerspectiveRetriever


class PerspectiveManifest(IndexManifest):
    """The sources of a perspective's index."""

    kind: ClassVar[str] = "perspective"
    noun: ClassVar[str] = "index"
    command: ClassVar[tuple[str, str]] = ("tribunal perspectives build", " --data DIR")

    format: Literal[4] = 4
    perspective: Perspective
    spec_sha256: str
    """of the perspective, criterion and label names included, as canonical JSON"""
    sources: tuple[FileNote, ...]
    source_sha256: str
    """of the hashes of the source files, in their order"""
    hate: int
    not_hate: int
    skipped: int
    """rows without a text"""

    @property
    def index_name(self) -> str:
        """Return the name of the perspective."""
        return self.perspective.name


class PerspectiveStore:
    """One perspective's texts, searched by cosine. Safe to search from many tasks and threads at once.

    Attributes:
        perspective: whose texts they are.
        embedder: the embedder of its index.
        index: the texts, and their vectors.
        folder: the index's folder; None in memory.
        manifest: its description; None in memory.
        embedding: the name of the embedding that its texts are compared by.
    """

    def __init__(
        self, perspective: Perspective, embedder: Embedder, index: TextIndex[LabelledText]
    ) -> None:
        """Make a store of an index."""
        self.perspective = perspective
        self.embedder = embedder
        self.index = index
        self.folder = index.folder
        self.embedding = embedder.name
        self.manifest = index.manifest if isinstance(index.manifest, PerspectiveManifest) else None

    @property
    def fingerprint(self) -> str:
        """Return a hash of all that a search may show: the texts, their labels and vectors, and the criterion."""
        return self.index.fingerprint(self.perspective.dump(), self.embedding)

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.index)

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """Return the k texts nearest to this one, nearest first, without those that are equal to it.

        Equal means: the same but for letter case, white space, character width, and signs at the ends. So a set can be
        evaluated over an index of itself. Fewer than k come back where the set has fewer; none for a blank text.

        Raises:
            CallFailed: the embedding endpoint gave no vector.
            BadInput: its vectors are not of the index's length, or the index is damaged.
        """
        if not normalize_text(text):
            return []
        return await self.search_by_vector((await self.embedder.embed([text], "query"))[0], text, k)

    async def search_by_vector(self, query: Vectors, text: str, k: int = 3) -> list[Example]:
        """Search as `search` does, for a text whose vector, (dimension,), is known."""
        if k < 1:
            raise BadInput(f"k: {k}: at least one example is asked for")
        own = equality_key(text)
        found = await asyncio.to_thread(
            self.index.find_nearest, query, k, lambda similarity, row: equality_key(row.text) != own
        )
        return [
            make_example(self.perspective, row.text, row.hate, near, number)
            for near, number, row in found
        ]

    def verify(self) -> None:
        """Compare every file of the index with its hash; raise `BadInput` if one is missing or differs."""
        self.index.verify()

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        """Return this store as a LangChain retriever."""
        from tribunal.retrievers.perspectives.langchain import PerspectiveRetriever

        return PerspectiveRetriever(searcher=self, k=k)


async def search_all(
    searchers: Sequence[Searcher], text: str, k: int = 3
) -> dict[str, list[Example] | TribunalError]:
    """Return every perspective's k examples for one text, by its name, searched at the same time.

    Stores that share an embedder embed the text once. A perspective that fails has its error in place of examples, so
    that it doesn't sink the others.
    """
    if not normalize_text(text):
        return {searcher.perspective.name: [] for searcher in searchers}
    models = {
        id(each.embedder): each.embedder for each in searchers if isinstance(each, PerspectiveStore)
    }
    vectors = {
        key: asyncio.create_task(model.embed([text], "query")) for key, model in models.items()
    }

    async def search_one(searcher: Searcher) -> list[Example] | TribunalError:
        try:
            if isinstance(searcher, PerspectiveStore):
                return await searcher.search_by_vector(
                    (await vectors[id(searcher.embedder)])[0], text, k
                )
            return await searcher.search(text, k)
        except TribunalError as error:
            return error

    try:
        found = await asyncio.gather(*map(search_one, searchers))
    finally:
        for task in vectors.values():
            task.cancel()
    return {
        searcher.perspective.name: each for searcher, each in zip(searchers, found, strict=True)
    }


def list_perspectives() -> list[str]:
    """Return the names of all perspectives that can be shown or built here.

    These are those with a file, and those that were built from one elsewhere and are known by their index alone. Reads
    files: call it off the event loop.
    """
    return [*(named := list_spec_files()), *sorted(_built_names() - set(named))]


def list_usable_perspectives() -> list[str]:
    """Return the names of all usable perspectives; if there is none, the five examples.

    These are those with an index, and the user's own that play from memory. Reads files: call it off the event loop.
    """

    def list_names() -> list[str]:
        own = {
            path.stem
            for path in perspectives_folder().glob("*.toml")
            if find_perspective(path.stem).texts
        }
        return sorted(_built_names() | own) or list(EXAMPLES)

    return read_once("every perspective", list_names)


def _built_names() -> set[str]:
    return {path.parent.name for path in perspectives_folder().glob(f"*/{MANIFEST}")}


async def open_stores(
    names: Sequence[str] = (), *, embedding: str | None = None
) -> list[PerspectiveStore]:
    """Open the stores of these perspectives; with none named, the five small examples, which play from memory.

    Each name is a perspective's, the path of its TOML file, or the path of an index folder. What was opened stays open.
    `embedding` is the one asked for; None is each index's own (`tfidf` for an example).

    Raises:
        BadInput: a name is unknown, was built by another embedding or from another [source], or its files are damaged.
        NotAtHand: some have no index; with the command that builds each of them.
    """
    wanted = names or EXAMPLES
    opened = await asyncio.gather(
        *(open_store(name, embedding=embedding) for name in wanted), return_exceptions=True
    )
    errors = {
        name: each
        for name, each in zip(wanted, opened, strict=True)
        if isinstance(each, BaseException)
    }
    for error in errors.values():
        if len(errors) == 1 or not isinstance(error, NotAtHand):
            raise error
    if errors:
        commands = "; ".join(PerspectiveManifest.build_command(name) for name in errors)
        raise NotAtHand(
            f"perspectives: {', '.join(errors)}: have no index; build each from its own set with: {commands}"
        )
    return [each for each in opened if isinstance(each, PerspectiveStore)]


async def open_store(name: str, *, embedding: str | None = None) -> PerspectiveStore:
    """Open one store, as `open_stores` does."""

    def open_by_name() -> PerspectiveStore | tuple[Perspective, Embedder | None]:
        perspective, folder = resolve_perspective(name)
        if folder is None:
            return perspective, find_embedder(embedding or TFIDF)
        return open_index(folder, perspective, embedding=embedding)

    found = await asyncio.to_thread(read_once, ("perspective", name, embedding), open_by_name)
    return found if isinstance(found, PerspectiveStore) else await open_in_memory(*found)


def resolve_perspective(name: str) -> tuple[Perspective, Path | None]:
    """Return a perspective and the folder of its index, built or not; None for one that plays from memory."""
    if is_path(name) and not name.endswith(".toml"):
        folder = Path(name).expanduser()
        return PerspectiveManifest.read(folder).perspective, folder
    folder = perspectives_folder() / name
    if not is_path(name) and name not in list_spec_files() and (folder / MANIFEST).exists():
        # It was built from a TOML file that lies elsewhere, and is known by its index alone.
        return PerspectiveManifest.read(folder).perspective, folder
    perspective = find_perspective(name)
    return perspective, None if perspective.texts else perspectives_folder() / perspective.name


_in_memory: dict[tuple[Perspective, str], tuple[TextIndex[LabelledText], Embedder]] = {}


async def open_in_memory(
    perspective: Perspective, model: Embedder | None = None
) -> PerspectiveStore:
    """Open a store of the texts that lie in a perspective's own file; it is made once in a process.

    The model makes their vectors; None is `tfidf`, which is fitted to them.

    Raises:
        BadInput: it has none, with the command that builds its index.
    """
    if perspective.texts is None:
        command = PerspectiveManifest.build_command(perspective.name)
        raise BadInput(
            f"perspective {perspective.name}: has no texts of its own; build it with: {command}"
        )
    key = perspective, model.name if model else TFIDF
    if key not in _in_memory:
        rows = [LabelledText(text, True) for text in perspective.texts.hate]
        rows += [LabelledText(text, False) for text in perspective.texts.not_hate]
        texts = [row.text for row in rows]
        fitted: Embedder = await asyncio.to_thread(fit_ngrams, texts) if model is None else model
        vectors = index_vectors(await fitted.embed(texts, "passage"))
        _in_memory[key] = TextIndex(vectors, rows.__getitem__), fitted
    index, embedder = _in_memory[key]
    return PerspectiveStore(perspective, model or embedder, index)


def open_index(
    folder: Path, perspective: Perspective | None = None, *, embedding: str | None = None
) -> PerspectiveStore:
    """Open the index in this folder. Reads files, though none whole: call it off the event loop.

    `perspective` is as it is now; its criterion and label names may have changed since the index was built, its
    [source] may not. None is as it was then. `embedding` is the one asked for; None is the index's own.

    Raises:
        BadInput: as `open_stores`.
    """
    source = perspective.source if perspective else None
    hint = f"; the set is obtained from {source.obtain}" if source else ""
    manifest = PerspectiveManifest.read(
        folder, perspective.name if perspective else None, hint=hint
    )
    current = perspective or manifest.perspective
    if embedding is not None and embedding != manifest.embedding:
        raise BadInput(
            f"perspective {current.name}: its index was built with the embedding {manifest.embedding}, not "
            f"{embedding}; ask for {manifest.embedding}, or build it again with: "
            f"{manifest.build_command(current.name, embedding, replace=True)}"
        )
    if current.source != manifest.perspective.source:
        raise BadInput(
            f"perspective {current.name}: its [source] has changed since the index was built; build it again with: "
            f"{manifest.build_command(current.name, manifest.embedding, replace=True)}"
        )
    index = map_index(folder, manifest, _parse_labelled_text)
    return PerspectiveStore(current, index.load_embedder(), index)


def _parse_labelled_text(line: Any) -> LabelledText:
    text, hate, categories = line
    return LabelledText(text, hate, tuple(categories))


async def build_index(
    perspective: Perspective,
    data: Path,
    *,
    embedding: str | Embedder = TFIDF,
    out: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> PerspectiveManifest:
    """Build the index of a perspective from the files in `data`, or go on with a build that was stopped.

    Args:
        perspective: with a [source].
        data: the folder that holds its files.
        embedding: the name of an embedding, or an embedder.
        out: the folder in which the index's own folder lies; None is the user's (`perspectives_folder`).
        replace: overwrite an index of the same name that was built from other files, by another rule or by another
            embedding. The same index is built again without it.
        progress: is given (rows done, rows in all) before the first batch and after each.

    Raises:
        BadInput: a file or column is missing, a value is unknown, one label has no rows, another process is building
            this index, or another index lies where it is to lie.
        CallFailed: the embedding endpoint failed; what was embedded so far is kept for the next try.
    """
    model = (
        await asyncio.to_thread(find_embedder, embedding)
        if isinstance(embedding, str)
        else embedding
    )
    folder = (out or perspectives_folder()) / perspective.name
    sources, texts = await asyncio.to_thread(_read_sources, perspective, data)
    source_sha256 = _hash_text("\n".join(note.sha256 for note in sources))

    def check_folder() -> None:
        if not replace:
            _refuse_to_overwrite(folder, perspective, source_sha256, model.name if model else TFIDF)

    await asyncio.to_thread(check_folder)
    with lock_build(f"perspective {perspective.name}", folder, resumable=True):
        # again, since a build that ended meanwhile may have put one there
        await asyncio.to_thread(check_folder)
        rows = [row for row in texts if row.text]
        files = await build_files(folder, [row.text for row in rows], rows, model, progress)
        hate = sum(row.hate for row in rows)
        manifest = PerspectiveManifest(
            perspective=perspective,
            spec_sha256=_hash_text(perspective.model_dump_json()),
            sources=sources,
            source_sha256=source_sha256,
            hate=hate,
            not_hate=len(rows) - hate,
            skipped=len(texts) - len(rows),
            **files,
        )
        await asyncio.to_thread(manifest.write, folder)
        return manifest


def _read_sources(
    perspective: Perspective, data: Path
) -> tuple[tuple[FileNote, ...], Sequence[LabelledText]]:
    files = find_source_files(perspective, data)
    texts = list(read_labelled_texts(perspective, files))
    hate = [row.hate for row in texts if row.text]
    labels: dict[Stance, bool] = {"hate": any(hate), "not_hate": not all(hate)}
    for label, is_there in labels.items():
        if not is_there:
            raise BadInput(
                f"perspective {perspective.name}: none of the {len(hate):,} rows of "
                f"{', '.join(file.name for file in files)} is {perspective.label_name(label)!r} ({label}); check "
                "source.label"
            )
    return tuple(map(note_file, files)), texts


def _refuse_to_overwrite(
    folder: Path, perspective: Perspective, source_sha256: str, embedding: str
) -> None:
    """Raise `BadInput` if this folder has another index."""
    way_out = "give --replace to overwrite it, or --out for another folder"
    owner = f"perspective {perspective.name}: {folder}"
    if not (folder / MANIFEST).exists():
        return
    try:
        there = PerspectiveManifest.read(folder, perspective.name)
    except BadInput as error:
        raise BadInput(
            f"{owner}: holds an index that this version can't read; {way_out}"
        ) from error
    built_from = (
        there.perspective.name,
        there.perspective.source,
        there.source_sha256,
        there.embedding,
    )
    if built_from != (perspective.name, perspective.source, source_sha256, embedding):
        files = ", ".join(f"{note.name} (sha256 {note.sha256[:12]})" for note in there.sources)
        raise BadInput(
            f"{owner}: holds another index: {there.rows:,} texts of {files}, by {there.embedding}, built "
            f"{there.built}; {way_out}"
        )


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
