"""An answer as it comes: what those who listen are shown of it, and why some can't be shown so.

A client streams only where somebody listens, which LangChain decides. Its last chunk is made of the whole body, by the
code that reads an answer that wasn't streamed; so the sum of the chunks is that answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from tribunal.scrub import SHORTEST, scrubbed_body
from tribunal.text import wellformed

# Where models that think aloud have their thoughts in LangChain's messages.
THOUGHTS = "reasoning_content"


class NotStreamed(Exception):
    """The server was asked to stream, and answered something else."""


class BrokenOff(ConnectionError):
    """The stream ended before the answer did."""

    def __init__(self) -> None:
        super().__init__("the stream ended before the answer did")


class Words:
    """A text that comes in pieces, given on without a key: a word that may be one is held back until it is whole.

    So is a break of the line, since a client may take the last one off.
    """

    def __init__(self, key: str = "") -> None:
        self._key = key if len(key) >= SHORTEST else ""
        self._held, self.given = "", ""

    def more(self, piece: str) -> str:
        """What may be given on, now that this piece has come."""
        end = len(piece)
        while end and self._may_go_on(piece[end - 1]):
            end -= 1
        whole, self._held = (self._held + piece[:end], piece[end:]) if end else ("", self._held + piece)
        return self._give(whole)

    def rest(self) -> str:
        """What was held back, now that nothing more comes."""
        whole, self._held = self._held, ""
        return self._give(whole)

    def _may_go_on(self, character: str) -> bool:
        """Whether a character has to wait for the next piece: of a key it may be, half of a pair, or a line's break."""
        if not character.isascii():
            return "\ud800" <= character <= "\udfff"
        if character == "\n":
            return True
        return bool(self._key) and (character.isalnum() or character == "\\" or character in self._key)

    def _give(self, whole: str) -> str:
        if not whole:
            return ""
        given = wellformed(whole)
        if self._key:
            given = scrubbed_body(given.encode(), [self._key]).decode()
        self.given += given
        return given


class Listeners:
    """Those who listen to one answer, as the chunks that they are given."""

    def __init__(self, key: str | None) -> None:
        """`key` is struck from what they hear."""
        self._words, self._thoughts = Words(key or ""), Words(key or "")

    def hear(self, text: str = "", thought: str = "") -> Iterator[ChatGenerationChunk]:
        """The chunks, if any, of a piece of the answer, or of what the model thinks first."""
        if thought and (heard := self._thoughts.more(thought)):
            yield _chunk("", additional_kwargs={THOUGHTS: heard})
        if text:
            yield from self._last_thought()
            if heard := self._words.more(text):
                yield _chunk(heard)

    def end(self, result: ChatResult) -> Iterator[ChatGenerationChunk]:
        """The last chunks: what was held back, and all that is known of the answer, now that it is whole."""
        yield from self._last_thought()
        message, info = result.generations[0].message, result.generations[0].generation_info or {}
        assert isinstance(message, AIMessage)  # noqa: S101 (a chat model's answer is one)
        whole, given = message.text, self._words.given
        more = {name: value for name, value in message.additional_kwargs.items() if name != THOUGHTS}
        yield _chunk(
            whole[len(given) :] if whole.startswith(given) else self._words.rest(),
            additional_kwargs=more,
            response_metadata={**(result.llm_output or {}), **info, **message.response_metadata},
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        )

    def _last_thought(self) -> Iterator[ChatGenerationChunk]:
        if heard := self._thoughts.rest():
            yield _chunk("", additional_kwargs={THOUGHTS: heard})


def _chunk(content: str, **other: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **other))
