"""A threshold on every graph: who decides states a confidence where one is set; that of a vote is the winner's share.

Without a threshold what is sent is as it was: the golden pages hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.graphs.panel_script import panel
from tests.graphs.test_dismissals_promised import threshold as written_threshold
from tests.graphs.views_script import YES, debate
from tribunal.docket.session import judge_post
from tribunal.settings.context import context_from
from tribunal.settings.graph_settings import GRAPHS

Script = Callable[[Request], Reply | Fault]
FOUND = {
    "steps": [{"claim": "It bars them from work.", "evidence": []}],
    "label": "HATE",
    "confidence": 0.8,
}


def always(**answer: Any) -> Script:
    return lambda request: Reply(answer)


# Who decides by a confidence of its own: the graph, its settings, and a script that states none.
STATED: dict[str, tuple[str, dict[str, Any], Callable[[], Script]]] = {
    "tribunal": ("tribunal", {}, lambda: court_script(explicit=True)),
    "arcade": ("arcade", {}, lambda: court_script(explicit=True)),
    "multiround": ("multiround", {"rounds": 1}, court_script),
    "predict": ("predict", {}, panel),
    "predict/base": ("predict", {"mode": "base"}, panel),
    "antihate": ("antihate", {"mode": "no-knowledge"}, lambda: always(**FOUND)),
    "mv_debate": (
        "mv_debate",
        {"rounds": 1},
        lambda: debate([YES], summary={"explanation": "so", "answer": "YES"}),
    ),
    "baseline": ("baseline", {}, lambda: always(category="Racist", explanation="so")),
    "baseline/zero-shot": (
        "baseline",
        {"mode": "zero-shot"},
        lambda: always(answer="YES", reason="so"),
    ),
}


@pytest.mark.parametrize("name", STATED)
async def test_who_decides_states_a_confidence_where_a_threshold_is_set(name: str) -> None:
    graph, settings, script = STATED[name]

    def stating(confidence: float) -> Script:
        usual = script()

        def answer(request: Request) -> Reply | Fault:
            given = usual(request)
            assert isinstance(given, Reply)
            if "confidence" not in (request.schema or {}).get("properties", {}):
                return given
            assert "- confidence: " in request.text
            assert isinstance(given.content, dict)
            return Reply({**given.content, "confidence": confidence})

        return answer

    seen = []
    limit = {"threshold": 0.9}
    runs: list[tuple[float, dict[str, Any]]] = [(0.8, limit), (0.95, limit), (0.8, {}), (95, limit)]
    for confidence, limits in runs:
        async with ScriptedServer(stating(confidence)) as server:
            record = await decide(server, graph=graph, **settings, **limits)
        assert record.outcome == "verdict", record
        seen.append((record.confidence, record.uncertain))
    unasked = 0.8 if graph == "antihate" else None  # which asks in any case
    assert seen == [(0.8, True), (0.95, False), (unasked, False), (0.95, False)]


VOTES: dict[str, tuple[str, dict[str, Any], Callable[[bool], Script]]] = {
    "self_consistency": ("self_consistency", {"draws": 4}, lambda split: _in_turn("category", split)),
    "self_consistency/zero-shot": (
        "self_consistency", {"draws": 4, "mode": "zero-shot"}, lambda split: _in_turn("answer", split),
    ),
    "symmetric_debate": ("symmetric_debate", {"rounds": 1}, lambda split: _in_turn("answer", split)),
    "predict/majority": ("predict", {"mode": "majority"}, lambda split: panel(4 if split else 5)),
}  # fmt: skip


def _in_turn(field: str, split: bool) -> Script:
    """Answers of which, if they are split, the second is another than the rest."""
    values, come = {"category": ("NotHate", "Racist"), "answer": ("NO", "YES")}[field], list[None]()

    def script(request: Request) -> Reply:
        come.append(None)
        value = values[0 if split and len(come) == 2 else 1]
        return Reply({field: value, "explanation": "so", "reason": "so"})

    return script


@pytest.mark.parametrize("name", VOTES)
async def test_the_share_of_the_winner_is_the_confidence_of_a_vote(name: str) -> None:
    graph, settings, script = VOTES[name]
    share = 0.8 if graph == "predict" else 0.75
    seen = []
    runs: list[tuple[bool, dict[str, Any]]] = [
        (True, {"threshold": 0.9}),
        (False, {"threshold": 0.9}),
        (True, {}),
    ]
    for split, limits in runs:
        async with ScriptedServer(script(split)) as server:
            record = await decide(server, graph=graph, **settings, **limits)
        assert all(
            "confidence" not in (request.schema or {})["properties"] for request in server.requests
        )
        seen.append((record.confidence, record.uncertain, record.hateful))
    assert seen == [(share, True, True), (1.0, False, True), (None, False, True)]


async def test_a_tie_and_a_single_vote_are_uncertain() -> None:
    async with ScriptedServer(_in_turn("category", True)) as server:
        tie = await decide(server, graph="self_consistency", draws=2)
        alone = await decide(server, graph="self_consistency", draws=1, threshold=0.1)
    assert (tie.tie, tie.uncertain, tie.confidence) == (True, True, None)
    assert (alone.uncertain, alone.confidence) == (True, None)


async def test_an_answer_in_words_states_none() -> None:
    async with ScriptedServer(
        lambda request: Reply("hate speech: it bars them from work")
    ) as server:
        plain = await decide(server, graph="antihate", mode="zero-shot")
        limited = await decide(server, graph="antihate", mode="zero-shot", threshold=0.1)
    assert (plain.uncertain, limited.uncertain) == (False, True)


@pytest.mark.parametrize("graph", GRAPHS)
async def test_the_rehearsal_model_is_never_sure(graph: str) -> None:
    mode = {"mode": "no-knowledge"} if graph == "antihate" else {}
    post = "Those people should not be hired, Muslims are vermin."
    record = await judge_post(post, graph=graph, context=context_from({"threshold": 0.1, **mode}))
    assert (record.outcome, record.confidence, record.uncertain) == ("verdict", None, True)


async def test_a_fitted_threshold_holds_on_a_graph_without_a_scheme(tmp_path: Path) -> None:
    """Hate is accepted from 0.5 on, and no hate from 0.9; the fit was of labels of yes or no, as this graph's are."""
    limits = {"hateful": 0.5, "harmless": 0.9}
    fit = written_threshold(
        tmp_path, "predict", shown=False, threshold=None, by_verdict=limits, scheme="binary"
    )
    seen = []
    for label in ("hate", "non-hate"):
        async with ScriptedServer(
            panel(judge={"reason": "so", "label": label, "confidence": 0.7})
        ) as server:
            record = await decide(server, graph="predict", threshold_file=fit)
        seen.append(record.uncertain)
        assert not [each for each in record.warnings if "another scheme" in each]
    assert seen == [False, True]
