"""Take a moderator's action in ROOST Coop as that person's decision of the waiting case here.

Coop calls this program back after an action, and the program sends the decision to Tribunal. In Coop, set the callback
of the action to https://bridge.example.com/coop, its header Authorization to "Bearer " and the value of COOP_SECRET,
and {"category": "Racist"} (a category of your policy) as the custom body of the action.

    tribunal service keys add coop --scope review                                  # prints the value of TRIBUNAL_KEY
    COOP_SECRET=… TRIBUNAL_URL=https://tribunal.example.com TRIBUNAL_KEY=tribunal_… uvicorn coop:app
"""

import hmac
import os
from typing import Annotated, Any

import httpx
from fastapi import FastAPI, Header, HTTPException

app = FastAPI()


@app.post("/coop")
async def decide_by_action(
    action: dict[str, Any], authorization: Annotated[str, Header()] = ""
) -> dict[str, Any]:
    """Send the decision. The item's id in Coop is the `post_id` under which the post was judged."""
    if not hmac.compare_digest(
        authorization.encode(), f"Bearer {os.environ['COOP_SECRET']}".encode()
    ):
        raise HTTPException(401)
    category = action.get("custom", {}).get("category")
    if not action.get("actorEmail") or category is None:
        return {"ignored": "an action of a rule, or without a category"}
    headers = {"X-API-Key": os.environ["TRIBUNAL_KEY"]}
    async with httpx.AsyncClient(
        base_url=os.environ["TRIBUNAL_URL"], headers=headers, timeout=30
    ) as client:
        waiting = await client.get(
            "/v1/cases", params={"post_id": action["item"]["id"], "outcome": "pending"}
        )
        cases = waiting.raise_for_status().json()["cases"]
        if len(cases) != 1:
            raise HTTPException(409, f"{len(cases)} cases of this item wait for a person")
        decision = {
            "action": "change",
            "category": category,
            "reviewer": action["actorEmail"],
            "note": action.get("actorNote") or action.get("decisionReason") or "",
        }
        answer = await client.post(f"/v1/cases/{cases[0]['id']}/decision", json=decision)
    if answer.is_error:
        raise HTTPException(answer.status_code, answer.json()["error"]["message"])
    return {"case": cases[0]["id"]}
