"""Prompt sets: the prompts that come with the project, and a folder of one's own whose files take their places.

A prompt is a Jinja template in a sandbox. What is put into it is inserted, never expanded, so braces in a post stay
braces. It calls nothing, reads no attribute but a category's, and includes only prompts of the set. Strangers' words
are put in between their marks, whole or not at all: no text of theirs is in the sandbox, only `Material`, which a
template can't take apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tribunal.contents import read_from_file, written
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.opened import opened
from tribunal.prompts.marks import Material, Ours, PromptError, shown
from tribunal.prompts.policy import Category
from tribunal.schema import JSON
from tribunal.systems import system_of
from tribunal.text import meant

SHIPPED = "tribunal"
# What a system message may say of the policy, and what a role's prompt may; `ask` fills these in by itself.
OF_THE_SYSTEM = frozenset(
    ("name", "definition", "exclusions", "excuses", "together", "groups", "categories", "question", "labels")
) | {"language"}
OF_THE_POLICY = frozenset(("excuses", "together", "category_examples", "kinds"))
# What a role's prompt may say of the settings of the run; filled in in the same way.
OF_THE_RUN = frozenset(("label_first", "boxes"))
_ATTRIBUTES = ("name", "meaning", "index", "first", "last")  # of a category, and of a loop
_FILTERS = ("capitalize", "default", "first", "indent", "join", "last", "length", "lower", "replace", "title", "trim")
# What is made of a part of a prompt after it has been filled in could take off its marks.
_MADE_OF_PARTS = (nodes.FilterBlock, nodes.AssignBlock, nodes.Macro, nodes.CallBlock, nodes.Import, nodes.FromImport)
_MADE_OF_VALUES = (nodes.Filter, nodes.Concat, nodes.Add, nodes.Mul, nodes.Mod, nodes.Getitem, nodes.For)
# Variables that hold strangers' words, in the prompts that are filled with them.
STRANGERS = {
    "appeal", "before", "debate", "defence", "earlier", "evidence", "examples", "grounds", "history", "hits",
    "judgement", "known", "missing", "opinions", "opposing", "others", "own", "page", "post", "precedents",
    "prosecution", "query", "reference", "reflection", "responses", "thoughts", "title", "transcript", "tried",
}  # fmt: skip


class _Sandbox(ImmutableSandboxedEnvironment):
    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr in _ATTRIBUTES and super().is_safe_attribute(obj, attr, value)

    def is_safe_callable(self, obj: Any) -> bool:
        return False


def _as_shown(value: Any) -> Any:
    return shown(value) if isinstance(value, Material) else value


def _fit(value: object) -> bool:
    """Whether a value may be put into a prompt: any text of it is ours, or between marks."""
    if isinstance(value, tuple | list):
        return all(map(_fit, value))
    return value is None or value == "" or isinstance(value, Ours | Material | Category | int | float)


def _environment(sources: Mapping[str, str]) -> _Sandbox:
    made = _Sandbox(
        loader=DictLoader(sources),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
        auto_reload=False,
        finalize=_as_shown,
    )
    made.globals.clear()
    made.filters = {name: made.filters[name] for name in _FILTERS}
    return made


@dataclass(frozen=True, eq=False)
class PromptSet:
    """Every prompt by its name, such as `arcade/indictment`, and a hash of them all."""

    name: str
    sources: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict)  # those of a folder of one's own
    sha: str = field(init=False)
    _sandbox: _Sandbox = field(init=False, repr=False)
    _ready: dict[str, tuple[Template, frozenset[str]]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        digest = hashlib.sha256()
        for name, source in sorted(self.sources.items()):
            digest.update(f"{name}\0{source}\0".encode())
        object.__setattr__(self, "sha", digest.hexdigest()[:16])
        object.__setattr__(self, "_sandbox", _environment(self.sources))

    def dump(self) -> JSON:
        """As a record names it."""
        return {"name": self.name, "sha": self.sha}

    def render(self, name: str, material: Mapping[str, Any]) -> str:
        """The prompt with this material in it.

        Raises:
            PromptError: a variable of the prompt is missing, one was given that it doesn't use, or one holds a text
                that is neither ours nor marked.
            BadInput: what the prompt does with its material can't be done.
        """
        template, wanted = self._template(name)
        if wanted != material.keys():
            missing, unused = sorted(wanted - material.keys()), sorted(material.keys() - wanted)
            raise PromptError(f"prompt {name}: missing {missing}, unused {unused}")
        if bare := [each for each, value in material.items() if not _fit(value)]:
            raise PromptError(
                f"prompt {name}: {', '.join(bare)}: plain text would stand bare; mark it (tribunal.prompts.marks)"
            )
        try:
            return template.render(material).strip("\n")
        except (TemplateError, TypeError, ArithmeticError) as error:
            raise BadInput(f"prompts: {self.name}: {name}.md: {error}; mend the prompt") from error

    def including(self, name: str, text: str) -> PromptSet:
        """Return the set with one prompt more; itself where it holds one of this name, or there is no text."""
        return self if not text or name in self.sources else _including(self, name, text)

    def variables(self, name: str) -> frozenset[str]:
        """What the prompt is filled in with, and the prompts that it includes."""
        return self._template(name)[1]

    def _template(self, name: str) -> tuple[Template, frozenset[str]]:
        if name not in self._ready:
            tree = _Inlined(self._sandbox, self.sources).visit(self._sandbox.parse(self.sources[name], name))
            template = Template.from_code(self._sandbox, self._sandbox.compile(tree, name, name), {})
            self._ready[name] = (template, frozenset(self._wanted(name)))
        return self._ready[name]

    def _wanted(self, name: str) -> set[str]:
        tree = self._sandbox.parse(self.sources[name])
        wanted = meta.find_undeclared_variables(tree)
        for start, whole in _included(tree):
            for each in [start] if whole else [each for each in self.sources if each.startswith(start)]:
                wanted |= self._wanted(each)
        return wanted


@lru_cache(maxsize=64)
def _including(held: PromptSet, name: str, text: str) -> PromptSet:
    made = PromptSet(held.name, {**held.sources, name: text}, held.own)
    _check_alone(Path(f"{name}.md"), name, text, made.sources)
    return made


class _Inlined(NodeTransformer):
    """Puts a template that is drawn in by its whole name in that place, once for all: to draw it in each time costs
    more than to fill it."""

    def __init__(self, sandbox: _Sandbox, sources: Mapping[str, str]) -> None:
        self._sandbox, self._sources = sandbox, sources

    def visit_Include(self, node: nodes.Include) -> nodes.Node:
        named = node.template
        if not (isinstance(named, nodes.Const) and node.with_context and named.value in self._sources):
            return node
        tree = self.visit(self._sandbox.parse(self._sources[named.value], named.value))
        # Parts that another template fills stand in a template of their own.
        return node if tree.find((nodes.Extends, nodes.Block)) else nodes.Scope(tree.body, lineno=node.lineno)


def _included(tree: nodes.Template) -> Iterator[tuple[str, bool]]:
    """The names of the templates that one draws in, or how they begin where they end in a variable."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        named = node.template  # type: ignore[attr-defined]
        first = named.nodes[0] if isinstance(named, nodes.Concat) else named
        yield (first.value if isinstance(first, nodes.Const) else "", first is named)


