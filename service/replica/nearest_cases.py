"""The decided cases nearest to a post, as the desk shows them beside it: what was decided, and why.

The index is the precedents', of the latest decided cases of the database. It lies in memory, holds ids and no words,
and is made again once people have decided more. What is shown is read from the database, so that nothing is shown that
was erased.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from tribunal.exports.finished_cases import decided_case_of_row, has_words
from tribunal.store.engine import Store
from tribunal.store.tables import cases, decisions
from tribunal.text import normalize_text

if TYPE_CHECKING:
    from tribunal.retrievers.indexes.text_index import TextIndex
    from tribunal.retrievers.precedents.store import NearestCase

MOST_CASES = 2_000  # the latest; making an index of them takes a second or two
_PAUSE = 20.0  # times as long as making an index took, nothing is made again


class _CaseIndex(NamedTuple):
    """An index of case ids, and what it was made of: how many decisions there were, and when the last one was."""

    decided: tuple[int, float | None]
    text_index: TextIndex[str] | None = None
    again: float = 0.0


class NearestCases:
    """Finds the decided cases nearest to a post."""

    def __init__(self, store: Store) -> None:
        """Keep the database."""
        self._store, self._index, self._making = store, _CaseIndex((0, None)), asyncio.Lock()

    async def find(self, text: str, *, besides: str, count: int = 3) -> list[NearestCase]:
        """Return the decided cases nearest to a text, nearest first, without the case `besides`."""
        from tribunal.retrievers.precedents.store import LEAST_SIMILARITY, NearestCase

        if not normalize_text(text):
            return []
        index = await self._current_index()
        if index is None or index.ngrams is None:
            return []
        query = (await index.ngrams.embed([text], "query"))[0]

        def is_like(similarity: float, case_id: str) -> bool:
            return similarity >= LEAST_SIMILARITY and case_id != besides

        near = {case_id: similarity for similarity, _, case_id in await asyncio.to_thread(
            index.find_nearest, query, count, is_like
        )}  # fmt: skip
        rows = await self._store.fetch_rows(select(cases).where(cases.c.id.in_(near))) if near else []
        found = [decided_case_of_row(row) for row in rows if has_words(row) and row["outcome"] == "verdict"]
        nearest = [NearestCase(each, near[each.case]) for each in found if each is not None]
        return sorted(nearest, key=lambda each: -each.similarity)

    async def _current_index(self) -> TextIndex[str] | None:
        """Return the index, made again where people have decided more since and enough time has passed."""
        async with self._making:
            [row] = await self._store.fetch_rows(
                select(func.count().label("number"), func.max(decisions.c.at).label("last"))
            )
            decided, begun = (int(row["number"]), row["last"]), time.monotonic()
            if decided != self._index.decided and begun >= self._index.again:
                index = await self._make_index()
                now = time.monotonic()
                self._index = _CaseIndex(decided, index, now + _PAUSE * (now - begun))
            return self._index.text_index

    async def _make_index(self) -> TextIndex[str] | None:
        from tribunal.retrievers.indexes.ngrams import fit_ngrams
        from tribunal.retrievers.indexes.text_index import TextIndex, index_vectors

        by_people = select(decisions.c.case_id).distinct()
        latest = (
            select(cases.c.id, cases.c.post, cases.c.erased)
            .where(cases.c.id.in_(by_people), cases.c.outcome == "verdict", cases.c.erased.is_(None))
            .order_by(cases.c.finished.desc(), cases.c.id)
            .limit(MOST_CASES)
        )
        rows = await self._store.fetch_rows(latest)
        texts = {row["id"]: str(row["post"].get("text") or "") for row in rows if has_words(row)}
        texts = {case_id: text for case_id, text in texts.items() if normalize_text(text)}
        if not texts:
            return None
        ngrams = await asyncio.to_thread(fit_ngrams, list(texts.values()))
        vectors = await ngrams.embed(list(texts.values()), "passage")
        return TextIndex(index_vectors(vectors), list(texts).__getitem__, ngrams)
