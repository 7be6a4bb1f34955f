"""HateCheck, Multilingual HateCheck and HatemojiCheck on small files in their form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.datasets.published import labels, posts, table
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset


def case(number: int, label: str, **changed: object) -> dict[str, object]:
    held = {
        "": number,
        "functionality": "f",
        "case_id": number,
        "test_case": f"case {number} ",
        "label_gold": label,
    }
    return {
        **held,
        "target_ident": "",
        "direction": "",
        "focus_words": "-",
        "templ_id": 7,
        **changed,
    }


def test_hatecheck_keeps_functionality_and_target(tmp_path: Path) -> None:
    rows = [
        case(
            1,
            "hateful",
            functionality="derog_neg_emote_h",
            target_ident="women",
            direction="general",
        ),
        case(2, "non-hateful", functionality="profanity_nh"),
    ]
    table(tmp_path / "test_suite_cases.csv", rows)
    found = posts("hatecheck", tmp_path)
    assert labels(found) == [("1", 1, True), ("2", 0, False)]
    assert found[0].fields == {
        "functionality": "derog_neg_emote_h", "target": "women", "direction": "general", "template": "7",
    }  # fmt: skip
    assert (found[1].fields["target"], found[1].text) == (None, "case 2")
    table(tmp_path / "all_cases.csv", [*rows, case(3, "hate")])
    with pytest.raises(
        BadInput, match=r"row 3: label_gold = 'hate': is not hateful \(yes\), non-hateful \(no\)"
    ):
        posts("hatecheck", tmp_path, "all")


# ---------------------------------------------------------------------------------------------- multilingual hatecheck


def mhc(tongue: str, number: int, label: str, **changed: object) -> dict[str, object]:
    """A row as the published files have it; those of Dutch, Mandarin and others lack the two columns of gender."""
    return {
        "mhc_case_id": f"{tongue}-{number}",
        "functionality": "ident_neutral_nh",
        "test_case": f"Satz {number} ",
        "label_gold": label,
        "target_ident": "",
        "ref_case_id": "",
        "ref_templ_id": "12.0",
        "templ_id": 3,
        "case_templ": "Satz [IDENT_P]",
        "gender_male": "",
        "gender_female": "",
        "label_annotated": "['hateful', 'non-hateful', 'hateful']",
        "label_annotated_maj": "hateful",
        "disagreement_in_case": label != "hateful",
        "disagreement_in_template": False,
        **changed,
    }


def test_multilingual_hatecheck_is_one_file_a_language(tmp_path: Path) -> None:
    german = [mhc("german", 1, "hateful", target_ident="women"), mhc("german", 2, "non-hateful")]
    mandarin = [mhc("mandarin", 1, "non-hateful", templ_id=9)]
    for row in mandarin:
        del row["gender_male"], row["gender_female"]
    table(tmp_path / "MHC Final Cases/hatecheck_cases_final_german.csv", german)
    table(tmp_path / "MHC Final Cases/hatecheck_cases_final_mandarin.csv", mandarin)
    found = posts("multilingual-hatecheck", tmp_path, "german")
    assert labels(found) == [("german-1", 1, True), ("german-2", 0, False)]
    assert found[0].fields == {
        "functionality": "ident_neutral_nh", "target": "women", "template": "german-3", "language": "german",
        "disputed": False,
    }  # fmt: skip
    assert (found[1].fields["target"], found[1].fields["disputed"], found[1].text) == (
        None,
        True,
        "Satz 2",
    )
    chinese = posts("multilingual-hatecheck", tmp_path / "MHC Final Cases", "mandarin")
    assert [(post.language, post.group) for post in (*found, *chinese)] == [
        ("de", "german-3"), ("de", "german-3"), ("zh", "mandarin-9"),
    ]  # fmt: skip
    alone = open_dataset(
        "multilingual-hatecheck", tmp_path / "MHC Final Cases/hatecheck_cases_final_german.csv"
    )
    assert (alone.split, alone.cluster) == ("german", "template")
    with pytest.raises(
        BadInput, match=r"has no hatecheck_cases_final_arabic\.csv .* the split german and mandarin"
    ):
        open_dataset("multilingual-hatecheck", tmp_path)


# ------------------------------------------------------------------------------------------------------- hatemojicheck


def emoji(number: int, label: object, **changed: object) -> dict[str, object]:
    return {
        "case_id": number, "templ_id": "1.0", "test_group_id": 1, "text": f"tea 🍵 {number}", "target": "women",
        "functionality": "verb_swap", "set": "orig", "label_gold": label, "unrealistic_flags": 0,
        "included_in_test_suite": 1, **changed,
    }  # fmt: skip


def test_hatemojicheck_keeps_what_was_made_of_what(tmp_path: Path) -> None:
    rows = [
        emoji(0, 1),
        emoji(1, 0, templ_id="1.2", set="polarity_perturb"),
        emoji(2, "non-hateful", target="", templ_id="2.0", test_group_id=2),
        emoji(3, 1, included_in_test_suite=0),
    ]
    table(tmp_path / "HatemojiCheck.csv", rows)
    opened = open_dataset("hatemojicheck", tmp_path)
    found = list(opened)
    assert labels(found) == [("0", 1, True), ("1", 0, False), ("2", 0, False)]
    assert opened.skipped == {"not in the suite": 1}
    assert opened.cluster == "test_group"
    assert found[1].fields == {
        "functionality": "verb_swap", "target": "women", "set": "polarity_perturb", "template": "1.2",
        "test_group": "1",
    }  # fmt: skip
    # A case and its opposite belong together; only those of one template should get the same verdict.
    assert [(post.group, post.fields["test_group"]) for post in found] == [
        ("1.0", "1"),
        ("1.2", "1"),
        ("2.0", "2"),
    ]
    assert found[0].text == "tea 🍵 0"
