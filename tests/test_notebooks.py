"""The notebooks of the docs run, offline, and keep what they show. `TRIBUNAL_UPDATE_DOCS=1` writes it anew."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT

NOTEBOOKS = sorted((PROJECT / "docs" / "notebooks").glob("*.ipynb"))
PLAY = """
import sys, nbformat
from nbclient import NotebookClient
played = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(played, timeout=120, kernel_name="python3", record_timing=False).execute()
nbformat.write(played, sys.argv[2])
"""


def played(notebook: Path, folder: Path) -> dict[str, Any]:
    """The notebook as a fresh kernel leaves it."""
    done = folder / "played.ipynb"
    own = {
        name: str(folder / name)
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")
    }
    environment = {**os.environ, **own, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", PLAY, str(notebook), str(done)]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    made: dict[str, Any] = json.loads(_timeless(done.read_text("utf-8")))
    for output in (output for cell in made["cells"] for output in cell.get("outputs", ())):
        if "text/html" in output.get("data", {}):
            # of a record: all of it on one line, the times of its calls among it
            del output["data"]["text/plain"]
    made["metadata"] = {name: made["metadata"][name] for name in ["kernelspec"]}
    return made


def _timeless(text: str) -> str:
    return re.sub(r", \d+\.\d\d s in calls", "", text)


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_shows_now(notebook: Path, tmp_path: Path) -> None:
    made = played(notebook, tmp_path)
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        notebook.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
    kept = json.loads(notebook.read_text("utf-8"))
    assert [cell.get("outputs") for cell in kept["cells"]] == [
        cell.get("outputs") for cell in made["cells"]
    ]
    shown = [output for cell in kept["cells"] for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert not any(
        output["output_type"] == "error" or output.get("name") == "stderr" for output in shown
    )
