"""A case of the service keeps what it began with, over a restart and whatever becomes of the files meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.cases.test_terms_of_a_case import CUE, JUDGED, POST, Terms
from tests.court import court_script, part
from tests.openai_server import OpenAIServer
from tests.service.conftest import opened, serving
from tribunal.docket.case_store import CaseStore
from tribunal.docket.record_rows import text_of


async def posted(client: httpx.AsyncClient) -> str:
    got = await client.post("/v1/judge?wait=60", json={"text": POST, "graph": "tribunal"})
    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
    return str(got.headers["tribunal-case"])


async def test_open_cases_outlive_their_files_and_their_replica(
    database: str, tmp_path: Path
) -> None:
    terms = Terms(tmp_path / "terms")
    settings: dict[str, Any] = {
        "model": "openai:scripted", "review": True, "review_rule": ["all"], "policy": str(terms.policy),
        "prompts": str(terms.prompts), "line_up": str(terms.line_up), "threshold_file": str(terms.threshold),
    }  # fmt: skip
    async with OpenAIServer(court_script(judge=JUDGED, investigation={"cues": [CUE]})) as server:
        async with serving(database, settings=settings) as client:
            changed, asked = await posted(client), await posted(client)
        terms.delete()
        async with serving(database, settings={"model": "openai:scripted"}) as client:
            said = {"action": "change", "category": "Rude", "note": "", "reviewer": "kim"}
            done = (await client.post(f"/v1/cases/{changed}/decision?wait=60", json=said)).json()
            assert (done["outcome"], done["category"], done["policy"]["name"]) == (
                "verdict",
                "Rude",
                "house",
            )
            said = {"action": "ask", "question": "Is it a quotation?"}
            again = (await client.post(f"/v1/cases/{asked}/decision?wait=60", json=said)).json()
            assert (again["outcome"], again["policy"], again["uncertain"]) == (
                "pending",
                done["policy"],
                False,
            ), again
            row = await CaseStore(client.app.state.replica.store, "test", 3.0).case(changed)  # type: ignore[attr-defined]
        judged = [request for request in server.requests if part(request) == "judge"]
        assert [request.body["model"] for request in judged] == ["judge-before"] * 3
        assert "We say BEFORE." in judged[-1].text
        assert "Is it a quotation?" in judged[-1].text
    assert row["via"] == "service"
    async with opened(database) as store:
        policy, prompts, protocol = [
            await text_of(store, row[f"{kind}_sha"], kind)
            for kind in ("policy", "prompts", "protocol")
        ]
    assert '"Rude"' in (policy or "")
    assert "We say BEFORE." in (prompts or "")
    assert "judge-before" in (protocol or "")
