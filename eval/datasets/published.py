"""Read the data sets that `published.toml` declares, whose head says what stands there.

Some have a form of their own: H-VLI (ARCADE paper, section 3), GHC (AntiHateAgent, section 4.1), the Korean sets
(PREDICT, section 4.1), GossipCop (MV-Debate, Experiments, Setup) and MMHS150K.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath

from pydantic import Field

from tribunal.core.text import one_line, parse_json, parse_toml, wellformed
from tribunal.errors import BadInput
from tribunal.eval.datasets.audits import read_group_swap, read_without_quotes
from tribunal.eval.datasets.dataset import Dataset, DatasetSpec, PaperSample
from tribunal.eval.datasets.predict_debates import read_predict_debates
from tribunal.eval.datasets.table import read_fourchan, read_table
from tribunal.process.files import read_regular, read_text
from tribunal.prompts.policy import load_policy
from tribunal.retrievers.indexes.table_rows import NO, YES, TableRow, cell_text, refuse_pointer
from tribunal.retrievers.perspectives.perspective import (
    SHIPPED,
    TextSource,
    kinds_of_hate,
    load_perspective,
    require_source,
)
from tribunal.runner.results import Gold, Sample, binary_label
from tribunal.schema import JSON, Frozen


class FieldColumn(Frozen):
    """Name the column of a field that isn't a text: a yes or no, a number, or a JSON list of texts."""

    flag: str = ""
    number: str = ""
    list: str = ""
    expected: str = "a JSON list"


class RowForm(Frozen):
    """Declare how a row is read."""

    id: str = ""
    text: str = ""
    image: str = ""
    language: str | None = None
    languages: dict[str, str] = Field(default_factory=dict)
    label: tuple[str, ...] = ()
    yes: tuple[str, ...] = YES
    no: tuple[str, ...] = NO
    least: float | None = None
    names: tuple[str, str] = ("not hate", "hate")
    group: str = ""
    fields: dict[str, str | FieldColumn] = Field(default_factory=dict)
    stem: str = ""
    skip_repeated: bool = False
    unless_no: str = ""


