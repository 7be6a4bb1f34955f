"""Foreign text, made safe to read, to store and to show.

Here stand the one table of characters that nobody sees, the one reader of JSON and TOML of others, and the one place
that strikes out keys. That is done at the door, before anything is cut off, kept, logged or shown: a text that was cut
first would keep the part of a key that no longer looks like one.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote_plus

# Spelling in Arabic and Indic scripts, and the look of emoji.
_JOINERS = {"\u200c", "\u200d", "\ufe0e", "\ufe0f"}
_KEYCAPS = set("0123456789#*©®")

# Controls that aren't white space, format characters, and what Unicode says may be ignored when it is shown
# (Default_Ignorable_Code_Point): the inside of a class of a regular expression.
_HIDDEN = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Line breaks of a kind that only some programs break a line at, and signs that reach over the characters after them.
_BREAKS = "\x0b\x0c\x85\u2028\u2029"
_SURROGATES = "\ud800-\udfff"
_SIGNS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"

_GONE = re.compile(f"[{_HIDDEN}]")
_GONE_BUT_JOINERS = re.compile(f"(?![{''.join(sorted(_JOINERS))}])[{_HIDDEN}]")
# As a pattern, so that most posts never leave the regular expression.
_SUSPECT = re.compile(f"\r\n?|[{_HIDDEN}{_BREAKS}{_SIGNS}{_SURROGATES}]+")
_HARMFUL = re.compile(f"[{_HIDDEN}{_BREAKS}{_SIGNS}{_SURROGATES}]")
_MOST_HIDDEN = 32
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_MOST_DIGITS = 300  # of a whole number; a float has 308 at most
_LONE = re.compile(r"[\ud800-\udfff]")
REPLACED = "\ufffd"
"""The sign that stands for what can't be read, stored or sent."""


def nearest_names(word: str, known: Iterable[str]) -> list[str]:
    """Return the known word that is nearly this word, or the two most similar words. Letter case doesn't count."""
    folded = {each.casefold(): each for each in known}
    wrong = word.casefold()
    found = get_close_matches(wrong, folded, n=1, cutoff=0.8) or get_close_matches(
        wrong, folded, n=2, cutoff=0.5
    )
    return [folded[each] for each in found]


