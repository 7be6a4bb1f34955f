"""Prompt sets: the shipped prompts, and a folder of your own whose files replace them.

A prompt is a Jinja template in a sandbox. Its material is inserted, never expanded, so braces in a post stay
braces. It calls nothing, reads no attribute but a category's, and includes only prompts of the set. Strangers' words
are put in between their marks, whole or not at all: no text of theirs is in the sandbox, only `Material`, which a
template can't take apart.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import TemplateError, meta, nodes

from tribunal.core.text import parse_json, suggest_name
from tribunal.errors import BadInput, WrongState
from tribunal.process.files import read_regular, read_text
from tribunal.prompts.marks import Material, Ours, PromptError
from tribunal.prompts.policy_parts import Category, Clause
from tribunal.prompts.set_file import SET_FILE, parse_set_file
from tribunal.prompts.template import (
    FILLED_IN,
    OF_THE_POST,
    OF_THE_SYSTEM,
    check_template,
    iter_includes,
    make_sandbox,
)
from tribunal.schema import JSON
from tribunal.settings.contents import NamedTexts, remember_text, remembered_text
from tribunal.settings.context import Context
from tribunal.settings.systems import system_of

SHIPPED = "tribunal"
EDITED = "+edited"  # follows the name of a set some of whose prompts are edited


def _is_marked(value: object) -> bool:
    """Return whether a value may be put into a prompt: any text of it is ours, or between marks."""
    if isinstance(value, tuple | list):
        return all(map(_is_marked, value))
    return (
        value is None
        or value == ""
        or isinstance(value, Ours | Material | Category | Clause | int | float)
    )


class PromptSet:
    """Every prompt by its name, such as `arcade/indictment`, and a hash of them all.

    Attributes:
        name: of the set.
        sources: the text of each prompt.
        own: the files of your own folder: prompts by name, and its `set.toml`.
        file: the content of its `set.toml`.
        texts: `sources`, and the text of `set.toml`.
        sha: the hash of `texts`.
    """

    def __init__(
        self, name: str, sources: Mapping[str, str], own: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Keep the prompts; each is compiled when it is first asked with."""
        self.name = name
        self.sources = sources
        self.own = own
        self.file = parse_set_file(own.get(SET_FILE, ""), f"{name}/{SET_FILE}")
        self.texts = {**sources, SET_FILE: own[SET_FILE]} if SET_FILE in own else sources
        digest = hashlib.sha256()
        for each, source in sorted(self.texts.items()):
            digest.update(f"{each}\0{source}\0".encode())
        self.sha = digest.hexdigest()[:16]
        self._sandbox = make_sandbox(sources)
        self._variables: dict[str, frozenset[str]] = {}

    def dump(self) -> JSON:
        """Return the set as a record names it."""
        tuned = {} if self.file.tuned is None else {"tuned_for": self.file.tuned.family}
        return {"name": self.name, "sha": self.sha, **tuned}

    def render(self, name: str, material: Mapping[str, Any]) -> str:
        """Return the prompt with this material in it.

        Raises:
            PromptError: a variable of the prompt is missing, one was given that it doesn't use, or one holds a text
                that is neither ours nor marked.
            BadInput: the prompt applies an operation to its material that isn't possible.
        """
        variables = self.variables(name)
        if variables != material.keys():
            missing = sorted(variables - material.keys())
            unused = sorted(material.keys() - variables)
            raise PromptError(f"prompt {name}: missing {missing}, unused {unused}")
        bare = [each for each, value in material.items() if not _is_marked(value)]
        if bare:
            raise PromptError(
                f"prompt {name}: {', '.join(bare)}: plain text would have no marks; mark it (tribunal.prompts.marks)"
            )
        try:
            return self._sandbox.get_template(name).render(material).strip("\n")
        except (TemplateError, TypeError, ArithmeticError) as error:
            raise BadInput(f"prompts: {self.name}: {name}.md: {error}; mend the prompt") from error

    def with_prompt(self, name: str, text: str) -> PromptSet:
        """Return the set with one prompt more; itself where it holds one of this name, or there is no text."""
        return self if not text or name in self.sources else _extend_set(self, name, text)

    def variables(self, name: str) -> frozenset[str]:
        """Return the names of the variables of the prompt, and of the prompts that it includes."""
        if name not in self._variables:
            named = (name, *self.parts_of(name))
            trees = [self._sandbox.parse(self.sources[each]) for each in named]
            self._variables[name] = frozenset[str]().union(
                *map(meta.find_undeclared_variables, trees)
            )
        return self._variables[name]

    def parts_of(self, name: str) -> set[str]:
        """Return the names of the prompts that a prompt includes, directly or through others."""
        found: set[str] = set()
        for start, whole in iter_includes(self._sandbox.parse(self.sources[name])):
            for each in (
                [start] if whole else [each for each in self.sources if each.startswith(start)]
            ):
                found |= {each, *self.parts_of(each)}
        return found


