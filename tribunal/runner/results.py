"""The samples of a run, and its results: run.json, and results.jsonl line by line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tribunal.core.text import parse_json
from tribunal.core.text_similarity import CHARACTERS
from tribunal.errors import BadInput
from tribunal.process.files import MOST_LINE, bounded_lines, open_regular, read_regular
from tribunal.runner.journal import RESULTS, RUN, ChainCheck, parse_result
from tribunal.schema import JSON, Frozen, Record, Scheme, Stance
from tribunal.settings.validation import describe_validation_error


class Gold(Frozen):
    """Hold the label that a data set gives a post.

    `label` is a number of `scheme`; `positive` is the label folded to yes or no (hate, sarcasm, misinformation).
    """

    label: int = Field(ge=0, le=2**31)
    scheme: Scheme
    positive: bool
    name: str = Field(description="the label in the set's own words")


@lru_cache(maxsize=256)
def binary_label(positive: bool, name: str) -> Gold:
    """Return a yes or no label, in the set's own word."""
    return Gold(label=int(positive), scheme="binary", positive=positive, name=name)


class Sample(Frozen):
    """Hold one post of a data set. `fields` are the set's own, such as smi_pattern, difficulty and target."""

    id: str
    text: str = ""
    image: str | None = Field(default=None, description="the path of its image")
    image_missing: bool = Field(
        default=False, description="its set names an image for it, which isn't there"
    )
    language: str | None = None
    earlier: tuple[str, ...] = Field(
        default=(), description="earlier posts of its conversation, the oldest first"
    )
    author: str | None = Field(
        default=None, description="whose post it is; only a keyed hash of it is ever kept"
    )
    gold: Gold | None = None
    group: str = Field(
        default="",
        description="posts of one group say the same, so they should get the same verdict",
    )
    fields: JSON = Field(default_factory=dict)
    problem: str = Field(
        default="", description="the field and what is wrong with it, where it can't be judged"
    )

    @property
    def label_name(self) -> str:
        """Return the name of its label, or `unlabelled`."""
        return self.gold.name if self.gold else "unlabelled"

    @property
    def post(self) -> JSON:
        """Return the post by the argument names of `judge_post`."""
        return {
            "text": self.text, "image": self.image, "post_id": self.id, "language": self.language,
            "earlier": self.earlier,
        }  # fmt: skip


@runtime_checkable
class SkippingSamples(Protocol):
    """Samples that skip the finished ones without reading them."""

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the samples that aren't done, each with its place."""


_LOG = logging.getLogger("tribunal")
_warnings_given = set[str]()  # the results are read several times for one report
# A whole number that every reader of JSON, and every array of numbers, can hold.
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]


class _ResultPart(BaseModel):
    """The measured part of a line. A line has more fields, and later versions may add others."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class ResultUsage(_ResultPart):
    """The cost of a post. `cached_tokens` are the tokens that the provider served from its own prompt cache."""

    calls: Whole = 0
    prompt_tokens: Whole = 0
    completion_tokens: Whole = 0
    cached_tokens: Whole | None = None


class ResultCall(_ResultPart):
    """Hold a call of a result."""

    model: str = ""
    served: str | None = None
    seat: str = ""
    role: str = ""
    format: str = ""
    prompt_tokens: Whole = 0
    cached_tokens: Whole = 0
    completion_tokens: Whole = 0
    attempts: Whole = 1
    emptied: tuple[str, ...] = ()
    estimated: bool = False
    error: str | None = None
    cached: bool = False
    shown: tuple[str, ...] | None = None


class ResultSaving(_ResultPart):
    """The minimum that a shortcut saved for a post."""

    id: str
    calls: Whole = Field(default=0, ge=0)
    tokens: Whole = Field(default=0, ge=0)


class ResultOpinion(_ResultPart):
    """Hold the stance of a perspective."""

    id: str
    stance: Stance


class _CountedResult(_ResultPart):
    label: Whole | None = None
    hateful: bool | None = None
    uncertain: bool = False
    usage: ResultUsage = ResultUsage()
    unseen_calls: Whole = Field(default=0, ge=0)
    rehearsed: bool = False
    warnings: tuple[str, ...] = ()
    calls: tuple[ResultCall, ...] = ()


class ResultSummary(_CountedResult):
    """The fields of a result that the run itself reads: of an earlier result, or of another process."""

    outcome: str
    explanation: str = ""
    fault: JSON | None = None


AnyResult: TypeAlias = Record | ResultSummary


class Result(_CountedResult):
    """One post in one repeat: its outcome, its gold label, and its cost."""

    post_id: str
    repeat: Whole = Field(default=0, ge=0)
    outcome: Literal["verdict", "refusal", "failure", "pending"]
    scheme: Scheme
    category: str | None = None
    clauses: tuple[str, ...] = ()
    confidence: float | None = Field(default=None, ge=0, le=1)
    probability: float | None = Field(default=None, ge=0, le=1)
    gold: Gold | None = None
    fields: JSON = Field(default_factory=dict)
    group: str = ""
    likeness: str = Field(default="", pattern=rf"^([A-Za-z0-9+/]{{{CHARACTERS}}})?$")
    seconds: float = 0.0
    has_image: bool | None = None
    policy: JSON = Field(default_factory=dict)
    language: str | None = None
    language_from: str | None = None
    opinions: tuple[ResultOpinion, ...] = ()
    saved: tuple[ResultSaving, ...] = ()
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _a_verdict_has_a_label(self) -> Self:
        if self.outcome == "verdict" and (self.label is None or self.label < 0):
            raise ValueError(f"a verdict has a label; this one has {self.label}")
        return self


class ReadResult(NamedTuple):
    """Hold a result and the offset of its line."""

    offset: int
    result: Result


def find_run_folders(folders: Sequence[Path]) -> list[Path]:
    """Return the folders of runs: each given one, or of one that is no run's those that lie in it, if any."""
    found: list[Path] = []
    for folder in folders:
        inside = (
            []
            if (folder / RUN).exists() or not folder.is_dir()
            else sorted(folder.glob(f"*/{RUN}"))
        )
        found += [each.parent for each in inside] or [folder]
    return found


