"""A prompt can't be filled with a stranger's bare words: not by a node, not by a template, not by any text."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_house import MODULES
from tribunal.errors import BadInput
from tribunal.prompts.marks import (
    Entry,
    Material,
    PromptError,
    entries,
    listing,
    material_text,
    operator_words,
    ours,
    quote,
    short_word,
    together,
)
from tribunal.prompts.sets import PromptSet, read_prompt_set, shipped_prompts

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
BREAKS = re.compile("[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


@given(head=ANYTHING, name=ANYTHING, words=st.lists(ANYTHING, min_size=1, max_size=3))
def test_each_field_is_one_line_after_its_name(head: str, name: str, words: list[str]) -> None:
    material = entries(
        "things", [Entry(ours("[{}]", head), [("claim", each), ("why", each)]) for each in words]
    )
    opening, *lines, closing = material_text(material).split("\n")
    assert not BREAKS.search("".join(lines))
    assert [line[:9] for line in lines[1::3]] == ["  claim: "] * len(words)
    assert [line[:7] for line in lines[2::3]] == ["  why: "] * len(words)
    assert len(lines) == 3 * len(words)
    assert closing == f"{opening.removeprefix('<<<')}>>>"
    assert not any(opening.rpartition(" ")[2] in line for line in lines)
    [_, line, _] = material_text(entries("things", [Entry(None, [(name, words[0])])])).split("\n")
    assert re.fullmatch(r"[\w ,-]*: .*", line)


@given(words=st.lists(ANYTHING, min_size=1, max_size=4))
def test_each_of_a_list_is_one_line(words: list[str]) -> None:
    _, *lines, _ = material_text(listing("tried", words)).split("\n")
    assert [line[:2] for line in lines] == ["- "] * len(words)
    assert not BREAKS.search("".join(lines))


@given(text=ANYTHING)
def test_whatever_is_put_into_our_own_words_is_one_word(text: str) -> None:
    assert re.fullmatch(r"Round 2 of [\w+.:%-]{0,80}:", ours("Round {} of {}:", 2, text))
    assert short_word(short_word(text)) == short_word(text)


def values(given: Any) -> dict[str, Any]:
    return {"round": 2, "own": ours("Nothing."), "defence": given}


@pytest.mark.parametrize(
    "bare",
    [
        "x",
        "<<<rebuttal 0123456789abcdef\nx\nrebuttal 0123456789abcdef>>>",
        ["x"],
        ("x", 1),
        {"a": "x"},
        {"x"},
        b"x",
    ],
    ids=repr,
)
def test_a_bare_text_is_refused(bare: Any) -> None:
    prompts = PromptSet("mine", {"arcade/prosecution": "{{ round }} {{ own }} {{ defence }}"})
    with pytest.raises(
        PromptError, match="arcade/prosecution: defence: plain text would have no marks"
    ):
        prompts.render("arcade/prosecution", values(bare))


def test_a_part_that_is_neither_ours_nor_marked_is_refused() -> None:
    bare: Any = "I said so"
    with pytest.raises(PromptError, match="would have no marks"):
        together([bare])
    with pytest.raises(PromptError, match="would have no marks"):
        entries("x", [Entry(bare)])


def test_material_is_text_to_nobody() -> None:
    held = quote("post", "I said so")
    for use in (str, "{}".format, "{0!s}".format, lambda it: f"{it}", "%s".__mod__):
        with pytest.raises(TypeError, match="strangers' words stand by themselves"):
            use(held)
    assert repr(held) == f"<material of {len(material_text(held))} characters>"
    assert "said" not in repr([held])


TRICKS = [
    "{{ defence | replace('<', '') }}",
    "{{ defence | title }}{{ defence | lower }}",
    "{{ 'x' ~ defence }}",
    "{{ '%s' % defence }}",
    "{{ defence + 'x' }}",
    "{{ [defence] | join }}",
    "{% for each in defence %}{{ each }}{% endfor %}",
    "{{ defence[0] }}",
    "{{ defence | first }}",
    "{{ (defence if round else own) | trim }}",
    "{% filter trim %}{{ defence }}{% endfilter %}",
    "{% set x %}{{ defence }}{% endset %}{{ x | replace('<', '') }}",
    "{% macro m() %}{{ defence }}{% endmacro %}{{ m() }}",
    "{% import 'post' as p with context %}{{ defence }}{{ p }}",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_prompt_of_ones_own_can_t_take_marks_off(tmp_path: Path, trick: str) -> None:
    (tmp_path / "arcade").mkdir()
    (tmp_path / "arcade" / "prosecution.md").write_text(
        f"{{% set _ = [round, own, defence] %}}\n{trick}", "utf-8"
    )
    with pytest.raises(BadInput, match=r"^prompts: .*prosecution\.md, line 2: "):
        read_prompt_set(str(tmp_path))


@pytest.mark.parametrize(
    "trick", [each for each in TRICKS if "filter" not in each and "set x" not in each][:10]
)
@pytest.mark.parametrize("name", ["defence", "renamed"])
def test_and_where_nobody_checked_it_the_filling_refuses(trick: str, name: str) -> None:
    """What is found by its name before a case is found by its type in any."""
    source = (
        f"{{% set renamed = defence %}}{{% set _ = [round, own] %}}{trick.replace('defence', name)}"
    )
    made = PromptSet("mine", {**shipped_prompts().sources, "arcade/prosecution": source})
    with pytest.raises(BadInput, match=r"prompts: mine: arcade/prosecution\.md: "):
        made.render("arcade/prosecution", values(quote("rebuttal", "words")))


def test_a_list_that_is_printed_shows_nothing_of_what_it_holds() -> None:
    made = PromptSet(
        "mine", {**shipped_prompts().sources, "arcade/prosecution": "{{ [round, own, defence] }}"}
    )
    told = made.render("arcade/prosecution", values(quote("rebuttal", "secret")))
    assert "secret" not in told


def test_what_hides_in_a_policy_s_words_is_seen() -> None:
    assert operator_words("ab\u202ecd\u200b") == "ab[U+202E]cd[U+200B]"


# By type and not by care: what is ours is written out, or is made here.

TYPES = {"Ours", "Material"}
OPERATORS = {
    "models.prompt_values", "review.model_exam", "nodes.predict.perspective", "nodes.arcade.judge", "nodes.court.case",
    "nodes.peers.single_call", "nodes.explaining", "explanations.author_letter",
}  # fmt: skip


@pytest.mark.long
def test_nobody_makes_words_ours_but_by_writing_them_out() -> None:
    seen = set()
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or module == "prompts.marks":
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            assert name not in TYPES, (
                f"{path}:{node.lineno}: make it by a function of tribunal.prompts.marks"
            )
            if name == "ours":
                assert isinstance(node.args[0], ast.Constant), (
                    f"{path}:{node.lineno}: write the words out"
                )
            if name == "operator_words":
                seen.add(module)
    assert seen == OPERATORS, (
        "words of a file that the operator named reach prompts in these modules alone"
    )


def test_the_marks_are_made_in_one_place() -> None:
    made = [module for module, path in MODULES.items() if "<<<{" in path.read_text("utf-8")]
    assert made == ["prompts.marks"]
    assert Material("x") == Material("x")
