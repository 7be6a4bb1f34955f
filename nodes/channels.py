"""The channels of the state, and a post that comes as a chat message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.channels import LastValue
from langgraph.graph.message import add_messages
from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema

from tribunal.core.calls import DEMO_NOTICE, warnings_of_unfit_models
from tribunal.core.text import escape_markdown, shorten_repr, wellformed_json
from tribunal.errors import BadInput, WrongState
from tribunal.schema import JSON

# A key beside the channels of what `Send` gives a subgraph: no other task of this step is sent to the same node.
SENT_ALONE = "sent_alone"


class PostChannel(LastValue[Any]):
    """A channel of the post as sent: characters that no database or model accepts are repaired before storing.

    A checkpointer writes the input of a graph before any node runs, and PostgreSQL takes neither NUL nor half a
    surrogate pair.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take the update of a step; return whether there is one."""
        return super().update([wellformed_json(value) for value in values])


def merge(held: list[JSON], new: list[JSON]) -> list[JSON]:
    """Append what is new and replace what has an `id` already held.

    So a subgraph may hand back what its parent holds, and a turn edited in Studio stands in the place of the old one.

    Raises:
        WrongState: the new value is no list of entries with an id each.
    """
    try:
        return list({entry["id"]: entry for entry in (*held, *new)}.values()) if new else held
    except (TypeError, LookupError) as error:
        raise WrongState(
            f"state: {str(new)[:80]!r}: is no list of entries, each of which has an id"
        ) from error


def union(held: list[str], new: list[str]) -> list[str]:
    """Append texts that are new.

    Raises:
        WrongState: the new value is no list of texts.
    """
    if not isinstance(new, list | tuple) or not all(isinstance(each, str) for each in new):
        raise WrongState(f"state: {str(new)[:80]!r}: is no list of texts")
    return list(dict.fromkeys([*held, *new]))


class Like:
    """Marks a channel of plain JSON with the model that a node reads it as, whose JSON schema Studio shows."""

    def __init__(self, form: Any, description: str) -> None:
        """Take the model, and the description of the channel."""
        self.form = form
        self.description = description

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JSON:
        """Return the model's schema."""
        return {**handler(TypeAdapter(self.form).core_schema), "description": self.description}


def says(words: str, **more: Any) -> Any:
    """Return the description of a channel that is read as it is, which Studio shows beside its value."""
    return Field(description=words, **more)


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """Return what reads a form, made when it is first asked for: nodes read few of the channels."""
    return TypeAdapter(form)


def read_as(form: Any, channel: str, value: Any) -> Any:
    """Return the value of a channel in its form.

    Raises:
        WrongState: it has another form.
    """
    try:
        return _adapter(form).validate_python(value)
    except (ValidationError, TypeError) as error:
        raise WrongState(_describe_fault(channel, value, error)) from error


def find_wrong_channel(
    state: Mapping[str, Any], forms: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return the first channel whose form nodes can't read, and a line that names the problem.

    The outcome is left out: `nodes.verdict` checks it.
    """
    for channel in forms:
        if channel in state and channel != "outcome":
            try:
                read_as(forms[channel], channel, state[channel])
            except WrongState as wrong:
                return channel, str(wrong)
    return None


def _describe_fault(channel: str, value: Any, error: ValidationError | TypeError) -> str:
    if not isinstance(error, ValidationError):
        return f"{channel}: {shorten_repr(value)}: {error}"
    first = error.errors(include_url=False)[0]
    field = ".".join([channel, *(str(part) for part in first["loc"])])
    way = "see the state's schema for its form"
    if first["type"] == "missing":
        return f"{field}: is missing; {way}"
    return f"{field}: {shorten_repr(first['input'])}: {plain_reason(first['msg'])}; {way}"


def plain_reason(message: str) -> str:
    """Return what pydantic says is wrong, without the words that only a programmer reads."""
    return re.sub(
        r" or instance of \w+", "", message.removeprefix("Value error, ").removeprefix("Input ")
    )


_FORM = 'give {"type": "human", "content": "…"}'
_IMAGE = {"type": "text", "text": "(an image)"}


class MessagePost(NamedTuple):
    """A post as it came in a message."""

    text: str
    image: str | None


def merge_messages(held: Any, new: Any) -> list[JSON]:
    """Append messages, of any form that LangChain accepts, and replace messages of the same id.

    Raises:
        BadInput: something is no message.
    """
    try:
        messages: Any = add_messages(held or [], new or [])
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise BadInput(f"messages: {str(new)[:80]!r}: is no list of messages; {_FORM}") from error
    return [
        wellformed_json(
            {
                "type": each.type,
                **each.model_dump(mode="json", exclude_defaults=True, exclude_none=True),
            }
        )
        for each in messages
    ]


def post_in_messages(messages: Sequence[JSON]) -> MessagePost | None:
    """Return the post in the last message; None if the message isn't a person's.

    Raises:
        BadInput: the message holds something else than text and one image.
    """
    if not messages or messages[-1]["type"] != "human":
        return None
    texts = []
    images = []
    for block in _blocks(messages[-1]["content"]):
        text = block.get("text")
        if isinstance(text, str):
            texts.append(text)
        elif image := _image_of(block):
            images.append(image)
        else:
            raise BadInput(
                f"messages: {block.get('type')!r}: a post is text and an image; send nothing else"
            )
    if len(images) > 1:
        raise BadInput(f"messages: {len(images)} images: a post has one; send one")
    return MessagePost("\n".join(texts), images[0] if images else None)


def _blocks(content: str | list[str | JSON]) -> list[JSON]:
    """Return the content of a message, each part as a block."""
    parts = [content] if isinstance(content, str) else content
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]


def _image_of(block: JSON) -> str | None:
    """Return the address or the data URI of an image, in the forms of OpenAI, of LangChain and of LangChain.js."""
    match block:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} | {
            "type": "image",
            "url": str(url),
        }:
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
        last = {
            **last,
            "content": [_IMAGE if _image_of(each) else each for each in _blocks(last["content"])],
        }
    return [*messages[:-1], last]


def answer_message(
    state: Mapping[str, Any], outcome: JSON, reviewed: str = "", warnings: Iterable[str] = ()
) -> JSON:
    """Return the answer to the post's message, as an update of the state; nothing if the post came in none.

    A message has one answer: what is told later of the same post takes its place.

    Args:
        state: the case.
        outcome: its outcome.
        reviewed: a person's decision about the outcome; it replaces the models' text.
        warnings: warnings of calls that aren't in the state yet.
    """
    asked = next(
        (each for each in reversed(state.get("messages") or []) if each["type"] == "human"), None
    )
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
    return {
        "messages": [{"type": "ai", "id": f"{asked['id']}/outcome", "content": "\n\n".join(lines)}]
    }
