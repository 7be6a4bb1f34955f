"""Search by n-grams: exact, in any script, and the same as scikit-learn's where both weigh alike."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from tests import SHARED_DATA
from tests.retrievers.perspectives.mine import TEXTS
from tribunal.eval.bench.neighbours import neighbours, shares
from tribunal.retrievers.perspectives.building import build
from tribunal.retrievers.perspectives.grams import counted
from tribunal.retrievers.perspectives.opening import open_store
from tribunal.retrievers.perspectives.perspective import Perspective, find, user_folder
from tribunal.retrievers.perspectives.sparse import map_sparse, weighed, write_sparse
from tribunal.retrievers.perspectives.words import plain


def grams_of(text: str) -> list[str]:
    """The same n-grams, the plain way."""
    words = f" {plain(text)} " if plain(text) else ""
    every = [words[start : start + n] for n in (1, 2, 3) for start in range(len(words) - n + 1)]
    return [gram for gram in every if len(gram) < 3 or gram[1] != " "]


TOLD = [*TEXTS[:200], "이 영화 정말 재미있다", "この映画は面白い", "😀😀😀 wow", "\ud800", "a" * 200, "\0\0", "-"]


def test_it_weighs_and_compares_as_scikit_learn_does() -> None:
    texts = [text for text in TOLD if text != "\ud800"]
    by_them = TfidfVectorizer(analyzer=grams_of, sublinear_tf=True)
    rows = by_them.fit_transform(texts)
    index = weighed(texts)
    assert index.dimension == rows.shape[1]
    for query in (texts[7], "river bakery", texts[200], "재미있다 영화", texts[202]):
        similarity, number = index.nearest(query, len(texts))
        theirs = (rows @ by_them.transform([query]).T).toarray()[:, 0]
        if query in texts:  # else, n-grams that no text has count in the length of ours, and not of theirs
            assert similarity == pytest.approx(theirs[number], abs=1e-5)
        assert list(np.sort(number)) == list(range(len(texts)))
        assert (np.diff(theirs[number]) <= 1e-6).all()


def test_equal_ones_come_in_their_order_and_counts_are_whole_over_batches() -> None:
    index = weighed(["same words"] * 3000 + ["other"])
    similarity, number = index.nearest("same words", 5)
    assert number.tolist() == [0, 1, 2, 3, 4]
    assert similarity == pytest.approx([1.0] * 5)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("이 영화 정말 재미있다", "이 영화 정말 재미없다", "내일 비가 온다고 한다"),
        ("この映画は面白い", "あの映画は面白い", "明日は雨が降る"),
        ("the film was great", "THE  ｆｉｌｍs were gre\u200bat", "it rains tomorrow"),
    ],
)
def test_similar_words_are_near_in_any_script(text: str, near: str, far: str) -> None:
    similarity, number = weighed([far, near]).nearest(text, 2)
    assert number.tolist() == [1, 0]
    assert similarity[0] > 2 * similarity[1]


def test_texts_with_nothing_in_them_are_near_to_none() -> None:
    index = weighed(["", " \u200b", "\ud800", "words"])
    similarity, number = index.nearest("words", 4)
    assert number[0] == 3
    assert similarity.tolist()[2:] == [0, 0]
    assert np.isfinite(similarity).all()
    assert weighed(["", ""]).nearest("words", 2)[0].tolist() == [0, 0]
    assert [len(part) for part in counted([])] == [0, 1, 0, 0]


def test_it_is_mapped_and_not_read(tmp_path: Path) -> None:
    index = weighed(TOLD)
    write_sparse(tmp_path / "index.arrow", index)
    found = map_sparse(tmp_path / "index.arrow")
    for name in ("gram", "start", "row", "times", "length"):
        held = getattr(found, name)
        assert np.array_equal(held, getattr(index, name))
        assert not held.flags.owndata
        assert not held.flags.writeable


@pytest.mark.parametrize(
    ("perspective", "files", "label", "kind"),
    [("unsmile", "unsmile_train.tsv", 0.678, 0.357), ("k-mhas", "kmhas_valid.txt", 0.611, 0.320)],
)
async def test_it_finds_more_of_the_same_kind_than_hashed_vectors_did(
    perspective: str, files: str, label: float, kind: float
) -> None:
    """Over the published sets: the shares among the three nearest, held against those of the default before it."""
    korean = SHARED_DATA / "korean"
    if not (korean / files).exists():
        pytest.skip(f"{files} is not here: set TRIBUNAL_SHARED_DATA to the folder that holds korean/")
    await build(find(perspective), korean)
    store = await open_store(perspective)
    same_label, same_kind = await shares(store, list(range(0, len(store), len(store) // 1000)))
    assert float(same_label) > label
    assert float(same_kind) > kind + 0.03


def test_the_benchmark_prints_the_table_of_ones_own_indexes(
    mine: Perspective, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    neighbours(True)
    assert "build one with: tribunal perspectives build NAME --data DIR" in capsys.readouterr().out
    asyncio.run(build(mine, tmp_path / "rows"))
    asyncio.run(build(mine, tmp_path / "rows", out=user_folder() / "again"))
    (user_folder() / "again" / "mine" / "manifest.json").write_text("{")
    neighbours(True)
    out = capsys.readouterr().out
    [own] = [line for line in out.splitlines() if line.startswith("| mine")]
    assert own.split("|")[1:5] == [" mine ", " tfidf ", " 300 ", " 100 "]
    assert 0 < float(own.split("|")[5]) < 1
    assert "is damaged" in next(line for line in out.splitlines() if line.startswith("| again/mine"))
