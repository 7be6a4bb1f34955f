"""MV-Debate as it is set up: seats, line-ups, tasks, policies, and settings that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.court import decide
from tests.doubles import ScriptedServer
from tests.graphs.views_script import (
    YES,
    debate,
    held,
    part,
    words,
)
from tests.tables import table
from tribunal.errors import BadInput


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
        debate([YES]),
        line_up=str(file),
        seats={"view": "openai:c"},
        temperatures={"view:deep": 0.0},
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
        with pytest.raises(
            BadInput, match="task: 'sarcasm': is a setting of the graphs mv_debate, baseline"
        ):
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
async def test_each_task_has_its_question_policy_and_labels(
    task: str, question: str, names: tuple[str, str]
) -> None:
    for side, label in (("YES", 1), ("NO", 0)):
        record, server = await held(
            debate([YES], summary={"answer": side, "explanation": "so"}), task=task
        )
        assert (record.task, record.label, record.category) == (task, label, names[label])
        assert record.hateful is (bool(label) if task == "hate" else None)
        assert record.scheme == "binary"
        system = {request.messages[0][1] for request in server.requests}
        assert len(system) == 1
        told = system.pop()
        assert words(told, question, *names) == [question, *names]
        assert ("Protected groups:" in told) == (task == "hate")
        assert ("hate speech" in told.casefold()) == (task == "hate")


async def test_a_policy_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "dry humour"\ntask = "sarcasm"\ndefinition = "Humour, dry."\nexclusions = "Wet."\n'
        'binary = [{name = "wet", meaning = "no"}, {name = "dry", meaning = "yes"}]\n'
    )
    record, server = await held(debate([YES]), task="sarcasm", policy=str(file))
    assert (record.category, record.policy["name"]) == ("dry", "dry humour")
    assert "Humour, dry." in server.requests[0].text
