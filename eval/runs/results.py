"""The folder of a run as it lies on disk: run.json, and results.jsonl, read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Gold
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.likeness import CHARACTERS
from tribunal.eval.runs.runfile import RUN
from tribunal.parsed import from_json
from tribunal.schema import JSON, Scheme, Stance


class _Read(BaseModel):
    """What is read of a line: only what is measured. A line holds more, and may come to hold more still."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class ResultUsage(_Read):
    """What a post cost. `cached_tokens` are those that the provider served from its own prompt cache."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None


class ResultCall(_Read):
    model: str = ""
    served: str | None = None
    seat: str = ""
    role: str = ""
    format: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None
    cached: bool = False
    shown: tuple[str, ...] | None = None


class ResultSaving(_Read):
    """What a shortcut spared the post, at least."""

    id: str
    calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)


class ResultOpinion(_Read):
    id: str
    stance: Stance


class Result(_Read):
    """One post in one repeat: its outcome, what people say of it, and what it cost."""

    post_id: str
    repeat: int = Field(default=0, ge=0)
    outcome: Literal["verdict", "refusal", "failure", "pending"]
    scheme: Scheme
    label: int | None = None
    category: str | None = None
    hateful: bool | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    uncertain: bool = False
    gold: Gold | None = None
    fields: JSON = Field(default_factory=dict)
    group: str = ""
    likeness: str = Field(default="", pattern=rf"^([A-Za-z0-9+/]{{{CHARACTERS}}})?$")
    seconds: float = 0.0
    usage: ResultUsage = ResultUsage()
    unseen_calls: int = Field(default=0, ge=0)
    rehearsed: bool = False
    has_image: bool | None = None
    policy: JSON = Field(default_factory=dict)
    calls: tuple[ResultCall, ...] = ()
    opinions: tuple[ResultOpinion, ...] = ()
    saved: tuple[ResultSaving, ...] = ()
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _a_verdict_has_a_label(self) -> Self:
        if self.outcome == "verdict" and (self.label is None or self.label < 0):
            raise ValueError(f"a verdict has a label; this one has {self.label}")
        return self


class Line(NamedTuple):
    """A result, and the byte at which its line begins."""

    offset: int
    result: Result


def read_run(folder: Path) -> JSON:
    """What a run's results depend on: its run.json.

    Raises:
        BadInput: the folder is no run's, or the file is broken.
    """
    path = folder / RUN
    try:
        held = from_json(path.read_bytes())
    except OSError as error:
        raise BadInput(
            f"{folder}: not the folder of a run: {RUN}: {error.strerror}; give tribunal eval's --out"
        ) from error
    except ValueError as error:
        raise BadInput(f"{path}: broken: {error}; run again into a new folder") from error
    if not isinstance(held, dict):
        raise BadInput(f"{path}: broken: it holds no object; run again into a new folder")
    return held


def read_results(folder: Path) -> Iterator[Line]:
    """The results of a run in the order in which they ended, one at a time; a run that has none yet gives none.

    A last line that was torn by a crash is left out: the run decides that post again when it goes on.

    Raises:
        BadInput: another line is broken, with its number; or a post stands there twice in one repeat.
    """
    path = folder / RESULTS
    seen: dict[str, set[int]] = {}
    offset = 0
    for number, line in enumerate(_lines(path), start=1):
        try:
            result = Result.model_validate_json(line)
        except ValidationError as error:
            if not line.endswith(b"\n"):
                return
            raise BadInput(
                f"{path}: line {number}: {describe(error)}; remove the line, and let the run go on"
            ) from error
        repeats = seen.setdefault(result.post_id, set())
        if result.repeat in repeats:
            raise BadInput(
                f"{path}: line {number}: post {result.post_id!r} stands there twice in repeat {result.repeat}; "
                "remove one of the two lines"
            )
        repeats.add(result.repeat)
        yield Line(offset, result)
        offset += len(line)


def read_whole(folder: Path, offset: int) -> dict[str, Any]:
    """A line of results.jsonl in full, by the byte at which it begins."""
    with (folder / RESULTS).open("rb") as file:
        file.seek(offset)
        whole: dict[str, Any] = from_json(file.readline())
    return whole


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give the folder of a run") from error
