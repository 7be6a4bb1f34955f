"""Precedents: cases that people decided, the tables they are read from, and the store that finds those near a post.

Who decided a case stands nowhere here.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from tribunal.core.text import equality_key, normalize_text, one_line, suggest_name, wellformed
from tribunal.errors import BadInput
from tribunal.models.embeddings import Embedder
from tribunal.retrievers.indexes.manifest import MANIFEST, IndexManifest
from tribunal.retrievers.indexes.table_rows import NO, YES, read_rows
from tribunal.retrievers.indexes.text_index import TextIndex, map_index
from tribunal.retrievers.perspectives.perspective import is_path
from tribunal.schema import Frozen
from tribunal.settings.contents import read_once
from tribunal.settings.environment import data_folder
from tribunal.trust import stored_settings

# accepted: a person took the court's verdict; changed: they decided otherwise; appealed: it was decided on an appeal.
DecisionKind = Literal["accepted", "changed", "appealed"]
DECISION_KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
LONGEST_TEXT = 8_000
LONGEST_NOTE = 1_000
LONGEST_NAME = 120
Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class DecidedCase(NamedTuple):
    """A case and its decision.

    Attributes:
        case: its id where it was decided; with it, the case can be found again, or forgotten.
        post_id: the id of its post.
        text: the words of the post, the first `LONGEST_TEXT` of them.
        words: a hash of all its words (`hash_words`): posts that have it in common are the same post.
        category: what was decided, by the name that the policy had for it.
        hateful: whether that is hate speech; None where that isn't known.
        how: `accepted`, `changed` or `appealed`.
        note: why, in the words of the person who decided.
        at: when, as ISO 8601.
        policy: the name of the policy that it was decided under; empty where that isn't known.
        policy_sha: the hash of that policy's words.
    """

    case: Name
    post_id: Name
    text: Annotated[str, Field(max_length=LONGEST_TEXT)]
    words: Name
    category: Name
    hateful: bool | None
    how: DecisionKind
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    at: Name = ""
    policy: Name = ""
    policy_sha: Name = ""


_FORM = TypeAdapter(DecidedCase, config=ConfigDict(strict=True))


def parse_case(line: Any) -> DecidedCase:
    """Return the case in a line of a store's rows, which may come from somebody else.

    Raises:
        ValueError: no store of ours holds such a line.
    """
    return _FORM.validate_python(tuple(line) if isinstance(line, list) else line)


def hash_words(text: str) -> str:
    """Return what posts share that are the same but for letter case, white space, width and signs at their ends."""
    return hashlib.sha256(equality_key(text).encode()).hexdigest()[:32]


def make_decided_case(
    *,
    case: str,
    text: str,
    category: str,
    how: DecisionKind,
    hateful: bool | None = None,
    note: str = "",
    **names: str,
) -> DecidedCase | None:
    """Return a case, each part cut to its greatest length; None where it has no words, no category or no id.

    A post that is an image alone has no words. `names` are `post_id`, `at`, `policy` and `policy_sha`, if known.
    """
    text = wellformed(text)
    category = _cut_name(category)
    if not normalize_text(text) or not category or not case:
        return None
    cut_names = {
        name: _cut_name(value) for name, value in {"post_id": "", "case": case, **names}.items()
    }
    return DecidedCase(
        **cut_names,
        text=text[:LONGEST_TEXT],
        words=hash_words(text),
        category=category,
        hateful=hateful,
        how=how,
        note=one_line(wellformed(note))[:LONGEST_NOTE],
    )


def _cut_name(text: str) -> str:
    return one_line(wellformed(text))[:LONGEST_NAME]


_MOST_BYTES = 4 * 1024**3
# What each column may be called, the first that is there being read.
COLUMNS = {
    "case": ("case", "case_id", "id"),
    "post_id": ("post_id", "post", "id"),
    "text": ("text",),
    "category": ("category", "label"),
    "hateful": ("hateful", "hate", "label"),
    "how": ("how", "action"),
    "note": ("note",),
    "at": ("at", "decided", "decided_at", "date"),
    "policy": ("policy", "policy_name"),
    "policy_sha": ("policy_sha",),
}
_HATE = (*YES, "hate", "hateful")
_NOT = (*NO, "not", "not hate", "nothate", "non-hate")
# What other words there are for how a case was decided; none: by whoever made the table.
_HOW: dict[str, DecisionKind] = {
    **{each: each for each in DECISION_KINDS},
    **{
        "accept": "accepted",
        "edit": "changed",
        "edited": "changed",
        "change": "changed",
        "appeal": "appealed",
    },
    "": "changed",
}


def read_decided_cases(path: Path, encoding: str = "utf-8") -> Iterator[DecidedCase | None]:
    """Yield every row of a file as a decided case; None for one that has no words or no category.

    Raises:
        BadInput: the file can't be read, lacks a column, or a row says of a case what can't be.
    """
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise BadInput(f"from: {path}: is over {_MOST_BYTES // 1024**3} GB; split the file")
    for row in read_rows(path, "precedents", encoding=encoding, strict=True):
        found = {
            part: next((name for name in names if name in row.cells), None)
            for part, names in COLUMNS.items()
        }
        missing = next((part for part in ("text", "category") if found[part] is None), None)
        if missing:
            raise row.missing_column(missing)
        texts = {part: row.optional_text(name) for part, name in found.items() if part != "hateful"}
        how = texts.pop("how").casefold()
        if how not in _HOW:
            raise row.value_error(str(found["how"]), how, ", ".join(DECISION_KINDS))
        texts["case"] = texts["case"] or f"{row.file}:{row.number}"
        hateful = row.yes_or_no(found["hateful"], _HATE, _NOT) if found["hateful"] else None
        yield make_decided_case(how=_HOW[how], hateful=hateful, **texts)


MOST_CASES = 1_000_000
# Texts of the same script have blanks and a letter or two in common, which makes none a precedent of the other.
LEAST_SIMILARITY = 0.05
_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
CaseCount = Annotated[int, Field(ge=0, le=MOST_CASES)]


def _current_kind(kind: object) -> object:
    """Return the current name of a source: an earlier release had a docket."""
    return "database" if kind == "docket" else kind


class CaseSource(Frozen):
    """A source of cases: the database, or a file by its name alone."""

    kind: Annotated[Literal["database", "file"], BeforeValidator(_current_kind)]
    name: str = Field(default="", max_length=255)
    """of a file"""
    cases: CaseCount

    def __str__(self) -> str:
        """Return what errors and pages call it."""
        return self.name or f"the {self.kind}"


class PrecedentManifest(IndexManifest):
    """The sources of a store of precedents."""

    kind: ClassVar[str] = "precedents"
    noun: ClassVar[str] = "store"
    command: ClassVar[tuple[str, str]] = ("tribunal precedents build", "")

    format: Literal[3] = 3
    name: str = Field(pattern=_NAME)
    rows: CaseCount
    copies: CaseCount
    """cases with the words and the decision of a later one, which stands for them"""
    left_out: CaseCount
    """decided cases without words, or without a category"""
    decided: dict[DecisionKind, CaseCount]
    policies: dict[str, CaseCount] = Field(max_length=10_000)
    """cases by the hash of the policy"""
    first: Name
    """when the oldest was decided; empty where there is none"""
    last: Name
    sources: tuple[CaseSource, ...] = Field(max_length=100)
    content_sha256: str = Field(max_length=64)
    """of the cases, in their order"""

    @property
    def index_name(self) -> str:
        """Return the name of the store."""
        return self.name


class NearestCase(NamedTuple):
    """A decided case near a post, and how near: the cosine."""

    decided: DecidedCase
    similarity: float


class PrecedentStore:
    """A store, open. Safe to search from many tasks and threads at once.

    Attributes:
        folder: its folder.
        manifest: its description.
        embedder: what its vectors were made by; None where it holds no cases, or isn't to be searched.
        index: the cases, and their vectors.
        name: of the store.
        embedding: the name of the embedding that its posts are compared by.
    """

    def __init__(
        self,
        folder: Path,
        manifest: PrecedentManifest,
        embedder: Embedder | None,
        index: TextIndex[DecidedCase],
    ) -> None:
        """Make a store of an index."""
        self.folder = folder
        self.manifest = manifest
        self.embedder = embedder
        self.index = index
        self.name = manifest.name
        self.embedding = manifest.embedding

    def __len__(self) -> int:
        """Return how many cases there are."""
        return self.manifest.rows

    @property
    def fingerprint(self) -> str:
        """Return a hash of all that a search may show: the cases, and the vectors that they are found by."""
        return self.index.fingerprint(self.embedding)

    async def search(self, text: str, k: int = 3, *, post_id: str = "") -> list[NearestCase]:
        """Return the k decided cases nearest to a post, nearest first. A post never sees itself.

        Left out are the cases of a post of this id, and those with the same words: the same but for letter case, white
        space, character width, and signs at the ends, as perspectives leave out equal texts. So are cases below
        `LEAST_SIMILARITY`. Fewer than k come back where there are fewer, none for a post without words.

        Raises:
            CallFailed: the embedding endpoint gave no vector.
            BadInput: its vectors are not of the index's length, or the store is damaged.
        """
        if k < 1:
            raise BadInput(f"precedents_k: {k}: at least one is asked for")
        if self.embedder is None or not len(self) or not normalize_text(text):
            return []
        query = (await self.embedder.embed([text], "query"))[0]
        words = hash_words(text)

        def is_another_post(similarity: float, case: DecidedCase) -> bool:
            same = case.words == words or (post_id and post_id in (case.post_id, case.case))
            return similarity >= LEAST_SIMILARITY and not same

        found = await asyncio.to_thread(self.index.find_nearest, query, k, is_another_post)
        return [NearestCase(row, similarity) for similarity, _, row in found]

    def __iter__(self) -> Iterator[DecidedCase]:
        """Yield every case, in order; raise `BadInput` if the store is damaged. Reads a file."""
        return map(self.index.row, range(len(self)))

    def verify(self) -> None:
        """Compare every file with its hash; raise `BadInput` if one is missing or differs."""
        self.index.verify()


def precedents_folder() -> Path:
    """Return the folder of the stores that are known by their names."""
    return data_folder() / "precedents"


def list_stores() -> list[str]:
    """Return the names of the stores in the data folder. Reads files: call it off the event loop."""
    return sorted(path.parent.name for path in precedents_folder().glob(f"*/{MANIFEST}"))


def store_folder(name: str) -> Path:
    """Return the folder of a store, whether there is one or not: the name's, or the path that was given.

    Raises:
        BadInput: the name can't be one.
    """
    if is_path(name):
        return Path(name).expanduser()
    if not re.match(_NAME, name):
        raise BadInput(
            f"precedents: {name[:80]!r}: give a name of lower-case letters, digits, - and _, or a folder"
        )
    return precedents_folder() / name


async def open_precedents(name: str) -> PrecedentStore:
    """Open the store of a name, or in a folder. Within `opened_once` it stays what it was.

    Raises:
        BadInput: there is none, its files are damaged, or its embedding can't be had.
    """
    return await asyncio.to_thread(read_once, ("precedents", name), lambda: open_store(name))


def open_store(name: str) -> PrecedentStore:
    """Open a store as `open_precedents`, off the event loop."""
    folder = store_folder(name)
    if not is_path(name) and not (folder / MANIFEST).exists():
        near = suggest_name(name, known := list_stores())
        there = (
            f"there are {', '.join(known)}"
            if known
            else f"build it with: tribunal precedents build {name}"
        )
        raise BadInput(
            f"precedents: {name!r}: there is no such store{near and f'; {near}'} ({there})"
        )
    store = read_store(folder)
    # A store may be somebody else's: what its manifest names runs no code that the operator hasn't allowed.
    with stored_settings():
        store.embedder = store.index.load_embedder() if len(store) or store.index.ngrams else None
    return store


def read_store(folder: Path) -> PrecedentStore:
    """Return the store in a folder, without what it is searched by; raise `BadInput` if there is none."""
    manifest = PrecedentManifest.read(folder)
    return PrecedentStore(folder, manifest, None, map_index(folder, manifest, parse_case))
