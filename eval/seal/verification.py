"""Verify a run: its seal, the chain of its results, and every figure that was measured of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.measures.metrics import METRICS, measure_run
from tribunal.eval.runs.chain import CHAINED, find_chain_fault
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.results import read_run_file
from tribunal.eval.seal.archive import render_cards, unpack_archive
from tribunal.eval.seal.manifest import SEAL, read_seal
from tribunal.files import hash_file, read_regular, read_text
from tribunal.text import parse_json

# Of metrics.json, what depends on files outside the run's folder.
_OUTSIDE = {"fitted_on"}
# What metrics.json of an earlier version lacks, wherever it would stand.
_NEWER = {"by_language", "calibration", "cost", "coverage_at_risk", "interval", "notes"}


class Verification(NamedTuple):
    """Hold what a check found: the first fault (empty if there is none), the seal's hash, and what was compared."""

    fault: str
    seal: str | None
    chained: bool
    figures: int


def verify_run(place: Path) -> Verification:
    """Verify a run's folder, or the archive of a sealed run.

    Returns:
        What was found. Only the first fault is named, in the order seal, files, chain, figures, cards.

    Raises:
        BadInput: there is no run.
    """
    with nullcontext(place) if place.is_dir() else unpack_archive(place) as folder:
        return _verify_folder(folder, sealed=folder != place)


def _verify_folder(folder: Path, *, sealed: bool) -> Verification:
    seal = read_seal(folder)
    if seal is None and sealed:
        raise BadInput(f"{SEAL}: is missing")
    own = seal["seal"] if seal else None
    altered = ""
    for name, digest in (seal or {"files": {}})["files"].items():
        try:
            altered = "" if hash_file(folder / name) == digest else f"{name}: was altered since it was sealed"
        except OSError as error:
            altered = f"{name}: {error.strerror or error}"
        if altered:
            break
    run = None
    try:
        run = read_run_file(folder)
        figure, figures = _check_figures(folder)
        chain = find_chain_fault(folder / RESULTS, run)
    except (BadInput, OSError, ValueError) as error:
        if altered or run is not None:
            return Verification(altered or str(error), own, chained=False, figures=0)
        raise
    # What the chain and the figures say of an altered file is nearer to the place.
    detail = next(filter(None, [chain and f"{RESULTS}: {chain}", figure]), "")
    if not altered and not detail and seal:
        detail = _check_cards(folder)
    fault = f"{altered}; {detail}" if altered and detail else altered or detail
    return Verification(fault, own, run.get("chain") == CHAINED, figures)


def _check_cards(folder: Path) -> str:
    """Return which card isn't as run.json and metrics.json tell."""
    for name, text in render_cards(folder).items():
        if read_text(folder / name) != text:
            return f"{name}: isn't as run.json and {METRICS} tell"
    return ""


def _check_figures(folder: Path) -> tuple[str, int]:
    """Return the first figure of metrics.json that its results don't give, and how many were recomputed."""
    path = folder / METRICS
    if not path.exists():
        return "", 0
    held = parse_json(read_regular(path))
    clusters = held.get("clusters") if isinstance(held, dict) else None
    if not isinstance(clusters, dict):
        return f"{METRICS}: clusters: is missing", 0
    measured = measure_run(folder)
    if isinstance(by := clusters.get("by"), str) and by != measured["clusters"]["by"]:
        measured = measure_run(folder, cluster=by)  # tribunal metrics --cluster
    count = 0
    for where, then, now in _pair_figures("", held, measured):
        count += 1
        if not _are_equal(then, now):
            return f"{METRICS}: {where}: stands as {then!r}, and the results give {now!r}", count
    return "", count


_MISSING = "nothing"


def _pair_figures(where: str, then: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each value of two measures with its place; a nested one value by value."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in {**now, **then}:
            if (where or name not in _OUTSIDE) and (name in then or name not in _NEWER):
                inside = f"{where}.{name}" if where else str(name)
                yield from _pair_figures(inside, then.get(name, _MISSING), now.get(name, _MISSING))
    elif isinstance(then, list) and isinstance(now, list | tuple):
        for place, pair in enumerate(zip_longest(then, now, fillvalue=_MISSING)):
            yield from _pair_figures(f"{where}[{place}]", *pair)
    else:
        yield where, then, now


def _are_equal(then: Any, now: Any) -> bool:
    """Return whether two figures are equal but for how machines round."""
    if isinstance(then, float) and isinstance(now, float):
        return math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12)
    return type(then) is type(now) and bool(then == now)
