"""What a run cost: calls, tokens and seconds a post."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Columns, Floats, Ints
    from tribunal.schema import JSON


def cost(columns: Columns) -> JSON:
    """Total, mean, median and 95th percentile over results, one a post and repeat, whatever their outcome.

    Answers from the project's own cache cost nothing and are counted apart (`from_cache`). `seconds` is wall time.
    `unseen_calls` are those that the graph made past `ask`, there only if it made some: nothing else counts them.
    `cached_tokens` are prompt tokens that the provider served from its cache; there only if it tells of them.
    """
    each: dict[str, Ints | Floats] = {
        "calls": columns.calls,
        "tokens": columns.prompt_tokens + columns.completion_tokens,
        "prompt_tokens": columns.prompt_tokens,
        "completion_tokens": columns.completion_tokens,
        "seconds": columns.seconds,
        "from_cache": columns.from_cache,
    }
    known = columns.cached_tokens >= 0
    if known.any():
        each["cached_tokens"] = columns.cached_tokens[known]
    if columns.unseen_calls.any():
        each["unseen_calls"] = columns.unseen_calls
    return {name: _summary(values) for name, values in each.items()}


def _summary(values: Ints | Floats) -> JSON:
    if not len(values):
        return {"total": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.percentile(values, (50, 95))
    return {"total": values.sum().item(), "mean": float(values.mean()), "p50": float(p50), "p95": float(p95)}
