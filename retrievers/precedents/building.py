"""Build or update a store of precedents. Texts that it has are not embedded again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.models.embeddings import TFIDF, Embedder, Vectors, find_embedder
from tribunal.retrievers.indexes.manifest import MANIFEST
from tribunal.retrievers.indexes.text_index import build_files, lock_build
from tribunal.retrievers.precedents.store import (
    DECISION_KINDS,
    MOST_CASES,
    CaseSource,
    DecidedCase,
    PrecedentManifest,
    PrecedentStore,
    list_stores,
    precedents_folder,
    read_store,
    store_folder,
)


class StoreBuild(NamedTuple):
    """A store as it is now, and what became of its cases: how many were added, and how many left it."""

    manifest: PrecedentManifest
    folder: Path
    added: int
    removed: int


async def build_store(
    name: str,
    cases: Iterable[DecidedCase],
    sources: Sequence[CaseSource],
    *,
    left_out: int = 0,
    embedding: str | Embedder | None = None,
    out: Path | None = None,
    replace: bool = False,
) -> StoreBuild:
    """Build a store of these cases, or bring it up to date: it then holds these cases and no others.

    Args:
        name: the store's.
        cases: every decided case of the sources. Of several with the same words and the same decision under the same
            policy, the latest stands for all.
        sources: where they were taken from.
        left_out: how many decided cases gave none.
        embedding: by which posts are compared; None is that of the store which lies there, else `tfidf`.
        out: the folder in which the store's own folder lies; None is the data folder's.
        replace: overwrite a store of other sources, of another embedding, or one that can't be read.

    Raises:
        BadInput: the name can't be one, another process is building this store, or another one lies there.
        CallFailed: the embedding endpoint failed.
    """
    folder = store_folder(name) if out is None else out / store_folder(name).name
    ordered = sorted(cases, key=lambda case: (case.at, case.case))
    latest = {(each.words, each.category, each.policy_sha): each for each in ordered}
    rows = sorted(latest.values(), key=lambda case: (case.at, case.case))
    if len(rows) > MOST_CASES:
        raise BadInput(
            f"precedents {name}: {len(rows):,} cases: over the {MOST_CASES:,} that a store takes"
        )
    about = {
        "name": name,
        "sources": tuple(sources),
        "copies": len(ordered) - len(rows),
        "left_out": left_out,
    }
    with lock_build(f"precedents {name}", folder, resumable=False):
        previous = await asyncio.to_thread(_read_previous, folder, replace)
        if embedding is None:
            embedding = TFIDF if previous is None else previous.manifest.embedding
        model = find_embedder(embedding) if isinstance(embedding, str) else embedding
        if previous is not None and not replace:
            _refuse_to_overwrite(previous.manifest, model.name if model else TFIDF, sources, folder)
        # What a model behind a name has become may be why a store is replaced, so none of its vectors is taken then.
        return await _write_store(folder, rows, about, None if replace else previous, model)


async def forget_cases(
    case_ids: Collection[str] = (), post_ids: Collection[str] = ()
) -> dict[str, int]:
    """Take cases, by their ids or those of their posts, out of every store of the data folder.

    Nothing is embedded, and no source is read. A store that can't be read doesn't keep the others from it.

    Returns:
        By the name of each store that held one: how many left it.

    Raises:
        BadInput: a store is damaged, or another process is building it; build it anew then, from what is left.
    """
    cases = set(case_ids)
    posts = set(post_ids) - {""}
    removed: dict[str, int] = {}
    faults: list[BadInput] = []
    for name in list_stores():
        folder = precedents_folder() / name
        try:
            with lock_build(f"precedents {name}", folder, resumable=False):
                previous = await asyncio.to_thread(_read_previous, folder, False)
                if previous is None:
                    continue
                held = await asyncio.to_thread(list, previous)
                rows = [
                    each for each in held if each.case not in cases and each.post_id not in posts
                ]
                number = len(previous) - len(rows)
                if number:
                    about = previous.manifest.model_dump(
                        include={"name", "copies", "left_out", "sources"}
                    )
                    embedder = (
                        None
                        if previous.index.ngrams
                        else _KnownVectors(previous.manifest.embedding)
                    )
                    await _write_store(folder, rows, about, previous, embedder)
                    removed[name] = number
        except BadInput as error:
            faults.append(error)
    if faults:
        raise faults[0]
    return removed


class _KnownVectors:
    """Replaces the embedding of a store that has all vectors."""

    dimension: int | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    async def embed(self, texts: Sequence[str], use: str) -> Vectors:
        raise BadInput("precedents: a text of the store has no vector; build the store again")


def list_case_ids() -> set[str]:
    """Return the ids of all cases in those stores of the data folder that can be read. Blocks."""
    found: set[str] = set()
    for name in list_stores():
        with suppress(BadInput):
            store = _read_previous(precedents_folder() / name, False)
            found |= {each.case for each in store or ()}
    return found


def _read_previous(folder: Path, replace: bool) -> PrecedentStore | None:
    """Return a folder's store; None if there is none, or only an unreadable one to replace."""
    if not (folder / MANIFEST).exists():
        return None
    try:
        return read_store(folder)
    except BadInput:
        if replace:
            return None
        raise


def _refuse_to_overwrite(
    there: PrecedentManifest, embedding: str, sources: Sequence[CaseSource], folder: Path
) -> None:
    """Raise `BadInput` if the store there has other sources or another embedding."""
    same = {(each.kind, each.name) for each in there.sources} == {
        (each.kind, each.name) for each in sources
    }
    if same and there.embedding == embedding:
        return
    raise BadInput(
        f"precedents {there.name}: {folder}: holds another store: {there.rows:,} cases of "
        f"{', '.join(map(str, there.sources)) or 'nothing'}, by {there.embedding}; give --replace to overwrite it, or "
        "another name"
    )


async def _write_store(
    folder: Path,
    cases: list[DecidedCase],
    about: dict[str, object],
    previous: PrecedentStore | None,
    model: Embedder | None,
) -> StoreBuild:
    """Write a store of these cases; `about` has the fields of its manifest that no case tells."""
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    held = await asyncio.to_thread(list, previous or ())
    before = {json.dumps(case, ensure_ascii=False) for case in held}
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    old = None if previous is None else previous.manifest
    if old and old.content_sha256 == digest and all(
        getattr(old, field) == about[field] for field in ("name", "copies", "left_out")
    ):  # fmt: skip
        return StoreBuild(old, folder, 0, 0)
    # Vectors of `tfidf` are fitted to all texts of a store.
    reusable = previous if previous is not None and model else None
    numbers = {case.text: number for number, case in enumerate(held)}

    def known_vector(text: str) -> Vectors | None:
        return (
            reusable.index.vectors.reconstruct(numbers[text])
            if reusable and text in numbers
            else None
        )

    files = await build_files(
        folder, [case.text for case in cases], cases, model, known_vector=known_vector
    )
    dates = [case.at for case in cases if case.at]
    decided = Counter(case.how for case in cases)
    manifest = PrecedentManifest.model_validate(
        {
            **about,
            **files,
            "decided": {how: decided[how] for how in DECISION_KINDS},
            "policies": dict(Counter(case.policy_sha for case in cases).most_common(10_000)),
            "first": min(dates, default=""),
            "last": max(dates, default=""),
            "content_sha256": digest,
        }
    )
    await asyncio.to_thread(manifest.write, folder)
    return StoreBuild(manifest, folder, len(set(lines) - before), len(before - set(lines)))
