"""What each role is told: one Markdown file a call, in the folder of its system, and the policies in force.

`render` fills a prompt in; `quote` brings a stranger's words into it. A prompt is a Jinja template; what is put into it
is inserted, never expanded, so braces in a post stay braces.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template, meta

from tribunal.text import visible

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
    the same marks, so equal prompts stay equal. Characters that hide or reorder text are written out (`text.visible`).

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
