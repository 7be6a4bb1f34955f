"""The index of vectors: exact or at half precision, and its recall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.retrievers.perspectives.mine import LETTERS, TEXTS
from tribunal.retrievers.perspectives import dense
from tribunal.retrievers.perspectives.building import build
from tribunal.retrievers.perspectives.opening import open_store
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.retrievers.perspectives.vector_file import VectorFile


async def test_large_sets_are_kept_at_half_precision_with_their_recall(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "LARGEST_EXACT", 1000)
    made = await build(mine, tmp_path / "rows", embedding=LETTERS)
    assert made.index == "half"
    assert 0.95 <= made.recall_at_3 <= 1
    assert made.index_file.bytes < 300 * 64 * 2 + 1000
    found = await (await open_store("mine")).search(TEXTS[5] + "!x", k=1)
    assert sorted(found[0].text.split()) == sorted(TEXTS[5].split())


async def test_below_the_least_recall_vectors_are_kept_whole(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "LARGEST_EXACT", 1000)
    monkeypatch.setattr(dense, "recall_at_3", lambda index, vectors: 0.94)
    made = await build(mine, tmp_path / "rows", embedding=LETTERS)
    assert (made.index, made.recall_at_3) == ("exact", 1.0)


async def test_recall_is_measured_against_exact_search(tmp_path: Path) -> None:
    import faiss

    rows = np.random.default_rng(0).standard_normal((900, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    held = VectorFile(tmp_path)
    held.append(rows)
    right = faiss.IndexFlatIP(16)
    right.add(rows)
    assert dense.recall_at_3(right, held) == 1.0
    wrong = faiss.IndexFlatIP(16)
    wrong.add(rows[::-1].copy())
    assert dense.recall_at_3(wrong, held) < 0.1
