"""One door for every file, and one for every database: nothing else opens them by itself.

Ruff finds functions that are banned (TID251, PTH); methods are looked for here, since only their names are known.
"""

from __future__ import annotations

import ast

from tests.test_house import MODULES

DOORS = {"process.files", "process.database", "store.engine"}
# Of a path, or of what somebody calls one.
METHODS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
# Where a method of one of these names opens nothing of a user's: by module, what it is called on, with the reason.
ELSEWHERE: dict[str, dict[str, str]] = {
    "eval.protocols.protocol": {"entry": "package data"},
    "settings.systems": {"file": "a folder of an installed package, which may lie in an archive"},
    "commands.serve": {"webbrowser": "opens a page"},
}


def is_package_data(receiver: ast.expr) -> bool:
    """Whether it is what `importlib.resources` gives: `files(…)`, or our `resource(…)` for one's own package."""
    called = {
        node.func.id
        for node in ast.walk(receiver)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return bool(called & {"files", "resource"})


def opened(module: str) -> list[tuple[int, str, str]]:
    """What a module opens past the doors: the line, what it is called on, and the method."""
    found: list[tuple[int, str, str]] = []
    source = MODULES[module].read_text("utf-8")
    if not any(
        f".{method}(" in source for method in (*METHODS, "load")
    ):  # to parse them all takes seconds
        return []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        receiver, method = node.func.value, node.func.attr
        called_on = ast.unparse(receiver)
        if (called_on, method) == ("np", "load"):
            if not ast.unparse(node.args[0]).startswith("io.BytesIO("):
                found.append((node.lineno, called_on, method))
        elif (
            method in METHODS
            and not is_package_data(receiver)
            and called_on != "os"
            and not called_on[0].isupper()
        ):
            # Of `os` ruff knows. A class has an `open` of its own, as `Store` does; Pillow's is given bytes.
            found.append((node.lineno, called_on, method))
    return found


def test_nothing_opens_a_file_past_the_door() -> None:
    found = {module: opened(module) for module in MODULES if module not in DOORS}
    past = [
        f"{module}, line {line}: {called_on}.{method}"
        for module, calls in found.items()
        for line, called_on, method in calls
        if called_on not in ELSEWHERE.get(module, {})
    ]
    assert not past, "open it by tribunal.process.files or tribunal.process.database"
    used = {module: {called_on for _, called_on, _ in found[module]} for module in ELSEWHERE}
    assert used == {module: {*allowed} for module, allowed in ELSEWHERE.items()}, (
        "an exception that nothing needs"
    )
