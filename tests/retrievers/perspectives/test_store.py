"""The store: building, going on with a build, opening, searching, and what is found wrong with an index."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from tests import PROJECT
from tribunal.errors import BadInput, CallFailed
from tribunal.models.embeddings import Hashing, Vectors
from tribunal.retrievers.perspectives import store
from tribunal.retrievers.perspectives.perspective import EXAMPLES, Perspective, find, user_folder
from tribunal.retrievers.perspectives.rows import file_hash
from tribunal.retrievers.perspectives.store import (
    Manifest,
    Store,
    VectorStoreSearcher,
    build,
    in_memory,
    open_index,
    open_store,
    open_stores,
    search_together,
)
from tribunal.schema import Example

WORDS = ["river", "bakery", "window", "train", "garden", "music", "winter", "ladder", "pepper", "signal"]
TEXTS = [f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} {WORDS[n // 100 % 10]}" for n in range(300)]
SPEC = """
name = "mine"
language = "en"
criterion = "Rude."
[labels]
hate = "Rude"
not_hate = "Fine"
[source]
files = ["rows.csv"]
text = "text"
obtain = "the office"
[source.label]
column = "label"
hate = ["1"]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Perspective:
    """A perspective of one's own with 300 rows, every third of them hate, in data/rows.csv."""
    user_folder().mkdir(parents=True)
    (user_folder() / "mine.toml").write_text(SPEC)
    (tmp_path / "rows").mkdir()
    _rows(tmp_path, TEXTS)
    return find("mine")


def _rows(tmp_path: Path, texts: Sequence[str]) -> None:
    lines = [f"{text},{int(number % 3 == 0)}" for number, text in enumerate(texts)]
    (tmp_path / "rows" / "rows.csv").write_text("\n".join(["text,label", *lines]) + "\n")


class Counting(Hashing):
    """Hashing that says what it was asked for, and can fail after so many calls."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.asked: list[str] = []
        self._left = fails_after

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self._left == 0:
            raise CallFailed("the line is dead", kind="connection")
        self._left = self._left - 1 if self._left else self._left
        self.asked += texts
        return await super().embed(texts)


# ------------------------------------------------------------------------------------------------------------ building


async def test_a_build_says_what_it_was_made_from(mine: Perspective, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    made = await build(mine, tmp_path / "rows", progress=lambda done, total: steps.append((done, total)))
    assert (made.rows, made.hate, made.not_hate, made.skipped) == (300, 100, 200, 0)
    assert (made.embedding, made.dimension, made.index, made.recall_at_3) == ("hashing", 384, "exact", 1.0)
    assert [source.name for source in made.sources] == ["rows.csv"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made.built)
    assert steps == [(0, 300), (300, 300)]
    folder = user_folder() / "mine"
    assert Manifest.model_validate_json((folder / "manifest.json").read_bytes()) == made
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "verified.json",
        made.vectors_file.name,
        made.rows_file.name,
    }
    # No path of this machine, and nothing that would run code when it is read.
    assert str(tmp_path) not in (folder / "manifest.json").read_text()
    assert (folder / made.vectors_file.name).read_bytes()[:4] == b"IxFI"
    assert (folder / made.rows_file.name).read_bytes()[:4] == b"PAR1"


async def test_a_stopped_build_goes_on_where_it_was(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH", 64)
    first = Counting(fails_after=2)
    with pytest.raises(CallFailed, match="the line is dead"):
        await build(mine, tmp_path / "rows", embedding=first)
    assert first.asked == TEXTS[:128]
    with pytest.raises(BadInput, match=r"perspective mine: no index in .*tribunal perspectives build mine --data DIR"):
        await open_store("mine")
    partial = user_folder() / "mine" / "partial" / "vectors-384.f32"
    with partial.open("ab") as file:
        file.write(b"half a row, as a kill leaves it")
    second, steps = Counting(), list[tuple[int, int]]()
    await build(mine, tmp_path / "rows", embedding=second, progress=lambda done, total: steps.append((done, total)))
    assert second.asked == TEXTS[128:]
    assert steps[0] == (128, 300)
    [found] = await (await open_store("mine")).search(TEXTS[140] + " x", k=1)
    assert found.text == TEXTS[140]


def test_a_killed_build_goes_on(mine: Perspective, tmp_path: Path) -> None:
    """A process that is killed in the midst leaves what the next one goes on from."""
    code = f"""
