"""What servers call their models, and the fingerprints of their configurations, as a run keeps and says them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.test_run_faults import evaluation, held, lines, run
from tests.doubles import Reply, Request, ScriptedServer


async def test_a_server_that_changes_under_a_run_is_on_record_and_said_in_report_and_card(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        named = {"model": "scripted-2026-11", "system_fingerprint": f"fp_{request.index // 4}"}
        return Reply({"category": "NotHate", "explanation": "words"}, extra=named)

    command = evaluation(tmp_path, 6)
    async with ScriptedServer(script) as server:
        assert (await run(server, *command)).exit_code == 0
        labels = ["scripted-2026-11 (fp_0)"] * 4 + ["scripted-2026-11 (fp_1)"] * 2
        assert [line["calls"][0]["served"] for line in lines(tmp_path)] == labels
        served = {"openai:scripted": {"scripted-2026-11 (fp_0)": 4, "scripted-2026-11 (fp_1)": 2}}
        assert held(tmp_path, "run.json")["served"] == served
        folder = tmp_path / "run"
        assert (await run(server, "report", str(folder))).exit_code == 0
        assert (await run(server, "seal", str(folder))).exit_code == 0
    told = "Conditions changed in this run: servers answered under more than one name or fingerprint: openai:scripted"
    for name in ("report.md", "report.html", "model-card.md"):
        said = (folder / name).read_text("utf-8")
        assert told in said, name
        assert "4 scripted-2026-11 (fp_0), 2 scripted-2026-11 (fp_1)" in said, name
    assert json.loads((folder / "seal.json").read_bytes())["files"].keys() >= {"model-card.md", "data-statement.md"}
