"""MMSD for sarcasm and GossipCop for misinformation, on small files in their form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.datasets.published import labels, posts, table, written
from tribunal.errors import BadInput
from tribunal.eval.datasets import Gold, open_dataset


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
            {
                "id": f"{label}-{n}",
                "news_url": f"x.org/{n}",
                "title": f"{label} title {n}",
                "tweet_ids": "1\t2",
            }
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
    assert found["fake-1"].fields == {
        "url": "x.org/1",
        "image_url": "https://x.org/a.jpg",
        "article": True,
    }
    assert found["fake-0"].fields["article"] is False
    article.write_text("{")
    with pytest.raises(BadInput, match=r"news content\.json: not an article of FakeNewsNet"):
        posts("gossipcop", tmp_path)


def test_gossipcop_lists_more_tweets_than_the_csv_module_takes_a_cell(tmp_path: Path) -> None:
    stories(tmp_path)
    ids = "\t".join(["945678901234567890"] * 20_000)
    table(
        tmp_path / "gossipcop_real.csv",
        [{"id": "r", "news_url": "", "title": "long", "tweet_ids": ids}],
    )
    assert [post.text for post in posts("gossipcop", tmp_path)][-1] == "long"


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ""])
def test_a_story_id_is_no_path(tmp_path: Path, name: str) -> None:
    stories(tmp_path)
    table(
        tmp_path / "gossipcop_real.csv",
        [{"id": name, "news_url": "", "title": "t", "tweet_ids": ""}],
    )
    with pytest.raises(BadInput, match=r"id = .* is not the name of a folder"):
        posts("gossipcop", tmp_path)
