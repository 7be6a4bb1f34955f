"""Decide which parts a request leaves out, and remember which parts a server refused.

A request is a list of optional parts. An error never decides whether one is left out, only which is tried first: a part
that its words or its status name, else the next group in a fixed order. So a server that refuses something in words
that nobody has seen is still answered by, after a few tries. What worked is kept for the process, by model and address,
and shared by its event loops. Nothing of it holds for ever: from time to time a call is sent in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from tribunal.core.text import count_noun
from tribunal.errors import CallFailed
from tribunal.models.faults import Fault, passes_by_itself
from tribunal.models.model_call import PARTS, ModelCall, Part

IN_WORDS: dict[Part, str] = {
    "extra": "the fields that a line-up or a role adds",
    "tool_choice": "the choice of the tool",
    "bounds": "strictness and bounds of the schema",
    "temperature": "the temperature",
    "limit": "the usual name of the token limit",
    "system": "the system role",
    "stream": "streaming",
    "format": "the form of the answer",
    "image": "the image",
}
# Dropped together where an error names nothing, one group more at each try: what costs least comes first.
GROUPS: tuple[tuple[Part, ...], ...] = (
    ("extra", "tool_choice", "bounds", "temperature", "limit"),
    ("system", "stream"),
    ("format",),
    ("format", "image", "limit"),
)
# Some servers answer a form that they don't know with a bare 500. It may be an outage as well, so each costs a try.
_GROUPS_AFTER_500: tuple[tuple[Part, ...], ...] = (("format",), PARTS)
MOST_TRIES = 6
STATUSES = frozenset({400, 404, 405, 413, 415, 422, 500, 501})
_NAMED_BY_STATUS: dict[int, Part] = {405: "stream", 413: "image", 415: "image", 501: "stream"}
_NAMED_BY_WORDS: tuple[tuple[Part, str], ...] = (
    ("stream", r"\bstream(?:ing|ed|s|_options)?\b|streamGenerateContent"),
    (
        "system",
        r"system (?:role|messages?|prompts?)(?: is| are)? not supported|developer instruction is not enabled"
        r"|only user(?:,| and) (?:assistant|model) (?:and tool )?roles|roles must alternate"
        r"|alternat\w+ (?:between )?user"
        r"|does(?:n't| not) support (?:the |a )?system (?:role|messages?|prompts?)"
        r"|(?:unknown|invalid|unsupported) role:? ?['\"`]?system",
    ),
    ("limit", r"max_(?:completion_|output_|new_)?tokens"),
    ("temperature", r"temperature"),
    ("tool_choice", r"tool_choice"),
    (
        "bounds",
        r"\b(?:min|max)(?:Items|Length)\b|['\"`](?:minimum|maximum|strict)['\"`]|array length limits|too many states"
        r"|number of (?:repetitions|rules)",
    ),
    (
        "format",
        r"response[_ ]?format|response_?(?:json_)?schema|response_?mime|json[_ ]?(?:schema|object)|json mode|structured"
        r"|grammar|guided|output_config|output_format|too many states|\btools?\b|function[_ ]call",
    ),
    (
        "image",
        r"mmproj|image input is not supported|not (?:a )?(?:multi-?modal|vision)|no (?:image|vision) support"
        r"|(?:does(?:n't| not)|endpoints found that) support (?:image|vision|multi-?modal)"
        r"|missing data required for image"
        r"|(?:image|vision|multi-?modal)\w*(?: inputs?)?(?: is| are)? (?:not (?:supported|enabled)|unsupported)"
        r"|unknown variant [`'\"]?image|image\w* is only supported by"
        r"|(?:expected|must be|should be) (?:a )?(?:valid )?[`'\"]?(?:text|string)\b",
    ),
)
_NO_SUCH_MODEL = re.compile(
    r"\bmodel\b[^.{}]{0,80}(?:does(?:n't| not) exist|not found|not exist)|no such model|model_not_found",
    re.I,
)
# After so many calls without a part, one is sent in full; each time that it is refused again, after twice as many.
RETRY_AFTER = 32
LONGEST_RETRY = 1024
# A server that has taken a request knows its parts; so many errors in a row say that it may be another by now.
OUTAGE = 20


@dataclass
class Lesson:
    """A part that was refused: how far it is stepped down, and when it is tried in full again."""

    level: int = 1
    patience: int = RETRY_AFTER
    asked: int = 0

    def is_due(self) -> bool:
        """Return whether this call is sent in full."""
        self.asked += 1
        if self.asked < self.patience:
            return False
        self.asked = 0
        self.patience = min(2 * self.patience, LONGEST_RETRY)
        return True


def _scope(part: Part, call: ModelCall) -> str:
    """Return the role that a lesson is for: a server may refuse one form's grammar and take another's."""
    return call.question.role.name if part in ("format", "bounds", "tool_choice") else ""


@dataclass
class Learnt:
    """Facts learned from a server's answers to requests for one model.

    Attributes:
        context_size: how many tokens its context has; None: that isn't known.
        lessons: the refused parts, by role and part.
        accepted: the parts that the server has accepted: role, part and level.
        futile: the error that went away by leaving nothing out.
    """

    context_size: int | None = None
    lessons: dict[tuple[str, Part], Lesson] = field(default_factory=dict)
    accepted: set[tuple[str, Part, int]] = field(default_factory=set)
    futile: tuple[int | None, str] | None = None
    errors: int = 0

    def start(self, call: ModelCall) -> None:
        """Leave out of a call the parts that the server is known to refuse."""
        for (scope, part), lesson in self.lessons.items():
            if scope == _scope(part, call) and not lesson.is_due():
                call.left_out[part] = lesson.level

    def describe(self) -> list[str]:
        """Return the lessons as text, one line each."""
        lines = [
            f"{IN_WORDS[part]}: left out{f' ({scope})' if scope else ''}"
            for (scope, part) in sorted(self.lessons)
        ]
        return lines + (
            [f"its context holds {self.context_size} tokens"] if self.context_size else []
        )


_learnt: dict[tuple[str, str, int], Learnt] = {}


def learnt_of(model: str, address: str | None, number: int = 0) -> Learnt:
    """Return what this process knows of a model at an address; `number` is that of a model object."""
    key = model, address or "", number
    return _learnt.get(key) or _learnt.setdefault(key, Learnt())


def forget_learnt(numbers: Iterable[int] | None = None) -> None:
    """Forget the facts learned about these model objects; None: about all."""
    gone = None if numbers is None else set(numbers)
    for key in list(_learnt):
        if gone is None or key[2] in gone:
            _learnt.pop(key, None)


class Ladder:
    """The fallback steps of one call: the dropped parts, the reasons, and the lessons learned."""

    def __init__(self, call: ModelCall, learnt: Learnt) -> None:
        """Begin with the request as it would be sent."""
        self._call = call
        self._learnt = learnt
        self.first: Fault | None = None
        self.tries = 1
        # with what was named left out, and nothing that was guessed
        self._full = dict(call.left_out)
        self._named: set[Part] = set()
        self._guessed: tuple[Part, ...] = ()
        self._used: set[tuple[Part, ...]] = set()
        self._dropped: list[Part] = []
        self._previous: int | Literal[""] | None = ""

    def adapt(self, fault: Fault) -> bool:
        """Leave out a part that the server may have refused; return whether to send the request again at once.

        Raises:
            CallFailed: it can't see images, and the post has only an image; or it takes images, but not this image.
        """
        if not _may_be_of_the_request(fault):
            self._previous = ""
            return False
        self.first = self.first or fault
        self._learnt.errors += 1
        if self._learnt.errors >= OUTAGE:
            self._learnt.accepted.clear()
        if self.tries >= MOST_TRIES:
            return False
        part = self._named_part(fault)
        if part == "image" and ("", part, 0) in self._learnt.accepted:  # it has taken one
            raise CallFailed(
                f"request: it takes images, but not this one: {fault.message}", kind="request"
            )
        if part is not None:
            self._named.add(part)
            if part == "image":  # without a text nothing more is answered
                self._learnt.lessons.setdefault(("", part), Lesson())
            self._drop((part,), fault)
            self._full[part] = self._call.left_out[part]
            return True
        repeats = self._previous == fault.status
        self._previous = fault.status
        if names_a_field(fault.details, self._call.own_fields):
            return False
        group, parts = next(self._groups(fault), ((), ()))
        if not parts or self._learnt.futile == (fault.status, fault.message):
            return False
        if repeats:
            self._used.add(group)
            self._drop(parts, fault)
            self._guessed = parts
        else:
            self.tries += 1
        return fault.kind != "server"  # which is tried again as any server's error

    def _groups(self, fault: Fault) -> Iterator[tuple[tuple[Part, ...], tuple[Part, ...]]]:
        """Yield each remaining group, with its parts that are sent and were never accepted before."""
        sent = self._call.sent_parts()
        call = self._call
        if not call.question.post.text:
            sent -= {"image"}
        for group in _GROUPS_AFTER_500 if fault.status == 500 else GROUPS:
            if group in self._used:
                continue
            parts = tuple(
                part
                for part in group
                if part in sent
                and (_scope(part, call), part, call.level(part)) not in self._learnt.accepted
            )
            if parts:
                yield group, parts

    def _named_part(self, fault: Fault) -> Part | None:
        """Return the part that the words or the status name as refused."""
        sent = self._call.sent_parts()
        words = fault.details
        if "extra" in sent and names_a_field(words, self._call.added_fields):
            return "extra"
        matches = [
            part
            for part, pattern in _NAMED_BY_WORDS
            if part in sent and re.search(pattern, words, re.I)
        ]
        if "image" in matches and fault.status in (500, 501):
            return "image"
        by_status = _NAMED_BY_STATUS.get(fault.status or 0)
        return next(iter(matches), by_status if by_status in sent else None)

    def _drop(self, parts: tuple[Part, ...], fault: Fault) -> None:
        self.tries += 1
        self._previous = fault.status
        for part in parts:
            self._call.drop(part)
            if part == "format" and part in self._dropped and part not in self._named:
                self._call.left_out[part] = len(self._call.forms) - 1
            self._dropped.append(part)

    # Once it is answered

    @property
    def is_unsure(self) -> bool:
        """Return whether a passing failure of the server may have been taken for a refusal."""
        return bool(self._guessed) and self._previous == 500

    def restore(self) -> dict[Part, int]:
        """Restore all parts that were dropped on a guess; return their names."""
        left_out, self._call.left_out = self._call.left_out, dict(self._full)
        return left_out

    def note_answer(self, *, is_proven: bool) -> None:
        """Record that the server has answered; `is_proven`: the part last dropped on a guess is known to be refused."""
        call = self._call
        learnt = self._learnt
        learnt.errors = 0
        learnt.futile = None
        if call.may_stream and call.is_last_estimated:
            call.left_out["stream"] = 1  # it may say what was used of a whole answer alone
            self._named.add("stream")
        # whether or not there is a step below these two
        present = call.sent_parts() | {
            "format",
            "limit",
        }
        for part in PARTS:
            scope = _scope(part, call)
            level = call.level(part)
            if part in present:
                learnt.accepted.add((scope, part, level))
                if not level:
                    learnt.lessons.pop((scope, part), None)
            if level and (part in self._named or (is_proven and part in self._guessed)):
                shared = part not in self._named and len(self._guessed) > 1
                # Of several that were dropped together, each is tried again soon: most were dropped for nothing.
                patience = 2 + self._guessed.index(part) if shared else RETRY_AFTER
                learnt.lessons.setdefault((scope, part), Lesson(patience=patience)).level = level
        if call.question.post.image and call.without_image:
            call.warn_of_unseen_image()

    def failure(self, fault: Fault) -> str:
        """Return the text of a fault that no fallback solved: the server's first message, and the attempts."""
        if self.first is None or not _may_be_of_the_request(fault):
            return fault.in_words
        if not self._named:
            self._learnt.futile = (fault.status, fault.message)
        words = self.first.in_words
        if self._dropped:
            tried = ", ".join(IN_WORDS[part] for part in dict.fromkeys(self._dropped))
            words += f" (also tried without {tried}; {count_noun(self.tries, 'request')})"
        if self._call.own_fields:
            words += f"; extra_body: {', '.join(self._call.own_fields)} is always sent; remove what the server refuses"
        return words


def names_a_field(words: str, fields: Iterable[str]) -> bool:
    """Return whether an error names one of these fields of the request's body."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words) for name in fields)


def _may_be_of_the_request(fault: Fault) -> bool:
    """Return whether a part of the request may be why: not if the words say that the fault passes."""
    if fault.kind == "request":
        return (fault.status is None or fault.status in STATUSES) and not _NO_SUCH_MODEL.search(
            fault.details
        )
    return (
        fault.kind == "server"
        and fault.status in (500, 501)
        and not passes_by_itself(fault.details)
    )
