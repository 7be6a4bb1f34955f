"""Tell a Slack channel which cases a person should look at.

Tribunal sends its signed webhook here, and this program posts a message to an incoming webhook of Slack (Mattermost
takes the same form). The message names the case and links to it; it holds no words of the post.

    tribunal service webhooks add https://bridge.example.com/tribunal --event case.escalated --event case.appealed \
        --event case.expiring --event case.failed                          # prints the value of WEBHOOK_SECRET
    WEBHOOK_SECRET=whsec_… SLACK_URL=https://hooks.slack.com/services/… uvicorn slack:app
"""

import os

import httpx
from fastapi import FastAPI, HTTPException, Request
from standardwebhooks import Webhook, WebhookVerificationError

app = FastAPI()
TITLES = {
    "case.escalated": "A reviewer left a case to the leads",
    "case.appealed": "A decision was appealed",
    "case.expiring": "No model answers, and a case fails soon",
    "case.failed": "A case failed",
}


@app.post("/tribunal")
async def tell_slack(request: Request) -> None:
    """Post one event to Slack. If Slack refuses it, Tribunal sends the event again later."""
    try:
        event = Webhook(os.environ["WEBHOOK_SECRET"]).verify(
            await request.body(), dict(request.headers)
        )
    except WebhookVerificationError:
        raise HTTPException(401) from None
    if event["type"] not in TITLES:
        return
    case = event["data"]
    lines = [
        f"*{TITLES[event['type']]}*",
        f"Case {case['id']}: {case['category'] or 'no category yet'}",
    ]
    if "appeal" in case:
        lines.append(f"Appeal {case['appeal']['id']}")
    lines.append(f"<{case['link'].replace('/v1/', '/desk/', 1)}|Open at the desk>")
    message = {"text": "\n".join(lines), "unfurl_links": False}
    async with httpx.AsyncClient(timeout=10) as client:
        (await client.post(os.environ["SLACK_URL"], json=message)).raise_for_status()
