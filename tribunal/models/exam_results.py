"""Stored facts about a model: the result of its exam, and the name that its server reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter

from tribunal.core.calls import UNFIT_MODEL
from tribunal.core.times import format_date
from tribunal.errors import BadInput
from tribunal.process.files import read_text, write_whole
from tribunal.schema import Frozen

# A tag, a release's date or a revision: llama3.2:latest, gpt-5-2025-08-07, gemini-2.5-flash-001.
_RELEASE = r"(?:[:@-](?:latest|\d{3,}[\d-]*))?"


@lru_cache(maxsize=256)
def is_same_model(asked: str, served: str) -> bool:
    """Return whether a served model is the requested model, by its name; folder, tag and release don't count.

    Letter case and the ending of a model's file are none either.
    """
    wanted, given = (
        name.rpartition("/")[2].casefold().removesuffix(".gguf") for name in (asked, served)
    )
    return (
        re.fullmatch(re.escape(re.sub(r"[:@-]latest$", "", wanted)) + _RELEASE, given) is not None
    )


def label_served(name: str | None, fingerprint: str | None) -> str | None:
    """Return a server's name for its model, with its `system_fingerprint` in brackets; None if it reports neither."""
    return f"{name or 'unnamed'} ({fingerprint})" if fingerprint else name


def name_of_label(served: str) -> str:
    """Return the model's name of a label, without the server's fingerprint."""
    return served.partition(" (")[0]


def warn_of_other_name(model: str, asked: str, served: str | None) -> list[str]:
    """Return a warning if a server names another model than it was asked for, else nothing.

    Args:
        model: the model as settings name it, with its provider.
        asked: its name as the server was asked for it.
        served: the name in the answer; None: it has none.
    """
    if not served or is_same_model(asked, served):
        return []
    return [
        f"{model} was answered by {served}: the server has another model, or another name for it; name it so"
    ]


FILE = "exams.json"
POSTS = 10
# Somebody who guesses tells ten posts apart so well once in 93 exams.
LEAST_RIGHT = 9
CRITERION = (
    f"at least {LEAST_RIGHT} of {POSTS} in each: tells hate apart, quotes the post, right form"
)


class ExamResult(Frozen):
    """The result of a model's exam."""

    model: str = Field(description="provider and model")
    address: str = Field(description="where it was asked; empty: the provider's own place")
    at: float = Field(description="when, in seconds since 1970")
    told_apart: int = Field(description="posts of which it said rightly whether they are hate")
    quoted: int = Field(description="posts whose words it quoted, letter by letter")
    in_form: int = Field(description="posts that it answered in the form asked for")

    @property
    def has_passed(self) -> bool:
        """Return whether the model is fit."""
        return min(self.told_apart, self.quoted, self.in_form) >= LEAST_RIGHT

    @property
    def in_words(self) -> str:
        """Return the result as people read it."""
        return (
            f"tells hate apart {self.told_apart} of {POSTS}, quotes the post {self.quoted} of {POSTS}, "
            f"right form {self.in_form} of {POSTS}"
        )

    @property
    def warning(self) -> str:
        """Return the warning that is shown with the verdicts of a model that failed."""
        return (
            f"{UNFIT_MODEL}{self.model} failed the exam of {format_date(self.at)} ({self.in_words}): its verdicts and "
            "reasons may mean nothing; use another model, or pass tribunal doctor --try"
        )


ExamKey = tuple[str, str]
_RESULTS = TypeAdapter(list[ExamResult])


def exam_address(base_url: str | None) -> str:
    """Return an address as exams name it: without a name, a password or a query in it."""
    parts = urlsplit(base_url or "")
    return (
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        if parts.netloc
        else ""
    )


def read_exam_results(folder: Path) -> dict[ExamKey, ExamResult]:
    """Return the last result of each model at each address. A file that is missing or broken holds none."""
    try:
        found = _RESULTS.validate_json(read_text(folder / FILE))
    except (OSError, ValueError):
        return {}
    return {(each.model, each.address): each for each in found}


def keep_exam_results(folder: Path, results: Iterable[ExamResult]) -> None:
    """Store results in place of earlier results of the same models.

    Raises:
        BadInput: the data folder can't be written.
    """
    held = read_exam_results(folder) | {(each.model, each.address): each for each in results}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILE, json.dumps([each.dump() for each in held.values()], indent=1))
    except OSError as error:
        why = error.strerror or error
        raise BadInput(
            f"exam: {folder / FILE}: {why}; set TRIBUNAL_DATA to a folder that can be written"
        ) from error


def find_unfit(
    results: Mapping[ExamKey, ExamResult], model: str, base_url: str | None
) -> list[str]:
    """Return the warning of a model that failed its exam at this address, else nothing."""
    result = results.get((model, exam_address(base_url))) if results else None
    return [] if result is None or result.has_passed else [result.warning]
