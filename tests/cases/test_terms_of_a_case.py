"""A case keeps what it began with: files that are edited, moved or deleted since change nothing for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tribunal.commands import app
from tribunal.nodes.threshold import Threshold
from tribunal.testing import ScriptedModel

POST = "the words of the post"
# A confidence between the threshold that the case began with and the one that the file holds later.
JUDGED = {
    "category": "Rude",
    "explanation": "because",
    "confidence": 0.5,
    "reasoning": "so",
    "cue": None,
}
CUE: dict[str, Any] = {
    "target_group": "old people", "claim": "claim-words", "justification": "first-why", "type": "Metaphor",
    "characteristic": "age", "category": "Rude", "clause": "1.5",
}  # fmt: skip
FITTED = Threshold(
    threshold=0.2, agreement=0.9, level=0.9, coverage=0.5, agreement_held_out=0.9, n_fit=9, n_held_out=9, seed=0,
    graph="tribunal", scheme="fine", models={}, policy=None, fitted_from="run", at="2026-11-22",
)  # fmt: skip


class Terms:
    """A policy, a folder of prompts, a line-up and a threshold, each a file that a case names."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        ours = files("tribunal.prompts")
        self.policy = folder / "house.toml"
        shipped = (ours / "policies" / "h-vli.toml").read_text("utf-8")
        self.policy.write_text(
            shipped.replace('name = "h-vli"', 'name = "house"').replace("OtherHate", "Rude")
        )
        self.prompts = folder / "prompts"
        (self.prompts / "arcade").mkdir(parents=True)
        self.prompt = self.prompts / "arcade" / "judge.md"
        self.prompt.write_text(
            (ours / "arcade" / "judge.md").read_text("utf-8") + "\n\nWe say BEFORE.\n"
        )
        self.line_up = folder / "seats.toml"
        self.line_up.write_text('[seats]\njudge = "openai:judge-before"\n')
        self.threshold = folder / "threshold.json"
        self.threshold.write_text(FITTED.model_dump_json())

    @property
    def options(self) -> list[str]:
        named = {"policy": self.policy, "prompts": self.prompts, "threshold": self.threshold}
        options = [part for name, path in named.items() for part in (f"--{name}", str(path))]
        return [*options, "--set", f"line_up={self.line_up}"]

    def edit(self) -> None:
        self.policy.write_text(self.policy.read_text().replace("Rude", "Impolite"))
        self.prompt.write_text(self.prompt.read_text().replace("BEFORE", "AFTER"))
        self.line_up.write_text('[seats]\njudge = "openai:judge-after"\n')
        self.threshold.write_text(FITTED.model_copy(update={"threshold": 0.9}).model_dump_json())

    def move(self) -> None:
        away = self.folder / "away"
        away.mkdir()
        for path in (self.policy, self.prompts, self.line_up, self.threshold):
            path.rename(away / path.name)

    def delete(self) -> None:
        shutil.rmtree(self.prompts)
        for path in (self.policy, self.line_up, self.threshold):
            path.unlink()


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("spoil", [Terms.edit, Terms.move, Terms.delete])
def test_a_waiting_case_is_decided_by_what_it_began_with(
    spoil: Callable[[Terms], None], tmp_path: Path, scripted_model: ScriptedModel
) -> None:
    scripted_model.answer("arcade/judge", JUDGED)
    scripted_model.answer("arcade/indictment", {"cues": [{**CUE, "type": "Direct"}]})
    terms = Terms(tmp_path)
    waiting = [
        run("judge", POST, "--review", "--set", "review_rule=all", *terms.options, code=5)["thread"]
        for _ in range(3)
    ]
    before = run("review", "show", waiting[0])
    assert before["review"]["court"]["category"] == "Rude"
    asked = len(scripted_model.requests)
    spoil(terms)

    changed = run("review", "decide", waiting[0], "--category", "Rude", "--reviewer", "kim")
    accepted = run("review", "decide", waiting[1], "--accept", "--reviewer", "kim")
    for record in (changed, accepted):
        assert (record["outcome"], record["category"], record["policy"]) == (
            "verdict",
            "Rude",
            before["policy"],
        )
    unknown = CliRunner().invoke(app, ["review", "decide", waiting[2], "--category", "Impolite"])
    assert "Impolite" in unknown.stderr
    assert unknown.exit_code == 2
    assert len(scripted_model.requests) == asked, "to decide asks no model"

    again = run(
        "review", "decide", waiting[2], "--ask", "Is it a quotation?", "--reviewer", "kim", code=5
    )
    judged = scripted_model.told("arcade/judge")
    assert len(judged) == 4
    assert "Is it a quotation?" in judged[-1]
    assert "We say BEFORE." in judged[-1]
    assert "Rude" in judged[-1]
    assert [request.body["model"] for request in scripted_model.requests].count("judge-before") == 4
    assert not [warning for warning in again["warnings"] if "changed" in warning]
    assert (again["prompts"], again["protocol"]) == (before["prompts"], before["protocol"])
    assert not again["uncertain"], "0.5 is above the threshold that the case began with"
    decided = run("review", "decide", waiting[2], "--category", "Rude", "--reviewer", "kim")
    assert decided["policy"]["sha"] == before["policy"]["sha"]

    for thread in waiting:  # once decided, a case still shows the post and what it was decided by
        assert POST in CliRunner().invoke(app, ["review", "show", thread]).stdout
        kept = run("cases", "show", thread)
        assert (kept["reviewer"], kept["post"]["text"]) == ("kim", POST)
        texts = {
            kind: CliRunner().invoke(app, ["cases", "show", kept[f"{kind}_sha"], "--text"]).stdout
            for kind in ("policy", "prompts", "protocol")
        }
        assert '"Rude"' in texts["policy"]
        assert "Impolite" not in texts["policy"]
        assert "We say BEFORE." in json.loads(texts["prompts"])["arcade/judge"]
        assert "judge-before" in json.loads(texts["protocol"])["line_up"]
        assert json.loads(json.loads(texts["protocol"])["threshold_file"])["threshold"] == 0.2
