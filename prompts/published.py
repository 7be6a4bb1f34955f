"""Make a prompt set from a clone of a published repository, by parsing its files. Nothing of theirs lies in ours."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.files import read_text
from tribunal.prompts.answer_names import SET_FILE, AnswerNames
from tribunal.prompts.catalogue import prompt_variables, write_new_folder
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import PromptSet, parse_prompts, prompts_as_text, shipped_prompts
from tribunal.schema import JSON, Scheme
from tribunal.text import parse_json, suggest_name

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
    if source not in SOURCES:
        way_out = suggest_name(source, SOURCES) or f"give {' or '.join(SOURCES)}"
        raise BadInput(f"import: {source!r}: no such repository is known; {way_out}")
    read, notes, extent = {
        "h-vli": (read_hvli, HVLI_NOTES, f" (the scheme {scheme})"),
        "predict": (read_predict, PREDICT_NOTES, ""),
    }[source]
    prompts, answers = read(folder.expanduser(), scheme)
    files = {f"{name}.md": _fill_up(name, text) for name, text in prompts.items()}
    toml = ["# How answers are read: our name = theirs. See docs/policies.md."]
    for prompt, names in answers.items():
        toml.append(f'\n[answers."{prompt}"]')
        toml += [f"{key} = {_toml_value(value)}" for key, value in names.model_dump(exclude_defaults=True).items()]
    files[SET_FILE] = "\n".join(toml) + "\n"
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


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# Read the texts in a clone of somebody's repository. Their code is parsed and never run.


# Our words for a confidence, at the end of a published prompt that decides.
ASK_CONFIDENCE = (
    '\n\n\n{% if sure %}\nAdd a field "confidence": how sure you are of the label, from 0 to 1.\n{% endif %}'
)
_OTHER_LAYOUT = "this isn't the layout that is known"


def read_constants(folder: Path, file: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return texts that a Python file gives names to, f-strings of such names included.

    Raises:
        BadInput: the file isn't there or no Python, or one of the texts isn't there or is something else.
    """
    path = folder / file
    try:
        tree = ast.parse(_read_clone_file(path, folder))
    except (SyntaxError, RecursionError) as error:
        raise BadInput(f"import: {path}: is no Python that can be parsed; {_OTHER_LAYOUT}") from error
    texts: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _text_of(node.value, texts)
            if value is not None:
                texts[node.targets[0].id] = value
    for name in wanted:
        if not texts.get(name, "").strip():
            raise BadInput(f"import: {path}: {name} was sought, a text at the top of the file; {_OTHER_LAYOUT}")
    return {name: texts[name].strip() for name in wanted}


