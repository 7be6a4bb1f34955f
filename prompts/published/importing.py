"""Make a prompt set from a clone of a published repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.prompts.answer_names import AnswerNames
from tribunal.prompts.catalogue import prompt_variables, write_new_folder
from tribunal.prompts.published import hvli, predict
from tribunal.prompts.set_file import SET_FILE
from tribunal.prompts.sets import PromptSet, parse_prompts, prompts_as_text, shipped_prompts
from tribunal.schema import Scheme
from tribunal.text import suggest_name

SOURCES = {"h-vli": "github.com/Sayur1n/H-VLI", "predict": "github.com/Hanyang-HCC-Lab/PREDICT"}


def import_prompts(source: str, folder: Path, to: Path, scheme: Scheme = "fine") -> PromptSet:
    """Write the prompts of a published repository into a new folder, as a set that `--prompts` runs; and return it.

    Args:
        source: one of `SOURCES`.
        folder: the user's clone of it.
        to: the new folder.
        scheme: which prompts, of a repository that has some for each scheme.

    Raises:
        BadInput: the source isn't known, the clone has another layout, or the new folder can't be written.
    """
    clone = folder.expanduser()
    if source == "h-vli":
        prompts, answers = hvli.read_hvli(clone, scheme)
        notes, extent = hvli.NOTES, f" (the scheme {scheme})"
    elif source == "predict":
        prompts, answers = predict.read_predict(clone)
        notes, extent = predict.NOTES, ""
    else:
        way_out = suggest_name(source, SOURCES) or f"give {' or '.join(SOURCES)}"
        raise BadInput(f"import: {source!r}: no such repository is known; {way_out}")
    files = {f"{name}.md": _fill_up(name, text) for name, text in prompts.items()}
    files[SET_FILE] = _as_toml(answers)
    held = {name.removesuffix(".md"): text.rstrip() for name, text in files.items()}
    made = parse_prompts(prompts_as_text(held), str(to))  # before anything is written
    points = "\n".join(f"- {note}" for note in notes)
    files["README.md"] = (
        f"# Prompts of {SOURCES[source]}{extent}\n\nMade from a clone by `tribunal prompts import {source}`. The "
        f"words are the authors', under the licence of their repository.\n\n{points}\n"
    )
    write_new_folder(to, files, "import")
    return made


def _fill_up(name: str, text: str) -> str:
    """Return a prompt with a line for each variable that ours is filled with and this one leaves out."""
    used = PromptSet("", {**shipped_prompts().sources, name: text}).variables(name)
    left_out = [each for each in prompt_variables(name) if each not in used]
    return "".join(f"{{% set _ = {each} %}}\n" for each in left_out) + text + "\n"


def _as_toml(answers: dict[str, AnswerNames]) -> str:
    lines = ["# How answers are read: our name = theirs. See docs/policies.md."]
    for prompt, names in answers.items():
        lines.append(f'\n[answers."{prompt}"]')
        for key, value in names.model_dump(exclude_defaults=True).items():
            lines.append(f"{key} = {_toml_value(value)}")
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
