"""Which posts count as one observation: by the user's field, the data set's, by nearly equal texts, or each alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.core.text_similarity import text_signature
from tribunal.eval.measures.clusters import clusters_of, near_duplicates
from tribunal.eval.measures.columns import RunColumns, read_columns

POST = "They always park their cars right in front of my house, every single day of the week"
NEAR = (
    POST.upper() + "!",
    "@somebody " + POST + " https://example.org/a?b=c",
    POST.replace("cars", "vans"),
)
OTHERS = (
    "The weather is lovely and I walked the dog",
    "Who has seen the match last night?",
    "날씨가 정말 좋네요",
    "ok",
)


def run(folder: Path, posts: list[dict[str, str]], **held: str) -> RunColumns:
    lines = [
        line(f"p{at}", 1, 1, likeness=post.pop("likeness", ""), fields=post)
        for at, post in enumerate(posts)
    ]
    return read_columns(write_run(folder, lines, **held))


def test_nearly_equal_texts_are_found_and_others_are_not() -> None:
    found = near_duplicates([text_signature(text) for text in (POST, *OTHERS, *NEAR, "", "")])
    assert found.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 5, 6]


def test_equal_texts_have_one_signature_on_every_machine() -> None:
    # Results of older runs hold such: another value would make them strangers.
    assert text_signature("hello there")[:16] == text_signature("Hello   THERE")[:16] == GOLDEN
    assert text_signature(" https://example.org/ ") == ""


GOLDEN = "yKv/GHjiKF5GonXi"


def test_the_order_of_choice(tmp_path: Path) -> None:
    texts = [{"likeness": text_signature(text)} for text in (POST, *NEAR, *OTHERS)]
    near = clusters_of(run(tmp_path / "near", [dict(each) for each in texts]))
    assert near.as_json() == {"by": "near-duplicates", "n": 5, "largest": 4, "declared": False}
    declared = [{**each, "template": str(at // 2)} for at, each in enumerate(texts)]
    held = run(tmp_path / "declared", [dict(each) for each in declared], dataset="hatecheck")
    assert clusters_of(held).as_json() == {"by": "template", "n": 4, "largest": 2, "declared": True}
    assert clusters_of(held).of_post.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    thread = run(
        tmp_path / "thread",
        [{**each, "thread": "t"} for each in declared[:3]] + [{}],
        dataset="hatecheck",
    )
    # a post without a thread is alone
    assert clusters_of(thread, "thread").of_post.tolist() == [
        0,
        0,
        0,
        1,
    ]
    assert clusters_of(thread, "near-duplicates").as_json()["n"] == 2
    assert clusters_of(thread, "post").as_json() == {
        "by": "post",
        "n": 4,
        "largest": 1,
        "declared": True,
    }
    own = run(
        tmp_path / "own", [{"thread": "a"}, {"thread": "a"}, {"thread": "b"}], cluster="thread"
    )
    assert clusters_of(own).as_json() == {"by": "thread", "n": 2, "largest": 2, "declared": True}
    assert clusters_of(run(tmp_path / "post", [{}, {}])).by == "post"


def test_many_posts_in_one_cluster_are_quick_and_one_cluster() -> None:
    written = [text_signature(POST)] * 20_000
    assert np.unique(near_duplicates(written)).tolist() == [0]


def test_the_command_says_what_intervals_are_over(tmp_path: Path) -> None:
    lines = [line(f"p{at}", 1, int(at % 4 > 0), fields={"thread": at // 5}) for at in range(40)]
    folder = write_run(tmp_path / "run", lines)
    alone = CliRunner().invoke(app, ["report", str(folder), "--tables"])
    assert "over 40 posts, each counted as independent" in alone.output
    by_thread = CliRunner().invoke(app, ["report", str(folder), "--tables", "--cluster", "thread"])
    assert "over 8 clusters by thread, the largest of 5 posts" in by_thread.output
    assert "always hate would score: accuracy 100.0%" in by_thread.output
    wrong = CliRunner().invoke(app, ["report", str(folder), "--tables", "--cluster", "author"])
    assert wrong.exit_code == 2
    assert "no post of" in wrong.output
