"""Private names of foreign packages, found in our source and tests by reading them.

A name is ours where the file itself, or a module of ours that it imports, defines it. Every other name that begins with
one underscore belongs to a package of somebody else, and may go or change with any release of it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests import PROJECT

ROOMS = ("commands", "eval", "experiments", "graphs", "nodes", "prompts", "retrievers", "service")
_FOLDERS = ("tribunal", *ROOMS, "examples", "tests")
_PRIVATE = re.compile(r"_[^\W_]\w*")
_BY_STRING = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller", "object"}
# Names that begin with an underscore and that their own documentation gives to everybody.
_DOCUMENTED = {
    "_asdict",
    "_field_defaults",
    "_fields",
    "_make",
    "_replace",
    "_exit",
    "_missing_",
    "_repr_html_",
}
# What a class of LangChain's wants defined by those who extend it. Only a class right below it may do so.
_EXTENSION_POINTS = {
    "BaseChatModel": {
        "_generate",
        "_agenerate",
        "_stream",
        "_astream",
        "_llm_type",
        "_identifying_params",
    },
    "BaseRetriever": {"_get_relevant_documents", "_aget_relevant_documents"},
    "BaseTool": {"_run", "_arun"},
}


class Use(NamedTuple):
    """A foreign private name that a file uses; `what` says how."""

    file: str
    what: str


class _Module(NamedTuple):
    name: str
    nodes: list[ast.AST]
    names: set[str]
    imports: dict[str, str]  # what a name stands for, as a dotted path


def _parse(name: str, source: str) -> _Module:
    nodes = list(ast.walk(ast.parse(source)))
    return _Module(name, nodes, set(_defined(nodes)), dict(_imported(nodes)))


@cache
def _modules() -> dict[str, tuple[Path, _Module]]:
    """Return every file of ours by the dotted name of its module."""
    found = {}
    for folder in _FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if any(parent.is_symlink() for parent in path.parents):
                continue
            parts = list(path.relative_to(PROJECT).with_suffix("").parts)
            name = ".".join(["tribunal", *parts] if parts[0] in ROOMS else parts).removesuffix(
                ".__init__"
            )
            found[name] = path, _parse(name, path.read_text("utf-8"))
    return found


def _defined(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                yield node.attr


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    (alias.asname, alias.name)
                    if alias.asname
                    else (alias.name.partition(".")[0],) * 2
                )


def uses() -> set[Use]:
    """Return every use of a foreign private name in our files."""
    return {
        Use(path.relative_to(PROJECT).as_posix(), what)
        for path, module in _modules().values()
        for what in _uses_in(module)
    }


def uses_in(source: str) -> set[str]:
    """Return every use of a foreign private name in a module that is no file of ours."""
    return set(_uses_in(_parse("snippet", source)))


def _uses_in(module: _Module) -> Iterator[str]:
    ours = _names_seen(module)
    for node in module.nodes:
        match node:
            case ast.Attribute(attr="__class__", ctx=ast.Store()):
                yield f"assigns {ast.unparse(node)}"
            case ast.Attribute(attr=attr) if _is_foreign(attr, ours):
                yield f"attribute {attr}"
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                within = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                for path in (within + alias.name for alias in names):
                    if not _is_ours(path) and any(
                        _PRIVATE.fullmatch(part) for part in path.split(".")
                    ):
                        yield f"import {path}"
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if (
                called in _BY_STRING
            ):
                yield from (
                    f"string {text}" for text in _strings(node.args) if _names_foreign(text, ours)
                )
            case ast.Call(
                func=ast.Attribute(attr="model_copy"),
                keywords=[ast.keyword(arg="update", value=changed)],
            ):
                keys = changed.keys if isinstance(changed, ast.Dict) else []
                texts = [
                    key.value
                    for key in keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
                yield from (f"string {text}" for text in texts if _is_foreign(text, ours))
            case ast.Subscript(value=held, slice=ast.Constant(value=str(key))):
                if _is_foreign(key, ours) and _holds_names(held):
                    yield f"string {key}"
            case ast.ClassDef():
                yield from _overrides(node, module)


def _names_seen(module: _Module) -> set[str]:
    """Return the names that a module, and those of ours that it imports, define; a test also sees what these import."""
    seen, near = set(module.names), [module]
    for _ in range(2 if module.name.startswith("tests.") else 1):
        near = [other for each in near for other in _imports_of_ours(each)]
        seen |= {name for each in near for name in each.names}
    return seen


def _imports_of_ours(module: _Module) -> list[_Module]:
    paths = {each for path in module.imports.values() for each in (path, path.rpartition(".")[0])}
    return [_modules()[each][1] for each in paths & _modules().keys()]


def _is_ours(path: str) -> bool:
    return path.partition(".")[0] in ("tribunal", "tests", "examples")


def _is_foreign(name: str, ours: set[str]) -> bool:
    return bool(_PRIVATE.fullmatch(name)) and name not in ours and name not in _DOCUMENTED


def _names_foreign(text: str, ours: set[str]) -> bool:
    return not _is_ours(text) and any(_is_foreign(part, ours) for part in text.split("."))


def _strings(arguments: list[ast.expr]) -> list[str]:
    """Return the first two arguments where they are strings; a third is the default."""
    return [
        each.value
        for each in arguments[:2]
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def _holds_names(node: ast.expr) -> bool:
    """Return whether an expression is the names of an object, of a module or of a file that was run."""
    match node:
        case ast.Attribute(attr="__dict__"):
            return True
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
            return called in ("vars", "run_path", "run_module")
    return False


def _overrides(node: ast.ClassDef, module: _Module) -> Iterator[str]:
    """Yield what a class defines, or asks itself for, and a foreign class above it has under the same private name."""
    own = set(_defined(ast.walk(ast.Module(node.body, []))))
    asked = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and _is_self(each.value)
    }
    names = {each for each in own | asked if _PRIVATE.fullmatch(each)} - _DOCUMENTED
    for base, directly in _foreign_bases(node, module) if names else ():
        allowed = _EXTENSION_POINTS.get(base.__name__, set()) if directly else set()
        theirs = {
            each for above in base.__mro__ for each in vars(above) if _PRIVATE.fullmatch(each)
        }
        for each in sorted((names & theirs) - allowed):
            yield f"{'overrides' if each in own else 'attribute'} {each}"


def _is_self(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def _foreign_bases(
    node: ast.ClassDef, module: _Module, *, directly: bool = True
) -> Iterator[tuple[type, bool]]:
    """Yield the foreign classes above a class of ours, each with whether the class names it itself."""
    for base in node.bases:
        written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = written.partition(".")
        path = module.imports.get(
            first, "" if hasattr(builtins, first) else f"{module.name}.{first}"
        )
        where, _, name = (f"{path}.{rest}" if rest else path).rpartition(".")
        if _is_ours(where) or where == module.name:
            _, other = _modules().get(where, (None, module))
            for above in other.nodes:
                if isinstance(above, ast.ClassDef) and above.name == name and above is not node:
                    yield from _foreign_bases(above, other, directly=False)
        elif where:
            try:
                found = getattr(importlib.import_module(where), name, None)
            except ImportError:  # an extra that isn't installed
                continue
            if isinstance(found, type):
                yield found, directly
