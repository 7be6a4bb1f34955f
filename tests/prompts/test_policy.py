"""The policy in force: the shipped one, and a user's own with clear errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tables import table
from tribunal.errors import BadInput
from tribunal.prompts.policy import (
    list_shipped_policies,
    load_policy,
    parse_policy,
    policy_in_force,
    translate_policy,
)

OWN = """
name = "house rules"
definition = "What we don't want."
exclusions = "What is fine."
protected_groups = ["gardeners", "bakers"]
fine = [{ name = "Fine", meaning = "nothing" }, { name = "Rude", meaning = "an attack" }]
binary = [{ name = "Fine", meaning = "nothing" }, { name = "Bad", meaning = "an attack" }]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.toml"
    file.write_text(OWN, "utf-8")
    return file


def test_the_shipped_policy_is_the_benchmark_s() -> None:
    assert "h-vli" in list_shipped_policies()
    held = load_policy("h-vli")
    assert [category.name for category in held.fine] == [
        "NotHate", "Racist", "Sexist", "Homophobic", "Religious", "OtherHate",
    ]  # fmt: skip
    assert [category.name for category in held.binary] == ["NotHate", "Hateful"]
    assert held.label("fine", "Homophobic") == 3
    assert held.label("binary", "Hateful") == 1
    assert len(held.sha) == 16
    with pytest.raises(KeyError):
        held.label("binary", "Racist")


@pytest.mark.parametrize("task", ["sarcasm", "misinformation"])
def test_the_other_tasks_have_two_labels_and_protect_nobody(task: str) -> None:
    held = load_policy(task)
    assert (held.name, held.task, held.protected_groups) == (task, task, ())
    assert [category.name for category in held.binary] == [
        f"not {held.binary[1].name}",
        held.binary[1].name,
    ]
    assert held.categories("fine") == held.categories("binary") == held.binary