@lru_cache(maxsize=64)
def _extend_set(prompts: PromptSet, name: str, text: str) -> PromptSet:
    extended = PromptSet(prompts.name, {**prompts.sources, name: text}, prompts.own)
    check_template(f"prompts: {name}.md", name, text, extended.sources)
    return extended


@lru_cache(maxsize=1)
def shipped_prompts() -> PromptSet:
    """Return the prompts that come with the project."""
    root = Path(str(files("tribunal.prompts")))
    texts = {_prompt_name(root, path): read_text(path).strip() for path in root.rglob("*.md")}
    return PromptSet(SHIPPED, texts)


@lru_cache(maxsize=32)
def prompts_with_system(name: str | None) -> PromptSet:
    """Return the shipped prompts and, if a custom system is named, the system's prompts.

    Raises:
        BadInput: there is no such system in this process, or a prompt of it has a fault.
    """
    if name is None:
        return shipped_prompts()
    system = system_of(name)
    if system is None:
        raise BadInput(
            f"context.system: {name[:80]!r}: there is none in this process; import its package"
        )
    own = system.read_prompts()
    prompts = PromptSet(name, {**shipped_prompts().sources, **own})
    for each, text in own.items():
        check_template(f"prompts: {each}.md", each, text, prompts.sources)
    return prompts


