"""The settings of a case are validated where it comes in, and again only if somebody edits them."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.untyped import builder, graph
from tribunal import trust
from tribunal.errors import BadInput
from tribunal.settings import context
from tribunal.settings.base import EveryGraph
from tribunal.settings.context import Context, context_of

POST = {"text": "Immigrants: the weeds in our garden."}


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The class of each validation of settings, in order."""
    names: list[str] = []
    plain = EveryGraph.__init__

    def counted(self: EveryGraph, **given: Any) -> None:
        names.append(type(self).__name__)
        plain(self, **given)

    monkeypatch.setattr(EveryGraph, "__init__", counted)
    return names


@pytest.mark.parametrize(("name", "repeat"), [("baseline", 71), ("arcade", 72)])
@pytest.mark.parametrize("as_table", [True, False])
async def test_a_case_validates_its_settings_twice_at_most(
    name: str, repeat: int, as_table: bool, validated: list[str]
) -> None:
    settings: Any = {"repeat": repeat + 10 * as_table}  # no case had these before
    done = await graph(name).ainvoke(POST, context=settings if as_table else Context(**settings))
    assert done["outcome"]["outcome"] == "verdict"
    assert 1 <= len(validated) <= 2, validated


def test_the_same_settings_are_validated_once(validated: list[str]) -> None:
    state: Any = {"context": {"settings": {"repeat": 91}, "graph": "arcade"}}
    assert all(context_of(state).repeat == 91 for _ in range(20))
    assert validated == ["ArcadeSettings"]
    state["context"]["settings"] = {"repeat": 92}
    assert context_of(state).repeat == 92
    assert len(validated) == 2


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"rounds": 99}, "context.settings: rounds: 99"),
        (
            {"tau": 0.2},
            "tau: 0.2: is a setting of the graph mv_debate, and arcade has no use for it",
        ),
        (
            {"draw_temperature": 0.2},
            "draw_temperature: 0.2: arcade has no use for it here: the judge is drawn once",
        ),
        ({"cache": "a.sqlite"}, "cache: 'a.sqlite': a client of this server may not set this"),
    ],
)
async def test_an_edited_state_is_validated_again(
    edit: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_serving", True)
    monkeypatch.delenv(trust.ALLOW, raising=False)
    compiled = builder("arcade").compile(checkpointer=InMemorySaver())
    run: Any = {"configurable": {"thread_id": "1"}}
    await compiled.ainvoke(POST, run, context={"repeat": 93}, interrupt_before=["judge"])
    held = (await compiled.aget_state(run)).values["context"]
    await compiled.aupdate_state(
        run, {"context": {**held, "settings": {**held["settings"], **edit}}}
    )
    with pytest.raises(BadInput) as refused:
        await compiled.ainvoke(None, run)
    assert says in str(refused.value)


def test_what_a_client_may_set_is_checked_though_an_operator_set_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state: Any = {"context": {"settings": {"cache": "a.sqlite"}, "graph": "arcade"}}
    monkeypatch.setattr(trust, "_serving", False)
    assert context.context_of(state).cache == "a.sqlite"
    monkeypatch.setattr(trust, "_serving", True)
    monkeypatch.delenv(trust.ALLOW, raising=False)
    with pytest.raises(BadInput, match="may not set this"):
        context_of(state)
    monkeypatch.setenv(trust.ALLOW, "cache=a.*")
    assert context_of(state).cache == "a.sqlite"
