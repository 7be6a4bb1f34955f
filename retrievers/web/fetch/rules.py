"""The rules of a robots.txt (RFC 9309, section 2.2)."""

from __future__ import annotations

import re

from tribunal.retrievers.web.fetch import USER_AGENT

_TOKEN = USER_AGENT.partition("/")[0].lower()


class Rules:
    """The rules of one robots.txt for us.

    Our own group where one names us, else the `*` group; the longest pattern that fits decides; on a tie, allow.
    Written here because the standard library's parser takes the first match and knows no wildcards, and `protego` takes
    time and memory that grow with agents × rules: 130 KB of hostile text keep it busy for 40 s.
    """

    def __init__(self, text: str) -> None:
        rules: dict[str, list[tuple[str, bool]]] = {"*": []}
        addressed: set[str] = set()
        naming = False
        for line in text.splitlines():
            field, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            match field.lower():
                case "user-agent":
                    if not naming:
                        addressed = set()
                    naming = True
                    token = value if value == "*" else re.sub(r"[^A-Za-z_-].*", "", value).lower()
                    if token in ("*", _TOKEN):
                        addressed.add(token)
                        rules.setdefault(token, [])
                case "allow" | "disallow" as verb:
                    naming = False
                    for token in addressed if value else ():
                        rules[token].append((_plain(value), verb == "allow"))
        held = rules.get(_TOKEN, rules["*"])
        self._rules = sorted(held, key=lambda rule: (len(rule[0]), rule[1]), reverse=True)

    def allow(self, path: str) -> bool:
        path = _plain(path)
        return next((allowed for pattern, allowed in self._rules if _fits(pattern, path)), True)


def _plain(path: str) -> str:
    """A path or pattern with its percent-encoding brought to one form, so that `%7E` and `~` are the same octet."""
    return re.sub(
        r"%([0-9a-fA-F]{2})",
        lambda m: chr(int(m[1], 16)) if re.match(r"[A-Za-z0-9._~-]", chr(int(m[1], 16))) else m[0].upper(),
        "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path),
    )


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern with `*` and a final `$` matches from the start of a path; greedy, so linear in its parts."""
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not rest:
        return not anchored or at == len(path)
    *middle, last = rest
    for part in middle:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if anchored:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0
