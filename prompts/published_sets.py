"""Make a prompt set from a clone of a published repository, by parsing its files. None of its text is in ours."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tribunal.core.text import parse_json, parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.process.files import read_text
from tribunal.prompts.catalogue import prompt_variables, write_new_folder
from tribunal.prompts.policy import load_policy
from tribunal.prompts.set_file import SET_FILE, AnswerNames
from tribunal.prompts.sets import PromptSet, parse_prompts, prompts_as_text, shipped_prompts
from tribunal.schema import JSON, Frozen, Scheme


class _Source(Frozen):
    """A published repository, as `published.toml` describes it."""

    repository: str
    notes: tuple[str, ...]
    texts: dict[str, tuple[str, ...]]
    prompts: dict[str, str]
    answers: dict[str, AnswerNames]


# of H-VLI
_FILES: dict[Scheme, str] = {
    "fine": "court_prompts.py",
    "binary": "court_prompts_binary.py",
}
_PLACE = re.compile(r"\[\[(\w+)((?: \w+=\w*)*)\]\]")
# What H-VLI's labels are called, where our policy has another name: by the policy's number.
_THEIR_NAMES = {"Homophobe": 3, "Religion": 4}


def import_prompts(source: str, folder: Path, to: Path, scheme: Scheme = "fine") -> PromptSet:
    """Write the prompts of a published repository into a new folder, as a set that `--prompts` runs; and return it.

    Args:
        source: a repository by its name in `published.toml`.
        folder: the user's clone of it.
        to: the new folder.
        scheme: which prompts, of a repository that has some for each scheme.

    Raises:
        BadInput: the source isn't known, the clone has another layout, or the new folder can't be written.
    """
    read = files("tribunal.prompts").joinpath("published.toml").read_text("utf-8")
    sources = TypeAdapter(dict[str, _Source]).validate_python(parse_toml(read))
    if source not in sources:
        way_out = suggest_name(source, sources) or f"give {' or '.join(sources)}"
        raise BadInput(f"import: {source!r}: no such repository is known; {way_out}")
    known = sources[source]
    clone = folder.expanduser()
    court = source == "h-vli"
    if court:
        path, texts = read_constants(clone, _FILES[scheme], known.texts)
    else:
        path, texts = read_json_texts(clone, "debate_prompt.json", known.texts)
    spelt: dict[str, str] = {}
    for name, fields in known.texts.items():
        # The binary classifier is asked for the label alone.
        for field in ("label",) if (name, scheme) == ("SAFETY_PROMPT", "binary") else fields:
            spelt[field] = find_answer_field(path, name, texts[name], field)

    def put_in(place: re.Match[str]) -> str:
        variables = dict(each.split("=") for each in place[2].split())
        shown = {
            f"##{mark}##": f"\n\n\n{{{{ {ours} }}}}\n\n" if ours else "(the post)"
            for mark, ours in variables.items()
        }
        return as_template(texts[place[1]], path, place[1], shown or None)

    written = {
        f"{name}.md": _fill_up(name, _PLACE.sub(put_in, text))
        for name, text in known.prompts.items()
    }
    toml = ["# How answers are read: our name = theirs. See docs/policies.md."]
    for prompt, names in known.answers.items():
        read_as = _with_labels(prompt, names, scheme) if court else names
        if prompt == "predict/judge":
            read_as = AnswerNames(fields=dict(spelt))
        toml.append(f'\n[answers."{prompt}"]')
        toml += [
            f"{key} = {_toml_value(value)}"
            for key, value in read_as.model_dump(exclude_defaults=True).items()
        ]
    written[SET_FILE] = "\n".join(toml) + "\n"
    held = {name.removesuffix(".md"): text.rstrip() for name, text in written.items()}
    made = parse_prompts(prompts_as_text(held), str(to))  # before anything is written
    points = "\n".join(f"- {note}" for note in known.notes)
    extent = f" (the scheme {scheme})" if court else ""
    written["README.md"] = (
        f"# Prompts of {known.repository}{extent}\n\nMade from a clone by `tribunal prompts import {source}`. The "
        f"words are the authors', under the licence of their repository.\n\n{points}\n"
    )
    write_new_folder(to, written, "import")
    return made


def _with_labels(prompt: str, names: AnswerNames, scheme: Scheme) -> AnswerNames:
    """Return how the answer of an H-VLI seat is read, with the meaning of its labels in our policy."""
    if "category" not in names.fields:
        return names
    policy = load_policy("h-vli")
    by_kind = names.items or scheme == "fine"  # a cue says the kind of hate in either scheme
    labels = {
        str(number): each.name
        for number, each in enumerate(policy.fine if by_kind else policy.binary)
    }
    if by_kind:
        labels |= {name: policy.fine[number].name for name, number in _THEIR_NAMES.items()}
    update: JSON = {"values": {"category": labels}}
    if (prompt, scheme) == ("arcade/classifier", "binary"):
        update["otherwise"] = {"explanation": "The published prompt asks for the label alone."}
    return names.model_copy(update=update)


def _fill_up(name: str, text: str) -> str:
    """Return a prompt with one more line for each variable of our prompt that it leaves out."""
    used = PromptSet("", {**shipped_prompts().sources, name: text}).variables(name)
    left_out = [each for each in prompt_variables(name) if each not in used]
    return "".join(f"{{% set _ = {each} %}}\n" for each in left_out) + text + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# The texts in a clone: code is parsed and never run


_OTHER_LAYOUT = "this isn't the layout that is known"


def read_constants(folder: Path, file: str, wanted: Iterable[str]) -> tuple[Path, dict[str, str]]:
    """Return the path of a Python file, and texts that it gives names to, f-strings of such names included.

    Raises:
        BadInput: the file isn't there or no Python, or one of the texts isn't there or is something else.
    """
    path = folder / file
    try:
        tree = ast.parse(_read_clone_file(path, folder))
    except (SyntaxError, RecursionError) as error:
        raise BadInput(
            f"import: {path}: is no Python that can be parsed; {_OTHER_LAYOUT}"
        ) from error
    texts: dict[str, str] = {}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            value = _text_of(node.value, texts)
            if value is not None:
                texts[node.targets[0].id] = value
    for name in wanted:
        if not texts.get(name, "").strip():
            raise BadInput(
                f"import: {path}: {name} was sought, a text at the top of the file; {_OTHER_LAYOUT}"
            )
    return path, {name: texts[name].strip() for name in wanted}


def _text_of(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """Return the text that an expression yields, or None if that can't be known without running it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text_of(value, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [left, right]
        case ast.JoinedStr(values=parts):
            pass
        case _:
            return None
    texts = [_text_of(part, known) for part in parts]
    return None if None in texts else "".join(text or "" for text in texts)


