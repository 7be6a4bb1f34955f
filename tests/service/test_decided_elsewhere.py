"""Decisions made in ROOST Coop and in Label Studio: kept as a person's, once, by the same rules as any other."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import insert, select

from tests.service.at_desk import somebody
from tests.service.conftest import get_json, opened, serving
from tests.service.decided_here import courtroom, judged
from tests.service.live import key_of
from tests.service.test_label_studio import annotated
from tribunal.errors import BadInput
from tribunal.store.tables import cases


def public_key(key: RSAPrivateKey, path: Path) -> Path:
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def action(item: str, **more: Any) -> dict[str, Any]:
    """What Coop sends of an action, by its docs/api/actions.md."""
    return {
        "item": {"id": item, "typeId": "t-1", "typeName": "Comment"}, "action": {"id": "a-1"}, "rules": [],
        "policies": [], "custom": {}, "actorEmail": "kim@example.com", "creator": {"id": "u-1", "typeId": "u"}, **more,
    }  # fmt: skip


async def case_of(client: httpx.AsyncClient, case_id: str) -> dict[str, Any]:
    while (case := await get_json(client, f"/v1/cases/{case_id}"))["status"] != "done":
        pass
    return dict(case["record"])


async def test_a_moderator_s_action_in_coop_is_their_decision(database: str, tmp_path: Path) -> None:
    key, other = (generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))

    async def act(body: dict[str, Any], by: RSAPrivateKey = key, signed: str = "") -> httpx.Response:
        raw = json.dumps(body, separators=(",", ":")).encode()
        signature = base64.b64encode(by.sign(raw, PKCS1v15(), SHA256())).decode()
        sent = {"Content-Type": "application/json", "coop-signature": signed or signature}
        return await client.post("/v1/coop/actions", content=raw, headers=sent)

    reviewing = await key_of(database, "judge", "review", "lead", "audit")
    async with courtroom(database, coop_key=public_key(key, tmp_path / "coop.pem"), desk_undo=600.0) as (client, _):
        client.headers["X-API-Key"] = reviewing
        ids = [await judged(client, post_id=f"p-{number}", text=f"post {number}") for number in range(3)]
        restore = action("p-0", custom={"category": "NotHate"}, actorNote="a song")
        for wrong in (await act(restore, other), await act(restore, signed="AAAA")):
            assert (wrong.status_code, "Coop-Signature: isn't that of this body" in wrong.text) == (400, True)
        assert (await case_of(client, ids[0]))["outcome"] == "pending"
        first, again = await act(restore), await act(restore)
        assert [each.json() for each in (first, again)] == [
            {"case": ids[0], "result": result, "reason": None} for result in ("decided", "repeated")
        ]
        record = await case_of(client, ids[0])
        assert (record["category"], record["explanation"], record["review"]["action"]) == ("NotHate", "a song", "edit")
        assert record["review"]["reviewer"] == "kim@example.com (a)"
        assert (await act(restore)).json()["result"] == "repeated"
        lee = await act({**restore, "actorEmail": "lee@example.com"})
        assert (lee.status_code, "was decided already" in lee.text) == (409, True)

        removed = action("p-1", policies=[{"id": "x", "name": "Religious", "penalty": "HIGH"}])
        claimed = await client.post(f"/v1/cases/{ids[1]}/claim", json={"reviewer": "lee"})
        assert claimed.status_code == 200
        assert "lee (a) is reviewing this" in (await act(removed)).text
        await client.delete(f"/v1/cases/{ids[1]}/claim?reviewer=lee")
        assert (await act(removed)).json()["result"] == "decided"
        assert (await case_of(client, ids[1]))["review"]["action"] == "accept"

        kim = somebody(client.app)  # type: ignore[attr-defined]
        await kim.sign_in(reviewing, "kim@example.com")
        waits = await judged(client, post_id="p-4", text="post 4")
        await kim.get(f"/desk/cases/{waits}")
        await kim.send("claim", at="/cases/")
        await kim.send("change", at="/cases/", category="2", note="it may be undone")
        numbered = await act(action("p-4", custom={"category": "Religious"}))
        assert numbered.status_code == 409, numbered.text
        async with opened(database) as store, store.transaction() as connection:
            row = dict((await connection.execute(select(cases).where(cases.c.id == ids[0]))).mappings().one())
            newer = {**row, "post_id": "p-2", "created": row["created"] + 1000}
            await connection.execute(insert(cases), [{**newer, "id": f"case-{number}"} for number in range(50)])

        unknown = await act(action("p-2", policies=[{"id": "x", "name": "Spam"}]))
        assert (unknown.status_code, "Spam" in unknown.text, unknown.text.count("\n")) == (400, True, 0)
        by_rule = await act({**action("p-2", custom={"category": "NotHate"}), "actorEmail": None})
        assert (by_rule.status_code, by_rule.json()["result"]) == (200, "ignored")
        assert (await act(action("p-2"))).status_code == 400
        assert (await act(action("p-9", custom={"category": "NotHate"}))).status_code == 404
        assert (await case_of(client, ids[2]))["outcome"] == "pending"
        audit = await get_json(client, f"/v1/audit?subject={ids[0]}", "entries")
        answered = [each for each in audit if each["kind"] == "case.answered"]
        assert [each["details"]["reviewer"] for each in answered] == ["kim@example.com (a)"]


async def test_an_annotation_in_label_studio_is_the_annotator_s_decision(database: str) -> None:
    async def tell(task: dict[str, Any], action: str = "ANNOTATION_CREATED", by: int = 7) -> httpx.Response:
        [annotation] = task["annotations"]
        event = {"action": action, "project": {"id": 1}, "annotation": {**annotation, "completed_by": by}}
        event["task"] = {"id": 1, "data": task["data"]}
        return await client.post("/v1/label-studio/annotations", json=event)

    async with courtroom(database) as (client, _):
        case_id = await judged(client)
        task = {"data": {"case": case_id, "court": "Religious", "hate": ["Religious"]}}
        skipped = await tell(annotated(task, "NotHate", was_cancelled=True))
        assert (skipped.json()["result"], skipped.json()["reason"]) == ("ignored", "no category was chosen")
        unknown = await tell(annotated(task, "Nonsense"))
        assert (unknown.status_code, "Nonsense" in unknown.text) == (400, True)
        foreign = await tell(annotated({"data": {"text": "x"}}, "NotHate"))
        assert (foreign.status_code, "case" in foreign.json()["error"]["message"]) == (400, True)
        assert (await case_of(client, case_id))["outcome"] == "pending"
        chosen = annotated(task, "NotHate", note="a quotation")
        results = [(await tell(chosen)).json()["result"]]
        record = await case_of(client, case_id)
        results += [
            (await tell(chosen, each)).json()["result"] for each in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
        ]
        assert results == ["decided", "repeated", "repeated"]
        assert (record["category"], record["explanation"]) == ("NotHate", "a quotation")
        assert record["review"]["reviewer"] == "Label Studio 7 (operator)"
        otherwise = await tell(annotated(task, "Racist"), "ANNOTATION_UPDATED")
        assert (otherwise.status_code, "was decided already" in otherwise.text) == (409, True)
        assert (await tell(chosen, "ANNOTATIONS_DELETED")).json()["result"] == "ignored"
        assert await case_of(client, case_id) == record


async def test_a_key_that_is_not_coop_s_is_told_at_the_start(sqlite: str, tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(BadInput, match=r"coop_key: .*a\.pem: is no RSA public key in PEM"):
        async with serving(sqlite, coop_key=tmp_path / "a.pem"):
            pass
