"""The names that servers give their models, and the fingerprints of their configurations, in a run and its report."""

from __future__ import annotations

from pathlib import Path

from tests.commands.test_run_faults import evaluation, held, lines, run
from tests.doubles import Reply, Request, ScriptedServer


async def test_a_server_that_changes_during_a_run_is_in_run_json_and_in_the_report(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Reply:
        names = {"model": "scripted-2026-11", "system_fingerprint": f"fp_{request.index // 4}"}
        return Reply({"category": "NotHate", "explanation": "words"}, extra=names)

    command = evaluation(tmp_path, 6)
    async with ScriptedServer(script) as server:
        assert (await run(server, *command)).exit_code == 0
        labels = ["scripted-2026-11 (fp_0)"] * 4 + ["scripted-2026-11 (fp_1)"] * 2
        assert [line["calls"][0]["served"] for line in lines(tmp_path)] == labels
        served = {"openai:scripted": {"scripted-2026-11 (fp_0)": 4, "scripted-2026-11 (fp_1)": 2}}
        assert held(tmp_path, "run.json")["served"] == served
        folder = tmp_path / "run"
        assert (await run(server, "report", str(folder))).exit_code == 0
    for name in ("report.md", "report.html"):
        page = (folder / name).read_text("utf-8")
        assert "Conditions changed in this run" in page, name
        assert "4 scripted-2026-11 (fp_0), 2 scripted-2026-11 (fp_1)" in page, name
