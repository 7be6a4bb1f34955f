"""The posts that a first look is fitted on: an export of reviewed cases, a run's folder, or a labelled table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.measures.fit_reviewed import SELECTED
from tribunal.eval.measures.texts_of_run import IMAGE, posts_of_run
from tribunal.eval.runs.runfile import RUN
from tribunal.eval.runs.tables import COLUMNS
from tribunal.retrievers.first_look.look import language_told
from tribunal.schema import JSON

EARLIER, NO_TEXT, NO_LABEL = "earlier posts", "no text", "no label by people"
_OF_MODELS = set(COLUMNS) - {"label", "category", "review", "case"}  # what tribunal batch writes beside a post


@dataclass
class Decided:
    """Posts that people decided, and those of a run that a court alone decided, a place each in every list.

    Attributes:
        by_people: whether people decided. What a court says teaches, and promises nothing.
        language: of each, as a first look tells it.
        left_out: posts that can't be fitted on, by reason.
        about: `fitted_from`, and the `policy` by which people decided, where it is known.
        warnings: why they may not stand for posts to come.
    """

    about: JSON
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    hateful: list[bool] = field(default_factory=list)
    language: list[str] = field(default_factory=list)
    by_people: list[bool] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def take(
        self,
        post_id: str,
        text: str,
        hateful: bool | None,
        language: str | None,
        why_not: str = "",
        *,
        court: bool | None = None,
    ) -> None:
        """Take a post in, or count why it can't be. Where no people decided, `court` counts for what it is."""
        by_people = hateful is not None
        label = hateful if by_people else court
        why_not = why_not or (NO_TEXT if not text.strip() else NO_LABEL if label is None else "")
        if why_not or label is None:
            self.left_out[why_not] += 1
            return
        self.ids.append(post_id)
        self.texts.append(text)
        self.hateful.append(label)
        self.by_people.append(by_people)
        self.language.append(language_told(text, language))


def decided_posts(
    source: Path,
    *,
    dataset: str | None = None,
    split: str | None = None,
    data: Path | None = None,
    columns: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Decided:
    """The posts of a source that people decided, without those that a first look declines.

    Args:
        source: the folder of a run; else the files of a data set, or a table.
        dataset: the name of the set that `source` holds; left out: a run, or a table.
        split: of that set.
        data: of a run: the files of its data set, where its results hold no texts.
        columns: of a table: the column of each role.
        labels: of a table: what each value of a label means.

    Raises:
        BadInput: it is none of these, no post has a label by people (a court's verdicts alone promise nothing), or an
            argument has no use here.
    """
    if dataset is None and (source / RUN).is_file():
        if split or columns or labels:
            raise BadInput("first-look fit: split, columns and labels are those of the run; leave them out")
        return _of_run(source, data)
    if data is not None:
        raise BadInput(f"data: {data}: holds the texts of a run, and {source} is the folder of none; leave it out")
    return _of_table(source, dataset or "table", split, columns or {}, labels)


def _of_run(folder: Path, data: Path | None) -> Decided:
    found = Decided({"fitted_from": folder.resolve().name, "policy": None})
    for post in posts_of_run(folder, data):
        people = _by_people(post.whole)
        court = _by_court(post.whole) if people is None else None
        found.take(post.id, post.text, people, post.whole.get("language"), post.why_not, court=court)
    return _checked(found, folder)


def _by_people(whole: JSON) -> bool | None:
    """What people say of a post: its gold, else the verdict that a reviewer gave; a model's verdict is nobody's."""
    gold = whole.get("gold")
    if gold is not None:
        return bool(gold["positive"]) if whole.get("task", "hate") == "hate" else None
    if (whole.get("review") or {}).get("action") and whole.get("outcome") == "verdict":
        return whole.get("hateful")
    return None


def _by_court(whole: JSON) -> bool | None:
    """What a court of models made of a post; the rehearsal model's rules, and what a first look said, teach nothing."""
    if whole.get("outcome") != "verdict" or whole.get("rehearsed") or whole.get("track") == "triage":
        return None
    return whole.get("hateful")


def _of_table(
    source: Path, name: str, split: str | None, columns: Mapping[str, str], labels: Mapping[str, str] | None
) -> Decided:
    mapped = name == "table"
    image = columns.get("image") or "image"
    without = {**columns, "image": ""} if mapped else columns  # whether there is one is all that is asked
    opened = open_dataset(name, source, split=split, columns=without or None, labels=labels)
    if opened.spec.task != "hate":
        raise BadInput(f"dataset: {name}: its labels are about {opened.spec.task}, and a first look tells hate")
    found = Decided({"fitted_from": source.name, "policy": None})
    policies: Counter[str] = Counter()
    for sample in opened:
        if mapped:
            _refuse_a_models(source, sample.fields)
        pictured = bool(sample.fields.get(image)) if mapped else bool(sample.image) or sample.image_missing
        why_not = IMAGE if pictured else EARLIER if sample.earlier else ""
        label = None if sample.gold is None else sample.gold.positive
        found.take(sample.id, sample.text, label, sample.language, why_not)
        if "court_outcome" in sample.fields:
            policies[str(sample.fields.get("policy_sha") or "")] += 1
    if policies:
        found.warnings.append(SELECTED.replace("threshold", "promise"))
        if len(policies) > 1:
            raise BadInput(
                f"{source}: its cases were decided by {len(policies)} policies, and a first look is fitted to one; "
                "give the cases of one (column policy_sha)"
            )
        found.about["policy"] = next(iter(policies)) or None
    found.warnings += opened.warnings
    return _checked(found, source)


def _refuse_a_models(source: Path, fields: Mapping[str, object]) -> None:
    if len(_OF_MODELS & set(fields)) >= 5 and "court_outcome" not in fields:
        raise BadInput(
            f"{source}: is what tribunal batch wrote, and its labels are a model's; a first look promises agreement "
            "with people: give posts that people labelled (tribunal review export, or a table of your own)"
        )


def _checked(found: Decided, source: Path) -> Decided:
    if not any(found.by_people):
        found.left_out.update([NO_LABEL] * len(found.ids))
        why = ", ".join(f"{reason} ({many:,})" for reason, many in found.left_out.most_common())
        raise BadInput(
            f"{source}: a first look can promise nothing here, and none was made: no post is left to fit it on: {why}; "
            "it decides on texts alone, and learns from what people decided"
        )
    return found
