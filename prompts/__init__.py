"""What each role is told: one Markdown file a call, in the folder of its system, and the policies in force.

`prompts.sets` fills a prompt in; `quote` brings a stranger's words into it.
"""

from __future__ import annotations

import hashlib

from tribunal.text import visible


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
