"""Compare prompt sets file by file, and exchange one prompt of a set for another set's."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.files import write_whole
from tribunal.prompts.catalogue import CATALOGUE
from tribunal.prompts.set_file import SET_FILE, format_set_file
from tribunal.prompts.sets import PromptSet, prompts_with_system, read_prompt_set
from tribunal.schema import JSON

SHIPPED = "shipped"  # how a command names the prompts that come with the project


class PromptDifference(NamedTuple):
    """A prompt that two sets have with other words: its name, who is asked with it, and the lines that differ."""

    name: str
    seat: str
    added: int
    removed: int
    lines: tuple[str, ...]

    def as_json(self) -> JSON:
        """Return it as JSON; the lines are those of a unified diff."""
        return {**self._asdict(), "lines": list(self.lines)}


def open_prompt_set(named: str, system: str | None) -> PromptSet:
    """Return the set of a folder, or the one that comes with the project.

    Args:
        named: the folder, or `shipped`.
        system: the system of one's own whose prompts belong to it, if any.

    Raises:
        BadInput: the folder holds no set, or a prompt of it has a fault.
    """
    return read_prompt_set(None if named == SHIPPED else named, system)


def list_differences(first: PromptSet, second: PromptSet) -> list[PromptDifference]:
    """Return the prompts in which two sets differ, and `set.toml`, by name."""
    found = []
    for name in sorted(first.texts.keys() | second.texts.keys()):
        one, other = first.texts.get(name, ""), second.texts.get(name, "")
        if one == other:
            continue
        lines = list(unified_diff(one.splitlines(), other.splitlines(), "A", "B", lineterm=""))[2:]
        part = CATALOGUE.get(name)
        found.append(
            PromptDifference(
                name=name,
                seat=part.seat if part else "",
                added=sum(line.startswith("+") for line in lines),
                removed=sum(line.startswith("-") for line in lines),
                lines=tuple(lines),
            )
        )
    return found


def list_exchangeable(first: PromptSet, second: PromptSet) -> list[str]:
    """Return the prompts that can be exchanged alone: those that both sets have, with other words or answers."""
    shared = first.sources.keys() & second.sources.keys()
    return sorted(name for name in shared if _prompt_of(first, name) != _prompt_of(second, name))


def _prompt_of(prompts: PromptSet, name: str) -> tuple[str, object]:
    return prompts.sources[name], prompts.file.answers.get(name)


def exchange_prompt(first: PromptSet, second: PromptSet, name: str, system: str | None) -> dict[str, str]:
    """Return the files of the first set's folder with one prompt exchanged for the second's.

    How its answers are read comes with it, and so do parts that it includes and the first set lacks.

    Args:
        first: the set whose other prompts stay.
        second: the set whose prompt is taken.
        name: the prompt.
        system: as `open_prompt_set`.
    """
    ours, own = prompts_with_system(system).sources, dict(first.own)
    taken = {name, *(second.parts_of(name) - first.sources.keys())}
    own |= {each: second.sources[each] for each in taken}
    kept = {each: names for each, names in first.file.answers.items() if each != name}
    answers = {each: names for each, names in second.file.answers.items() if each == name}
    own[SET_FILE] = format_set_file(first.file.model_copy(update={"answers": {**kept, **answers}}))
    return {each: text for each, text in own.items() if text and (each == name or ours.get(each) != text)}


def write_prompt_set(folder: Path, files: Mapping[str, str]) -> None:
    """Write prompts by name, and `set.toml`, into a folder of ours; raise `BadInput` if it can't be written."""
    try:
        if folder.exists():  # of an earlier start
            shutil.rmtree(folder)
        for name, text in files.items():
            path = folder / (name if name == SET_FILE else f"{name}.md")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.rstrip() + "\n")
    except OSError as error:
        raise BadInput(f"out: {folder}: {error.strerror or error}; give a folder that can be written") from error
