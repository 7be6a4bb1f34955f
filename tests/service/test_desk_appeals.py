"""Appeals, second opinions and the board at the desk, without a browser."""

from __future__ import annotations

from typing import Any

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.at_desk import Page, Somebody, signed_in
from tests.service.conftest import opened, serving
from tests.service.test_appeals import CLEAN, SURE, by_the_court, tried
from tests.service.test_checkpoints import COURT, UNSURE
from tests.service.test_decisions import ACCEPT, waiting
from tribunal.service.replica import keys

SCRIPT = "<script>alert(1)</script>"


def found(page: Page, path: str) -> list[Any]:
    assert page.tree is not None
    return list(page.tree.xpath(path))


async def test_an_appeal_is_claimed_tried_again_and_changed(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server,
        serving(database, **COURT) as client,
    ):
        app = client.app  # type: ignore[attr-defined]
        at = await by_the_court(client, server)
        against = {
            "appellant": f"user {SCRIPT}",
            "reason": f"It is a song. {SCRIPT}",
            "context": f"A refrain. {SCRIPT}",
        }
        where = (await client.post(f"{at}/appeal", json=against)).headers["location"]
        kim = await signed_in(app)
        lee = await signed_in(app, named="lee")
        page = await kim.get("/desk/appeals")
        assert where.rpartition("/")[2] in page.words
        here = f"/desk/appeals/{where.rpartition('/')[2]}"
        page = await kim.get(here)
        assert "It is a song." in page.words
        assert SCRIPT not in page.response.text
        assert "Decision: Religious" in page.words
        assert "judge-words" in page.words, "the decision is explained beside it"
        assert "script-src 'self'" in page.response.headers["content-security-policy"]
        assert (await kim.send("claim")).said == "You claimed the appeal."
        page = await lee.get(here)
        assert "kim (operator) is reviewing this (" in page.words
        assert page.buttons() == ["release"], "the operator is a lead, who may take it from them"
        await kim.send("retry", note=f"not known to the court {SCRIPT}")
        assert "New run ordered" in kim.page.said
        await tried(client, where)
        page = await kim.get(here)
        assert "New run: NotHate" in page.words
        assert "Every agent but the gatekeeper was shown the appeal" in page.words
        refused = await kim.send("change", category="NotHate", note="")
        assert (refused.status, refused.wrong[:17], refused.value("category")) == (400, "Note: is empty: s", "NotHate")
        done = await kim.send("change", category="NotHate", note=f"a song {SCRIPT}")
        assert done.said == "Decision changed."
        assert "Decision reversed by kim (operator)" in done.words
        assert SCRIPT not in done.response.text
        head, _, models = (await kim.get(f"/desk/cases/{at.rpartition('/')[2]}")).words.partition(
            "What the models found"
        )
        assert "kim (operator) decided the appeal: reversed" in head, "whose decision it is stands first"
        assert "openai:scripted (judge) found Religious" in models.partition("How it was decided")[0]
        assert (await client.get(at)).json()["record"]["category"] == "NotHate"
        assert "Decision reversed" in (await lee.get("/desk/appeals?of=decided")).words
        page = await lee.get(f"/desk/cases/{at.rpartition('/')[2]}/reopen")
        assert (await lee.send(at="reopen", reason=" ")).wrong == "Reason: is empty; say why the case is reopened."
        page = await lee.send(at="reopen", reason="look once more")
        assert page.said.startswith("Case reopened")
        page = await kim.get(str(page.response.url.path))
        assert "You decided this case yourself" in page.words
        assert "uphold" not in page.buttons()


async def test_a_second_opinion_is_blind_and_the_board_shows_it(database: str) -> None:
    async with opened(database) as store:
        made = {
            scope: await keys.add_key(store, scope, [scope], keys.KeyLimits()) for scope in ("review", "lead", "admin")
        }
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, second_opinions=1.0, **COURT) as client,
    ):
        client.headers["X-API-Key"] = made["admin"]
        app = client.app  # type: ignore[attr-defined]
        case = await waiting(client, server)
        done = await client.post(f"/v1/cases/{case['id']}/decision", json={**ACCEPT, "reviewer": "kim"})
        assert done.json()["outcome"] == "verdict"
        lee = await signed_in(app, made["review"], named="lee")
        ada = await signed_in(app, made["lead"], named="ada")
        page = await lee.get("/desk/second-opinions")
        [link] = found(page, "//main//table//a/@href")
        page = await lee.get(link)
        assert "post-words" in page.words
        for told in ("kim", "judge-words", case["id"], "indicted-cue"):
            assert told not in page.response.text
        assert (await lee.send("give")).wrong == "Category: choose a category."
        kim = await signed_in(app, made["admin"], named="kim")
        page = await kim.get(link)
        assert "You decided this case, so somebody else gives its second opinion." in page.words
        assert not {"claim", "give"} & set(page.buttons())
        await lee.get(link)
        page = await lee.send("give", category="NotHate", note="quoted")
        assert page.said == "Opinion saved. The decision stays as it is."
        assert "Religious" not in (await lee.get(link)).words.partition("Policy:")[0], "nor is it told afterwards"
        assert (await lee.get("/desk/board")).status == 403
        page = await ada.get("/desk/second-opinions")
        assert "Religious" in page.words
        await ada.get(link)
        page = await ada.send("reopen", note="two readings")
        assert page.said == "Case reopened. A third reviewer decides it."
        page = await ada.get("/desk/board")
        assert page.heading == "Board"
        [caption] = [each for each in found(page, "//caption/text()") if "By day" in each]
        assert "kim (admin)" in page.words
        assert found(page, "//*[name()='rect' and @class='bar verdict']"), caption
        assert not found(page, "//main//*[@style]")
        assert (await ada.get("/desk/board?since=yesterday")).wrong.startswith("since: yesterday: is no date")
        await both_kinds(ada)


async def both_kinds(ada: Somebody) -> None:
    """Every table has a caption, every picture a name."""
    page = await ada.get("/desk/board")
    tables = found(page, "//table")
    assert tables
    assert all(table.xpath("./caption") for table in tables)
    assert all(each.get("aria-label") or each.get("aria-hidden") for each in found(page, "//*[name()='svg']"))
