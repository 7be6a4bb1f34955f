"""A run's results as columns: one array a measure reads, so that a run of any length fits into memory."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.core.calls import REHEARSAL, warnings_of_unfit_models
from tribunal.runner.prices import ModelUsage, ShortcutSavings, UsageByModel, add_calls
from tribunal.runner.results import Result, read_results, read_run_file
from tribunal.runner.tally import FormatCounts, ReasonCounts, formats_of_calls, reasons_of_calls
from tribunal.schema import JSON, Scheme

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

OUTCOMES = ("verdict", "refusal", "failure", "pending")
NO_LABEL = -1
OWN_CACHE = "cache"  # among the shortcuts: answers from our own cache
# Under which name results are told apart, and by which fields of the data set.
GROUPS = {
    "by_difficulty": ("difficulty",),
    "by_pattern": ("smi_pattern",),
    "by_functionality": ("functionality",),
    "by_target": ("target", "targets"),
    "by_implicit": ("implicit",),
}
_LANGUAGES = "by_language"  # beside these: the language that the data give
MEASURED_GROUPS = (*GROUPS, _LANGUAGES)  # those of metrics.json
Stances = tuple[tuple[str, str], ...]


class ImagesShown(NamedTuple):
    """Counts of posts: with an image in their set, with the image at hand, and with it shown to all models or some.

    `judged` are those with an image in their set that a model was asked about, or that have a verdict.
    """

    named: int
    here: int
    judged: int
    shown: int
    to_some: int


class ClauseCounts(NamedTuple):
    """Count the verdicts that cite a clause, and those of them that are hateful."""

    verdicts: int = 0
    hateful: int = 0


@dataclass(frozen=True)
class RunColumns:
    """The results of a run, a row each, in the order of its file. Rows of one post share its number in `ids`."""

    folder: Path
    run: JSON
    ids: list[str]
    post: Ints
    repeat: Ints
    outcome: Ints  # its place in OUTCOMES
    gold: Ints  # NO_LABEL where the post has none
    positive: Ints  # the gold folded to 0 or 1
    label: Ints  # NO_LABEL where there is no verdict
    hateful: Ints  # the verdict folded to 0 or 1: whether its category is hate; NO_LABEL where there is none
    uncertain: Ints
    confidence: Floats  # nan where there is none
    seconds: Floats
    calls: Ints
    requests: Ints  # those of the calls, re-asks and retries included
    prompt_tokens: Ints
    completion_tokens: Ints
    cached_tokens: Ints  # -1 where the provider says nothing of them
    from_cache: Ints
    estimated_calls: Ints  # whose tokens the server didn't count
    unseen_calls: Ints  # made by the graph past `ask`, so in no other number
    offset: Ints
    scheme: Scheme  # fine only where both sides are, and labels can be compared as they are
    names: dict[int, str]  # what a label is called
    groups: dict[str, dict[str, Ints]]  # by_difficulty → Easy → its rows
    # by the number of a post: the group of posts that say the same; empty where it has none
    groups_of_posts: list[str]
    # by the number of a post: of its text (`eval.runs.likeness`); empty where it has none
    signatures: list[str]
    stances: list[Stances]  # of each row: which perspective said what
    rehearsed: int  # rows in which the rehearsal model took part
    unfit: int  # rows in which a model took part that had failed its exam
    images: ImagesShown
    calls_by_format: FormatCounts  # answered calls, by model, role and response format
    calls_by_reason: (
        ReasonCounts  # answered calls, by seat and model, and whether a reason was left empty
    )
    spent: UsageByModel  # what the calls took, by model
    seated: dict[str, UsageByModel]  # the same by seat, and there by model
    cached: UsageByModel  # what the answers from our own cache would have taken, by model
    spared: dict[str, ShortcutSavings]  # what shortcuts spared, by their id
    shown_policy: int  # rows in which a model was shown the policy
    cited_clauses: dict[str, ClauseCounts]  # how many verdicts cite a clause, by its id

    @property
    def row_count(self) -> int:
        """Return how many results there are."""
        return len(self.post)

    @property
    def planned_count(self) -> int | None:
        """Return how many results the whole run has; None where run.json doesn't say."""
        posts = self.run.get("n")
        repeats = self.run.get("repeats", 1)
        return posts * repeats if isinstance(posts, int) and isinstance(repeats, int) else None

    @cached_property
    def is_labelled(self) -> Bools:
        """Return, for each row, whether its post has a gold label."""
        return np.not_equal(self.gold, NO_LABEL)

    @cached_property
    def has_verdict(self) -> Bools:
        """Return, for each row, whether its outcome is a verdict."""
        return np.equal(self.outcome, OUTCOMES.index("verdict"))

    @cached_property
    def is_decided(self) -> Bools:
        """Return, for each row, whether it is a verdict on a labelled post; headline measures are about these."""
        return self.is_labelled & self.has_verdict

    @cached_property
    def gold_label(self) -> Ints:
        """Return the gold labels in the scheme that is compared."""
        return self.gold if self.scheme == "fine" else self.positive

    @cached_property
    def verdict_label(self) -> Ints:
        """Return the verdicts' labels in the scheme that is compared; NO_LABEL where there is no verdict."""
        return self.label if self.scheme == "fine" else self.hateful

    @cached_property
    def negative_labels(self) -> frozenset[int]:
        """Return the labels that fold to no.

        These are 0, and in the fine scheme the policy's categories that aren't hate.
        """
        if self.scheme != "fine":
            return frozenset({0})
        held = zip((self.gold, self.label), (self.positive, self.hateful), strict=True)
        return frozenset({0}).union(*(label[folded == 0].tolist() for label, folded in held))

    @cached_property
    def is_right(self) -> Bools:
        """Return, for each row, whether its verdict is the gold label."""
        return self.is_decided & np.equal(self.gold_label, self.verdict_label)

    def count_outcome(self, outcome: str, rows: Ints | Bools | slice = slice(None)) -> int:
        """Count the rows that ended in an outcome."""
        return int((self.outcome[rows] == OUTCOMES.index(outcome)).sum())


