"""`/try`, stepped through: agents after an edit are shown the edited words, and nothing edited counts as a verdict."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.court import court_script, part
from tests.doubles import ScriptedServer
from tests.graphs.test_stops import WAYS
from tests.service.conftest import serving
from tests.service.live import deciding, key_of, listening, sqlite
from tests.where_heeded import where_heeded
from tribunal.cases.holds import Hold
from tribunal.graphs import GRAPHS
from tribunal.schema import JSON

POST = "a post with an implied-cue in it"
EDITED = "are compared with a garden"


class Stepped:
    """A trial that is stepped through, and what was told of it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client, self.told, self.id = client, list[JSON](), ""

    async def run(self, body: JSON, edit: Any = lambda said: [], *, to_the_end: bool = False) -> None:
        """Go on from every pause, with the edits that `edit` makes of what was said."""
        async with self.client.stream("POST", "/try?step=true", json=body) as got:
            assert got.status_code == 200, await got.aread()
            async for line in got.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                self.told.append(event)
                if event["event"] == "case":
                    self.id = event["id"]
                elif event["event"] == "pause":
                    await self.go_on(event["number"], edits=edit(event["said"]), to_the_end=to_the_end)

    async def go_on(self, number: int, status: int = 204, **answer: Any) -> str:
        got = await self.client.post(f"/try/{self.id}", json={"number": number, **answer})
        assert got.status_code == status, got.text
        return got.text

    def of(self, kind: str) -> list[JSON]:
        return [each for each in self.told if each["event"] == kind]

    async def case(self) -> JSON:
        got: JSON = (await self.client.get(f"/v1/cases/{self.id}")).json()
        return got


def change_claim(said: list[JSON]) -> list[JSON]:
    return [{**each, "text": EDITED} for each in said if each["field"] == "cues.0.claim" and each["text"] != EDITED]


@pytest.mark.long
async def test_the_next_agents_are_shown_the_edit_and_it_is_no_verdict(database: str) -> None:
    async with (
        ScriptedServer(court_script()) as server,
        deciding(server, database, settings={"rounds": 1}) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        trial = Stepped(client)
        await trial.run({"text": POST}, change_claim)
        shown = {part(each): each.text for each in server.requests}
        assert [EDITED in shown[each] for each in ("investigation", "defence", "judge")] == [False, True, True]
        assert not any("claim “implied-cue" in shown[each] for each in ("defence", "judge"))
        assert [each["next"][0]["seat"] for each in trial.of("pause")] == [
            "gatekeeper", "prosecutor", "defender", "judge",
        ]  # fmt: skip
        [note] = trial.of("edited")
        assert note["note"] == f"edited by a person: prosecutor/1: “implied-cue” became “{EDITED}”"
        case = await trial.case()
        assert (case["status"], case["record"]) == ("cancelled", None)
        assert case["cancelled"] == "a person edited what its agents said, so it is not the court's verdict"
        page = (await client.get(f"/v1/cases/{trial.id}/explanation?format=html")).text
        assert "this is not the court’s verdict" in page
        assert note["note"] in page
        assert (await client.get("/v1/cases?outcome=verdict")).json()["cases"] == []


@pytest.mark.long
@pytest.mark.parametrize("graph", GRAPHS)
async def test_every_graph_is_stepped_through_and_edited(graph: str, tmp_path: Path) -> None:
    """No later prompt holds the words as they were."""
    os.environ["TRIBUNAL_ALLOW"] = "mode,rounds,perspectives,web,search,draws,agents,triage,early_exit,max_turns"
    text, settings = WAYS[graph][0]
    own = where_heeded(graph, {"search": "none", "max_turns": 1}, **settings)
    async with (
        listening(sqlite(tmp_path), settings={"trace": True}) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        trial, edited = Stepped(client), list[str]()

        def edit(said: list[JSON]) -> list[JSON]:
            texts = [each["text"] for each in said]
            new = [each for each in said if "EDITED" not in each["text"] and texts.count(each["text"]) == 1][-1:]
            edited.extend(each["text"] for each in new)
            return [{**each, "text": f"EDITED {each['text']}"} for each in new]

        await trial.run({"text": text, "graph": graph, "settings": own}, edit)
        words = ""
        for each in trial.told:
            if each["event"] == "edited":
                words = each["note"].split("“EDITED ")[1].removesuffix("”").removesuffix(" …")
            elif each["event"] == "call" and words:
                prompt = each["prompt"][-1][1]
                assert prompt.count(words) == prompt.count(f"EDITED {words}"), prompt
        assert bool(edited) == (graph not in ("baseline", "self_consistency"))
        assert (await trial.case())["status"] == ("cancelled" if edited else "done")


@pytest.mark.long
async def test_what_a_pause_refuses_and_going_on_to_the_end(database: str) -> None:
    async with listening(database, graph="arcade") as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        trial = Stepped(client)
        await trial.run({"text": "Good morning!"}, to_the_end=True)
        [pause] = trial.of("pause")
        assert (await trial.case())["status"] == "done"
        assert "isn't at this pause" in await trial.go_on(pause["number"], 409)
        assert "record" in await trial.case()
        wrong = {"channel": "transcript", "id": "judge/1", "field": "text", "text": " "}
        assert "edits" in await trial.go_on(pause["number"], 400, edits=[wrong])


async def test_a_trial_that_would_have_to_wait_is_refused_and_not_run_unstepped(database: str) -> None:
    async with serving(database, graph="baseline") as client:
        replica = client.app.state.replica  # type: ignore[attr-defined]
        hold = Hold(why="its model doesn't answer", provider="openai", until=time.time() + 60)
        replica.outages.hold_new = lambda needed, deadline: hold
        got = await client.post("/try?step=true", json={"text": "Good morning!"})
        assert (got.status_code, "can't wait, and its model doesn't answer" in got.text) == (429, True), got.text
        assert (await client.get("/v1/cases")).json()["cases"] == []


@pytest.mark.long
async def test_another_key_can_t_go_on(database: str) -> None:
    judge, other = await key_of(database, "judge"), await key_of(database, "judge")
    async with listening(database, graph="baseline") as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        client.headers["X-API-Key"] = judge
        trial = Stepped(client)
        await trial.run({"text": "Good morning!"})
        client.headers["X-API-Key"] = other
        await trial.go_on(trial.of("pause")[0]["number"], 404)
