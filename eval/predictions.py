"""Import the predictions of any model over a data set as a run. No model is asked.

The file is CSV, TSV, JSONL, JSON or Parquet. Each row has `id` (or `post_id`), `category` or `label` (or `prediction`),
and optionally `confidence`, from 0 to 1, and `explanation`. `results.jsonl` of another run is such a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets.table import PLAIN_LABELS
from tribunal.eval.evaluate import Evaluation, choose_posts, measure_results
from tribunal.eval.runs.lifecycle import lock_run_folder
from tribunal.eval.runs.run_file import IMPORTED, begin_run, describe_run, write_run_file
from tribunal.nodes.threshold import estimate_probability
from tribunal.process.files import hash_file
from tribunal.process.loops import run_many
from tribunal.prompts.policy import Policy, load_policy
from tribunal.retrievers.indexes.table_rows import NO, YES, TableRow, drop_decimal_point, read_rows
from tribunal.runner.job import AS_USUAL, RunOptions
from tribunal.runner.journal import DiskFull, Journal, OutputUnwritten, read_head, read_line_starts
from tribunal.runner.result_lines import record_of_unusable_post, record_without_graph, result_line
from tribunal.runner.results import Sample, summarize_result
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON, Record, Scheme
from tribunal.settings.contents import keep_files_read
from tribunal.settings.context import Context

SETTINGS = ("scheme", "policy")  # other settings belong to a graph
_IDS = ("id", "post_id")
_LABELS = ("category", "label", "prediction")
_NO_EXPLANATION = "The file of predictions gives no explanation."


class Prediction(NamedTuple):
    """The prediction for one post: the number of a category of the scheme, and what the file says about it."""

    label: int
    confidence: float | None
    explanation: str


@keep_files_read()
def import_predictions(
    wanted: Evaluation, file: Path, out: Path, options: RunOptions = AS_USUAL
) -> RunTally:
    """Write predictions as the results of a run, and measure them. A post without a prediction is a failure.

    Args:
        wanted: the data set and the choice of posts; of its settings only those of `SETTINGS`.
        file: the predictions.
        out: the run's folder, new or begun with the same file.
        options: `keep_text`, `watch` and `warn` apply.

    Returns:
        The state of the run.

    Raises:
        BadInput: the data set, a row of the file, or the folder is wrong; or no post of the data set has a prediction.
    """
    dataset, plan, context, data, sampling = choose_posts(wanted, wanted.plan_run(), None)
    policy = load_policy(context.policy)
    predictions = read_predictions(file, policy, context.scheme, wanted.labels)
    ids = {sample.id for sample in plan}
    found = len(ids & predictions.keys())
    if not found:
        raise BadInput(
            f"--predictions: {file}: no row is of a post of {dataset.name}: the file has the id "
            f"{next(iter(predictions), '')!r}, the data set {next(iter(ids), '')!r}; give rows with the ids of the set"
        )
    source: JSON = {"file": file.name, "sha256": hash_file(file), "rows": len(predictions)}
    described = {**describe_run(None, data, sampling, 1, plan, context), "predictions": source}
    described |= {"protocol": None, "cluster": dataset.cluster}

    def write_record(sample: Sample) -> Record:
        prediction = predictions.get(sample.id)
        if prediction is None:
            return record_of_unusable_post(
                sample, IMPORTED, context, f"{file.name} has no row of this post"
            )
        return record_of_prediction(sample, prediction, policy, context)

    async def write_results(journal: Journal, tally: RunTally) -> None:
        done = set[int]()
        for start in read_line_starts(journal.path):
            done.add(start.place)
            tally.before += 1
            result = summarize_result(start.line)
            if result is not None:
                tally.earlier.count_result(result, None)
        for place, sample in plan.posts_left(done.__contains__):
            record = write_record(sample)
            # Nobody knows whether the model saw the image.
            sample = sample.model_copy(update={"image": None, "image_missing": False})
            await journal.append(result_line(place, 0, 0.0, record, sample, options.keep_text))
            tally.add_result(record, None)
            options.watch(tally)
        await journal.sync_to_disk()

    with lock_run_folder(out):
        held = begin_run(out, described)
        tally = RunTally(total=len(plan))
        for warning in (
            *plan.warnings,
            *_warn_of_unmatched_rows(file, len(ids), found, len(predictions)),
        ):
            options.warn(warning)
        try:
            with closing(Journal(out)) as journal:
                run_many(write_results(journal, tally))
        except DiskFull as full:
            tally.stopped = str(full)
        tally.first_failure = ""  # a warning has named it, and a retry would change nothing
        try:
            measure_results(out, tally)
            if not tally.stopped:
                write_run_file(out, {**held, "head": read_head(out)}, finished=True)
        except OutputUnwritten as unwritten:
            tally.stopped = tally.stopped or str(unwritten)
    return tally


def read_predictions(
    file: Path, policy: Policy, scheme: Scheme, labels: Mapping[str, str] | None = None
) -> dict[str, Prediction]:
    """Return the predictions of a file by the id of their post.

    Args:
        file: the table.
        policy: names the categories.
        scheme: a label is the name or the number of one of its categories; of two, also a plain word for yes or no.
        labels: further words, each with the label that it means.

    Raises:
        BadInput: the file can't be read, or a row is wrong; with the row's number.
    """
    numbers = _numbers_by_word(policy, scheme, labels or {})
    predictions: dict[str, Prediction] = {}
    rows: dict[str, int | str] = {}
    for row in read_rows(file, "--predictions", strict=True):
        id, column = _first_filled(row, _IDS)
        if not id:
            raise (
                row.error(f"{column}: is empty; give the id of the post")
                if column
                else row.missing_column("id")
            )
        if id in rows:
            raise row.error(
                f"{column} = {id!r}: row {rows[id]} is of the same post; leave one of them"
            )
        rows[id] = row.number
        predictions[id] = Prediction(
            _label_of_row(row, numbers), _confidence_of_row(row), row.optional_text("explanation")
        )
    if not predictions:
        raise BadInput(f"--predictions: {file}: has no row; give a row for each post")
    return predictions


def _numbers_by_word(policy: Policy, scheme: Scheme, labels: Mapping[str, str]) -> dict[str, int]:
    """Return the number of a category for each word that may name it, in small letters; the categories' names first."""
    categories = policy.categories(scheme)
    numbers = {category.name.casefold(): number for number, category in enumerate(categories)}
    numbers |= {str(number): number for number in range(len(categories))}
    if len(categories) == 2:
        plain = (
            PLAIN_LABELS
            if policy.task == "hate"
            else dict.fromkeys(YES, "hate") | dict.fromkeys(NO, "not")
        )
        numbers = {word: int(meaning == "hate") for word, meaning in plain.items()} | numbers
    for word, meaning in labels.items():
        if meaning.casefold() not in numbers:
            raise BadInput(
                f"--labels: {word}={meaning}: {meaning!r} is no label of the scheme {scheme}; use one of: "
                f"{', '.join(category.name for category in categories)}"
            )
        numbers[word.casefold()] = numbers[meaning.casefold()]
    return numbers