@lru_cache(maxsize=1)
def shipped() -> PromptSet:
    """The prompts that come with the project."""
    root = Path(str(files("tribunal.prompts")))
    return PromptSet(SHIPPED, {_name(root, path): path.read_text("utf-8").strip() for path in root.rglob("*.md")})


@lru_cache(maxsize=32)
def with_system(name: str | None) -> PromptSet:
    """Return the prompts that come with the project and, where a system of one's own is named, its own beside them.

    Raises:
        BadInput: there is no such system in this process, or a prompt of it has a fault.
    """
    if name is None:
        return shipped()
    system = system_of(name)
    if system is None:
        raise BadInput(f"context.system: {name[:80]!r}: there is none in this process; import its package")
    own = system.read_prompts()
    made = PromptSet(name, {**shipped().sources, **own})
    for each, text in own.items():
        _check_alone(Path(f"{each}.md"), each, text, made.sources)
    return made


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def prompt_set(folder: str | None, system: str | None = None) -> PromptSet:
    """The prompts in force: those of this folder, and ours where it has none. Every one of them is checked.

    Where a system of one's own is named, its prompts are among ours.

    A file whose name begins with `_` is no prompt by itself: the set's others include it. README and LICENSE are let
    be.

    Raises:
        BadInput: the folder can't be read, a file is no prompt of ours, or a prompt has a fault; with file and line.
    """
    if folder is None:
        return with_system(system)
    return opened(("prompts", folder, system), lambda: _prompt_set(folder, with_system(system)))


def _prompt_set(folder: str, base: PromptSet) -> PromptSet:
    root = Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise BadInput(f"prompts: {folder}: is no folder; give one with prompts, such as arcade/judge.md")
        own = {path: read_regular(path).decode("utf-8") for path in sorted(_prompts_in(root, base))}
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"prompts: {folder}: {getattr(error, 'strerror', None) or error}; mend the folder") from error
    named = {_name(root, path): (path, text) for path, text in own.items()}
    made = _checked(root.resolve().name, named, base)
    read_from_file("prompts", written(made.own))
    return made


def _checked(name: str, own: Mapping[str, tuple[Path, str]], base: PromptSet) -> PromptSet:
    """The set of that name: these prompts, each with the file that an error names, and `base` where there is none."""
    texts = {each: text.strip() for each, (_, text) in own.items()}
    made = PromptSet(name, {**base.sources, **texts}, texts)
    for each, (path, text) in own.items():
        _check_alone(path, each, text, made.sources)
    for each, (path, text) in own.items():
        _check_filled(path, each, text, made, base)
    return made


