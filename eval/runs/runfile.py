"""run.json: everything that the results of a run depend on, and what a run that goes on must not change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tribunal.context import Context, kept_settings
from tribunal.errors import BadInput
from tribunal.eval.datasets.sampling import Plan
from tribunal.eval.runs.journal import RESULTS, SUPERSEDED, Unwritten
from tribunal.eval.runs.parts import ungathered
from tribunal.eval.runs.project import hash_code
from tribunal.files import Taken, alone, write_whole
from tribunal.graphs import GRAPHS
from tribunal.graphs import graph as load_graph
from tribunal.parsed import from_json
from tribunal.prompts.policy import policy
from tribunal.prompts.sets import prompt_set
from tribunal.retrievers.perspectives.rows import file_hash
from tribunal.schema import JSON
from tribunal.systems import system_of

RUN = "run.json"
# Settings on which no result depends.
_WITHOUT_EFFECT = {"cache", "trace", "repeat", "timeout", "attempts"}
_HELD = (
    "graph", "data", "images", "sampling", "repeats", "settings", "models", "servers", "policy", "prompts",
    "perspectives", "precedents", "first_look", "files", "code", "n", "tribunal",
)  # fmt: skip


# What a pin is called in a refusal.
_PINNED = {
    "images": "images", "servers": "the server of", "perspectives": "perspective", "precedents": "precedents",
    "first_look": "the first look's",
}  # fmt: skip
_LONGEST = 120  # characters of a value in a refusal


def describe(graph: str, dataset: JSON, sampling: JSON, repeats: int, posts: Plan, context: Context) -> JSON:
    """What the results of a run depend on.

    Args:
        graph: its name, or its file.
        dataset: name, split, fingerprint of the files.
        sampling: how posts were chosen.
        posts: which were.
    """
    settings = {name: value for name, value in kept_settings(context).items() if name not in _WITHOUT_EFFECT}
    if context.searxng_url and "searxng_url" not in settings:
        settings["searxng_url"] = "(with a password)"
    in_force = policy(context.policy)
    return {
        "graph": graph,
        "dataset": dataset["name"],
        "data": dataset,
        "sampling": sampling,
        "repeats": repeats,
        "n": len(posts),
        "images": posts.images.dump(),
        "settings": settings,
        **beside(graph, context),
        "categories": {
            "fine": [category.name for category in in_force.fine],
            "binary": [category.name for category in in_force.binary],
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "finished": None,
    }


def beside(graph: str, context: Context) -> JSON:
    """What lies beside the settings and decides results: policy, prompts, files, the environment's model, our version.

    Args:
        graph: its name, or its file.
    """
    if graph not in GRAPHS:
        load_graph(graph)  # its system is known from then on
    in_force, system = policy(context.policy), system_of(graph)
    return {
        "models": {"TRIBUNAL_MODEL": _model_of_the_environment(context)},
        "policy": {"name": in_force.name, "sha": in_force.sha},
        "tribunal": version("tribunal"),
        "prompts": prompt_set(context.prompts, system.name if system else None).dump(),
        "files": _files(context),
        "code": hash_code(graph),
    }


def _model_of_the_environment(context: Context) -> str | None:
    from tribunal.environment import setting

    return None if context.model else setting("TRIBUNAL_MODEL") or "rehearsal"


def _files(context: Context) -> JSON:
    """Return the hashes of the files that settings name, but for the policy and the prompts, which have their own."""
    named = [context.line_up, context.threshold_file, *context.perspectives]
    paths = {name: Path(name).expanduser() for name in named if name}
    return {name: file_hash(path)[:16] for name, path in paths.items() if path.is_file()}


def found_in(folder: Path) -> JSON | None:
    """The run.json of a run that has results, or had some; None where there is none yet.

    Raises:
        BadInput: the folder can't be used.
    """
    path = folder / RUN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = from_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValueError) as error:
        raise BadInput(f"out: {folder}: can't be used: {error}; take another folder") from error
    held_in = any((folder / name).exists() and (folder / name).stat().st_size for name in (RESULTS, SUPERSEDED))
    if not held_in and not ungathered(folder):
        return None  # a run that a wrong setting ended before its first result may be put right
    if held is None:
        raise BadInput(f"out: {folder}: has results and no {RUN}; take another folder")
    if not isinstance(held, dict):
        raise BadInput(f"out: {folder}: can't be used: its {RUN} holds no object; take another folder")
    return held


def begin(folder: Path, wanted: JSON) -> JSON:
    """Open a run's folder: write run.json, or hold it to what is wanted now where there are results.

    Returns:
        run.json as it stands.

    Raises:
        BadInput: the folder can't be used, or its run was begun with other settings; each of them, then and now.
    """
    held = begun(folder, wanted)
    if held is None:
        write(folder, wanted)
        return wanted
    return held


def begun(folder: Path, wanted: JSON) -> JSON | None:
    """The run.json of a run that goes on as it is wanted now; None where nothing was begun yet. Errors as `begin`."""
    held = found_in(folder)
    if held is None:
        return None
    held = with_code(held, wanted)
    if changed := list(changes(held, wanted)):
        raise begun_otherwise(folder, changed)
    return held


def with_code(held: JSON, wanted: JSON) -> JSON:
    """Return an older run.json in today's form: its graph's own file stood among the files that settings name.

    Which modules that file imported wasn't kept, so those of today are taken for them.
    """
    if "code" in held or "code" not in wanted:
        return held
    own = str(held.get("graph") or "").partition(":")[0]
    files = dict(held.get("files") or {})
    hash_then, code = files.pop(own, None), dict(wanted.get("code") or {})
    if hash_then and (path := next((each for each in code if Path(own).name == Path(each).name), None)):
        code[path] = hash_then
    return {**held, "files": files, "code": code}


def begun_otherwise(folder: object, changed: Iterable[str]) -> BadInput:
    """The refusal of a run's folder, by its path or URL, whose run was begun with other settings: each of them."""
    return BadInput(
        f"out: {folder}: its run was begun otherwise: {'; '.join(changed)}; go on as it was begun, or take another "
        "folder"
    )


