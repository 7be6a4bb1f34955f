"""How a case was tried, as a text that records name by its hash: whoever has it can try the case again."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from tribunal import __version__
from tribunal.contents import meet
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, code_of
from tribunal.schema import JSON


def protocol(state: JSON, graph: str) -> str:
    """The hash of a case's protocol, whose text this process then knows (`tribunal.contents.met`).

    The text is a JSON object: the program's version, the graph (of one's own with the hash of its code), the settings
    that were given, and the line-up and the threshold file that these name, whole. Policy and prompts have hashes of
    their own.

    Args:
        state: the case's.
        graph: its graph, by name or as `file.py:graph` or `module:graph`.
    """
    context: JSON = state.get("context") or {}
    held: JSON = {"tribunal": __version__, "graph": graph, "settings": context.get("settings") or {}}
    held |= {name: context[name] for name in ("line_up", "threshold_file") if context.get(name) is not None}
    if graph not in GRAPHS:
        held["code_sha256"] = _hash_of_code(graph)
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    sha = hashlib.sha256(text.encode()).hexdigest()[:16]
    meet("protocol", sha, text)
    return sha


def _hash_of_code(graph: str) -> str | None:
    try:
        hashes = [_hash_of_file(path, path.stat().st_mtime_ns) for path in code_of(graph).values()]
    except (OSError, BadInput):
        return None
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


@lru_cache(maxsize=512)
def _hash_of_file(path: Path, stamp: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
