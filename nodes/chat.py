"""A case as a conversation: a chat front end sends a post as a message, and shows the outcome as the answer to it.

Messages lie in the state as plain JSON, and only where somebody sent some. Their words are a stranger's, and front ends
read them as Markdown, so what is answered is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.graph.message import add_messages

from tribunal.calls import DEMO_NOTICE, warnings_of_unfit_models
from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.text import escape_markdown, wellformed_json

_FORM = 'give {"type": "human", "content": "…"}'
_IMAGE = {"type": "text", "text": "(an image)"}


class MessagePost(NamedTuple):
    """A post as it came in a message."""

    text: str
    image: str | None


def merge_messages(held: Any, new: Any) -> list[JSON]:
    """Append messages, of any form that LangChain takes, and replace those of an id that is held.

    Raises:
        BadInput: something is no message.
    """
    try:
        messages: Any = add_messages(held or [], new or [])
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise BadInput(f"messages: {str(new)[:80]!r}: is no list of messages; {_FORM}") from error
    return [
        wellformed_json({"type": each.type, **each.model_dump(mode="json", exclude_defaults=True, exclude_none=True)})
        for each in messages
    ]


def post_in_messages(messages: Sequence[JSON]) -> MessagePost | None:
    """Return the post that stands in the last message; None if that is no person's.

    Raises:
        BadInput: the message holds something else than text and one image.
    """
    if not messages or messages[-1]["type"] != "human":
        return None
    texts, images = [], []
    for block in _blocks(messages[-1]["content"]):
        if isinstance(text := block.get("text"), str):
            texts.append(text)
        elif image := _image_of(block):
            images.append(image)
        else:
            raise BadInput(f"messages: {block.get('type')!r}: a post is text and an image; send nothing else")
    if len(images) > 1:
        raise BadInput(f"messages: {len(images)} images: a post has one; send one")
    return MessagePost("\n".join(texts), images[0] if images else None)


def _blocks(content: str | list[str | JSON]) -> list[JSON]:
    """Return what a message holds, each part as a block."""
    parts = [content] if isinstance(content, str) else content
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]


def _image_of(block: JSON) -> str | None:
    """Return the address or the data URI of an image, in the forms of OpenAI, of LangChain and of LangChain.js."""
    match block:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} | {"type": "image", "url": str(url)}:
            return url
    mime = block.get("mime_type", block.get("mimeType"))
    data = block.get("base64", block.get("data"))
    if block.get("type") == "image" and isinstance(mime, str) and isinstance(data, str):
        return f"data:{mime};base64,{data}"
    return None


def messages_taken_in(messages: Sequence[JSON], text: str, *, pictured: bool) -> list[JSON]:
    """Return the messages once their post is taken in: no pixel stays; a post that came otherwise stands there too."""
    if messages[-1]["type"] != "human":
        content: Any = [{"type": "text", "text": text}, _IMAGE] if pictured else text
        return [*messages, {"type": "human", "id": str(uuid4()), "content": content}]
    last = messages[-1]
    if not isinstance(last["content"], str):
        last = {**last, "content": [_IMAGE if _image_of(each) else each for each in _blocks(last["content"])]}
    return [*messages[:-1], last]


def answer_message(state: Mapping[str, Any], outcome: JSON, reviewed: str = "", warnings: Iterable[str] = ()) -> JSON:
    """Return the answer to the post's message, as an update of the state; nothing if the post came in none.

    A message has one answer: what is told later of the same post takes its place.

    Args:
        state: the case.
        outcome: its outcome.
        reviewed: what a person made of it. What else would stand below, of the models, then doesn't.
        warnings: those of the calls that aren't in the state yet.
    """
    asked = next((each for each in reversed(state.get("messages") or []) if each["type"] == "human"), None)
    if asked is None:
        return {}
    head = "No verdict: a call failed"
    if outcome["outcome"] == "refusal":
        head = "No verdict: the model refused"
    elif outcome["outcome"] == "verdict":
        head = category = escape_markdown(outcome["category"])
        if outcome["hateful"] is not None:
            head = f"{'Hate speech' if outcome['hateful'] else 'Not hate speech'} ({category})"
        head += ", uncertain" if outcome.get("uncertain") else ""
    below = [reviewed] if reviewed else [DEMO_NOTICE] * bool(outcome.get("rehearsed"))
    if not reviewed:
        unfit = warnings_of_unfit_models(dict.fromkeys([*state.get("warnings", ()), *warnings]))
        below += [escape_markdown(each) for each in unfit]
    lines = [f"**{head}**", escape_markdown(outcome["explanation"]), *below]
    return {"messages": [{"type": "ai", "id": f"{asked['id']}/outcome", "content": "\n\n".join(lines)}]}
