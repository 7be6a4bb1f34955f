"""A scripted model that fills any form, so that every seat of every graph is asked, and what each of them was sent."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from typing import Any

from tests.court import QUOTED
from tests.doubles import Fault, Reply, Request
from tribunal.schema import JSON

# What a seat answers to keep a case going through every seat, by the heading of its prompt and the field.
CHOICES: dict[str, dict[str, Any]] = {
    "stance": {"Prosecutor": "press", "Defender": "refute", "debater": "rebut"},
    "label": {"annotator": 0, "final judgement": "HATE"},
    "answer": {"Contrast": "NO", "Contextualist": "NO"},
}


def heading(request: Request) -> str:
    """Which part a request asks for, in the words of its prompt."""
    own = QUOTED.sub("", request.text)  # a post may hold a heading too
    return next(line for line in own.splitlines() if line.startswith("# Your part: ")).removeprefix(
        "# Your part: "
    )


class Player:
    """Fills the form of each request by its schema: the same words at the same place, every time.

    Args:
        explicit: the gatekeeper finds a cue.
        enough: research says that its evidence suffices at its second turn.
    """

    def __init__(self, *, explicit: bool = False) -> None:
        self.explicit = explicit
        self.asked: dict[str, int] = {}

    def __call__(self, request: Request) -> Reply | Fault:
        part = heading(request)
        self.asked[part] = self.asked.get(part, 0) + 1
        if request.schema is None:
            return Reply("hate speech: because of its words")
        return Reply(self._filled(request.schema, request, part, ()))

    def _filled(self, schema: JSON, request: Request, part: str, path: tuple[str, ...]) -> Any:
        if "$ref" in schema:
            assert request.schema is not None
            return self._filled(
                request.schema["$defs"][schema["$ref"].rpartition("/")[2]], request, part, path
            )
        name = next((each for each in reversed(path) if not each.isdecimal()), "")
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            wanted = next(
                (value for words, value in CHOICES.get(name, {}).items() if words in part),
                schema["enum"][0],
            )
            return (
                wanted
                if wanted in schema["enum"]
                else schema["enum"][wanted if isinstance(wanted, int) else 0]
            )
        if "anyOf" in schema:
            return self._filled(schema["anyOf"][0], request, part, path)
        kind = schema.get("type")
        if kind == "object":
            inner = schema.get("properties", {})
            return {each: self._filled(inner[each], request, part, (*path, each)) for each in inner}
        if kind == "array":
            return [
                self._filled(schema["items"], request, part, (*path, str(n)))
                for n in range(self._many(name, part))
            ]
        if kind == "boolean":
            return self.asked[part] > 1
        if kind in ("number", "integer"):
            return self._number(name, part, path)
        return self._words(name, request, part, path)

    def _many(self, name: str, part: str) -> int:
        if name == "cues" and "rapid scan" in part:
            return int(self.explicit)
        return 3 if name in ("queries", "urls") else 1

    def _number(self, name: str, part: str, path: tuple[str, ...]) -> float:
        if "Judge of the answers" in part:
            order = ("surface", "deep", "contrast", "context")
            first = 0.2 + 0.1 * (order.index(path[-1]) if path[-1] in order else 0)
            return round(first + (0.3 if self.asked[part] % 2 == 0 else 0), 2)
        return 1 if name == "relevant" else 0.5

    def _words(self, name: str, request: Request, part: str, path: tuple[str, ...]) -> str:
        if name == "passage":
            return "The old image is explained here."
        if name in ("queries", "urls"):
            turn = self.asked[part]
            end = f"{turn}-{path[-1]}"
            return f"https://site.invalid/{end}" if name == "urls" else f"query {end}"
        if name == "cue_id":
            return "C1"
        if name == "category" or name == "label":
            return "hate"
        return f"{name} of {part.lower()}"


def readable(request: Request) -> str:
    """A request as a page to read: what differs from run to run, such as a port, is left out."""
    body = {
        name: value
        for name, value in request.body.items()
        if name not in ("messages", "response_format", "stream") and value is not None
    }
    lines = [
        f"- {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(body.items())
    ]
    parts = ["\n".join(lines)]
    for message in request.body["messages"]:
        content = message["content"]
        pieces = content if isinstance(content, list) else [{"type": "text", "text": content}]
        shown = [_shown(piece) for piece in pieces]
        parts.append(f"## {message['role']}\n\n" + "\n\n".join(shown))
    if "response_format" in request.body:
        schema = json.dumps(request.body["response_format"], ensure_ascii=False, indent=1)
        parts.append(f"## response_format\n\n```json\n{schema}\n```")
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://site", "\n\n".join(parts))
    marks: dict[str, str] = {}
    # A mark is a digest of the words between it, which hold the site's port where they hold an address.
    return (
        re.sub(
            r"\b[0-9a-f]{16}\b",
            lambda found: marks.setdefault(found[0], f"mark-{len(marks) + 1}"),
            text,
        )
        + "\n"
    )


def _shown(piece: JSON) -> str:
    if piece["type"] == "text":
        return f"~~~text\n{piece['text']}\n~~~"
    uri = piece["image_url"]["url"]
    return (
        f"(image: {uri.partition(';')[0]}, sha256 {hashlib.sha256(uri.encode()).hexdigest()[:12]})"
    )


def difference(base: str, other: str) -> str:
    """What is otherwise in another request, as a unified diff without its file names."""
    lines = list(difflib.unified_diff(base.splitlines(), other.splitlines(), lineterm="", n=1))[2:]
    return "\n".join(lines)
