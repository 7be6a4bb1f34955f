"""Read the texts in a clone of somebody's repository. Their code is parsed and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.files import read_text
from tribunal.text import parse_json

# Our words for a confidence, at the end of a published prompt that decides.
ASK_CONFIDENCE = (
    '\n\n\n{% if sure %}\nAdd a field "confidence": how sure you are of the label, from 0 to 1.\n{% endif %}'
)
_OTHER_LAYOUT = "this isn't the layout that is known"


def read_constants(folder: Path, file: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return texts that a Python file gives names to, f-strings of such names included.

    Raises:
        BadInput: the file isn't there or no Python, or one of the texts isn't there or is something else.
    """
    path = folder / file
    try:
        tree = ast.parse(_read_clone_file(path, folder))
    except (SyntaxError, RecursionError) as error:
        raise BadInput(f"import: {path}: is no Python that can be parsed; {_OTHER_LAYOUT}") from error
    texts: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _text_of(node.value, texts)
            if value is not None:
                texts[node.targets[0].id] = value
    for name in wanted:
        if not texts.get(name, "").strip():
            raise BadInput(f"import: {path}: {name} was sought, a text at the top of the file; {_OTHER_LAYOUT}")
    return {name: texts[name].strip() for name in wanted}


def _text_of(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """Return the text that an expression is, or None if that can't be told without running it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _join_texts([left, right], known)
        case ast.JoinedStr(values=parts):
            return _join_texts(parts, known)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text_of(value, known)
    return None


def _join_texts(parts: Iterable[ast.expr], known: Mapping[str, str]) -> str | None:
    texts = [_text_of(part, known) for part in parts]
    return None if None in texts else "".join(text or "" for text in texts)


def read_json_texts(folder: Path, file: str, wanted: Iterable[str]) -> tuple[Path, dict[str, str]]:
    """Return the path of a JSON file, wherever in the clone it lies, and the texts of its keys.

    Raises:
        BadInput: there is no such file, or several, or one of the texts isn't there.
    """
    there = sorted(folder.rglob(file)) if folder.is_dir() else []
    if len(there) != 1:
        raise BadInput(
            f"import: {folder}: {file} was sought, and stands there {len(there)} times; give the folder of the clone"
        )
    try:
        held = parse_json(_read_clone_file(there[0], folder))
    except ValueError as error:
        raise BadInput(f"import: {there[0]}: is no JSON; {_OTHER_LAYOUT}") from error
    texts = held if isinstance(held, dict) else {}
    for name in wanted:
        if not isinstance(texts.get(name), str) or not texts[name].strip():
            raise BadInput(f"import: {there[0]}: the text {name} was sought; {_OTHER_LAYOUT}")
    return there[0], {name: texts[name].strip() for name in wanted}


def _read_clone_file(path: Path, folder: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise BadInput(f"import: {path}: {reason}; give the folder of the clone ({folder} was given)") from error


def find_answer_field(path: Path, name: str, text: str, field: str) -> str:
    """Return a field of the answer as a prompt spells it, in quotation marks.

    Raises:
        BadInput: the prompt asks for no such field, so that its answers would not be read.
    """
    found = re.search(rf"[\"“'‘]({re.escape(field)})[\"”'’]\s*:", text, re.IGNORECASE)
    if found is None:
        raise BadInput(f'import: {path}: {name}: the field "{field}" of the answer was sought; {_OTHER_LAYOUT}')
    return found[1]


def as_template(text: str, path: Path, name: str, variables: Mapping[str, str] | None = None) -> str:
    """Return a text as a template that says just this, with our variables in the place of its own marks.

    Args:
        text: the text.
        path: its file, for errors.
        name: what it is called there.
        variables: by each mark that has to stand in the text, the template that comes in its place.

    Raises:
        BadInput: a mark isn't there, or another one is.
    """
    for mark in variables or {}:
        if mark not in text:
            raise BadInput(f"import: {path}: {name}: {mark} was sought in it; {_OTHER_LAYOUT}")
    parts = re.split(r"(##\w+##)", text) if variables is not None else [text]
    made = []
    for part in parts:
        if variables is not None and re.fullmatch(r"##\w+##", part):
            if part not in variables:
                raise BadInput(f"import: {path}: {name}: {part} isn't known; {_OTHER_LAYOUT}")
            made.append(variables[part])
        elif "endraw" in part:
            raise BadInput(f"import: {path}: {name}: holds the word endraw, which a template can't say as it is")
        elif part:
            made.append(f"{{% raw %}}{part}{{% endraw %}}")
    return "".join(made)
