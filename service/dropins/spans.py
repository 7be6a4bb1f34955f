"""Which passages of a post its cues quote."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tribunal.schema import Record

# Words between marks of quotation of any language; an apostrophe within a word is none.
_QUOTED = re.compile(
    r"“([^”]+)”|„([^“”]+)[“”]|\"([^\"]+)\"|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|‘([^’]+)’(?!\w)"
    r"|(?<!\w)'([^']+)'(?!\w)"
)
_LEFT_OUT = re.compile(r"\s*(?:…|\.\.\.)\s*")
_LETTER = "[A-Za-z0-9_]"  # of scripts that put blanks between words


def quoted_spans(record: Record, text: str) -> list[tuple[int, int]]:
    """Where the words stand that the prosecution rests on, in order and apart from each other.

    A cue quotes the post in its claim, or is a passage of it; else in its justification. A cue that the prosecution
    withdrew is left out.

    Args:
        record: of the post.
        text: its words as they were sent.

    Returns:
        begin and end (exclusive) in UTF-16 code units, as the Perspective API counts.
    """
    stands = {
        argument.cue_id: argument.stance
        for turn in record.transcript
        for argument in turn.arguments
        if argument.stance in ("press", "withdraw")
    }
    found: set[tuple[int, int]] = set()
    for cue in record.cues:
        if stands.get(cue.id) != "withdraw":
            in_claim = set(_places([*_quotations(cue.claim), cue.claim], text))
            found |= in_claim or set(_places(_quotations(cue.justification), text))
    return [(_units(text, begin), _units(text, end)) for begin, end in _apart(found)]


def whole(text: str) -> tuple[int, int]:
    """The span of a whole text."""
    return 0, _units(text, len(text))


def _quotations(words: str) -> list[str]:
    inside = (next(filter(None, found.groups())) for found in _QUOTED.finditer(words))
    return [part.strip(" .,!?;:") for each in inside for part in _LEFT_OUT.split(each)]


def _places(quotations: list[str], text: str) -> Iterator[tuple[int, int]]:
    """Where any of the words stand in a text, whatever its letter case and line breaks."""
    for each in quotations:
        if not each.strip():
            continue
        pattern = r"\s+".join(re.escape(word) for word in each.split())
        before = f"(?<!{_LETTER})" if re.match(_LETTER, each) else ""
        after = f"(?!{_LETTER})" if re.match(_LETTER, each[-1]) else ""
        for found in re.finditer(before + pattern + after, text, re.IGNORECASE):
            yield found.span()


def _apart(spans: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that overlap made one."""
    apart: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if apart and begin < apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], end)
        else:
            apart.append((begin, end))
    return apart


def _units(text: str, place: int) -> int:
    return len(text[:place].encode("utf-16-le", "surrogatepass")) // 2
