"""Settings outside a run: the environment, a `.env` file, and the data folder. A run's own settings override them.

A `.env` file lies in the working folder, which may be anybody's: a cloned project, a data set. It may bring keys and
say which model is used. Every other line of it (a data folder, a database, an address, a list of what is allowed, a
trace) counts only once the operator trusts the file (`tribunal.process.files`). No key lends trust to
another line.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.process.files import TRUST_DOTENV, answer_for, operators_folder, read_regular

FILE = ".env"
KEY_NAME = re.compile(r"\w+_API_KEY(?:_\d+)?")
# By these LangSmith is reached: they say where posts are traced to, its key too.
_LANGSMITH = re.compile(r"(?:LANGSMITH|LANGCHAIN)_\w+")
# What counts in a `.env` file that isn't trusted: keys of models and whose account they are, and which model is asked.
_HARMLESS = re.compile(
    rf"(?!{_LANGSMITH.pattern}){KEY_NAME.pattern}|OPENAI_(?:ORG|PROJECT)_ID|TRIBUNAL_MODEL"
)
# Lines of other programs are nothing to ask about.
_OURS = re.compile(
    rf"TRIBUNAL_\w+|{_LANGSMITH.pattern}|SEARXNG_URL|(?:OPENAI|OLLAMA|GOOGLE|GEMINI|ANTHROPIC|AZURE|AWS)_\w+"
    r"|\w+_(?:BASE_URL|API_BASE|ENDPOINT|API_VERSION)|(?i:\w+_proxy)"
)
_log = logging.getLogger("tribunal")


class DotEnv(NamedTuple):
    """The settings of a `.env` file.

    Attributes:
        lines: its settings by name.
        is_trusted: whether the operator trusts the file as it is now; None: that was never asked.
        raw: its bytes.
    """

    lines: Mapping[str, str]
    is_trusted: bool | None
    raw: bytes = b""

    @property
    def places(self) -> dict[str, str]:
        """Return the lines that count only if the file is trusted, and that the environment doesn't set itself."""
        return {
            name: value
            for name, value in self.lines.items()
            if _OURS.fullmatch(name) and not _HARMLESS.fullmatch(name) and not os.environ.get(name)
        }


class Environment(dict[str, str]):
    """The settings outside a run, by name.

    Attributes:
        beneath: the names of the settings that only the `.env` file has.
        untrusted: the lines of the `.env` file that don't count, since it isn't trusted.
    """

    def __init__(self, held: Mapping[str, str], file: DotEnv) -> None:
        """Store the environment's settings, and below them the settings of the file that count."""
        counted = {
            name: value
            for name, value in file.lines.items()
            if file.is_trusted or _HARMLESS.fullmatch(name)
        }
        super().__init__({**counted, **held})
        self.beneath = frozenset(counted) - frozenset(held)
        self.untrusted = {} if file.is_trusted else file.places


def read_dotenv() -> DotEnv:
    """Return the settings of the working directory's `.env` file. Reads files: call it off the event loop.

    Nothing is put in for `${NAME}`: it would carry a key of the environment into an address of the file's choice.
    """
    file = Path.cwd() / FILE
    try:
        raw = read_regular(file, 2**20)
        text = raw.decode("utf-8")
    except FileNotFoundError:
        return DotEnv({}, is_trusted=False)
    except (OSError, ValueError) as error:
        say_once(f"{FILE}: is not read: {getattr(error, 'strerror', None) or error}")
        return DotEnv({}, is_trusted=False)
    from dotenv import dotenv_values  # only where there is such a file

    held = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return DotEnv(
        {name: value for name, value in held.items() if value}, answer_for(file, raw), raw
    )


def environment(file: DotEnv | None = None) -> Environment:
    """Return the settings outside a run: the environment first, then a `.env` file. Empty values count as unset.

    Args:
        file: what `read_dotenv` gave, if it has been read; else it is read now.
    """
    found = Environment(
        {name: value for name, value in os.environ.items() if value}, file or read_dotenv()
    )
    if found.untrusted:
        say_once(
            f"{FILE}: {', '.join(found.untrusted)}: not in force, since you haven't said that you trust this file; run "
            f"`tribunal trust` here, or set {TRUST_DOTENV}=1 in the environment"
        )
    return found


def export_trusted_dotenv(file: DotEnv) -> None:
    """Put the lines of a trusted `.env` file that name places into the process environment, beneath what is set there.

    A command does so when it begins: other libraries, and the processes that it starts, read the process environment
    alone.
    """
    if file.is_trusted and (places := file.places):
        say_once(f"{FILE}, which you trust, sets {', '.join(places)}")
        os.environ.update(places)


def from_dotenv(environment: Mapping[str, str], name: str) -> bool:
    """Return whether a setting comes from the `.env` file."""
    return isinstance(environment, Environment) and name in environment.beneath


def check_trusted(environment: Mapping[str, str], address: str) -> None:
    """Refuse to send a post elsewhere than an untrusted `.env` file says, since the operator may have meant it.

    Args:
        environment: the settings outside the run.
        address: the setting that would hold the address.

    Raises:
        BadInput: naming the address, and how the file is trusted.
    """
    if isinstance(environment, Environment) and address in environment.untrusted:
        raise BadInput(
            f"{address}: {environment.untrusted[address]!r}: stands in {FILE}, which you haven't said that you trust; "
            f"run `tribunal trust` here, or set {address} or {TRUST_DOTENV}=1 in the environment"
        )


def setting(name: str) -> str | None:
    """Return one setting of the `environment`, or None if it is unset or empty."""
    return environment().get(name)


def data_folder(held: Mapping[str, str] | None = None) -> Path:
    """Return the folder of this project's data: TRIBUNAL_DATA, or the platform's own place. Not created here.

    Args:
        held: the `environment`, if it has been read.
    """
    named = setting("TRIBUNAL_DATA") if held is None else held.get("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else operators_folder()


@lru_cache(maxsize=256)
def say_once(line: str) -> None:
    """Log a warning once in a process: on standard error, or in a server's log."""
    _log.warning("%s", line)
