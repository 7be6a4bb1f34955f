"""The application that `langgraph.json` names: there without the extra `service`, too."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest
from starlette.applications import Starlette

from tests import PROJECT
from tribunal.service import mounted


def test_langgraph_json_names_it() -> None:
    file, _, name = json.loads((PROJECT / "langgraph.json").read_text())["http"]["app"].partition(":")
    assert (PROJECT / file).samefile(PROJECT / "service" / "mounted.py")
    assert isinstance(getattr(mounted, name), Starlette)


def test_without_the_extra_there_are_no_routes_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "sqlalchemy" else found(name, package)

    monkeypatch.setattr(mounted, "find_spec", without)
    assert mounted.mounted().routes == []
    assert caplog.messages == ["the service's routes are not served: pip install 'tribunal[service]'"]
