"""The texts that the leak check looks at: our prompts, policies, examples and words in code, or a user's own files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.eval.leaks.phrases import BREAK
from tribunal.files import read_text
from tribunal.text import one_line, parse_toml

_ROOMS = ("prompts", "models", "retrievers", "nodes", "cases")
_SHOWN_TO_NOBODY = "nodes/rehearsal/"  # the rules that stand in for a model
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_SUFFIXES = (".md", ".toml", ".txt")
_EXAMPLES = ("for", "against", "examples_for", "examples_against")  # keys of a policy and of the pool
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”')


def shipped_texts() -> dict[str, list[str]]:
    """Return the texts of each file that comes with the project and is shown to a model, and the words in its code."""
    found: dict[str, list[str]] = {}
    for room in _ROOMS:
        root = Path(str(files("tribunal"))) / room
        for path in sorted(root.rglob("*")):
            name = f"{room}/{path.relative_to(root).as_posix()}"
            if name.startswith(_SHOWN_TO_NOBODY):
                continue
            if path.suffix in _SUFFIXES:
                found[name] = texts_of_file(path)
            elif path.suffix == ".py":
                found[name] = _code_texts(path)
    return {name: texts for name, texts in found.items() if texts}


def own_texts(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the texts of each of these files, and of each file in these folders.

    Raises:
        BadInput: one can't be read, or a folder holds none.
    """
    found: dict[str, list[str]] = {}
    for given in paths:
        root = given.expanduser()
        files_there = sorted(root.rglob("*")) if root.is_dir() else [root]
        inside = [each for each in files_there if each.suffix in _SUFFIXES]
        if not inside:
            raise BadInput(f"prompts: {given}: no {', '.join(_SUFFIXES)} there; give a prompt set or a policy file")
        found |= {str(path): texts_of_file(path) for path in inside}
    return found


def texts_of_file(path: Path) -> list[str]:
    """Return the texts of a prompt or a policy. What a template fills in is left out, and parts no phrase.

    Raises:
        BadInput: it can't be read.
    """
    try:
        text = read_text(path)
        if path.suffix == ".toml":
            return list(_iter_strings(parse_toml(text)))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"prompts: {path}: {reason}; give a prompt set or a policy file") from error
    return [_TEMPLATE.sub(BREAK, text)]


def quoted_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield what stands between quotation marks: an example, however short, or the name of an answer."""
    for text in texts:
        for plain, curly in _QUOTED.findall(text):
            yield plain or curly


def _iter_strings(held: Any, *, example: bool = False) -> Iterator[str]:
    """Yield the texts in a TOML file; an example in quotation marks, so that it counts however short it is."""
    if isinstance(held, str):
        yield f'"{one_line(held)}"' if example and '"' not in held else held
    elif isinstance(held, list):
        for part in held:
            yield from _iter_strings(part, example=example)
    elif isinstance(held, dict):
        for key, part in held.items():
            yield from _iter_strings(part, example=example or key in _EXAMPLES)


def _code_texts(path: Path) -> list[str]:
    """Return the texts in a file of code that a model may be shown: its strings, without docstrings."""
    tree = ast.parse(read_text(path))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    words = [node.value for node in strings if isinstance(node.value, str) and " " in node.value]
    return [each.replace('"', " ") for each in words]  # code quotes more than examples
