"""The overview of a run, and its posts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
from pydantic import ValidationError

from tribunal.eval.measures.columns import OUTCOMES, Bools, RunColumns
from tribunal.eval.measures.records import policy_of_run
from tribunal.eval.protocols.protocol import PaperRow, load_protocols
from tribunal.eval.report.answer import BASELINES
from tribunal.eval.report.cost_fronts import costs_and_scores
from tribunal.eval.runs.run_file import IMPORTED
from tribunal.explanations.case_drawing import spoken_turn
from tribunal.models.exam_results import name_of_label
from tribunal.runner.prices import Prices, prices_of_run, total_cost
from tribunal.runner.results import read_full_line
from tribunal.schema import JSON, Scheme, Turn

LONGEST = 4000  # characters of one utterance that are shown


# the title of an utterance, or of something it rests on, and its words
Part = tuple[str, list[str]]


def reported_posts(columns: RunColumns, most: int) -> list[tuple[str, str, JSON]]:
    """Return verdicts that disagree with the gold, and results that are uncertain or wait for a person.

    Of each kind its title, its order, and so many posts at most.
    """
    wrong = columns.is_decided & ~columns.is_right
    marked = (columns.uncertain > 0) | np.equal(columns.outcome, OUTCOMES.index("pending"))
    return [
        ("Wrong verdicts", "the most confident first", _first_posts(columns, wrong, most, sign=-1)),
        (
            "Uncertain posts",
            "the least confident first",
            _first_posts(columns, marked, most, sign=1),
        ),
    ]


def _first_posts(columns: RunColumns, chosen: Bools, most: int, sign: int) -> JSON:
    confidence = np.nan_to_num(sign * columns.confidence, nan=np.inf)
    rows = np.flatnonzero(chosen).tolist()
    rows.sort(
        key=lambda row: (confidence[row], columns.ids[columns.post[row]], columns.repeat[row])
    )
    return {"total": len(rows), "shown": [_reported_post(columns, row) for row in rows[:most]]}


def _reported_post(columns: RunColumns, row: int) -> JSON:
    """Return a post, what people say of it, what was decided, and what was said on the way."""
    line = read_full_line(columns.folder, int(columns.offset[row]))
    label = int(columns.verdict_label[row])
    confidence = columns.confidence[row]
    outcome = OUTCOMES[columns.outcome[row]]
    return {
        "post_id": columns.ids[columns.post[row]],
        "repeat": int(columns.repeat[row]),
        "gold": columns.names.get(int(columns.gold_label[row]))
        if columns.is_labelled[row]
        else None,
        "answer": columns.names.get(label, str(label)) if outcome == "verdict" else outcome,
        "confidence": None if np.isnan(confidence) else float(confidence),
        "parts": [
            {"title": title, "words": [_shorten_words(each) for each in words if each]}
            for title, words in _parts_of_post(line)
        ],
    }


def _parts_of_post(line: JSON) -> Iterator[Part]:
    fields = line.get("fields") or {}
    text = line.get("text") or fields.get("text")
    image = line.get("image") or fields.get("image")
    if text:
        yield "The post", [str(text)]
    if image:
        name = PurePosixPath(str(image).replace("\\", "/")).name
        yield "Its image", ["a data URI" if str(image).startswith("data:") else name]
    for opinion in line.get("opinions") or ():
        yield f"Perspective {opinion['id']}: {opinion['label_name']}", [opinion["reason"]]
    for turn in line.get("transcript") or ():
        yield _part_of_turn(turn)
    for found in line.get("evidence") or ():
        yield f"Evidence {found['id']}, {found['stance']}", [found["url"], found["passage"]]
    for case in line.get("precedents") or ():
        cited = f", cited by {', '.join(case['cited_by'])}" if case.get("cited_by") else ""
        yield f"Precedent {case['id']}, {case['category']}{cited}", [f"the case {case['case']}"]
    yield "Explanation", [str(line.get("explanation") or "none")]
    if line.get("warnings"):
        yield "Notes", [str(warning) for warning in line["warnings"]]


def _part_of_turn(turn: JSON) -> Part:
    """Return a turn as every picture of a case has it; one of another version as it is."""
    try:
        spoken = spoken_turn(Turn.model_validate(turn))
    except ValidationError:
        return str(turn.get("seat")), [json.dumps(turn, ensure_ascii=False)]
    return spoken.title, list(spoken.words)


def _shorten_words(words: str) -> str:
    return (
        words
        if len(words) <= LONGEST
        else f"{words[:LONGEST]} … [{len(words) - LONGEST:,} more characters]"
    )


# how yes and no are called where a set has several words for each
_UNNAMED = (
    "negative",
    "positive",
)


def name_labels_by_policy(columns: RunColumns) -> RunColumns:
    """Return the same results with the policy's names of labels; unchanged where the policy isn't known."""
    names = dict(enumerate(_category_names(columns.run, columns.scheme)))
    return replace(columns, names={**columns.names, **names}) if names else columns


def dataset_label_words(columns: RunColumns, named: RunColumns) -> str:
    """Say what the data set calls no and yes; empty unless it has one word for each, other than the policy's."""
    own = [columns.names.get(label, "") for label in (0, 1)]
    called = [named.names.get(label, "") for label in (0, 1)]
    if columns.scheme == "fine" or own == list(_UNNAMED) or not all(own):
        return ""
    if [name.casefold() for name in own] == [name.casefold() for name in called]:
        return ""
    return f"The data set calls {called[0]} “{own[0]}”, and {called[1]} “{own[1]}”."


