"""Verify a run or an experiment: its seal, the chain of its results, and every figure that was made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.experiments.table import TABLE
from tribunal.eval.measures.metrics import METRICS, measure_run
from tribunal.eval.report import FIGURES
from tribunal.eval.report.cards import CARD
from tribunal.eval.runs.chain import CHAINED, find_chain_fault
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.results import find_run_folders, read_run_file
from tribunal.eval.seal.archive import render_run_cards, unpack_archive
from tribunal.eval.seal.cells import CellDiffers, Recount
from tribunal.eval.seal.manifest import SEAL, read_seal
from tribunal.eval.seal.outputs import (
    EXPORTS,
    are_of_this_version,
    check_batch_output,
    check_experiment_table,
    check_exports,
    check_report,
    find_batch_output,
    find_batch_run,
)
from tribunal.files import hash_file, read_regular
from tribunal.schema import JSON
from tribunal.text import parse_json

# Of metrics.json, what depends on files outside the run's folder.
_OUTSIDE = ("fitted_on",)


class Verification(NamedTuple):
    """Hold what a check found: the first fault (empty if there is none), the seal's hash, and what was compared.

    `unchecked` are reports that can't be written again.
    """

    fault: str
    seal: str | None
    chained: bool
    figures: int
    unchecked: tuple[str, ...] = ()


def verify_run(place: Path) -> Verification:
    """Verify the folder of a run or of an experiment, the archive of a sealed one, or the output of a batch.

    Returns:
        What was found. Only the first fault is named, in the order seal, files, chain, figures, tables, cards.

    Raises:
        BadInput: there is no run.
    """
    place = find_batch_run(place) or place
    with nullcontext(place) if place.is_dir() else unpack_archive(place) as folder:
        return _verify_folder(folder, sealed=folder != place)


def _verify_folder(folder: Path, *, sealed: bool) -> Verification:
    seal = read_seal(folder)
    if seal is None and sealed:
        raise BadInput(f"{SEAL}: is missing")
    own, altered = seal["seal"] if seal else None, _find_altered_file(folder, seal)
    runs, held, recount, detail = find_run_folders([folder]), list[JSON](), Recount(), ""
    try:
        held = [read_run_file(each) for each in runs]
        detail = next(_find_faults(folder, runs, held, recount, sealed=seal is not None), "")
    except (BadInput, OSError, ValueError) as error:  # of what was altered
        if not altered and not held:
            raise
        if not altered:
            return Verification(str(error), own, chained=False, figures=0)
    # What the chain and the figures say of an altered file is nearer to the place.
    fault = f"{altered}; {detail}" if altered and detail else altered or detail
    chained = all(run.get("chain") == CHAINED for run in held)
    return Verification(fault, own, chained, recount.count, tuple(recount.unchecked))


def _find_altered_file(folder: Path, seal: JSON | None) -> str:
    """Return which file isn't as it was sealed, or an empty text."""
    for name, digest in seal["files"].items() if seal else ():
        try:
            if hash_file(folder / name) != digest:
                return f"{name}: was altered since it was sealed"
        except OSError as error:
            return f"{name}: {error.strerror or error}"
    return ""


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Name the file whose content, or that of the results, is of another shape than it was written in."""
    try:
        yield
    except BadInput:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise CellDiffers(f"{file}: can't be computed again: {type(error).__name__}: {error}") from error


def _find_faults(
    folder: Path, runs: Sequence[Path], held: Sequence[JSON], recount: Recount, *, sealed: bool
) -> Iterator[str]:
    """Yield what isn't as the results give it."""
    for each, run in zip(runs, held, strict=True):
        recount.place = "" if each == folder else f"{each.name}/"
        figure = ""
        try:
            with _naming(f"{recount.place}{METRICS}"):
                _check_metrics(each, recount)
        except CellDiffers as differs:
            figure = str(differs)
        if chain := find_chain_fault(each / RESULTS, run):
            yield f"{recount.place}{RESULTS}: {chain}"
        if figure:
            yield figure
    try:
        for each in runs:
            recount.place = "" if each == folder else f"{each.name}/"
            _check_exports_and_report(each, [each], recount)
            if (out := find_batch_output(each)) is not None:
                with _naming(out.name):
                    check_batch_output(out, each, recount)
            if sealed:
                with _naming(f"{recount.place}{CARD}"):
                    for name, text in render_run_cards(each).items():
                        recount.compare_text(name, each / name, text)
        recount.place = ""
        if list(runs) != [folder]:
            _check_exports_and_report(folder, runs, recount)
            if (folder / TABLE).exists():
                with _naming(TABLE):
                    check_experiment_table(folder, recount)
    except CellDiffers as differs:
        yield str(differs)


def _check_exports_and_report(folder: Path, runs: Sequence[Path], recount: Recount) -> None:
    """Compute again what was made of these runs in a folder."""
    with _naming(f"{recount.place}{EXPORTS}"):
        check_exports(folder, runs, recount)
    with _naming(f"{recount.place}{FIGURES}"):
        check_report(folder, runs, recount)


def _check_metrics(folder: Path, recount: Recount) -> None:
    """Measure a run again, and compare every figure of metrics.json."""
    path = folder / METRICS
    if not path.exists():
        return
    stored = parse_json(read_regular(path))
    clusters = stored.get("clusters") if isinstance(stored, dict) else None
    if not isinstance(clusters, dict):
        raise CellDiffers(f"{recount.place}{METRICS}: clusters: is missing")
    measured = measure_run(folder)
    if isinstance(by := clusters.get("by"), str) and by != measured["clusters"]["by"]:
        measured = measure_run(folder, cluster=by)
    recount.compare_values(METRICS, stored, measured, leave_out=_OUTSIDE, older=not are_of_this_version([folder]))
