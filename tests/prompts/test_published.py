"""Published prompts from the user's own clone: models are shown them, and answers in their form are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.court import decide
from tests.doubles import Reply, Request, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.prompts.published_clones import write_court, write_debate
from tribunal.commands import app

CUE = {
    "id": "cue-a", "cue_type": "Metaphor", "target_group": "Muslims", "claim": "the claim", "hate_type": 4,
    "justification": "the claim is aimed at them",
}  # fmt: skip
COURT: dict[str, Any] = {
    "PROSECUTOR_DIRECT_PROMPT": [],
    "PROSECUTOR_PROMPT": [CUE],
    "PROSECUTOR_INDIRECT_PROMPT": [CUE],
    "DEFENDER_PROMPT": [{"id": "C1", "evidence": "seen", "rebuttal": "rebutted"}],
    "DEFENDER_INDIRECT_PROMPT": [{"id": "C1", "evidence": "seen", "rebuttal": "rebutted"}],
    "PROSECUTOR_ROUND_2_PROMPT": [{"id": "C1", "counter_argument": "countered"}],
    "DEFENSE_ROUND_2_PROMPT": [{"id": "C1", "rebuttal": "rebutted again"}],
    "JUDGE_PROMPT": {"label": 4, "label_str": "Religion", "reason": "fast verdict"},
    "JUDGE_PROMPT_INDIRECT": {"label": 4, "label_str": "Religion", "reason": "deep verdict"},
    "SAFETY_PROMPT": {"label": 0},
}


def ran(*arguments: str | Path, ends: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == ends, result.output
    return result.stdout if ends == 0 else " ".join(result.output.split())


def asked_with(request: Request) -> str:
    """Which of the clone's texts a request holds; it holds the definition that the text names, too."""
    assert "Clone's definition." in request.text
    assert "{% braces %}" in request.text
    return request.text.partition("Clone, ")[2].partition(".")[0]


@pytest.mark.parametrize(("scheme", "category"), [("fine", "Religious"), ("binary", "Hateful")])
def test_arcade_is_tried_by_the_prompts_of_a_clone(
    scheme: str, category: str, tmp_path: Path
) -> None:
    clone, folder = write_court(tmp_path / "clone"), tmp_path / "theirs"
    said = ran("prompts", "import", "h-vli", clone, folder, "--scheme", scheme)
    assert f"9 prompts lie in {folder}" in said
    assert "arcade/judge" in ran("prompts", "check", folder)
    labels = {
        name: {**COURT[name], "label": 1} for name in ("JUDGE_PROMPT", "JUDGE_PROMPT_INDIRECT")
    }
    answers = {**COURT, **(labels if scheme == "binary" else {})}

    def answer(request: Request) -> Reply:
        said = json.dumps(answers[asked_with(request)])
        return Reply(said if said == "[]" else f"```json\n{said}\n```")  # as models give it

    with OpenAIServer(answer) as server:
        judge = (
            "judge",
            "a post",
            "--graph",
            "arcade",
            "--prompts",
            folder,
            "--model",
            "openai:scripted",
            "--json",
        )
        record = json.loads(ran(*judge, "--scheme", scheme))
    assert (record["category"], record["explanation"]) == (category, "deep verdict")
    assert [asked_with(request) for request in server.requests] == [
        "PROSECUTOR_DIRECT_PROMPT", "PROSECUTOR_INDIRECT_PROMPT", "DEFENDER_INDIRECT_PROMPT",
        "PROSECUTOR_ROUND_2_PROMPT", "DEFENSE_ROUND_2_PROMPT", "PROSECUTOR_ROUND_2_PROMPT", "DEFENSE_ROUND_2_PROMPT",
        "JUDGE_PROMPT_INDIRECT",
    ]  # fmt: skip
    # Their form stands in their words: no schema of ours is sent beside it, and no list of our fields.
    assert all("response_format" not in request.body for request in server.requests)
    assert all("Answer with one JSON object" not in request.text for request in server.requests)
    assert "refutes: seen rebutted" in " ".join(server.requests[3].text.split())
    cue = record["cues"][0]
    assert (cue["id"], cue["type"], cue["category"], cue["characteristic"]) == (
        "C1",
        "Metaphor",
        "Religious",
        "",
    )
    assert record["transcript"][-1]["arguments"][0]["argument"] == "rebutted again"
    assert record["prompts"]["name"] == "theirs"


