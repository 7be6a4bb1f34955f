"""An appeal at the desk, without a browser."""

from __future__ import annotations

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.at_desk import signed_in
from tests.service.conftest import serving
from tests.service.test_appeals import CLEAN, SURE, appealed, by_the_court, tried
from tests.service.test_checkpoints import COURT


async def test_an_appeal_is_claimed_tried_again_and_changed(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server,
        serving(database, **COURT) as client,
    ):
        app = client.app  # type: ignore[attr-defined]
        at = await by_the_court(client, server)
        case, where = at.rpartition("/")[2], await appealed(client, at)
        here = f"/desk/appeals/{where.rpartition('/')[2]}"
        kim = await signed_in(app)
        lee = await signed_in(app, named="lee")
        listed = await kim.get("/desk/appeals")
        [row] = listed.tree.xpath("//a[@data-row]")
        assert row.text_content().strip() == (await client.get(at)).json()["post"]["text"]
        assert "Not for you" not in listed.words
        page = await kim.get(here)
        assert "judge-words" in page.words, "the decision is explained beside it"
        await kim.send("claim")
        assert (await lee.get(here)).buttons() == ["release"], (
            "the operator is a lead, who may take it from them"
        )
        await kim.send("retry", note="not known to the court")
        await tried(client, where)
        await kim.get(here)
        refused = await kim.send("change", category="NotHate", note="")
        assert (refused.status, refused.value("category")) == (400, "NotHate")
        await kim.send("change", category="NotHate", note="a song")
        assert (await client.get(at)).json()["record"]["category"] == "NotHate"
        await lee.get(f"/desk/cases/{case}/reopen")
        page = await lee.send(at="reopen", reason="look once more")
        page = await kim.get(str(page.response.url.path))
        assert "uphold" not in page.buttons(), "who has decided it decides it no more"
        assert "Not for you: you decided this case" in (await kim.get("/desk/appeals")).words
