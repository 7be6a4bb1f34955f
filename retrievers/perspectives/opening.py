"""The stores of perspectives, by name: an index that was built, or texts that play from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.models.embeddings import TFIDF, Embedder, embedder
from tribunal.opened import opened
from tribunal.retrievers.perspectives.index import Index, mapped
from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.manifest import damaged, how_to_build, how_to_build_again, read_manifest
from tribunal.retrievers.perspectives.ngrams import fit_ngrams
from tribunal.retrievers.perspectives.perspective import (
    EXAMPLES,
    Perspective,
    available,
    find,
    is_path,
    spec_file,
    user_folder,
)
from tribunal.retrievers.perspectives.store import Store
from tribunal.retrievers.perspectives.vector_index import index_vectors


def names() -> list[str]:
    """The names of all perspectives that can be shown or built here: those with a file, and those that were built from
    one elsewhere and are known by their index alone. Reads files: call it off the event loop."""
    return [*(held := available()), *sorted(_built() - set(held))]


def every() -> list[str]:
    """The names of all perspectives that can be heard here: those with an index, and the user's own that play from
    memory; where there is none, the five small examples. Reads files: call it off the event loop."""
    return opened("every perspective", _every)


def _every() -> list[str]:
    own = {path.stem for path in user_folder().glob("*.toml") if find(path.stem).texts}
    return sorted(_built() | own) or list(EXAMPLES)


def _built() -> set[str]:
    return {path.parent.name for path in user_folder().glob("*/manifest.json")}


async def open_stores(names: Sequence[str] = (), *, embedding: str | None = None) -> list[Store]:
    """The stores of these perspectives; with none named, the five small examples, which play from memory.

    Each name is a perspective's, the path of its TOML file, or the path of an index folder. What was opened stays open.

    Args:
        names: which perspectives.
        embedding: the embedding asked for; None is each index's own (`tfidf` for an example).

    Raises:
        BadInput: a name is unknown, has no index (with the command that builds it), was built by another embedding or
            from another [source], or its files are damaged.
    """
    return list(await asyncio.gather(*(open_store(name, embedding=embedding) for name in names or EXAMPLES)))


async def open_store(name: str, *, embedding: str | None = None) -> Store:
    """One store, as `open_stores`."""
    found = await asyncio.to_thread(opened, ("perspective", name, embedding), lambda: _open(name, embedding))
    return found if isinstance(found, Store) else await in_memory(*found)


def _open(name: str, embedding: str | None) -> Store | tuple[Perspective, Embedder | None]:
    perspective, folder = resolve(name)
    if folder is None:
        return perspective, embedder(embedding or TFIDF)
    return open_index(folder, perspective, embedding=embedding)


def resolve(name: str) -> tuple[Perspective, Path | None]:
    """A perspective and the folder of its index, whether built or not; None for one that plays from memory."""
    if is_path(name) and not name.endswith(".toml"):
        folder = Path(name).expanduser()
        return read_manifest(folder).perspective, folder
    if not is_path(name) and spec_file(name) is None and (user_folder() / name / "manifest.json").exists():
        # It was built from a TOML file that lies elsewhere, and is known by its index alone.
        return read_manifest(user_folder() / name).perspective, user_folder() / name
    perspective = find(name)
    return perspective, None if perspective.texts else user_folder() / perspective.name


_in_memory: dict[tuple[Perspective, str], tuple[Index, Embedder]] = {}


async def in_memory(perspective: Perspective, model: Embedder | None = None) -> Store:
    """A store of the texts that lie in a perspective's own file; made once in a process.

    Args:
        perspective: holds them.
        model: makes their vectors; None is `tfidf`, which is fitted to them.

    Raises:
        BadInput: it has none, with the command that builds its index.
    """
    if perspective.texts is None:
        raise BadInput(f"perspective {perspective.name}: has no texts of its own; {how_to_build(perspective.name)}")
    held = perspective, model.name if model else TFIDF
    if held not in _in_memory:
        texts = [LabelledText(text, True) for text in perspective.texts.hate]
        texts += [LabelledText(text, False) for text in perspective.texts.not_hate]
        words = [each.text for each in texts]
        made_by: Embedder
        if model is not None:
            made_by = model
        else:
            made_by = await asyncio.to_thread(fit_ngrams, words)
        vectors = index_vectors(await made_by.embed(words, "passage"))
        _in_memory[held] = Index(vectors, texts.__getitem__), made_by
    index, made_by = _in_memory[held]
    return Store(perspective, model or made_by, index)


def open_index(folder: Path, perspective: Perspective | None = None, *, embedding: str | None = None) -> Store:
    """The index in this folder. Reads files, though none whole: call it off the event loop.

    Args:
        folder: holds `manifest.json`.
        perspective: as it is now; None is as it was when the index was built. Its criterion and label names may have
            changed since, its [source] may not.
        embedding: the embedding asked for; None is the index's own.

    Raises:
        BadInput: as `open_stores`.
    """
    manifest = read_manifest(folder, perspective)
    current = perspective or manifest.perspective
    if embedding is not None and embedding != manifest.embedding:
        raise BadInput(
            f"perspective {current.name}: its index was built with the embedding {manifest.embedding}, not "
            f"{embedding}; ask for {manifest.embedding}, or {how_to_build_again(current.name, embedding, replace=True)}"
        )
    if current.source != manifest.perspective.source:
        raise BadInput(
            f"perspective {current.name}: its [source] has changed since the index was built; "
            f"{how_to_build_again(current.name, manifest.embedding, replace=True)}"
        )
    index = mapped(folder.resolve(), (folder / "manifest.json").stat().st_mtime_ns, manifest)
    model = index.ngrams if manifest.embedding == TFIDF else embedder(manifest.embedding)
    if model is None:
        raise damaged(manifest, "lacks what tfidf was fitted to be")
    return Store(current, model, index, folder)