def count_failures_as_wrong(columns: RunColumns) -> RunColumns:
    """Return the same results with each failure as a wrong verdict; refusals stay left out.

    So ARCADE's published evaluator counts an answer that it can't read: as label 1 of a post that isn't hate, and as
    label 0 of one that is, which is one false answer more of that label. The paper excludes refusals alone (Appendix
    D.4).
    """
    failed = columns.outcome == OUTCOMES.index("failure")
    wrong = np.where(columns.positive == 1, 0, 1)
    return replace(
        columns,
        outcome=np.where(failed, OUTCOMES.index("verdict"), columns.outcome),
        label=np.where(failed, wrong, columns.label),
        hateful=np.where(failed, wrong, columns.hateful),
    )


def read_columns(folder: Path) -> RunColumns:
    """Read a run.

    Raises:
        BadInput: the folder is no run's, or one of its files is broken.
    """
    run = read_run_file(folder)
    posts = dict[str, int]()
    shared = dict[Stances, Stances]()
    numbers = {each.name: array("q") for each in fields(RunColumns) if each.type == "Ints"}
    confidence = array("d")
    seconds = array("d")
    stances = list[Stances]()
    groups: dict[str, dict[str, array[int]]] = {
        name: defaultdict(lambda: array("q")) for name in MEASURED_GROUPS
    }
    groups_of_posts = list[str]()
    signatures = list[str]()
    words = defaultdict[int, Counter[str]](Counter)
    gold_names = (set[str](), set[str]())
    is_binary = False
    rehearsed = unfit = shown_policy = 0
    cited: dict[str, ClauseCounts] = {}
    calls_by_format: FormatCounts = Counter()
    calls_by_reason: ReasonCounts = Counter()
    spent: UsageByModel = {}
    cached: UsageByModel = {}
    seated: dict[str, UsageByModel] = defaultdict(dict)
    spared: dict[str, ShortcutSavings] = defaultdict(ShortcutSavings)
    pictured = set[int]()
    here = set[int]()
    judged = set[int]()
    shown_to = set[int]()
    hidden_from = set[int]()
    for row, (offset, result) in enumerate(read_results(folder)):
        post = posts.setdefault(result.post_id, len(posts))
        gold = result.gold
        held = {"post": post, "offset": offset, **result_numbers(result)}
        for name, number in held.items():
            numbers[name].append(number)
        label = held["label"]
        confidence.append(np.nan if result.confidence is None else result.confidence)
        seconds.append(result.seconds)
        said = tuple(sorted((opinion.id, opinion.stance) for opinion in result.opinions))
        stances.append(shared.setdefault(said, said))
        if len(groups_of_posts) < len(posts):
            groups_of_posts.append(result.group)
            signatures.append(result.likeness)
        rehearsed += result.rehearsed or any(call.model == REHEARSAL for call in result.calls)
        unfit += bool(warnings_of_unfit_models(result.warnings))
        shown_policy += bool(result.policy)
        for clause in result.clauses:
            counted = cited.get(clause, ClauseCounts())
            cited[clause] = ClauseCounts(
                counted.verdicts + 1, counted.hateful + bool(held["hateful"] == 1)
            )
        calls_by_format.update(formats_of_calls(result.calls))
        calls_by_reason.update(reasons_of_calls(result.calls))
        add_calls(spent, result.calls)
        for call in result.calls:
            used = cached if call.cached else seated[call.seat.partition(":")[0]]
            used.setdefault(call.model, ModelUsage()).add_tokens(1, call)
        for saving in result.saved:
            spared[saving.id].add_row(row, saving.calls, saving.tokens)
        kept = [call.prompt_tokens + call.completion_tokens for call in result.calls if call.cached]
        if kept:
            spared[OWN_CACHE].add_row(row, len(kept), sum(kept))
        if result.has_image is not None:
            seen = ["image" in call.shown for call in result.calls if call.shown]
            asked = bool(seen) or result.outcome not in ("failure", "refusal")
            for posts_so, holds in (
                (pictured, True),
                (here, result.has_image),
                (judged, asked),
                (shown_to, any(seen)),
                (hidden_from, asked and not (seen and all(seen))),
            ):
                posts_so.update([post] * holds)
        if label != NO_LABEL and result.category is not None:
            words[label][result.category] += 1
        if gold is not None:
            is_binary |= gold.scheme != "fine" or result.scheme != "fine"
            words[gold.label][gold.name] += 1
            gold_names[int(gold.positive)].add(gold.name)
            for name, of_group in GROUPS.items():
                for value in values_of_fields(result.fields, of_group):
                    groups[name][value].append(row)
            if result.language and result.language_from == "given":
                groups[_LANGUAGES][result.language].append(row)
    names = {label: called.most_common(1)[0][0] for label, called in sorted(words.items())}
    if is_binary:  # the set's own words if it has one for each
        several = any(len(each) > 1 for each in gold_names)
        names = {
            label: default if several else next(iter(gold_names[label]), default)
            for label, default in enumerate(("negative", "positive"))
        }
    return RunColumns(
        folder=folder,
        run=run,
        ids=list(posts),
        scheme="binary" if is_binary else "fine",
        names=names,
        groups={
            name: {value: np.asarray(rows) for value, rows in sorted(held.items())}
            for name, held in groups.items()
        },
        groups_of_posts=groups_of_posts,
        signatures=signatures,
        stances=stances,
        rehearsed=rehearsed,
        unfit=unfit,
        images=ImagesShown(
            len(pictured),
            len(here),
            len(judged),
            len(shown_to - hidden_from),
            len(shown_to & hidden_from),
        ),
        calls_by_format=calls_by_format,
        calls_by_reason=calls_by_reason,
        spent=spent,
        seated=dict(seated),
        cached=cached,
        spared=dict(spared),
        shown_policy=shown_policy,
        cited_clauses=dict(sorted(cited.items())),
        confidence=np.asarray(confidence),
        seconds=np.asarray(seconds),
        **{name: np.asarray(values) for name, values in numbers.items()},
    )


