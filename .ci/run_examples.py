"""Run every example on the rehearsal model and check that it ends in a verdict. Called by .ci/examples.

Not run: examples/beside_another_queue, whose programs need a web framework and a running service.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from langgraph_sdk import Auth

import tribunal

POST = "Immigrants: the weeds in our garden."
OFFLINE: dict[str, dict[str, Any]] = {"web_then_debate": {"search": "none", "max_turns": 1}}
SERVED = {"glossary", "moderator"}


def check(example: str, outcome: str) -> None:
    """Print that an example ran, or exit with its outcome if that is no verdict."""
    if outcome != "verdict":
        sys.exit(f"examples: {example}: ended in {outcome}")
    print(f"examples: {example} decides", flush=True)  # noqa: T201


def run_files(folder: Path) -> None:
    """Run each file of the folder, which holds a graph."""
    for file in sorted(folder.glob("*.py")):
        check(
            file.name,
            tribunal.judge(POST, graph=f"{file}:graph", **OFFLINE.get(file.stem, {})).outcome,
        )


def run_systems() -> None:
    """Run each graph of the installed packages."""
    names = sorted(each.name for each in entry_points(group="tribunal.graphs"))
    assert {"debate_to_detect", "llama_guard", "two_annotators"} <= {*names}  # noqa: S101
    for name in names:
        check(name, tribunal.judge(POST, graph=name, scheme="binary").outcome)


def run_project(folder: Path) -> None:
    """Run the graphs of the project, and its `auth`, which refuses a request without a key."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    assert json.loads(Path("langgraph.json").read_bytes())["graphs"].keys() == SERVED  # noqa: S101
    pipeline = importlib.import_module("graphs.glossary").graph
    check("project/glossary", asyncio.run(pipeline.ainvoke({"text": POST}))["outcome"]["outcome"])
    moderator = importlib.import_module("graphs.moderator").graph
    answer = moderator.invoke({"messages": [{"role": "user", "content": POST}]})["messages"][
        -1
    ].text
    check("project/moderator", json.loads(answer)["outcome"])
    try:
        owner = asyncio.run(importlib.import_module("auth").authenticate({}))
    except Auth.exceptions.HTTPException as refused:
        print(f"examples: project/auth refuses: {refused}", flush=True)  # noqa: T201
    else:
        sys.exit(f"examples: project/auth: let in {owner}")


if __name__ == "__main__":
    examples = Path(sys.argv[1]).resolve()
    run_files(examples)
    run_systems()
    run_project(examples / "project")
