"""Describe where a run was made: revision, Python, packages and lock file; and the texts that its models were given."""

from __future__ import annotations

import platform
import subprocess
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path

from tribunal.context import Context
from tribunal.files import hash_file
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set
from tribunal.schema import JSON
from tribunal.systems import system_of

_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "requirements.txt")
_SECONDS = 20  # that Git may take


def describe_environment() -> JSON:
    """Return revision, Python, packages and the lock file's hash of the project in the working folder."""
    return _describe_environment(Path.cwd())


@lru_cache(maxsize=8)
def _describe_environment(folder: Path) -> JSON:
    root = next((each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), folder)
    lock = next((root / name for name in _LOCKS if (root / name).is_file()), None)
    installed = {each.name: each.version for each in distributions() if each.name}
    return {
        "git": _describe_checkout(folder),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": dict(sorted(installed.items(), key=lambda each: each[0].casefold())),
        "lock": {"file": lock.name, "sha256": hash_file(lock)} if lock else None,
    }


def _describe_checkout(folder: Path) -> JSON | None:
    """Return the commit of a checkout and whether its tracked files are as committed; None if it is none."""
    commit = _ask_git(folder, "rev-parse", "--verify", "HEAD")
    changed = _ask_git(folder, "status", "--porcelain", "--untracked-files=no")
    return None if commit is None or changed is None else {"commit": commit, "clean": not changed}


def _ask_git(folder: Path, *arguments: str) -> str | None:
    """Return what Git prints, or None if it can't tell. No monitor that the checkout names is started."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(  # noqa: S603  # our own words
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def describe_texts(graph: str, context: Context) -> JSON:
    """Return the whole policy and every prompt of the set that a run uses."""
    system = system_of(graph)
    prompts = read_prompt_set(context.prompts, system.name if system else None)
    return {"policy": load_policy(context.policy).source, "prompts": dict(sorted(prompts.texts.items()))}