@lru_cache(maxsize=8)
def set_of_case(name: str, own: tuple[tuple[str, str], ...], system: str | None) -> PromptSet:
    """Return the set of prompts that lies in a case.

    Raises:
        BadInput: a name is none of a prompt, or a prompt has a fault.
    """
    base = with_system(system)
    known = base.sources
    for each, _ in own:
        if each not in known and not each.rpartition("/")[2].startswith("_"):
            raise BadInput(f"context.prompts: {each[:80]}: no prompt is called so")
    return _checked(name, {each: (Path(f"{each}.md"), text) for each, text in own}, base)


def _prompts_in(root: Path, base: PromptSet) -> Iterator[Path]:
    known = base.sources
    found = False
    for path in root.rglob("*"):
        within = path.relative_to(root)
        if path.is_dir() or any(part.startswith(".") for part in within.parts):
            continue
        if path.stem.upper() in ("README", "LICENSE", "NOTICE"):
            continue
        if path.suffix != ".md" or (_name(root, path) not in known and not path.name.startswith("_")):
            way = meant(within.as_posix(), [f"{name}.md" for name in known])
            way = way or f"the prompts are {', '.join(sorted(known))}"
            raise BadInput(f"prompts: {path}: no prompt is called so; {way}")
        found = True
        yield path
    if not found:
        raise BadInput(f"prompts: {root}: holds no prompt; the prompts are {', '.join(sorted(known))}")


def _check_alone(path: Path, name: str, text: str, sources: Mapping[str, str]) -> None:
    """Syntax, and what a prompt may do."""
    if not text.strip():
        raise BadInput(f"prompts: {path}: is empty; write the prompt, or remove the file")
    sandbox = _environment(sources)
    try:
        sandbox.compile(text, name)
        tree = sandbox.parse(text, name)
    except TemplateSyntaxError as error:
        raise BadInput(f"prompts: {path}, line {error.lineno}: {error.message}") from error
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Call)):
        asked = node.attr if isinstance(node, nodes.Getattr) else _constant(node)
        if isinstance(node, nodes.Call):
            raise BadInput(f"prompts: {path}, line {node.lineno}: a prompt calls nothing; write out what it says")
        if isinstance(asked, str) and asked not in _ATTRIBUTES:
            raise BadInput(
                f"prompts: {path}, line {node.lineno}: {asked!r}: can't be read here; what can: "
                f"{', '.join(_ATTRIBUTES)}"
            )
    for part in tree.find_all(_MADE_OF_PARTS):
        raise BadInput(
            f"prompts: {path}, line {part.lineno}: a prompt makes nothing of parts that are filled in, and imports "
            "nothing; write it out, or include it"
        )
    for made in tree.find_all(_MADE_OF_VALUES):
        _check_untouched(path, made)
    for start, whole in _included(tree):
        found = start in sources if whole else start and any(each.startswith(start) for each in sources)
        if not found:
            way = meant(start, sources) or "include a prompt of the set by its name"
            raise BadInput(f"prompts: {path}: includes {start!r}, which is no prompt; {way}")


def _check_untouched(path: Path, made: nodes.Node) -> None:
    """Nothing is made of strangers' words. `Material` would refuse it in the middle of a case; this says so before."""
    if isinstance(made, nodes.Filter) and made.name == "default":
        return
    used = [made.iter] if isinstance(made, nodes.For) else [made]
    names = {each.name for part in used for each in [*part.find_all(nodes.Name), *_itself(part)]}
    if held := sorted(names & STRANGERS):
        raise BadInput(
            f"prompts: {path}, line {made.lineno}: {held[0]}: holds words of others, which stand by themselves between "
            f"their marks; write {{{{ {held[0]} }}}} alone"
        )


def _itself(node: nodes.Node) -> list[nodes.Name]:
    return [node] if isinstance(node, nodes.Name) else []


def _constant(node: nodes.Node) -> object:
    held = getattr(node, "arg", None)
    return held.value if isinstance(held, nodes.Const) else None


def _check_filled(path: Path, name: str, text: str, made: PromptSet, base: PromptSet) -> None:
    """The variables: those that ours is filled with, and what `ask` fills in by itself."""
    if path.name.startswith("_"):
        return
    system = name.startswith("system/")
    needed = frozenset[str]() if system else base.variables(name) - OF_THE_POLICY - OF_THE_RUN
    known = OF_THE_SYSTEM if system else needed | OF_THE_POLICY | OF_THE_RUN
    wanted = made.variables(name)
    if unknown := sorted(wanted - known):
        way = meant(unknown[0], known) or f"it is filled with {', '.join(sorted(known))}"
        raise BadInput(f"prompts: {path}{_line(text, unknown[0])}: there is no {unknown[0]!r} here; {way}")
    if missing := sorted(needed - wanted):
        raise BadInput(
            f"prompts: {path}: leaves out {', '.join(missing)}; put it in, or write {{% set _ = {missing[0]} %}} where "
            "it is left out on purpose"
        )


def _line(text: str, variable: str) -> str:
    tree = _environment({}).parse(text)
    line = next((node.lineno for node in tree.find_all(nodes.Name) if node.name == variable), None)
    return f", line {line}" if line else ""
