"""Whatever tells of a case says who decided it, and nothing that a person decided is uncertain."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.conftest import serving
from tests.service.receiving import receiving
from tests.service.test_webhooks import AT_ONCE, added, judged
from tribunal.review.case_tables import export_cases, export_decided


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


async def test_messages_and_exports_say_who_decided(database: str, tmp_path: Path) -> None:
    judge = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
    settings = {"model": "openai:scripted", "review": True}
    async with (
        OpenAIServer(court_script(explicit=True, judge=judge)),
        receiving() as receiver,
        serving(database, **AT_ONCE, settings=settings, graph="tribunal") as client,
    ):
        hook = await added(
            client, receiver, events=["case.pending", "case.decided", "appeal.decided"]
        )
        judged_alone = {
            "text": "post-words",
            "graph": "tribunal",
            "settings": {"review": False, "threshold": 0.75},
        }
        await client.post("/v1/judge?wait=60", json=judged_alone)
        case_id = await judged(client, graph="tribunal")
        await receiver.wait(2)
        accepted = {"action": "accept", "reviewer": "kim"}
        await client.post(f"/v1/cases/{case_id}/decision?wait=60", json=accepted)
        await receiver.wait(3)
        made = await client.post(
            f"/v1/cases/{case_id}/appeal", json={"appellant": "u-1", "reason": "a joke"}
        )
        upheld = {"action": "uphold", "reviewer": "lee", "note": "no joke"}
        await client.post(f"{made.headers['location']}/decision", json=upheld)
        await receiver.wait(4)
        told = [receiver.read(at, hook["secret"]) for at in range(4)]
        assert [each["type"] for each in told] == [
            "case.decided",
            "case.pending",
            "case.decided",
            "appeal.decided",
        ]
        assert [each["data"]["decided_by"] for each in told] == ["models", None, "person", "appeal"]
        assert [each["data"]["uncertain"] for each in told] == [True, True, False, False]
        store = client.app.state.replica.store  # type: ignore[attr-defined]
        assert await export_cases(store, tmp_path / "cases.csv", "csv") == 2
        [appealed] = [row for row in read_rows(tmp_path / "cases.csv") if row["id"] == case_id]
        assert (appealed["decided_by"], appealed["reviewer"]) == ("appeal", "lee (operator)")
        assert (appealed["uncertain"], appealed["review"], appealed["appeal"]) == (
            "False",
            "accept",
            "upheld",
        )
        exported = await export_decided(store, tmp_path / "decided.csv", "csv")
        [decided] = read_rows(tmp_path / "decided.csv")
        assert (exported.rows, decided["decided_by"], decided["court_uncertain"]) == (
            1,
            "appeal",
            "True",
        )
