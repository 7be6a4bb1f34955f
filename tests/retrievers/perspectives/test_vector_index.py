"""The index of vectors: exact, and not trusted."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from tribunal.retrievers.indexes.text_index import index_vectors, map_vectors, search_vectors


def draw(rows: int, dimension: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    drawn = np.random.default_rng(0).standard_normal((rows, dimension)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def test_the_nearest_of_all_come_first_from_memory_and_from_a_mapped_file(tmp_path: Path) -> None:
    rows = draw(900, 16)
    faiss.write_index(index_vectors(rows), str(tmp_path / "index.faiss"))
    for index in (index_vectors(rows), map_vectors(tmp_path / "index.faiss", 900, 16)):
        similarity, number = search_vectors(index, rows[7], 50)
        products = rows @ rows[7]
        assert number.tolist() == np.argsort(-products)[:50].tolist()
        assert similarity == pytest.approx(products[number], abs=1e-5)


def test_equal_ones_come_in_their_order() -> None:
    rows = np.repeat(draw(2, 16), [300, 1], axis=0)
    similarity, number = search_vectors(index_vectors(rows), rows[0], 5)
    assert number.tolist() == [0, 1, 2, 3, 4]
    assert similarity == pytest.approx([1.0] * 5)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_can_not_be_right_are_an_error(wrong: float) -> None:
    rows = draw(9, 16)
    rows[3] = wrong
    with pytest.raises(ValueError, match="numbers that can't be right"):
        search_vectors(index_vectors(rows), rows[0], 9)


def test_a_file_of_another_shape_is_none(tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    faiss.write_index(index_vectors(draw(9, 16)), str(path))
    for rows, dimension in ((8, 16), (9, 15)):
        with pytest.raises(ValueError, match="not an index of this shape"):
            map_vectors(path, rows, dimension)
    whole = path.read_bytes()
    path.write_bytes(whole[:-80])
    with pytest.raises(ValueError, match="its size doesn't fit its shape"):
        map_vectors(path, 9, 16)
