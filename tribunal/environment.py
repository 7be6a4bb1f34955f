"""What is set outside a run: the environment, a `.env` file, and the data folder. A run's own settings beat them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values
from platformdirs import user_data_dir


def dotenv() -> dict[str, str]:
    """What the `.env` file of the working directory sets. Reads files: call it off the event loop."""
    return {name: value for name, value in dotenv_values(Path.cwd() / ".env").items() if value}


def environment(beneath: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings outside a run: the environment, and beneath it a `.env` file. Empty ones count as unset.

    Args:
        beneath: what `dotenv` gave, if it has been read; else it is read now.
    """
    held = dotenv() if beneath is None else beneath
    return {**held, **{name: value for name, value in os.environ.items() if value}}


def setting(name: str) -> str | None:
    """One setting of the `environment`; None where it is unset or empty."""
    return environment().get(name)


def data_folder() -> Path:
    """Where this project keeps what it makes: TRIBUNAL_DATA, else the platform's own place for it. Not created here."""
    named = setting("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else Path(user_data_dir("tribunal", appauthor=False))
