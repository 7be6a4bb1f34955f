"""The results of a run with its posts, for export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from tribunal.core.calls import Call, was_rehearsed
from tribunal.core.text import parse_toml
from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, DatasetPool, find_dataset, open_datasets
from tribunal.eval.datasets.dataset import Dataset
from tribunal.eval.report.page import output_folder
from tribunal.explanations.case_drawing import spoken_turn
from tribunal.process.files import write_atomically
from tribunal.review.table_files import ColumnKind, TableWriter
from tribunal.runner.journal import RESULTS, parse_result
from tribunal.runner.prices import Prices, prices_of_run
from tribunal.runner.results import Result, read_lines, read_results, read_run_file
from tribunal.schema import JSON, Turn
from tribunal.settings.validation import describe_validation_error


class PostWords(NamedTuple):
    """A post's text, and the posts before it in its conversation."""

    text: str
    earlier: tuple[str, ...] = ()


WordsOf = Callable[[str], PostWords | None]


def parse_data_paths(values: Iterable[str]) -> tuple[Path | None, dict[str, Path]]:
    """Parse the values of `--data`.

    Returns:
        The one path for every run, and the paths by the name of their data set.

    Raises:
        BadInput: two paths are given without names.
    """
    only_path: Path | None = None
    paths_by_set: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if equals and path and not Path(value).exists():
            paths_by_set[name] = Path(path).expanduser()
        elif only_path is not None:
            raise BadInput(
                f"data: {only_path} and {value}: give one path, or SET=PATH for each set"
            )
        else:
            only_path = Path(value).expanduser()
    return only_path, paths_by_set


def words_by_post(
    run: JSON, only_path: Path | None, paths_by_set: Mapping[str, Path], folder: Path
) -> WordsOf:
    """Return a function from a post's id to its words; to None if the data set isn't given or lacks the post.

    Args:
        run: the content of run.json.
        only_path: the path that is given for every run.
        paths_by_set: paths by the name of their data set.
        folder: the run's folder, for error messages.

    Raises:
        BadInput: the files are not those that the run was made over, or can't be read.
    """
    dataset = _open_dataset(run, only_path, paths_by_set, folder)
    words = (
        {}
        if dataset is None
        else {sample.id: PostWords(sample.text, sample.earlier) for sample in dataset}
    )
    return words.get


def _open_dataset(
    run: JSON, only_path: Path | None, paths_by_set: Mapping[str, Path], folder: Path
) -> Dataset | DatasetPool | None:
    settings: JSON = run["data"] if isinstance(run.get("data"), dict) else {}
    name = settings.get("name") or run.get("dataset")
    names = name.split(PLUS) if isinstance(name, str) else []
    data: Path | dict[str, Path] | None = only_path
    if names and all(each in paths_by_set for each in names):
        data = (
            {each: paths_by_set[each] for each in names}
            if len(names) > 1
            else paths_by_set[names[0]]
        )
    if data is None or not names:
        return None
    spec = find_dataset(names[0]) if len(names) == 1 else None
    split = (
        settings.get("split")
        if spec is not None and settings.get("split") != spec.default
        else None
    )
    if spec is not None and spec.mapped and isinstance(data, Path) and data.is_dir():
        # A table's own file may have any name: take the one that the run was made over.
        candidates = (data / Path(each).name for each in settings.get("files") or ())
        data = next((file for file in candidates if file.is_file()), data)
    dataset = open_datasets(
        PLUS.join(names),
        data,
        split=split,
        columns=settings.get("columns"),
        labels=settings.get("labels"),
        skip_missing_images=bool(settings.get("skip_missing_images")),
        extras=bool(settings.get("extras")),
    )
    if settings.get("sha256") and dataset.fingerprint != settings["sha256"]:
        files = ", ".join(str(file) for file in dataset.files)
        raise BadInput(
            f"data: {files}: not the files that {folder} was made over: their SHA-256 is {dataset.fingerprint[:12]}…, "
            f"and run.json names {str(settings['sha256'])[:12]}…; give the files as they were"
        )
    return dataset


Kind = Literal["text", "whole", "number", "yes/no"]
FIELD = "field_"  # begins the name of a column that is one of the data set's own fields


class ExportColumn(NamedTuple):
    """A column of a table: its name, its type, and what stands in it."""

    name: str
    kind: Kind
    says: str


@cache
def export_tables() -> dict[str, tuple[ExportColumn, ...]]:
    """Return the columns of each table, those of the key first."""
    declared = parse_toml(files(__package__).joinpath("columns.toml").read_text("utf-8"))
    key = declared.pop("key")
    return {
        table: tuple(
            ExportColumn(name, kind, says) for name, (kind, says) in (key | columns).items()
        )
        for table, columns in declared.items()
    }


_PROSECUTION = ("press", "withdraw")


