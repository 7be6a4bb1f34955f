"""A streamed answer on its way from the server to the client: rewritten event by event, whichever protocol it is in."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tribunal.core.text import SHORTEST, parse_json, scrub_body, scrub_json, wellformed
from tribunal.models.providers.wire import BrokenOff, NoAnswer, TooLarge, UsageOnTheWire
from tribunal.schema import JSON

# The fields whose text comes in pieces, over all protocols. Any other field's text is whole in its event.
_IN_PIECES = frozenset(
    {"content", "text", "thinking", "reasoning_content", "reasoning", "refusal", "partial_json"}
)
# Clients keep some 4 KB for each event of an answer.
MOST_EVENTS = 50_000
Path = tuple[str | int, ...]
# A text by its place, and whether it is a thought: Gemini has both in one place.
Place = tuple[Path, bool]


class EventStream:
    """The events of one answer: server-sent events, or lines of JSON.

    A key is struck out of them, also where it comes in pieces. An error among them, and an end before the answer's own,
    are raised.
    """

    def __init__(
        self, key: str, *, lines: bool = False, normalise: Callable[[JSON], None] | None = None
    ) -> None:
        """Begin before the first event.

        Args:
            key: is struck out.
            lines: whether each line is an event.
            normalise: changes an event in place before it is read.
        """
        self._key = key
        self._lines = lines
        self._normalise = normalise
        self._rest = b""
        self._begun: list[bytes] = []
        self._words: dict[Place, HeldBackText] = {}
        self._templates: dict[Place, tuple[list[bytes], JSON]] = {}
        self._ended = False
        self._count = 0
        self._usage = UsageOnTheWire()

    def feed(self, part: bytes) -> bytes:
        """Return what may be passed on, now that this part has come.

        Raises:
            NoAnswer: an event is an error.
            TooLarge: there are more than `MOST_EVENTS`.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        given = []
        for line in lines:
            self._begun.append(line.rstrip(b"\r"))
            if self._lines or not self._begun[-1]:
                given += self._rewrite_event(self._begun)
                self._begun = []
        return b"".join(given)

    def close(self) -> bytes:
        """Return the remaining text at the end of the stream.

        Raises:
            BrokenOff: the answer isn't whole.
            NoAnswer: as `feed`.
        """
        given = [self.feed(b"\n") if self._rest else b"", self.feed(b"\n") if self._begun else b""]
        if not self._ended:
            raise BrokenOff
        return b"".join([*given, *self._flush_words(list(self._words)), *self._tell_usage()])

    def _rewrite_event(self, lines: list[bytes]) -> list[bytes]:
        """Return an event as it is passed on, after the events that it completes."""
        beside = []
        data = []
        for line in lines:
            field, _, value = line.partition(b":")
            if self._lines or field in (
                b"data",
                b"error",
            ):  # some servers name an error's data `error`
                data.append(line if self._lines else value.removeprefix(b" "))
            elif line:
                beside.append(line)
        raw = b"\n".join(data)
        if raw == b"[DONE]":
            self._ended = True
            return [
                *self._flush_words(list(self._words)),
                *self._tell_usage(),
                self._encode_event(beside, raw),
            ]
        if not raw.strip():
            return [self._encode_event(beside, None)] if beside else []
        try:
            event = parse_json(raw)
        except ValueError:
            return [self._encode_event(beside, raw)]
        if not isinstance(event, dict) or event.get("error"):
            raise NoAnswer(scrub_json(event, [self._key]))
        if self._normalise:
            self._normalise(event)
        if event.get("type") == "ping":
            return [self._encode_event(beside, raw)]
        self._count += 1
        if self._count > MOST_EVENTS:
            raise TooLarge(f"the answer comes in more than {MOST_EVENTS:,} pieces")
        choices = event.get("choices") or event.get("candidates") or []
        ends = (
            any(
                each.get("finish_reason") or each.get("finishReason")
                for each in choices
                if isinstance(each, dict)
            )
            or event.get("done") is True
            or event.get("type") == "message_stop"
            or bool((event.get("delta") or {}).get("stop_reason"))
            or bool(event.get("promptFeedback"))
        )
        self._ended |= ends
        event = self._usage.clean_event(event, is_last=ends)
        present = dict(_find_pieces(event, ()))
        due = self._flush_words([place for place in self._words if place not in present])
        for place, piece in present.items():
            words = self._words.setdefault(place, HeldBackText(self._key))
            if not ends:
                self._templates[place] = (beside, event)
            _set_text(event, place[0], words.add_piece(piece) + (words.take_rest() if ends else ""))
        return [*due, self._encode_event(beside, json.dumps(event).encode())]

    def _tell_usage(self) -> list[bytes]:
        """Return the event with the usage of the whole stream, where its protocol has one."""
        event = self._usage.last_event()
        return [self._encode_event([], json.dumps(event).encode())] if event else []

    def _flush_words(self, places: list[Place]) -> list[bytes]:
        """Return events with the words that were held back: the last of their kind, without other content."""
        due = []
        for place in places:
            rest = self._words[place].take_rest()
            if rest and place in self._templates:
                beside, template = self._templates[place]
                event = copy.deepcopy(template)
                for (other, _), _ in list(_find_pieces(event, ())):
                    _set_text(event, other, "")
                _set_text(event, place[0], rest)
                due.append(self._encode_event(beside, json.dumps(event).encode()))
        return due

    def _encode_event(self, beside: list[bytes], data: bytes | None) -> bytes:
        """Return an event as it is passed on, without the key: also in the fields that are whole."""
        data = data and scrub_body(data, [self._key])
        if self._lines:
            return (data or b"") + b"\n"
        told = [b"data: " + line for line in data.split(b"\n")] if data is not None else []
        return b"\n".join([*beside, *told]) + b"\n\n"


class HeldBackText:
    """Passes a text on in pieces, without a key: a word that may be a key is held back until it is complete."""

    def __init__(self, key: str = "") -> None:
        """Begin with an empty text."""
        self._key = key if len(key) >= SHORTEST else ""
        self._held = ""

    def add_piece(self, piece: str) -> str:
        """Return what may be given on, now that this piece has come."""
        end = len(piece)
        while end and self._may_go_on(piece[end - 1]):
            end -= 1
        whole, self._held = (
            (self._held + piece[:end], piece[end:]) if end else ("", self._held + piece)
        )
        return self._without_key(whole)

    def take_rest(self) -> str:
        """Return the text that was held back, at the end of the stream."""
        whole = self._held
        self._held = ""
        return self._without_key(whole)

    def _may_go_on(self, character: str) -> bool:
        """Return whether a character has to wait for the next piece: part of a key, or half of a surrogate pair."""
        if not character.isascii():
            return "\ud800" <= character <= "\udfff"
        return bool(self._key) and (
            character.isalnum() or character == "\\" or character in self._key
        )

    def _without_key(self, whole: str) -> str:
        given = wellformed(whole)
        return scrub_body(given.encode(), [self._key]).decode() if self._key and given else given


def _find_pieces(value: Any, path: Path) -> Iterator[tuple[Place, str]]:
    """Yield the texts in an event that come in pieces, each with its place."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    thought = isinstance(value, dict) and value.get("thought") is True
    for name, each in items:
        if isinstance(each, str):
            if name in _IN_PIECES:
                yield ((*path, name), thought), each
        else:
            yield from _find_pieces(each, (*path, name))


def _set_text(event: Any, path: Path, text: str) -> None:
    for name in path[:-1]:
        event = event[name]
    event[path[-1]] = text
