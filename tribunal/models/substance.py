"""Find reasons of a model that say nothing: by their form only, in any language, without asking a model.

It can't tell a good reason from a bad one. It finds a text that goes round in circles, holds no words, repeats the
prompt, was cut off, or is a bare label.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from tribunal.models.wire_schema import MOST_CHARACTERS, allowed_values
from tribunal.prompts.marks import find_mark, without_material

# The fields of forms that hold reasons, in our forms and in those of a system of one's own.
REASONS = frozenset(
    {"argument", "explanation", "justification", "rationale", "reason", "reasoning"}
)
# Fields that may say "none", or quote one word, and still may not go round in circles.
REMARKS = frozenset({"claim", "errors", "missing", "suggestion", "thought"})

_LONGEST_PERIOD = 600
_FEWEST_ROUNDS = 5
_SHORTEST_TAIL = 60
_END = 8  # characters at the end of a text, by which earlier rounds are looked for
_RUN = re.compile(r"(.|[^\w\s]{2,3})\1{2,}", re.DOTALL)
# UTF-8 bytes, and the share of them that zlib leaves of a text in circles. The test of this module measures them.
_PACKED = ((2_000, 0.15), (200, 0.33), (60, 0.38))
# a text with so many digits, and more than so many a letter, holds no words
_FEWEST_DIGITS = 8
_DIGITS_A_LETTER = 2
_SHORTEST_CUT = 100
# Of a copy: its words in a row that stand so in the prompt, the share of all words that are in such a row, and the same
# where no word at all is new.
_ROW = 4
_COPIED = 0.8
_COPIED_WITHOUT_A_NEW_WORD = 0.65
_FEWEST_WORDS_OF_A_CHANGED_COPY = 6
_MOST_WORDS_OF_A_LABEL = 4
_LABEL_WORDS = REASONS | {
    "a", "abstain", "agree", "agreed", "agrees", "concede", "conceded", "concedes", "disagree", "false", "hate",
    "hateful", "hatred", "holds", "is", "it", "n", "na", "neutral", "no", "non", "none", "not", "null", "offensive",
    "ok", "post", "press", "pressed", "rebut", "rebuts", "refute", "refuted", "refutes", "speech", "string", "supports",
    "the", "this", "true", "uncertain", "undecided", "undefined", "unknown", "withdraw", "withdrawn", "yes",
}  # fmt: skip


class EmptyField(NamedTuple):
    """A field of an answer whose text says nothing: its place, such as `arguments.0.argument`, and the problem."""

    field: str
    problem: str


def find_empty_fields(answer: BaseModel, *, prompt: str, post: str) -> list[EmptyField]:
    """Return the reasons of a filled-in form that say nothing.

    Args:
        answer: the form.
        prompt: the prompt. Text between marks in it may be quoted.
        post: the words of the post.
    """
    found = []
    for where, name, text, form in _iter_texts(answer):
        # The claim of a cue quotes the post, and its justification gives the reason; a step's claim is the reason.
        is_reason = name in REASONS or (name == "claim" and not REASONS & form.model_fields.keys())
        problem = _find_problem(text, form, name, is_reason, prompt, post)
        if problem:
            found.append(EmptyField(where, problem))
    return found


def empty_the_fields(answer: Any, fields: set[str], at: str = "") -> Any:
    """Return a copy of a form in which these fields hold no text."""
    if at in fields:
        return ""
    if isinstance(answer, list):
        return [
            empty_the_fields(each, fields, f"{at}.{place}".lstrip("."))
            for place, each in enumerate(answer)
        ]
    if isinstance(answer, BaseModel):
        held = {name: getattr(answer, name) for name in type(answer).model_fields}
        return answer.model_copy(
            update={
                name: empty_the_fields(value, fields, f"{at}.{name}".lstrip("."))
                for name, value in held.items()
            }
        )
    return answer


def repeats_itself(text: str) -> bool:
    """Return whether a text says the same few hundred characters, or fewer, time after time: to its end, or mostly."""
    size = len(text)
    end = text[-_END:]
    at = size - _END
    while (at := text.rfind(end, 0, max(0, at + _END - 1))) >= 0 and (
        period := size - _END - at
    ) <= _LONGEST_PERIOD:
        tail = max(_FEWEST_ROUNDS * period, _SHORTEST_TAIL)
        if size < tail:
            break
        if text[-tail:-period] == text[period - tail :]:
            return True
    # Laughter, drawn-out letters and rows of signs are no circles.
    return _packs_small(text) and _packs_small(_RUN.sub(r"\1\1", text))


def _packs_small(text: str) -> bool:
    held = text.encode("utf-8", "replace")
    least = next((share for size, share in _PACKED if len(held) >= size), 0)
    return bool(least) and len(zlib.compress(held, 1)) < least * len(held)


def _iter_texts(value: Any, at: str = "") -> Iterator[tuple[str, str, str, type[BaseModel]]]:
    """Yield the place of each reason and remark of a form, its field, its text and the form that it belongs to."""
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from _iter_texts(each, f"{at}{place}.")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            held = getattr(value, name)
            if not isinstance(held, str):
                yield from _iter_texts(held, f"{at}{name}.")
            elif held and (name in REASONS or name in REMARKS):
                yield f"{at}{name}", name, held, type(value)


def _find_problem(
    text: str, form: type[BaseModel], name: str, is_reason: bool, prompt: str, post: str
) -> str:
    """Return the problem of a text, as the end of a sentence that begins with its name; empty if there is none."""
    mark = find_mark(text)
    if mark and mark not in post:  # a post may hold what looks like one
        return "holds the marks that stand around material in a prompt"
    if repeats_itself(text):
        return "repeats itself"
    if len(text) >= _SHORTEST_CUT and len(text) == _longest_text(form, name) and text[-1].isalnum():
        return "was cut off at its greatest length"
    words = split_words(text)
    if is_reason:
        letters = sum(map(str.isalpha, text))
        digits = sum(map(str.isdigit, text))
        if not letters or (digits >= _FEWEST_DIGITS and digits > _DIGITS_A_LETTER * letters):
            return "holds no words"
        if len(words) <= _MOST_WORDS_OF_A_LABEL and _label_words(form).issuperset(words):
            return "is a label and no reason"
    if len(words) > _ROW and _is_copied(words, *_rows_of_prompt(_our_words(prompt))):
        return "is copied from the prompt"
    return ""


def _longest_text(form: type[BaseModel], name: str) -> int:
    """Return how many characters of a field a server with grammars lets a model write."""
    extra = form.model_fields[name].json_schema_extra
    return (
        int(str(extra.get("maxLength", MOST_CHARACTERS)))
        if isinstance(extra, dict)
        else MOST_CHARACTERS
    )


@lru_cache(maxsize=512)
def _label_words(form: type[BaseModel]) -> frozenset[str]:
    labels = [str(value) for values in allowed_values(form).values() for value in values]
    return _LABEL_WORDS | {word for each in labels for word in split_words(each)}


def _is_copied(words: list[str], rows: frozenset[tuple[str, ...]], known: frozenset[str]) -> bool:
    """Return whether most of a text occurs word for word in the prompt."""
    in_a_row = [False] * len(words)
    for at, row in enumerate(_rows(words)):
        if row in rows:
            in_a_row[at : at + _ROW] = [True] * _ROW
    copied = sum(in_a_row) / len(words)
    if len(words) < _FEWEST_WORDS_OF_A_CHANGED_COPY:
        return copied == 1
    return copied >= _COPIED or (copied >= _COPIED_WITHOUT_A_NEW_WORD and known.issuperset(words))


_our_words = lru_cache(maxsize=32)(without_material)


@lru_cache(maxsize=128)
def _rows_of_prompt(instructions: str) -> tuple[frozenset[tuple[str, ...]], frozenset[str]]:
    """Return the rows of words of a prompt, and its words; its headings name things, as a reason may."""
    words = split_words(
        "\n".join(line for line in instructions.splitlines() if not line.startswith("#"))
    )
    return frozenset(_rows(words)), frozenset(words)


def _rows(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[at:] for at in range(_ROW)), strict=False)


# A character of a script without blanks is a word of its own.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


def split_words(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
