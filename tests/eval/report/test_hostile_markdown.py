"""report.md as a viewer of Markdown has it: whatever a run holds, it brings no link, image, HTML, heading or row."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.result_lines import line, write_run
from tribunal.eval.report import write_report

HOSTILE = {
    "a blank line and an image": "a\n\n![x](http://evil.test/x.png)\n\nb",
    "a blank line of blanks": "a\n \t \n# A heading\n\n[x](http://evil.test)",
    "only white space": " \n\n ",
    "html": "</pre></details><script>alert(1)</script><img src=http://evil.test/x>",
    "a comment": "<!-- --><a href='http://evil.test'>x</a>",
    "a heading": "# A heading\n\nSetext\n======\n\nAgain\n---",
    "a row": "x | y |\n| forged | row |\n|---|---|\n| a | b |",
    "a stroke behind a backslash": "x\\| y \\\\| z",
    "links": "<http://evil.test> http://evil.test www.evil.test evil.test a@evil.test [x][y]\n\n[y]: http://evil.test",
    "code": "` `` ``` ``````` x`\n```\nfence\n```",
    "a mention": "@somebody #1 $x$ ~~x~~ **x** __x__",
    "entities": "&lt;script&gt; &#60;img&#62;",
    "turned": "abc\u202edef\u200b\u2028![x](http://evil.test)",
}
INSIDE = ("details", "summary", "code", "pre")
# As a viewer that shows HTML, and one that doesn't, have it.
VIEWERS = [
    MarkdownIt("commonmark", {"html": html}).enable(["table", "strikethrough"])
    for html in (True, False)
]


def run_of(folder: Path, words: str) -> str:
    """The report on a run into whose every field these words have come."""
    turn: dict[str, Any] = {
        "id": "t", "seat": "prosecutor", "stage": "indictment", "round": 1, "cues": [], "stance": words, "text": words,
        "arguments": [{"cue_id": words, "stance": "refute", "claim": words, "argument": words}],
    }  # fmt: skip
    opinion = {"id": words, "stance": "hate", "label_name": words, "reason": words}
    found = {"id": "E1", "stance": "supports", "url": words, "passage": words}
    held: dict[str, Any] = {
        "text": words, "explanation": words, "warnings": [words], "transcript": [turn], "opinions": [opinion],
        "evidence": [found], "fields": {"target": words, "difficulty": "Hard"}, "confidence": 0.9,
    }  # fmt: skip
    lines = [line(f"{words} {number}", 1, number % 2, **held) for number in range(4)]
    run = write_run(folder / "run", lines, settings={"base_url": words}, graph=words, dataset=words)
    return write_report([run], folder / "out")[1].read_text("utf-8")


def shape(text: str, viewer: MarkdownIt) -> list[tuple[str, str]]:
    """The blocks of a page: their kinds, and what HTML there is."""
    return [(each.type, each.tag) for each in viewer.parse(text) if each.type != "html_block"]


def tokens(text: str, viewer: MarkdownIt) -> list[Token]:
    return [inner for each in viewer.parse(text) for inner in [each, *(each.children or [])]]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, len(attrs)))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", 0))


def checked(text: str, usual: str) -> None:
    for viewer in VIEWERS:
        assert not [
            each
            for each in tokens(text, viewer)
            if each.type in ("link_open", "image", "fence", "code_block")
        ]
        tags = [
            tag
            for each in tokens(text, viewer)
            if each.type.startswith("html")
            for tag in Tags(each.content).found
        ]
        assert set(tags) <= {(tag, 0) for tag in INSIDE}
        kinds = [each for each in shape(text, viewer) if each[0] != "inline"]
        assert kinds == [each for each in shape(usual, viewer) if each[0] != "inline"]
    assert not re.search("[\u200b\u202e\u2028\x1b]", text)


@pytest.mark.long
@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_from_outside_becomes_markup(tmp_path: Path, words: str) -> None:
    checked(run_of(tmp_path, words), run_of(tmp_path / "usual", "plain words"))


@pytest.mark.long
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.text(
        st.sampled_from("ab<>&`*_[]()#|~\\@$!-=+:/.'\"1w \t\n\r\u2028\u202e"), max_size=40
    )
)
def test_no_text_at_all_becomes_markup(tmp_path: Path, words: str) -> None:
    checked(run_of(tmp_path, f"a{words}"), run_of(tmp_path, "plain words"))


def test_plain_words_stay_plain_and_what_was_said_can_be_read(tmp_path: Path) -> None:
    text = run_of(tmp_path, "It's 5 o'clock, she said: \"no\"\nand left")
    assert "It's 5 o'clock, she said: \"no\" and left" in text
    shown = VIEWERS[0].render(text)
    covered = re.search("<details>.*?<pre>(.*?)</pre>", shown, re.DOTALL)
    assert covered
    assert "It's 5 o'clock, she said: \"no\"&#10;and left" in covered[1]
