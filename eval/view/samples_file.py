"""The samples of runs as one file that needs no server: a page with the rows as packed data, and a script of its own.

The script filters, sorts and pages in the browser. Everything in the data was made visible before it was packed; the
script puts it into the page as text. The cases are drawn from their `CaseView`s, escaped by its templates.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tribunal.cases.case_drawing import stylesheet
from tribunal.errors import BadInput
from tribunal.eval.runs.prices import prices_of_run
from tribunal.eval.runs.results import read_full_line, read_lines, read_run_file
from tribunal.eval.view.cases import view_sample
from tribunal.eval.view.rendering import TITLES, read_source, render_view
from tribunal.eval.view.rows import FACETS, KINDS, SampleRow, kept_text, parse_line, sample_row
from tribunal.eval.view.sample_filter import NUMBERS
from tribunal.files import write_whole
from tribunal.text import make_visible, one_line

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices
    from tribunal.schema import JSON

FILE = "samples.html"
CASES = 1000  # of which the whole case stands in the file, over all its runs
_WORDS = 30_000_000  # characters that are searched; a longer run's words stay out
_FIRST = 120  # characters of a text and of an explanation that are in the file
_TOGETHER = 20  # cases that are packed as one
_WRONG = ("false-positive", "false-negative", "other-category")


def write_samples(folders: Sequence[Path], out: Path, *, most: int, prices: Prices | None = None) -> Path:
    """Write samples.html.

    Args:
        folders: of the runs.
        out: the folder that it goes into.
        most: of each run, so many wrong samples and so many uncertain ones have their case in it at least; 0: no
            sample has, and no words stand in it.
        prices: what calls cost; else those that each run was given.

    Returns:
        Where it is.

    Raises:
        BadInput: a folder is no run's, or the file can't be written.
    """
    words, cases = _WORDS // len(folders), max(CASES // len(folders), 2 * most)
    runs = [_pack_run(folder, words, cases, most, prices) for folder in folders]
    script, style = read_source("single.js"), read_source("view.css") + stylesheet()
    page = render_view(
        "single.html.jinja",
        title="Samples",
        names=[run["name"] for run in runs],
        runs=[Markup(_pack_json(run)) for run in runs],  # noqa: S704  # base64
        words=Markup(_pack_json(_KNOWN)),  # noqa: S704
        script=Markup(script),  # noqa: S704  # our own files
        style=Markup(style),  # noqa: S704
        script_sha=_hash_source(script),
        style_sha=_hash_source(style),
    )
    path = out / FILE
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(path, page)
    except OSError as error:
        raise BadInput(f"out: {out}: {error.strerror}; give a folder that can be written") from error
    return path


_KNOWN = {
    "titles": TITLES, "kinds": KINDS, "numbers": NUMBERS, "facets": ["kind", *FACETS], "wrong": _WRONG,
}  # fmt: skip


def _pack_run(folder: Path, words: int, cases: int, most: int, given: Prices | None) -> JSON:
    """Return a run as the script reads it: so many characters of words and so many cases at most."""
    run, prices = read_run_file(folder), given or prices_of_run(folder)
    rows, offsets, said = _read_rows(folder, prices, words if most else 0)
    folded = any(row.folded for row in rows)
    kinds = [row.coarse if folded else row.fine for row in rows]
    chosen = _choose_cases(rows, kinds, most)[:cases]
    drawn = (
        str(view_sample(read_full_line(folder, offsets[row]), None, prices=prices, prefix=f"c{number}-").inside)
        for number, row in enumerate(chosen)
    )
    together = iter(lambda: list(islice(drawn, _TOGETHER)), [])
    return {
        "name": make_visible(folder.resolve().name),
        "told": make_visible(", ".join(str(run[name]) for name in ("graph", "dataset") if run.get(name))),
        "priced": prices is not None,
        "post": [make_visible(row.post) for row in rows],
        "kind": kinds,
        "label": [row.yes if folded else row.label for row in rows],
        "gold": [row.positive if folded else row.gold for row in rows],
        "ended": [row.ended for row in rows],
        "repeats": [row.repeat for row in rows],
        **{name: [_round_number(getattr(row, name)) for row in rows] for name in NUMBERS},
        "facets": {name: _encode_values(row.facets.get(name) or () for row in rows) for name in FACETS},
        "said": said,
        "cases": {row: divmod(at, _TOGETHER) for at, row in enumerate(chosen)},
        "pages": [_pack_json(each) for each in together],
    }


def _read_rows(
    folder: Path, prices: Prices | None, most: int
) -> tuple[list[SampleRow], list[int], list[list[str]] | None]:
    """Return every sample, where its line begins, and its first words if they are at most so many characters in all."""
    rows, offsets, said = list[SampleRow](), list[int](), list[list[str]]()
    for offset, _, line in read_lines(folder):
        held = parse_line(line)
        try:
            rows.append(sample_row(held, prices)._replace(words=""))
        except ValueError:  # what no measure reads is of another shape
            break
        offsets.append(offset)
        if most > 0:
            beginnings = (kept_text(held) or "")[:_FIRST], str(held.get("explanation") or "")[:_FIRST]
            said.append([make_visible(one_line(each)) for each in beginnings])
            most -= sum(map(len, said[-1]))
    return rows, offsets, said if most > 0 else None


def _choose_cases(rows: list[SampleRow], kinds: list[int], most: int) -> list[int]:
    """Return the rows whose case is in the file: wrong ones, uncertain ones, and then the others in their order."""
    if not most:
        return []
    names = tuple(KINDS)
    sure = [row.confidence or 0.0 for row in rows]
    wrong = sorted((at for at, kind in enumerate(kinds) if names[kind] in _WRONG), key=lambda at: (-sure[at], at))
    unsure = sorted(
        (at for at, row in enumerate(rows) if row.facets["uncertain"] == ("yes",)), key=lambda at: (sure[at], at)
    )
    return list(dict.fromkeys([*wrong[:most], *unsure[:most], *wrong, *range(len(rows))]))


def _encode_values(values: Iterable[tuple[str, ...]]) -> JSON:
    """Return each sample's values as the number of their set."""
    sets: dict[tuple[str, ...], int] = {(): 0}
    codes = [sets.setdefault(each, len(sets)) for each in values]
    return {"sets": [[make_visible(value) for value in each] for each in sets], "codes": codes}


def _round_number(number: float | None) -> float | None:
    return number if number is None or isinstance(number, int) else float(f"{number:.6g}")


def _pack_json(held: Any) -> str:
    written = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(written.encode("utf-8", "replace"), mtime=0)).decode()


def _hash_source(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
