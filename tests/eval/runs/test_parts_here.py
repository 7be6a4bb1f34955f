"""A batch of one machine says from the start how far it is, and writes Parquet parts as it goes if OUT is a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tribunal.eval.batch import batch
from tribunal.eval.runs import parts
from tribunal.runner.job import RunOptions
from tribunal.runner.tally import RunTally

ROWS = 60


def table(folder: Path) -> Path:
    """Rows that can't be judged, and a few that can."""
    rows = "".join(
        f"p{at},{'Good morning.' if at % 20 == 0 else ''},note {at}\n" for at in range(ROWS)
    )
    (folder / "in.csv").write_text(f"id,text,note\n{rows}")
    return folder / "in.csv"


def decide(posts: Path, out: str, watch: Any = lambda tally: None) -> RunTally:
    options = RunOptions(in_flight=4, watch=watch, stop_after_failures=0)
    return batch(posts, out, options, graph="baseline", settings={})


def test_parts_come_while_the_run_goes_on_and_a_stopped_run_goes_on_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_ROWS", 3)
    monkeypatch.setattr(parts, "_PARTS_OF_A_SIZE", 2)
    posts, out = table(tmp_path), tmp_path / "out"
    written = list[int]()

    def stop_halfway(tally: RunTally) -> None:
        written.append(len(list(out.glob("*.parquet"))))
        if tally.done > ROWS // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decide(posts, f"{out}/", stop_halfway)
    assert max(written) >= 2
    again = decide(posts, f"{out}/")
    assert again.before > ROWS // 2
    decided = ds.dataset(out).to_table().to_pylist()
    assert sorted(row["place"] for row in decided) == list(range(ROWS))
    assert {row["outcome"] for row in decided if row["text"]} == {"verdict"}
    assert all(row["note"] == f"note {row['place']}" for row in decided)
    sizes = [each.count_rows() for each in ds.dataset(out).get_fragments()]
    assert max(sizes) > 3  # later parts are larger


def test_the_reading_and_the_writing_are_told_of(tmp_path: Path) -> None:
    told = list[str]()
    decide(table(tmp_path), str(tmp_path / "out.csv"), lambda tally: told.append(tally.preparing))
    assert told[0] == "reading in.csv: 0 rows"
    assert told[-1] == f"writing out.csv: {ROWS} of {ROWS} rows"
    assert "" in told
