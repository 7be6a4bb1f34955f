"""The examples of docs/composing.md, run one after the other in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT

_BLOCK = re.compile(r'^```(python title="(?P<file>[\w/.]+)"|sh)\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_every_example_runs(tmp_path: Path) -> None:
    """A file is written where its title says, and commands are run as they stand.

    The rooms of this repository lie on the path here, and not where the wheel is installed: the example's come first.
    """
    page = (PROJECT / "docs" / "composing.md").read_text("utf-8")
    found = list(_BLOCK.finditer(page))
    assert len(found) == page.count("\n```") / 2  # every block of the page is one of these
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    for block in found:
        if block["file"]:
            (tmp_path / block["file"]).parent.mkdir(exist_ok=True)
            (tmp_path / block["file"]).with_name("__init__.py").touch()
            (tmp_path / block["file"]).write_text(block["text"], "utf-8")
            continue
        command = ["sh", "-ec", block["text"]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{block['text']}\n{done.stdout}\n{done.stderr}"
