"""The prompts that come with the project: who is asked with each, and a folder of them all to begin one's own with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from tribunal.core.templates import make_template_environment
from tribunal.core.text import parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.plugins import load_all
from tribunal.process.files import write_whole
from tribunal.prompts.sets import PromptSet, shipped_prompts
from tribunal.prompts.template import FILLED_IN, OF_THE_CASE, OF_THE_POLICY, OF_THE_POST, OF_THE_RUN, OF_THE_SYSTEM
from tribunal.settings.systems import systems


class PromptPart(NamedTuple):
    """The use of a prompt. `seat` is who is asked with it, as `--seat` names them; empty: it is a part of others."""

    seat: str
    says: str


def _read_file(name: str) -> str:
    return files("tribunal.prompts").joinpath(name).read_text("utf-8")


CATALOGUE = {name: PromptPart(*part) for name, part in parse_toml(_read_file("catalogue.toml")).items()}


def find_prompt(name: str) -> str:
    """Return the text of a prompt, with or without `.md`: a shipped one, or one of an installed system.

    Raises:
        BadInput: there is none.
    """
    sources, prompt_name = {**shipped_prompts().sources, **list_system_prompts()}, name.removesuffix(".md")
    if prompt_name not in sources:
        way = suggest_name(prompt_name, sources) or "tribunal prompts list names them all"
        raise BadInput(f"prompt: {name}: there is none of this name; {way}")
    return sources[prompt_name]


def list_system_prompts() -> dict[str, str]:
    """Return the text of each prompt of the installed systems by name.

    Raises:
        BadInput: the prompts of one can't be read.
    """
    load_all("tribunal.graphs")
    return {name: text for system in systems() for name, text in system.read_prompts().items()}


def prompt_variables(name: str) -> list[str]:
    """Return the variables that a shipped prompt has to put in, beside those that are filled in by themselves."""
    own = shipped_prompts().variables(name) - FILLED_IN - OF_THE_POST
    return sorted(own - OF_THE_SYSTEM if name.startswith("system/") else own)


def export_prompts(folder: Path) -> PromptSet:
    """Write every shipped prompt, and a README, into a new folder; whole or not at all.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    prompts = shipped_prompts()
    texts = {f"{name}.md": text + "\n" for name, text in prompts.sources.items()}
    write_new_folder(folder, {**texts, "README.md": _readme_text(folder)}, "prompts")
    return prompts


def write_new_folder(folder: Path, texts: Mapping[str, str], what: str) -> None:
    """Write files into a new folder; whole or not at all.

    Args:
        folder: where.
        texts: by the path of each file in it.
        what: what an error calls it.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    target = folder.expanduser()
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise BadInput(f"{what}: {folder}: is there already; give a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
            draft = Path(beside) / "draft"
            for name, text in texts.items():
                file = draft / name
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, text)
            if target.exists():
                target.rmdir()
            shutil.move(draft, target)
    except OSError as error:
        raise BadInput(f"{what}: {folder}: {error.strerror or error}; give a folder that can be written") from error


def _readme_text(folder: Path) -> str:
    templates = make_template_environment(_read_file, str, autoescape=False)
    return templates.get_template("README.md.jinja").render(
        folder=folder.name,
        catalogue=CATALOGUE,
        variables=prompt_variables,
        of_the_policy=OF_THE_POLICY,
        of_the_run=OF_THE_RUN,
        of_the_case=OF_THE_CASE,
        of_the_post=OF_THE_POST,
        of_the_system=OF_THE_SYSTEM,
    )
