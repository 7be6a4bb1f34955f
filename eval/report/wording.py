"""What a report calls labels, and what a reader must know of a run's images.

Labels are called as the policy that was in force at the run calls its categories.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tribunal.prompts.policy import list_shipped_policies, load_policy

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import RunColumns
    from tribunal.schema import JSON

_UNNAMED = ("negative", "positive")  # how yes and no are called where a set has several words for each


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
    """Return the names in run.json; of an older run, those of the shipped policy if it hasn't changed."""
    held = run.get("categories")
    if isinstance(held, dict):
        return [str(name) for name in held.get(scheme) or ()]
    told = run.get("policy")
    if not isinstance(told, dict) or not told.get("sha"):
        return []
    if told.get("name") not in list_shipped_policies():
        return []
    found = load_policy(told["name"])
    if found.sha != told["sha"]:
        return []
    return [category.name for category in (found.fine if scheme == "fine" else found.binary)]


def images_in_words(images: JSON) -> str:
    """Say how many posts have an image, had it here, and were shown with it; empty where no post has one.

    Of a run that skipped posts without their image, how many of the set those are, first.
    """
    said = f"{images['left_out']:,} posts of the set were left out, since their image wasn't there; "
    said = said if images.get("left_out") else ""
    if not images["named"]:
        return said.removesuffix("; ")
    some = f", and {images['to_some']:,} to some of the models alone" if images["to_some"] else ""
    return (
        f"{said}{images['named']:,} posts have an image: it was here for {images['here']:,}, and {images['shown']:,} "
        f"were shown to the models with it{some}"
    )


def missing_images_warning(images: JSON) -> str | None:
    """Return a warning where posts were judged without their image; None where none was."""
    if images["shown"] == images["named"]:
        return None
    return (
        f"Posts were judged without their image: {images_in_words(images)}. These figures don't compare with any of "
        "models that see."
    )
