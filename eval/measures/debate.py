"""Measure what debate changes, from recorded transcripts, without a call.

After Bertalanič and Fortuna ("The Cost of Consensus", arXiv 2605.00914) and Wynn, Satija and Hadfield ("Talk Isn't
Always Cheap", arXiv 2509.05396): answers that turn wrong or right, conformity, and right answers that the verdict lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import Floats, RunColumns
from tribunal.eval.measures.rates import difference_interval, exchange_test, rate_interval
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Record, Turn

Stage = tuple[int, bool]  # the round, and whether the answers were given again after a reflection
_BEFORE: Stage = (0, False)
# Who argues a side that the court gave them: where each begins, hateful or not.
ASSIGNED = {"prosecutor": True, "defender": False, "debater:hate": True, "debater:not_hate": False}
_MOST_SEATS = 40


class Debate(NamedTuple):
    """The positions of one case, and what its rounds cost.

    Attributes:
        answers: by stage, for each seat that says what it thinks, whether it calls the post hateful.
        sides: for each seat with an assigned side, its positions in order: the assigned one, then one per turn.
        costs: by round, calls and tokens; None for the calls that belong to no round, such as the judge's.
    """

    answers: dict[Stage, dict[str, bool]]
    sides: dict[str, list[bool]]
    costs: dict[int | None, tuple[int, int]]


def read_debate(record: Record, policy: Policy | None) -> Debate:
    """Return who held what in a case, round by round.

    Args:
        record: the case.
        policy: the policy of the run, whose categories that aren't hate count as "not hate"; None: the answers NO and
            NotHate do.
    """
    harmless = {"NO", "NotHate"}
    if policy is not None:
        labels = (*policy.fine, *policy.binary) if policy.task == "hate" else policy.binary[:1]
        harmless |= {each.name for each in labels if not each.hate}
    answers: dict[Stage, dict[str, bool]] = defaultdict(dict)
    sides: dict[str, list[bool]] = {}
    for opinion in record.opinions:
        answers[_BEFORE][f"perspective:{opinion.id}"] = opinion.stance == "hate"
    for turn in record.transcript:
        if turn.seat in ASSIGNED and turn.stage != "scan":
            held = sides.setdefault(turn.seat, [ASSIGNED[turn.seat]])
            held.append(_side_taken(turn))
        elif turn.stage in ("answer", "revision") and turn.stance:
            at = answers[turn.round, turn.stage == "revision"]
            seat = turn.seat if turn.seat not in at else f"{turn.seat} {len(at) + 1}"
            at[seat] = turn.stance not in harmless
    return Debate(dict(sorted(answers.items())), sides, _costs_by_round(record))


def _side_taken(turn: Turn) -> bool:
    """Return whether a turn of somebody with an assigned side holds that the post is hateful."""
    if turn.seat == "prosecutor":
        return bool(turn.cues) or any(each.stance == "press" for each in turn.arguments)
    if turn.seat == "defender":
        return any(each.stance == "concede" for each in turn.arguments)
    return ASSIGNED[turn.seat] != (turn.stance == "agree")


def _costs_by_round(record: Record) -> dict[int | None, tuple[int, int]]:
    """Return calls and tokens by round. A seat's calls belong, in order, to the rounds of its turns."""
    rounds: dict[str, deque[int]] = defaultdict(deque)
    for opinion in record.opinions:
        rounds[f"perspective:{opinion.id}"].append(0)
    for turn in record.transcript:
        rounds[turn.seat].append(turn.round)
    calls = Counter[int | None]()
    tokens = Counter[int | None]()
    for call in record.calls:
        left = rounds[call.seat]
        number = (left.popleft() if len(left) > 1 else left[0]) if left else None
        calls[number] += 1
        tokens[number] += call.prompt_tokens + call.completion_tokens
    return {number: (count, tokens[number]) for number, count in calls.items()}


