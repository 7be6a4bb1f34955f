"""The default embedding: n-grams in any script, weighed as scikit-learn weighs them, in fewer dimensions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from tests import SHARED_DATA
from tests.retrievers.perspectives.mine import TEXTS
from tribunal.core.text import normalize_text
from tribunal.models.embeddings import Use, Vectors
from tribunal.retrievers.indexes import ngrams
from tribunal.retrievers.indexes.ngrams import (
    NgramEmbedder,
    count_ngrams,
    fit_ngrams,
    map_ngrams,
    write_ngrams,
)
from tribunal.retrievers.perspectives.perspective import find_perspective
from tribunal.retrievers.perspectives.store import PerspectiveStore, build_index, open_store


def grams_of(text: str) -> list[str]:
    """The same n-grams, the plain way."""
    words = f" {normalize_text(text)} " if normalize_text(text) else ""
    every = [words[start : start + n] for n in (1, 2, 3) for start in range(len(words) - n + 1)]
    return [gram for gram in every if len(gram) < 3 or gram[1] != " "]


MIXED = [
    *TEXTS[:200],
    "이 영화 정말 재미있다",
    "この映画は面白い",
    "😀😀😀 wow",
    "\ud800",
    "a" * 200,
    "\0\0",
    "-",
]


def embed(embedder: NgramEmbedder, texts: Sequence[str], use: Use = "passage") -> Vectors:
    return asyncio.run(embedder.embed(texts, use))


def test_few_texts_are_compared_as_scikit_learn_compares_whole_rows_of_tfidf() -> None:
    texts = [text for text in MIXED if text != "\ud800"]
    by_them = TfidfVectorizer(analyzer=grams_of, sublinear_tf=True)
    whole = by_them.fit_transform(texts)
    embedder = fit_ngrams(texts)
    rows = embed(embedder, texts)
    # Every direction that these texts have is kept, so that nothing is lost.
    assert rows @ rows.T == pytest.approx((whole @ whole.T).toarray(), abs=1e-3)
    queries = ["river bakery", texts[200], "재미있다 영화 zzz", "qqqq"]
    length = [np.linalg.norm(_weights(query, by_them, len(texts))) for query in queries]
    known = (by_them.transform(queries) @ whole.T).toarray() * _known_length(queries, by_them)[
        :, np.newaxis
    ]
    # An n-gram that no text has counts in the length of the query.
    expected = known / np.array(length)[:, np.newaxis]
    assert embed(embedder, queries, "query") @ rows.T == pytest.approx(expected, abs=1e-3)


def _weights(
    query: str, by_them: TfidfVectorizer, texts: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    grams = grams_of(query)
    rare = 1 + np.log(1 + texts)
    rarity = {gram: by_them.idf_[place] for gram, place in by_them.vocabulary_.items()}
    return np.array(
        [(1 + np.log(grams.count(gram))) * rarity.get(gram, rare) for gram in dict.fromkeys(grams)]
    )


def _known_length(
    queries: Sequence[str], by_them: TfidfVectorizer
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    alike = TfidfVectorizer(
        analyzer=grams_of, sublinear_tf=True, norm=None, vocabulary=by_them.vocabulary_
    )
    alike.idf_ = by_them.idf_
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.linalg.norm(
        alike.transform(queries).toarray(), axis=1
    )
    return found


def test_many_texts_keep_the_leading_directions_of_the_svd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "DIMENSION", 20)
    texts = [text for text in MIXED if text != "\ud800"]
    whole = TfidfVectorizer(analyzer=grams_of, sublinear_tf=True).fit_transform(texts)
    theirs = normalize(TruncatedSVD(20, algorithm="arpack").fit_transform(whole))
    embedder = fit_ngrams(texts)
    rows = embed(embedder, texts)
    assert embedder.dimension == 20
    assert rows @ rows.T == pytest.approx(theirs @ theirs.T, abs=1e-2)
    assert np.array_equal(embed(fit_ngrams(texts), texts), rows)


def test_a_text_has_the_same_vector_alone_and_among_others() -> None:
    embedder = fit_ngrams(MIXED)
    together = embed(embedder, MIXED)
    assert np.array_equal(together, np.concatenate([embed(embedder, [text]) for text in MIXED]))


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("이 영화 정말 재미있다", "이 영화 정말 재미없다", "내일 비가 온다고 한다"),
        ("この映画は面白い", "あの映画は面白い", "明日は雨が降る"),
        ("the film was great", "THE  ｆｉｌｍs were gre\u200bat", "it rains tomorrow"),
    ],
)
def test_similar_words_are_near_in_any_script(text: str, near: str, far: str) -> None:
    embedder = fit_ngrams([far, near])
    similarity = embed(embedder, [far, near]) @ embed(embedder, [text], "query")[0]
    assert similarity[1] > 2 * similarity[0]


def test_texts_with_nothing_in_them_are_near_to_none() -> None:
    texts = ["", " \u200b", "\ud800", "words"]
    embedder = fit_ngrams(texts)
    similarity = embed(embedder, texts) @ embed(embedder, ["words"], "query")[0]
    assert similarity.tolist()[:2] == [0, 0]
    assert similarity.argmax() == 3
    for blank in ([], [""], ["", ""]):
        assert embed(fit_ngrams(blank), ["words", ""], "query").tolist() == [[0], [0]]
    assert [len(part) for part in count_ngrams([])] == [0, 0, 1]


def test_what_was_fitted_is_mapped_and_not_read(tmp_path: Path) -> None:
    embedder = fit_ngrams(MIXED)
    write_ngrams(tmp_path / "ngrams.bin", embedder)
    found = map_ngrams(tmp_path / "ngrams.bin", embedder.dimension)
    assert np.array_equal(embed(found, MIXED), embed(embedder, MIXED))
    for held in (found.gram, found.rarity, found.shares):
        assert not held.flags.owndata
        assert not held.flags.writeable


async def shares(store: PerspectiveStore, numbers: list[int]) -> tuple[float, float]:
    """Of the three texts nearest to each of these, the share with its label, and, of hate, with one of its kinds."""
    same_label, same_kind = list[bool](), list[bool]()
    for number in numbers:
        query = store.index.row(number)
        for near in await store.search(query.text, 3):
            neighbour = store.index.row(near.row)
            same_label.append(neighbour.hate == query.hate)
            if query.hate:
                same_kind.append(bool({*neighbour.categories} & {*query.categories}))
    return sum(same_label) / len(same_label), sum(same_kind) / len(same_kind)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("perspective", "files", "label", "kind"),
    [
        ("kodoli", "kodoli.csv", 0.74, 0.36),
        ("unsmile", "unsmile_train.tsv", 0.69, 0.45),
        ("k-mhas", "kmhas_valid.txt", 0.64, 0.40),
    ],
)
async def test_the_nearest_share_the_label_and_the_kind(
    perspective: str, files: str, label: float, kind: float
) -> None:
    """Over the published sets: the shares among the three nearest."""
    korean = SHARED_DATA / "korean"
    if not (korean / files).exists():
        pytest.skip(
            f"{files} is not here: set TRIBUNAL_SHARED_DATA to the folder that holds korean/"
        )
    await build_index(find_perspective(perspective), korean)
    store = await open_store(perspective)
    drawn = sorted(random.Random(0).sample(range(len(store)), 2_000))
    same_label, same_kind = await shares(store, drawn)
    assert same_label >= label
    assert same_kind >= kind