def read_declared(form: RowForm, dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts of a set whose rows are read as its form says."""
    seen: set[str] = set()
    for file in dataset.files:
        part = file.stem.removeprefix(form.stem)
        for row in dataset.rows(file):
            words = RowTexts(row, dataset, part)
            positive = _is_positive(row, form)
            identity = form.id.format_map(words)
            if positive is None:
                dataset.skip("no label")
            elif (
                form.unless_no
                and form.unless_no in row.cells
                and row.yes_or_no(form.unless_no) is False
            ):
                dataset.skip("not in the suite")
            elif form.skip_repeated and identity in seen:
                dataset.skip("an id that was there before")
            else:
                seen.update([identity] if form.skip_repeated else ())
                yield Sample(
                    id=identity,
                    text=form.text.format_map(words),
                    image=form.image.format_map(words) or None,
                    language=form.language or form.languages.get(part),
                    gold=binary_label(positive, form.names[positive]),
                    group=form.group.format_map(words),
                    fields=read_fields(form, words),
                )


class RowTexts(dict[str, str]):
    """Give the texts that a template of a row's form names."""

    def __init__(self, row: TableRow, dataset: Dataset, part: str = "") -> None:
        """Give those of this row."""
        super().__init__(row=str(row.number), split=dataset.split, part=part)
        self.table_row = row

    def __missing__(self, column: str) -> str:
        """Return the text of a column; it need not be there if its name ends in a question mark."""
        name = column.removesuffix("?")
        return self.table_row.text(name) if name == column else self.table_row.optional_text(name)


def read_fields(form: RowForm, words: RowTexts) -> JSON:
    """Return the fields of a post."""
    row = words.table_row
    return {
        name: (column.format_map(words) or None)
        if isinstance(column, str)
        else _read_field(row, column)
        for name, column in form.fields.items()
    }


def _read_field(row: TableRow, column: FieldColumn) -> bool | float | list[str] | None:
    if column.flag:
        return row.yes_or_no(column.flag)
    if column.number:
        return row.number_of(column.number)
    cell = row.text(column.list)
    try:
        held = parse_json(cell) if cell else []
    except ValueError as error:
        raise row.value_error(column.list, cell, column.expected) from error
    if not isinstance(held, list):
        raise row.value_error(column.list, cell, column.expected)
    return [str(value) for value in held]


def _is_positive(row: TableRow, form: RowForm) -> bool | None:
    """Return whether a row's label is yes, or None if it has none."""
    columns = [
        name.removesuffix("?")
        for name in form.label
        if not name.endswith("?") or name[:-1] in row.cells
    ]
    if form.least is not None:
        numbers = [number for column in columns if (number := row.number_of(column)) is not None]
        return any(number >= form.least for number in numbers) if numbers else None
    answers = [
        answer
        for column in columns
        if (answer := row.yes_or_no(column, form.yes, form.no)) is not None
    ]
    return any(answers) if answers else None


# ----------------------------------------------------------------------------------------------------------- H-VLI

# By SMI pattern, the digits (text, image, combined): ARCADE paper, section 3.1.
DIFFICULTY = {
    "000": "Easy", "011": "Easy", "101": "Easy", "111": "Easy", "100": "Normal", "010": "Normal", "001": "Hard",
    "110": "Hard",
}  # fmt: skip


def _read_hvli(_: RowForm, dataset: Dataset) -> Iterator[Sample]:
    names = [category.name for category in load_policy("h-vli").fine]
    for row in dataset.keyed_rows(dataset.files[0]):
        labels = []
        for column in ("text_label", "image_label", "final_label"):
            value = row.text(column)
            if value not in map(str, range(len(names))):
                raise row.value_error(column, value, f"a category, 0 to {len(names) - 1}")
            labels.append(int(value))
        text, image, final = labels
        pattern = "".join(str(int(label > 0)) for label in labels)
        yield Sample(
            id=str(row.number),
            text=row.text("tweet_text"),
            image=row.text("image_path") or None,
            language="en",
            gold=Gold(label=final, scheme="fine", positive=final > 0, name=names[final]),
            fields={
                "smi_pattern": pattern,
                "difficulty": DIFFICULTY[pattern],
                "text_label": text,
                "image_label": image,
                "split": dataset.split,
            },
        )


# ------------------------------------------------------------------------------------------------------------ MMHS150K


def _read_mmhs(_: RowForm, dataset: Dataset) -> Iterator[Sample]:
    posts = dataset.keyed_rows(dataset.files[0])
    # the set calls two of them otherwise
    names = [category.name for category in load_policy("h-vli").fine]
    wanted = None
    for file in dataset.files[1:2]:
        refuse_pointer(file)
        try:
            wanted = set(read_text(file).split())
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"file {file}: {error}") from error
    for row in posts:
        if wanted is not None and row.number not in wanted:
            continue
        votes = row["labels"]
        if not isinstance(votes, list) or not all(vote in range(len(names)) for vote in votes):
            raise row.value_error("labels", votes, f"a list of categories, 0 to {len(names) - 1}")
        if not votes:
            dataset.skip("no label")
            continue
        words = ""  # that OCR read in the image, a part of what its author posted
        if dataset.extras:  # the set has a file for the images with text alone
            file = dataset.files[0].parent / "img_txt" / f"{row.number}.json"
            held = _read_object(file, "not the words of an image")
            words = one_line(wellformed(cell_text(held.get("img_text"))))
        text = (row.text("tweet_text"), words and f"Text in the image: {words}")
        common, count = Counter(votes).most_common(1)[0]
        hateful = 2 * sum(vote > 0 for vote in votes) > len(votes)
        yield Sample(
            id=str(row.number),
            text="\n\n".join(filter(None, text)),
            image=f"img_resized/{row.number}.jpg",
            language="en",
            gold=binary_label(hateful, "hate" if hateful else "not hate"),
            fields={
                "votes": [names[vote] for vote in votes],
                "category": names[common] if 2 * count > len(votes) else None,
                "split": dataset.split,
            },
        )


