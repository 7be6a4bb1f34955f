"""H-VLI, Hateful Memes and MMHS150K on small files in their form: text, label, image, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.eval.datasets.published import BLIND, labels, posts, shared, written
from tribunal.errors import BadInput
from tribunal.eval.datasets import Gold, open_dataset
from tribunal.eval.datasets.published import DIFFICULTY

# ---------------------------------------------------------------------------------------------------------------- h-vli


def hvli(text: object, image: object, final: object, **changed: object) -> dict[str, object]:
    return {
        "final_label": final,
        "tweet_text": "차 한 잔? 🍵",
        "text_label": text,
        "image_path": "imgs/MMHS150K/1.jpg",
        "image_label": image,
        "type": "ignored",
        "difficulty": "ignored",
        **changed,
    }


def test_hvli_keeps_pattern_and_difficulty_of_its_three_labels(tmp_path: Path) -> None:
    made = {pattern: [int(digit) * 5 for digit in pattern] for pattern in DIFFICULTY}
    written(tmp_path / "test_set.json", {name: hvli(*values) for name, values in made.items()})
    found = posts("h-vli", tmp_path, columns=BLIND)
    assert {post.id: post.fields["smi_pattern"] for post in found} == {
        pattern: pattern for pattern in DIFFICULTY
    }
    assert {post.id: post.fields["difficulty"] for post in found} == {
        "000": "Easy", "011": "Easy", "101": "Easy", "111": "Easy", "100": "Normal", "010": "Normal", "001": "Hard",
        "110": "Hard",
    }  # fmt: skip
    assert {post.text for post in found} == {"차 한 잔? 🍵"}


def test_hvli_labels_are_the_six_categories(tmp_path: Path) -> None:
    names = ("NotHate", "Racist", "Sexist", "Homophobic", "Religious", "OtherHate")
    made = {str(label): hvli(0, 0, label) for label in range(6)} | {
        "own": hvli(0, 0, 3, final_label_str="Homophobe")
    }
    written(tmp_path / "train_set.json", made)
    *found, own = (post.gold for post in posts("h-vli", tmp_path, "train", columns=BLIND))
    assert found == [
        Gold(label=n, scheme="fine", positive=n > 0, name=name) for n, name in enumerate(names)
    ]
    assert own == found[3]  # one word for it, whatever the file calls it


@pytest.mark.parametrize("label", [6, -1, "Racist", None, True, 1.5])
def test_hvli_refuses_what_is_no_category(tmp_path: Path, label: object) -> None:
    written(tmp_path / "test_set.json", {"00012": hvli(0, 0, label)})
    with pytest.raises(
        BadInput, match=r"test_set\.json row 00012: final_label = .*: is not a category, 0 to 5"
    ):
        posts("h-vli", tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([hvli(0, 0, 0)], "is not one JSON object"),
        ({"1": 5}, "row 1: a row is an object with named fields, not int"),
        ({"1": {"tweet_text": "a"}}, "row 1: has no column 'text_label'; it has tweet_text"),
    ],
)
def test_hvli_of_another_form_is_refused(tmp_path: Path, content: object, said: str) -> None:
    written(tmp_path / "test_set.json", content)
    with pytest.raises(BadInput, match=said):
        posts("h-vli", tmp_path)


def test_the_real_hvli_agrees_with_its_own_type_and_difficulty() -> None:
    file = shared("h-vli/train_set.json")
    raw = json.loads(file.read_text("utf-8"))
    found = posts("h-vli", file, columns=BLIND)
    assert len(found) == 4391
    for post in found:
        assert post.fields["smi_pattern"] == raw[post.id]["type"]
        assert post.fields["difficulty"].lower() == raw[post.id]["difficulty"]
        assert post.text == raw[post.id]["tweet_text"].strip()
        assert post.gold is not None
        name = {"Homophobe": "Homophobic", "Religion": "Religious"}.get(
            given := raw[post.id]["final_label_str"], given
        )
        assert (post.gold.label, post.gold.name) == (raw[post.id]["final_label"], name)


# -------------------------------------------------------------------------------------------------------- fhm, mmhs150k


def test_fhm_reads_either_name_of_its_dev_split(tmp_path: Path) -> None:
    row = {"id": 1235, "img": "img/01235.png", "label": 1, "text": "a mild meme"}
    (tmp_path / "dev_seen.jsonl").write_text(
        json.dumps(row) + "\n\n" + json.dumps({**row, "id": 2, "label": 0})
    )
    (tmp_path / "img").mkdir()
    (tmp_path / "img/01235.png").write_bytes(b"x")
    found = posts("fhm", tmp_path)
    assert labels(found) == [("1235", 1, True), ("2", 0, False)]
    assert found[0].gold == Gold(label=1, scheme="binary", positive=True, name="hateful")
    assert found[0].image == str(tmp_path / "img/01235.png")


def test_fhm_test_files_without_labels_give_no_post(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"id": 1, "img": "img/1.png", "text": "a"}\n')
    opened = open_dataset("fhm", tmp_path, split="test")
    assert (list(opened), opened.skipped) == ([], {"no label": 1})


def mmhs(*votes: object, text: str = "a tweet") -> dict[str, object]:
    return {
        "img_url": "http://x",
        "labels": list(votes),
        "tweet_url": "https://t",
        "tweet_text": text,
        "labels_str": [],
    }


def test_mmhs_is_hate_where_most_of_its_annotators_say_so(tmp_path: Path) -> None:
    votes = {
        "1": (0, 0, 0),
        "2": (0, 0, 5),
        "3": (1, 1, 0),
        "4": (1, 2, 0),
        "5": (4, 4, 4),
        "6": (1, 0),
    }
    written(tmp_path / "MMHS150K_GT.json", {name: mmhs(*given) for name, given in votes.items()})
    found = posts("mmhs150k", tmp_path, "all", columns=BLIND)
    assert [post.gold.positive for post in found if post.gold] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    assert [post.fields["category"] for post in found] == [
        "NotHate",
        "NotHate",
        "Racist",
        None,
        "Religious",
        None,
    ]
    assert found[3].fields["votes"] == ["Racist", "Sexist", "NotHate"]


def test_mmhs_splits_are_lists_of_ids(tmp_path: Path) -> None:
    written(tmp_path / "MMHS150K_GT.json", {str(number): mmhs(0, 0, 0) for number in range(5)})
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits/test_ids.txt").write_text("3\n1\n")
    (tmp_path / "img_resized").mkdir()
    for number in range(5):
        (tmp_path / f"img_resized/{number}.jpg").write_bytes(b"x")
    found = posts("mmhs150k", tmp_path)
    assert [(post.id, post.image) for post in found] == [
        (name, str(tmp_path / f"img_resized/{name}.jpg")) for name in ("1", "3")
    ]
    with pytest.raises(BadInput, match=r"has no splits/val_ids\.txt"):
        open_dataset("mmhs150k", tmp_path, split="val")


def test_mmhs_posts_have_the_words_that_were_read_in_their_image(tmp_path: Path) -> None:
    written(
        tmp_path / "MMHS150K_GT.json",
        {str(number): mmhs(0, 0, 0, text="look") for number in range(4)},
    )
    for number, words in ((0, "NO TEA\nNO CAKE \n"), (1, ""), (2, None)):
        written(tmp_path / f"img_txt/{number}.json", {"img_text": words})
    found = posts("mmhs150k", tmp_path, "all", columns=BLIND)
    assert [post.text for post in found] == [
        "look\n\nText in the image: NO TEA NO CAKE",
        "look",
        "look",
        "look",
    ]
    with_words, without = (
        open_dataset("mmhs150k", tmp_path, split="all", extras=each, columns=BLIND)
        for each in (True, False)
    )
    assert [post.text for post in without] == ["look"] * 4
    assert with_words.fingerprint != without.fingerprint
    (tmp_path / "img_txt/3.json").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n"
    )
    with pytest.raises(BadInput, match=r"img_txt/3\.json: is a Git LFS pointer"):
        posts("mmhs150k", tmp_path, "all")
    (tmp_path / "img_txt/3.json").write_text("{")
    with pytest.raises(BadInput, match=r"img_txt/3\.json: not the words of an image"):
        posts("mmhs150k", tmp_path, "all")


@pytest.mark.parametrize("votes", [[7], ["Racist"], "0", None])
def test_mmhs_refuses_what_is_no_vote(tmp_path: Path, votes: object) -> None:
    written(tmp_path / "MMHS150K_GT.json", {"1": {**mmhs(), "labels": votes}})
    with pytest.raises(BadInput, match=r"row 1: labels = .*: is not a list of categories, 0 to 5"):
        posts("mmhs150k", tmp_path, "all")
