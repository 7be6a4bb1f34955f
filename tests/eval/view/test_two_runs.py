"""Two runs side by side: where they differ, which is right, and the page with both cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eval.view.looking import Browser, looking, sample, written

# post → gold, the first run's answer, the second's.
ANSWERS: dict[str, tuple[int | None, int | str, int | str]] = {
    "same": (1, 1, 1), "first": (1, 1, 0), "second": (0, 2, 0), "neither": (1, 2, 3),
    "both-refused": (1, "refusal", "refusal"), "refused": (1, "refusal", 1), "unlabelled": (None, 1, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("runs")
    runs = []
    for name in ("one", "two"):
        samples = [
            sample(
                post,
                gold,
                one if name == "one" else two,
                confidence=0.1 * place or None,
                explanation=f"{name} on {post}",
            )
            for place, (post, (gold, one, two)) in enumerate(ANSWERS.items())
        ]
        if name == "two":
            samples = [*reversed(samples), sample("in two alone", 1, 1)]
        runs.append(written(folder / name, samples))
    with looking(*runs) as found:
        yield found


@pytest.mark.parametrize(
    ("query", "posts"),
    [
        ("", "first second neither refused unlabelled"),
        ("pairs=first", "first"),
        ("pairs=second", "second refused"),
        ("pairs=neither", "neither"),
        ("pairs=all", "same first second neither both-refused refused unlabelled"),
        ("sort=confidence&order=down", "unlabelled refused neither second first"),
        ("gold=Racist", "first neither refused"),
        ("into=NotHate", "first second unlabelled"),
        ("words=%22two+on+first%22", "first"),
        ("kind=false-positive", "second"),
    ],
)
def test_which_samples(browser: Browser, query: str, posts: str) -> None:
    assert browser.posts(f"run=one&with=two&{query}", path="/pairs") == posts.split()


def test_counts(browser: Browser) -> None:
    page = browser.page("/pairs?run=one&with=two")
    tabs = [" ".join(each.text_content().split()) for each in page.xpath("//nav[@aria-label='Which samples']/a")]
    assert tabs == [
        "where they differ 5", "only the first is correct 1", "only the second is correct 2",
        "they differ, neither is correct 1", "all shared samples 7",
    ]  # fmt: skip
    changes = [" ".join(each.text_content().split()) for each in page.xpath("//ul[@class='changes']/li")]
    assert sorted(changes) == [
        "Racist → NotHate 2", "Sexist → Homophobic 1", "Sexist → NotHate 1", "refusal → Racist 1",
    ]  # fmt: skip
    assert browser.counts("Gold label", "run=one&with=two", "/pairs") == {"Racist": 3, "NotHate": 1}


def test_both_cases_on_one_page(browser: Browser) -> None:
    page = browser.page("/pair?run=one&with=two&post=neither")
    one, two = page.xpath("//div[@class='both']/section")
    assert "one on neither" in one.text_content()
    assert "Sexist" in one.text_content()
    assert "two on neither" in two.text_content()
    assert "Homophobic" in two.text_content()
    assert "Correct: neither" in page.text_content()
    ids = page.xpath("//*/@id")
    assert len(ids) == len(set(ids)), "an id stands once on a page"
    assert page.xpath("string(//nav[@aria-label='Samples']/span)") == "3 of 5"
    assert "post=second" in page.xpath("//a[@rel='prev']/@href")[0]
    assert "no post 'x'" in browser.page("/pair?run=one&with=two&post=x", 404).text_content()


def test_the_runs_are_listed_and_lead_to_each_other(browser: Browser) -> None:
    page = browser.page("/")
    assert [row.xpath("string(td[5])") for row in page.xpath("//tbody/tr")] == ["2 of 4", "4 of 6"]
    one = browser.page("/sample?run=one&post=first")
    assert browser.get(one.xpath("//ul/li/a[. = 'two']/@href")[0]).status_code == 200


def test_a_folder_of_runs(tmp_path: Path) -> None:
    for name in ("b", "a"):
        written(tmp_path / "sweep" / name, [sample("p", 1, 1)])
    with looking(tmp_path / "sweep", written(tmp_path / "else" / "a", [sample("p", 1, 1)])) as found:
        assert found.page("/").xpath("//tbody//th/a/text()") == ["a", "b", "a (2)"]