def read_run_file(folder: Path) -> JSON:
    """Return a run's run.json, which lists all that its results depend on; raise `BadInput` for another folder."""
    path = folder / RUN
    try:
        held = parse_json(read_regular(path))
    except OSError as error:
        raise BadInput(
            f"{folder}: not the folder of a run: {RUN}: {error.strerror}; give tribunal eval's --out"
        ) from error
    except ValueError as error:
        raise BadInput(f"{path}: broken: {error}; run again into a new folder") from error
    if not isinstance(held, dict):
        raise BadInput(f"{path}: broken: it holds no object; run again into a new folder")
    return held


def read_results(folder: Path) -> Iterator[ReadResult]:
    """Yield the results of a run in the order in which they ended. Errors and what is left out as `read_lines`."""
    for offset, result, _ in read_lines(folder):
        yield ReadResult(offset, result)


def read_lines(folder: Path) -> Iterator[tuple[int, Result, bytes]]:
    """Yield the results of a run, each with its offset and its whole line; none if the run has none yet.

    A last line that was torn by a crash is left out: the run decides that post again when it goes on. The chain of the
    lines is checked on the way (`tribunal.runner.journal`); a broken one is logged as a warning, once per process.

    Raises:
        BadInput: another line is broken, with its number; a post stands there twice in one repeat; or the file can't be
            read.
    """
    path = folder / RESULTS
    seen: dict[str, set[int]] = {}
    offset = 0
    chain = ChainCheck(folder / RUN)
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file), start=1):
                try:
                    result = Result.model_validate_json(line)
                except ValidationError as error:
                    if not line.endswith(b"\n"):
                        return
                    raise BadInput(
                        f"{path}: line {number}: {describe_validation_error(error)}; remove the line, and let the run "
                        "go on"
                    ) from error
                repeats = seen.setdefault(result.post_id, set())
                if result.repeat in repeats:
                    raise BadInput(
                        f"{path}: line {number}: post {result.post_id!r} occurs twice in repeat {result.repeat}; "
                        "remove one of the two lines"
                    )
                repeats.add(result.repeat)
                if line.endswith(b"\n"):
                    chain.check_line(line)
                yield offset, result, line
                offset += len(line)
            chain.check_end()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give the folder of a run") from error
    finally:
        _warn_of_broken_chain(path, chain.fault)


def find_chain_fault(folder: Path) -> str:
    """Return which line of a run's results breaks their chain first, or an empty text; errors as `open_regular`."""
    chain = ChainCheck(folder / RUN)
    try:
        with open_regular(folder / RESULTS) as file:
            for line in bounded_lines(file):
                if line.endswith(b"\n"):
                    chain.check_line(line)
    except FileNotFoundError:
        return ""
    chain.check_end()
    return chain.fault


def _warn_of_broken_chain(path: Path, fault: str) -> None:
    warning = f"{path}: {fault}"
    if fault and warning not in _warnings_given:
        _warnings_given.add(warning)
        _LOG.warning("%s", warning)


def read_full_line(folder: Path, offset: int) -> dict[str, Any]:
    """Return a whole line of results.jsonl, by its offset; raise `BadInput` if it is broken."""
    with open_regular(folder / RESULTS) as file:
        file.seek(offset)
        return parse_result(folder / RESULTS, file.readline(MOST_LINE), offset)


def summarize_result(line: bytes) -> ResultSummary | None:
    """Summarize a line of results.jsonl; return None if it is broken, which the measures will report."""
    try:
        return ResultSummary.model_validate_json(line)
    except ValidationError:
        return None