def _text_of(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """Return the text that an expression is, or None if that can't be told without running it."""
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
    """Return the path of a JSON file, wherever in the clone it lies, and the texts of its keys.

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
        raise BadInput(f"import: {path}: {reason}; give the folder of the clone ({folder} was given)") from error


def find_answer_field(path: Path, name: str, text: str, field: str) -> str:
    """Return a field of the answer as a prompt spells it, in quotation marks.

    Raises:
        BadInput: the prompt asks for no such field, so that its answers would not be read.
    """
    found = re.search(rf"[\"“'‘]({re.escape(field)})[\"”'’]\s*:", text, re.IGNORECASE)
    if found is None:
        raise BadInput(f'import: {path}: {name}: the field "{field}" of the answer was sought; {_OTHER_LAYOUT}')
    return found[1]


def as_template(text: str, path: Path, name: str, variables: Mapping[str, str] | None = None) -> str:
    """Return a text as a template that says just this, with our variables in the place of its own marks.

    Args:
        text: the text.
        path: its file, for errors.
        name: what it is called there.
        variables: by each mark that has to stand in the text, the template that comes in its place.

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
            raise BadInput(f"import: {path}: {name}: holds the word endraw, which a template can't say as it is")
        elif part:
            made.append(f"{{% raw %}}{part}{{% endraw %}}")
    return "".join(made)


# ARCADE's published prompts (github.com/Sayur1n/H-VLI): `court_prompts.py`, and `court_prompts_binary.py`.


_COURT_FILES: dict[Scheme, str] = {"fine": "court_prompts.py", "binary": "court_prompts_binary.py"}
_CUE_FIELDS = {"type": "cue_type", "category": "hate_type"}
# What the published labels are called, where our policy has another name.
_THEIR_NAMES = {"Homophobe": 3, "Religion": 4}
HVLI_NOTES: tuple[str, ...] = (
    "Made for the graphs `arcade`, `multiround` and `baseline`, by the policy `h-vli`.",
    "The published code sends its role's words as the system message. Here that says how material is marked, and the "
    "role's words come after it, before the post.",
    "The words around the post, the cues, the defence and the transcript are ours. Each cue has the id that the court "
    "gives it.",
    "The published deep dive shows neither side the other's words, though its prompts speak of them. Here they are "
    "shown, as in the paper, unless `turns_shown` is none.",
    "Temperatures are the paper's. In the published code both sides have 0.7 in the deep dive.",
    "A cue has no `characteristic`, as the published form has none. Its form for arguments doesn't restate the cue, "
    "so that each case has a warning that the court's words of it were taken.",
    "The judge and the classifier are asked for a confidence in our words where a setting needs one (`sure`).",
)


def read_hvli(folder: Path, scheme: Scheme) -> tuple[dict[str, str], dict[str, AnswerNames]]:
    """Return the prompts of a clone by our names, and how their answers are read.

    Raises:
        BadInput: the clone has another layout; with the file, and what was sought there.
    """
    file, path = _COURT_FILES[scheme], folder / _COURT_FILES[scheme]
    held = read_constants(folder, file, _COURT_TEXTS)
    for name, fields in _COURT_TEXTS.items():
        for field in fields if not (scheme == "binary" and name == "SAFETY_PROMPT") else ("label",):
            find_answer_field(path, name, held[name], field)
    text = {name: as_template(words, path, name) for name, words in held.items()}
    cues = "\n\n\nThe cues of the Prosecutor:\n\n{{ prosecution }}"
    before = "\n\n\nWhat you said in the round before:\n\n{{ own }}\n\nWhat the other side said:\n\n"
    prompts = {
        "system/court": '{% include "marks" %}',
        "arcade/gatekeeper": text["PROSECUTOR_DIRECT_PROMPT"],
        "arcade/indictment": text["PROSECUTOR_PROMPT"],
        "arcade/rebuttal": text["DEFENDER_PROMPT"] + cues,
        "arcade/investigation": text["PROSECUTOR_INDIRECT_PROMPT"],
        "arcade/defence": (
            f"{{% if round == 1 %}}\n{text['DEFENDER_INDIRECT_PROMPT']}{cues}\n{{% else %}}\n"
            f"{text['DEFENSE_ROUND_2_PROMPT']}{before}{{{{ prosecution }}}}\n{{% endif %}}"
        ),
        "arcade/prosecution": f"{text['PROSECUTOR_ROUND_2_PROMPT']}{before}{{{{ defence }}}}",
        "arcade/judge": (
            f"{{% if deep %}}\n{text['JUDGE_PROMPT_INDIRECT']}\n{{% else %}}\n{text['JUDGE_PROMPT']}\n{{% endif %}}"
            f"{ASK_CONFIDENCE}\n\n\nThe transcript:\n\n{{{{ transcript }}}}"
        ),
        "arcade/classifier": text["SAFETY_PROMPT"] + ASK_CONFIDENCE,
    }
    return prompts, _answer_names(scheme)


_CUE = ("cue_type", "target_group", "claim", "hate_type", "justification")
_REBUTTAL, _VERDICT = ("id", "evidence", "rebuttal"), ("label", "reason")
# The texts that are sought, each with the fields of the answer that it asks for.
_COURT_TEXTS: dict[str, tuple[str, ...]] = {
    "PROSECUTOR_DIRECT_PROMPT": _CUE,
    "PROSECUTOR_PROMPT": _CUE,
    "PROSECUTOR_INDIRECT_PROMPT": _CUE,
    "DEFENDER_PROMPT": _REBUTTAL,
    "DEFENDER_INDIRECT_PROMPT": _REBUTTAL,
    "DEFENSE_ROUND_2_PROMPT": ("id", "rebuttal"),
    "PROSECUTOR_ROUND_2_PROMPT": ("id", "counter_argument"),
    "JUDGE_PROMPT": _VERDICT,
    "JUDGE_PROMPT_INDIRECT": _VERDICT,
    "SAFETY_PROMPT": _VERDICT,
}


def _answer_names(scheme: Scheme) -> dict[str, AnswerNames]:
    policy = load_policy("h-vli")
    kinds = {str(number): each.name for number, each in enumerate(policy.fine)}
    kinds |= {name: policy.fine[number].name for name, number in _THEIR_NAMES.items()}
    labels = kinds if scheme == "fine" else {str(number): each.name for number, each in enumerate(policy.binary)}
    cues = AnswerNames(items="cues", fields=_CUE_FIELDS, values={"category": kinds}, open=("characteristic",))
    rebuttals = AnswerNames(
        items="arguments",
        fields={"cue_id": "id", "argument": ("evidence", "rebuttal")},
        otherwise={"stance": "refute"},
    )
    pressed = AnswerNames(
        items="arguments", fields={"cue_id": "id", "argument": "counter_argument"}, otherwise={"stance": "press"}
    )
    verdict: JSON = {"fields": {"category": "label", "explanation": "reason"}, "values": {"category": labels}}
    alone: JSON = {"otherwise": {"explanation": "The published prompt asks for the label alone."}}
    return {
        **dict.fromkeys(("arcade/gatekeeper", "arcade/indictment", "arcade/investigation"), cues),
        **dict.fromkeys(("arcade/rebuttal", "arcade/defence"), rebuttals),
        "arcade/prosecution": pressed,
        "arcade/judge": AnswerNames(**verdict),
        "arcade/classifier": AnswerNames(**verdict, **(alone if scheme == "binary" else {})),
    }


# PREDICT's published debate prompts (github.com/Hanyang-HCC-Lab/PREDICT): `debate_prompt.json`.


DEBATE_FILE = "debate_prompt.json"
PREDICT_NOTES: tuple[str, ...] = (
    "Made for the graph `predict`. `debate_memory` whole (the default) shows each side again what its memory holds in "
    "the published code.",
    "The prompts of the five annotators lie in LangChain's hub, and not in the repository: those of PRE are ours.",
    "The published prompts hold the text itself. Here they name it, and it stands after them between its marks.",
    "The published debaters' messages of several turns are one message here, in the same order.",
    "The judge is asked for a confidence in our words where a setting needs one (`sure`).",
    "Debaters answer in words, so that a turn has no stance (agree or rebut); the judge reads it in the words.",
)  # fmt: skip
_TEXT = "(the post)"
_DEBATE_TEXTS = (
    "NonHate_player_meta_prompt", "Hate_player_meta_prompt", "NonHate_prompt_1", "Hate_prompt_1", "NonHate_arg_prompt",
    "NonHate_prompt_2", "Hate_arg_prompt", "Hate_prompt_2", "judge_prompt_1", "judge_prompt_2",
)  # fmt: skip
_PANEL = """{% include "marks" %}


If you are given a form for your answer, answer with one JSON object of that form."""


def read_predict(folder: Path, scheme: Scheme) -> tuple[dict[str, str], dict[str, AnswerNames]]:
    """Return the prompts of a clone by our names, and how their answers are read: the same in either scheme.

    Raises:
        BadInput: the clone has another layout; with the file, and what was sought there.
    """
    path, held = read_json_texts(folder, DEBATE_FILE, _DEBATE_TEXTS)

    def text(name: str, **variables: str) -> str:
        shown = {f"##{mark}##": f"\n\n\n{{{{ {ours} }}}}\n\n" for mark, ours in variables.items() if mark != "text"}
        return as_template(held[name], path, name, shown | ({"##text##": _TEXT} if "text" in variables else {}))

    non_hate, hate = text("NonHate_player_meta_prompt", text=""), text("Hate_player_meta_prompt", text="")
    first_non_hate = text("NonHate_prompt_1", Non_Hate_Reference="reference")
    again_hate = text("Hate_prompt_1", non_arg="before", Hate_Reference="reference")
    prompts = {
        "system/panel": _PANEL,
        "predict/opening_non_hate": f"{non_hate}\n\n{first_non_hate}",
        "predict/opening_hate": (f"{hate}\n\n{text('Hate_prompt_1', non_arg='opposing', Hate_Reference='reference')}"),
        "predict/response": "\n".join(
            (
                '{% if side == "hate" %}',
                f"{hate}\n\n{{% if before %}}\n{again_hate}\n\n{{% endif %}}",
                f"{text('Hate_arg_prompt', hate_arg='own')}\n\n{text('Hate_prompt_2', non_res='opposing')}",
                "{% else %}",
                f"{non_hate}\n\n{{% if reference %}}\n{first_non_hate}\n\n{{% endif %}}",
                f"{text('NonHate_arg_prompt', non_arg='own')}\n\n{text('NonHate_prompt_2', hate_arg='opposing')}",
                "{% endif %}",
            )
        ),
        "predict/judge": (
            f"{text('judge_prompt_1', history='debate')}\n\n{text('judge_prompt_2', text='')}{ASK_CONFIDENCE}"
        ),
    }
    spelt = {
        ours: find_answer_field(path, "judge_prompt_2", held["judge_prompt_2"], ours) for ours in ("label", "reason")
    }
    spoken = AnswerNames(words="argument")
    return prompts, {
        "predict/opening_non_hate": spoken,
        "predict/opening_hate": spoken,
        "predict/response": AnswerNames(words="argument", open=("stance",)),
        "predict/judge": AnswerNames(fields=dict(spelt)),
    }
