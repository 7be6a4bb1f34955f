"""The file that says what a run is, and the surroundings that it ran in."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path

from tribunal import __version__
from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.eval.datasets.sampling import SamplePlan
from tribunal.process.files import hash_file, read_regular, write_whole
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set
from tribunal.runner.journal import CHAINED, RESULTS, RUN, SUPERSEDED, report_unwritten
from tribunal.runner.pins import describe_surroundings, list_changes
from tribunal.schema import JSON
from tribunal.settings.context import Context, settings_for_record
from tribunal.settings.systems import system_of

IMPORTED = "imported"  # stands for the graph in a run of imported predictions
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "requirements.txt")
_SECONDS = 20  # that Git may take


def describe_environment() -> JSON:
    """Return revision, Python, packages and the lock file's hash of the project in the working folder."""
    return _describe_environment(Path.cwd())


@lru_cache(maxsize=8)
def _describe_environment(folder: Path) -> JSON:
    root = next(
        (each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), folder
    )
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
    prompts = read_prompt_set(
        context.prompts, system.name if system else None, context.prompt_texts
    )
    policy = load_policy(context.policy, context.policy_definition)
    return {"policy": policy.source, "prompts": dict(sorted(prompts.texts.items()))}


# Settings on which no result depends.
_WITHOUT_EFFECT = {"cache", "trace", "repeat", "timeout", "attempts"}


def describe_run(
    graph: str | None,
    dataset: JSON,
    sampling: JSON,
    repeats: int,
    posts: SamplePlan,
    context: Context,
) -> JSON:
    """Return what the results of a run depend on, but for its pins; without a `graph`, predictions were imported."""
    settings = {
        name: value
        for name, value in settings_for_record(context).items()
        if name not in _WITHOUT_EFFECT
    }
    if context.searxng_url and "searxng_url" not in settings:
        settings["searxng_url"] = "(with a password)"
    in_force = load_policy(context.policy, context.policy_definition)
    surroundings: JSON = {
        "policy": {"name": in_force.name, "sha": in_force.sha},
        "tribunal": __version__,
    }
    texts: JSON = {"policy": in_force.source}
    if graph is not None:
        surroundings = describe_surroundings(graph, context)
        texts = describe_texts(graph, context)
    return {
        "graph": graph or IMPORTED,
        "dataset": dataset["name"],
        "data": dataset,
        "sampling": sampling,
        "repeats": repeats,
        "n": len(posts),
        "images": posts.images.dump(),
        **({"images_left_out": posts.labels._asdict()} if posts.labels.left_out else {}),
        "settings": settings,
        **surroundings,
        "categories": {
            "fine": [category.name for category in in_force.fine],
            "binary": [category.name for category in in_force.binary],
        },
        "texts": texts,
        "environment": describe_environment(),
        "chain": CHAINED,
        "started": _utc_now(),
        "finished": None,
    }


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def begin_run(folder: Path, wanted: JSON) -> JSON:
    """Return the run.json of a run that goes on, or write that of a new one.

    Raises:
        BadInput: the folder can't be used, or its run was begun with other settings; each of them, then and now.
    """
    held = read_begun_run(folder)
    if held is not None:
        held = check_unchanged(held, wanted, folder)
        here = wanted.get("environment")
        known = [held.get("environment"), *held.get("continued", ())]
        if here != known[-1]:  # the results from here on are made otherwise
            held = {**held, "continued": [*known[1:], here]}
            write_run_file(folder, held)
        return held
    write_run_file(folder, wanted)
    return wanted


def read_begun_run(folder: Path) -> JSON | None:
    """Return the run.json of a run that has or had results, or None; raise `BadInput` if the folder can't be used."""
    path = folder / RUN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = parse_json(read_regular(path)) if path.exists() else None
    except (OSError, ValueError) as error:
        raise BadInput(f"out: {folder}: can't be used: {error}; take another folder") from error
    if any((folder / "parts").glob("part-*.parquet")):
        raise BadInput(
            f"out: {folder}: an earlier version left results in parts; finish it there, or take another"
        )
    if not any(
        (folder / name).exists() and (folder / name).stat().st_size
        for name in (RESULTS, SUPERSEDED)
    ):
        return None  # a run that a wrong setting ended before its first result may be put right
    if held is None:
        raise BadInput(f"out: {folder}: has results and no {RUN}; take another folder")
    if not isinstance(held, dict):
        raise BadInput(
            f"out: {folder}: can't be used: its {RUN} holds no object; take another folder"
        )
    return held


def check_unchanged(held: JSON, wanted: JSON, where: object) -> JSON:
    """Return the run.json of a run; raise `BadInput` if it was begun with other settings, each then and now."""
    changed = list(list_changes(held, wanted))
    if changed:
        raise BadInput(
            f"out: {where}: its run was begun otherwise: {'; '.join(changed)}; go on as it was begun, or take another "
            "folder"
        )
    return held


def write_run_file(folder: Path, run: JSON, *, finished: bool = False) -> None:
    """Write run.json whole, or not at all; with the time if the run is finished."""
    path = folder / RUN
    with report_unwritten(f"out: {path}"):
        write_whole(path, encode_run_file(run, finished=finished))


def encode_run_file(run: JSON, *, finished: bool = False) -> str:
    """Return the text of a run.json; with the time if the run is finished."""
    return (
        json.dumps(
            {**run, "finished": _utc_now()} if finished else run, indent=2, ensure_ascii=False
        )
        + "\n"
    )