import asyncio, pathlib, time
from tribunal.retrievers.perspectives import store
from tribunal.models.embeddings import Hashing
from tribunal.retrievers.perspectives.perspective import find
store.BATCH = 32
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.05)
asyncio.run(store.build(find("mine"), pathlib.Path({str(tmp_path / "rows")!r}), progress=slowly))
"""
    root = PROJECT
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() not in ("96", ""):
            pass
        with pytest.raises(BadInput, match="another process is building it"):
            asyncio.run(build(mine, tmp_path / "rows"))
        process.kill()
    going_on = Counting()
    made = asyncio.run(build(mine, tmp_path / "rows", embedding=going_on))
    assert made.rows == 300
    assert 0 < len(going_on.asked) <= 300 - 96


async def test_other_rows_begin_anew(mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BATCH", 64)
    with pytest.raises(CallFailed):
        await build(mine, tmp_path / "rows", embedding=Counting(fails_after=2))
    _rows(tmp_path, TEXTS[::-1])
    again = Counting()
    await build(mine, tmp_path / "rows", embedding=again)
    assert again.asked == TEXTS[::-1]


async def test_building_again_replaces_the_index_and_leaves_nothing_over(mine: Perspective, tmp_path: Path) -> None:
    before = await build(mine, tmp_path / "rows")
    opened = await open_store("mine")
    _rows(tmp_path, TEXTS[:60])
    after = await build(mine, tmp_path / "rows")
    assert before.source_sha256 != after.source_sha256
    assert len(list((user_folder() / "mine").iterdir())) == 4
    assert len(await open_store("mine")) == 60
    # The one that was open before still answers, from the files that it holds.
    assert len(await opened.search(TEXTS[250])) == 3


async def test_rows_without_a_text_are_left_out_and_counted(mine: Perspective, tmp_path: Path) -> None:
    _rows(tmp_path, ["", " ", *TEXTS[:10]])
    made = await build(mine, tmp_path / "rows")
    assert (made.rows, made.skipped) == (10, 2)


@pytest.mark.parametrize(("label", "name"), [("0", "'Rude' (hate)"), ("1", "'Fine' (not_hate)")])
async def test_no_rows_of_one_label(mine: Perspective, tmp_path: Path, label: str, name: str) -> None:
    (tmp_path / "rows" / "rows.csv").write_text(f"text,label\na,{label}\nb,{label}\n")
    with pytest.raises(BadInput, match=rf"none of the 2 rows of rows\.csv is {re.escape(name)}; check source\.label"):
        await build(mine, tmp_path / "rows")


async def test_large_sets_are_kept_at_half_precision_with_their_recall(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGEST_EXACT", 1000)
    made = await build(mine, tmp_path / "rows")
    assert made.index == "half"
    assert 0.95 <= made.recall_at_3 <= 1
    assert made.vectors_file.bytes < 300 * 384 * 2 + 1000
    found = await (await open_store("mine")).search(TEXTS[5] + "!x", k=1)
    assert found[0].text == TEXTS[5]


async def test_below_the_least_recall_vectors_are_kept_whole(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGEST_EXACT", 1000)
    monkeypatch.setattr(store, "_recall_at_3", lambda index, vectors: 0.94)
    made = await build(mine, tmp_path / "rows")
    assert (made.index, made.recall_at_3) == ("exact", 1.0)


async def test_recall_is_measured_against_exact_search(tmp_path: Path) -> None:
    import faiss

    rows = np.random.default_rng(0).standard_normal((900, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    held = store._VectorFile(tmp_path)
    held.append(rows)
    right = faiss.IndexFlatIP(16)
    right.add(rows)
    assert store._recall_at_3(right, held) == 1.0
    wrong = faiss.IndexFlatIP(16)
    wrong.add(rows[::-1].copy())
    assert store._recall_at_3(wrong, held) < 0.1


async def test_an_example_needs_no_building() -> None:
    with pytest.raises(BadInput, match="its texts lie in its own file; there is nothing to build"):
        await build(find(EXAMPLES[0]), Path())


# ----------------------------------------------------------------------------------------------------------- searching


@pytest.fixture
async def built(mine: Perspective, tmp_path: Path) -> Store:
    await build(mine, tmp_path / "rows")
    return await open_store("mine")


async def test_the_nearest_come_first_with_their_labels(built: Store) -> None:
    found = await built.search("river bakery gardens", k=5)
    assert len(found) == 5
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)
    exact = Hashing().vectors([*TEXTS, "river bakery gardens"])
    assert [each.similarity for each in found] == pytest.approx(sorted(exact[:-1] @ exact[-1])[::-1][:5], abs=1e-5)
    for each in found:
        hate = each.row % 3 == 0
        assert each == Example(
            text=TEXTS[each.row],
            label="hate" if hate else "not_hate",
            label_name="Rude" if hate else "Fine",
            similarity=each.similarity,
            row=each.row,
        )


@pytest.mark.parametrize(
    "change", ["{}", "  {}\n", "{}!!", "«{}»…", "RIVER  Bakery window", "ｒｉｖｅｒ bakery window"]
)
async def test_texts_equal_to_the_query_are_left_out(built: Store, change: str) -> None:
    own = "river bakery window"
    found = await built.search(change.format(own), k=3)
    assert len(found) == 3
    assert own not in [each.text for each in found]


async def test_many_copies_of_the_query_still_leave_k(mine: Perspective, tmp_path: Path) -> None:
    _rows(tmp_path, ["the same words"] * 100 + TEXTS[:20])
    await build(mine, tmp_path / "rows")
    opened = await open_store("mine")
    assert len(await opened.search("The same words.", k=3)) == 3
    assert len(await opened.search("The same words.", k=50)) == 20  # all there are
    assert len(await opened.search("other words", k=500)) == 120


async def test_a_blank_text_has_no_neighbours_and_k_is_at_least_one(built: Store) -> None:
    assert await built.search(" \u200b\n") == []
    with pytest.raises(BadInput, match="k: 0"):
        await built.search("x", k=0)


async def test_searching_leaves_the_event_loop_free(built: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that takes long is waited for, and others, and the loop, go on meanwhile."""
    quick = built._nearest

    def slow(*args: object) -> list[Example]:
        time.sleep(0.3)
        return quick(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(built, "_nearest", slow)
    began, beats = time.monotonic(), 0
    searches = asyncio.gather(*(built.search(text) for text in TEXTS[:3]))
    while not searches.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert time.monotonic() - began < 0.75  # three, side by side
    assert beats > 10


async def test_many_searches_at_once_answer_as_one_by_one(built: Store) -> None:
    together = await asyncio.gather(*(built.search(text) for text in TEXTS[:40]))
    assert list(together) == [await built.search(text) for text in TEXTS[:40]]


async def test_perspectives_are_searched_together_and_embed_the_text_once(built: Store) -> None:
    class Broken:
        perspective = find(EXAMPLES[1])

        async def search(self, text: str, k: int = 3) -> list[Example]:
            raise CallFailed("down", kind="server")

    model = Counting()
    examples = await in_memory(find(EXAMPLES[0]), model)
    model.asked.clear()
    found = await search_together([Store(built.perspective, model, built._index), examples, Broken()], "river bank", 2)
    assert list(found) == ["mine", EXAMPLES[0], EXAMPLES[1]]
    assert model.asked == ["river bank"]
    assert len(found["mine"]) == len(found[EXAMPLES[0]]) == 2  # type: ignore[arg-type]
    assert isinstance(found[EXAMPLES[1]], CallFailed)
    assert await search_together([built], "") == {"mine": []}


async def test_one_embedding_that_fails_fails_its_perspectives_alone(built: Store) -> None:
    dead = Counting(fails_after=0)
    dead.name = "dead"
    broken = Store(find(EXAMPLES[1]), dead, built._index)
    found = await search_together([broken, built], "river")
    assert isinstance(found[EXAMPLES[1]], CallFailed)
    assert len(found["mine"]) == 3  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- opening


async def test_with_none_named_the_examples_play_from_memory() -> None:
    began = time.monotonic()
    opened = await open_stores()
    assert [each.perspective.name for each in opened] == list(EXAMPLES)
    assert all(each.manifest is None for each in opened)
    for each in opened:
        assert len(await each.search("They should all leave our town.")) == 3
    assert time.monotonic() - began < 5


async def test_an_index_is_opened_by_name_path_of_its_spec_and_path_of_its_folder(built: Store, tmp_path: Path) -> None:
    for name in ("mine", str(user_folder() / "mine.toml"), str(user_folder() / "mine")):
        assert len(await open_store(name)) == 300
    # Built from a TOML file elsewhere, it is still known by its name.
    (user_folder() / "mine.toml").rename(tmp_path / "mine.toml")
    assert (await open_store("mine")).perspective == built.perspective


async def test_an_index_elsewhere(mine: Perspective, tmp_path: Path) -> None:
    await build(mine, tmp_path / "rows", out=tmp_path / "out")
    assert len(await open_store(str(tmp_path / "out" / "mine"))) == 300
    with pytest.raises(BadInput, match="no index in"):
        await open_store("mine")


async def test_a_criterion_may_change_after_building_and_a_source_may_not(built: Store) -> None:
    path = user_folder() / "mine.toml"
    path.write_text(SPEC.replace('"Rude."', '"Very rude."').replace('hate = "Rude"', 'hate = "Gruff"', 1))
    again = await open_store("mine")
    assert again.perspective.criterion == "Very rude."
    assert "Gruff" in {each.label_name for each in await again.search("river", k=20)}
    path.write_text(SPEC.replace('hate = ["1"]', 'hate = ["0"]'))
    with pytest.raises(
        BadInput, match=r"its \[source\] has changed .*build it again with: tribunal perspectives build"
    ):
        await open_store("mine")


async def test_another_embedding_than_the_index_has(built: Store) -> None:
    with pytest.raises(
        BadInput, match=r"built with the embedding hashing, not openai:small; ask for hashing, or build"
    ):
        await open_store("mine", embedding="openai:small")
    assert await open_store("mine", embedding="hashing")


async def test_an_embedding_that_gives_other_lengths_than_the_index_has(built: Store) -> None:
    class Short(Hashing):
        dimension = 8

    with pytest.raises(BadInput, match=r"vectors of 384 numbers, and hashing now gives 8"):
        await Store(built.perspective, Short(), built._index).search("river")


def files(folder: Path) -> tuple[Path, Path]:
    [vectors], [rows] = folder.glob("index-*.faiss"), folder.glob("rows-*.parquet")
    return vectors, rows


@pytest.mark.parametrize("which", [0, 1])
async def test_a_truncated_index(built: Store, which: int) -> None:
    path = files(user_folder() / "mine")[which]
    copy = path.read_bytes()
    path.unlink()  # a new file: the old one is mapped by the store that is open
    path.write_bytes(copy[:-100])
    store._opened.cache_clear()
    with pytest.raises(BadInput, match=rf"truncated or changed: {path.name} has .* bytes, not .*build it again with"):
        await open_store("mine")


@pytest.mark.parametrize("which", [0, 1])
async def test_a_tampered_index(built: Store, which: int) -> None:
    path = files(user_folder() / "mine")[which]
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.unlink()
    path.write_bytes(changed)
    store._opened.cache_clear()
    with pytest.raises(BadInput, match=rf"changed since it was built: {path.name} has another hash; build it again"):
        await open_store("mine")


async def test_a_change_that_hides_its_time_is_found_by_verify(built: Store) -> None:
    built.verify()
    path = files(user_folder() / "mine")[0]
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.unlink()
    path.write_bytes(changed)
    assert built.manifest is not None
    store._note_verified(user_folder() / "mine", built.manifest)
    store._opened.cache_clear()
    opened = await open_store("mine")
    with pytest.raises(BadInput, match="has another hash"):
        opened.verify()


async def test_a_copied_index_is_checked_once_and_then_trusted(
    built: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return file_hash(path)

    monkeypatch.setattr(store, "file_hash", counted)
    open_index(user_folder() / "mine")
    assert not hashed
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (user_folder() / "mine").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    open_index(copy)
    store._opened.cache_clear()
    open_index(copy)
    assert len(hashed) == 2


async def test_a_missing_file_and_a_damaged_manifest(built: Store) -> None:
    folder = user_folder() / "mine"
    files(folder)[1].unlink()
    store._opened.cache_clear()
    with pytest.raises(BadInput, match=r"its index lacks rows-.*parquet; build it again"):
        await open_store("mine")
    held = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**held, "rows": "many"}))
    with pytest.raises(BadInput, match=r"manifest in .* is damaged \(rows: "):
        await open_store("mine")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        await open_store("mine")


