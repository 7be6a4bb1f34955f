"""The clauses of a policy: who is told them, who cites them, and what becomes of one that the policy doesn't have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tribunal
from tests.court import court_script, decide
from tests.doubles import Reply, Request, ScriptedServer
from tests.graphs.hybrid import part
from tests.prompts.test_policy import NUMBERED
from tribunal.docket.session import submit_review
from tribunal.errors import BadInput
from tribunal.explanations.view_maker import view_case
from tribunal.prompts.policy import load_policy
from tribunal.schema import Record
from tribunal.testing import ScriptedModel

ARGUING = ("indictment", "investigation", "prosecution", "defence", "judge")


def citing(clause: str, clauses: Any, **court: Any) -> Any:
    """A court whose prosecution cites a clause in each cue, and whose judge cites some."""
    script = court_script(**court)

    def answer(request: Request) -> Reply:
        given = script(request)
        assert isinstance(given, Reply)
        said = json.loads(given.text)
        if part(request) in ("indictment", "investigation"):
            for cue in said["cues"]:
                cue["clause"] = clause
        if part(request) == "judge":
            said |= {"clauses": clauses, "confidence": 0.9}
        return Reply(json.dumps(said))

    return answer


async def tried(
    clause: str = "1.1", clauses: Any = ("1.1",), **settings: Any
) -> tuple[Record, list[Request]]:
    async with ScriptedServer(citing(clause, clauses, explicit=True)) as server:
        record = await decide(
            server, "post-words", **{"graph": "tribunal", "policy_clauses": True, **settings}
        )
    return record, server.requests


async def test_a_court_cites_clauses_and_says_so() -> None:
    record, requests = await tried()
    assert [cue.clause for cue in record.cues] == ["1.1"] * len(record.cues)
    assert record.clauses == ("1.1",)
    assert record.outcome == "verdict"
    for request in requests:
        shown = "The clauses of the policy" in request.text
        assert shown == (part(request) in ARGUING), part(request)
    # It accuses without the exceptions; they are the policy's own here, which only the others are told.
    judge = next(each for each in requests if part(each) == "judge")
    assert judge.schema is not None
    assert judge.schema["properties"]["clauses"]["items"]["enum"] == [
        "1.1",
        "1.2",
        "1.3",
        "1.4",
        "1.5",
    ]
    assert "clause: 1.1" in judge.text
    assert ", clause 1.1" in view_case(record).first


@pytest.mark.parametrize("graph", ["arcade", "baseline", "tribunal"])
async def test_nobody_is_told_of_the_clauses_of_the_policy_that_comes_with_the_task(
    graph: str,
) -> None:
    record, requests = await tried(graph=graph, policy_clauses=None)
    assert record.clauses == ()
    assert "clauses" not in record.dump()
    assert not any("clause" in each.dump() for each in record.cues)
    assert not any("clause" in json.dumps(each.body) for each in requests)


async def test_a_policy_that_is_named_has_its_clauses_cited_by_every_court(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(NUMBERED, "utf-8")
    _, requests = await tried(
        "2.1", ["2.1"], graph="baseline", policy=str(tmp_path / "own.toml"), policy_clauses=None
    )
    assert (
        "- 2.1 (Rude): Nobody attacks gardeners. Exceptions: A quarrel over a hedge."
        in requests[0].text
    )
    _, requests = await tried(
        "2.1", ["2.1"], graph="arcade", policy=str(tmp_path / "own.toml"), policy_clauses=False
    )
    assert not any("Nobody attacks gardeners" in each.text for each in requests)


async def test_a_clause_that_the_policy_does_not_have_is_struck_out_with_a_warning() -> None:
    record, _ = await tried("9.9", ["[1.2]", "7", "clause 1.1", "1.2"])
    assert record.clauses == ("1.2", "1.1")
    assert [cue.clause for cue in record.cues] == [""] * len(record.cues)
    assert "the judge cited 7, which is no clause; that was struck out" in record.warnings
    assert (
        "the prosecutor cited 9.9 for C1, which is no clause; that was struck out"
        in record.warnings
    )


@pytest.mark.parametrize("given", ["1.1", 1.1, None, []])
async def test_one_clause_or_none_is_taken_for_a_list(given: Any) -> None:
    record, _ = await tried("1.1", given)
    assert record.clauses == (("1.1",) if given else ())


async def test_who_accuses_is_not_told_the_exceptions_of_a_clause(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(NUMBERED, "utf-8")
    settings = {"policy": str(tmp_path / "own.toml"), "graph": "arcade", "policy_clauses": None}
    _, requests = await tried("2.1", ["2.1"], **settings)
    for request in requests:
        if part(request) in ARGUING:
            assert ("A quarrel over a hedge." in request.text) == (
                part(request) in ("defence", "judge")
            )


@pytest.mark.parametrize("answer", [
    {"type": "accept", "clauses": ["1.2"]},
    {"type": "edit", "clauses": ["1.2"], "args": {"action": "decide", "args": {"category": "Sexist"}}},
    {"type": "edit", "args": {"action": "decide", "args": {"category": "Sexist", "clauses": "1.2"}}},
])  # fmt: skip
async def test_a_person_names_clauses(answer: Any) -> None:
    record, _ = await tried(review=True, review_rule=["all"])
    assert record.outcome == "pending"
    with pytest.raises(
        BadInput, match=r"clauses: '9': is none of the policy h-vli; they are 1.1, 1.2"
    ):
        await submit_review(str(record.thread), {**answer, "clauses": ["9"]})
    done = await submit_review(str(record.thread), answer)
    assert done.clauses == ("1.2",)
    assert done.review is not None
    assert done.review.clauses == ("1.2",)
    assert done.review.court["clauses"] == ["1.1"]
    view = view_case(done, policy_text=load_policy("h-vli").source)
    assert view.decided[-1].how.endswith(", clause 1.2")
    assert view.applied is not None
    assert [each.id for each in view.applied.clauses] == ["1.2"]
    assert "condemn" in view.applied.clauses[0].exceptions


@pytest.mark.parametrize(
    ("graph", "more"),
    [
        ("mv_debate", {}),
        ("symmetric_debate", {"agents": 3, "rounds": 1}),
        ("predict", {}),
        ("predict", {"mode": "base"}),
        ("antihate", {"mode": "no-knowledge"}),
        ("baseline", {"mode": "zero-shot"}),
    ],
    ids=str,
)
def test_who_decides_by_two_labels_cites_clauses_too(
    scripted_model: ScriptedModel, graph: str, more: dict[str, Any]
) -> None:
    """Whoever is asked for clauses cites one that is there and one that isn't."""
    answer = scripted_model.script

    def cite(request: Request) -> Any:
        if "clauses" not in (request.schema or {}).get("properties", {}):
            return answer(request)
        said = answer(request)
        assert isinstance(said, Reply)
        given = json.loads(said.text)
        return Reply(json.dumps({**given, "clauses": ["1.1", "9.9"]}))

    scripted_model.script = cite
    record = tribunal.judge("post-words", graph=graph, policy_clauses=True, **more)
    assert record.outcome == "verdict"
    assert record.clauses == ("1.1",)
    assert any("9.9, which is no clause; that was struck out" in each for each in record.warnings)
    asked = [each for each in scripted_model.requests if "The clauses of the policy" in each.text]
    assert len(asked) == more.get("agents", 1), "only who decides is told them"

    scripted_model.reset()
    record = tribunal.judge("post-words", graph=graph, **more)
    assert record.clauses == ()
    assert not any("clause" in json.dumps(each.body) for each in scripted_model.requests)
