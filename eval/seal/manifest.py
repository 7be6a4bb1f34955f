"""The seal of a run: a file that names every other one by its hash, and itself by the hash of the rest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tribunal import __version__
from tribunal.errors import BadInput
from tribunal.eval.export.results import export_tables
from tribunal.eval.measures.metrics import METRICS
from tribunal.eval.report import FIGURES, LATEX, PAGE, TEXT
from tribunal.eval.report.cards import CARD, STATEMENT
from tribunal.eval.report.samples import FILE as SAMPLES
from tribunal.eval.runs.journal import RESULTS, RUN, SUPERSEDED
from tribunal.eval.runs.prices import PRICES
from tribunal.eval.runs.results import find_run_folders
from tribunal.files import hash_file, read_regular, write_whole
from tribunal.schema import JSON
from tribunal.text import parse_json

SEAL = "seal.json"
# What every sealed run holds; what is sealed if it is there; and what was made of results, which may quote posts.
_ALWAYS = (RUN, RESULTS, METRICS, CARD, STATEMENT)
_IF_THERE = (SUPERSEDED, PRICES, "threshold.json", "fits.jsonl", "plans.jsonl")
_TABLE_FILE = re.compile(r"experiment\.json|table\.[a-z]+")  # which table, and whatever it is written as
_QUOTING = (
    PAGE,
    TEXT,
    LATEX,
    FIGURES,
    SAMPLES,
    *(f"export/{name}.{form}" for name in export_tables() for form in ("csv", "parquet")),
)
_RUN_NAME = re.compile(r"[\w=+-][\w=+.-]*", re.ASCII)


def list_sealed_files(folder: Path, *, texts: bool) -> list[str]:
    """Return the names of the files that a seal covers: of a run, or of an experiment and each of its runs.

    `texts`: what may quote posts beside the results, reports and exports, is among them.
    """
    more = (*_IF_THERE, *_QUOTING) if texts else _IF_THERE
    names = []
    for run in find_run_folders([folder]):
        prefix = "" if run == folder else f"{run.name}/"
        names += [f"{prefix}{name}" for name in _ALWAYS]
        names += [f"{prefix}{name}" for name in more if (run / name).is_file()]
    if RUN in names:
        return names
    tables = sorted(path.name for path in folder.iterdir() if _TABLE_FILE.fullmatch(path.name))
    return [*names, *(name for name in (*tables, *(_QUOTING if texts else ())) if (folder / name).is_file())]


def is_sealable(name: str) -> bool:
    """Return whether a file of this name may lie in the archive of a sealed run or experiment."""
    run, _, inside = name.partition("/")
    of_run = {*_ALWAYS, *_IF_THERE, *_QUOTING}
    if name in of_run or _TABLE_FILE.fullmatch(name):
        return True
    return bool(_RUN_NAME.fullmatch(run)) and inside in of_run


def write_seal(folder: Path, names: Iterable[str], name: str, *, texts: bool) -> str:
    """Write the seal of these files of a folder, and return its hash; `name` is what the sealed folder is called.

    Raises:
        OSError: a file can't be read, or the seal can't be written.
    """
    files = {each: hash_file(folder / each) for each in names}
    held: JSON = {"tribunal": __version__, "name": name, "texts": texts, "files": files}
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
        sound = sound and all(map(is_sealable, held["files"]))
        runs = [name.removesuffix(RUN) for name in held["files"] if name.rpartition("/")[2] == RUN]
        sound = sound and bool(runs) and {f"{run}{each}" for run in runs for each in _ALWAYS} <= held["files"].keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise BadInput(f"{SEAL}: was altered")
    return dict(held)


def read_sealed_name(folder: Path) -> str:
    """Return what the sealed folder was called, or the name of this one where a seal doesn't say it."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        name = parse_json(read_regular(folder / SEAL))["name"]
        if _RUN_NAME.fullmatch(name):
            return str(name)
    return folder.name


def _hash_rest(held: JSON) -> str:
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _encode_seal(held: JSON) -> str:
    return json.dumps(held, indent=2) + "\n"