def _category_names(run: JSON, scheme: str) -> list[str]:
    """Return the names in run.json; of an older run, those of its policy (`policy_of_run`)."""
    held = run.get("categories")
    if isinstance(held, dict):
        return [str(name) for name in held.get(scheme) or ()]
    policy = policy_of_run(run)
    if policy is None:
        return []
    return [category.name for category in (policy.fine if scheme == "fine" else policy.binary)]


def images_in_words(images: JSON) -> str:
    """Say how many posts have an image, had it here, and were shown with it; empty where no post has one.

    Of a run that skipped posts without their image, how many of the set those are, first.
    """
    said = left_out_in_words(images)
    if not images["named"]:
        return said or ""
    of = (
        f" of the {images['judged']:,} that were judged"
        if images["judged"] < images["named"]
        else ""
    )
    some = f", and {images['to_some']:,} to some of the models alone" if images["to_some"] else ""
    return (
        f"{said + '; ' if said else ''}{images['named']:,} posts have an image: it was here for {images['here']:,}, "
        f"and {images['shown']:,}{of} were shown to the models with it{some}"
    )


def left_out_in_words(images: JSON) -> str | None:
    """Say how many posts of the set were left out, why, and the labels of these and of the rest; None if none was."""
    if not images["left_out"]:
        return None
    said = f"{images['left_out']:,} posts of the set were left out, since their image wasn't there"
    if not images["labels"]:  # of a run of an earlier version
        return said
    left_out, kept = (
        ", ".join(f"{count:,} {label}" for label, count in sorted(images["labels"][part].items()))
        for part in ("left_out", "kept")
    )
    return f"{said} ({left_out}); {sum(images['labels']['kept'].values()):,} are left ({kept})"


def missing_images_warning(images: JSON) -> str | None:
    """Return a warning where posts were judged without their image; None where none was."""
    if images["shown"] == images["judged"]:
        return None
    return (
        f"Posts were judged without their image: {images_in_words(images)}. These figures don't compare with any of "
        "models that see."
    )


_DECIDING = frozenset({"judge", "classifier", "reflection", "summary"})


def overview_row(
    columns: RunColumns, measured: JSON, prices: Prices | None, cluster: str | None = None
) -> JSON:
    """Return one run as a row, at these prices, or at those beside its results if none are given.

    `worth` is what it costs a post and how good it is (`costs_and_scores`). `posts` tells runs over the same posts: by
    their data, the hash of its files, the scheme and the posts' ids. `costs` is None where no call has a
    price; `unseen` are calls that its graph made past `ask`. Nobody knows what predictions of an `imported` run cost.

    Raises:
        BadInput: the prices beside the results are broken.
    """
    cost = measured["cost"]
    data = dataset_of_run(columns.run)
    imported = columns.run.get("predictions")
    system = (
        f"imported from {imported['file']}" if imported else str(columns.run.get("graph") or "")
    )
    known = prices or prices_of_run(columns.folder)
    paid = total_cost(columns.spent, known) if known else None
    calls = sum(used.calls for used in columns.spent.values())
    costs = None
    if paid is not None and not paid.unpriced == calls > 0:
        each = paid.total / columns.row_count if columns.row_count else None
        costs = {"total": paid.total, "each": each, "unpriced": paid.unpriced}
    return {
        "name": columns.folder.resolve().name,
        "what": ", ".join(part for part in (system, data) if part),
        "imported": bool(imported),
        "data": data,
        "posts": (
            data,
            (columns.run.get("data") or {}).get("sha256"),
            measured["scheme"],
            frozenset(columns.ids),
        ),
        "models": list(_models_asked(columns)),
        "measured": measured,
        "costs": costs,
        "worth": costs_and_scores(columns, measured, known, cluster),
        "calls": None if imported else cost["calls"]["mean"],
        "requests": None if imported else cost["requests"]["mean"],
        "tokens": None if imported else cost["tokens"]["mean"],
        "unseen": cost["unseen_calls"]["total"] if "unseen_calls" in cost else 0,
    }


def dataset_of_run(run: JSON) -> str:
    """Return the data set of a run, and which part of it."""
    held = run.get("data")
    split = held.get("split") if isinstance(held, dict) else None
    return " ".join(str(part) for part in (run.get("dataset"), split) if part)