@dataclass(frozen=True)
class ExportedResult:
    """One result as it is exported: its line as it was checked, the same in full, and the post's words if known."""

    run: str
    result: Result
    line: JSON
    words: PostWords | None

    @property
    def key_columns(self) -> JSON:
        """Return the columns that every table begins with."""
        return {"run": self.run, "post_id": self.result.post_id, "repeat": self.result.repeat}

    @cached_property
    def calls(self) -> list[Call]:
        """Return its calls, in order."""
        return [Call.model_validate(call) for call in self.line.get("calls") or ()]

    @cached_property
    def turns(self) -> list[Turn]:
        """Return its transcript."""
        return [Turn.model_validate(turn) for turn in self.line.get("transcript") or ()]

    @property
    def is_rehearsed(self) -> bool:
        """Return whether the rehearsal model took part; an older line says it by its calls alone."""
        return self.result.rehearsed or was_rehearsed(self.line.get("calls") or ())

    @property
    def is_correct(self) -> bool | None:
        """Return whether the verdict is the gold label, folded to yes or no if one of them is; None without either."""
        gold = self.result.gold
        result = self.result
        if gold is None or result.outcome != "verdict" or result.label is None:
            return None
        if gold.scheme == result.scheme == "fine":
            return gold.label == result.label
        return gold.positive == (result.label > 0 if result.hateful is None else result.hateful)


def rows_of_result(exported: ExportedResult, prices: Prices | None) -> Iterator[tuple[str, JSON]]:
    """Yield every row of one result, each with the name of its table."""
    yield "posts", post_row(exported, prices)
    opinions = exported.line.get("opinions") or ()
    for table, rows in (
        ("calls", (_call_row(call, prices) for call in exported.calls)),
        ("turns", map(_turn_row, exported.turns)),
        ("cues", _cue_rows(exported)),
        ("opinions", opinions),
        ("cost", _cost_rows(exported, prices)),
    ):
        for number, row in enumerate(rows):
            yield table, {**exported.key_columns, "number": number, **row}


def post_row(exported: ExportedResult, prices: Prices | None) -> JSON:
    """Return the row of a post: all that stands in its line, and over it what is computed."""
    line = exported.line
    result = exported.result
    gold = exported.result.gold
    fault = line.get("fault") or {}
    return {
        **line,
        **exported.key_columns,
        "gold_label": gold.label if gold else None,
        "gold_name": gold.name if gold else None,
        "gold_scheme": gold.scheme if gold else None,
        "gold_positive": gold.positive if gold else None,
        "correct": exported.is_correct,
        "rehearsed": exported.is_rehearsed,
        "fault": fault.get("kind"),
        "fault_seat": fault.get("seat"),
        "group": result.group or None,
        "calls": result.usage.calls,
        "prompt_tokens": result.usage.prompt_tokens,
        "cached_tokens": result.usage.cached_tokens,
        "completion_tokens": result.usage.completion_tokens,
        "cost": prices.cost_of_calls(exported.calls) if prices else None,
        "warnings": "\n".join(result.warnings) or None,
        "text": exported.words.text if exported.words else None,
        **{f"{FIELD}{name}": value for name, value in result.fields.items()},
    }


def _call_row(call: Call, prices: Prices | None) -> JSON:
    shown = None if call.shown is None else " ".join(call.shown)
    return {**call.dump(), "shown": shown, "cost": prices.cost_of_call(call) if prices else None}


def _turn_row(turn: Turn) -> JSON:
    cues = dict.fromkeys(
        [*(cue.id for cue in turn.cues), *(each.cue_id for each in turn.arguments)]
    )
    return {
        **turn.dump(),
        "words": "\n".join(spoken_turn(turn).words),
        "cues": " ".join(cues) or None,
    }


def _cue_rows(exported: ExportedResult) -> Iterator[JSON]:
    last: dict[tuple[str, bool], str] = {}
    for turn in exported.turns:
        for each in turn.arguments:
            last[each.cue_id, each.stance in _PROSECUTION] = each.stance
    for cue in exported.line.get("cues") or ():
        yield {
            **cue,
            "prosecution": last.get((cue["id"], True)),
            "defence": last.get((cue["id"], False)),
        }


def _cost_rows(exported: ExportedResult, prices: Prices | None) -> Iterator[JSON]:
    by: dict[tuple[str, str], list[Call]] = {}
    for call in exported.calls:
        by.setdefault((call.seat, call.model), []).append(call)
    for (seat, model), calls in by.items():
        paid = [call for call in calls if not call.cached]
        yield {
            "seat": seat,
            "model": model,
            "calls": len(paid),
            "cached_calls": len(calls) - len(paid),
            **{name: sum(getattr(call, name) for call in paid) for name in _SUMMED},
            "cost": prices.cost_of_calls(calls) if prices else None,
        }


_SUMMED = ("prompt_tokens", "cached_tokens", "completion_tokens", "seconds")


