"""What each role is told: one Markdown file a call, in the folder of its system, and the policies in force.

`render` fills a prompt in; `quote` brings a stranger's words into it. A prompt is a Jinja template; what is put into it
is inserted, never expanded, so braces in a post stay braces.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template, meta

# The output is a prompt, never markup, so there is nothing to escape; `quote` guards what is put in.


def _source(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


_ENVIRONMENT = Environment(
    loader=FunctionLoader(_source),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
    autoescape=False,  # noqa: S701
)

# Spelling in Arabic and Indic scripts, and the look of emoji.
_JOINERS = {"\u200c", "\u200d", "\ufe0e", "\ufe0f"}
_KEYCAPS = set("0123456789#*©®")


class PromptError(ValueError):
    """A prompt and the material for it don't match: a variable is missing, or one is left over."""


@lru_cache(maxsize=256)
def _template(name: str) -> tuple[Template, frozenset[str]]:
    source = _source(name)
    wanted = meta.find_undeclared_variables(_ENVIRONMENT.parse(source))
    return _ENVIRONMENT.from_string(source), frozenset(wanted)


def render(name: str, material: dict[str, Any]) -> str:
    """The prompt `name` (such as `arcade/indictment`) with this material in it.

    Raises:
        PromptError: a variable of the prompt is missing, or one was given that it doesn't use.
    """
    template, wanted = _template(name)
    if wanted != material.keys():
        missing, unused = sorted(wanted - material.keys()), sorted(material.keys() - wanted)
        raise PromptError(f"prompt {name}: missing {missing}, unused {unused}")
    return template.render(material)


def variables(name: str) -> frozenset[str]:
    """What the prompt `name` is filled in with."""
    return _template(name)[1]


def quote(kind: str, text: str) -> str:
    """A stranger's words between marks that they can't forge.

    The marks carry a digest of the words themselves, so a text that holds its own closing mark can't be written; and
    should one ever be found, the digest is drawn again until it doesn't occur in the text. The same text always gets
    the same marks, so equal prompts stay equal. Characters that hide or reorder text are written out (`visible`).

    Args:
        kind: what it is, in one word: post, cues, rebuttal, passage, …
        text: the words.
    """
    shown = visible(text)
    mark, salt = "", 0
    while not mark or mark in shown:
        mark = hashlib.sha256(f"{salt}:{shown}".encode()).hexdigest()[:16]
        salt += 1
    return f"<<<{kind} {mark}\n{shown}\n{kind} {mark}>>>"


def visible(text: str) -> str:
    """The text with every character that hides, reorders or breaks it written out, as in `[U+202E]`.

    Kept as they are: letters of every script, emoji, tabs and line breaks (all as `\\n`), and joiners and variation
    selectors where they do their work, which is after one letter or emoji that isn't ASCII.
    """
    return _SUSPECT.sub(_written_out, text)


# Controls, format characters, halves of surrogate pairs, and what Unicode says may be ignored when it is shown
# (Default_Ignorable_Code_Point), as a pattern, so that most posts never leave the regular expression.
_SUSPECT = re.compile(
    "\r\n?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_MOST_HIDDEN = 32


def _written_out(found: re.Match[str]) -> str:
    run = found.group()
    if run[0] == "\r":
        return "\n"
    before = found.string[found.start() - 1] if found.start() else " "
    shown = [_one_written_out(*pair) for pair in zip((before + run)[:_MOST_HIDDEN], run, strict=False)]
    if len(run) > _MOST_HIDDEN:  # written out they are eight times as long, and a post may hold nothing else
        shown.append(f"[and {len(run) - _MOST_HIDDEN} more that can't be seen]")
    return "".join(shown)


def _one_written_out(before: str, character: str) -> str:
    if character in _JOINERS and _takes_joiner(before, character):
        return character
    if unicodedata.category(character) == "Cs":
        return "\ufffd"
    return f"[U+{ord(character):04X}]"


def _takes_joiner(before: str, character: str) -> bool:
    """Between Latin letters they only hide a word, and one after the other they can spell out another text."""
    if before in _KEYCAPS:
        return character in "\ufe0e\ufe0f"
    if before in "\ufe0e\ufe0f":
        return character == "\u200d"
    return ord(before) > 0x24F and before not in _JOINERS
