"""Label Studio's own JSON and interface: choices as they are said there, controls as it draws them, an export read.

https://labelstud.io/guide/tasks, https://labelstud.io/guide/export and https://labelstud.io/tags have the forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from lxml import etree  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.schema import JSON
from tribunal.text import parse_json

LOCAL_FILES = "/data/local-files/?d=images/"
TASKS = "tasks.json"
_MOST = 512 * 1024**2  # bytes of an export that is read
T = TypeVar("T")


def choice_result(control: str, chosen: str) -> JSON:
    """Return what was chosen in a control, as an annotation or a prediction has it."""
    return {"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": [chosen]}}


def write_task(file: IO[bytes], task: JSON, *, first: bool) -> None:
    """Write a task as an element of the array that a file of tasks is."""
    file.write((b"\n" if first else b",\n") + json.dumps(task, ensure_ascii=False).encode("utf-8", "replace"))


class LabellingInterface:
    """A labelling interface that is put together piece by piece. What a stranger wrote is shown as the text it is."""

    def __init__(self, *, pictured: bool, conversation: bool = True) -> None:
        """Begin with the post, its image if posts are pictured, and above it the conversation before it."""
        self._view = etree.Element("View")
        if conversation:
            self.add_text("Earlier in the conversation: read it, and don't label it", "conversation")
        self.add_text("The post", "text")
        if pictured:
            etree.SubElement(self._view, "Image", name="image", value="$image")

    def add_text(self, title: str, field: str) -> None:
        """Add a field of the task's data below a title, as plain text: no markup, and no address that is fetched."""
        etree.SubElement(self._view, "Header", value=title)
        etree.SubElement(self._view, "Text", name=field, value=f"${field}", valueType="text")

    def add_choices(
        self, name: str, options: Mapping[str, str], title: str = "", *, many: bool = False, required: bool = False
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
        etree.SubElement(self._view, "TextArea", name=note, toName="text", placeholder="Why", maxSubmissions="1")
        written: str = etree.tostring(self._view, pretty_print=True, encoding="unicode")
        return written


class ExportModel(BaseModel):
    """What is read of an export: what is named here, of all that may stand there."""

    model_config = ConfigDict(extra="ignore")


class ControlResult(ExportModel):
    """What one control was given."""

    from_name: str = ""
    value: JSON = Field(default_factory=dict)

    def texts_of(self, name: str) -> list[str]:
        """Return the texts under a name of the value, such as `choices`."""
        held = self.value.get(name)
        return [each for each in (held if isinstance(held, list) else [held]) if isinstance(each, str)]


class Annotation(ExportModel):
    """What one person made of a task."""

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
        return TypeAdapter(list[form]).validate_python(parse_json(read_regular(path, _MOST)))  # type: ignore[valid-type]
    except OSError as error:
        why, way_out = error.strerror, "give the file that Label Studio exported as JSON"
    except ValidationError as error:
        why, way_out = describe_validation_error(error), "export from Label Studio as JSON, tasks of this program"
    except ValueError as error:
        why, way_out = f"is no JSON: {error}", "export from Label Studio as JSON"
    raise BadInput(f"{path}: {why}; {way_out}")
