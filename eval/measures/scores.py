"""How well verdicts agree with the gold: accuracy, precision, recall and F1, by scikit-learn.

Every measure comes twice. The headline leaves out what has no verdict, as the papers do (ARCADE, appendix D.4). The one
that counts errors takes every labelled post without a verdict for a wrong answer: of two labels the other one, of
several one that is no label at all, which misses the post's own label and falls on no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tribunal.eval.measures.columns import NO_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tribunal.eval.measures.columns import Columns, Ints
    from tribunal.schema import JSON

MEASURES = ("accuracy", "macro_f1", "weighted_f1", "precision", "recall", "f1")


def scores(columns: Columns, rows: Ints | None = None) -> JSON:
    """The measures over these rows, or all: the headline's, and beside it those that count errors.

    Fractions; None where a measure isn't defined: of no posts, precision where nothing was called positive, recall
    where nothing is, F1 where both. `macro_f1` and `weighted_f1` are over the labels that occur, as gold or as answer,
    in the scheme that is compared; `precision`, `recall` and `f1` are of the positive class, folded to yes or no.
    """
    held = np.arange(columns.n) if rows is None else rows
    labelled, decided = held[columns.labelled[held]], held[columns.decided[held]]
    return {**_scores(columns, decided), "counting_errors": _scores(columns, labelled)}


def binary_scores(columns: Columns) -> JSON:
    """The fold to yes or no: precision, recall and F1 of the positive and of the negative class, and overall.

    `overall` is the plain mean of the two, as in AntiHateAgent's Table 2; a class that occurs and was never answered
    has precision 0 in it.
    """
    return {
        **_binary(columns, np.flatnonzero(columns.decided)),
        "counting_errors": _binary(columns, np.flatnonzero(columns.labelled)),
    }


def by_label(columns: Columns) -> JSON:
    """For each label that occurs in the scheme that is compared, in the headline: precision, recall, F1, and counts."""
    decided = np.flatnonzero(columns.decided)
    truth, answer = columns.truth[decided], columns.answer[decided]
    every = occurring(columns.truth[columns.labelled], answer)
    found: JSON = {}
    for label in every:
        precision, recall, f1 = _one_class(truth, answer, label)
        own = np.flatnonzero(columns.labelled & (columns.truth == label))
        found[str(label)] = {
            "name": columns.names.get(label, str(label)),
            "n": len(own),
            **without_verdict(columns, own),
            "answered": int((answer == label).sum()),
            "precision": precision,
            "recall": recall,
            "f1": f1,
        }
    return found


def confusion(columns: Columns) -> JSON:
    """Counts by gold label (row) and answer (column), and beside each row how many had no verdict, by outcome."""
    truth, answer = columns.truth[columns.decided], columns.answer[columns.decided]
    labels = occurring(columns.truth[columns.labelled], answer)
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (np.searchsorted(labels, truth), np.searchsorted(labels, answer)), 1)
    rows = [np.flatnonzero(columns.labelled & (columns.truth == label)) for label in labels]
    return {
        "labels": labels,
        "names": [columns.names.get(label, str(label)) for label in labels],
        "counts": counts.tolist(),
        **{name: [without_verdict(columns, row)[name] for row in rows] for name in ("refusals", "failures", "pending")},
    }


def without_verdict(columns: Columns, rows: Ints) -> JSON:
    """How many of these rows have no verdict, by outcome."""
    return {
        "refusals": columns.count("refusal", rows),
        "failures": columns.count("failure", rows),
        "pending": columns.count("pending", rows),
    }


def _scores(columns: Columns, rows: Ints) -> JSON:
    from sklearn.metrics import accuracy_score, f1_score

    if not len(rows):
        return dict.fromkeys(MEASURES)
    truth, answer = columns.truth[rows], columns.answer[rows]
    if columns.scheme == "binary":
        answer = _wrong_way(truth, answer)
    labels = occurring(truth, answer)
    macro, weighted = (
        # A label that occurs has an F1; 0 / 0 can't come about.
        float(f1_score(truth, answer, labels=labels, average=average, zero_division=0))
        for average in ("macro", "weighted")
    )
    yes, said_yes = folded(columns, rows)
    precision, recall, f1 = _one_class(yes, said_yes, 1)
    accuracy = float(accuracy_score(truth, answer))
    return dict(zip(MEASURES, (accuracy, macro, weighted, precision, recall, f1), strict=True))


def _binary(columns: Columns, rows: Ints) -> JSON:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    names = ("precision", "recall", "f1")
    if not len(rows):
        nothing = dict.fromkeys(names)
        return {"positive": nothing, "negative": nothing, "overall": {"accuracy": None, **nothing}}
    truth, answer = folded(columns, rows)
    overall = precision_recall_fscore_support(
        truth, answer, labels=occurring(truth, answer), average="macro", zero_division=0
    )
    return {
        "positive": dict(zip(names, _one_class(truth, answer, 1), strict=True)),
        "negative": dict(zip(names, _one_class(truth, answer, 0), strict=True)),
        "overall": {
            "accuracy": float(accuracy_score(truth, answer)),
            **{name: float(value) for name, value in zip(names, overall[:3], strict=True)},
        },
    }


def folded(columns: Columns, rows: Ints) -> tuple[Ints, Ints]:
    """Gold and answer of these rows as 0 or 1, an answer that is missing being the wrong one."""
    truth, label = columns.positive[rows], columns.label[rows]
    return truth, _wrong_way(truth, np.where(label == NO_LABEL, NO_LABEL, label > 0))


def _wrong_way(truth: Ints, answer: Ints) -> Ints:
    return np.where(answer == NO_LABEL, 1 - truth, answer)


def _one_class(truth: Ints, answer: Ints, label: int) -> Sequence[float | None]:
    """Precision, recall and F1 of one label; None where scikit-learn would divide by nothing."""
    from sklearn.metrics import precision_recall_fscore_support

    if not len(truth):
        return (None, None, None)
    of_label = precision_recall_fscore_support(truth, answer, labels=[label], average=None, zero_division=np.nan)[:3]
    return [None if np.isnan(value[0]) else float(value[0]) for value in of_label]


def occurring(truth: Ints, answer: Ints) -> list[int]:
    """The labels that occur, as gold or as answer, in their order."""
    return sorted({*truth.tolist(), *answer.tolist()} - {NO_LABEL})
