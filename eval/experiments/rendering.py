"""Write the table of an experiment: as Markdown, as a page, for LaTeX, for a spreadsheet, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from io import StringIO
from itertools import count, groupby, product
from pathlib import Path
from string import ascii_lowercase
from typing import Literal

from rich.cells import cell_len

from tribunal.eval.datasets import PLUS
from tribunal.eval.experiments.table import TABLE, ExperimentRow, ExperimentTable
from tribunal.eval.report.page import output_folder, render_template
from tribunal.process.files import write_whole
from tribunal.review.table_files import CsvWriter
from tribunal.schema import JSON

_COLUMNS = (
    "kind", "row", "column", "dataset", "condition", "model", "measure", "paper", "paper_value", "measured", "low",
    "high", "difference", "paper_in_interval", "beside", "failures left out", "n", "p", "p_holm", "gap",
)  # fmt: skip


def export_table(table: ExperimentTable, to: Literal["latex", "markdown", "csv"]) -> str:
    """Return a table as LaTeX (a `table` for booktabs), as Markdown, or as CSV."""
    if to == "csv":
        return _table_as_csv(table)
    if to == "latex":
        return render_template("experiment.tex.jinja", _template_values(table))
    return _align_tables(render_template("experiment.md.jinja", _template_values(table)))


def _align_tables(markdown: str) -> str:
    """Fill the cells of each table with spaces, so that its columns stand under each other on a terminal.

    A stroke always ends a cell: the template writes it out wherever else it stands.
    """
    written: list[str] = []
    for is_table, lines in groupby(markdown.splitlines(), lambda line: line.startswith("|")):
        if not is_table:
            written += lines
            continue
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        for at, row in enumerate(rows):
            filled = [
                cell.removesuffix(":").ljust(width - cell.endswith(":"), "-")
                + ":" * cell.endswith(":")
                if at == 1  # the rule under the heads; a colon at its end stays there
                else " " * (width - cell_len(cell)) + cell
                if rule.endswith(":")
                else cell + " " * (width - cell_len(cell))
                for cell, width, rule in zip(row, widths, rows[1], strict=True)
            ]
            written.append(f"| {' | '.join(filled)} |")
    return "\n".join(written) + "\n"


def write_table(table: ExperimentTable, folder: Path) -> list[Path]:
    """Write a table as table.md, table.html, table.csv, table.tex and table.json into a folder; return where they are.

    Raises:
        BadInput: they can't be written.
    """
    texts = render_table(table)
    with output_folder(folder):
        for name, text in texts.items():
            write_whole(folder / name, text)
    return [folder / name for name in texts]


def render_table(table: ExperimentTable) -> dict[str, str]:
    """Return the text of each file that a table is written as, by the file's name."""
    return {
        "table.md": export_table(table, "markdown"),
        "table.html": render_template("experiment.html.jinja", _template_values(table)),
        "table.csv": export_table(table, "csv"),
        "table.tex": export_table(table, "latex"),
        TABLE: json.dumps(asdict(table), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }


def _table_as_csv(table: ExperimentTable) -> str:
    """Return a line for each cell of each row, then one for each paired test; numbers aren't rounded."""
    file = StringIO()
    out = CsvWriter(file, lineterminator="\n")
    out.write_row(_COLUMNS)
    for line in table.lines:
        row = " / ".join(filter(None, line.labels))
        for heads, cell in zip(table.heads, line.cells, strict=True):
            column, (dataset, condition, measure) = " / ".join(filter(None, heads)), ("", "", "")
            if cell.source is not None:
                dataset = PLUS.join(cell.source.datasets)
                condition = cell.source.condition
                measure = cell.source.measure
            of = (
                "cell",
                row,
                column,
                dataset,
                condition,
                cell.model,
                measure,
                cell.paper,
                cell.paper_value,
            )
            figures = (
                cell.value,
                cell.low,
                cell.high,
                cell.difference,
                cell.in_interval,
                cell.beside,
                cell.left_out,
            )
            out.write_row((*of, *figures, cell.n, None, None, cell.gap))
    for test in table.tests:
        same = {"model" if test.by == "condition" else "condition": test.same}
        numbers = {"measured": test.difference, "low": test.low, "high": test.high, "n": test.n}
        pair = {
            "kind": "paired test",
            "row": f"{test.second} less {test.first}",
            "dataset": test.dataset,
            **same,
        }
        cells = {**pair, "measure": test.measure, **numbers, "p": test.p, "p_holm": test.p_holm}
        out.write_row(cells.get(name) for name in _COLUMNS)
    return file.getvalue()


def _template_values(table: ExperimentTable) -> JSON:
    """Return the table as its page and its Markdown take it. A gap is said once, under a letter."""
    gaps = list(dict.fromkeys(cell.gap for line in table.lines for cell in line.cells if cell.gap))
    # a, …, z, aa, …
    names = (
        "".join(each) for length in count(1) for each in product(ascii_lowercase, repeat=length)
    )
    letters = dict(zip(gaps, names, strict=False))
    rows = [row for line in table.lines for row in _template_rows(line, letters)]
    used = {letter for row in rows if not row["alone"] for _, letter in row["cells"]}
    return {
        "table": table,
        "stub": _join_words(table.stub),
        "heads": [_join_words(heads) for heads in table.heads],
        "levels": [
            [
                (above[-1], len(list(same)))
                for above, same in groupby(heads[: level + 1] for heads in table.heads)
            ]
            for level in range(len(table.heads[0]))
        ],
        "rows": rows,
        "printed": any(row["source"] == "paper" for row in rows),
        "compared": any(row["source"] == "difference" for row in rows),
        "gaps": [(letter, gap) for gap, letter in letters.items()],
        "lettered": [(letter, gap) for gap, letter in letters.items() if letter in used],
    }


def _template_rows(line: ExperimentRow, letters: Mapping[str, str]) -> Iterator[JSON]:
    """Yield the rows of a line: the paper's figures, under them what was measured, and the difference of the two."""
    alone = {cell.gap for cell in line.cells if cell.gap or cell.measured}
    sources = [
        *(["paper"] if line.kind != "measured" else []),
        *(["measured here"] if line.kind != "paper" else []),
        *(["difference"] if any(cell.difference_printed for cell in line.cells) else []),
    ]
    for source in sources:
        yield {
            "labels": line.labels,
            "called": _join_words(line.labels),
            "first": source == sources[0],
            "height": len(sources),
            "source": source,
            "has_spans": any(cell.span for cell in line.cells),
            "cells": [
                (cell, letters.get(cell.gap, "") if source == "measured here" else "")
                for cell in line.cells
            ],
            "alone": next(iter(alone)) if source == "measured here" and len(alone) == 1 else "",
        }


def _join_words(words: Iterable[str]) -> str:
    return " · ".join(filter(None, words))
