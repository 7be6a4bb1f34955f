"""What the README repeats of the code is what the code does. `TRIBUNAL_UPDATE_DOCS=1` rewrites it."""

from __future__ import annotations

import os
import re

from typer.testing import CliRunner

from tests import PROJECT
from tribunal.graphs import GRAPHS
from tribunal.graphs.drawing import mermaid

README = PROJECT / "README.md"
POST = "Immigrants: the weeds in our garden."


def holds(name: str, content: str) -> None:
    """Assert that a marked part of the README is this, or make it so."""
    marked = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    text = README.read_text("utf-8")
    assert marked.search(text)
    fresh = marked.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        README.write_text(fresh, "utf-8")
    assert README.read_text("utf-8") == fresh


def test_the_graph_is_the_one_that_the_code_draws() -> None:
    holds("graph", f"```mermaid\n{mermaid('tribunal').strip()}\n```")


def test_the_transcript_is_a_real_one() -> None:
    from tribunal.commands import app

    shown = CliRunner().invoke(app, ["judge", POST], env={"COLUMNS": "100"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert f'tribunal judge "{POST}"' in README.read_text("utf-8")
    holds("transcript", "```text\n" + re.sub(r", \d+\.\d\d s in calls", "", "\n".join(lines)) + "\n```")


def test_every_graph_is_named() -> None:
    text = README.read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in GRAPHS)