def read_json_texts(folder: Path, file: str, wanted: Iterable[str]) -> tuple[Path, dict[str, str]]:
    """Return the path of a JSON file anywhere in the clone, and the texts of its keys.

    Raises:
        BadInput: there is no such file, or several, or one of the texts isn't there.
    """
    there = sorted(folder.rglob(file)) if folder.is_dir() else []
    if len(there) != 1:
        raise BadInput(
            f"import: {folder}: {file} was sought, and stands there {len(there)} times; give the folder of the clone"
        )
    try:
        held = parse_json(_read_clone_file(there[0], folder))
    except ValueError as error:
        raise BadInput(f"import: {there[0]}: is no JSON; {_OTHER_LAYOUT}") from error
    texts = held if isinstance(held, dict) else {}
    for name in wanted:
        if not isinstance(texts.get(name), str) or not texts[name].strip():
            raise BadInput(f"import: {there[0]}: the text {name} was sought; {_OTHER_LAYOUT}")
    return there[0], {name: texts[name].strip() for name in wanted}


def _read_clone_file(path: Path, folder: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise BadInput(
            f"import: {path}: {reason}; give the folder of the clone ({folder} was given)"
        ) from error


def find_answer_field(path: Path, name: str, text: str, field: str) -> str:
    """Return a field of the answer as a prompt spells it, in quotation marks.

    Raises:
        BadInput: the prompt asks for no such field, so that its answers would not be read.
    """
    found = re.search(rf"[\"“'‘]({re.escape(field)})[\"”'’]\s*:", text, re.IGNORECASE)
    if found is None:
        raise BadInput(
            f'import: {path}: {name}: the field "{field}" of the answer was sought; {_OTHER_LAYOUT}'
        )
    return found[1]


def as_template(
    text: str, path: Path, name: str, variables: Mapping[str, str] | None = None
) -> str:
    """Return a text as a template that says just this, with our variables in the place of its own marks.

    Args:
        text: the text.
        path: its file, for errors.
        name: its name there.
        variables: the template to insert for each mark that the text must have.

    Raises:
        BadInput: a mark isn't there, or another one is.
    """
    for mark in variables or {}:
        if mark not in text:
            raise BadInput(f"import: {path}: {name}: {mark} was sought in it; {_OTHER_LAYOUT}")
    parts = re.split(r"(##\w+##)", text) if variables is not None else [text]
    made = []
    for part in parts:
        if variables is not None and re.fullmatch(r"##\w+##", part):
            if part not in variables:
                raise BadInput(f"import: {path}: {name}: {part} isn't known; {_OTHER_LAYOUT}")
            made.append(variables[part])
        elif "endraw" in part:
            raise BadInput(
                f"import: {path}: {name}: holds the word endraw, which a template can't say as it is"
            )
        elif part:
            made.append(f"{{% raw %}}{part}{{% endraw %}}")
    return "".join(made)