@dataclass
class DebateTally:
    """Sums over the debates of a run, by cluster.

    `rates` are hits and totals by name; `costs` are calls, tokens and posts by round.
    """

    cluster_count: int
    cases: int = 0
    rates: dict[tuple[str, ...], Floats] = field(default_factory=dict)
    costs: dict[int | None, Floats] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)

    def count(self, cluster: int, *name: str, hit: bool) -> None:
        """Add one observation to a rate."""
        sums = self.rates.setdefault(name, np.zeros((2, self.cluster_count)))
        sums[:, cluster] += (hit, 1)

    def add(self, debate: Debate, cluster: int, *, gold: bool, verdict: bool) -> None:
        """Add a case with a gold label and a verdict; one without positions adds nothing."""
        answers = [each for each in debate.answers.values() if each]
        if not answers and not debate.sides:
            return
        self.cases += 1
        for number, (calls, tokens) in debate.costs.items():
            self.costs[number] = self.costs.get(number, np.zeros(3)) + np.array(
                [calls, tokens, 1.0]
            )
        tracks = {
            seat: [each[seat] for each in answers if seat in each]
            for each in answers
            for seat in each
        }
        self.assigned |= debate.sides.keys()
        for seat, held in {**tracks, **debate.sides}.items():
            rights = [position == gold for position in held]
            groups = [("seats", seat)] if seat in debate.sides else [("seats", seat), ("answers",)]
            for group in groups:
                self._count_track(cluster, group, rights)
        if answers:
            self._count_stages(cluster, debate.answers, gold=gold)
            self.count(cluster, "first_majority", hit=_majority(answers[0]) == gold)
            self.count(cluster, "verdict", hit=verdict == gold)
            self.count(
                cluster,
                "oracle",
                hit=any(held == gold for each in answers for held in each.values()),
            )

    def _count_track(self, cluster: int, group: tuple[str, ...], rights: list[bool]) -> None:
        """Count whether one seat was right at first and in the end, and how it turned between."""
        first = rights[0]
        last = rights[-1]
        self.count(cluster, *group, "first", hit=first)
        self.count(cluster, *group, "last", hit=last)
        if len(rights) > 1:
            self.count(
                cluster, *group, "turned_wrong" if first else "turned_right", hit=first != last
            )
            if first and not all(rights):
                self.count(cluster, *group, "back", hit=last)

    def _count_stages(
        self, cluster: int, answers: Mapping[Stage, Mapping[str, bool]], *, gold: bool
    ) -> None:
        """Count the answers of each stage, and how they differ from the stage before."""
        before: Mapping[str, bool] = {}
        for (number, revised), given in answers.items():
            stage = ("stages", str(number), "again" if revised else "")
            self.count(cluster, *stage, "majority", hit=_majority(given) == gold)
            hateful = sum(before.values())
            for seat, answer in given.items():
                self.count(cluster, *stage, "right", hit=answer == gold)
                if seat not in before:
                    continue
                held = before[seat]
                self.count(cluster, *stage, "to_wrong", hit=held == gold != answer)
                self.count(cluster, *stage, "to_right", hit=held != gold == answer)
                # seats that answered otherwise
                others = hateful if not held else len(before) - hateful
                if 2 * others > len(before):
                    self.count(cluster, "conformity", hit=answer != held)
                    if answer != held:
                        self.count(cluster, "conformed_to_wrong", hit=held == gold)
            before = {**before, **given}

    def rate(self, *name: str) -> JSON:
        """Return a rate: `n`, `value`, `interval`."""
        hits, totals = self.rates.get(name, np.zeros((2, 1)))
        n = int(totals.sum())
        value = float(hits.sum() / n) if n else None
        return {"n": n, "value": value, "interval": rate_interval(hits, totals)}

    def difference(self, before: str, after: str) -> JSON:
        """Return how two rates over the same cases differ: `difference`, `interval` and `p` of an exchange test."""
        if (before,) not in self.rates:
            return {"difference": None, "interval": None, "p": None}
        (one, totals), (other, _) = self.rates[before,], self.rates[after,]
        held = totals > 0
        gaps = (other - one)[held]
        sizes = totals[held]
        p, _ = exchange_test(gaps.astype(np.int64))
        return {
            "difference": float(gaps.sum() / sizes.sum()),
            "interval": difference_interval(gaps, sizes),
            "p": p,
        }


def _majority(answers: Mapping[str, bool]) -> bool:
    """Return whether more than half of the seats call the post hateful."""
    return 2 * sum(answers.values()) > len(answers)


def measure_debate(columns: RunColumns, clusters: Clusters, debates: Mapping[int, Debate]) -> JSON:
    """Return what the debates of a run changed.

    Args:
        columns: the run.
        clusters: the clusters of its posts.
        debates: the debate of each row that has one.

    Returns:
        `n` decided cases with a position; `answers` of all seats that say what they think, and `seats` one by one:
        right at `first` and at `last`, `turned_wrong`, `turned_right`, `back`; `conformity`; `stages`; `costs` by
        round; `first_majority`, `verdict` and `oracle` with the differences `change` and `oracle_gap`.
    """
    tally = DebateTally(max(1, clusters.cluster_count))
    for row, debate in debates.items():
        if columns.is_decided[row]:
            gold = bool(columns.positive[row])
            verdict = bool(columns.hateful[row] == 1)
            tally.add(debate, int(clusters.of_post[columns.post[row]]), gold=gold, verdict=verdict)
    track = ("first", "last", "turned_wrong", "turned_right", "back")
    seats = sorted({name[1] for name in tally.rates if name[0] == "seats"})
    stages = sorted({(int(name[1]), name[2]) for name in tally.rates if name[0] == "stages"})
    moves = ("right", "majority", "to_wrong", "to_right")
    posts = max(1, tally.cases)
    return {
        "n": tally.cases,
        "answers": {name: tally.rate("answers", name) for name in track},
        "conformity": tally.rate("conformity"),
        "conformed_to_wrong": tally.rate("conformed_to_wrong"),
        **{name: tally.rate(name) for name in ("first_majority", "verdict", "oracle")},
        "change": tally.difference("first_majority", "verdict"),
        "oracle_gap": tally.difference("verdict", "oracle"),
        "stages": [
            {
                "round": number,
                "again": bool(again),
                **{name: tally.rate("stages", str(number), again, name) for name in moves},
            }
            for number, again in stages
        ],
        "costs": [
            {
                "round": number,
                "posts": int(sums[2]),
                "calls": sums[0] / posts,
                "tokens": sums[1] / posts,
            }
            for number, sums in sorted(
                tally.costs.items(), key=lambda each: (each[0] is None, each[0] or 0)
            )
        ],
        "seats": {
            seat: {
                "assigned": seat in tally.assigned,
                **{name: tally.rate("seats", seat, name) for name in track},
            }
            for seat in seats[:_MOST_SEATS]
        },
    }