async def test_a_paper_perspective_without_an_index_says_how_to_get_one() -> None:
    with pytest.raises(BadInput, match=r"kold: no index in .*build kold --data DIR; the set is obtained from https://"):
        await open_stores(["kold"])


# ----------------------------------------------------------------------------------------------------------- LangChain


async def test_the_store_is_a_langchain_retriever(built: Store) -> None:
    retriever = built.as_retriever(k=2)
    found = await retriever.ainvoke("river bakery gardens")
    assert [each.page_content for each in found] == [
        each.text for each in await built.search("river bakery gardens", k=2)
    ]
    assert set(found[0].metadata) == {"perspective", "label", "label_name", "similarity", "row"}
    assert retriever.invoke("river bakery gardens") == found  # within a running loop too


class HashingForLangChain(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(number) for number in row] for row in Hashing().vectors(texts)]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def test_any_langchain_vector_store_can_stand_in(built: Store) -> None:
    vectors = InMemoryVectorStore(HashingForLangChain())
    names = ["hate", "Fine", "Fine"]  # by our name for a label, or the perspective's own
    await vectors.aadd_documents(
        [Document(text, metadata={"label": names[row % 3], "row": row}) for row, text in enumerate(TEXTS)]
    )
    other = VectorStoreSearcher(built.perspective, vectors)
    query = "river bakery window"
    ours, theirs = await built.search(query), await other.search(query)
    assert query not in [each.text for each in theirs]
    assert [each.similarity for each in theirs] == pytest.approx([each.similarity for each in ours], abs=1e-5)
    assert {each.text: each.label_name for each in theirs}.items() <= {
        text: "Fine" if row % 3 else "Rude" for row, text in enumerate(TEXTS)
    }.items()
    assert len(await other.search(query, k=400)) == 299
    assert await other.search(" ") == []
    found = await search_together([built, other], query)
    assert len(found) == 1  # both are of one perspective
    assert len(await other.as_retriever(k=1).ainvoke(query)) == 1


