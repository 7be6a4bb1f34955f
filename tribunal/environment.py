"""What is set outside a run: the environment, a `.env` file, and the data folder. A run's own settings beat them.

A `.env` file lies in the working folder, which may be anybody's: a cloned project, a data set. It may bring keys and
say which model is used; but it must not lead the operator's own keys, or posts, to a place of its choice. So an address
or a rule in it counts only beside a key in the same file, and is said aloud.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from platformdirs import user_data_dir

from tribunal.errors import BadInput
from tribunal.files import read_regular

FILE = ".env"
# Those that lead somewhere or lift a rule, and belong to no provider of models; those that do know their own keys.
RULES = ("TRIBUNAL_FETCH_ALLOW", "SEARXNG_URL")
KEY_NAME = re.compile(r"\w+_API_KEY(?:_\d+)?")
# By these LangSmith is reached, and its own library reads them from the process alone.
_LANGSMITH = re.compile(
    r"(?:LANGSMITH|LANGCHAIN)_(?:TRACING\w*|PROJECT|ENDPOINT|API_KEY|WORKSPACE_ID|HIDE_\w+|OTEL_\w+)"
)
_LANGSMITH_KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
_log = logging.getLogger("tribunal")
_said: set[str] = set()


class Environment(dict[str, str]):
    """The settings outside a run, by name.

    Attributes:
        beneath: the names of those that the `.env` file sets, and nothing above it.
    """

    def __init__(self, held: Mapping[str, str], beneath: Iterable[str] = ()) -> None:
        """Keep the settings."""
        super().__init__(held)
        self.beneath = frozenset(beneath)


def dotenv() -> dict[str, str]:
    """Return what the `.env` file of the working directory sets. Reads files: call it off the event loop.

    Nothing is put in for `${NAME}`: it would carry a key of the environment into an address of the file's choice.
    """
    try:
        text = read_regular(Path.cwd() / FILE, 2**20).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _say(f"{FILE}: is not read: {getattr(error, 'strerror', None) or error}")
        return {}
    from dotenv import dotenv_values  # only where there is such a file

    return {name: value for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items() if value}


def environment(beneath: Mapping[str, str] | None = None) -> Environment:
    """Return the settings outside a run: the environment, and beneath it a `.env` file. Empty ones count as unset.

    Args:
        beneath: what `dotenv` gave, if it has been read; else it is read now.
    """
    held = dotenv() if beneath is None else beneath
    above = {name: value for name, value in os.environ.items() if value}
    from_file = {name: value for name, value in held.items() if name not in above}
    has_key = any(KEY_NAME.fullmatch(name) for name in from_file)
    for name in RULES:
        if name in from_file and has_key:
            _say(f"{name}={from_file[name]} is taken from {FILE}")
        elif name in from_file:
            del from_file[name]
            _say(f"{name} is ignored: it stands in {FILE} without a key; set it in the environment")
    return Environment({**from_file, **above}, from_file)


def export_langsmith() -> None:
    """Put LangSmith's settings of the `.env` file into the process environment, beneath those that are set there.

    A command does so when it begins, before LangSmith's library is loaded. An address counts only if the key that is
    used stands in the same file.
    """
    if not (Path.cwd() / FILE).exists():
        return
    from_file = {name: value for name, value in dotenv().items() if _LANGSMITH.fullmatch(name)}
    has_key = any(from_file.get(name) for name in _LANGSMITH_KEYS)
    own_key = has_key and not any(os.environ.get(name) for name in _LANGSMITH_KEYS)
    for name, value in from_file.items():
        if os.environ.get(name):
            continue
        if name.endswith("_ENDPOINT"):
            if not own_key:
                _say(f"{name} is ignored: it stands in {FILE}, and the key doesn't; set it in the environment")
                continue
            _say(f"{name}={value} is taken from {FILE}, with the key that stands beside it")
        elif "TRACING" in name:
            _say(f"{name}={value} is taken from {FILE}: every post and prompt is traced to LangSmith")
        os.environ[name] = value


def from_dotenv(environment: Mapping[str, str], name: str) -> bool:
    """Return whether a setting comes from the `.env` file."""
    return isinstance(environment, Environment) and name in environment.beneath


def check_origin(environment: Mapping[str, str], address: str, keys: Iterable[str]) -> None:
    """Refuse an address from the `.env` file that would be used with a key from elsewhere, or with none.

    Args:
        environment: the settings outside the run.
        address: the setting that holds it.
        keys: the settings that hold the keys which are sent there.

    Raises:
        BadInput: naming the address, and where it may stand.
    """
    if not from_dotenv(environment, address):
        return
    beside = [from_dotenv(environment, key) for key in keys]
    if not beside or not all(beside):
        raise BadInput(
            f"{address}: {environment[address]!r}: stands in {FILE}, and its key doesn't; set both in {FILE}, or the "
            "address in the environment"
        )
    _say(f"{address}={environment[address]} is taken from {FILE}, with the key that stands beside it")


def setting(name: str) -> str | None:
    """Return one setting of the `environment`, or None if it is unset or empty."""
    return environment().get(name)


def data_folder() -> Path:
    """Return where this project keeps what it makes: TRIBUNAL_DATA, or the platform's own place. Not created here."""
    named = setting("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else Path(user_data_dir("tribunal", appauthor=False))


def _say(line: str) -> None:
    """Say it once in a process, where warnings go: standard error, or a server's log."""
    if line not in _said:
        _said.add(line)
        _log.warning("%s", line)