def changes(held: JSON, wanted: JSON) -> Iterator[str]:
    """What decides a run's results and differs between one description of it and another, in words."""
    for name in _HELD:
        then, now = held.get(name), from_json(json.dumps(wanted.get(name)))
        if then == now:
            continue
        if isinstance(then, dict) and isinstance(now, dict):
            for key in sorted(then.keys() | now.keys()):
                if then.get(key) != now.get(key):
                    yield _change(name, key, then.get(key), now.get(key))
        else:
            yield f"{name}: then {_shown(then)}, now {_shown(now)}"


def _change(name: str, key: str, then: Any, now: Any) -> str:
    if name in _PINNED:
        missing = "not there" if name in ("perspectives", "precedents", "first_look") else "its provider's own"
        said = [missing if each is None else _shown(each) for each in (then, now)]
        return f"{_PINNED[name]} {key}: then {said[0]}, now {said[1]}"
    if (name, key) == ("data", "sha256"):
        return "data: the files' contents differ"
    if name == "code":
        once = "it is imported since" if now else "it is imported no more"
        return f"{key}: {'its content differs' if then and now else once}"
    if name == "files" and then and now:
        return f"{key}: its content differs"
    called = "dataset" if (name, key) == ("data", "name") else key
    return f"{called}: then {_shown(then)}, now {_shown(now)}"


def _shown(value: Any) -> str:
    said = "the default" if value is None else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


def write(folder: Path, run: JSON) -> None:
    """Write run.json whole, or not at all.

    Raises:
        Unwritten: it can't be written.
    """
    path = folder / RUN
    try:
        write_whole(path, json.dumps(run, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise Unwritten(f"out: {path}: can't be written: {error.strerror or error}; make room") from error


def finish(folder: Path, run: JSON) -> None:
    """Note when the run was done."""
    write(folder, finished(run))


def finished(run: JSON) -> JSON:
    """A run.json that says when the run was done."""
    return {**run, "finished": datetime.now(UTC).isoformat(timespec="seconds")}


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock goes with the process, however it ends.

    Raises:
        BadInput: another process is at it, or nothing can be written there.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(alone(folder / ".lock"))
        except Taken as error:
            raise BadInput(f"out: {folder}: another process is at this run; wait for it, or stop it") from error
        except OSError as error:
            raise BadInput(f"out: {folder}: can't be written: {error}; take another folder") from error
        yield
