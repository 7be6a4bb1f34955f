"""Nine posts to be labelled, three people who label them, and an expert."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

RACIST, SEXIST, RELIGIOUS, NOT = "Racist", "Sexist", "Religious", "NotHate"
HOSTILE = "<img src=x onerror='ran=1'><script>ran=1</script>"


class Case(NamedTuple):
    """A post: its text, the colour of its image, what it was written for, and what three people said of it."""

    text: str
    colour: str | None
    intended: str
    labels: tuple[str, ...]


# What the labels come to is worked out by hand in test_annotate.py.
CASES = {
    "a": Case("good morning", "blue", NOT, (NOT, NOT, NOT)),
    "b": Case("vermin, all of them", "blue", RACIST, (RACIST, RACIST, SEXIST)),
    "c": Case("he said vermin, and I object", "blue", NOT, (NOT, NOT, RACIST)),
    "d": Case(f"weeds in my garden {HOSTILE}", "blue", RACIST, (RACIST, RACIST, NOT)),
    "e": Case("vermin is what they call us", "red", NOT, (NOT, RACIST, SEXIST)),
    "f": Case("look at this", "red", RELIGIOUS, (NOT, NOT, NOT)),
    "g": Case("vermin again", None, RACIST, (RACIST, RACIST, RACIST)),
    "h": Case("fine weather", "blue", RACIST, (NOT, NOT, NOT)),
    "i": Case("a quiet evening", "red", NOT, (NOT, NOT)),
}
UNSURE, LOW_QUALITY = ("d", 2), ("f", 1)  # of which post, which annotator said so
EXPERT = {"d": RACIST, "e": NOT, "i": NOT}
MAP = [each for name in (RACIST, RELIGIOUS) for each in ("--labels", f"{name}={name}")] + [
    "--labels",
    f"{NOT}=not",
]


def write_posts(folder: Path) -> Path:
    """The posts as a table, with their images beside it."""
    with (folder / "posts.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "image", "label"])
        for name, case in CASES.items():
            image = f"{name}.png" if case.colour else ""
            if case.colour:
                Image.new("RGB", (8 + ord(name), 8), case.colour).save(folder / image)
            rows.writerow([name, case.text, image, case.intended])
    return folder / "posts.csv"


def alone(name: str) -> tuple[str, str | None]:
    """What people say of a post's text, and of its image."""
    case = CASES[name]
    image = {"red": RELIGIOUS, "blue": NOT, None: None}[case.colour]
    return RACIST if "vermin" in case.text else NOT, image


def chosen(name: str, annotator: int) -> list[dict[str, Any]]:
    """What one of the three, or the expert (3), gives the controls of a post's task."""
    text, image = alone(name)
    joint = EXPERT[name] if annotator == 3 else CASES[name].labels[annotator]
    if (name, annotator) == ("d", 0):
        text = RACIST  # one of them is of another opinion
    flags = {UNSURE: ["Not sure"], LOW_QUALITY: ["Low quality"]}.get((name, annotator), [])
    given = {
        "text_label": [text], "image_label": [image] if image else [], "joint_label": [joint],
        "intent": ["nothing of hate" if joint == NOT else "open attack"],
        "target": ["ethnicity", "religion"][: 1 + (name == "b")] if joint != NOT else [], "flags": flags,
    }  # fmt: skip
    results: list[dict[str, Any]] = [
        {"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": choices}}
        for control, choices in given.items()
        if choices
    ]
    note = {
        "from_name": "note",
        "to_name": "text",
        "type": "textarea",
        "value": {"text": [f"said of {name}"]},
    }
    return [*results, note] if annotator == 1 else results


def exported(tasks: list[dict[str, Any]], *, expert: bool = False) -> list[dict[str, Any]]:
    """Tasks as Label Studio 1.23 exports them (the format JSON), labelled by the three, or by the expert."""
    made = []
    for number, task in enumerate(tasks, start=1):
        name = task["data"]["post_id"]
        people = [3] if expert else range(len(CASES[name].labels))
        annotations = [
            {
                "id": 10 * number + person, "completed_by": person + 1, "result": chosen(name, person),
                "was_cancelled": False, "ground_truth": False, "created_at": f"2026-01-0{person + 1}T00:00:00Z",
                "updated_at": f"2026-01-0{person + 1}T00:00:00Z", "lead_time": 3.2, "prediction": {}, "task": number,
            }
            for person in people
        ]  # fmt: skip
        skipped = {"id": 10 * number + 9, "completed_by": 9, "result": [], "was_cancelled": True}
        made.append(
            {
                **task,
                "id": number,
                "annotations": [*annotations, skipped],
                "predictions": [],
                "project": 1,
            }
        )
    return made


def in_short(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as JSON-MIN: a row an annotation, one choice as a text, several as an object."""
    rows = []
    for task in tasks:
        for each in task["annotations"]:
            if each["was_cancelled"]:
                continue
            row = {
                **task["data"],
                "id": task["id"],
                "annotator": each["completed_by"],
                "annotation_id": each["id"],
            }
            row |= {
                "created_at": each["created_at"],
                "updated_at": each["updated_at"],
                "lead_time": 3.2,
            }
            for result in each["result"]:
                said = result["value"].get("choices") or result["value"]["text"]
                row[result["from_name"]] = said[0] if len(said) == 1 else {"choices": said}
            rows.append(row)
    return rows
