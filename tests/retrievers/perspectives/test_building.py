"""Building an index, and going on with a build that was stopped."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT
from tests.retrievers.perspectives.mine import LETTERS, TEXTS, Counting, write_rows
from tribunal.errors import BadInput, CallFailed
from tribunal.retrievers.indexes import text_index
from tribunal.retrievers.perspectives import store as stores
from tribunal.retrievers.perspectives.perspective import (
    Perspective,
    find_perspective,
    perspectives_folder,
)
from tribunal.retrievers.perspectives.store import PerspectiveManifest, build_index, open_store


@pytest.mark.parametrize(
    ("embedding", "dimension", "fitted"),
    [("tfidf", 29, True), (LETTERS.name, 64, False)],
)
async def test_a_build_says_what_it_was_made_from(
    mine: Perspective, tmp_path: Path, embedding: str, dimension: int, fitted: bool
) -> None:
    steps: list[tuple[int, int]] = []
    made = await build_index(
        mine,
        tmp_path / "rows",
        embedding=embedding,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert (made.rows, made.hate, made.not_hate, made.skipped) == (300, 100, 200, 0)
    assert (made.embedding, made.dimension, made.ngrams_file is not None) == (
        embedding,
        dimension,
        fitted,
    )
    assert [source.name for source in made.sources] == ["rows.csv"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made.built)
    assert steps[0] == (0, 300)
    assert steps[-1] == (300, 300)
    folder = perspectives_folder() / "mine"
    assert PerspectiveManifest.model_validate_json((folder / "manifest.json").read_bytes()) == made
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "verified.json",
        *(note.name for note in made.files),
    }
    # No path of this machine, and nothing that would run code when it is read.
    assert str(tmp_path) not in (folder / "manifest.json").read_text()
    assert (folder / made.index_file.name).read_bytes().startswith(b"IxFI")
    first = json.loads((folder / made.rows_file.name).read_bytes().splitlines()[0])
    assert [type(each) for each in first] == [str, bool, list]


async def test_a_stopped_build_goes_on_where_it_was(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "BATCH", 64)
    first = Counting(fails_after=2)
    with pytest.raises(CallFailed, match="the line is dead"):
        await build_index(mine, tmp_path / "rows", embedding=first)
    assert first.asked == TEXTS[:128]
    with pytest.raises(
        BadInput,
        match=r"perspective mine: no index in .*tribunal perspectives build mine --data DIR",
    ):
        await open_store("mine")
    [_, last] = sorted((perspectives_folder() / "mine" / "partial").glob("*.npy"))
    last.with_name(f".{last.name}.0a1b2c3d.part").write_bytes(b"half a batch, as a kill leaves it")
    second, steps = Counting(), list[tuple[int, int]]()
    await build_index(
        mine,
        tmp_path / "rows",
        embedding=second,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert second.asked == TEXTS[128:]
    assert steps[0] == (128, 300)
    assert (first.uses, second.uses) == ({"passage"}, {"passage"})
    [found] = await (await open_store("mine")).search(TEXTS[140] + " x", k=1)
    assert sorted(found.text.split()) == sorted(TEXTS[140].split())


@pytest.mark.long
def test_a_killed_build_goes_on(mine: Perspective, tmp_path: Path) -> None:
    """A process that is killed in the midst leaves what the next one goes on from."""
    code = f"""
import asyncio, pathlib, time
from tribunal.retrievers.indexes import text_index
from tribunal.retrievers.perspectives.store import build_index
from tribunal.retrievers.perspectives.perspective import find_perspective
from tests.retrievers.perspectives.mine import LETTERS
text_index.BATCH = 32
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.05)
asyncio.run(build_index(find_perspective("mine"), pathlib.Path({str(tmp_path / "rows")!r}), embedding=LETTERS,
    progress=slowly))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() not in ("96", ""):
            pass
        with pytest.raises(BadInput, match="another process is building it"):
            asyncio.run(build_index(mine, tmp_path / "rows", embedding=LETTERS))
        process.kill()
    going_on = Counting()
    made = asyncio.run(build_index(mine, tmp_path / "rows", embedding=going_on))
    assert made.rows == 300
    assert 0 < len(going_on.asked) <= 300 - 96


async def test_other_rows_begin_anew(
    mine: Perspective, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "BATCH", 64)
    with pytest.raises(CallFailed):
        await build_index(mine, tmp_path / "rows", embedding=Counting(fails_after=2))
    write_rows(tmp_path, TEXTS[::-1])
    again = Counting()
    await build_index(mine, tmp_path / "rows", embedding=again)
    assert again.asked == TEXTS[::-1]


