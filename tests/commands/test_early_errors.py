"""Usage errors are reported before LangGraph is imported, which takes most of a command's start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT

_RUN = """
import sys, tribunal
try:
    tribunal.main()
except SystemExit as ended:
    print(ended.code, *({"langgraph", "langchain_core", "langsmith"} & sys.modules.keys()))
"""
COMMANDS = {
    "judge": ("judge", "Good morning."),
    "batch": ("batch", "posts.csv", "--out", "out.csv"),
    "eval": ("eval", "--data", "posts.csv", "--dataset", "table", "--out", "run"),
}
MISTAKES = {
    "misspelt setting": (("--set", "rouns=3"), "rounds"),
    "misspelt graph": (("--graph", "tribunl"), "tribunal"),
    "missing graph file": (("--graph", "nope.py:graph"), "nope.py"),
    "value out of range": (("--rounds", "900"), "900"),
    "setting of another graph": (("--set", "tau=0.5"), "mv_debate"),
    "model without a provider": (("--model", "gpt-4o"), "gpt-4o"),
    "seat without a provider": (("--seat", "judge=gpt-4o"), "seats.judge"),
    "misspelt seat": (("--seat", "judg=openai:gpt-4o"), "judg"),
    "missing policy": (("--policy", "nope.toml"), "nope.toml"),
    "missing prompts": (("--prompts", "nope"), "nope"),
    "missing threshold": (("--threshold", "nope.json"), "nope.json"),
    "misspelt option": (("--modle", "openai:gpt-4o"), "--modle"),
}
OTHERS = {
    "batch, missing file": (("batch", "nope.csv", "--out", "out.csv"), "nope.csv"),
    "batch, missing prices": ((*COMMANDS["batch"], "--prices", "nope.toml"), "nope.toml"),
    "eval, missing file": (("eval", "--data", "nope.csv", "--dataset", "table", "--out", "run"), "nope.csv"),
    "eval, one of two files": (("eval", "--data", "a=posts.csv", "--data", "b=nope.csv", "--out", "run"), "nope.csv"),
    "eval, missing prices": ((*COMMANDS["eval"], "--prices", "nope.toml"), "nope.toml"),
}
CASES = {
    f"{name}, {mistake}": ((*command, *options), fact)
    for name, command in COMMANDS.items()
    for mistake, (options, fact) in MISTAKES.items()
} | OTHERS


@pytest.mark.parametrize(("command", "fact"), CASES.values(), ids=CASES)
def test_a_usage_error_imports_no_langgraph(command: tuple[str, ...], fact: str, tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("id,text,label\n1,Good morning.,not\n")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert done.stdout.split() == ["2"]
    assert fact in done.stderr
    assert not (tmp_path / "run").exists()
