"""Prompt sets: a fault in one is found before any call, with its file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.models.prompt_values import policy_variables, standing_instructions
from tribunal.models.role import UnreadableAnswer, read_answer
from tribunal.nodes.arcade.cues import arguments_form
from tribunal.nodes.forms import decision_form
from tribunal.nodes.predict.debater import RESPONSES
from tribunal.prompts.marks import ours, quote
from tribunal.prompts.policy import load_policy
from tribunal.prompts.set_file import parse_set_file
from tribunal.prompts.sets import PromptSet, load_prompts, read_prompt_set, shipped_prompts
from tribunal.prompts.template import OF_THE_POLICY, OF_THE_SYSTEM

ASKED = "Which one? {{ categories }}"


def written(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("arcade/juge.md", "x", "juge.md: no prompt is called so; did you mean arcade/judge.md"),
        ("arcade/judge.txt", "x", "judge.txt: no prompt is called so; did you mean arcade/judge.md"),
        ("set.toml", "x", "holds no prompt"),
        ("arcade/set.toml", "x", "set.toml: no prompt is called so"),
        ("classifier.md", "x", "no prompt is called so; did you mean arcade/classifier.md"),
        ("arcade/classifier.md", " \n", "classifier.md: is empty; write the prompt, or remove it"),
        ("arcade/classifier.md", "Which one?", "leaves out categories; put it in, or write {% set _ = categories %}"),
        ("arcade/classifier.md", f"{ASKED}\n\n{{{{ categry }}}}", "line 3: there is no 'categry' here; did you"),
        ("arcade/classifier.md", f"{ASKED}\n{{{{ definition }}}}", "line 2: there is no 'definition' here"),
        ("system/court.md", "{{ definitoin }}", "court.md, line 1: there is no 'definitoin' here; did"),
        ("arcade/classifier.md", f"{ASKED}\n{{% if categories %}}", "line 2: Unexpected end of template"),
        ("arcade/classifier.md", f"{ASKED}\n{{{{ categories|shout }}}}", "line 2: No filter named 'shout'"),
        ("arcade/classifier.md", f"{ASKED}\n{{{{ categories.__class__ }}}}", "line 2: '__class__': can't be read here"),
        ("arcade/classifier.md", f'{ASKED}\n{{{{ categories["__class__"] }}}}', "line 2: '__class__': can't be read"),
        ("arcade/classifier.md", f"{ASKED}\n{{{{ categories.upper() }}}}", "line 2: a prompt calls nothing"),
        ("arcade/classifier.md", f"{ASKED}\n{{{{ range(9) }}}}", "line 2: a prompt calls nothing"),
        ("arcade/classifier.md", f'{ASKED}\n{{{{ categories|attr("__class__") }}}}', "No filter named 'attr'"),
        ("arcade/classifier.md", f'{ASKED}\n{{% include "marc" %}}', "includes 'marc', which is no prompt; did"),
        ("arcade/classifier.md", f'{ASKED}\n{{% include "/etc/hostname" %}}', "includes '/etc/hostname', which is no"),
        ("arcade/classifier.md", f'{ASKED}\n{{% include "../policies/h-vli.toml" %}}', "which is no prompt"),
        ("arcade/classifier.md", f"{ASKED}\n{{% include categories %}}", "which is no prompt"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set_is_said(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(BadInput) as told:
        read_prompt_set(written(tmp_path / "mine", {name: text}))
    assert says in str(told.value)
    assert str(tmp_path / "mine") in str(told.value)
    assert "\n" not in str(told.value)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bytes/arcade").mkdir(parents=True)
    (tmp_path / "bytes/arcade/judge.md").write_bytes(b"\xff\xfe")
    for name, says in (
        ("nowhere", "is no folder"),
        ("empty", "holds no prompt"),
        ("bytes", "can't decode byte"),
    ):
        with pytest.raises(BadInput, match=says):
            read_prompt_set(str(tmp_path / name))


def test_a_set_has_parts_of_its_own_and_notes_for_people(tmp_path: Path) -> None:
    made = read_prompt_set(
        written(
            tmp_path / "mine",
            {
                "README.md": "{{ for people }}",
                ".hidden": "x",
                "_asked.md": "Which one of {{ categories }}?",
                "arcade/classifier.md": 'Decide.\n\n{% include "_asked" %}',
                "predict/judge.md": "{% set _ = debate %}\nHate or not?",
            },
        )
    )
    assert (
        made.render("arcade/classifier", {"categories": ours("A, B")})
        == "Decide.\n\nWhich one of A, B?"
    )
    assert (
        made.render("predict/judge", {"debate": quote("opening", "left out on purpose")})
        == "Hate or not?"
    )
    own = {
        "hate": ours("h"),
        "not_hate": ours("n"),
        "label_first": False,
        "sure": False,
        "clauses": (),
    }
    assert made.render("predict/base", own) == shipped_prompts().render("predict/base", own)
    assert made.name == "mine"
    assert made.sha != shipped_prompts().sha


def test_a_part_may_be_drawn_in_by_another_and_more_than_once(tmp_path: Path) -> None:
    asked = '{% include "_asked" %}'
    made = read_prompt_set(
        written(
            tmp_path / "mine",
            {
                "_listed.md": "  {% for each in (1, 2) %}\n  - {{ categories }}\n  {% endfor %}\n",
                "_asked.md": 'Which?\n{% include "_listed" %}\n\n{% block end %}Say why.{% endblock %}',
                "arcade/classifier.md": f"{asked}\n{{% set own = categories %}}\n{asked}\n{{{{ own }}}}",
            },
        )
    )
    said = "Which?\n  - A\n  - A\n\nSay why."
    assert made.render("arcade/classifier", {"categories": ours("A")}) == f"{said}{said}A"


def test_what_goes_wrong_in_the_filling_names_the_prompt(tmp_path: Path) -> None:
    made = read_prompt_set(
        written(tmp_path / "mine", {"arcade/classifier.md": "{{ categories + 1 }}"})
    )
    with pytest.raises(BadInput, match=r"prompts: mine: arcade/classifier\.md: .*mend the prompt"):
        made.render("arcade/classifier", {"categories": ours("A")})


def test_the_hash_is_of_the_words(tmp_path: Path) -> None:
    one = read_prompt_set(written(tmp_path / "one", {"arcade/classifier.md": ASKED}))
    two = read_prompt_set(written(tmp_path / "two", {"arcade/classifier.md": ASKED + "\n"}))
    other = read_prompt_set(written(tmp_path / "other", {"arcade/classifier.md": ASKED + "!"}))
    assert one.sha == two.sha != other.sha


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tuned", "set.toml: is not TOML"),
        ('[tuned]\nfor = ""', "set.toml: tuned.for: ''"),
        ('[tuned]\nfrom = "qwen3"', "set.toml: tuned.for"),
        ("[tunde]", "set.toml: tunde"),
    ],
)
def test_what_is_wrong_with_what_a_set_says_of_itself(tmp_path: Path, text: str, says: str) -> None:
    folder = written(tmp_path / "mine", {"arcade/classifier.md": ASKED, "set.toml": text})
    with pytest.raises(BadInput, match=re.escape(says)):
        read_prompt_set(folder)


def test_what_a_set_says_of_itself_is_part_of_its_hash(tmp_path: Path) -> None:
    one = read_prompt_set(written(tmp_path / "one", {"arcade/classifier.md": ASKED}))
    two = read_prompt_set(
        written(
            tmp_path / "two", {"arcade/classifier.md": ASKED, "set.toml": '[tuned]\nfor = "Qwen3"'}
        )
    )
    assert two.sha != one.sha
    assert two.dump() == {"name": "two", "sha": two.sha, "tuned_for": "Qwen3"}
    assert PromptSet("", two.texts).sha == two.sha  # as the store checks what it keeps


async def test_a_changed_folder_is_read_when_a_case_begins(tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", {"system/court.md": "One."})
    before = await load_prompts(folder, afresh=True)
    written(tmp_path / "mine", {"system/court.md": "Two."})
    assert await load_prompts(folder) is before
    after = await load_prompts(folder, afresh=True)
    assert after.sources["system/court"] == "Two."
    written(tmp_path / "mine", {"system/court.md": "One."})
    assert (await load_prompts(folder, afresh=True)).sha == before.sha
    assert await load_prompts(None, afresh=True) is shipped_prompts()


def test_what_a_prompt_may_take_from_the_policy_is_there(tmp_path: Path) -> None:
    every = "".join(f"{{{{ {name} }}}}" for name in sorted(OF_THE_SYSTEM))
    asked = ASKED + "".join(f"{{{{ {name} }}}}" for name in sorted(OF_THE_POLICY))
    made = read_prompt_set(
        written(tmp_path / "mine", {"system/court.md": every, "arcade/classifier.md": asked})
    )
    assert "Hate speech" in standing_instructions(made, "court", load_policy("h-vli"), "fine")
    assert (
        policy_variables(made, "arcade/classifier", load_policy("h-vli"), "fine").keys()
        == OF_THE_POLICY
    )
    # Made once for a set, a policy and a scheme: a call costs a look-up.
    again = policy_variables(made, "arcade/classifier", load_policy("h-vli"), "fine")
    assert again is policy_variables(made, "arcade/classifier", load_policy("h-vli"), "fine")


NAMES = """[answers."arcade/judge"]
fields = {category = "label", explanation = "reason"}
values.category = {0 = "NotHate", 4 = "Religious"}

