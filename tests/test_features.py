"""What the docs promise is held by tests: tests/features.toml names, for each page, its promises and their tests."""

from __future__ import annotations

import ast
import tomllib
from functools import cache

import pytest

from tests import PROJECT

FEATURES = tomllib.loads((PROJECT / "tests" / "features.toml").read_text("utf-8"))["feature"]
PAGES = sorted({feature["page"] for feature in FEATURES})


@cache
def names_of_tests(path: str) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((PROJECT / path).read_text("utf-8"))
    return {
        each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_of_a_page_names_tests_that_exist(page: str) -> None:
    assert (PROJECT / page).is_file()
    named = [
        test.split("::")
        for feature in FEATURES
        if feature["page"] == page
        for test in feature["tests"]
    ]
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (PROJECT / path).is_file()
        or name not in names_of_tests(path)
        or not name.startswith("test_")
    ]
    assert missing == []


def test_every_page_has_a_promise() -> None:
    docs = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "docs").rglob("*.md")}
    assert docs - {"docs/changelog.md"} | {"README.md"} == set(PAGES)


def test_nothing_is_promised_twice() -> None:
    promises = [(feature["page"], feature["says"]) for feature in FEATURES]
    assert len(promises) == len(set(promises))