def baseline_rows(rows: Sequence[JSON]) -> list[JSON]:
    """Return what "always hate" and "never hate" score on each set of posts that runs are over."""
    of = {row["posts"]: row for row in rows if row["measured"]["accuracy"] is not None}
    return [
        {
            "title": title,
            "what": row["data"],
            "posts": row["measured"]["posts"],
            "measured": row["measured"]["baselines"][name]["counting_errors"],
        }
        for row in of.values()
        for name, title in BASELINES.items()
    ]


def court_values(measured: Iterable[tuple[str, JSON]], rule_changes: Sequence[JSON]) -> JSON:
    """Return what court.html.jinja and court.md.jinja show: by measure, the runs that have it.

    Args:
        measured: the name and measures of each run.
        rule_changes: the rule changes between these runs.
    """
    found: JSON = {"explanations": [], "debates": [], "rule_changes": rule_changes, "swaps": []}
    for name, each in measured:
        explained = each["explanations"]
        if explained["n"] or explained["without_quotes"]:
            found["explanations"].append((name, explained))
        if each["debate"]["n"]:
            found["debates"].append((name, each["debate"]))
        if each["group_swap"]:
            found["swaps"].append((name, each["group_swap"]))
    return found


def _models_asked(columns: RunColumns) -> Iterator[JSON]:
    """Yield the models that were asked, those that decide first; of a run without a call, those that it names.

    Of each its name, the seats that asked it, and what its provider calls it, where that is otherwise.
    """
    spent = sorted(
        columns.spent.items(), key=lambda each: (_DECIDING.isdisjoint(each[1].seats), each[0])
    )
    for name, used in spent:
        seats = ", ".join(seat for seat in used.seats if seat) if len(spent) > 1 else ""
        names = dict.fromkeys(name_of_label(served) for served in used.served)
        served = ", ".join(each for each in names if each and each != name.partition(":")[2])
        yield {"name": name, "seats": seats, "served": served}
    if not spent:
        settings = columns.run.get("settings") or {}
        named = [settings.get(name) for name in ("model", "judge_model", "aux_model")]
        yield from (
            {"name": str(name), "seats": "", "served": ""} for name in dict.fromkeys(named) if name
        )


CITATION = (
    "Sun et al., “More Than Sum of Its Parts: Deciphering Intent Shifts in Multimodal Hate Speech Detection”, 2026, "
    "arXiv:2603.21298, Table 3"
)
TEST_POSTS = 1178
_GRAPHS = {"arcade", "multiround", "baseline", IMPORTED}
_COLUMNS = {
    "fine": {"accuracy": "Accuracy", "macro_f1": "Macro-F1", "weighted_f1": "Weighted-F1"},
    "binary": {"accuracy": "Accuracy", "recall": "Recall", "f1": "F1"},
}
_DIFFICULTIES = ("Easy", "Normal", "Hard")
_TABLE = "arcade-table3"
_SPLIT = "test"
PAPER_POLICY = "h-vli"


def paper_table(run: JSON, measured: JSON, as_paper: JSON | None = None) -> JSON | None:
    """Return a measured row and the paper's, under the same heads, in percent; and what stands in the way of comparing.

    None unless it is ARCADE, its ablation, its baseline, or imported predictions, on H-VLI's test split.
    `as_paper` are the measures that count failures as wrong, as the paper's evaluator does, if there are failures: a
    row of their own before the measured one.
    """
    data = run.get("data")
    split = data.get("split") if isinstance(data, dict) else None
    if run.get("graph") not in _GRAPHS or run.get("dataset") != "h-vli" or split != _SPLIT:
        return None
    scheme: Scheme = measured["scheme"]
    wanted = _COLUMNS[scheme]
    kinds = [("failures left out", measured)] if as_paper else [("", measured)]
    if as_paper:
        kinds.insert(0, ("failures wrong, as in the paper", as_paper))
    own = [
        (
            called,
            [
                *(each["by_difficulty"][level]["accuracy"] for level in _DIFFICULTIES),
                *map(each.get, wanted),
            ],
        )
        for called, each in kinds
    ]
    shape = load_protocols()[_TABLE].shape
    columns = [place for place, column in enumerate(shape.columns) if column.part == scheme]
    rows = [
        (
            row.model or row.labels[0],
            _method_of_row(row),
            [float(row.paper[column]) for column in columns],
        )
        for row in shape.rows
        if row.paper
    ]
    return {
        "task": "Task 1, fine-grained" if scheme == "fine" else "Task 2, binary",
        "heads": [*_DIFFICULTIES, *wanted.values()],
        "measured": [
            (called, [None if value is None else 100 * value for value in row])
            for called, row in own
        ],
        "published": rows,  # model, method, figures
    }


def _method_of_row(row: PaperRow) -> str:
    if row.not_run:
        return "trained"
    return "one call, no training" if "baseline" in str(row.condition) else "ARCADE"