def _first_filled(row: TableRow, columns: tuple[str, ...]) -> tuple[str, str]:
    """Return the text of the first of these columns that isn't blank, and its name; if all are, a column that is there.

    The texts are empty where there is none.
    """
    there = [column for column in columns if column in row.cells]
    filled = next(((row.text(column), column) for column in there if row.text(column)), None)
    return filled or ("", next(iter(there), ""))


def _label_of_row(row: TableRow, numbers: Mapping[str, int]) -> int:
    value, column = _first_filled(row, _LABELS)
    if not value:
        if not column:
            raise row.missing_column("label", " or category")
        raise row.error(f"{column}: is empty; give a label, or remove the row")
    label = numbers.get(drop_decimal_point(value).casefold())
    if label is None:
        raise row.value_error(
            column, value, f"a label of this scheme; use one of: {', '.join(numbers)}"
        )
    return label


def _confidence_of_row(row: TableRow) -> float | None:
    confidence = row.number_of("confidence") if "confidence" in row.cells else None
    if confidence is not None and not 0 <= confidence <= 1:
        raise row.value_error("confidence", confidence, "a number from 0 to 1")
    return confidence


def record_of_prediction(
    sample: Sample, prediction: Prediction, policy: Policy, context: Context
) -> Record:
    """Return the record of a post by its prediction."""
    hateful = policy.is_hate(context.scheme, prediction.label)
    explanation = prediction.explanation or _NO_EXPLANATION
    ended = {"outcome": "verdict", "explanation": explanation, "seat": "", "role": "", "model": ""}
    verdict: JSON = {
        "label": prediction.label,
        "category": policy.categories(context.scheme)[prediction.label].name,
        "hateful": hateful,
        "confidence": prediction.confidence,
        "language": sample.language,
        "language_from": "given" if sample.language else None,
        "fault": None,
        "shown": None,
    }
    if hateful is not None:
        probability, source = estimate_probability(hateful, prediction.confidence)
        verdict |= {"probability": probability, "probability_from": source}
    return record_without_graph(sample, IMPORTED, context, ended).model_copy(update=verdict)


def _warn_of_unmatched_rows(file: Path, posts: int, found: int, rows: int) -> list[str]:
    """Return warnings of posts without a prediction, and of predictions for other posts."""
    warnings = []
    if found < posts:
        warnings.append(
            f"{file.name} has no row of {posts - found:,} of {posts:,} posts: each counts as a failure"
        )
    if found < rows:
        warnings.append(
            f"{rows - found:,} of {rows:,} rows of {file.name} are of other posts, and were left out"
        )
    return warnings