[answers."arcade/rebuttal"]
items = "arguments"
fields = {cue_id = "id", argument = ["evidence", "rebuttal"]}
otherwise = {stance = "refute"}

[answers."predict/response"]
words = "argument"
open = ["stance"]
"""
CUES = arguments_form(("refute", "concede"), ("C1",))


def read(prompt: str, form: Any, said: str) -> Any:
    return read_answer(said, form, names=parse_set_file(NAMES, "set.toml").answers[prompt])


def test_an_answer_is_read_in_the_names_of_a_set() -> None:
    form = decision_form(load_policy("h-vli").without_clauses(), "fine")
    for said in (
        '{"label": 4, "label_str": "Religion", "reason": "why"}',
        'It is clear.\n```json\n{"label": "4", "reason": "why"}\n```',
        '{"explanation": "why", "category": "Religious"}',
    ):
        assert read("arcade/judge", form, said).model_dump() == {
            "explanation": "why",
            "category": "Religious",
        }
    listed = CUES(load_policy("h-vli"), "fine")
    array = '[{"id": "C1", "evidence": "the quotation marks", "rebuttal": "It quotes."}]'
    for said in (
        array,
        f"As to [C1]:\n\n{array}\n",
        f"```\n{array}\n```",
        array[1:-1],
        array.replace('."}', '.",}'),
    ):
        only = read("arcade/rebuttal", listed, said).arguments[0]
        assert (only.cue_id, only.stance) == ("C1", "refute")
        assert only.argument == "the quotation marks\nIt quotes."
    assert read("arcade/rebuttal", listed, "[]").arguments == []
    with pytest.raises(UnreadableAnswer, match="no complete JSON array"):
        read("arcade/rebuttal", listed, array[:-9])
    spoken = read(
        "predict/response", RESPONSES["hate"].form(load_policy("h-vli"), "fine"), "I rebut this."
    )
    assert (spoken.argument, spoken.stance) == ("I rebut this.", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[answers."arcade/jugde"]', "answers.arcade/jugde: there is no such prompt; did you mean arcade/judge"),
        ('[answers."arcade/judge"]\nfields = {categry = "l"}', "fields: the answer has no 'categry'; did you mean"),
        ('[answers."arcade/judge"]\nitems = "category"', "items: 'category': is no list of parts"),
        ('[answers."arcade/judge"]\nvalues.category = {1 = "Spam"}', "Spam: none is of the policy in force; the names"),
        ('[answers."arcade/judge"]\nopen = ["category"]', "open: 'category': can't be left open; say what it is in"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_names_of_a_set_is_said(
    tmp_path: Path, text: str, says: str
) -> None:
    folder = written(tmp_path / "mine", {"system/court.md": "Decide.", "set.toml": text})
    result = CliRunner().invoke(app, ["prompts", "check", folder])
    assert result.exit_code == 2
    assert says in result.output