class ExportedRun(NamedTuple):
    """A run that is exported: its name and folder, its run.json, and what its calls cost."""

    name: str
    folder: Path
    run: JSON
    prices: Prices | None


def runs_to_export(folders: Sequence[Path], prices: Prices | None = None) -> list[ExportedRun]:
    """Return the runs in these folders.

    Args:
        folders: of the runs.
        prices: for all of them; None: those that lie beside each run's results, if any.

    Raises:
        BadInput: a folder is no run's, or two have one name.
    """
    found: dict[str, ExportedRun] = {}
    for folder in folders:
        name = folder.resolve().name
        if name in found:
            raise BadInput(
                f"{folder}: two runs are called {name!r}, and their rows couldn't be told apart; rename one"
            )
        found[name] = ExportedRun(
            name, folder, read_run_file(folder), prices or prices_of_run(folder)
        )
    return list(found.values())


def read_exported(source: ExportedRun, words: WordsOf) -> Iterator[ExportedResult]:
    """Yield every result of a run, in the order in which they ended.

    Raises:
        BadInput: a line is broken.
    """
    for number, (offset, result, written) in enumerate(read_lines(source.folder), start=1):
        line = parse_result(source.folder / RESULTS, written, offset)
        kept = words(result.post_id) or (PostWords(line["text"]) if line.get("text") else None)
        exported = ExportedResult(source.name, result, line, kept)
        try:
            exported.calls, exported.turns  # noqa: B018  # what a table would stumble over is told with its line
        except ValidationError as error:
            where = f"{source.folder / RESULTS}: line {number}"
            raise BadInput(
                f"{where}: {describe_validation_error(error)}; remove the line"
            ) from error
        yield exported


Form = Literal["parquet", "csv"]
_KINDS: dict[Kind, ColumnKind] = {
    "text": "text",
    "whole": "integer",
    "number": "number",
    "yes/no": "flag",
}
_MOST_FIELDS = 200


def write_frames(
    runs: Sequence[ExportedRun],
    out: Path,
    form: Form,
    *,
    alone: Path | None,
    named: Mapping[str, Path],
) -> dict[Path, int]:
    """Write a file for each table, whole; a file of that name is replaced.

    Args:
        runs: whose rows they hold.
        out: the folder, made if it isn't there.
        form: parquet: columns have the types of `schema`; csv: as text.
        alone: the data set of every run, whose texts are laid beside it.
        named: data sets by name.

    Returns:
        How many rows each file holds.

    Raises:
        BadInput: a run's results are broken, the data isn't theirs, or the files can't be written.
    """
    columns = export_tables()
    columns = {**columns, "posts": (*columns["posts"], *_dataset_columns(runs))}
    counts = {out / f"{name}.{form}": 0 for name in columns}
    paths = dict(zip(columns, counts, strict=True))
    with output_folder(out), ExitStack() as stack:
        tables = {}
        for name, each in columns.items():
            file = stack.enter_context(write_atomically(paths[name]))
            writer = TableWriter(form, {column.name: _KINDS[column.kind] for column in each}, file)
            tables[name] = stack.enter_context(closing(writer))
        for source in runs:
            for exported in read_exported(
                source, words_by_post(source.run, alone, named, source.folder)
            ):
                for name, row in rows_of_result(exported, source.prices):
                    cells = {
                        each.name: _cell_value(each.kind, row.get(each.name), form)
                        for each in columns[name]
                    }
                    tables[name].add(cells)
                    counts[paths[name]] += 1
    return counts


def _cell_value(kind: Kind, value: Any, form: Form) -> Any:
    """Return a value as it is written; one of a column of text that holds several is JSON."""
    if value is None:
        return None
    if kind == "text":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind == "yes/no" and form == "csv":
        return "true" if value else "false"
    return float(value) if kind == "number" else value


def _dataset_columns(runs: Sequence[ExportedRun]) -> list[ExportColumn]:
    """Return a column for each of the sets' own fields, of the one kind that all of its values are, else text.

    Raises:
        BadInput: there are too many to be columns.
    """
    kinds: dict[str, set[Kind]] = {}
    for source in runs:
        for _, result in read_results(source.folder):
            for name, value in result.fields.items():
                kinds.setdefault(name, set()).update(
                    [] if value is None else [_kind_of_value(value)]
                )
    if len(kinds) > _MOST_FIELDS:
        raise BadInput(
            f"{runs[0].folder}: its posts have {len(kinds)} fields, over the {_MOST_FIELDS} that are taken"
        )
    return [
        ExportColumn(f"{FIELD}{name}", _common_kind(each), "of the data set")
        for name, each in kinds.items()
    ]


def _kind_of_value(value: Any) -> Kind:
    if isinstance(value, bool):
        return "yes/no"
    if isinstance(value, int):
        return "whole" if abs(value) < 2**63 else "text"
    return "number" if isinstance(value, float) else "text"


def _common_kind(kinds: set[Kind]) -> Kind:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds == {"whole", "number"} else "text"
