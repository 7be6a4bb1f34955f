"""The list of a run's samples, over HTTP: every filter, order and count against a run worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eval.view.looking import SAMPLES, Browser, looking, sample, written
from tests.result_lines import line


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("runs")
    prices = '{"openai:a": {"input": 1000, "output": 0}}'
    run = written(folder / "one")
    (run / "prices.json").write_text(prices, "utf-8")
    with looking(run) as found:
        yield found


@pytest.mark.parametrize(
    ("query", "posts"),
    [
        ("", "a b c d e f g a1"),
        ("kind=false-positive", "c"),
        ("kind=false-negative", "d a1"),
        ("kind=other-category", "e"),
        ("kind=true-positive&kind=true-negative", "a b"),
        ("kind=no-verdict", "f"),
        ("kind=no-gold", "g"),
        ("outcome=refusal", "f"),
        ("fault=content_filter", "f"),
        ("gold=Racist", "a e f a1"),
        ("verdict=Racist", "a g"),
        ("verdict=refusal", "f"),
        ("uncertain=yes", "d"),
        ("track=dismissed", "b d"),
        ("pattern=A", "a c"),
        ("difficulty=Hard", "b c e"),
        ("difficulty=Hard&difficulty=Easy&pattern=A", "a c"),
        ("functionality=slur", "a"),
        ("target=x", "a b"),
        ("target=y", "a"),
        ("language=ko", "e"),
        ("model=openai:b", "c"),
        ("repeat=1", "a1"),
        ("confidence_from=0.6", "a b c e"),
        ("confidence_from=0.5&confidence_to=0.6", "e g"),
        ("calls_from=2", "c"),
        ("tokens_from=101", "b"),
        ("seconds_from=3&seconds_to=5", "a b"),
        ("money_from=0.1", "b"),  # 490 tokens at 1000 a million; of c's model no price is known
        ("words=weeds", "a c"),
        ("words=WEED", "a c"),
        ('words="weeds in our"', "a"),
        ("words=weeds+women", "c"),
        ("words=nowhere", ""),
        ("words=!!!", "a b c d e f g a1"),
        ("words=*%22)+OR+(", ""),
        ("sort=post", "a a1 b c d e f g"),
        ("sort=confidence", "d a1 g e c b a f"),
        ("sort=confidence&order=down", "a b c e g a1 d f"),
        ("sort=gold", "g b c a e f a1 d"),
        ("sort=verdict&order=down", "e c a g b d a1 f"),
        ("sort=kind", "a b c d a1 e f g"),
        ("sort=calls&order=down&difficulty=Hard", "c b e"),
        ("sort=tokens&order=down", "b a c d e f g a1"),
        ("sort=seconds&order=down&track=dismissed&track=fast_track", "a b d"),
        ("sort=money&order=down", "b a d e f g a1 c"),
        ("page=2", ""),
        ("difficulty=none+is+called+so", ""),
        ("utm_source=whatever", "a b c d e f g a1"),
    ],
)
def test_which_samples_in_which_order(browser: Browser, query: str, posts: str) -> None:
    assert browser.posts(query) == posts.split()


def test_counts_are_of_the_other_filters(browser: Browser) -> None:
    kinds = {
        "true positive": 1, "true negative": 1, "false positive": 1, "false negative": 2,
        "right side, other category": 1, "no verdict": 1, "no gold label": 1,
    }  # fmt: skip
    assert browser.counts("Against the gold") == kinds
    assert browser.counts("Difficulty", "track=dismissed") == {"Easy": 1, "Hard": 1}
    assert browser.counts("Difficulty", "difficulty=Hard") == {"Hard": 3, "Easy": 2}, "its own filter is left out"
    assert browser.counts("Target group") == {"x": 2, "y": 1}
    assert browser.counts("Track", "words=weeds") == {"fast_track": 1, "deep_dive": 1}
    assert browser.page("/samples?difficulty=Hard").xpath("string(//h2[@id='found'])") == "3 samples of 8"


def test_every_link_of_the_page_leads_on_and_keeps_the_rest(browser: Browser) -> None:
    page = browser.page("/samples?difficulty=Hard&sort=confidence&words=w")
    seen = set(page.xpath("//main//a/@href"))
    assert "/samples?run=one&difficulty=Hard&words=w&sort=confidence&order=down" in seen, "the other way round"
    for address in seen:
        assert browser.get(address).status_code == 200, address


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sort=colour", "sort: 'colour': is none of line, post"),
        ("kind=perfect", "kind: 'perfect': is none of true-positive"),
        ("confidence_from=much", "confidence_from: 'much': is not a number"),
        ("calls_to=nan", "calls_to: 'nan': is not a number"),
        ("page=inf", "page: 'inf': is not a number"),
    ],
)
def test_a_wrong_address_is_told_what_is_wrong(browser: Browser, query: str, said: str) -> None:
    assert said in browser.page(f"/samples?{query}", 400).text_content()


def test_labels_of_two_schemes_are_compared_as_yes_and_no(tmp_path: Path) -> None:
    samples = [
        line("a", 1, 3, gold_scheme="binary"),
        line("b", 1, 0, gold_scheme="binary"),
        line("c", 0, 2, gold_scheme="binary"),
    ]
    with looking(written(tmp_path / "one", samples)) as found:
        assert found.posts("kind=true-positive") == ["a"]
        assert found.posts("kind=false-negative") == ["b"]
        assert found.posts("kind=false-positive") == ["c"]
        assert found.posts("kind=other-category") == []


def test_one_page_at_a_time(tmp_path: Path) -> None:
    with looking(written(tmp_path / "one", [sample(f"p{number:03}", 0, 0) for number in range(120)])) as found:
        assert found.posts() == [f"p{number:03}" for number in range(50)]
        assert found.posts("page=3&sort=post&order=down") == [f"p{number:03}" for number in range(19, -1, -1)]
        page = found.page("/sample?post=p070&sort=post&order=down")
        assert page.xpath("string(//nav[@aria-label='Samples']/span)") == "50 of 120"
        assert "post=p071" in page.xpath("//a[@rel='prev']/@href")[0]
        assert "post=p069" in page.xpath("//a[@rel='next']/@href")[0]


def test_the_page_of_a_sample(browser: Browser) -> None:
    page = browser.page("/sample?post=c&difficulty=Hard")
    said = page.text_content()
    for words in (
        "false positive",
        "NotHate",
        "Sexist",
        "openai:b",
        "it speaks of weeds",
        "deep_dive",
        "graph",
        "arcade",
    ):
        assert words in said, words
    assert "--data" in said, "it says how to see the post's words"
    assert page.xpath("string(//nav[@aria-label='Samples']/span)") == "2 of 3 (filtered)"
    assert "post=b" in page.xpath("//a[@rel='prev']/@href")[0]
    assert "The weeds in our garden" in browser.page("/sample?post=a").text_content(), "a text that was kept"
    assert browser.get("/line?post=c").json()["post_id"] == "c"
    assert "no post 'z'" in browser.page("/sample?post=z", 404).text_content()


def test_words_of_posts_are_covered_in_the_list(browser: Browser) -> None:
    assert "The weeds in our garden" not in browser.page("/samples").text_content()
    assert "The weeds in our garden" in browser.page("/samples?read=yes").text_content()


def test_a_record_of_another_version_is_shown_as_it_is(tmp_path: Path) -> None:
    broken = {**SAMPLES[0], "transcript": [{"seat": "of an older time"}]}
    with looking(written(tmp_path / "one", [broken])) as found:
        assert "of an older time" in found.page("/sample?post=a").xpath("string(//pre)")
