"""Near-copies of a waiting case, decided together with it, and the decided cases that are nearest to a post.

Texts are compared by MinHash signatures (`tribunal.core.text_similarity`), which lie in memory by case id and are made
of the posts that the database holds; so every replica finds the same. Copies have the same image and the same policy.
"""

from __future__ import annotations

import asyncio
import difflib
import operator
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from tribunal.core.text import normalize_text
from tribunal.core.text_similarity import ALIKE, similarity_to, text_signature
from tribunal.review.case_tables import decided_case_of_row, has_words
from tribunal.schema import JSON, Frozen
from tribunal.service.replica.case_queries import model_category, waits_for_review
from tribunal.store.engine import Store
from tribunal.store.tables import COUNTED, cases, decisions

if TYPE_CHECKING:
    from tribunal.retrievers.indexes.text_index import TextIndex
    from tribunal.retrievers.precedents.store import NearestCase

MOST_TOGETHER = 50  # cases that are decided by one press of a button
_MOST_COMPARED = 5_000  # the waiting cases that came last
_AT_ONCE = 500  # posts that are read together
_MOST_WORDS = 200  # in which differences are sought, from the first on; if what follows differs, it is marked whole


class CopySegment(Frozen):
    """A piece of a near-copy's text, and whether it differs from the case that it is compared with."""

    text: str
    differs: bool = False


class NearCopy(Frozen):
    """A waiting case that is nearly the same as another.

    `question` is the id of what a person is asked of it; `same` says that its text is the same but for case and space:
    it has no `segments` then. Not `near` is a case that a person ticked although it isn't alike.
    """

    id: str
    post_id: str | None
    question: str
    category: str | None
    claimed_by: str | None
    claimed_until: float | None
    escalated: bool
    same: bool
    near: bool
    segments: tuple[CopySegment, ...]


class _Signed(NamedTuple):
    """The signature of a waiting case, and what its copies share; `kind` is None where there is nothing to compare."""

    signature: str
    kind: tuple[str | None, str | None] | None


class NearCopies:
    """Finds the waiting cases that are nearly the same as one of them."""

    def __init__(self, store: Store) -> None:
        """Keep the database."""
        self._store = store
        self._signed = dict[str, _Signed]()
        self._signing = asyncio.Lock()

    async def count(self, case_ids: Iterable[str]) -> dict[str, int]:
        """Return, for each of these waiting cases that has near-copies, how many."""
        waiting = await self._sign_waiting()
        found = {
            case_id: len(_find_near_ids(case_id, waiting))
            for case_id in case_ids
            if case_id in waiting
        }
        return {case_id: number for case_id, number in found.items() if number}

    async def find(self, case_id: str, ticked: Sequence[str] = ()) -> list[NearCopy]:
        """Return the near-copies of a waiting case, and then those that were `ticked`; of each the same texts first.

        They are fifty at most, of which no near-copy takes a ticked one's place. One that doesn't wait is left out.
        """
        waiting = await self._sign_waiting()
        near = _find_near_ids(case_id, waiting) if case_id in waiting else []
        wanted = [each for each in dict.fromkeys([*ticked, *near]) if each != case_id][
            :MOST_TOGETHER
        ]
        if not wanted:
            return []
        shown = select(cases).where(cases.c.id.in_([case_id, *wanted]), waits_for_review())
        rows = {row["id"]: row for row in await self._store.fetch_rows(shown)}
        own = _text_of(rows.get(case_id, {}))
        copies = await asyncio.to_thread(
            _copies_of, [rows[each] for each in wanted if each in rows], own, set(near)
        )
        return sorted(copies, key=lambda each: (not each.near, not each.same))

    async def _sign_waiting(self) -> dict[str, _Signed]:
        """Return what the waiting cases are compared by; a post is read once."""
        async with self._signing:
            latest = select(cases.c.id).where(waits_for_review()).order_by(cases.c.created.desc())
            ids = [row["id"] for row in await self._store.fetch_rows(latest.limit(_MOST_COMPARED))]
            new = [each for each in ids if each not in self._signed]
            for at in range(0, len(new), _AT_ONCE):
                columns = cases.c.id, cases.c.post, cases.c.image_sha, cases.c.policy_sha
                wanted = select(*columns).where(cases.c.id.in_(new[at : at + _AT_ONCE]))
                rows = await self._store.fetch_rows(wanted)
                self._signed |= await asyncio.to_thread(_sign_all, rows)
            self._signed = {each: self._signed[each] for each in ids if each in self._signed}
            return self._signed


def _sign_all(rows: Iterable[JSON]) -> dict[str, _Signed]:
    return {row["id"]: _sign(row) for row in rows}


