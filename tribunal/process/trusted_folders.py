"""Which `.env` files the operator trusts, each by its path and the hash of what it says.

A `.env` file lies in the working folder, which may be anybody's: a cloned project, a data set. What names a place in it
(the data folder, a database, an address, a list of what is allowed) counts once the operator has said so, as with
direnv. A changed file is asked about again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_dir

from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.process.files import read_regular, write_whole

TRUST_DOTENV = "TRIBUNAL_TRUST_DOTENV"  # said in the environment of a container or of CI
_LIST = "trusted.json"
_YES, _NO = ("1", "yes", "true"), ("", "0", "no", "false")


def operators_folder() -> Path:
    """Return the data folder by the environment alone, which no `.env` file moves."""
    named = os.environ.get("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else Path(user_data_dir("tribunal", appauthor=False))


def answer_for(file: Path, raw: bytes) -> bool | None:
    """Return whether the operator trusts a `.env` file of this content, or None if that was never asked.

    Raises:
        BadInput: TRIBUNAL_TRUST_DOTENV is neither yes nor no.
    """
    said = os.environ.get(TRUST_DOTENV, "").strip().lower()
    if said in _YES:
        return True
    if said not in _NO:
        raise BadInput(f"{TRUST_DOTENV}: {said[:40]!r}: is neither yes nor no; give 1 where every .env may be trusted")
    digest, _, answer = _read_answers().get(str(file.resolve()), "").partition(" ")
    return answer == "yes" if digest == _hash(raw) else None


def remember_answer(file: Path, raw: bytes, *, trusted: bool) -> None:
    """Keep the operator's answer about a `.env` file of this content.

    Raises:
        OSError: it can't be written.
    """
    _write_answers(_read_answers() | {str(file.resolve()): f"{_hash(raw)} {'yes' if trusted else 'no'}"})


def forget_answer(file: Path) -> bool:
    """Forget the answer about a file, and return whether there was one.

    Raises:
        OSError: it can't be written.
    """
    answers = _read_answers()
    was_there = answers.pop(str(file.resolve()), None) is not None
    if was_there:
        _write_answers(answers)
    return was_there


def _read_answers() -> dict[str, str]:
    """Return the answers by file. A list that is missing or damaged holds none: the operator is asked again."""
    with suppress(OSError, ValueError):
        held = parse_json(read_regular(operators_folder() / _LIST, 2**20))
        if isinstance(held, dict):
            return {file: answer for file, answer in held.items() if isinstance(answer, str)}
    return {}


def _write_answers(answers: dict[str, str]) -> None:
    folder = operators_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / _LIST, json.dumps(answers, indent=1))


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
