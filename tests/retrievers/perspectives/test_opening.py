"""Opening a store by name or by path, and what is found wrong with an index."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.retrievers.perspectives.mine import LETTERS, SPEC, Letters
from tribunal.errors import BadInput
from tribunal.process.files import hash_file
from tribunal.retrievers.indexes import manifest, text_index
from tribunal.retrievers.indexes.ngrams import NgramEmbedder, map_ngrams, write_ngrams
from tribunal.retrievers.perspectives.perspective import Perspective, perspectives_folder
from tribunal.retrievers.perspectives.store import (
    PerspectiveStore,
    build_index,
    open_index,
    open_store,
    open_stores,
)


async def test_an_index_is_opened_by_name_path_of_its_spec_and_path_of_its_folder(
    built: PerspectiveStore, tmp_path: Path
) -> None:
    for name in (
        "mine",
        str(perspectives_folder() / "mine.toml"),
        str(perspectives_folder() / "mine"),
    ):
        assert len(await open_store(name)) == 300
    # Built from a TOML file elsewhere, it is still known by its name.
    (perspectives_folder() / "mine.toml").rename(tmp_path / "mine.toml")
    assert (await open_store("mine")).perspective == built.perspective


async def test_a_criterion_may_change_after_building_and_a_source_may_not(
    built: PerspectiveStore,
) -> None:
    path = perspectives_folder() / "mine.toml"
    path.write_text(
        SPEC.replace('"Rude."', '"Very rude."').replace('hate = "Rude"', 'hate = "Gruff"', 1)
    )
    again = await open_store("mine")
    assert again.perspective.criterion == "Very rude."
    assert "Gruff" in {each.label_name for each in await again.search("river", k=20)}
    path.write_text(SPEC.replace('hate = ["1"]', 'hate = ["0"]'))
    with pytest.raises(
        BadInput,
        match=r"its \[source\] has changed .*build it again with: tribunal perspectives build",
    ):
        await open_store("mine")


async def test_another_embedding_than_the_index_has(built: PerspectiveStore) -> None:
    own = built.embedding
    with pytest.raises(
        BadInput,
        match=rf"built with the embedding {own}, not openai:small; ask for {own}, or build it again with: tribunal "
        r"perspectives build mine --data DIR --embedding openai:small --replace",
    ):
        await open_store("mine", embedding="openai:small")
    assert await open_store("mine", embedding=own)


async def test_an_embedding_that_gives_other_lengths_than_the_index_has(
    built: PerspectiveStore, tmp_path: Path
) -> None:
    class Short(Letters):
        dimension = 8

    await build_index(built.perspective, tmp_path / "rows", embedding=LETTERS, replace=True)
    held = (await open_store("mine")).index
    with pytest.raises(BadInput, match=rf"vectors of 64 numbers, and {LETTERS.name} now gives 8"):
        await PerspectiveStore(built.perspective, Short(), held).search("river")


def files(folder: Path) -> tuple[Path, Path]:
    [vectors], [rows] = folder.glob("index-*.*"), folder.glob("rows-*.bin")
    return vectors, rows


@pytest.mark.parametrize("which", [0, 1])
async def test_a_truncated_index(built: PerspectiveStore, which: int) -> None:
    path = files(perspectives_folder() / "mine")[which]
    copy = path.read_bytes()
    path.unlink()  # a new file: the old one is mapped by the store that is open
    path.write_bytes(copy[:-100])
    text_index.forget_mapped_files()
    with pytest.raises(
        BadInput,
        match=rf"truncated or changed: {path.name} has .* bytes, not .*build it again with",
    ):
        await open_store("mine")


@pytest.mark.parametrize("which", [0, 1])
async def test_a_tampered_index(built: PerspectiveStore, which: int) -> None:
    path = files(perspectives_folder() / "mine")[which]
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.unlink()
    path.write_bytes(changed)
    text_index.forget_mapped_files()
    with pytest.raises(
        BadInput, match=rf"changed since it was built: {path.name} has another hash; build it again"
    ):
        await open_store("mine")


async def test_a_change_that_hides_its_time_is_found_by_verify(built: PerspectiveStore) -> None:
    built.verify()
    path = files(perspectives_folder() / "mine")[0]
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.unlink()
    path.write_bytes(changed)
    assert built.manifest is not None
    built.manifest.note_verified(perspectives_folder() / "mine")
    text_index.forget_mapped_files()
    opened = await open_store("mine")
    with pytest.raises(BadInput, match="has another hash"):
        opened.verify()


async def test_a_copied_index_is_checked_once_and_then_trusted(
    built: PerspectiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return hash_file(path)

    monkeypatch.setattr(manifest, "hash_file", counted)
    open_index(perspectives_folder() / "mine")
    assert not hashed
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (perspectives_folder() / "mine").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    open_index(copy)
    text_index.forget_mapped_files()
    open_index(copy)
    assert built.manifest is not None
    assert len(hashed) == len(built.manifest.files)


async def test_a_missing_file_and_a_damaged_manifest(built: PerspectiveStore) -> None:
    folder = perspectives_folder() / "mine"
    files(folder)[1].unlink()
    text_index.forget_mapped_files()
    with pytest.raises(BadInput, match=r"its index lacks rows-.*bin; build it again"):
        await open_store("mine")
    held = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**held, "rows": "many"}))
    with pytest.raises(BadInput, match=r"manifest in .* is damaged \(rows: "):
        await open_store("mine")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        await open_store("mine")


async def test_a_paper_perspective_without_an_index_says_how_to_get_one() -> None:
    with pytest.raises(
        BadInput,
        match=r"kold: no index in .*build kold --data DIR; the set is obtained from https://",
    ):
        await open_stores(["kold"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("embedding", "way_out"),
    [
        ("hashing", "build mine --data DIR --replace"),
        ("openai:small", "--embedding openai:small --replace"),
    ],
)
async def test_an_index_of_an_older_version_says_so_and_how_to_get_a_new_one(
    built: PerspectiveStore, embedding: str, way_out: str
) -> None:
    folder = perspectives_folder() / "mine"
    held = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**held, "format": 1, "embedding": embedding}))
    with pytest.raises(
        BadInput, match=rf"built by another version \(format 1 by {embedding}, .* {way_out}"
    ):
        await open_store("mine")


async def test_kinds_of_hate_go_with_the_rows(built: PerspectiveStore) -> None:
    assert [built.index.row(number).categories for number in range(3)] == [("1",), (), ()]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shares": np.nan}, "holds numbers that can't be right"),
        ({"rarity": -1}, "can't be read"),
        ({"gram": 5}, "can't be read"),
    ],
)
async def test_an_index_whose_hashes_are_right_and_whose_numbers_are_not(
    mine: Perspective, tmp_path: Path, change: dict[str, float], says: str
) -> None:
    """As somebody else may hand one on."""
    made, folder = await build_index(mine, tmp_path / "rows"), perspectives_folder() / "mine"
    assert made.ngrams_file is not None
    fitted = map_ngrams(folder / made.ngrams_file.name, made.dimension)
    numbers = {name: np.array(getattr(fitted, name)) for name in ("gram", "rarity", "shares")}
    for name, number in change.items():
        numbers[name][:] = number
    write_ngrams(folder / "ngrams-000000000000.bin", NgramEmbedder(**numbers))
    note = manifest.note_file(folder / "ngrams-000000000000.bin")
    made.model_copy(update={"ngrams_file": note}).write(folder)
    with pytest.raises(BadInput, match=rf"{says}; build it again with"):
        await (await open_store("mine")).search("river bakery")


async def test_an_index_without_what_its_embedding_was_fitted_to_be(
    mine: Perspective, tmp_path: Path
) -> None:
    made, folder = await build_index(mine, tmp_path / "rows"), perspectives_folder() / "mine"
    made.model_copy(update={"ngrams_file": None}).write(folder)
    with pytest.raises(BadInput, match="lacks what tfidf was fitted to be; build it again with"):
        await open_store("mine")