async def test_a_document_without_a_label_is_said(mine: Perspective) -> None:
    vectors = InMemoryVectorStore(HashingForLangChain())
    await vectors.aadd_documents([Document("a text")])
    with pytest.raises(BadInput, match="a document's label is None; it may be 'hate', 'not_hate', 'Rude', 'Fine'"):
        await VectorStoreSearcher(mine, vectors).search("text")


# ---------------------------------------------------------------------------------------------------------- real Korean


async def test_korean_rows_find_their_like_and_never_themselves() -> None:
    """K-MHaS's validation split, built and searched by rows of PREDICT's sample of it, as an evaluation would."""
    root = PROJECT
    korean = Path(os.environ.get("TRIBUNAL_SHARED_DATA") or root / "../shared/data") / "korean"
    if not (korean / "kmhas_valid.txt").exists():
        pytest.skip("kmhas_valid.txt is not here: set TRIBUNAL_SHARED_DATA to the folder that holds korean/")
    made = await build(find("kmhas"), korean)
    opened = await open_store("kmhas")
    assert made.rows == len(opened) == 8776
    own = [row.text for row in (opened._index.row(number) for number in range(0, 8776, 400))]
    for text in own:
        found = await opened.search(text)
        assert len(found) == 3
        assert text not in [each.text for each in found]
