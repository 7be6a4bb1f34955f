"""The changes that a run over decided cases would make: the verdicts then, the verdicts now, and people's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tribunal.eval.measures.rates import wilson_interval
from tribunal.runner.results import read_full_line, read_results, read_run_file
from tribunal.schema import JSON

_OF_CASES = ("policy", "policy_sha", "graph", "models")


def compare_with_decisions(folder: Path) -> JSON:
    """Count and list what changed, of the results so far.

    A share is None of no posts; its interval is Wilson's, at 95 %. Verdicts are compared by category (`changed`) and by
    whether they are hateful (`turned`); with people, by whether they are hateful. Posts without a verdict, then or now,
    are in neither, and are counted. `by_clause` says which verdicts cited a clause then and now, and how many of those
    that cite it changed category.

    Args:
        folder: of a run over what `tribunal review export` has written.

    Raises:
        BadInput: the folder is no run's.
    """
    run = read_run_file(folder)
    then: Counter[tuple[str, ...]] = Counter()
    outcomes: Counter[str] = Counter()
    moves: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    by_clause: dict[str, Counter[str]] = {}
    listed: list[JSON] = []
    for offset, result in read_results(folder):
        fields, decided = result.fields, result.outcome == "verdict"
        then[tuple(str(fields.get(name) or "unknown") for name in _OF_CASES)] += 1
        outcomes[result.outcome] += 1
        counts["rehearsed"] += result.rehearsed
        decided_then = fields.get("court_outcome") == "verdict"
        counts["none_before"] += not decided_then
        before = str(fields.get("court_category" if decided_then else "court_outcome") or "unknown")
        now = str(result.category if decided else result.outcome)
        people = result.gold is not None and result.gold.positive
        was, is_now = _is_true(fields.get("court_hateful")), bool(result.hateful)
        if decided_then and decided and result.gold is not None:
            counts["both"] += 1
            counts["changed"] += fields.get("court_category") != result.category
            counts["turned"] += was != is_now
            counts["agreed_then"] += was == people
            counts["agrees_now"] += is_now == people
            counts["put_right"] += was != people and is_now == people
            counts["put_wrong"] += was == people and is_now != people
        clauses_then = _split_ids(fields.get("court_clause"))
        for clause in dict.fromkeys((*clauses_then, *result.clauses)):
            counted = by_clause.setdefault(clause, Counter())
            counted["then"] += clause in clauses_then
            counted["now"] += clause in result.clauses
            if decided_then and decided and result.gold is not None and before != now:
                counted["changed"] += 1
                counted["put_right"] += was != people and is_now == people
                counted["put_wrong"] += was == people and is_now != people
        if before != now:
            moves[before, now] += 1
            whole = read_full_line(folder, offset)
            listed.append(
                {
                    "case": result.post_id,
                    "post_id": fields.get("post_id") or result.post_id,
                    "from": before,
                    "to": now,
                    "clauses_then": clauses_then,
                    "clauses_now": list(result.clauses),
                    "people": fields.get("category"),
                    "people_hateful": people,
                    "hateful_then": was,
                    "hateful_now": result.hateful,
                    "agrees_now": decided and result.hateful == people,
                    "policy_then": fields.get("policy"),
                    "policy_sha_then": fields.get("policy_sha"),
                    "explanation": whole.get("explanation"),
                    "text": whole.get("text"),
                }
            )
    compared = counts["both"]
    shares = ("changed", "turned", "agreed_then", "agrees_now")
    return {
        "policy": run.get("policy"),
        "graph": run.get("graph"),
        "posts": run.get("n"),
        "results": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "rehearsed": counts["rehearsed"],
        "no_verdict_then": counts["none_before"],
        "compared": compared,
        "then": [{**dict(zip(_OF_CASES, key, strict=True)), "posts": number} for key, number in then.most_common()],
        **{name: share_with_interval(counts[name], compared) for name in shares},
        "put_right": counts["put_right"],
        "put_wrong": counts["put_wrong"],
        "moves": [{"from": old, "to": new, "posts": number} for (old, new), number in moves.most_common()],
        "by_clause": [
            {"clause": clause, **{name: counted[name] for name in ("then", "now", "changed", "put_right", "put_wrong")}}
            for clause, counted in sorted(by_clause.items())
        ],
        "changes": listed,
    }


def _split_ids(cell: Any) -> list[str]:
    """Return the ids of clauses in a cell of a table."""
    return [each.strip() for each in str(cell or "").split(",") if each.strip()]


def share_with_interval(part: int, whole: int) -> JSON:
    """Return a count with its share and the share's interval."""
    if not whole:
        return {"count": part, "of": whole, "share": None, "interval": None}
    return {"count": part, "of": whole, "share": part / whole, "interval": wilson_interval(part / whole, whole)}


def _is_true(value: Any) -> bool:
    return value is True or str(value).casefold() == "true"
