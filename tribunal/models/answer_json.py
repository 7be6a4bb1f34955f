"""Find the JSON of an answer: whole, inside prose or a code fence, or with slips of the pen; never what was quoted.

Whoever writes a post may put an answer into it. A model that discusses or refuses it writes it down again, perhaps
in another layout, so JSON is compared with what the model was shown by its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from tribunal.text import TooDeep, parse_json

_FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)
_OPEN_OBJECT, _OPEN_LIST = re.compile(r"\{"), re.compile(r"\[\s*[{\]]")
_DECODER = json.JSONDecoder()
_FLAT_OBJECT = re.compile(r"\{[^{}]{1,5000}\}")
_MOST_MENDED = 50  # objects of one text that are repaired before they are compared
_DEEPEST_WRAPPING = 3


def find_json(said: str, quoted: Iterable[str], *, lists: bool = False, may_equal: bool = False) -> list[Any]:
    """Return what JSON an answer holds: the whole of it, else the outermost objects in it, else a mended object.

    Args:
        said: the answer.
        quoted: texts of other people that the model was shown; JSON that stands in them isn't its answer.
        lists: whether arrays of objects are looked for in the place of objects.
        may_equal: whether a bare answer may equal something quoted, since the form has a few values only.

    Raises:
        TooDeep, RecursionError: it is nested too deeply.
    """
    texts = [text for text in quoted if "{" in text]
    known = [value for text in texts for value in _objects_in(text)]
    try:
        whole = parse_json(said)
    except TooDeep:
        raise
    except ValueError:
        candidates = _embedded_json(said, lists) or _mend_json(said, texts, lists)
        return [value for value in candidates if not _is_quoted(value, known)]
    return [whole] if may_equal or not _is_quoted(whole, known) else []


def unwrap(value: Any, form: type[BaseModel]) -> Any:
    """Return the object in a list of one, in a text, or under a single name that the form doesn't have."""
    for _ in range(_DEEPEST_WRAPPING):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        elif isinstance(value, str) and value.lstrip().startswith(("{", "[", '"')):
            try:
                value = parse_json(value)
            except ValueError:
                break
        elif isinstance(value, dict) and len(value) == 1 and not form.model_fields.keys() & value.keys():
            (inner,) = value.values()
            if not isinstance(inner, dict | list | str):
                break
            value = inner
        else:
            break
    return value


def _is_quoted(value: Any, known: list[Any]) -> bool:
    """Return whether a value, or the only object inside it, equals one that was quoted."""
    if not known:
        return False
    for _ in range(_DEEPEST_WRAPPING):
        if isinstance(value, dict) and value in known:
            return True
        inner = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = parse_json(value)
                continue
            except ValueError:
                return False
        if len(inner) != 1:
            return False
        value = inner[0]
    return False


def _objects_in(text: str) -> Iterator[Any]:
    """Yield every JSON object in a text, also within another, and those that a model would write correctly."""
    at = text.find("{")
    mended = 0
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            flat = _FLAT_OBJECT.match(text, at) if mended < _MOST_MENDED else None
            if flat:
                import json_repair

                mended += 1
                yield from _inner_objects(json_repair.loads(flat[0]))
            at = text.find("{", at + 1)
            continue
        yield from _inner_objects(value)
        at = text.find("{", end)


def _inner_objects(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _inner_objects(each)


def _embedded_json(said: str, lists: bool) -> list[Any]:
    """Return the outermost JSON objects that stand whole in a text."""
    values: list[Any] = []
    opening = _OPEN_LIST if lists else _OPEN_OBJECT
    start = opening.search(said)
    while start:
        try:
            value, end = _DECODER.raw_decode(said, start.start())
        except ValueError:
            # An object that never closes may hold others that do; they are parts of it, not answers.
            return values
        values.append(value)
        start = opening.search(said, end)
    return values


def _mend_json(said: str, quoted: list[str], lists: bool) -> list[Any]:
    fenced = _FENCE.search(said)
    text = fenced[1].strip() if fenced else said
    start, end = text.find("{["[lists]), text.rfind("}]"[lists])
    body = text[start : end + 1]
    # A cut answer lacks its last brackets, and can't be completed.
    balanced = body.count("{") == body.count("}") and body.count("[") == body.count("]")
    if start == -1 or not body or not balanced or text[end + 1 :].strip(" \n\t`"):
        return []
    if any(body in each for each in quoted):
        return []
    import json_repair  # most answers need no mending

    return [json_repair.loads(body)]
