"""Second opinions over HTTP: another person decides blind, agreement is measured, and a lead sees where two differ."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import check_refusal, get_json, opened, serving
from tests.service.test_appeals import SURE, accepted, by_the_court
from tests.service.test_checkpoints import COURT, UNSURE
from tribunal.docket.decision_effects import Sampling
from tribunal.eval.measures.agreement import cohen_kappa
from tribunal.store import audit as audit_log
from tribunal.store.tables import cases

ALL = {"second_opinions": 1.0, **COURT}


async def waits(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await get_json(client, "/v1/second-opinions", "second_opinions")
    return found


async def test_another_person_decides_blind_and_a_lead_sees_that_they_differ(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **ALL) as client,
    ):
        at = await accepted(client, server)
        [asked] = await waits(client)
        where = f"/v1/second-opinions/{asked['id']}"
        whole = (await client.get(where)).text
        shown = json.loads(whole)
        assert shown["shown"]["post"]["text"] == "post-words"
        case_id = at.rpartition("/")[2]
        for told in ("judge-words", "kim", case_id, "first-why"):
            assert told not in whole, "nothing of what was decided, nor by whom"
        refused = await client.post(f"{where}/claim", json={"reviewer": "kim"})
        check_refusal(refused, 409, "decided this case")
        assert (await client.post(f"{where}/claim", json={"reviewer": "lee"})).status_code == 200
        said = {"category": "NotHate", "note": "a quotation", "reviewer": "lee"}
        given = [(await client.post(f"{where}/opinion", json=said)).json() for _ in range(2)]
        assert given[0] == given[1], "who says the same once more gets the same"
        assert (given[0]["status"], given[0]["first_category"], given[0]["case_id"]) == (
            "disagreed", "Religious", case_id,
        )  # fmt: skip
        record = await get_json(client, at, "record")
        assert (record["category"], record["appeals"]) == ("Religious", []), (
            "it changes no decision by itself"
        )
        settled = await client.post(
            f"{where}/settle", json={"reopen": "two readings", "lead": "ada"}
        )
        assert (settled.status_code, settled.json()["status"]) == (200, "settled"), settled.text
        [appeal] = await get_json(client, "/v1/appeals?status=waiting", "appeals")
        assert (appeal["id"], appeal["kind"], appeal["appellant"]) == (
            settled.json()["appeal_id"], "reopened", "ada (operator)",
        )  # fmt: skip
    async with opened(database) as store:
        kinds = [entry["kind"] for entry in await audit_log.page(store, subject=case_id, limit=200)]
        assert kinds[-5:] == [
            "opinion.sought", "opinion.claimed", "opinion.given", "case.reopened", "opinion.settled",
        ]  # fmt: skip


def test_which_cases_are_chosen_is_repeatable_and_hangs_on_the_secret() -> None:
    ids = [f"case-{number}" for number in range(4_000)]
    one = [each for each in ids if Sampling("secret", 0.1).is_sampled(each, by_court=False)]
    assert one == [each for each in ids if Sampling("secret", 0.1).is_sampled(each, by_court=False)]
    other = [each for each in ids if Sampling("another", 0.1).is_sampled(each, by_court=False)]
    assert 320 <= len(one) <= 480  # 400 are expected, with a standard deviation of 19
    assert len(set(one) & set(other)) < 100  # 40 by chance
    assert not any(Sampling("secret", 0.1).is_sampled(each, by_court=True) for each in ids)
    assert all(Sampling("secret", 1.0, 1.0).is_sampled(each, by_court=True) for each in ids)


def test_kappa_by_hand() -> None:
    # 20 both yes, 15 both no, 5 and 10 of either kind: p = 0.7, chance 0.5, kappa 0.4.
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    found = cohen_kappa(pairs)
    assert (found.pairs, found.agreed, found.raw) == (50, 35, 0.7)
    assert found.kappa == pytest.approx(0.4)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.4 < found.high
    only = cohen_kappa([("yes", "yes")] * 3)
    assert (only.raw, only.kappa, only.low) == (1.0, None, None), (
        "one label alone says nothing of chance"
    )
    assert cohen_kappa([]).raw is None


@pytest.mark.long
async def test_the_board(database: str) -> None:
    judges = [UNSURE, UNSURE, SURE, SURE]
    async with (
        ScriptedServer(court_script(explicit=True, judge=judges)) as server,
        serving(database, **ALL) as client,
    ):
        changed = await accepted(client, server)
        await accepted(client, server)
        before = await by_the_court(client, server)
        await by_the_court(client, server)
        async with (
            opened(database) as store,
            store.transaction() as connection,
        ):  # the third ended 40 days ago
            early = {
                "finished": cases.c.finished - 40 * 86_400,
                "created": cases.c.created - 40 * 86_400,
            }
            moved = update(cases).where(cases.c.id == before.rpartition("/")[2])
            await connection.execute(moved.values(**early, category="Sexist"))
        opinions = await waits(client)
        for asked, category in zip(opinions, ("Religious", "NotHate"), strict=True):
            said = {"category": category, "reviewer": "lee"}
            assert (
                await client.post(f"/v1/second-opinions/{asked['id']}/opinion", json=said)
            ).status_code == 200
        appeal = (
            await client.post(f"{changed}/appeal", json={"appellant": "a", "reason": "b"})
        ).headers["location"]
        change = {"action": "change", "category": "NotHate", "note": "n", "reviewer": "ada"}
        assert (await client.post(f"{appeal}/decision", json=change)).json()["result"] == "reversed"
        await client.post(f"{changed}/appeal", json={"appellant": "a", "reason": "b"})
        board = await get_json(client, "/v1/figures")
        assert board["outcomes"] == {"verdict": 3}
        assert [(day["posts"], day["cost"], day["cost_unknown"]) for day in board["days"]] == [
            (3, 0.0, 3)
        ]
        assert board["automated"] == {"verdicts": 3, "by_people": 2, "share": pytest.approx(1 / 3)}
        assert board["reversals"]["appeals"] == {
            "decided": 1,
            "turned": 1,
            "rate": 1.0,
            "results": {"reversed": 1},
        }
        assert (
            board["to_decision"]["verdicts"]["cases"],
            board["to_decision"]["by_people"]["cases"],
        ) == (3, 2)
        assert (
            board["waiting"]["appeals"]["waiting"],
            board["waiting"]["disagreements"]["waiting"],
        ) == (1, 1)
        drift = board["drift"]
        assert (drift["posts"], drift["posts_before"], drift["distance"]) == (3, 1, 1.0), (
            "no category in common"
        )
        assert {each["category"]: (each["posts"], each["posts_before"]) for each in drift["categories"]} == {
            "Religious": (2, 0), "NotHate": (1, 0), "Sexist": (0, 1),
        }  # fmt: skip
        agreement = board["agreement"]
        assert (agreement["all"]["pairs"], agreement["all"]["agreed"]) == (2, 1)
        assert [each["name"] for each in agreement["reviewers"]] == [
            "kim (operator)",
            "lee (operator)",
        ]
        last = await get_json(client, "/v1/figures", params={"until": board["span"]["since"]})
        assert (last["outcomes"], last["drift"]["distance"]) == ({"verdict": 1}, None)


async def test_costs_are_known_only_where_every_call_has_a_price(
    database: str, tmp_path: Any
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["openai:scripted"]\ninput = 1.0\noutput = 2.0\n')
    other = tmp_path / "other.toml"
    other.write_text('["openai:another"]\ninput = 1.0\noutput = 2.0\n')
    async with ScriptedServer(court_script(explicit=True, judge=SURE)) as server:
        async with serving(database, prices=prices, **COURT) as client:
            at = await by_the_court(client, server, graph="arcade")
            [day] = await get_json(client, "/v1/figures", "days")
            used = (await get_json(client, at, "record"))["usage"]
            cost = (used["prompt_tokens"] * 1.0 + used["completion_tokens"] * 2.0) / 1e6
            assert cost > 0
            assert (day["cost"], day["cost_unknown"]) == (pytest.approx(cost), 0)
        async with serving(database, prices=other, **COURT) as client:
            await by_the_court(client, server, graph="arcade")
            [day] = await get_json(client, "/v1/figures", "days")
            assert (day["cost"], day["cost_unknown"], day["posts"]) == (pytest.approx(cost), 1, 2)