def _prompt_name(root: Path, path: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def prompts_as_text(held: Mapping[str, str]) -> str:
    """Return prompts by name as one text, which `parse_prompts` reads."""
    return json.dumps(dict(held), sort_keys=True, ensure_ascii=False)


class _PromptFolders(NamedTexts):
    """The texts that the setting `prompts` names: folders, each as one text. A case holds its prompts by name."""

    def read_place(self, name: str) -> str:
        """Return the prompts of a folder. README and LICENSE are ignored.

        Raises:
            BadInput: the folder can't be read, or holds no prompt, or a file that is none.
        """
        root = Path(name).expanduser()
        own = dict[str, str]()
        known = sorted(shipped_prompts().sources)
        try:
            if not root.is_dir():
                raise BadInput(
                    f"prompts: {name}: is no folder; give one with prompts, such as arcade/judge.md"
                )
            for path in sorted(root.rglob("*")):
                within = path.relative_to(root)
                hidden = any(part.startswith(".") for part in within.parts)
                if path.is_dir() or hidden or path.stem.upper() in ("README", "LICENSE", "NOTICE"):
                    continue
                if path.suffix != ".md" and within.as_posix() != SET_FILE:
                    raise _unknown_prompt(f"prompts: {path}", within.as_posix(), known)
                name_in_set = SET_FILE if path.suffix != ".md" else _prompt_name(root, path)
                own[name_in_set] = read_regular(path).decode("utf-8").rstrip()
        except BadInput:
            raise
        except (OSError, ValueError) as error:
            raise BadInput(
                f"prompts: {name}: {getattr(error, 'strerror', None) or error}; mend the folder"
            ) from error
        if not own.keys() - {SET_FILE}:
            raise BadInput(f"prompts: {root}: holds no prompt; the prompts are {', '.join(known)}")
        return prompts_as_text(own)

    def text_from(self, held: Any) -> str:
        """Return the prompts stored in a case.

        Raises:
            BadInput: the stored value is no set of prompts.
        """
        if not isinstance(held, Mapping) or not all(
            isinstance(each, str) for each in held.values()
        ):
            raise BadInput(
                "context.prompts: are no prompts; give the text of each by its name, such as arcade/judge"
            )
        return prompts_as_text(held)


def _is_part(name: str) -> bool:
    """Return whether a custom prompt is only a part that others include."""
    return name.rpartition("/")[2].startswith("_")


def _unknown_prompt(place: str, within: str, known: Iterable[str]) -> BadInput:
    near = suggest_name(within, [f"{name}.md" for name in known])
    way_out = near or f"the prompts are {', '.join(sorted(known))}"
    return BadInput(f"{place}: no prompt is called so; {way_out}")


@lru_cache(maxsize=64)
def parse_prompts(text: str, folder: str, system: str | None = None, edits: str = "") -> PromptSet:
    """Return the prompts in force: edited prompts, then the prompts of this text, then ours. All are checked.

    A prompt whose name begins with `_` is none by itself: the set's others include it.

    Args:
        text: of the prompts of a folder (`prompts_as_text`); empty if there is no folder.
        folder: its path, for errors.
        system: the custom system whose prompts are among ours, if any.
        edits: of the setting `prompt_texts` (`prompts_as_text`); empty if it is not set.

    Raises:
        BadInput: there is no prompt of such a name, or one has a fault; with file and line.
    """
    base = prompts_with_system(system)
    root = Path(folder).expanduser()
    own: JSON = parse_json(text) if text else {}
    edited: JSON = parse_json(edits) if edits else {}
    parse_set_file(own.get(SET_FILE, ""), root / SET_FILE).check_prompts(
        base.sources, root / SET_FILE
    )
    files = {name: each for name, each in own.items() if name != SET_FILE}
    places = {name: f"prompts: {root / f'{name[:80]}.md'}" for name in files}
    places |= {name: f"prompt_texts: {name[:80]}" for name in edited}
    texts = {**files, **edited}
    for name, place in places.items():
        if name not in base.sources and not _is_part(name):
            raise _unknown_prompt(place, f"{name[:80]}.md", base.sources)
    called = root.resolve().name if text else base.name
    name_of_set = f"{called}{EDITED}" if edited else called
    stripped = {name: each.strip() for name, each in texts.items()}
    prompts = PromptSet(name_of_set, {**base.sources, **stripped}, own)
    for name, place in places.items():
        check_template(place, name, texts[name], prompts.sources)
    for name, place in places.items():
        _check_variables(place, name, texts[name], prompts, base)
    return prompts


PROMPT_TEXTS = _PromptFolders("prompts", "Markdown", parse_prompts, "give a folder")


def read_prompt_set(
    folder: str | None, system: str | None = None, edits: Mapping[str, str] = MappingProxyType({})
) -> PromptSet:
    """Return the prompts in force: edited prompts, then the prompts of this folder, then ours. Blocks.

    Args:
        folder: the setting `prompts`.
        system: the custom system, if any.
        edits: the setting `prompt_texts`.

    Raises:
        BadInput: the folder can't be read, a file is no prompt of ours, or a prompt has a fault; with file and line.
    """
    if folder is None and not edits:
        return prompts_with_system(system)
    text = "" if folder is None else PROMPT_TEXTS.read(folder)
    return parse_prompts(text, folder or "", system, prompts_as_text(edits) if edits else "")


def _check_variables(place: str, name: str, text: str, prompts: PromptSet, base: PromptSet) -> None:
    """Check that a prompt has the variables that ours is filled with, and what `ask` fills in by itself."""
    if _is_part(name):
        return
    system = name.startswith("system/")
    optional = FILLED_IN | OF_THE_POST if name == "post" else FILLED_IN
    needed = frozenset[str]() if system else base.variables(name) - optional
    known = OF_THE_SYSTEM if system else needed | optional
    variables = prompts.variables(name)
    unknown = sorted(variables - known)
    if unknown:
        way_out = suggest_name(unknown[0], known) or f"it is filled with {', '.join(sorted(known))}"
        names = make_sandbox({}).parse(text).find_all(nodes.Name)
        # or in another file
        line = next((f", line {node.lineno}" for node in names if node.name == unknown[0]), "")
        raise BadInput(f"{place}{line}: there is no {unknown[0]!r} here; {way_out}")
    missing = sorted(needed - variables)
    if missing:
        raise BadInput(
            f"{place}: leaves out {', '.join(missing)}; put it in, or write {{% set _ = {missing[0]} %}} where "
            "it is left out on purpose"
        )


def recorded_prompts(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name and the hash of the prompts that a case began with; empty where it has none.

    Raises:
        WrongState: the stored value is something else.
    """
    recorded = state.get("prompts") or {}
    if not isinstance(recorded, Mapping):
        raise WrongState(
            f"prompts: {str(recorded)[:80]!r}: is no JSON object; give the name and the sha of the prompts"
        )
    return recorded


async def prompts_of_case(state: Mapping[str, Any], context: Context) -> PromptSet:
    """Return the prompts of a case: the prompts stored in it, so that a later edit of the folder changes nothing.

    Args:
        state: the case.
        context: its settings.

    Raises:
        BadInput: they are none, or a client of this server may not set them. As `read_prompt_set`, if none are there.
    """
    system = (state.get("context") or {}).get("system")
    if not isinstance(system, str | None):
        raise BadInput(
            f"context.system: {type(system).__name__}: is no name; give the name of a system, or leave it out"
        )
    prompts = await load_prompts(context.prompts, state, system=system, edits=context.prompt_texts)
    if remembered_text("prompts", prompts.sha) is None:
        remember_text("prompts", prompts.sha, prompts_as_text(prompts.texts))
    return prompts


async def load_prompts(
    folder: str | None,
    case: Mapping[str, Any] | None = None,
    *,
    afresh: bool = False,
    system: str | None = None,
    edits: Mapping[str, str] = MappingProxyType({}),
) -> PromptSet:
    """Return a `read_prompt_set`, read off the event loop and once.

    Args:
        folder: the setting `prompts`.
        case: a case that has begun: its stored prompts are used.
        afresh: check whether the folder has changed, so that every case starts from its current state.
        system: the custom system that tries the case, if any.
        edits: the setting `prompt_texts`.

    Raises:
        BadInput: as `read_prompt_set`; or a client of this server may not set the prompts of the case.
    """
    if folder is None and not edits:
        ready = system is None and shipped_prompts.cache_info().currsize
        return shipped_prompts() if ready else await asyncio.to_thread(prompts_with_system, system)
    text = ""
    if folder is not None:
        text = await (
            PROMPT_TEXTS.load(folder, afresh=True)
            if afresh
            else PROMPT_TEXTS.text_of_case(case, folder)
        )
    written = prompts_as_text(edits) if edits else ""
    return await asyncio.to_thread(parse_prompts, text, folder or "", system, written)