async def test_the_fast_track_and_the_baseline_too(tmp_path: Path) -> None:
    clone, folder = write_court(tmp_path / "clone"), tmp_path / "theirs"
    ran("prompts", "import", "h-vli", clone, folder, "--scheme", "binary")
    explicit = {**COURT, "PROSECUTOR_DIRECT_PROMPT": [{**CUE, "cue_type": "Direct"}]}
    explicit["JUDGE_PROMPT"] = {"label": 1, "reason": "fast verdict"}

    def answer(request: Request) -> Reply:
        return Reply(json.dumps(explicit[asked_with(request)]))

    async with ScriptedServer(answer) as server:
        fast = await decide(server, prompts=str(folder), scheme="binary")
        baseline = await decide(server, graph="baseline", prompts=str(folder), scheme="binary")
    assert (fast.category, fast.explanation, fast.track) == (
        "Hateful",
        "fast verdict",
        "fast_track",
    )
    assert baseline.category == "NotHate"
    # An empty indictment is taken, as in the published code: the defence and the judge are still asked.
    explicit["PROSECUTOR_PROMPT"] = []
    async with ScriptedServer(answer) as server:
        none = await decide(server, prompts=str(folder), scheme="binary")
    assert (none.outcome, none.cues, len(none.calls)) == ("verdict", (), 4)


async def test_predict_debates_by_the_prompts_of_a_clone(tmp_path: Path) -> None:
    clone, folder = write_debate(tmp_path / "clone"), tmp_path / "theirs"
    ran("prompts", "import", "predict", clone, folder)

    def answer(request: Request) -> Reply:
        if "judge 1" in request.text:
            return Reply({"Label": "Hate", "Reason": "judged"})
        if "Clone" not in request.text:
            assert request.schema is not None
            return Reply(
                {"reason": "annotated", "label": request.schema["properties"]["label"]["enum"][0]}
            )
        return Reply(
            "hate side answers"
            if "hate 2" in request.text and "non-hate 2" not in request.text
            else "words"
        )

    async with ScriptedServer(answer) as server:
        record = await decide(
            server, "my post", graph="predict", prompts=str(folder), perspectives=["example-harm"]
        )
    assert (record.category, record.explanation) == ("Hateful", "judged")
    assert [(turn.text, turn.stance) for turn in record.transcript][-1] == (
        "hate side answers",
        None,
    )
    said = server.requests[-2].text
    first = [
        said.index(words)
        for words in ("hate side. Is '(the post)'", "hate 1. Against", "Clone, hate said:")
    ]
    assert first == sorted(first)
    assert "annotated" in said  # its memory holds its reference
    assert "my post" in said
    assert all(
        "response_format" not in each.body for each in server.requests if "Clone" in each.text
    )


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("court_prompts.py", None, "court_prompts.py: No such file or directory; give the folder of the clone"),
        ("court_prompts.py", "x = (", "is no Python that can be parsed; this isn't the layout that is known"),
        ("court_prompts.py", "SAFETY_PROMPT = make()", "PROSECUTOR_DIRECT_PROMPT was sought, a text at the top"),
        ("court_prompts.py", ('"label": <0-5>, "reason"', '"verdict": 0, "reason"'), 'the field "label" of the answer'),
        ("debate_prompt.json", None, "debate_prompt.json was sought, and stands there 0 times"),
        ("debate_prompt.json", "{", "is no JSON"),
        ("debate_prompt.json", ("judge_prompt_2", "judge"), "the text judge_prompt_2 was sought"),
        ("debate_prompt.json", ("##history##", "##past##"), "judge_prompt_1: ##history## was sought in it"),
        ("debate_prompt.json", ("##text##", "##text## ##more##"), "##more## isn't known"),
        ("debate_prompt.json", ('\\"Label\\"', '\\"Verdict\\"'), 'judge_prompt_2: the field "label" of the answer'),
    ],
)  # fmt: skip
def test_another_layout_is_named_and_nothing_is_written(
    file: str, text: str | tuple[str, str] | None, says: str, tmp_path: Path
) -> None:
    source = "h-vli" if file.endswith(".py") else "predict"
    clone = (
        write_court(tmp_path / "clone") if source == "h-vli" else write_debate(tmp_path / "clone")
    )
    path = next(clone.rglob(file))
    if text is None:
        path.unlink()
    else:
        path.write_text(
            path.read_text("utf-8").replace(*text) if isinstance(text, tuple) else text, "utf-8"
        )
    told = ran("prompts", "import", source, clone, tmp_path / "theirs", ends=2)
    assert says in told
    assert not (tmp_path / "theirs").exists()


def test_a_source_that_there_is_none_of_and_a_folder_that_is_there(tmp_path: Path) -> None:
    assert "import: 'hvli': no such repository is known; did you mean h-vli" in ran(
        "prompts", "import", "hvli", tmp_path, ends=2
    )
    clone = write_court(tmp_path / "clone")
    assert "clone: is there already" in ran("prompts", "import", "h-vli", clone, clone, ends=2)
