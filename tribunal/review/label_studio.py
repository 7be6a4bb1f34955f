"""Cases as tasks for Label Studio, in its own JSON, and its export read and carried out as decisions.

https://labelstud.io/guide/tasks, https://labelstud.io/guide/export and https://labelstud.io/tags have the forms.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TypeVar

import aiohttp
from lxml import etree  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tribunal.core.text import parse_json
from tribunal.docket.waiting_cases import answer_of
from tribunal.errors import BadInput
from tribunal.explanations.deciders import find_models_outcome
from tribunal.process.files import open_regular, write_atomically, write_whole
from tribunal.prompts.policy import Policy
from tribunal.retrievers.indexes.bounded_text import JsonParts
from tribunal.review.case_tables import (
    ERASED,
    ExportResult,
    cases_decided_by_people,
    copy_image,
    finished_cases,
    has_words,
    policy_of_row,
)
from tribunal.review.table_files import check_address
from tribunal.schema import JSON
from tribunal.settings.validation import describe_validation_error
from tribunal.store.engine import Store
from tribunal.store.tables import cases

CATEGORY = "category"
NOTE = "note"
INTERFACE = "interface.xml"
_SECONDS = 120.0  # for one decision
LOCAL_FILES = "/data/local-files/?d=images/"
TASKS = "tasks.json"
T = TypeVar("T")


# Its own JSON and interface


def choice_result(category: str) -> JSON:
    """Return a chosen category, in the form of an annotation or a prediction."""
    return {
        "from_name": CATEGORY,
        "to_name": "text",
        "type": "choices",
        "value": {"choices": [category]},
    }


def write_task(file: IO[bytes], task: JSON, *, first: bool) -> None:
    """Write a task as an element of the array that a file of tasks is."""
    file.write(
        (b"\n" if first else b",\n")
        + json.dumps(task, ensure_ascii=False).encode("utf-8", "replace")
    )


class LabellingInterface:
    """A labelling interface that is put together piece by piece. What a stranger wrote is shown as the text it is."""

    def __init__(self, *, pictured: bool, conversation: bool = True) -> None:
        """Begin with the post, its image if posts are pictured, and above it the conversation before it."""
        self._view = etree.Element("View")
        if conversation:
            self.add_text(
                "Earlier in the conversation: read it, and don't label it", "conversation"
            )
        self.add_text("The post", "text")
        if pictured:
            etree.SubElement(self._view, "Image", name="image", value="$image")

    def add_text(self, title: str, field: str) -> None:
        """Add a field of the task's data below a title, as plain text: no markup, and no address that is fetched."""
        etree.SubElement(self._view, "Header", value=title)
        etree.SubElement(self._view, "Text", name=field, value=f"${field}", valueType="text")

    def add_choices(
        self,
        name: str,
        options: Mapping[str, str],
        title: str = "",
        *,
        many: bool = False,
        required: bool = False,
    ) -> None:
        """Add options to choose from, each with what it means: one of them, or `many`. With a title, side by side."""
        kind = {"choice": "multiple" if many else "single", "required": str(required).lower()}
        if title:
            etree.SubElement(self._view, "Header", value=title)
            kind["showInline"] = "true"
        made = etree.SubElement(self._view, "Choices", name=name, toName="text", **kind)
        for option, meaning in options.items():
            etree.SubElement(made, "Choice", value=option, **({"hint": meaning} if meaning else {}))

    def to_xml(self, note: str) -> str:
        """Return the interface as Label Studio takes it, with a line to write in at its end, of this name."""
        etree.SubElement(
            self._view, "TextArea", name=note, toName="text", placeholder="Why", maxSubmissions="1"
        )
        written: str = etree.tostring(self._view, pretty_print=True, encoding="unicode")
        return written


class ExportModel(BaseModel):
    """A part of an export: only the fields that are named here are read."""

    model_config = ConfigDict(extra="ignore")


class ControlResult(ExportModel):
    """The input of one control."""

    from_name: str = ""
    value: JSON = Field(default_factory=dict)

    def texts_of(self, name: str) -> list[str]:
        """Return the texts under a name of the value, such as `choices`."""
        held = self.value.get(name)
        return [
            each for each in (held if isinstance(held, list) else [held]) if isinstance(each, str)
        ]


class Annotation(ExportModel):
    """One person's labels of a task."""

    result: list[ControlResult] = []
    was_cancelled: bool = False
    completed_by: Any = None
    updated_at: str = ""

    @property
    def annotator(self) -> str:
        """The annotator: an address where the export has one, else a number; empty where it has neither."""
        who = self.completed_by
        if isinstance(who, dict):
            who = who.get("email") or who.get("id")
        return "" if who is None else str(who)


