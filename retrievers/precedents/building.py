"""Building a store of precedents, or bringing one up to date: what it holds already is not embedded again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.files import Taken, alone
from tribunal.models.embeddings import TFIDF, Embedder, embedder
from tribunal.retrievers.perspectives.held_files import remove_others, settled
from tribunal.retrievers.perspectives.ngrams import fit_ngrams, write_ngrams
from tribunal.retrievers.perspectives.vector_index import VectorIndex, write_vectors
from tribunal.retrievers.precedents.cases_file import open_cases, read_cases, write_cases
from tribunal.retrievers.precedents.decided import HOW, DecidedCase
from tribunal.retrievers.precedents.manifest import (
    MOST_CASES,
    IndexNote,
    Manifest,
    NgramsNote,
    RowsNote,
    SourceNote,
    damaged,
    read_manifest,
    user_folder,
    write_manifest,
)
from tribunal.retrievers.precedents.opening import folder_of, mapped

BATCH = 256  # texts that an embedder is given at once, where it doesn't say
Progress = Callable[[int, int], None]


class Built(NamedTuple):
    """A store as it is now, and what became of its cases: how many came, and how many left it."""

    manifest: Manifest
    folder: Path
    added: int
    gone: int


@dataclass(slots=True)
class _Before:
    """The store that lies there already: its cases, and the vectors by the text that each was made of."""

    manifest: Manifest
    cases: list[DecidedCase]
    held: VectorIndex

    def vectors(self) -> dict[str, int]:
        """Return the number of each text's vector; none of `tfidf`, which is fitted to all texts of a store."""
        if self.manifest.embedding == TFIDF:
            return {}
        return {_key(case.text): number for number, case in enumerate(self.cases)}

    def vector(self, number: int) -> Any:
        return self.held.vectors.reconstruct(number)