@pytest.mark.parametrize("embedding", ["tfidf", LETTERS.name])
async def test_building_again_replaces_the_index_and_leaves_nothing_over(
    mine: Perspective, tmp_path: Path, embedding: str
) -> None:
    before = await build_index(mine, tmp_path / "rows")
    opened = await open_store("mine")
    write_rows(tmp_path, TEXTS[:60])
    after = await build_index(mine, tmp_path / "rows", embedding=embedding, replace=True)
    assert before.source_sha256 != after.source_sha256
    assert len(list((perspectives_folder() / "mine").iterdir())) == 2 + len(after.files)
    assert len(await open_store("mine")) == 60
    # The one that was open before still answers, from the files that it holds.
    assert len(await opened.search(TEXTS[250])) == 3


async def test_rows_without_a_text_are_left_out_and_counted(
    mine: Perspective, tmp_path: Path
) -> None:
    write_rows(tmp_path, ["", " ", *TEXTS[:10]])
    made = await build_index(mine, tmp_path / "rows")
    assert (made.rows, made.skipped) == (10, 2)


@pytest.mark.parametrize(("label", "name"), [("0", "'Rude' (hate)"), ("1", "'Fine' (not_hate)")])
async def test_no_rows_of_one_label(
    mine: Perspective, tmp_path: Path, label: str, name: str
) -> None:
    (tmp_path / "rows" / "rows.csv").write_text(f"text,label\na,{label}\nb,{label}\n")
    with pytest.raises(
        BadInput,
        match=rf"none of the 2 rows of rows\.csv is {re.escape(name)}; check source\.label",
    ):
        await build_index(mine, tmp_path / "rows")


async def test_the_same_index_is_built_again_and_another_is_not_overwritten(
    mine: Perspective, tmp_path: Path
) -> None:
    made = await build_index(mine, tmp_path / "rows")
    again = await build_index(mine, tmp_path / "rows")
    assert (again.files, again.spec_sha256) == (made.files, made.spec_sha256)
    # Its criterion is no part of what is looked up; the rule of its labels is.
    await build_index(mine.model_copy(update={"criterion": "Very rude."}), tmp_path / "rows")
    other_rule = mine.model_copy(update={"source": find_perspective("kodoli").source})
    (tmp_path / "rows" / "kodoli.csv").write_text("sentences,offensiveness\na,OFFEN\nb,NOT\n")
    folder = perspectives_folder() / "mine"
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    said = (
        rf"perspective mine: {folder}: holds another index: 300 texts of rows\.csv \(sha256 [0-9a-f]{{12}}\), "
        r"by tfidf, built .*; give --replace to overwrite it, or --out for another folder"
    )
    with pytest.raises(BadInput, match=said):
        await build_index(other_rule, tmp_path / "rows")
    asked = Counting()
    with pytest.raises(BadInput, match=said):
        await build_index(mine, tmp_path / "rows", embedding=asked)
    assert not asked.asked  # refused before anything is paid for
    write_rows(tmp_path, TEXTS[:60])
    with pytest.raises(BadInput, match=said):
        await build_index(mine, tmp_path / "rows")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == held
    assert (await build_index(mine, tmp_path / "rows", replace=True)).rows == 60


async def test_one_that_ended_meanwhile_is_not_overwritten_either(
    mine: Perspective, tmp_path: Path
) -> None:
    """Two builds of one name: the second gets the lock when the first is done, and looks again."""
    write_rows(tmp_path, TEXTS[:60])
    looked = stores._refuse_to_overwrite
    folder = perspectives_folder() / "mine"

    def beaten(*given: object) -> None:
        looked(*given)  # type: ignore[arg-type]
        if not (folder / "manifest.json").exists():
            asyncio.run(build_index(mine, tmp_path / "rows", embedding=LETTERS, replace=True))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_refuse_to_overwrite", beaten)
        with pytest.raises(BadInput, match=rf"holds another index: 60 texts .* by {LETTERS.name}"):
            await build_index(mine, tmp_path / "rows")


@pytest.mark.parametrize("held", ["{", '{"format": 1, "embedding": "hashing"}'])
async def test_what_can_not_be_read_is_not_overwritten(
    mine: Perspective, tmp_path: Path, held: str
) -> None:
    await build_index(mine, tmp_path / "rows")
    (perspectives_folder() / "mine" / "manifest.json").write_text(held)
    with pytest.raises(
        BadInput, match="holds an index that this version can't read; give --replace"
    ):
        await build_index(mine, tmp_path / "rows")
    assert (await build_index(mine, tmp_path / "rows", replace=True)).rows == 300
