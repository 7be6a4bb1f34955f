"""The shipped prompts: the seat of each, and a folder of them all to start your own set with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from tribunal.core.templates import make_template_environment
from tribunal.core.text import parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.plugins import load_all
from tribunal.process.files import write_whole
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import PromptSet, prompts_with_system, shipped_prompts
from tribunal.prompts.template import (
    FILLED_IN,
    OF_THE_CASE,
    OF_THE_POLICY,
    OF_THE_POST,
    OF_THE_RUN,
    OF_THE_SYSTEM,
)
from tribunal.settings.graph_settings import GRAPHS
from tribunal.settings.names import POLICIES, nodes_of
from tribunal.settings.systems import system_of, systems


class PromptPart(NamedTuple):
    """The use of a prompt.

    Attributes:
        seat: who is asked with it, as `--seat` names them; empty: it is a part of others.
        says: its purpose.
        system: the standing instructions that are sent with it: `system/NAME`.
        functions: the functions of the nodes that ask with it (`GraphNode.runs`).
    """

    seat: str
    says: str
    system: str = ""
    functions: Sequence[str] = ()


class EditablePrompt(NamedTuple):
    """A prompt that a graph asks with, as the form of its settings shows it.

    Attributes:
        says: its purpose.
        text: its shipped text.
        functions: the functions of the nodes that use it; empty for a custom system.
    """

    says: str
    text: str
    functions: Sequence[str]


def _read_file(name: str) -> str:
    return files("tribunal.prompts").joinpath(name).read_text("utf-8")


CATALOGUE = {
    name: PromptPart(*part) for name, part in parse_toml(_read_file("catalogue.toml")).items()
}


def editable_prompts(graph: str) -> dict[str, EditablePrompt]:
    """Return the prompts that a graph asks with, by name: standing instructions first, then each call's own prompt.

    Args:
        graph: one of our graphs, or a `System`, by name. Any other graph has none.

    Raises:
        BadInput: the prompts of a system can't be read.
    """
    if graph not in GRAPHS:
        own = prompt_sources(graph).keys() - shipped_prompts().sources.keys()
        return {
            name: EditablePrompt(f"a prompt of {graph}", prompt_sources(graph)[name], ())
            for name in sorted(own)
        }
    asking = [node for node in nodes_of(graph) if node.asks]
    calls = {
        name: part.functions
        for name, part in CATALOGUE.items()
        if any(node.runs(part.functions) for node in asking)
    }
    systems: dict[str, list[str]] = {}
    for name, functions in calls.items():
        systems.setdefault(f"system/{CATALOGUE[name].system}", []).extend(functions)
    sources = shipped_prompts().sources
    return {
        name: EditablePrompt(CATALOGUE[name].says, sources[name], functions)
        for name, functions in {**systems, **calls}.items()
    }


def prompt_sources(graph: str) -> Mapping[str, str]:
    """Return the text of each prompt by name: the shipped prompts, and the prompts of the graph's system.

    Raises:
        BadInput: the prompts of the system can't be read.
    """
    return prompts_with_system(graph if system_of(graph) else None).sources


@lru_cache(maxsize=1)
def shipped_definition() -> str:
    """Return the definition of hate speech of the shipped policy."""
    return load_policy(POLICIES["hate"]).definition


def load_form_texts(graph: str) -> None:
    """Read the texts that the form of a graph's settings shows.

    A graph calls this when it is built: a server draws the form on its event loop, which may not read files.
    """
    shipped_definition()
    with suppress(BadInput):  # a case says what is wrong with the prompts of a system
        prompt_sources(graph)


def find_prompt(name: str) -> str:
    """Return the text of a prompt, with or without `.md`: a shipped one, or one of an installed system.

    Raises:
        BadInput: there is none.
    """
    sources = {**shipped_prompts().sources, **list_system_prompts()}
    prompt_name = name.removesuffix(".md")
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
    """Return the variables that a shipped prompt must use, without the automatic variables."""
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
        what: the name of the folder in an error.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    target = folder.expanduser()
    if target.is_symlink() or (
        target.exists() and not (target.is_dir() and not any(target.iterdir()))
    ):
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
        raise BadInput(
            f"{what}: {folder}: {error.strerror or error}; give a folder that can be written"
        ) from error


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