def _sign(row: JSON) -> _Signed:
    signature = text_signature(_text_of(row))
    image = (row["post"] or {}).get("image")
    sha = row["image_sha"]
    comparable = (signature or sha) and (sha or not image)
    return _Signed(signature, (sha, row["policy_sha"]) if comparable else None)


def _find_near_ids(case_id: str, waiting: Mapping[str, _Signed]) -> list[str]:
    own = waiting[case_id]
    if own.kind is None:
        return []
    kin = [each for each, held in waiting.items() if held.kind == own.kind and each != case_id]
    if not own.signature:
        return [each for each in kin if not waiting[each].signature]
    kin = [each for each in kin if waiting[each].signature]
    alike = similarity_to(own.signature, [waiting[each].signature for each in kin])
    return [each for each, similarity in zip(kin, alike, strict=True) if similarity >= ALIKE]


def _text_of(row: Mapping[str, JSON]) -> str:
    return str((row.get("post") or {}).get("text") or "")


def _copies_of(rows: Iterable[JSON], own: str, near: Set[str]) -> list[NearCopy]:
    return [_copy_of(row, own, near=row["id"] in near) for row in rows]


def _copy_of(row: JSON, own: str, *, near: bool) -> NearCopy:
    text = _text_of(row)
    same = normalize_text(text) == normalize_text(own)
    return NearCopy(
        id=row["id"], post_id=row["post_id"], question=row["question"]["id"], category=model_category(row),
        claimed_by=row["claimed_by"], claimed_until=row["claimed_until"], escalated=row["escalated"] is not None,
        same=same, near=near,
        segments=() if same else mark_differences(own, text) if near else (CopySegment(text=text),),
    )  # fmt: skip


def mark_differences(text: str, other: str) -> tuple[CopySegment, ...]:
    """Return the words of `other` in pieces, those marked that don't stand in `text` at their place."""
    words = text.split()
    theirs = other.split()
    # words before the first that differs
    alike = [*map(operator.eq, words, theirs), False].index(False)
    end = alike + _MOST_WORDS
    pieces = [CopySegment(text=" ".join(theirs[:alike]))] if alike else []
    matcher = difflib.SequenceMatcher(None, words[alike:end], theirs[alike:end], autojunk=False)
    changes = [
        (kind, theirs[alike + start : alike + stop])
        for kind, _, _, start, stop in matcher.get_opcodes()
    ]
    if words[end:] or theirs[end:]:
        changes.append(("equal" if words[end:] == theirs[end:] else "replace", theirs[end:]))
    pieces += [
        CopySegment(text=" ".join(part) or "[…]", differs=kind != "equal") for kind, part in changes
    ]
    return tuple(pieces)


# The decided cases nearest to a post, as the desk shows them beside it: what was decided, and why
# The index covers the latest decided cases of the database. It is kept in memory, holds ids and no words, and is built
# again once people have decided more. The page reads the cases from the database, so it never shows erased words.

MOST_CASES = 2_000  # the latest; making an index of them takes a second or two
# Labelled posts of this n-gram similarity have the same label clearly more often than two posts have by chance:
#   python -m bench.nearest_cases h-vli/train_set.json tweet_text final_label
LEAST_SIMILARITY = 0.3
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
        self._store = store
        self._index = _CaseIndex((0, None))
        self._making = asyncio.Lock()

    async def find(self, text: str, *, besides: str, count: int = 3) -> list[NearestCase]:
        """Return the decided cases nearest to a text, nearest first, without the case `besides`.

        Cases below `LEAST_SIMILARITY` are left out.
        """
        from tribunal.retrievers.precedents.store import NearestCase

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
        rows = (
            await self._store.fetch_rows(select(cases).where(cases.c.id.in_(near))) if near else []
        )
        found = [
            decided_case_of_row(row)
            for row in rows
            if has_words(row) and row["outcome"] == "verdict"
        ]
        nearest = [NearestCase(each, near[each.case]) for each in found if each is not None]
        return sorted(nearest, key=lambda each: -each.similarity)

    async def _current_index(self) -> TextIndex[str] | None:
        """Return the index, made again where people have decided more since and enough time has passed."""
        async with self._making:
            [row] = await self._store.fetch_rows(
                select(func.count().label("number"), func.max(decisions.c.at).label("last"))
            )
            decided = (int(row["number"]), row["last"])
            begun = time.monotonic()
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
            .where(
                COUNTED,
                cases.c.id.in_(by_people),
                cases.c.outcome == "verdict",
                cases.c.erased.is_(None),
            )
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
