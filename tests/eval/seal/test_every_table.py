"""`tribunal verify` computes every table again: an experiment's, exported ones, and the output of a batch."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.test_runs import POSTS, evaluate, run, table
from tests.eval.experiments.commanded import arguments, called, scripted
from tests.eval.experiments.small_sets import write_small
from tests.eval.seal.test_sealed_run import verified
from tribunal.eval.seal.cells import CellDiffers, Recount


def files_of(folder: Path) -> Iterator[Path]:
    """The files that somebody may read: no locks, no cache."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in inside) and path.suffix != ".sqlite":
            yield path


def altered(content: bytes) -> bytes:
    """The content with one byte changed: a digit of a fraction where it has any, else one in the middle."""
    found = re.search(rb"(?<=[^\w.]0\.)\d", content)
    at = found.start() if found else len(content) // 2
    other = b"7" if content[at : at + 1] != b"7" else b"3"
    return content[:at] + other + content[at + 1 :]


@pytest.mark.long
def test_a_byte_altered_in_any_file_of_a_sealed_experiment_is_found_and_named(tmp_path: Path) -> None:
    sets, folder, archive = write_small(tmp_path / "sets"), Path("runs"), tmp_path / "sealed.zip"
    with scripted():
        ran = called(*arguments("run", "arcade-table8", sets, "--yes"))
    assert ran.exit_code == 0, ran.output
    for each in (folder, next(path.parent for path in folder.glob("*/run.json"))):
        assert run("export", str(each), "--to", "csv", "--out", str(each / "export")).exit_code == 0
    assert run("report", str(folder)).exit_code == 0
    status, said = verified(folder)  # nothing is sealed yet
    assert status == 0, said
    page, stored = folder / "table.csv", (folder / "table.csv").read_text("utf-8")
    row = next(at for at, line in enumerate(stored.splitlines(), 1) if re.search(r",0\.\d", line))
    page.write_bytes(altered(page.read_bytes()))
    assert f"table.csv: line {row}, column measured: stands as '0." in verified(folder)[1]
    page.write_text(stored, "utf-8")
    sealed = run("seal", str(folder), "--out", str(archive), "--texts")
    assert sealed.exit_code == 0, sealed.output
    assert verified(archive, "--seal", sealed.stdout.split()[-1])[0] == 0
    whole = [*files_of(folder)]
    with zipfile.ZipFile(archive) as packed:
        assert {str(path.relative_to(folder)) for path in whole} - {"seal.json"} <= {*packed.namelist()}
    for path in whole:
        content = path.read_bytes()
        path.write_bytes(altered(content))
        status, said = verified(folder)
        assert status, path
        assert str(path.relative_to(folder)) in said, (path, said)
        if path.name.startswith(("table.", "report.")) or (
            path.suffix == ".csv" and re.search(rb"[^\w.]0\.\d", content)
        ):
            assert re.search(r"stands as .*, and the results give", said), (path, said)
        path.write_bytes(content)
    assert verified(folder)[0] == 0


@pytest.mark.long
@pytest.mark.parametrize("out", ["OUT.CSV", "out.tsv", "out.jsonl", "out.parquet", "out/"])
def test_a_cell_that_a_batch_did_not_write_is_found(out: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table(tmp_path / "in.csv", [*POSTS, ("d", "=Good night.", "1", "w")])
    done = run("batch", str(tmp_path / "in.csv"), "--out", f"{tmp_path}/{out}", "--graph", "arcade")
    assert done.exit_code == 0, done.output
    place = tmp_path / out
    for each in (place, tmp_path / f"{place.name}.run"):
        assert verified(each)[0] == 0, verified(each)
    path = next(place.glob("*.parquet")) if place.is_dir() else place
    if place.is_dir():
        manifest = place / "_manifest.json"
        whole = manifest.read_bytes()
        parts = json.loads(whole)["parts"]
        for listed, says in (([], "no part has the result of place 0"), (parts * 2, "is there twice")):
            manifest.write_text(json.dumps({**json.loads(whole), "parts": listed}), "utf-8")
            assert says in verified(place)[1], verified(place)
        manifest.write_bytes(whole)
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        names, at = rows.column_names, rows.column_names.index("category")
        cells = rows.column(at).to_pylist()
        pq.write_table(rows.set_column(at, names[at], pa.array(["Racist", *cells[1:]])), path)
    else:
        path.write_bytes(path.read_bytes().replace(b"NotHate", b"NotHatf", 1))
    status, said = verified(place)
    assert status == 1, said
    assert path.name in said or "_manifest.json" in said, said
    if not place.is_dir():
        assert re.search(r"row \d, (column )?category: stands as '(Racist|NotHatf)', and the results give", said), said
    assert verified(tmp_path / f"{place.name}.run")[0] == 1


def test_exported_tables_are_computed_again_from_the_results(tmp_path: Path) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    for form in ("csv", "parquet"):
        assert run("export", str(folder), "--to", form, "--data", str(tmp_path / "posts.csv")).exit_code == 0
    assert verified(folder)[0] == 0
    Recount().compare_cell("a.csv", "", "", "0.3", "0.30000000000000004")  # as machines sum, and equal in JSON, too
    with pytest.raises(CellDiffers):
        Recount().compare_cell("a.csv", "", "", "0.3", "0.300000001")
    posts = folder / "export" / "posts.csv"
    posts.write_text(posts.read_text("utf-8").replace(",verdict,", ",refusal,", 1), "utf-8")
    assert (
        "export/posts.csv: row 1, column outcome: stands as 'refusal', and the results give 'verdict'"
        in (verified(folder)[1])
    )
