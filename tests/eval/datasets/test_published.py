"""Each published set, on small files of our own in its form: what is the text, the label, and what is kept."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests import SHARED_DATA
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.datasets.hvli import DIFFICULTY
from tribunal.eval.datasets.sample import Gold, Sample
from tribunal.retrievers.perspectives.perspective import PAPER, find


def table(path: Path, rows: Iterable[Mapping[str, object]], delimiter: str = ",") -> Path:
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def posts(name: str, data: Path, split: str | None = None) -> list[Sample]:
    return list(open_dataset(name, data, split=split))


def labels(found: list[Sample]) -> list[tuple[str, int, bool]]:
    return [(post.id, post.gold.label, post.gold.positive) for post in found if post.gold]


# --------------------------------------------------------------------------------------------------------------- h-vli


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
    found = posts("h-vli", tmp_path)
    assert {post.id: post.fields["smi_pattern"] for post in found} == {pattern: pattern for pattern in DIFFICULTY}
    assert {post.id: post.fields["difficulty"] for post in found} == {
        "000": "Easy", "011": "Easy", "101": "Easy", "111": "Easy", "100": "Normal", "010": "Normal", "001": "Hard",
        "110": "Hard",
    }  # fmt: skip
    assert {post.text for post in found} == {"차 한 잔? 🍵"}


def test_hvli_labels_are_the_six_categories(tmp_path: Path) -> None:
    names = ("NotHate", "Racist", "Sexist", "Homophobic", "Religious", "OtherHate")
    made = {str(label): hvli(0, 0, label) for label in range(6)} | {"own": hvli(0, 0, 3, final_label_str="Homophobe")}
    written(tmp_path / "train_set.json", made)
    *found, own = (post.gold for post in posts("h-vli", tmp_path, "train"))
    assert found == [Gold(label=n, scheme="fine", positive=n > 0, name=name) for n, name in enumerate(names)]
    assert own == Gold(label=3, scheme="fine", positive=True, name="Homophobe")


@pytest.mark.parametrize("label", [6, -1, "Racist", None, True, 1.5])
def test_hvli_refuses_what_is_no_category(tmp_path: Path, label: object) -> None:
    written(tmp_path / "test_set.json", {"00012": hvli(0, 0, label)})
    with pytest.raises(BadInput, match=r"test_set\.json row 00012: final_label = .*: is not a category, 0 to 5"):
        posts("h-vli", tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([hvli(0, 0, 0)], "h-vli is one object, of posts by their ids, not list"),
        ({"1": 5}, "row 1: a post is an object with named fields, not int"),
        ({"1": {"tweet_text": "a"}}, "row 1: has no column 'text_label'; it has tweet_text"),
    ],
)
def test_hvli_of_another_form_is_refused(tmp_path: Path, content: object, said: str) -> None:
    written(tmp_path / "test_set.json", content)
    with pytest.raises(BadInput, match=said):
        posts("h-vli", tmp_path)


# ------------------------------------------------------------------------------------------------------- fhm, mmhs150k


def test_fhm_reads_either_name_of_its_dev_split(tmp_path: Path) -> None:
    row = {"id": 1235, "img": "img/01235.png", "label": 1, "text": "a mild meme"}
    (tmp_path / "dev_seen.jsonl").write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "id": 2, "label": 0}))
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
    votes = {"1": (0, 0, 0), "2": (0, 0, 5), "3": (1, 1, 0), "4": (1, 2, 0), "5": (4, 4, 4), "6": (1, 0)}
    written(tmp_path / "MMHS150K_GT.json", {name: mmhs(*given) for name, given in votes.items()})
    found = posts("mmhs150k", tmp_path, "all")
    assert [post.gold.positive for post in found if post.gold] == [False, False, True, True, True, False]
    assert [post.fields["category"] for post in found] == ["NotHate", "NotHate", "Racist", None, "Religion", None]
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


@pytest.mark.parametrize("votes", [[7], ["Racist"], "0", None])
def test_mmhs_refuses_what_is_no_vote(tmp_path: Path, votes: object) -> None:
    written(tmp_path / "MMHS150K_GT.json", {"1": {**mmhs(), "labels": votes}})
    with pytest.raises(BadInput, match=r"row 1: labels = .*: is not a list of categories, 0 to 5"):
        posts("mmhs150k", tmp_path, "all")


# ---------------------------------------------------------------------------------------------------------------- sbic


def sbic(post: str, offensive: object, who: object = "", groups: str = "[]") -> dict[str, object]:
    return {
        "whoTarget": who,
        "intentYN": 0.0,
        "sexYN": 0.0,
        "offensiveYN": offensive,
        "post": post,
        "targetMinority": groups,
        "targetCategory": '["culture"]' if groups != "[]" else "[]",
        "targetStereotype": "[]",
        "dataSource": "r/x",
        "hasBiasedImplication": 1,
    }


def test_sbic_reads_its_three_aggregated_files(tmp_path: Path) -> None:
    table(tmp_path / "SBIC.v2.agg.trn.csv", [sbic('a "quoted"\nline', 0.5, 1.0, '["dutch folks"]'), sbic("b", 0.33)])
    table(tmp_path / "SBIC.v2.agg.dev.csv", [sbic("c", 1.0, 0.0), sbic("d", "")])
    table(tmp_path / "SBIC.v2.agg.tst.csv", [sbic("e", 0.0)])
    opened = open_dataset("sbic", tmp_path)
    found = list(opened)
    assert labels(found) == [("trn-1", 1, True), ("trn-2", 0, False), ("dev-1", 1, True), ("tst-1", 0, False)]
    assert found[0].text == 'a "quoted"\nline'
    assert found[0].fields == {
        "who_target": 1.0, "targets": ["dutch folks"], "category": ["culture"], "offensive": 0.5, "split": "trn",
    }  # fmt: skip
    assert [post.fields["who_target"] for post in found] == [1.0, None, 0.0, None]
    assert opened.skipped == {"no label": 1}
    assert [post.id for post in posts("sbic", tmp_path, "test")] == ["tst-1"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (sbic("a", "nan"), "row 1: offensiveYN = 'nan': is not a number"),
        (sbic("a", "yes"), "row 1: offensiveYN = 'yes': is not a number"),
        (
            sbic("a", 1.0, 0.0, "dutch folks"),
            "row 1: targetMinority = 'dutch folks': is not a JSON list; the aggregated",
        ),
    ],
)
def test_sbic_refuses_other_values(tmp_path: Path, row: dict[str, object], said: str) -> None:
    table(tmp_path / "SBIC.v2.agg.tst.csv", [row])
    with pytest.raises(BadInput, match=said):
        posts("sbic", tmp_path, "test")


# ----------------------------------------------------------------------------------------------------------------- ghc

GHC = ("Hate", "HD", "CV", "VO", "REL", "RAE", "SXO", "GEN", "IDL", "NAT", "POL", "MPH", "EX", "IM")


def annotation(post: int, annotator: int, *given: str) -> dict[str, object]:
    return {"ID": post, "Annotator": annotator, "Text": f"post {post}"} | {name: int(name in given) for name in GHC}


def test_ghc_takes_what_more_than_half_of_the_annotators_gave(tmp_path: Path) -> None:
    rows = [
        annotation(1, 0, "HD", "IM", "REL"), annotation(2, 0, "HD"), annotation(3, 0, "CV", "EX"),
        annotation(1, 1, "HD", "IM"), annotation(2, 1), annotation(3, 1, "CV", "IM", "VO"),
        annotation(1, 2, "REL"), annotation(2, 2), annotation(3, 2, "HD", "EX"),
        annotation(4, 0, "HD"), annotation(4, 1),
    ]  # fmt: skip
    for blank in ("REL", "EX", "IM"):
        rows[4][blank] = ""  # as where an annotator wasn't asked
    table(tmp_path / "GabHateCorpus_annotations.tsv", rows, "\t")
    found = posts("ghc", tmp_path)
    assert labels(found) == [("1", 1, True), ("2", 0, False), ("3", 1, True), ("4", 0, False)]
    assert [post.fields["implicit"] for post in found] == [True, False, False, False]
    assert found[0].fields["targets"] == ["religion"]
    assert [post.fields["annotators"] for post in found] == [3, 3, 3, 2]


def test_ghc_split_files_have_their_own_columns(tmp_path: Path) -> None:
    rows = [{"text": f"post {cv}{hd}", "hd": hd, "cv": cv, "vo": 1} for hd in (0, 1) for cv in (0, 1)]
    table(tmp_path / "ghc_test.tsv", rows, "\t")
    found = posts("ghc", tmp_path, "test")
    assert labels(found) == [("test-1", 0, False), ("test-2", 1, True), ("test-3", 1, True), ("test-4", 1, True)]
    rows[1]["cv"] = 3
    table(tmp_path / "ghc_train.tsv", rows, "\t")
    with pytest.raises(BadInput, match=r"ghc_train\.tsv row 2: cv = '3': is not 0 or 1"):
        posts("ghc", tmp_path, "train")


# ----------------------------------------------------------------------------------------------------------- hatecheck


def case(number: int, label: str, **changed: object) -> dict[str, object]:
    held = {"": number, "functionality": "f", "case_id": number, "test_case": f"case {number} ", "label_gold": label}
    return {**held, "target_ident": "", "direction": "", "focus_words": "-", "templ_id": 7, **changed}


def test_hatecheck_keeps_functionality_and_target(tmp_path: Path) -> None:
    rows = [
        case(1, "hateful", functionality="derog_neg_emote_h", target_ident="women", direction="general"),
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
    with pytest.raises(BadInput, match=r"row 3: label_gold = 'hate': is not hateful \(yes\), non-hateful \(no\)"):
        posts("hatecheck", tmp_path, "all")


# -------------------------------------------------------------------------------------------------------------- korean


def test_k_haters(tmp_path: Path) -> None:
    names = ("normal", "offensive", "L1_hate", "2_hate")
    rows = [{"text": f"글 {name}", "label": name, "target_label": ["gender"] * (name != "normal")} for name in names]
    (tmp_path / "test.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    found = posts("k-haters", tmp_path)
    assert labels(found) == [("test-1", 0, False), ("test-2", 1, True), ("test-3", 1, True), ("test-4", 1, True)]
    assert found[1].fields == {"label": "offensive", "targets": ["gender"], "split": "test"}
    assert {post.language for post in found} == {"ko"}
    assert [post.gold.name for post in found[:2] if post.gold] == ["Not Offensive", "Offensive"]


def test_k_mhas(tmp_path: Path) -> None:
    (tmp_path / "kmhas_test.txt").write_text('﻿document\tlabel\n좋은 글\t8\n"따옴표\t안"\t2,5\n', encoding="utf-8")
    found = posts("k-mhas", tmp_path)
    assert labels(found) == [("test-1", 0, False), ("test-2", 1, True)]
    assert (found[1].text, found[1].fields["targets"]) == ("따옴표\t안", ["politics", "gender"])
    (tmp_path / "kmhas_test.txt").write_text("document\tlabel\n글\t9\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"kmhas_test\.txt row 1: label = '9' is neither among the values of hate"):
        posts("k-mhas", tmp_path)


def test_kold(tmp_path: Path) -> None:
    rows = [
        {"guid": "kold-1", "title": "제목", "comment": "글 하나", "OFF": True, "TGT": "group", "GRP": "others-x"},
        {"guid": "kold-2", "title": "제목", "comment": "글 둘", "OFF": False, "TGT": None, "GRP": None},
    ]
    written(tmp_path / "kold_v1.json", rows)
    found = posts("kold", tmp_path)
    assert labels(found) == [("kold-1", 1, True), ("kold-2", 0, False)]
    assert found[0].fields == {"aimed_at": "group", "target": "others-x", "split": "all"}
    assert found[1].fields["target"] is None


def test_kodoli(tmp_path: Path) -> None:
    rows = [
        {"index": n, "sentences": f"글 {n}", "abuse": "NON", "sentiment": "NEU", "offensiveness": value}
        for n, value in enumerate(("NOT", "LIKELY", "OFFEN", ""))
    ]
    table(tmp_path / "kodoli.csv", rows)
    opened = open_dataset("kodoli", tmp_path)
    found = list(opened)
    assert labels(found) == [("all-1", 0, False), ("all-2", 1, True), ("all-3", 1, True)]
    assert found[1].fields == {"offensiveness": "LIKELY", "abuse": "NON", "sentiment": "NEU", "split": "all"}
    assert opened.skipped == {"no label": 1}


def test_unsmile(tmp_path: Path) -> None:
    kinds = ("여성/가족", "남성", "성소수자", "인종/국적", "연령", "지역", "종교", "기타 혐오", "악플/욕설")
    given: list[set[str]] = [set(), {"지역", "종교"}]
    rows = [{"문장": f"글 {len(has)}", **{kind: int(kind in has) for kind in kinds}, "clean": 0} for has in given]
    table(tmp_path / "unsmile_valid_v1.0.tsv", rows, "\t")
    found = posts("unsmile", tmp_path)
    assert labels(found) == [("valid-1", 0, False), ("valid-2", 1, True)]
    assert found[1].fields["targets"] == ["지역", "종교"]
    del rows[1]["종교"], rows[0]["종교"]
    table(tmp_path / "unsmile_valid_v1.0.tsv", rows, "\t")
    with pytest.raises(BadInput, match=r"unsmile_valid_v1\.0\.tsv row 1: has no column '종교'; it has 문장, "):
        posts("unsmile", tmp_path)


def test_the_five_shipped_perspectives_have_the_files_that_the_sets_read() -> None:
    assert all(find(name).source for name in PAPER)


# ----------------------------------------------------------------------------------------------------- mmsd, gossipcop


def test_mmsd_and_its_corrected_version(tmp_path: Path) -> None:
    rows = [{"image_id": 900 + label, "text": "so sunny", "label": label} for label in (0, 1)]
    written(tmp_path / "data/text_json_clean/test.json", [*rows, rows[0]])
    written(tmp_path / "data/text_json_final/test.json", rows[:1])
    (tmp_path / "data/dataset_image").mkdir()
    for name in ("900.jpg", "901.jpg"):
        (tmp_path / "data/dataset_image" / name).write_bytes(b"x")
    for given in (tmp_path, tmp_path / "data", tmp_path / "data/text_json_clean/test.json"):
        opened = open_dataset("mmsd", given)
        found = list(opened)
        assert labels(found) == [("900", 0, False), ("901", 1, True)], given
        assert found[1].image == str(tmp_path / "data/dataset_image/901.jpg")
        assert found[1].gold == Gold(label=1, scheme="binary", positive=True, name="sarcastic")
        assert opened.skipped == {"an id that was there before": 1}
    assert len(posts("mmsd", tmp_path, "test-2.0")) == 1


def stories(folder: Path) -> Path:
    for label, count in (("fake", 2), ("real", 1)):
        rows = [
            {"id": f"{label}-{n}", "news_url": f"x.org/{n}", "title": f"{label} title {n}", "tweet_ids": "1\t2"}
            for n in range(count)
        ]
        table(folder / f"gossipcop_{label}.csv", rows)
    return folder


def test_gossipcop_is_fake_or_real_by_its_file(tmp_path: Path) -> None:
    stories(tmp_path / "dataset")
    found = posts("gossipcop", tmp_path)
    assert labels(found) == [("fake-0", 1, True), ("fake-1", 1, True), ("real-0", 0, False)]
    assert [post.gold.name for post in found if post.gold] == ["fake", "fake", "real"]
    assert (found[0].text, found[0].fields["url"]) == ("fake title 0", "x.org/0")
    with pytest.raises(BadInput, match="give their folder"):
        open_dataset("gossipcop", tmp_path / "dataset/gossipcop_fake.csv")


def test_gossipcop_takes_crawled_articles_where_there_are_some(tmp_path: Path) -> None:
    stories(tmp_path)
    article = tmp_path / "gossipcop/fake/fake-1/news content.json"
    written(article, {"text": "The body.", "top_img": "https://x.org/a.jpg", "images": []})
    found = {post.id: post for post in posts("gossipcop", tmp_path)}
    assert found["fake-1"].text == "fake title 1\n\nThe body."
    assert found["fake-1"].fields == {"url": "x.org/1", "image_url": "https://x.org/a.jpg", "article": True}
    assert found["fake-0"].fields["article"] is False
    article.write_text("{")
    with pytest.raises(BadInput, match=r"news content\.json: not an article of FakeNewsNet"):
        posts("gossipcop", tmp_path)


def test_gossipcop_lists_more_tweets_than_the_csv_module_takes_a_cell(tmp_path: Path) -> None:
    stories(tmp_path)
    ids = "\t".join(["945678901234567890"] * 20_000)
    table(tmp_path / "gossipcop_real.csv", [{"id": "r", "news_url": "", "title": "long", "tweet_ids": ids}])
    assert [post.text for post in posts("gossipcop", tmp_path)][-1] == "long"


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ""])
def test_a_story_id_is_no_path(tmp_path: Path, name: str) -> None:
    stories(tmp_path)
    table(tmp_path / "gossipcop_real.csv", [{"id": name, "news_url": "", "title": "t", "tweet_ids": ""}])
    with pytest.raises(BadInput, match=r"id = .* is not the name of a folder"):
        posts("gossipcop", tmp_path)


# ------------------------------------------------------------------------------------------------- the published files


def shared(name: str) -> Path:
    root = SHARED_DATA
    if not (root / name).exists():
        pytest.skip(f"{name} is not here: set TRIBUNAL_SHARED_DATA to the folder that holds it")
    return root / name


def test_the_real_hvli_agrees_with_its_own_type_and_difficulty() -> None:
    file = shared("h-vli/train_set.json")
    raw = json.loads(file.read_text("utf-8"))
    found = posts("h-vli", file)
    assert len(found) == 4391
    for post in found:
        assert post.fields["smi_pattern"] == raw[post.id]["type"]
        assert post.fields["difficulty"].lower() == raw[post.id]["difficulty"]
        assert post.text == raw[post.id]["tweet_text"].strip()
        assert post.gold is not None
        assert (post.gold.label, post.gold.name) == (raw[post.id]["final_label"], raw[post.id]["final_label_str"])


@pytest.mark.parametrize(
    ("name", "file", "split", "hate", "not_hate"),
    [
        ("kodoli", "korean/kodoli.csv", "all", 13_284, 25_241),
        ("unsmile", "korean/unsmile_train.tsv", "train", 11_264, 3_741),
        ("k-mhas", "korean/kmhas_valid.txt", "valid", 3_889, 4_887),
    ],
)
def test_the_real_korean_files(name: str, file: str, split: str, hate: int, not_hate: int) -> None:
    opened = open_dataset(name, shared(file).parent, split=split)
    found = Counter(post.gold.positive for post in opened if post.gold)
    assert found == {True: hate, False: not_hate}
    assert opened.warnings == []


@pytest.mark.parametrize("name", PAPER)
def test_the_samples_that_predict_ships_are_tables(name: str) -> None:
    file = shared(f"korean/predict_{name}_sample.csv")
    found = list(open_dataset("table", file, labels={"혐오": "hate", "비혐오": "not"}))
    assert Counter(post.gold.positive for post in found if post.gold).keys() == {True, False}
