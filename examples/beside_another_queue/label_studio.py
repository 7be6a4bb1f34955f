"""Take each annotation in Label Studio as the annotator's decision of the waiting case, at once.

The tasks come from `tribunal review export --format label-studio --out tasks`. In Label Studio's project, add a webhook
to https://bridge.example.com/label-studio for annotations created, with its payload, and the header Authorization
set to "Bearer " and the value of STUDIO_SECRET.

    tribunal service keys add label-studio --scope review                          # prints the value of TRIBUNAL_KEY
    STUDIO_SECRET=… TRIBUNAL_URL=https://tribunal.example.com TRIBUNAL_KEY=tribunal_… uvicorn label_studio:app
"""

import hmac
import os
from typing import Annotated, Any

import httpx
from fastapi import FastAPI, Header, HTTPException

app = FastAPI()


@app.post("/label-studio")
async def decide_by_annotation(
    event: dict[str, Any], authorization: Annotated[str, Header()] = ""
) -> dict[str, Any]:
    """Send the decision. The first one counts; Tribunal answers 409 to a later one."""
    if not hmac.compare_digest(
        authorization.encode(), f"Bearer {os.environ['STUDIO_SECRET']}".encode()
    ):
        raise HTTPException(401)
    annotation = event.get("annotation", {})
    results = {each["from_name"]: each["value"] for each in annotation.get("result", [])}
    if (
        event["action"] != "ANNOTATION_CREATED"
        or annotation["was_cancelled"]
        or "category" not in results
    ):
        return {"ignored": "no category was chosen"}
    decision = {
        "action": "change",
        "category": results["category"]["choices"][0],
        "reviewer": f"Label Studio {annotation['completed_by']}",
        "note": " ".join(results["note"]["text"]) if "note" in results else "",
    }
    case_id = event["task"]["data"]["case"]
    headers = {"X-API-Key": os.environ["TRIBUNAL_KEY"]}
    async with httpx.AsyncClient(
        base_url=os.environ["TRIBUNAL_URL"], headers=headers, timeout=30
    ) as client:
        answer = await client.post(f"/v1/cases/{case_id}/decision", json=decision)
    if answer.is_error:
        raise HTTPException(answer.status_code, answer.json()["error"]["message"])
    return {"case": case_id}
