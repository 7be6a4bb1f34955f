"""The policy in force: the shipped one, and a user's own with clear errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tribunal.errors import BadInput
from tribunal.prompts.policy import policy, policy_in_force, shipped

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
    assert "h-vli" in shipped()
    held = policy("h-vli")
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
    held = policy(task)
    assert (held.name, held.task, held.protected_groups) == (task, task, ())
    assert [category.name for category in held.binary] == [f"not {held.binary[1].name}", held.binary[1].name]
    assert held.categories("fine") == held.categories("binary") == held.binary


def test_what_belongs_to_hate_is_refused_in_them(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(OWN.replace('name = "house rules"', 'name = "x"\ntask = "sarcasm"'), "utf-8")
    with pytest.raises(BadInput, match="protected_groups: Value error, only a policy on hate speech has these"):
        policy(str(file))


async def test_a_policy_of_one_s_own(own: Path) -> None:
    held = policy(str(own))
    assert (held.name, held.protected_groups) == ("house rules", ("gardeners", "bakers"))
    assert await policy_in_force(str(own)) is held
    assert await policy_in_force("h-vli") is await policy_in_force("h-vli")


def test_a_changed_file_is_read_again(own: Path) -> None:
    before = policy(str(own))
    own.write_text(OWN.replace("bakers", "cooks"), "utf-8")
    os.utime(own, ns=(1, 1))
    after = policy(str(own))
    assert after.protected_groups == ("gardeners", "cooks")
    assert after.sha != before.sha


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("name =", "nam ="), "name: Field required"),
        (('definition = "What we don\'t want."', 'definition = " "'), "definition: String should have at least 1"),
        (('["gardeners", "bakers"]', "[]"), "protected_groups: Tuple should have at least 1 item"),
        (('["gardeners", "bakers"]', '["bakers", "Bakers"]'), "protected_groups names 'bakers' twice"),
        (('["gardeners", "bakers"]', '["<<<post"]'), "protected_groups.0: String should match pattern"),
        (('["gardeners", "bakers"]', '["a\\nb"]'), "protected_groups.0: String should match pattern"),
        (('["gardeners", "bakers"]', '["{{ x }}"]'), "protected_groups.0: String should match pattern"),
        (('{ name = "Bad", meaning = "an attack" }', ""), "binary: Tuple should have at least 2 items"),
        (('"Rude"', '"fine"'), "fine names 'fine' twice"),
        (('name = "house rules"', 'name = "x"\nsha = "0"'), "sha: is worked out from the file"),
        (('name = "house rules"', 'name = "x"\ncolour = "red"'), "colour: Extra inputs are not permitted"),
        (('name = "house rules"', "name = "), "not a TOML file"),
        (('name = "house rules"', "name = 4"), "name: Input should be a valid string"),
    ],
)
def test_what_is_wrong_with_it_is_said(own: Path, change: tuple[str, str], says: str) -> None:
    own.write_text(OWN.replace(*change), "utf-8")
    with pytest.raises(BadInput) as told:
        policy(str(own))
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
            policy(name)
