"""A confidence threshold from cases that people reviewed: the court's confidence against what they decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tribunal.core.text import parse_json
from tribunal.core.text_similarity import text_signature
from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import NEAR, POST, near_duplicates
from tribunal.eval.measures.fit import (
    FittingPosts,
    clusters_as_json,
    fit_posts,
    warn_of_recurring_texts,
)
from tribunal.eval.measures.risk_control import AgreementPromise, CaseRange, LabelledPosts
from tribunal.nodes.threshold import Threshold
from tribunal.schema import JSON

SELECTED = (
    "reviewed cases are a selected sample: most were reviewed because the court was unsure, so the threshold holds for "
    "cases that are reviewed, and promises nothing for those that weren't; review a random share as well "
    "(--set review_rule=all on some posts, or second opinions), or fit it on a labelled set"
)
# What all cases must have in common, with the option that chooses among them.
_CHOSEN_BY = {
    "graph": "of-graph",
    "policy_sha": "policy-sha",
    "scheme": "since",
    "line_up": "since",
}
_TIED = "the verdict is a tie"  # as the court gives the reason of a review


def fit_reviewed(
    decisions: Iterable[Mapping[str, Any]],
    promise: AgreementPromise,
    *,
    fitted_from: str,
    ledger: Path,
    graph: str | None = None,
    policy_sha: str | None = None,
    cluster: str | None = None,
) -> Threshold:
    """Return the lowest confidence of the court at which people decided as it did, as often as is wanted.

    Args:
        decisions: as `tribunal review export` writes them: `id`, `category`, `label`, `text`, `court_…`, `graph`, …
        promise: what is promised; the gold is what people decided.
        fitted_from: where they are from, for the threshold's file.
        ledger: the file in which fits on these cases are counted.
        graph: only cases of this one.
        policy_sha: only cases of this policy.
        cluster: `near-duplicates` (the usual): cases whose texts are nearly the same count as one, and one whose text
            is erased counts by itself; or `post`: each does.

    Raises:
        BadInput: the cases are of several graphs or policies, the rehearsal model took part in one, no threshold can
            be shown to reach the agreement, or the fit can't be counted.
    """
    by = cluster or NEAR
    if by not in (NEAR, POST):
        raise BadInput(f"cluster: {by}: reviewed cases have no such field; it is {NEAR} or {POST}")
    kinds: dict[str, Counter[str]] = {name: Counter() for name in _CHOSEN_BY}
    cases = [
        each
        for each in decisions
        if graph in (None, each["graph"]) and policy_sha in (None, each["policy_sha"])
    ]  # fmt: skip
    for each in cases:
        for name, counted in kinds.items():
            counted[str(each.get(name) or "")] += 1
    rehearsed = sum(_is_true(each["rehearsed"]) for each in cases)
    if rehearsed:
        raise BadInput(
            f"{fitted_from}: the rehearsal model took part in {rehearsed} of {len(cases)} cases, and a threshold "
            "fitted to its rules would promise nothing; take cases of real models"
        )
    if not cases:
        raise BadInput(f"{fitted_from}: no reviewed cases; take a longer time")
    for name, counted in kinds.items():
        if len(counted) > 1:
            found = ", ".join(
                f"{value or 'none'} ({many})" for value, many in counted.most_common(5)
            )
            raise BadInput(
                f"{fitted_from}: the cases are of several kinds, and a threshold holds for one: {name}: {found}; "
                f"choose with --{_CHOSEN_BY[name]}"
            )
    verdict = np.array([each["court_outcome"] == "verdict" for each in cases])
    hateful = np.array([_is_true(each["court_hateful"]) for each in cases])
    posts = LabelledPosts(
        confidence=np.array(
            [
                np.nan
                if each["court_confidence"] in (None, "")
                else float(each["court_confidence"])
                for each in cases
            ]
        ),
        decided=verdict & np.array([each.get("reason") != _TIED for each in cases]),
        hateful=hateful,
        wrong=~verdict | np.array([each["court_category"] != each["category"] for each in cases]),
        wrong_side=verdict & (hateful != np.array([each.get("label") == "hate" for each in cases])),
    )
    texts = [text_signature(str(each.get("text") or "")) for each in cases]
    numbers = near_duplicates(texts) if by == NEAR else np.arange(len(cases))
    fitting = FittingPosts(
        posts, [str(each["id"]) for each in cases], numbers, clusters_as_json(by, numbers)
    )
    about: JSON = {
        "graph": next(iter(kinds["graph"])),
        "scheme": next(iter(kinds["scheme"])),
        "models": parse_json(kinds["line_up"].most_common(1)[0][0] or "{}"),
        "policy": next(iter(kinds["policy_sha"])) or None,
        "fitted_from": fitted_from,
    }
    doubts = warn_of_recurring_texts(texts, [each["category"] for each in cases])
    among = CaseRange(about["graph"], about["policy"], min(fitting.ids), max(fitting.ids))
    return fit_posts(fitting, promise, ledger, about, [SELECTED, *doubts], among)


def _is_true(value: Any) -> bool:
    return value is True or str(value).casefold() in ("true", "1")
