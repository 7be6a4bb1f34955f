"""Hugging Face datasets as `save_to_disk` writes them: Arrow streams with state.json and dataset_info.json beside."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.datasets.locations import parse_location
from tribunal.eval.datasets.table_files import find_table_files


def save_to_disk(folder: Path, shards: int = 2, start: int = 0) -> Path:
    """Write a data set of two rows a shard as the library lays it out."""
    folder.mkdir(parents=True)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    for shard, name in enumerate(names):
        numbers = [start + 2 * shard, start + 2 * shard + 1]
        table = pa.table({"text": [f"post {number}" for number in numbers], "label": [0, 1]})
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as stream,
        ):
            stream.write_table(table)
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": name} for name in names]})
    )
    (folder / "dataset_info.json").write_text(
        json.dumps({"features": {"text": {"dtype": "string"}}})
    )
    (folder / "cache-0123456789abcdef.arrow").write_bytes(b"of a former map")
    return folder


def test_its_rows_are_read_in_the_order_of_its_shards(tmp_path: Path) -> None:
    posts = list(open_dataset("table", save_to_disk(tmp_path / "saved")))
    assert [post.text for post in posts] == [f"post {number}" for number in range(4)]
    assert [post.gold and post.gold.positive for post in posts] == [False, True, False, True]


def test_a_folder_of_several_splits_names_them(tmp_path: Path) -> None:
    for split in ("test", "train"):
        save_to_disk(tmp_path / split)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(BadInput, match=r"splits test, train; give the folder of one: --data "):
        open_dataset("table", tmp_path)
    assert len(list(open_dataset("table", tmp_path / "test"))) == 4


def test_a_batch_reads_its_tables_only(tmp_path: Path) -> None:
    place = parse_location(str(save_to_disk(tmp_path / "saved")))
    files = find_table_files(place, tmp_path / "copies").files
    assert [file.path.name for file in files] == [
        "data-00000-of-00002.arrow",
        "data-00001-of-00002.arrow",
    ]


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved")
    (folder / "data-00001-of-00002.arrow").write_bytes(b"no stream")
    with pytest.raises(BadInput, match=r"data-00001-of-00002.arrow: not an Arrow stream"):
        list(open_dataset("table", folder))
