"""The application that `langgraph.json` names: there without the extra `service`, too."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette

from tests import PROJECT
from tests.service.at_desk import somebody
from tribunal import plugins, trust
from tribunal.service import mounted


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make the application says for the whole process that it serves clients."""
    monkeypatch.setattr(trust, "_serving", False)


def test_its_process_serves_clients() -> None:
    assert not trust.for_clients()
    mounted.make_mounted_app()
    assert trust.for_clients()


def test_langgraph_json_names_it() -> None:
    file, _, name = json.loads((PROJECT / "langgraph.json").read_text())["http"]["app"].partition(
        ":"
    )
    assert (PROJECT / file).samefile(PROJECT / "service" / "mounted.py")
    assert isinstance(getattr(mounted, name), Starlette)


def test_without_the_extra_there_are_no_routes_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugins, "find_spec", lambda name: None)
    assert mounted.make_mounted_app().routes == []
    assert caplog.messages == [
        "the service's routes are not served: ./run --extra service tribunal --version"
    ]


async def test_the_desk_is_there_too(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", sqlite)
    app = mounted.make_mounted_app()
    async with app.router.lifespan_context(app):
        kim = somebody(app)
        assert (await kim.get("/desk/cases/case-none")).heading == "Sign in"
        assert (await kim.sign_in(named="kim")).heading == "Queue"
        assert (await kim.get("/desk/nowhere")).status == 404
        style = (await kim.get("/desk/help")).tree.xpath("//link[@rel='stylesheet']/@href")[0]
        assert (await kim.client.get(style)).status_code == 200
