"""MV-Debate as it is set up: seats, line-ups, tasks, policies, and settings that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.court import decide
from tests.doubles import ScriptedServer
from tests.graphs.views_script import (
    ALL,
    YES,
    debate,
    held,
    part,
    words,
)
from tests.models.honest_reasons import HONEST
from tests.tables import table
from tribunal.errors import BadInput


async def test_every_seat_can_have_a_model_of_its_own() -> None:
    seats = {f"view:{view}": f"openai:for-{view}" for view in ALL}
    seats |= {seat: f"openai:for-{seat}" for seat in ("judge", "reflection", "summary")}
    _, server = await held(debate(), rounds=1, seats=seats)
    for request in server.requests:
        name = part(request).removesuffix(" again")
        assert request.model == f"for-{'judge' if name == 'score' else name}"
    _, server = await held(debate(), rounds=1, seats={"view": "openai:all-views"}, judge_model="openai:control")
    assert {part(each): each.model for each in server.requests} == {
        **dict.fromkeys(ALL, "all-views"),
        "surface again": "all-views", "deep again": "all-views",
        "score": "control", "reflection": "control", "summary": "control",
    }  # fmt: skip


async def test_a_line_up_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(
        'views = ["deep", "context"]\n[seats]\n"view:deep" = "openai:a"\n"view:context" = "openai:b"\n'
        "[temperatures]\nview = 0.5\n"
    )
    _, server = await held(debate([YES]), line_up=str(file))
    assert {(part(each), each.model, each.temperature) for each in server.requests[:2]} == {
        ("deep", "a", 0.5), ("context", "b", 0.5),
    }  # fmt: skip
    # What is set for a run beats the file, and the file is read anew for every post.
    _, server = await held(
        debate([YES]), line_up=str(file), seats={"view": "openai:c"}, temperatures={"view:deep": 0.0}
    )
    assert {(part(each), each.model, each.temperature) for each in server.requests[:2]} == {
        ("deep", "c", 0.0), ("context", "c", 0.5),
    }  # fmt: skip
    file.write_text('views = ["surface", "deep", "contrast"]\n')
    _, server = await held(debate([YES]), line_up=str(file))
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seats = 1", "seats: 1"),
        ('[seats]\n"view:nobody" = "openai:a"', "no seat 'view:nobody'"),
        ('model = "openai:a"', "model: a line-up has none"),
        ('views = ["deep"]', "at least two"),
        ("views = ", "give a TOML file"),
        ('[seats]\njudge = "nobody:x"', "provider:model"),
    ],
)
async def test_a_wrong_line_up_costs_no_call(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    async with ScriptedServer(debate()) as server:
        with pytest.raises(BadInput, match=says):
            await decide(server, graph="mv_debate", line_up=str(file))
        assert server.requests == []


@pytest.mark.parametrize(
    ("settings", "says"),
    table(__file__, "wrong_settings_cost_no_call"),
)
async def test_wrong_settings_cost_no_call(settings: dict[str, Any], says: str) -> None:
    async with ScriptedServer(debate()) as server:
        with pytest.raises(BadInput, match=says):
            await decide(server, graph="mv_debate", **settings)
        assert server.requests == []


@pytest.mark.parametrize("graph", ["arcade", "multiround", "predict", "antihate"])
async def test_graphs_of_hate_refuse_other_tasks(graph: str) -> None:
    async with ScriptedServer(debate()) as server:
        with pytest.raises(BadInput, match="task: 'sarcasm': is a setting of the graphs mv_debate, baseline"):
            await decide(server, graph=graph, task="sarcasm")
        assert server.requests == []


@pytest.mark.parametrize(
    ("task", "question", "names"),
    [
        ("hate", "is it hate speech?", ("NotHate", "Hateful")),
        ("sarcasm", "is it sarcastic?", ("not sarcastic", "sarcastic")),
        ("misinformation", "is it misinformation?", ("not misinformation", "misinformation")),
    ],
)
async def test_each_task_has_its_question_policy_and_labels(task: str, question: str, names: tuple[str, str]) -> None:
    for side, label in (("YES", 1), ("NO", 0)):
        record, server = await held(debate([YES], summary={"answer": side, "explanation": "so"}), task=task)
        assert (record.task, record.label, record.category) == (task, label, names[label])
        assert record.hateful is (bool(label) if task == "hate" else None)
        assert record.scheme == "binary"
        system = {request.messages[0][1] for request in server.requests}
        assert len(system) == 1
        told = system.pop()
        assert words(told, question, *names) == [question, *names]
        assert ("Protected groups:" in told) == (task == "hate")
        assert ("hate speech" in told.casefold()) == (task == "hate")


async def test_everybody_is_told_what_excuses_a_post_and_in_which_language_to_reason() -> None:
    """They decide alone, so they know what in a court the defence and the judge know."""
    quotes, together = "quotes or shows hate in order to condemn", "each harmless alone may attack"
    async with ScriptedServer(debate([YES])) as server:
        for graph, mode in (("mv_debate", "full"), ("symmetric_debate", "full"), ("baseline", "zero-shot")):
            await decide(server, graph=graph, mode=mode)
    for request in server.requests:
        assert words(request.messages[0][1], quotes, together, "Reason and explain in English, ") == [
            quotes, together, "Reason and explain in English, ",
        ]  # fmt: skip
        assert "Racist" not in request.text
        assert "The post has no image." in request.text


async def test_what_is_written_is_bounded_in_the_schema_and_reasons_come_first() -> None:
    """A server with grammars holds a looping model to it; a longer answer is taken where none does."""
    long = {"reason": " ".join(HONEST), "answer": "YES"}
    record, server = await held(debate(surface=long), rounds=1)
    assert record.outcome == "verdict"
    assert not record.warnings
    schemas = {part(request): request.schema or {} for request in server.requests}
    reason = {"type": "string", "minLength": 1, "maxLength": 1200}
    assert {name: list(schema["properties"]) for name, schema in schemas.items()} == {
        **{name: ["reason", "answer"] for name in (*ALL, "surface again", "deep again")},
        "score": ["reason", "scores"],
        "reflection": ["feedback"],
        "summary": ["explanation", "answer"],
    }
    assert schemas["surface"]["properties"]["reason"] == schemas["summary"]["properties"]["explanation"] == reason
    definitions = schemas["reflection"]["$defs"]
    assert definitions["Criticism"]["properties"]["errors"]["maxLength"] == 400
    assert list(definitions["OnEach"]["properties"]) == list(ALL)
    assert schemas["score"]["$defs"]["ScoreOfEach"]["properties"]["deep"] == {
        "type": "number", "minimum": 0, "maximum": 1,
    }  # fmt: skip


async def test_a_policy_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "dry humour"\ntask = "sarcasm"\ndefinition = "Humour, dry."\nexclusions = "Wet."\n'
        'binary = [{name = "wet", meaning = "no"}, {name = "dry", meaning = "yes"}]\n'
    )
    record, server = await held(debate([YES]), task="sarcasm", policy=str(file))
    assert (record.category, record.policy["name"]) == ("dry", "dry humour")
    assert "Humour, dry." in server.requests[0].text