def result_numbers(result: Result) -> dict[str, int]:
    """Return what a result is measured by, in whole numbers, as `RunColumns` has them; NO_LABEL where there is none."""
    gold = result.gold
    usage = result.usage
    hateful = result.hateful
    label = result.label if result.outcome == "verdict" and result.label is not None else NO_LABEL
    return {
        "repeat": result.repeat,
        "outcome": OUTCOMES.index(result.outcome),
        "gold": NO_LABEL if gold is None else gold.label,
        "positive": NO_LABEL if gold is None else int(gold.positive),
        "label": label,
        "hateful": NO_LABEL
        if label == NO_LABEL
        else int(label > 0 if hateful is None else hateful),
        "uncertain": int(result.uncertain),
        "calls": usage.calls,
        "requests": sum(call.attempts for call in result.calls if not call.cached),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": -1 if usage.cached_tokens is None else usage.cached_tokens,
        "from_cache": sum(call.cached for call in result.calls),
        "unseen_calls": result.unseen_calls,
        "estimated_calls": sum(call.estimated for call in result.calls),
    }


def values_of_fields(fields: JSON, names: Iterable[str]) -> list[str]:
    """Return what fields of a post hold, each value once: none, one, or several (a post may aim at two groups)."""
    return list(dict.fromkeys(value for name in names for value in _flat_values(fields.get(name))))


def _flat_values(given: Any) -> list[str]:
    if isinstance(given, list | tuple):
        return [value for each in given for value in _flat_values(each)]
    if isinstance(given, bool):
        return ["true" if given else "false"]
    return [] if given is None or given == "" else [str(given)]