def read_tasks(path: Path, form: type[T]) -> list[T]:
    """Return the tasks of an export of Label Studio, each in this form.

    Raises:
        BadInput: the file can't be read, or it is something else.
    """
    try:
        read = TypeAdapter(form).validate_python
        with open_regular(path) as raw, TextIOWrapper(raw, "utf-8-sig") as file:
            return [read(task) for _, task in JsonParts(str(path), file).members(keyed=False)]
    except BadInput as error:
        raise BadInput(f"{error}; export from Label Studio as JSON") from error
    except OSError as error:
        why = error.strerror
        way_out = "give the file that Label Studio exported as JSON"
    except ValidationError as error:
        why = describe_validation_error(error)
        way_out = "export from Label Studio as JSON, tasks of this program"
    except ValueError as error:
        why = f"is no JSON: {error}"
        way_out = "export from Label Studio as JSON"
    raise BadInput(f"{path}: {why}; {way_out}")


# Cases as tasks


async def export_tasks(
    store: Store,
    folder: Path,
    *,
    decided: bool = False,
    since: float | None = None,
    until: float | None = None,
    prefix: str = LOCAL_FILES,
) -> ExportResult:
    """Write cases as tasks, and the interface to label them in, into a folder.

    Those are the cases that wait for a person; or with `decided`, those that people have decided, with their decisions
    as annotations. tasks.json, interface.xml and images/ are written anew. `prefix` stands before the name of an image
    that isn't on the web.

    Raises:
        OSError: the folder can't be written.
    """
    done = ExportResult()
    choices = dict[str, str]()
    pictured = False
    rows = cases_decided_by_people(store, since, until)
    if not decided:
        rows = finished_cases(store, cases.c.outcome == "pending", since=since, until=until)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with write_atomically(folder / TASKS) as file:
        file.write(b"[")
        async for row in rows:
            policy = await policy_of_row(store, row)
            if not has_words(row) or not row["record"]:
                done.left_out[ERASED] += 1
            elif policy is None:
                done.left_out["without the text of its policy"] += 1
            else:
                ref = row["post"].get("image")
                image = await asyncio.to_thread(copy_image, ref, folder / "images", prefix)
                done.images_lost += bool(ref) and image is None
                pictured = pictured or bool(image)
                meanings = {
                    each.name: each.meaning for each in policy.categories(row["record"]["scheme"])
                }
                choices = {**meanings, **choices}
                write_task(file, _make_task(row, policy, image), first=not done.rows)
                done.rows += 1
        file.write(b"\n]\n")
    await asyncio.to_thread(
        write_whole, folder / INTERFACE, labelling_interface(choices, pictured=pictured)
    )
    return done


def _make_task(row: JSON, policy: Policy, image: str | None) -> JSON:
    post = row["post"]
    record = row["record"]
    court = find_models_outcome(record)
    data = {
        "text": post.get("text") or "", "image": image or "", "language": record.get("language") or "",
        "earlier": list(post.get("earlier") or ()), "case": row["id"], "thread": record.get("thread") or "",
        "post_id": record["post_id"], "policy": policy.name, "policy_sha": policy.sha,
        "hate": [each.name for each in policy.categories(record["scheme"]) if each.hate],
        "court": court.get("category") or "", "question": (row["question"] or {}).get("id") or "",
        "conversation": "\n\n".join(post.get("earlier") or ()),
    }  # fmt: skip
    task: JSON = {"data": data}
    if court.get("category"):
        said = {
            "model_version": f"tribunal {row['graph']}",
            "result": [choice_result(court["category"])],
        }
        task["predictions"] = [
            said if court.get("confidence") is None else {**said, "score": court["confidence"]}
        ]
    if record["outcome"] == "verdict":
        task["annotations"] = [{"result": [choice_result(row["category"])], "ground_truth": True}]
    return task


def labelling_interface(choices: Mapping[str, str], *, pictured: bool) -> str:
    """Return the labelling interface: the post, one category of these (with what it means), and a note."""
    made = LabellingInterface(pictured=pictured)
    made.add_choices(CATEGORY, choices, required=True)
    return made.to_xml(NOTE)


# Reading


class _TaskData(ExportModel):
    case: str = Field(min_length=1)
    thread: str = ""
    text: str = ""
    image: str = ""
    language: str = ""
    earlier: list[str] = Field(default_factory=list)
    post_id: str = ""
    policy: str = ""
    policy_sha: str = ""
    hate: list[str] | None = None
    court: str = ""
    question: str = ""


