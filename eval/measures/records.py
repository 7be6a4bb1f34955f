"""Measure what only whole records say: explanations and debates. The results are read once for both."""

from __future__ import annotations

import numpy as np
from pydantic_core import from_json

from tribunal.errors import BadInput
from tribunal.eval.datasets.audits import record_of_line
from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import RunColumns
from tribunal.eval.measures.debate import Debate, measure_debate, read_debate
from tribunal.eval.measures.explanations import (
    CHECKS,
    UNCHECKED,
    check_explanation,
    measure_explanations,
)
from tribunal.prompts.policy import Policy, list_shipped_policies, load_policy, parse_policy
from tribunal.runner.results import read_lines
from tribunal.schema import JSON


def measure_records(columns: RunColumns, clusters: Clusters) -> JSON:
    """Return the measures of a run's explanations and debates.

    Args:
        columns: the run.
        clusters: the clusters of its posts.
    """
    policy = policy_of_run(columns.run)
    checks = np.full((columns.row_count, len(CHECKS)), UNCHECKED)
    debates: dict[int, Debate] = {}
    for row, (_, result, line) in enumerate(read_lines(columns.folder)):
        if result.outcome != "verdict":
            continue
        parsed: JSON = from_json(line)
        record = record_of_line(parsed)
        if record is None:
            continue
        debates[row] = read_debate(record, policy)
        text = parsed.get("text")
        if policy is not None and record.task == "hate":
            seen = isinstance(text, str) and not result.has_image
            checks[row] = check_explanation(record, text if seen else None, policy)
    return {
        "explanations": measure_explanations(columns, clusters, checks),
        "debate": measure_debate(columns, clusters, debates),
    }


def policy_of_run(run: JSON) -> Policy | None:
    """Return the policy of a run as run.json keeps it; of an older run the shipped one of its name and hash."""
    kept = (run.get("texts") or {}).get("policy")
    told = run.get("policy")
    try:
        if isinstance(kept, str):
            return parse_policy(kept)
        if isinstance(told, dict) and told.get("name") in list_shipped_policies():
            shipped = load_policy(told["name"])
            return shipped if shipped.sha == told.get("sha") else None
    except BadInput:
        pass  # a policy in the form of another version
    return None