def test_what_belongs_to_hate_is_refused_in_them(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(OWN.replace('name = "house rules"', 'name = "x"\ntask = "sarcasm"'), "utf-8")
    with pytest.raises(BadInput, match="protected_groups: only a policy on hate speech has these"):
        load_policy(str(file))


async def test_a_policy_of_one_s_own(own: Path) -> None:
    held = load_policy(str(own))
    assert (held.name, held.protected_groups) == ("house rules", ("gardeners", "bakers"))
    assert await policy_in_force(str(own)) is held
    assert await policy_in_force("h-vli") is await policy_in_force("h-vli")


def test_a_changed_file_is_read_again(own: Path) -> None:
    before = load_policy(str(own))
    own.write_text(OWN.replace("bakers", "cooks"), "utf-8")
    os.utime(own, ns=(1, 1))
    after = load_policy(str(own))
    assert after.protected_groups == ("gardeners", "cooks")
    assert after.sha != before.sha


@pytest.mark.parametrize(
    ("change", "says"),
    table(__file__, "what_is_wrong_with_it_is_said"),
)
def test_what_is_wrong_with_it_is_said(own: Path, change: tuple[str, str], says: str) -> None:
    own.write_text(OWN.replace(*change), "utf-8")
    with pytest.raises(BadInput) as told:
        load_policy(str(own))
    assert says in str(told.value)
    assert str(own) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, says in (
        ("nowhere.toml", "No such file"),
        (str(tmp_path), "Is a directory"),
        ("nul\0byte", "null byte"),
        (str(tmp_path / "bytes.toml"), "not a TOML file"),
        ("x" * 5000, "File name too long"),
    ):
        with pytest.raises(BadInput, match=says):
            load_policy(name)


FULL = (
    OWN.replace(
        '{ name = "Rude", meaning = "an attack" }',
        """{ name = "Rude", meaning = "an attack", examples_for = ["Bakers\\nout!"], examples_against = [
          "I quote: out!"] },
        { name = "Harassment", meaning = "chasing one person", hate = false }""",
    )
    + """
[translations.ko]
definition = "우리가 원하지 않는 것."
meanings = { Rude = "공격" }
"""
)


def written(folder: Path, text: str) -> str:
    (folder / "full.toml").write_text(text, "utf-8")
    return str(folder / "full.toml")


def test_a_category_says_whether_it_is_hate(tmp_path: Path) -> None:
    held = load_policy(written(tmp_path, FULL))
    assert [held.is_hate("fine", label) for label in range(3)] == [False, True, False]
    assert [held.is_hate("binary", label) for label in range(2)] == [False, True]
    assert [load_policy("h-vli").is_hate("fine", label) for label in range(6)] == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert load_policy("sarcasm").is_hate("binary", 1) is None


def test_the_examples_of_the_categories(tmp_path: Path) -> None:
    held = load_policy(written(tmp_path, FULL))
    assert held.examples("fine") == "is Rude: Bakers out!\nis not Rude: I quote: out!"
    assert held.examples("binary") == ""


@pytest.mark.parametrize("name", list_shipped_policies())
def test_every_category_of_a_shipped_policy_has_examples_that_contrast(name: str) -> None:
    held = load_policy(name)
    for scheme in ("fine", "binary") if held.fine else ("binary",):
        lines = held.examples(scheme).splitlines()
        for category in held.categories(scheme)[1:]:
            assert [line for line in lines if line.startswith(f"is {category.name} (")], (
                scheme,
                category.name,
            )
            assert [line for line in lines if line.startswith(f"is not {category.name} (")]


def test_a_policy_of_one_s_own_takes_examples_from_the_pool(tmp_path: Path) -> None:
    named = OWN.replace('name = "Rude", ', 'name = "Rude", examples_from = ["religion"], ')
    held = load_policy(written(tmp_path, named))
    kinds = [line.partition(":")[0] for line in held.examples("fine").splitlines()]
    assert kinds == [
        "is Rude (stereotype)", "is not Rude (stereotype)", "is Rude (image)", "is not Rude (image)",
        "is not Rude (quoted)",
    ]  # fmt: skip
    # What is kept of it holds the examples, so that another pool changes neither its hash nor what is told of it.
    kept = parse_policy(held.source)
    assert (kept.sha, kept.examples("fine")) == (held.sha, held.examples("fine"))
    other = parse_policy(held.source.replace("Better count", "Do count"))
    assert other.sha != held.sha
    assert "Do count the coins twice." in other.examples("fine")
    with pytest.raises(
        BadInput,
        match="Rude: examples_from: 'religon': there is no such group; did you mean religion",
    ):
        load_policy(written(tmp_path, named.replace("religion", "religon")))


IMPLIED = {
    "dog-whistle",
    "metaphor",
    "benevolent",
    "emoji",
    "algospeak",
    "pun",
    "stereotype",
    "image",
}


@pytest.mark.parametrize("tag", [None, "de", "ko"])
@pytest.mark.parametrize("name", ["h-vli", "moderations"])
def test_implied_hate_stands_first_in_pairs_in_each_language_of_a_shipped_policy(
    name: str, tag: str | None
) -> None:
    policy = load_policy(name)
    assert set(policy.translations) == {"de", "ko"}
    told = translate_policy(policy, tag)
    assert (told.examples("fine") == policy.examples("fine")) is (tag is None)
    kinds = set()
    for category in told.fine[1:]:
        lines = [line.partition(":")[0] for line in category.list_examples("X")]
        if "threat" in category.examples_from:
            continue
        for at in range(
            0, len(lines), 5
        ):  # a group: two pairs, then one more that only seems hateful
            first, second = lines[at][len("is X (") : -1], lines[at + 2][len("is X (") : -1]
            assert lines[at : at + 4] == [
                f"is X ({first})", f"is not X ({first})", f"is X ({second})", f"is not X ({second})",
            ]  # fmt: skip
            kinds |= {first, second}
    assert kinds == IMPLIED


def test_a_policy_in_the_language_of_the_post(tmp_path: Path) -> None:
    held = load_policy(written(tmp_path, FULL))
    korean = translate_policy(held, "ko-KR")
    assert (korean.language, korean.definition, korean.exclusions) == (
        "ko",
        "우리가 원하지 않는 것.",
        held.exclusions,
    )
    assert [(each.name, each.meaning) for each in korean.fine[:2]] == [
        ("Fine", "nothing"),
        ("Rude", "공격"),
    ]
    assert (korean.sha, korean.protected_groups) == (held.sha, held.protected_groups)
    assert translate_policy(held, "ko-KR") is korean
    for other in ("en", "en-GB", "fr", None):
        assert translate_policy(held, other) is held


@pytest.mark.parametrize(
    ("change", "says"),
    table(__file__, "a_misspelt_key_is_named_with_what_was_meant"),
)  # fmt: skip
def test_a_misspelt_key_is_named_with_what_was_meant(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    assert change[0] in FULL
    with pytest.raises(BadInput) as told:
        load_policy(written(tmp_path, FULL.replace(*change, 1)))
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_hate_is_said_of_hate_alone(tmp_path: Path) -> None:
    text = """
        name = "x"
        task = "sarcasm"
        definition = "d"
        exclusions = "e"
        binary = [{ name = "no", meaning = "n" }, { name = "yes", meaning = "y", hate = true }]
    """
    with pytest.raises(
        BadInput, match="binary: only a policy on hate speech says which categories are hate"
    ):
        load_policy(written(tmp_path, text))


NUMBERED = (
    OWN
    + """
[[clauses]]
id = "2.1"
category = "Rude"
rule = "Nobody attacks gardeners."
exceptions = "A quarrel over a hedge."
severity = "high"
action = "remove"
examples_for = ["Gardeners out!"]
examples_against = ["I quote: gardeners out!"]

[translations.ko]
excuses = "인용."
clauses = { "2.1" = { rule = "정원사를 공격하지 않는다." } }
"""
)


def test_a_policy_numbers_its_clauses(tmp_path: Path) -> None:
    held = load_policy(written(tmp_path, NUMBERED))
    clause = held.find_clause("2.1")
    assert clause is not None
    assert (clause.category, clause.severity, clause.action) == ("Rude", "high", "remove")
    assert held.exceptions_of(clause) == "A quarrel over a hedge."
    assert clause.list_examples("rude") == [
        "is rude: Gardeners out!",
        "is not rude: I quote: gardeners out!",
    ]
    assert held.find_clause("2.2") is None
    korean = translate_policy(held, "ko").clauses[0]
    assert (korean.rule, korean.exceptions, korean.id) == (
        "정원사를 공격하지 않는다.",
        "A quarrel over a hedge.",
        "2.1",
    )
    assert held.without_clauses().clauses == ()
    assert load_policy(written(tmp_path, OWN)).without_clauses().clauses == ()


def test_a_clause_without_exceptions_has_those_of_the_policy() -> None:
    held = load_policy("h-vli")
    for clause in held.clauses:
        assert held.exceptions_of(clause) == f"{held.exclusions}\n\n{held.excuses}"


@pytest.mark.parametrize("name", list_shipped_policies())
def test_every_category_of_a_shipped_policy_has_a_clause(name: str) -> None:
    held = load_policy(name)
    for category in (held.fine or held.binary)[1:]:
        assert [each for each in held.clauses if each.category == category.name], category.name
    for tag, translation in held.translations.items():
        assert {*translation.clauses} == {each.id for each in held.clauses}, tag


def test_examples_of_a_clause_from_the_pool_are_kept_with_the_policy(tmp_path: Path) -> None:
    held = load_policy(
        written(tmp_path, NUMBERED.replace('severity = "high"', 'examples_from = ["religion"]'))
    )
    assert "[pool.religion.for]" in held.source
    assert len(held.clauses[0].list_examples("rude")) > 2


@pytest.mark.parametrize(
    ("change", "says"),
    table(__file__, "what_is_wrong_with_its_clauses_is_said"),
)
def test_what_is_wrong_with_its_clauses_is_said(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    assert change[0] in NUMBERED
    with pytest.raises(BadInput) as told:
        load_policy(written(tmp_path, NUMBERED.replace(*change, 1)))
    assert says in str(told.value)


REASONS = """
[translations.de.reasons]
Fine = ["Es ist ein Zitat.", "Es geht um Ideen."]
"""


def test_a_category_lists_reasons_in_each_language() -> None:
    told = OWN.replace(
        'fine = [{ name = "Fine",', 'fine = [{ name = "Fine", reasons = ["It quotes.", "Ideas."],'
    )
    policy = parse_policy(told + REASONS)
    german = translate_policy(policy, "de")
    assert policy.reasons_for(policy.fine[0]) == ("It quotes.", "Ideas.")
    assert german.reasons_for(german.fine[0]) == ("Es ist ein Zitat.", "Es geht um Ideen.")
    assert german.reasons_for(german.binary[0]) == ("nothing",), (
        "it has none of its own, and says its meaning"
    )
    with pytest.raises(
        BadInput, match=r"translations.de.reasons: Fine: give one for each of its own: 1"
    ):
        parse_policy(told.replace(', "Ideas."', "") + REASONS)
    with pytest.raises(
        BadInput, match=r"translations.de.reasons: Fin: there is no such category; .*Fine"
    ):
        parse_policy(told + REASONS.replace("Fine", "Fin"))