class LabelledTask(ExportModel):
    """A task with the labels that annotators gave it."""

    data: _TaskData
    annotations: list[Annotation]


class LabelledCase(ExportModel):
    """The annotators' label of a case. `category` is None where nobody has labelled it, or they differ."""

    data: _TaskData
    category: str | None
    note: str = ""
    by: str = ""
    differ: tuple[str, ...] = ()


def read_export(path: Path) -> list[LabelledCase]:
    """Return the tasks of an export of Label Studio (the format JSON), with what was chosen.

    Raises:
        BadInput: the file can't be read, or it is something else.
    """
    return [labelled_case(task) for task in read_tasks(path, LabelledTask)]


def labelled_case(task: LabelledTask) -> LabelledCase:
    """Return the case of a task, with the category that its annotators agree on."""
    chosen: dict[str, tuple[str, str]] = {}
    for each in task.annotations:
        if each.was_cancelled:
            continue
        note = " ".join(
            word
            for result in each.result
            if result.from_name == NOTE
            for word in result.texts_of("text")
        )
        for result in each.result:
            for name in result.texts_of("choices") if result.from_name == CATEGORY else ():
                chosen.setdefault(name, (note, f"Label Studio {each.annotator}".rstrip()))
    if len(chosen) != 1:
        return LabelledCase(data=task.data, category=None, differ=tuple(sorted(chosen)))
    [(category, (note, by))] = chosen.items()
    return LabelledCase(data=task.data, category=category, note=note, by=by)


def labelled_dataset_row(labelled: LabelledCase) -> JSON:
    """Return a labelled task as a row of a data set, by the names of `DATASET_COLUMNS`.

    An image that isn't on the web is the copy in images/, beside tasks.json; so the data set belongs there, too.

    Raises:
        BadInput: the task doesn't say which categories are hate.
    """
    data = labelled.data
    if data.hate is None:
        raise BadInput(
            f"case {data.case}: its task doesn't say which categories are hate; keep `hate` in its data"
        )
    web = data.image.casefold().startswith(("http://", "https://"))
    image = (
        (data.image if web else f"images/{data.image.rpartition('/')[2]}") if data.image else None
    )
    return {
        **data.model_dump(include={"text", "language", "earlier", "post_id", "policy", "policy_sha"}),
        "id": data.case, "image": image, "category": labelled.category,
        "label": "hate" if labelled.category in data.hate else "not",
    }  # fmt: skip


async def decide_in_docket(
    labelled: Iterable[LabelledCase], database: str | None = None
) -> dict[str, str]:
    """Decide cases that wait in the docket of this machine, and return the ids of those that were refused, and why."""
    from tribunal.docket.docket import docket_here

    refused = {}
    for each in labelled:
        thread = each.data.thread
        if not thread:
            refused[each.data.case] = "has no thread here; give the --service that it waits at"
            continue
        try:
            docket = await docket_here(database)
            review = (await docket.record(thread)).review
            same = review is not None and review.court.get("category") == each.category
            choice: JSON = (
                {"action": "accept"} if same else {"action": "change", "category": each.category}
            )
            await docket.decide(thread, answer_of(**choice, note=each.note, reviewer=each.by))
        except BadInput as error:
            refused[each.data.case] = str(error)
    return refused


async def decide_at_service(url: str, key: str, labelled: Iterable[LabelledCase]) -> dict[str, str]:
    """Decide cases that wait at a service, and return the ids of those that were refused, and why.

    `key` has the scope review; it is empty where the service takes any.

    Raises:
        BadInput: the address is wrong, or nobody answers there.
    """
    base = check_address("service", url).rstrip("/")
    refused = {}
    headers = {"X-API-Key": key} if key else {}
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        for each in labelled:
            said: JSON = {
                "action": "change",
                "category": each.category,
                "note": each.note,
                "reviewer": each.by or None,
            }
            if each.category == each.data.court and each.data.question:
                # Where the case was tried again since, the court may have come to something else, and this is refused.
                said |= {"action": "accept", "category": None, "answers": each.data.question}
            address = f"{base}/v1/cases/{each.data.case}/decision"
            try:
                async with session.post(address, json=said, allow_redirects=False) as answer:
                    if answer.status not in (200, 202):
                        refused[each.data.case] = _error_message(answer.status, await answer.text())
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise BadInput(
                    f"service: {base}: {type(error).__name__}; see that it runs"
                ) from None
    return refused


def _error_message(status: int, body: str) -> str:
    try:
        return str(parse_json(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return f"answered {status}"
