"""The variables of prompts, and the templates that they are filled into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import DictLoader, StrictUndefined, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tribunal.core.text import suggest_name
from tribunal.errors import BadInput
from tribunal.prompts.marks import material_text

# The fields of a policy that are told word for word.
POLICY_WORDS = ("name", "definition", "exclusions", "expression", "excuses", "together")
# What a system message may say of the policy, and what a role's prompt may; `ask` fills these in by itself.
OF_THE_SYSTEM = frozenset(
    (*POLICY_WORDS, "groups", "categories", "question", "labels", "language", "own_policy")
)
OF_THE_POLICY = frozenset(
    ("expression", "excuses", "together", "category_examples", "kinds", "clauses")
)
# What a role's prompt may say of the settings of the run; filled in in the same way.
OF_THE_RUN = frozenset(("label_first", "boxes", "cue_limit", "rejects_in_both_tracks", "sure"))
# What a role's prompt may say of what the case holds, so that it has no rule for what isn't there.
OF_THE_CASE = frozenset((
    "image", "text_and_image", "author_language", "has_earlier", "has_appeal", "has_exhibits", "has_passages",
    "has_opinions", "has_precedents", "has_question", "first_passage", "first_precedent",
))  # fmt: skip
FILLED_IN = OF_THE_POLICY | OF_THE_RUN | OF_THE_CASE
OF_THE_POST = frozenset(("reading",))  # what `post` may say besides


# Of a category, of a clause, and of a loop.
_ATTRIBUTES = ("name", "meaning", "id", "category", "rule", "exceptions", "index", "first", "last")
_FILTERS = (
    "capitalize",
    "default",
    "first",
    "indent",
    "join",
    "last",
    "length",
    "lower",
    "replace",
    "title",
    "trim",
)
# What is made of a part of a prompt after it has been filled in could take off its marks.
_MADE_OF_PARTS = (
    nodes.FilterBlock,
    nodes.AssignBlock,
    nodes.Macro,
    nodes.CallBlock,
    nodes.Import,
    nodes.FromImport,
)
_MADE_OF_VALUES = (
    nodes.Filter,
    nodes.Concat,
    nodes.Add,
    nodes.Mul,
    nodes.Mod,
    nodes.Getitem,
    nodes.For,
)
# Variables that hold strangers' words, in the prompts that are filled with them.
STRANGERS = {
    "appeal", "before", "debate", "defence", "earlier", "evidence", "examples", "grounds", "history", "hits",
    "judgement", "known", "missing", "opinions", "opposing", "others", "own", "page", "post", "precedents",
    "prosecution", "query", "reading", "reference", "reflection", "responses", "thoughts", "title", "transcript",
    "tried",
}  # fmt: skip


class _Sandbox(ImmutableSandboxedEnvironment):
    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr in _ATTRIBUTES and super().is_safe_attribute(obj, attr, value)

    def is_safe_callable(self, obj: Any) -> bool:
        return False


def make_sandbox(sources: Mapping[str, str]) -> ImmutableSandboxedEnvironment:
    """Return the sandbox that these prompts, by name, are filled in within."""
    sandbox = _Sandbox(
        loader=DictLoader(sources),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
        auto_reload=False,
        finalize=material_text,
    )
    sandbox.globals.clear()
    sandbox.filters = {name: sandbox.filters[name] for name in _FILTERS}
    return sandbox


def iter_includes(tree: nodes.Template) -> Iterator[tuple[str, bool]]:
    """Yield the names of the included templates, or the beginning of a name that ends in a variable."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        named = node.template  # type: ignore[attr-defined]
        first = named.nodes[0] if isinstance(named, nodes.Concat) else named
        yield (first.value if isinstance(first, nodes.Const) else "", first is named)


def check_template(place: str, name: str, text: str, sources: Mapping[str, str]) -> None:
    """Check the syntax of a prompt, and that it uses only allowed operations.

    Args:
        place: where it is from, for errors: `prompts: ` and its file, or the setting.
        name: its name.
        text: its template.
        sources: every prompt of the set, by name.

    Raises:
        BadInput: it has a fault; with file and line.
    """
    if not text.strip():
        raise BadInput(f"{place}: is empty; write the prompt, or remove it")
    sandbox = make_sandbox(sources)
    try:
        sandbox.compile(text, name)
        tree = sandbox.parse(text, name)
    except TemplateSyntaxError as error:
        raise BadInput(f"{place}, line {error.lineno}: {error.message}") from error
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Call)):
        line = f"{place}, line {node.lineno}"
        if isinstance(node, nodes.Call):
            raise BadInput(f"{line}: a prompt calls nothing; write out what it says")
        key = getattr(node, "attr", None) or getattr(getattr(node, "arg", None), "value", None)
        if isinstance(key, str) and key not in _ATTRIBUTES:
            raise BadInput(
                f"{line}: {key!r}: can't be read here; what can: {', '.join(_ATTRIBUTES)}"
            )
    for part in tree.find_all(_MADE_OF_PARTS):
        raise BadInput(
            f"{place}, line {part.lineno}: a prompt makes nothing of parts that are filled in, and imports nothing; "
            "write it out, or include it"
        )
    for derived in tree.find_all(_MADE_OF_VALUES):
        _check_strangers_untouched(place, derived)
    for start, whole in iter_includes(tree):
        found = (
            start in sources if whole else start and any(each.startswith(start) for each in sources)
        )
        if not found:
            way_out = suggest_name(start, sources) or "include a prompt of the set by its name"
            raise BadInput(f"{place}: includes {start!r}, which is no prompt; {way_out}")


def _check_strangers_untouched(place: str, made: nodes.Node) -> None:
    """Refuse what is made of strangers' words. `Material` would refuse it in the middle of a case too."""
    if isinstance(made, nodes.Filter) and made.name == "default":
        return
    part = made.iter if isinstance(made, nodes.For) else made
    names = {
        each.name for each in (part, *part.find_all(nodes.Name)) if isinstance(each, nodes.Name)
    }
    used = sorted(names & STRANGERS)
    if used:
        raise BadInput(
            f"{place}, line {made.lineno}: {used[0]}: holds words of others, which stand by themselves between their "
            f"marks; write {{{{ {used[0]} }}}} alone"
        )
