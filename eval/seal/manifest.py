"""The seal of a run: a file that names every other one by its hash, and itself by the hash of the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from tribunal import __version__
from tribunal.errors import BadInput
from tribunal.eval.measures.metrics import METRICS
from tribunal.eval.runs.journal import RESULTS, RUN, SUPERSEDED
from tribunal.eval.runs.prices import PRICES
from tribunal.files import hash_file, read_regular, write_whole
from tribunal.schema import JSON
from tribunal.text import parse_json

SEAL, CARD, STATEMENT = "seal.json", "model-card.md", "data-statement.md"
# What every sealed run holds, and what is sealed if it is there.
SEALED = (RUN, RESULTS, METRICS, CARD, STATEMENT)
IF_THERE = (SUPERSEDED, PRICES)


def list_sealed_files(folder: Path) -> list[str]:
    """Return the names of the files of a run that a seal covers."""
    return [*SEALED, *(name for name in IF_THERE if (folder / name).is_file())]


def write_seal(folder: Path, names: Iterable[str], *, texts: bool) -> str:
    """Write the seal of these files of a folder, and return its hash.

    Raises:
        OSError: a file can't be read, or the seal can't be written.
    """
    held: JSON = {"tribunal": __version__, "texts": texts, "files": {name: hash_file(folder / name) for name in names}}
    own = _hash_rest(held)
    write_whole(folder / SEAL, _encode_seal({**held, "seal": own}))
    return own


def read_seal(folder: Path) -> JSON | None:
    """Return the seal of a folder, or None if it has none.

    Raises:
        BadInput: it was altered.
    """
    path = folder / SEAL
    if not path.exists():
        return None
    try:
        raw = read_regular(path)
        held = parse_json(raw)
        rest = {name: value for name, value in held.items() if name != "seal"}
        sound = held["seal"] == _hash_rest(rest) and _encode_seal(held).encode() == raw
        sound = sound and all(isinstance(each, str) for pair in held["files"].items() for each in pair)
        sound = sound and set(SEALED) <= set(held["files"]) <= {*SEALED, *IF_THERE}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise BadInput(f"{SEAL}: was altered")
    return dict(held)


def _hash_rest(held: JSON) -> str:
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _encode_seal(held: JSON) -> str:
    return json.dumps(held, indent=2) + "\n"
