"""The posts that a screening classifier is fitted on: an export of reviewed cases, a run, or a labelled table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.measures.fit_reviewed import SELECTED
from tribunal.eval.measures.screening_posts import IMAGE, posts_of_run
from tribunal.eval.runs.journal import RUN
from tribunal.eval.runs.tables import COLUMNS
from tribunal.retrievers.screening.screener import language_or_detected
from tribunal.schema import JSON

EARLIER, NO_TEXT, NO_LABEL = "earlier posts", "no text", "no label by people"
_OF_MODELS = set(COLUMNS) - {"label", "category", "review", "case"}  # what tribunal batch writes beside a post


@dataclass
class LabelledTexts:
    """Posts that people decided, and those of a run that a court alone decided, a place each in every list.

    Attributes:
        by_people: whether people decided. What a court says teaches, and promises nothing.
        language: of each, as a screening classifier tells it.
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

    def add_post(
        self,
        post_id: str,
        text: str,
        language: str | None,
        why_not: str,
        people: bool | None,
        court: bool | None = None,
    ) -> None:
        """Take a post in, or count why it can't be. Where no people decided, `court` counts for what it is."""
        label = court if people is None else people
        why_not = why_not or (NO_TEXT if not text.strip() else NO_LABEL if label is None else "")
        if why_not or label is None:
            self.left_out[why_not] += 1
            return
        self.ids.append(post_id)
        self.texts.append(text)
        self.hateful.append(label)
        self.by_people.append(people is not None)
        self.language.append(language_or_detected(text, language))


def read_decided_posts(
    source: Path,
    *,
    dataset: str | None = None,
    split: str | None = None,
    data: Path | None = None,
    columns: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> LabelledTexts:
    """Read the posts of a source that people decided, without those that a screening classifier declines.

    The source is the folder of a run; else the files of a data set of this name and split, or a table, with the column
    of each role and what each value of a label means. `data` are the files of a run's data set, if its results hold no
    texts.

    Raises:
        BadInput: it is none of these, no post has a label by people (a court's verdicts alone promise nothing), or an
            argument has no use here.
    """
    if dataset is None and (source / RUN).is_file():
        if split or columns or labels:
            raise BadInput("screening fit: split, columns and labels are those of the run; leave them out")
        found = LabelledTexts({"fitted_from": source.resolve().name, "policy": None})
        for post in posts_of_run(source, data):
            people = _label_by_people(post.whole)
            found.add_post(
                post.id, post.text, post.whole.get("language"), post.why_not, people, _label_by_court(post.whole)
            )
    elif data is not None:
        raise BadInput(f"data: {data}: holds the texts of a run, and {source} is the folder of none; leave it out")
    else:
        found = _posts_of_table(source, dataset or "table", split, columns or {}, labels)
    if not any(found.by_people):
        found.left_out.update([NO_LABEL] * len(found.ids))
        why = ", ".join(f"{reason} ({many:,})" for reason, many in found.left_out.most_common())
        raise BadInput(
            f"{source}: a screening classifier can promise nothing here, and none was made: no post is left to "
            f"fit it on: {why}; it decides on texts alone, and learns from what people decided"
        )
    return found


def _label_by_people(whole: JSON) -> bool | None:
    """Return what people say of a post: its gold label, else a reviewer's verdict. A model's verdict doesn't count."""
    gold = whole.get("gold")
    if gold is not None:
        return bool(gold["positive"]) if whole.get("task", "hate") == "hate" else None
    if (whole.get("review") or {}).get("action") and whole.get("outcome") == "verdict":
        return whole.get("hateful")
    return None


def _label_by_court(whole: JSON) -> bool | None:
    """Return the verdict of a court of models, or None for one by the rehearsal model or a screening classifier."""
    if whole.get("outcome") != "verdict" or whole.get("rehearsed") or whole.get("track") == "triage":
        return None
    return whole.get("hateful")


def _posts_of_table(
    source: Path, name: str, split: str | None, columns: Mapping[str, str], labels: Mapping[str, str] | None
) -> LabelledTexts:
    mapped = name == "table"
    image = columns.get("image") or "image"
    without = {**columns, "image": ""} if mapped else columns  # whether there is one is all that is asked
    opened = open_dataset(name, source, split=split, columns=without or None, labels=labels)
    if opened.spec.task != "hate":
        raise BadInput(
            f"dataset: {name}: its labels are about {opened.spec.task}, and a screening classifier tells hate"
        )
    found = LabelledTexts({"fitted_from": source.name, "policy": None})
    policies: Counter[str] = Counter()
    for sample in opened:
        if mapped and "court_outcome" not in sample.fields and len(_OF_MODELS & set(sample.fields)) >= 5:
            raise BadInput(
                f"{source}: is what tribunal batch wrote, and its labels are a model's; a screening classifier "
                "promises agreement with people: give posts that people labelled (tribunal review export, or a table "
                "of your own)"
            )
        pictured = bool(sample.fields.get(image)) if mapped else bool(sample.image) or sample.image_missing
        why_not = IMAGE if pictured else EARLIER if sample.earlier else ""
        label = None if sample.gold is None else sample.gold.positive
        found.add_post(sample.id, sample.text, sample.language, why_not, label)
        if "court_outcome" in sample.fields:
            policies[str(sample.fields.get("policy_sha") or "")] += 1
    if policies:
        found.warnings.append(SELECTED.replace("threshold", "promise"))
        if len(policies) > 1:
            raise BadInput(
                f"{source}: its cases were decided by {len(policies)} policies, and a screening classifier is "
                "fitted to one; give the cases of one (column policy_sha)"
            )
        found.about["policy"] = next(iter(policies)) or None
    found.warnings += opened.warnings
    return found
