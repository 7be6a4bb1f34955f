"""run.json: everything that the results of a run depend on, and what a run that goes on must not change."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from nodes.context import Context
from nodes.errors import BadInput
from nodes.schema import JSON
from prompts.policy import policy

RUN = "run.json"
# Settings on which no result depends.
_BESIDE = {"cache", "trace", "draw", "timeout", "attempts"}
_HELD = ("graph", "dataset", "sampling", "repeats", "settings", "models", "policy", "prompts", "n")


def describe(graph: str, dataset: JSON, sampling: JSON, repeats: int, n: int, context: Context) -> JSON:
    """What the results of a run depend on.

    Args:
        graph: its name, or its file.
        dataset: name, split, fingerprint of the files.
        sampling: how posts were chosen.
        n: how many were.
    """
    settings = context.model_dump(mode="json", exclude_defaults=True, exclude=_BESIDE)
    if "@" in (settings.get("searxng_url") or ""):
        settings["searxng_url"] = "(with a password)"
    in_force = policy(context.policy)
    return {
        "graph": graph,
        "dataset": dataset["name"],
        "data": dataset,
        "sampling": sampling,
        "repeats": repeats,
        "n": n,
        "settings": settings,
        "models": {"TRIBUNAL_MODEL": _model_of_the_environment(context)},
        "policy": {"name": in_force.name, "sha": in_force.sha},
        "tribunal": version("tribunal"),
        "prompts": prompts_hash(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "finished": None,
    }


def _model_of_the_environment(context: Context) -> str | None:
    from nodes.context import setting

    return None if context.model else setting("TRIBUNAL_MODEL") or "rehearsal"


def prompts_hash() -> str:
    """A hash of every prompt of this version."""
    digest = hashlib.sha256()
    root = files("prompts")
    for path in sorted(Path(str(root)).rglob("*.md")):
        digest.update(path.relative_to(str(root)).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def begin(folder: Path, wanted: JSON) -> JSON:
    """Open a run's folder, new or begun: write run.json, or hold it to what is wanted now.

    Returns:
        run.json as it stands.

    Raises:
        BadInput: the folder can't be used, or its run was begun with other settings; each of them, then and now.
    """
    path = folder / RUN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(folder.glob("results.jsonl")):
                raise BadInput(f"out: {folder}: has results and no {RUN}; take another folder")
            write(folder, wanted)
            return wanted
        held = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"out: {folder}: can't be used: {error}; take another folder") from error
    changed = list(_changes(held, wanted))
    if changed:
        raise BadInput(
            f"out: {folder}: its run was begun otherwise: {'; '.join(changed)}; go on as it was begun, or take another "
            "folder"
        )
    return dict(held)


def _changes(held: JSON, wanted: JSON) -> Iterator[str]:
    for name in _HELD:
        then, now = held.get(name), json.loads(json.dumps(wanted[name]))
        if then == now:
            continue
        if isinstance(then, dict) and isinstance(now, dict):
            for key in sorted(then.keys() | now.keys()):
                if then.get(key) != now.get(key):
                    yield f"{key}: then {_shown(then.get(key))}, now {_shown(now.get(key))}"
        else:
            yield f"{name}: then {_shown(then)}, now {_shown(now)}"
    if held.get("data") != wanted["data"]:
        yield "data: the files' contents differ"


def _shown(value: Any) -> str:
    said = "the default" if value is None else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= 80 else said[:77] + "…"


def write(folder: Path, run: JSON) -> None:
    """Write run.json whole, or not at all."""
    path, aside = folder / RUN, folder / f".{RUN}.part"
    aside.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", "utf-8")
    aside.replace(path)


def finish(folder: Path, run: JSON) -> None:
    """Note when the run was done."""
    write(folder, {**run, "finished": datetime.now(UTC).isoformat(timespec="seconds")})


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock goes with the process, however it ends.

    Raises:
        BadInput: another process is at it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = sqlite3.connect(folder / ".lock", timeout=0, isolation_level=None)
    try:
        try:
            held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise BadInput(
                f"out: {folder}: another process is at this run ({error}); wait for it, or stop it"
            ) from error
        yield
    finally:
        held.close()
