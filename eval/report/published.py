"""What ARCADE's paper prints for H-VLI, to stand beside what was measured: its Table 3, in its own figures."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from tribunal.eval.report.images import lacking

if TYPE_CHECKING:
    from tribunal.schema import JSON, Scheme

CITATION = (
    "Sun et al., “More Than Sum of Its Parts: Deciphering Intent Shifts in Multimodal Hate Speech Detection”, 2026, "
    "arXiv:2603.21298, Table 3"
)
TEST_POSTS = 1178
_GRAPHS = {"arcade", "multiround", "baseline"}
_COLUMNS = {
    "fine": {"accuracy": "Accuracy", "macro_f1": "Macro-F1", "weighted_f1": "Weighted-F1"},
    "binary": {"accuracy": "Accuracy", "recall": "Recall", "f1": "F1"},
}
_DIFFICULTIES = ("Easy", "Normal", "Hard")
_METHODS = {"ARCADE": "ARCADE", "baseline": "one call, no training", "trained": "trained"}


class PaperTable(NamedTuple):
    """A measured row and the paper's, under the same heads. All are percentages; None where there is none."""

    task: str
    heads: list[str]
    measured: list[float | None]
    published: list[tuple[str, str, list[float]]]  # model, method, figures
    caution: str | None  # what stands in the way of comparing them


def paper_table(run: JSON, measured: JSON) -> PaperTable | None:
    """The rows to put beside a run; None unless it is ARCADE, its ablation or its baseline on H-VLI."""
    if run.get("graph") not in _GRAPHS or run.get("dataset") != "h-vli":
        return None
    scheme: Scheme = measured["scheme"]
    wanted = _COLUMNS[scheme]
    own = [
        *(measured["by_difficulty"][difficulty]["accuracy"] for difficulty in _DIFFICULTIES),
        *(measured[name] for name in wanted),
    ]
    columns = [f"{scheme}_{name}" for name in ("easy", "normal", "hard", *wanted)]
    table = csv.DictReader(files(__package__).joinpath("arcade_table3.csv").read_text("utf-8").splitlines())
    rows = [(row["model"], _METHODS[row["method"]], [float(row[column]) for column in columns]) for row in table]
    return PaperTable(
        task="Task 1, fine-grained" if scheme == "fine" else "Task 2, binary",
        heads=[*_DIFFICULTIES, *wanted.values()],
        measured=[None if value is None else 100 * value for value in own],
        published=rows,
        caution=lacking(measured["images"]),
    )