def _read_object(file: Path, otherwise: str) -> JSON:
    """Return the JSON object in a file; an empty one if there is no such file, or it holds something else."""
    try:
        held = parse_json(read_regular(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        refuse_pointer(file)
        raise BadInput(f"file {file}: {otherwise}: {error}") from error
    return held if isinstance(held, dict) else {}


# ----------------------------------------------------------------------------------------------------------------- GHC

_TARGETS = {
    "REL": "religion", "RAE": "race or ethnicity", "SXO": "sexual orientation", "GEN": "gender", "IDL": "ideology",
    "NAT": "nationality", "POL": "politics", "MPH": "health",
}  # fmt: skip
_VOTES = ("HD", "CV", "VO", "EX", "IM", *_TARGETS)


def _read_ghc(form: RowForm, dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts; those of the annotation file have a row per annotator: a label is what more than half gave."""
    if dataset.split != "all":
        yield from read_declared(form, dataset)
        return
    texts: dict[str, str] = {}
    annotators: Counter[str] = Counter()
    votes: dict[str, Counter[str]] = {}
    for row in dataset.rows():
        post = row.text("ID")
        texts.setdefault(post, row.text("Text"))
        annotators[post] += 1
        # A cell is blank where the annotator was not asked.
        votes.setdefault(post, Counter()).update(
            each for each in _VOTES if row.yes_or_no(each, ("1",), ("0",))
        )
    for post, given in votes.items():
        held = {column for column, count in given.items() if 2 * count > annotators[post]}
        hate = bool(held & {"HD", "CV"})
        yield Sample(
            id=post,
            text=texts[post],
            language="en",
            gold=binary_label(hate, "hate" if hate else "not hate"),
            fields={
                "implicit": hate and "IM" in held,
                "vulgar": "VO" in held,
                "targets": [name for column, name in _TARGETS.items() if column in held],
                "annotators": annotators[post],
            },
        )


# ---------------------------------------------------------------------------------------------------- the Korean sets

_TITLE = "Title of the article or video that this is a comment on"
_KMHAS = ("origin", "physical", "politics", "profanity", "age", "gender", "race", "religion")


def _read_korean(form: RowForm, dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts, folded to hate or not as the perspective of the set's name folds them."""
    perspective = load_perspective(SHIPPED / f"{dataset.name}.toml")
    source = require_source(perspective)
    for row in dataset.rows():
        if source.label.column and not row.text(source.label.column):
            dataset.skip("no label")
            continue
        hate = bool(kinds_of_hate(row, source.label))
        words = RowTexts(row, dataset)
        title = row.optional_text("title") if dataset.spec.extras else ""
        thread = hashlib.sha256(title.encode()).hexdigest()[:12] if title else None
        own = {"thread": thread} if dataset.spec.extras else {}
        yield Sample(
            id=form.id.format_map(words),
            text=row.text(source.text),
            language="ko",
            # What a comment was written under is an earlier post of its conversation.
            earlier=(f"{_TITLE}: {title}",) if title and dataset.extras else (),
            gold=binary_label(hate, perspective.label_name("hate" if hate else "not_hate")),
            fields={
                **_korean_targets(row, source, dataset.name),
                **own,
                **read_fields(form, words),
            },
        )


def _korean_targets(row: TableRow, source: TextSource, name: str) -> JSON:
    """Return whom a post is aimed at, in the sets that say so."""
    match name:
        case "k-haters":
            given = row.text_list("target_label") if "target_label" in row.cells else []
            return {"targets": [target for target in given if target]}
        case "k-mhas":
            numbers = (
                int(each)
                for each in row.text_list("label", source.label.separator)
                if each.isdecimal()
            )
            return {"targets": [_KMHAS[number] for number in numbers if number < len(_KMHAS)]}
        case "unsmile":
            return {"targets": [column for column in source.label.any_of if row.yes_or_no(column)]}
    return {}


# ----------------------------------------------------------------------------------------------------------- GossipCop


def _read_gossipcop(_: RowForm, dataset: Dataset) -> Iterator[Sample]:
    seen: set[str] = set()
    for file in dataset.files[:2]:
        fake = file.stem.endswith("_fake")
        for row in dataset.rows(file):
            name = row.text("id")
            if name in seen:
                dataset.skip("an id that was there before")
                continue
            seen.add(name)
            if PurePath(name).parts != (name,) or name == "..":
                raise row.value_error("id", name, "the name of a folder")
            folder = file.parent / "gossipcop" / ("fake" if fake else "real") / name
            # What FakeNewsNet's crawler kept of a story, if it was crawled.
            article = _read_object(folder / "news content.json", "not an article of FakeNewsNet")
            body, image = (
                wellformed(cell_text(article.get(field))) for field in ("text", "top_img")
            )
            yield Sample(
                id=name,
                text="\n\n".join(part for part in (row.text("title"), body) if part),
                language="en",
                gold=binary_label(fake, "fake" if fake else "real"),
                fields={
                    "url": row.text("news_url") or None,
                    "image_url": image or None,
                    "article": bool(body),
                },
            )


_READERS: dict[str, Callable[[RowForm, Dataset], Iterator[Sample]]] = {
    "read_fourchan": lambda _, dataset: read_fourchan(dataset),
    "read_ghc": _read_ghc,
    "read_gossipcop": _read_gossipcop,
    "read_group_swap": lambda _, dataset: read_group_swap(dataset),
    "read_hvli": _read_hvli,
    "read_korean": _read_korean,
    "read_mmhs": _read_mmhs,
    "read_predict_debates": lambda _, dataset: read_predict_debates(dataset),
    "read_table": lambda _, dataset: read_table(dataset),
    "read_without_quotes": lambda _, dataset: read_without_quotes(dataset),
}


def load_declared_sets() -> dict[str, DatasetSpec]:
    """Return the declared sets by name."""
    found = {}
    declared: JSON = parse_toml(
        files("tribunal.eval.datasets").joinpath("published.toml").read_text("utf-8")
    )
    for name, held in declared.items():
        form = held.pop("row", {})
        paper = held.pop("paper", None)
        reader = held.pop("reader", None)
        found[name] = DatasetSpec(
            name=name,
            task=held.pop("task", "hate"),
            splits={split: tuple(map(tuple, names)) for split, names in held.pop("splits").items()},
            read=partial(
                _READERS[reader] if reader else read_declared, RowForm.model_validate(form)
            ),
            protocol=PaperSample.model_validate({"split": held["default"], **paper})
            if paper
            else None,
            **held,
        )
    return found