async def build(
    name: str,
    cases: Iterable[DecidedCase],
    sources: Sequence[SourceNote],
    *,
    left_out: int = 0,
    embedding: str | Embedder | None = None,
    out: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Built:
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
        progress: is given (cases done, cases in all) before the first batch and after each.

    Raises:
        BadInput: the name can't be one, another process is building this store, or another one lies there.
        CallFailed: the embedding endpoint failed.
    """
    folder = folder_of(name) if out is None else out / folder_of(name).name
    rows, copies = latest(cases)
    if len(rows) > MOST_CASES:
        raise BadInput(f"precedents {name}: {len(rows):,} cases: over the {MOST_CASES:,} that a store takes")
    with _building(name, folder) as partial:
        before = await asyncio.to_thread(_there, folder, replace)
        model, called = await asyncio.to_thread(_embedder, embedding, before)
        if before and not replace:
            _keep_another(before.manifest, called, sources, folder)
        if replace:
            before = None  # what a model behind a name has become may be why
        return await _write(
            name, folder, partial, rows, before, model, called, tuple(sources), copies, left_out, progress
        )


async def forget(
    case_ids: Collection[str] = (), post_ids: Collection[str] = (), *, within: Path | None = None
) -> dict[str, int]:
    """Take cases out of every store of the data folder. Nothing is embedded, and no source is read.

    A store that can't be read doesn't keep the others from it.

    Args:
        case_ids: the ids of the cases.
        post_ids: the ids of posts, all of whose cases leave.
        within: the folder that holds the stores; None is the data folder's.

    Returns:
        By the name of each store that held one: how many left it.

    Raises:
        BadInput: a store is damaged, or another process is building it; build it anew then, from what is left.
    """
    erased, posts, left, faults = set(case_ids), set(post_ids) - {""}, {}, []
    for folder in _folders(within):
        try:
            if gone := await _forget(folder, erased, posts):
                left[folder.name] = gone
        except BadInput as error:
            faults.append(error)
    if faults:
        raise faults[0]
    return left


async def _forget(folder: Path, case_ids: set[str], post_ids: set[str]) -> int:
    """How many cases left a store."""
    with _building(folder.name, folder) as partial:
        before = await asyncio.to_thread(_there, folder, False)
        if before is None:
            return 0
        rows = [each for each in before.cases if each.case not in case_ids and each.post_id not in post_ids]
        if gone := len(before.cases) - len(rows):
            held = before.manifest
            await _write(
                held.name, folder, partial, rows, before, None, held.embedding, held.sources, held.copies,
                held.left_out, None,
            )  # fmt: skip
    return gone


def held_cases(within: Path | None = None) -> set[str]:
    """The ids of all cases in those stores of the data folder that can be read. Reads files: call it off the event
    loop."""
    held: set[str] = set()
    for folder in _folders(within):
        with suppress(BadInput):
            store = _there(folder, False)
            held |= {each.case for each in store.cases} if store else set()
    return held


def _folders(within: Path | None) -> list[Path]:
    return [found.parent for found in sorted((within or user_folder()).glob("*/manifest.json"))]


def latest(cases: Iterable[DecidedCase]) -> tuple[list[DecidedCase], int]:
    """Cases in the order in which they were decided, and how many of them a later one stands for."""
    held: dict[tuple[str, str, str], DecidedCase] = {}
    number = 0
    for number, each in enumerate(sorted(cases, key=lambda case: (case.at, case.case)), start=1):  # noqa: B007
        held[each.words, each.category, each.policy_sha] = each
    rows = sorted(held.values(), key=lambda case: (case.at, case.case))
    return rows, number - len(rows)


@contextmanager
def _building(name: str, folder: Path) -> Iterator[Path]:
    """The folder of a build under way, which no other process is at."""
    partial = folder / "partial"
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with alone(partial / "lock"):
            try:
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except Taken as error:
        raise BadInput(f"precedents {name}: another process is building it; wait for that one") from error
    except OSError as error:
        raise BadInput(f"precedents {name}: {folder}: {error.strerror or error}") from error


def _there(folder: Path, replace: bool) -> _Before | None:
    if not (folder / "manifest.json").exists():
        return None
    try:
        manifest = read_manifest(folder)
        held = mapped(folder, manifest).vectors
        try:
            cases = list(read_cases(open_cases(folder / manifest.rows_file.name, manifest.rows)))
        except (ValueError, OSError) as error:
            raise damaged(manifest, "holds a case that can't be read") from error
    except BadInput:
        if replace:
            return None
        raise
    return _Before(manifest, cases, held)


def _embedder(wanted: str | Embedder | None, before: _Before | None) -> tuple[Embedder | None, str]:
    if wanted is None:
        wanted = before.manifest.embedding if before else TFIDF
    model = embedder(wanted) if isinstance(wanted, str) else wanted
    return model, model.name if model else TFIDF


def _keep_another(there: Manifest, embedding: str, sources: Sequence[SourceNote], folder: Path) -> None:
    """Raise `BadInput` where what lies there is of other sources, or of another embedding."""
    then = {(each.kind, each.name) for each in there.sources}
    same = then == {(each.kind, each.name) for each in sources}
    if same and there.embedding == embedding:
        return
    held = ", ".join(map(str, there.sources)) or "nothing"
    raise BadInput(
        f"precedents {there.name}: {folder}: holds another store: {there.rows:,} cases of {held}, by "
        f"{there.embedding}; give --replace to overwrite it, or another name"
    )


async def _write(
    name: str,
    folder: Path,
    partial: Path,
    rows: list[DecidedCase],
    before: _Before | None,
    model: Embedder | None,
    embedding: str,
    sources: tuple[SourceNote, ...],
    copies: int,
    left_out: int,
    progress: Progress | None,
) -> Built:
    content = _content(rows)
    held = {_whole(case) for case in before.cases} if before else set()
    now = {_whole(case) for case in rows}
    added, gone = len(now - held), len(held - now)
    same = before and (before.manifest.content_sha256, before.manifest.name) == (content, name)
    if before and same and (before.manifest.copies, before.manifest.left_out) == (copies, left_out):
        return Built(before.manifest, folder, 0, 0)
    told = progress or (lambda done, total: None)
    fitted = None
    if embedding == TFIDF:
        model = fitted = await asyncio.to_thread(fit_ngrams, [case.text for case in rows])
        await asyncio.to_thread(write_ngrams, partial / "ngrams.bin", fitted)
    dimension = await _embed(partial, rows, before, model, told)
    await asyncio.to_thread(write_cases, partial / "rows.parquet", rows)
    dates = [case.at for case in rows if case.at]
    decided, policies = Counter(case.how for case in rows), Counter(case.policy_sha for case in rows)
    manifest = Manifest(
        name=name,
        embedding=embedding,
        dimension=dimension,
        rows=len(rows),
        copies=copies,
        left_out=left_out,
        decided={how: decided[how] for how in HOW},
        policies=dict(policies.most_common(10_000)),
        first=min(dates, default=""),
        last=max(dates, default=""),
        sources=sources,
        content_sha256=content,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        index_file=IndexNote(**settled(folder, partial / "index.faiss").dump()),
        rows_file=RowsNote(**settled(folder, partial / "rows.parquet").dump()),
        ngrams_file=NgramsNote(**settled(folder, partial / "ngrams.bin").dump()) if fitted else None,
    )
    write_manifest(folder, manifest)
    remove_others(folder, manifest.files)
    return Built(manifest, folder, added, gone)


async def _embed(
    partial: Path, rows: list[DecidedCase], before: _Before | None, model: Embedder | None, progress: Progress
) -> int:
    """Write the index of all texts' vectors; those that the store before had are taken from it. Return their length."""
    known = before.vectors() if before else {}
    fresh = list(dict.fromkeys(case.text for case in rows if _key(case.text) not in known))
    at_once, made = getattr(model, "at_once", BATCH), dict[str, Any]()
    progress(0, len(fresh))
    for start in range(0, len(fresh), at_once):
        if model is None:
            raise BadInput("precedents: a text of the store has no vector; build the store again")
        some = fresh[start : start + at_once]
        made.update(zip(map(_key, some), await model.embed(some, "passage"), strict=True))
        progress(start + len(some), len(fresh))

    def vector(key: str) -> Any:
        return before.vector(known[key]) if before and key in known else made[key]

    def write() -> int:
        vectors = [vector(_key(case.text)) for case in rows]
        if len({len(each) for each in vectors}) > 1:
            raise BadInput(
                "embedding: vectors of different lengths: the model behind the name has changed; give --replace, "
                "which embeds all again"
            )
        matrix = np.stack(vectors) if vectors else np.zeros((0, 1), np.float32)
        write_vectors(partial / "index.faiss", matrix)
        return matrix.shape[1]

    return await asyncio.to_thread(write)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _whole(case: DecidedCase) -> str:
    return json.dumps(case, ensure_ascii=False)


def _content(rows: Iterable[DecidedCase]) -> str:
    digest = hashlib.sha256()
    for case in rows:
        digest.update(_whole(case).encode() + b"\n")
    return digest.hexdigest()
