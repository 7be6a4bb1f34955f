"""docs/one_post.md follows a post by the code itself: each excerpt is the source. `TRIBUNAL_UPDATE_DOCS=1` rewrites."""

from __future__ import annotations

import ast
import os
import re

from tests import PROJECT

PAGE = PROJECT / "docs" / "one_post.md"
EXCERPT = re.compile(
    r"<!-- excerpt: (\S+?)(?:::(\S+))? -->\n(?:\n```python\n.*?\n```\n)?", re.DOTALL
)


def source_of(path: str, name: str | None) -> str:
    """Return a definition of a file with its decorators, or the whole file."""
    text = (PROJECT / path).read_text("utf-8")
    if name is None:
        return text.strip()
    for node in ast.parse(text).body:
        names = [
            target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)
        ]
        if name in (getattr(node, "name", None), *names):
            first = min(
                [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]
            )
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise AssertionError(f"{path}: no {name}")


def test_each_excerpt_is_the_source() -> None:
    page = PAGE.read_text("utf-8")
    assert len(EXCERPT.findall(page)) >= 5

    def excerpt(found: re.Match[str]) -> str:
        mark = found[0].splitlines()[0]
        return f"{mark}\n\n```python\n{source_of(found[1], found[2])}\n```\n"

    fresh = EXCERPT.sub(excerpt, page)
    if os.environ.get("TRIBUNAL_UPDATE_DOCS"):
        PAGE.write_text(fresh, "utf-8")
    assert PAGE.read_text("utf-8") == fresh, "run this test with TRIBUNAL_UPDATE_DOCS=1"


def test_each_file_and_folder_that_it_names_is_there() -> None:
    words = re.sub(r"```.*?```", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    places = re.findall(r"`((?:graphs|nodes|prompts|tribunal|tests)/[\w/.]*)`", words)
    assert len(places) >= 8
    assert [each for each in places if not (PROJECT / each).exists()] == []