def suggest_name(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown word, `did you mean rounds?`; empty if no known word is similar."""
    found = nearest_names(word, known)
    return f"did you mean {' or '.join(found)}?" if found else ""


def wellformed(text: str) -> str:
    """Return the text with characters that can't be stored or sent, NUL and surrogates, replaced by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", REPLACED)
    if text.isascii() or not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def wellformed_json(value: Any) -> Any:
    """Return the same JSON with every text in it well formed, names among them."""
    if isinstance(value, str):
        return wellformed(value)
    if isinstance(value, list | tuple):
        return [wellformed_json(part) for part in value]
    if isinstance(value, dict):
        return {wellformed_json(name): wellformed_json(part) for name, part in value.items()}
    return value


def one_line(text: str) -> str:
    """Return the text with every run of white space, line breaks among it, as one blank."""
    return " ".join(text.split())


def shorten_repr(value: object) -> str:
    """Return a value as an error shows it, cut to 80 characters."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def shared_start(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


def without_hidden(text: str, *, joiners: bool = False) -> str:
    """Return the text without the characters that nobody sees.

    Args:
        text: any.
        joiners: keep joiners and variation selectors, with which Persian, Indic scripts and emoji are written.
    """
    return (_GONE_BUT_JOINERS if joiners else _GONE).sub("", text)


def normalize_text(text: str) -> str:
    """Return a text in NFKC, case folded, without invisible marks, white space as one blank: its words stay."""
    return " ".join(without_hidden(unicodedata.normalize("NFKC", text)).casefold().split())


def equality_key(text: str) -> str:
    """Return what equal texts share: all but letter case, white space, character width and signs at the ends."""
    words = normalize_text(text)
    return _EDGES.sub("", words) or words


def make_visible(text: str) -> str:
    r"""Return the text with every character that hides, reorders or breaks it written out, as in `[U+202E]`.

    Kept as they are: letters of every script, emoji, tabs and line breaks (all as `\n`), and joiners and variation
    selectors where they do their work, which is after one letter or emoji that isn't ASCII.
    """
    return text if text.isascii() and text.isprintable() else _SUSPECT.sub(_written_out, text)


# What begins markup in Markdown, wherever it stands. At a line's start, numbers and dashes may still make lists.
_MARKUP = re.compile(r"[\\`*_\[\]<>&#|~$!]|:(?=/)")


def escape_markdown(text: str) -> str:
    """Return foreign text as it is put into Markdown, where it loads nothing and is read as it was written."""
    return _MARKUP.sub(r"\\\g<0>", make_visible(text))


# The full-width signs begin a formula in East Asian versions of Excel.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?%?")


def escape_cell(value: Any) -> Any:
    """Return a cell of CSV or TSV that commands neither a terminal nor a spreadsheet; only texts are changed.

    Hidden characters are written out, as by `make_visible`. One quotation mark stands before a formula, and before
    quotation marks that stand before one, so that `restore_cell` can remove it.
    """
    if not isinstance(value, str) or (value.isascii() and value.isalnum()):
        return value
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{make_visible(value)}" if is_formula else make_visible(value)


def restore_cell(text: str) -> str:
    """Return a cell of CSV or TSV without the quotation mark of `escape_cell`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def escape_json(written: str) -> str:
    """Return JSON with every such character as JSON escapes it. They stand only inside strings, so it stays equal."""
    return _HARMFUL.sub(_as_escapes, written)


def _as_escapes(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _written_out(found: re.Match[str]) -> str:
    run = found.group()
    if run[0] == "\r":
        return "\n"
    before = found.string[found.start() - 1] if found.start() else " "
    shown = [
        _one_written_out(*pair) for pair in zip((before + run)[:_MOST_HIDDEN], run, strict=False)
    ]
    if (
        len(run) > _MOST_HIDDEN
    ):  # written out they are eight times as long, and a post may hold nothing else
        shown.append(f"[and {len(run) - _MOST_HIDDEN} more that can't be seen]")
    return "".join(shown)


def _one_written_out(before: str, character: str) -> str:
    if character in _JOINERS and _takes_joiner(before, character):
        return character
    if unicodedata.category(character) == "Cs":
        return "\ufffd"
    return f"[U+{ord(character):04X}]"


def _takes_joiner(before: str, character: str) -> bool:
    """Return whether a joiner does its work. Between Latin letters it only hides a word; several can spell a text."""
    if before in _KEYCAPS:
        return character in "\ufe0e\ufe0f"
    if before in "\ufe0e\ufe0f":
        return character == "\u200d"
    return ord(before) > 0x24F and before not in _JOINERS


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as "1 case" or "2,000 cases"; the plural is the noun with an s by default."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


class TooDeep(ValueError):
    """It is nested more deeply than can be read."""


def _parse_whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(
            f"it holds a number of {len(digits)} digits, more than anything counts with"
        )
    return int(digits)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; raise `ValueError` if two have one name, as only the last would be read."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"an object has the name {twice!r} twice")
    return members


_JSON = json.JSONDecoder(parse_int=_parse_whole_number)
_UNIQUE_JSON = json.JSONDecoder(parse_int=_parse_whole_number, object_pairs_hook=_unique_names)


def parse_json(text: str | bytes, *, unique: bool = False) -> Any:
    """Return the value of a JSON text; bytes are UTF-8, UTF-16 or UTF-32.

    Raises:
        ValueError: it isn't JSON, or holds a whole number that no float could; `TooDeep` where it is nested too deeply;
            with `unique` also where an object has two members of one name.
    """
    decoder = _UNIQUE_JSON if unique else _JSON
    try:
        return decoder.decode(
            text
            if isinstance(text, str)
            else text.decode(json.detect_encoding(text), "surrogatepass")
        )
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None


def parse_json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value that begins at a place in a text, and where it ends.

    Raises:
        ValueError: as `parse_json` with `unique`.
    """
    try:
        return _UNIQUE_JSON.raw_decode(text, at)
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None


def parse_toml(text: str | bytes) -> dict[str, Any]:
    """Return the content of a TOML text, in UTF-8.

    Raises:
        ValueError: it isn't TOML; `TooDeep` where it is nested too deeply.
    """
    try:
        return tomllib.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None


Told = TypeVar("Told")

# A shorter key is a placeholder, such as `none` or `EMPTY`, and an ordinary word of answers.
SHORTEST = 8
_STRUCK = "[key]"
# What looks like a key. An answer may speak of a ring-bearer, so that a token after that word has a digit or is long.
_KEY_LIKE = re.compile(
    r"\b(?:sk-(?:(?:proj|ant|svcacct|admin|or)-[\w*-]{6,}|(?=[A-Za-z_-]*[\d*])[\w*-]{6,})|AIza[\w-]{10,}"
    r"|tribunal_[0-9a-f]{12}_[\w-]{8,}"  # the service's own
    r"|(?i:Bearer|api[-_]key[=:])\s*(?:(?=[A-Za-z_.*-]*\d)[\w.*-]{8,}|[\w.*-]{20,}))",
    re.ASCII,
)
_BEGINS_ONE = ("sk-", "aiza", "bearer", "api-key", "api_key", "tribunal_")
# A printable character other than the quotation mark and the backslash, as JSON may write it; and how one begins, since
# every answer in JSON has other escapes.
_ESCAPES = ("\\u00", "\\U00", "\\/")
_ESCAPED = re.compile(
    r"(?<!\\)((?:\\\\)*)\\(?:u00(2[013-9a-f]|[3-46-7][0-9a-f]|5[0-9abdef])|(/))", re.IGNORECASE
)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return the text, well formed, without keys: known keys, halves of them, and strings that look like a key.

    Args:
        text: whole, with nothing cut off yet.
        secrets: the known keys.
    """
    whole = wellformed(text)
    for secret in sorted(secrets, key=len, reverse=True):  # one key may begin like another
        if len(secret) >= SHORTEST:
            whole = _strike_key(whole, secret)
            encoded = _encoded(secret)
            if encoded != secret:
                whole = _strike_key(whole, encoded)
    return (
        _KEY_LIKE.sub(_STRUCK, whole)
        if any(map(whole.lower().__contains__, _BEGINS_ONE))
        else whole
    )


def scrub_json(told: Told, secrets: Iterable[str]) -> Told:
    """Return the same JSON with every text in it scrubbed, names among them."""
    held: Any = told
    if type(held) is str:
        held = scrub(held, secrets)
    elif isinstance(held, Mapping):
        held = {
            scrub_json(name, secrets): scrub_json(value, secrets) for name, value in held.items()
        }
    elif isinstance(held, list | tuple):
        held = [scrub_json(value, secrets) for value in held]
    return held  # type: ignore[no-any-return]


def scrub_body(raw: bytes, secrets: Iterable[str]) -> bytes:
    """Return the body of an answer with the known keys struck out, and nothing else changed."""
    body = raw.decode("latin-1")
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            body = _strike_key(body, secret)
    return body.encode("latin-1")


def _strike_key(text: str, secret: str) -> str:
    """Return the text without a key, and without half of it or more, as a text has it that somebody else has cut."""
    length = max(SHORTEST, (len(secret) + 1) // 2)
    plain = _ESCAPED.sub(_unescaped, text) if any(map(text.__contains__, _ESCAPES)) else text
    if secret[:length] not in plain and secret[-length:] not in plain:
        return text
    whole = plain.replace(secret, _STRUCK)
    struck = _strike_beginnings(whole, secret, length, _STRUCK)
    struck = _strike_beginnings(struck[::-1], secret[::-1], length, _STRUCK[::-1])[::-1]
    return text if struck == plain else struck


def _strike_beginnings(text: str, secret: str, length: int, mark: str) -> str:
    """Strike what begins as the key does, for at least this length.

    Such a piece begins a word: two numbers may have much in common.
    """
    kept = []
    at = 0
    while (found := text.find(secret[:length], at)) != -1:
        end = found + length
        before = text[found - 1 : found]
        if before.isalnum() and before.isascii():
            kept.append(text[at : found + 1])
            at = found + 1
        else:
            kept += [text[at:found], mark]
            at = end + shared_start(text[end : end + len(secret)], secret[length:])
    return "".join([*kept, text[at:]])


_encoded = lru_cache(maxsize=64)(quote_plus)  # it takes longer than to look for a key


def _unescaped(found: re.Match[str]) -> str:
    return found[1] + (found[3] or chr(int(found[2], 16)))
