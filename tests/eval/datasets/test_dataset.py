"""What holds for every set: names, where files are looked for, wrong rows, images, fingerprints."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tribunal.errors import BadInput
from tribunal.eval.datasets import DATASETS, describe_dataset, open_dataset
from tribunal.runner.results import Sample

NAMES = [
    "h-vli", "fhm", "mmhs150k", "sbic", "ghc", "4chan", "k-haters", "k-mhas", "kold", "kodoli", "unsmile",
    "predict-samples", "predict-debates", "mmsd",
    "gossipcop", "hatecheck", "multilingual-hatecheck", "hatemojicheck", "group-swap", "without-quotes",
    "table",
]  # fmt: skip
CASES = "functionality,case_id,test_case,label_gold,target_ident,direction,templ_id\n"


def memes(folder: Path, *rows: dict[str, object], name: str = "dev.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def meme(number: int, **changed: object) -> dict[str, object]:
    return {
        "id": number,
        "img": f"img/{number}.png",
        "label": number % 2,
        "text": f"meme {number}",
        **changed,
    }


def picture(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"a picture")


def posts(name: str, data: Path, **options: object) -> list[Sample]:
    return list(open_dataset(name, data, **options))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------------- names


def test_every_set_of_the_papers_is_there_and_described() -> None:
    assert list(DATASETS) == NAMES
    for name in NAMES:
        said = describe_dataset(name)
        assert said.startswith(f"{name}: ")
        for part in (
            "task: ",
            "obtained from: ",
            "licence: ",
            "(default): ",
            "the papers' protocol: ",
        ):
            assert part in said, (name, part)


def test_an_unknown_name_is_answered_with_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"dataset: 'hvli': there is none of that name; did you mean h-vli\?"
    ):
        open_dataset("hvli", tmp_path)


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", [name for name in NAMES if name != "table"])
def test_a_missing_file_is_named_with_where_to_get_it(name: str, tmp_path: Path) -> None:
    spec = DATASETS[name]
    first = spec.splits[spec.default][0][0]
    with pytest.raises(BadInput) as caught:
        open_dataset(name, tmp_path)
    assert first in str(caught.value)
    assert spec.obtain in str(caught.value)
    with pytest.raises(BadInput, match="no such file or folder"):
        open_dataset(name, tmp_path / "nowhere")


def test_a_file_may_be_given_and_tells_its_split_by_its_name(tmp_path: Path) -> None:
    memes(tmp_path, meme(1), name="test_unseen.jsonl")
    opened = open_dataset("fhm", tmp_path / "test_unseen.jsonl")
    assert (opened.split, opened.files) == ("test-unseen", (tmp_path / "test_unseen.jsonl",))
    (tmp_path / "test_unseen.jsonl").rename(tmp_path / "mine.jsonl")
    with pytest.raises(BadInput, match=r"mine\.jsonl: is not a file of fhm by its name"):
        open_dataset("fhm", tmp_path / "mine.jsonl")
    assert len(posts("fhm", tmp_path / "mine.jsonl", split="dev", columns={"image": ""})) == 1


def test_the_data_folder_of_a_repository_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test_suite_cases.csv").write_text(
        CASES + "f,1,a,hateful,,,\n", encoding="utf-8"
    )
    assert [post.id for post in posts("hatecheck", tmp_path)] == ["1"]


# ---------------------------------------------------------------------------------------------------------- wrong rows


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", None),
        (b"{not json}\n", r"dev\.jsonl: line 1: not JSON"),
        (
            b'{"id": 1, "text": "a", "img": "", "label": 1}\n[2]\n',
            "a row is an object with named fields, not list",
        ),
        (
            b'{"id": 1, "text": "\xff", "label": 1}\n',
            r"dev\.jsonl: row 1: can't be read as utf-8 .*--encoding cp1252",
        ),
        (
            b'{"id": 1, "label": 1, "img": ""}\n',
            r"fhm: dev\.jsonl row 1: has no column 'text'; it has id, label, img",
        ),
        (
            b'{"id": 1, "text": "a", "img": "", "label": 2}\n',
            r"row 1: label = '2': is not 1 \(yes\), 0 \(no\)",
        ),
        (b'{"id": ' + b"9" * 5000 + b"}\n", "line 1: not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_file_is_named_with_its_row(
    tmp_path: Path, content: bytes, said: str | None
) -> None:
    (tmp_path / "dev.jsonl").write_bytes(content)
    if said is None:
        assert posts("fhm", tmp_path) == []
        return
    with pytest.raises(BadInput, match=said) as caught:
        posts("fhm", tmp_path)
    assert "\n" not in str(caught.value)


def test_rows_without_text_or_label_are_left_out_and_counted(tmp_path: Path) -> None:
    memes(
        tmp_path,
        meme(1),
        meme(2, text="  ", img=None),
        meme(3, label=None),
        meme(4, label=""),
        meme(5, img=None),
    )
    picture(tmp_path, "img/1.png")
    opened = open_dataset("fhm", tmp_path)
    for _ in range(2):  # counted anew each time
        assert [post.id for post in opened] == ["1", "5"]
        assert opened.skipped == {"no label": 2, "neither text nor image": 1}
    assert opened.warnings[-1] == "fhm: 3 rows were left out: neither text nor image 1, no label 2"


def test_half_a_surrogate_pair_does_not_get_through(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text(
        '{"id": 1, "img": "", "label": 1, "text": "a\\ud800b \\ud83d\\ude00"}\n'
    )
    assert posts("fhm", tmp_path)[0].text == "a�b 😀"


# -------------------------------------------------------------------------------------------------------------- images


def test_images_lie_beside_the_file_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    memes(tmp_path / "data", meme(1))
    picture(tmp_path, "img/1.png")
    for given in (tmp_path, tmp_path / "data", tmp_path / "data" / "dev.jsonl"):
        assert posts("fhm", given)[0].image == str(tmp_path / "img" / "1.png"), given


@pytest.mark.parametrize("ref", ["../../etc/passwd", "img/../../secret.png", ".."])
def test_an_image_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path, ref: str) -> None:
    (tmp_path / "set").mkdir()
    picture(tmp_path, "secret.png", "set/img/1.png")
    memes(tmp_path / "set", meme(1), meme(2, img=ref))
    with pytest.raises(BadInput, match=f"post 2: image '{re.escape(ref)}' is outside"):
        posts("fhm", tmp_path / "set")


@pytest.mark.parametrize(
    "ref", ["img/" + "x" * 5000, "img/a\0b.png", ".", "/etc/passwd", "https://example.org/a.png"]
)
def test_an_image_path_that_no_file_can_have_is_a_missing_one(tmp_path: Path, ref: str) -> None:
    memes(tmp_path, meme(1), meme(2, img=ref))
    picture(tmp_path, "img/1.png")
    with pytest.raises(BadInput, match="1 of its 2 images are missing"):
        posts("fhm", tmp_path)


def test_a_symbolic_link_that_the_user_laid_is_followed(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    picture(tmp_path, "elsewhere/1.png")
    (tmp_path / "set" / "img").symlink_to(tmp_path / "elsewhere")
    memes(tmp_path / "set", meme(1))
    assert posts("fhm", tmp_path / "set")[0].image == str(tmp_path / "set/img/1.png")


# --------------------------------------------------------------------------------------------------------- fingerprint


def test_the_fingerprint_is_that_of_the_contents(tmp_path: Path) -> None:
    memes(tmp_path, meme(1))
    before = open_dataset("fhm", tmp_path).fingerprint
    assert before == hashlib.sha256((tmp_path / "dev.jsonl").read_bytes()).hexdigest()
    memes(tmp_path, meme(1, text="another"))
    assert open_dataset("fhm", tmp_path).fingerprint != before


def test_the_fingerprint_of_several_files_changes_with_each(tmp_path: Path) -> None:
    for label in ("fake", "real"):
        (tmp_path / f"gossipcop_{label}.csv").write_text(
            f"id,news_url,title,tweet_ids\n{label}-1,u,t,\n"
        )
    found = [open_dataset("gossipcop", tmp_path).fingerprint]
    (tmp_path / "gossipcop_real.csv").write_text("id,news_url,title,tweet_ids\nreal-2,u,t,\n")
    found.append(open_dataset("gossipcop", tmp_path).fingerprint)
    (tmp_path / "gossipcop/fake/fake-1").mkdir(parents=True)
    (tmp_path / "gossipcop/fake/fake-1/news content.json").write_text('{"text": "an article"}')
    found.append(open_dataset("gossipcop", tmp_path).fingerprint)
    assert len(set(found)) == 3
