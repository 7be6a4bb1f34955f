"""A data set of one's own: named as module:object or by an entry point, with no edit of our files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import PROJECT
from tribunal import plugins
from tribunal.errors import BadInput
from tribunal.eval.datasets import DatasetSpec, describe_dataset, find_dataset, open_dataset

MODULE = '''
"""Posts of a forum: a JSON object of them, by their ids."""
from collections.abc import Iterator

from tribunal.eval.datasets import Dataset, DatasetSpec, Sample, binary_label


def read(dataset: Dataset) -> Iterator[Sample]:
    for row in dataset.keyed_rows(dataset.files[0]):
        removed = row.yes_or_no("removed")
        if removed is None:
            dataset.skip("undecided")
            continue
        gold = binary_label(removed, "removed" if removed else "kept")
        yield Sample(id=str(row.number), text=row.text("said"), gold=gold)


FORUM = DatasetSpec(
    name="our-forum", title="Our forum", task="hate", obtain="the moderation desk", licence="ours",
    splits={"2025": (("forum.json",),)}, default="2025", read=read,
)
'''
POSTS = {
    "a": {"said": "Immigrants are vermin.", "removed": "yes"},
    "b": {"said": "What a lovely morning.", "removed": "no"},
    "c": {"said": "Nobody has looked at this one.", "removed": ""},
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages with one that brings a data set, and what pip would note of it."""
    folder = tmp_path / "site"
    noted = folder / "our_forum-1.0.dist-info"
    noted.mkdir(parents=True)
    (folder / "our_forum.py").write_text(MODULE)
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: our-forum\nVersion: 1.0\n")
    (noted / "entry_points.txt").write_text("[tribunal.datasets]\nforum = our_forum:FORUM\n")
    (tmp_path / "forum.json").write_text(json.dumps(POSTS))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "our_forum", raising=False)
    plugins._declared.cache_clear()
    yield folder
    plugins._declared.cache_clear()


@pytest.mark.long
@pytest.mark.parametrize("name", ["our_forum:FORUM", "forum"])
def test_a_set_of_one_s_own_is_evaluated(site: Path, tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-c", "import tribunal; tribunal.main()", "eval", "--dataset", name, "--data",
               str(tmp_path), "--graph", "baseline", "--model", "rehearsal", "--out", str(tmp_path / "run"),
               "--json"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(site)])}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "our-forum: 1 rows were left out: undecided 1" in done.stderr
    measured = json.loads(done.stdout)["metrics"]
    assert (measured["n"], measured["failures"]) == (2, 0)
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    ]
    assert {line["post_id"]: line["gold"]["name"] for line in lines} == {
        "a": "removed",
        "b": "kept",
    }
    data = json.loads((tmp_path / "run" / "run.json").read_bytes())["data"]
    assert (data["name"], data["split"], data["files"]) == ("our-forum", "2025", ["forum.json"])


def test_its_errors_and_its_description_are_as_those_of_ours(site: Path, tmp_path: Path) -> None:
    assert describe_dataset("our_forum:FORUM").startswith(
        "our-forum: Our forum\ntask: hate\nobtained from: the moderation"
    )
    (tmp_path / "forum.json").write_text(json.dumps({"a": {"said": "x", "removed": "perhaps"}}))
    with pytest.raises(
        BadInput,
        match=r"data set our-forum: forum\.json row a: removed = 'perhaps': is not 1 or true",
    ):
        list(open_dataset("our_forum:FORUM", tmp_path))
    (tmp_path / "forum.json").unlink()
    with pytest.raises(BadInput, match=r"has no forum\.json; .*obtained from the moderation desk"):
        open_dataset("our_forum:FORUM", tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "our_forum:read",
            "dataset: our_forum:read: our_forum:read is a function, and not a DatasetSpec",
        ),
        ("our_forum:NONE", "dataset: our_forum:NONE: .* can't be loaded: "),
        ("no_such_module:SET", "dataset: no_such_module:SET: .* can't be loaded: No module named"),
        (
            "forun",
            r"'forun': there is none of that name; did you mean forum\?.*there are h-vli, .* table, forum; or name one",
        ),
    ],
)
def test_what_is_no_set_is_refused_and_not_called(site: Path, name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_dataset(name)


def test_a_set_can_t_be_called_as_one_of_ours_is(site: Path) -> None:
    (site / "theirs.py").write_text(
        "from tribunal.eval.datasets import DATASETS\nSET = DATASETS['fhm']\n"
    )
    with pytest.raises(
        BadInput,
        match="dataset: theirs:SET: it is called 'fhm', as a set of Tribunal is; give it ano",
    ):
        find_dataset("theirs:SET")


def test_the_default_is_one_of_the_splits() -> None:
    with pytest.raises(BadInput, match="data set mine: default: 'test': is none of train"):
        DatasetSpec(
            "mine",
            "Mine",
            "hate",
            "me",
            "mine",
            {"train": (("a.csv",),)},
            "test",
            lambda _: iter(()),
        )
