"""A perspective of one's own with 300 rows: before it is built, and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.retrievers.perspectives.mine import LETTERS, SPEC, TEXTS, write_rows
from tribunal.retrievers.perspectives.perspective import (
    Perspective,
    find_perspective,
    perspectives_folder,
)
from tribunal.retrievers.perspectives.store import PerspectiveStore, build_index, open_store


@pytest.fixture
def mine(tmp_path: Path) -> Perspective:
    """A perspective of one's own with 300 rows, every third of them hate, in data/rows.csv."""
    perspectives_folder().mkdir(parents=True)
    (perspectives_folder() / "mine.toml").write_text(SPEC)
    (tmp_path / "rows").mkdir()
    write_rows(tmp_path, TEXTS)
    return find_perspective("mine")


@pytest.fixture(params=["tfidf", LETTERS.name])
async def built(
    mine: Perspective, tmp_path: Path, request: pytest.FixtureRequest
) -> PerspectiveStore:
    """Its store: by n-grams, and by the vectors of an embedding."""
    await build_index(mine, tmp_path / "rows", embedding=request.param)
    return await open_store("mine")
