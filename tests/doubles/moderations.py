"""OpenAI's moderation endpoint. A reply's content are the scores, by their names; 0.5 or more is flagged."""

from __future__ import annotations

from tribunal.testing.messages import JSON, Events, Reply, Request, RequestContent, encoded, error

__all__ = ["error"]

ENDS: tuple[str, ...] = ("/moderations",)
FINISH: dict[str, str] = {}
STREAM = ""
CATEGORIES = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
    "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


def read_request(body: JSON, path: str) -> RequestContent:
    asked = RequestContent(model=body["model"])
    given = body["input"]
    parts: list[JSON] = [{"type": "text", "text": given}] if isinstance(given, str) else given
    asked.images.extend(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    asked.add("user", [part["text"] for part in parts if part["type"] == "text"])
    return asked


def write(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
    given = reply.content if isinstance(reply.content, dict) else {}
    scores = {**dict.fromkeys(CATEGORIES, 0.001), **given}
    categories = {name: score >= 0.5 for name, score in scores.items()}
    kinds = ["text"] * bool(request.text) + ["image"] * bool(request.images)
    result = {
        "flagged": any(categories.values()), "categories": categories, "category_scores": scores,
        "category_applied_input_types": dict.fromkeys(CATEGORIES, kinds),
    }  # fmt: skip
    return encoded(
        {"id": f"modr-{request.index}", "model": "omni-moderation-2024-09-26", "results": [result]}
    )


def streams(request: Request) -> bool:
    return False


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
    raise NotImplementedError("it has no stream")


def failed(error: JSON) -> bytes:
    raise NotImplementedError("it has no stream")
