"""Print the test of each promise of the docs, now and in an earlier revision: `python -m bench.promises REVISION`.

A test is the same test if it has the same name, wherever its file lies. A promise whose test has no counterpart was
made, or first held by a test, after that revision.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

PROJECT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print a row for each test of each promise."""
    parser = argparse.ArgumentParser(prog="python -m bench.promises", description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="The Git revision to compare with.")
    revision: str = parser.parse_args().revision
    before = dict(_files_by_test(revision))
    features = tomllib.loads((PROJECT / "tests" / "features.toml").read_text("utf-8"))["feature"]
    table = Table("page", "promise", "test", "its file now", f"its file in {revision}")
    for feature in features:
        for test in feature["tests"]:
            file, name = test.split("::")
            table.add_row(feature["page"], feature["says"], name, file, before.get(name, "–"))
    Console(width=240).print(table)


def _files_by_test(revision: str) -> Iterator[tuple[str, str]]:
    for file in _git("ls-tree", "-r", "--name-only", revision, "tests").splitlines():
        if file.endswith(".py"):
            for node in ast.parse(_git("show", f"{revision}:{file}")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    yield node.name, file


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=PROJECT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
