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
_TABLE = ("--dataset", "table", "--out", "run")
OTHERS = {
    "judge, author of a case that isn't kept": (("judge", "Good morning.", "--author", "me"), "--keep"),
    "batch, missing file": (("batch", "nope.csv", "--out", "out.csv"), "nope.csv"),
    "batch, unknown suffix": (("batch", "posts.csv", "--out", "out.xyz"), "out.xyz"),
    "batch, unknown column": ((*COMMANDS["batch"], "--columns", "text=nope"), "nope"),
    "batch, unknown role": ((*COMMANDS["batch"], "--columns", "txt=text"), "txt"),
    "batch, missing prices": ((*COMMANDS["batch"], "--prices", "nope.toml"), "nope.toml"),
    "eval, missing file": (("eval", "--data", "nope.csv", *_TABLE), "a CSV, TSV, JSONL, JSON, Parquet or Arrow file"),
    "eval, folder without the files": (("eval", "--data", ".", "--dataset", "h-vli", "--out", "run"), "test_set.json"),
    "eval, missing folder": (("eval", "--data", "nope", "--dataset", "h-vli", "--out", "run"), "test_set.json"),
    "eval, missing image": (("eval", "--data", "images.csv", *_TABLE), "nope.png"),
    "eval, unknown column": ((*COMMANDS["eval"], "--columns", "text=nope"), "nope"),
    "eval, unknown split": ((*COMMANDS["eval"], "--split", "nope"), "nope"),
    "eval, unknown data set": (("eval", "--data", "posts.csv", "--dataset", "tabel", "--out", "run"), "tabel"),
    "eval, unknown protocol": ((*COMMANDS["eval"], "--protocol", "nope"), "nope"),
    "eval, setting beside a protocol": (
        ("eval", "--data", "posts.csv", "--protocol", "h-vli", "--set", "rouns=3", *_TABLE), "protocol",
    ),
    "eval, missing predictions": ((*COMMANDS["eval"], "--predictions", "nope.csv"), "nope.csv"),
    "eval, setting beside predictions": (
        (*COMMANDS["eval"], "--predictions", "posts.csv", "--rounds", "3"), "--rounds",
    ),
    "eval, missing prices": ((*COMMANDS["eval"], "--prices", "nope.toml"), "nope.toml"),
    "eval, missing run of a budget": ((*COMMANDS["eval"], "--budget-from", "nope"), "nope"),
    "eval, unknown engine": ((*COMMANDS["eval"], "--engine", "nope"), "nope"),
    "eval, malformed time": ((*COMMANDS["eval"], "--wait-for-server", "soon"), "soon"),
    "report, missing run": (("report", "nope"), "nope"),
    "export, missing run": (("export", "nope", "--to", "csv"), "nope"),
    "experiment show, unknown": (("experiment", "show", "nope"), "nope"),
    "fit, missing file": (("fit", "nope"), "nope"),
    "cascade plan, missing run": (("cascade", "plan", "nope"), "nope"),
    "annotate export, missing file": (("annotate", "export", "nope", "--out", "out"), "nope"),
    "review export, unknown suffix": (("review", "export", "--out", "out.xyz"), "xyz"),
    "review import, missing file": (("review", "import", "nope.json"), "nope.json"),
    "cases export, unknown suffix": (("cases", "export", "--out", "out.xyz"), "xyz"),
    "cases forget, malformed time": (("cases", "forget", "--older-than", "soon"), "soon"),
    "policy show, unknown": (("policy", "show", "nope"), "nope"),
    "prompts show, unknown": (("prompts", "show", "nope"), "nope"),
}  # fmt: skip
CASES = {
    f"{name}, {mistake}": ((*command, *options), fact)
    for name, command in COMMANDS.items()
    for mistake, (options, fact) in MISTAKES.items()
} | OTHERS


@pytest.mark.parametrize(("command", "fact"), CASES.values(), ids=CASES)
def test_a_usage_error_imports_no_langgraph(
    command: tuple[str, ...], fact: str, tmp_path: Path
) -> None:
    (tmp_path / "posts.csv").write_text("id,text,label\n1,Good morning.,not\n")
    (tmp_path / "images.csv").write_text("id,text,image,label\n1,Good morning.,nope.png,not\n")
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
