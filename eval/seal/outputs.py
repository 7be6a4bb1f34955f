"""Compute again what was made of runs: an experiment's table, exported tables, and the output of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from tribunal import __version__
from tribunal.case_decider import find_case_decider
from tribunal.errors import BadInput
from tribunal.eval.experiments.plan import read_experiment_table
from tribunal.eval.experiments.rendering import render_table
from tribunal.eval.experiments.table import TABLE
from tribunal.eval.export.frames import Form, write_frames
from tribunal.eval.export.results import export_tables, runs_to_export
from tribunal.eval.report import FIGURES, LATEX, PAGE, TEXT, write_report
from tribunal.eval.runs.journal import RESULTS, parse_result, read_line_starts
from tribunal.eval.runs.parts import MANIFEST, OWN, Manifest
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.results import find_run_folders, read_full_line, read_run_file
from tribunal.eval.runs.tables import COLUMNS, FORMATS, OutputColumns, escape_formula, read_records_in_order
from tribunal.eval.seal.cells import CellDiffers, Recount, as_csv_cell, read_stored_rows
from tribunal.files import MOST_LINE, read_regular, read_text
from tribunal.schema import JSON
from tribunal.text import parse_json, wellformed

EXPORTS = "export"
_FORMS: tuple[Form, ...] = ("parquet", "csv")
_WRITTEN_AS = ".run"  # ends the folder of a batch's run, which is called as its output


def check_experiment_table(folder: Path, recount: Recount) -> None:
    """Build the table of an experiment from its runs, and compare each file that it was written as."""
    try:
        stored = parse_json(read_regular(folder / TABLE))
        table = read_experiment_table(folder)
    except (OSError, ValueError, BadInput) as error:
        raise CellDiffers(
            f"{TABLE}: doesn't say how it was made ({error}); run the experiment again, which writes it anew"
        ) from error
    written = render_table(table)
    same_version = are_of_this_version(find_run_folders([folder]))
    recount.compare_values(TABLE, stored, parse_json(written.pop(TABLE)), older=not same_version)
    for name, text in written.items():
        if (folder / name).exists() and (name.endswith(".csv") or same_version):
            recount.compare_text(name, folder / name, text)


def are_of_this_version(runs: Sequence[Path]) -> bool:
    """Return whether this version made the runs: another one may word a page otherwise."""
    return all(read_run_file(run).get("tribunal") == __version__ for run in runs)


def check_exports(folder: Path, runs: Sequence[Path], recount: Recount) -> None:
    """Export the runs again, and compare the tables in a folder's `export` with that.

    What isn't in a run's folder can't be compared: words that were laid beside its posts, and costs by other prices.
    """
    for form in _FORMS:
        names = [name for name in export_tables() if (folder / EXPORTS / f"{name}.{form}").is_file()]
        if not names:
            continue
        sources = runs_to_export(runs)
        if len(sources) == 1:  # an archive is unpacked into a folder of another name
            rows = chain.from_iterable(read_stored_rows(folder / EXPORTS / f"{name}.{form}") for name in names)
            sources = [sources[0]._replace(name=str(next(rows, {}).get("run")))]
        unknown = {"text"} if all(each.prices for each in sources) else {"text", "cost"}
        with TemporaryDirectory(prefix="tribunal-verify-") as made:
            write_frames(sources, Path(made), form)
            for name in names:
                recomputed = read_stored_rows(Path(made) / f"{name}.{form}")
                known = (
                    {column: value for column, value in row.items() if value not in (None, "") or column not in unknown}
                    for row in recomputed
                )
                file = f"{EXPORTS}/{name}.{form}"
                recount.compare_rows(file, read_stored_rows(folder / file), known)


def check_report(folder: Path, runs: Sequence[Path], recount: Recount) -> None:
    """Write the report in a folder again, as its report.json says it was made, and compare its figures and pages.

    A report on other runs can't be written again, nor one of an older version that doesn't say how it was made: it is
    noted as unchecked. Of runs by another version, or whose pages say what lies outside their folders, the figures
    alone are compared.
    """
    path = folder / FIGURES
    if not path.is_file():
        return
    try:
        stored = parse_json(read_regular(path))
        names, made = [run["name"] for run in stored["runs"]], stored.get("made")
        options = made and {
            "most": made["transcripts"],
            "cluster": made["cluster"],
            "prices": made["prices"] and Prices.model_validate(made["prices"]),
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CellDiffers(f"{recount.place}{FIGURES}: can't be read: {error}") from error
    by_name, same_version = {run.resolve().name: run for run in runs}, are_of_this_version(runs)
    if not made and same_version:
        raise CellDiffers(f"{recount.place}{FIGURES}: made: is missing")
    if not made or set(names) != by_name.keys():
        recount.unchecked.append(f"{recount.place}{FIGURES}")
        return
    apart = any(held.get("first_look") or held.get("final") for held in map(read_run_file, runs))
    pages = () if apart or not same_version else (PAGE, TEXT, LATEX)
    with TemporaryDirectory(prefix="tribunal-verify-") as again:
        write_report([by_name[name] for name in names], Path(again), **options)
        recomputed = parse_json(read_regular(Path(again) / FIGURES))
        for run in (*stored["runs"], *recomputed["runs"]):
            if isinstance(measured := run.get("measured"), dict):
                measured.pop("fitted_on", None)
        recount.compare_values(FIGURES, stored, recomputed, older=not same_version)
        for name in pages:
            if (folder / name).exists():
                recount.compare_text(name, folder / name, read_text(Path(again) / name, MOST_LINE))


def find_batch_run(out: Path) -> Path | None:
    """Return the folder of the run whose output this file or folder is, or None if there is none."""
    out = out.resolve()
    if not out.name:
        return None
    folder = out.with_name(f"{out.name}{_WRITTEN_AS}")
    is_output = out.suffix.casefold() in FORMATS or (out / MANIFEST).is_file()
    return folder if is_output and folder.is_dir() else None


def find_batch_output(run: Path) -> Path | None:
    """Return the file or folder that a batch's run was written to, beside its folder, or None if there is none."""
    run = run.resolve()
    out = run.parent / run.name.removesuffix(_WRITTEN_AS)
    return out if out.exists() and find_batch_run(out) == run else None


