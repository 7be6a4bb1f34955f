"""Calls that a graph makes past `ask` are counted, said, and keep a run off the front of cost and accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tribunal
from tests.own_pipelines import JUDGE, RIGHT, post_saying, write_pipeline
from tests.result_lines import line, write_run
from tribunal.commands import app

# It asks a model in each of the ways that there are: later and at once, with callbacks of its own, as text, as a batch.
ASKING = JUDGE.replace(
    '    return json.loads(state["post"]["text"])',
    """    chat, plain = FakeListChatModel(responses=["words"]), FakeListLLM(responses=["words"])
    await chat.ainvoke("one")
    chat.invoke("two")
    await chat.ainvoke("three", {"callbacks": []})
    await plain.ainvoke("four")
    await chat.abatch(["five", "six"])
    return json.loads(state["post"]["text"])""",
).replace(
    "import json\n",
    "import json\n\nfrom langchain_core.language_models.fake import FakeListLLM\n"
    "from langchain_core.language_models.fake_chat_models import FakeListChatModel\n",
    1,
)
SAYS = "the graph made 6 calls to models by itself, past `ask`: no cost, budget or list of calls has them"


async def test_a_graph_that_asks_by_itself_says_how_often(tmp_path: Path) -> None:
    record = await tribunal.ajudge(post_saying(RIGHT), graph=write_pipeline(tmp_path, ASKING))
    assert (record.outcome, record.unseen_calls, record.usage.calls) == ("verdict", 6, 0)
    assert SAYS in record.warnings


async def test_calls_of_ours_are_seen_by_whoever_listens(tmp_path: Path) -> None:
    record = await tribunal.ajudge("Immigrants: the weeds in our garden.", graph="arcade")
    assert record.usage.calls > 3
    assert record.unseen_calls == 0
    assert not any("past `ask`" in each for each in record.warnings)


def test_the_command_and_a_run_say_so(tmp_path: Path) -> None:
    graph = write_pipeline(tmp_path, ASKING)
    done = CliRunner().invoke(app, ["judge", post_saying(RIGHT), "--graph", graph])
    assert SAYS in " ".join(done.output.split())
    (tmp_path / "posts.jsonl").write_text(
        "".join(
            json.dumps({"id": f"p{n}", "text": post_saying(RIGHT), "label": 1}) + "\n"
            for n in range(2)
        )
    )
    run: list[str] = [
        "eval",
        "--dataset",
        "table",
        "--data",
        str(tmp_path / "posts.jsonl"),
        "--graph",
        graph,
    ]
    done = CliRunner().invoke(app, [*run, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "12 calls not seen" in done.output
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    metrics: dict[str, Any] = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["cost"]["unseen_calls"]["total"] == 12
    page = " ".join((tmp_path / "run" / "report.md").read_text("utf-8").split())
    assert "made 12 calls to models by itself" in page
    assert "0 (12 calls not seen)" in page


@pytest.mark.long
def test_such_a_run_is_not_on_the_front_and_beats_no_other(tmp_path: Path) -> None:
    def answers(right: int, **more: Any) -> list[Any]:
        return [line(f"p{n}", n % 2, n % 2 if n < right else 1 - n % 2, **more) for n in range(10)]

    usage = {"calls": 1, "prompt_tokens": 400}
    seen = write_run(tmp_path / "seen", answers(8, usage=usage))
    past = write_run(tmp_path / "past", answers(9, unseen_calls=3))
    done = CliRunner().invoke(
        app, ["report", str(seen), str(past), "--out", str(tmp_path / "report")]
    )
    assert done.exit_code == 0, done.output
    rows = (tmp_path / "report" / "report.md").read_text("utf-8").splitlines()
    assert next(row for row in rows if row.startswith("| 1 | seen |")).endswith("| yes | 2 |")
    assert next(row for row in rows if row.startswith("| 2 | past |")).endswith(
        "| no: 30 calls not seen | 1 |"
    )
