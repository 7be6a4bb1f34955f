"""What docs/systems_of_your_own.md shows of the example stands in its files, and its commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT

PAGE, EXAMPLE = PROJECT / "docs" / "systems_of_your_own.md", PROJECT / "examples" / "system"
_BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<file>[\w/.-]+)")?\n(?P<text>.*?)^```',
    re.MULTILINE | re.DOTALL,
)
_BLOCKS = list(_BLOCK.finditer(PAGE.read_text("utf-8")))


def test_each_excerpt_stands_in_the_example() -> None:
    shown = [block for block in _BLOCKS if block["file"]]
    assert len(shown) >= 10
    for block in shown:
        assert block["text"] in (EXAMPLE / block["file"]).read_text("utf-8"), block["file"]


@pytest.mark.long
def test_the_commands_run(tmp_path: Path) -> None:
    """As where the package is installed: its folder and what is known of it lie on the path."""
    about = tmp_path / "packages" / "two_annotators-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: two-annotators\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(
        "[tribunal.graphs]\ntwo_annotators = two_annotators.court:graph\n"
    )
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{about.parent}{os.pathsep}{EXAMPLE}",
    }
    [commands] = [block["text"] for block in _BLOCKS if block["kind"] == "sh"]
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").is_file()
    assert "Two annotators, Table 1" in done.stdout