def check_batch_output(out: Path, run: Path, recount: Recount) -> None:
    """Compare what a batch wrote with the results of its run, row by row. Cells of the input aren't in its folder.

    Raises:
        CellDiffers: which cell differs.
    """
    if out.is_dir():
        _check_parts(out, run, recount)
        return
    stored, records = read_stored_rows(out), read_records_in_order(run / RESULTS, read_run_file(run)["n"])
    if out.suffix.casefold() == ".jsonl":
        expected: Iterator[JSON] = ({**each, **find_case_decider(each)._asdict()} for each in records)
        pairs: Iterator[tuple[JSON, JSON]] = zip_longest(stored, expected, fillvalue={})
        for number, (then, now) in enumerate(pairs, start=1):
            recount.compare_values(out.name, then, now, row=f"row {number}", leave_out=("input",))
        return
    first = next(stored, {})
    columns = OutputColumns([*first][: len(first) - len(COLUMNS)])
    as_text = out.suffix.casefold() != ".parquet"
    recount.compare_rows(out.name, chain([first], stored), (_added_cells(columns, each, as_text) for each in records))


def _check_parts(out: Path, run: Path, recount: Recount) -> None:
    """Compare the parts of a batch with its manifest, each row with the result in it, and that with the run's own."""
    try:
        held = Manifest.model_validate_json(read_regular(out / MANIFEST))
    except ValueError as error:
        raise CellDiffers(f"{MANIFEST}: is broken: {error}") from error
    offsets = {start.place: start.offset for start in read_line_starts(run / RESULTS)}
    listed = set[int]()
    for part in held.parts:
        path, count = out / part.name, 0
        recount.compare_cell(MANIFEST, part.name, "bytes", part.bytes, path.stat().st_size)
        rows = read_stored_rows(path)
        for count, row in enumerate(rows, start=1):
            *given, place, _, line = row
            columns = OutputColumns(given[: len(given) - len(COLUMNS)], {**COLUMNS, **OWN})
            if (offset := offsets.get(row[place])) is None:
                raise CellDiffers(f"{part.name}: row {count}, column {place}: the run has no result of {row[place]!r}")
            if row[place] in listed:
                raise CellDiffers(f"{part.name}: row {count}, column {place}: {row[place]!r} is there twice")
            listed.add(row[place])
            result = read_full_line(run, offset)
            stored = parse_result(path, row[line].encode("utf-8", "replace"), 0)
            recount.compare_values(part.name, stored, result, row=f"row {count}", leave_out=("previous",))
            cells = _added_cells(columns, {**result, "record": row[line]}, as_text=False)
            recount.compare_row(part.name, f"row {count}", row, cells)
        recount.compare_cell(MANIFEST, part.name, "rows", part.rows, count)
    held_by_run, missing = read_run_file(run), offsets.keys() - listed
    if missing and (held_by_run.get("finished") or len(offsets) == held_by_run.get("n")):  # else parts are to come
        raise CellDiffers(f"{MANIFEST}: no part has the result of place {min(missing)}, and the run has it")


def _added_cells(columns: OutputColumns, record: JSON, as_text: bool) -> JSON:
    """Return the cells that a batch adds to a row, as its file holds them."""
    cells = {
        name: wellformed(cell) if isinstance(cell, str) else cell
        for name, cell in columns.row_cells({}, record)[1].items()
    }
    return {name: as_csv_cell(escape_formula(cell)) for name, cell in cells.items()} if as_text else cells
