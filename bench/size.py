"""Count how large this project is, before a change and after: `python -m bench.size [REVISION …]`, one column each.

Counts files, lines, words of docs and names; runs one call of `baseline` and counts the files that it runs through;
installs the core into an empty environment and weighs it; times `tribunal judge`. Needs git and uv.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOMS = ("tribunal", "prompts", "retrievers", "nodes", "graphs", "eval", "experiments", "service", "commands")
_TRACE = """
import asyncio, sys
from pathlib import Path
import tribunal
top, seen = str(Path(tribunal.__file__).resolve().parent), set()
def note(frame, event, value):
    if event == "call" and frame.f_code.co_filename.startswith(top) and frame.f_code.co_name != "<module>":
        seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
async def main():
    await tribunal.ajudge("Warm up.", graph="baseline", model="rehearsal")
    sys.setprofile(note)
    await tribunal.ajudge("Good morning.", graph="baseline", model="rehearsal")
    sys.setprofile(None)
asyncio.run(main())
print(len({file for file, _ in seen}), len(seen))
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__.splitlines()[0])
    parser.add_argument("revisions", nargs="*", default=["HEAD"], help="Git revisions to count. Default: HEAD.")
    parser.add_argument("--no-install", action="store_true", help="Count only, and install nothing.")
    options = parser.parse_args()
    columns = [dict(_counts(revision, install=not options.no_install)) for revision in options.revisions]
    table = Table("", *options.revisions)
    for name in dict.fromkeys(name for column in columns for name in column):
        table.add_row(name, *(column.get(name, "–") for column in columns))
    Console().print(table)


def _counts(revision: str, *, install: bool) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "tree"
        subprocess.run(["git", "clone", "--quiet", ".", str(top)], check=True)
        subprocess.run(["git", "checkout", "--quiet", revision], cwd=top, check=True)
        yield from _source_counts(top)
        if install:
            yield from _installed_counts(top, Path(folder) / "environment")


def _source_counts(top: Path) -> Iterator[tuple[str, str]]:
    files = subprocess.run(["git", "ls-files"], cwd=top, check=True, capture_output=True, text=True).stdout.split()
    python = [name for name in files if name.endswith((".py", ".pyi"))]
    source = [name for name in python if name.split("/")[0] in ROOMS]
    tests = [name for name in python if name.startswith("tests/")]
    pages = [name for name in files if name.startswith("docs/") and name.endswith(".md")]
    yield "source files", f"{len(source):,}"
    yield "source lines", f"{_lines(top, source):,}"
    yield "test lines", f"{_lines(top, tests):,}"
    words = [word for name in pages for word in (top / name).read_text("utf-8").split()]
    yield "words of docs", f"{sum(any(letter.isalnum() for letter in word) for word in words):,}"
    classes: Counter[str] = Counter()
    functions: list[str] = []
    for name in source:
        for node in ast.walk(ast.parse((top / name).read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                functions.append(node.name.strip("_"))
    yield "class names that stand for several classes", f"{sum(number > 1 for number in classes.values()):,}"
    yield "functions", f"{len(functions):,}"
    yield "functions named by one word", f"{sum('_' not in name for name in functions):,}"


def _installed_counts(top: Path, environment: Path) -> Iterator[tuple[str, str]]:
    uv = os.environ.get("UV", "uv")
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), "."]
    subprocess.run(install, cwd=top, check=True)
    packages = subprocess.run(
        [uv, "pip", "freeze", "--python", str(python)], check=True, capture_output=True, text=True
    )
    yield "packages of a core install", f"{len(packages.stdout.splitlines()):,}"
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    yield "megabytes of a core install", f"{size / 1e6:,.0f}"
    run = {**os.environ, "TRIBUNAL_DATA": str(environment / "data"), "LANGSMITH_TRACING": "false", "TRIBUNAL_MODEL": ""}
    trace = [str(python), "-c", _TRACE]
    touched = subprocess.run(trace, cwd=environment, env=run, check=True, capture_output=True, text=True).stdout.split()
    yield "files of ours in one call of `baseline`", touched[0]
    yield "functions of ours in one call of `baseline`", touched[1]
    judge = [str(python), "-m", "tribunal", "judge", "Good morning."]
    bare = [str(python), "-c", "import langgraph.graph"]
    yield "seconds of `tribunal judge`", f"{_seconds(judge, environment, run):.2f}"
    yield "seconds of `import langgraph.graph`", f"{_seconds(bare, environment, run):.2f}"


def _lines(top: Path, names: list[str]) -> int:
    return sum(len((top / name).read_bytes().splitlines()) for name in names)


def _seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Return the median time of five runs, after one that isn't counted, in seconds."""
    times = []
    for _ in range(6):
        begun = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
