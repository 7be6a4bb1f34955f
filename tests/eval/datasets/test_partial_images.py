"""A set of which only some images are at hand: what is refused, what is left out, and who is told."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tests.eval.datasets.published import table, written
from tests.result_lines import write_run
from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.datasets.sampling import choose_samples
from tribunal.eval.evaluate import Evaluation, prepare_run
from tribunal.eval.experiments.table import run_warnings
from tribunal.eval.measures.columns import read_columns
from tribunal.eval.measures.metrics import measure_columns

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def memes(folder: Path, count: int, there: int, pointers: int = 0) -> Path:
    """Posts 0, 1, …, of which the first have an image, and the next the pointer to one."""
    rows = [
        {"id": n, "img": f"img/{n}.png", "label": n % 2, "text": f"a mild meme {n}"}
        for n in range(count)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "img").mkdir(exist_ok=True)
    for number in range(there):
        Image.new("RGB", (32, 32), "white").save(folder / f"img/{number}.png")
    for number in range(there, there + pointers):
        (folder / f"img/{number}.png").write_text(POINTER)
    return folder


def evaluated(data: Path, out: Path, *more: str) -> Result:
    command = [
        "eval",
        "--dataset",
        "fhm",
        "--data",
        str(data),
        "--graph",
        "baseline",
        "--model",
        "rehearsal",
    ]
    return CliRunner().invoke(app, [*command, "--out", str(out), *more])


def held(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_bytes())
    return found


def test_some_missing_images_are_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    done = evaluated(memes(tmp_path / "set", 6, there=2, pointers=1), tmp_path / "run")
    assert done.exit_code == 2
    assert "fhm: 4 of its 6 images are missing from " in done.stderr
    assert "'img/2.png', 'img/3.png', 'img/4.png', …" in done.stderr
    assert "(1 are Git LFS pointers: run `git lfs pull` there)" in done.stderr
    assert "leave their posts out with --skip-missing-images" in done.stderr


def test_posts_without_their_image_are_left_out_and_counted_everywhere(tmp_path: Path) -> None:
    data, out = memes(tmp_path / "set", 6, there=2, pointers=1), tmp_path / "run"
    done = evaluated(data, out, "--skip-missing-images")
    assert done.exit_code == 0, done.output
    told = "tribunal: warning: fhm: 4 posts were left out, since their image isn't in "
    assert told in done.stderr
    assert "(1 are Git LFS pointers: run `git lfs pull` there)" in done.stderr
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert sorted((line["post_id"], line["has_image"]) for line in results) == [
        ("0", True),
        ("1", True),
    ]
    assert held(out)["images"] == {"named": 2, "here": 2, "left_out": 4}
    assert held(out)["images_left_out"] == {
        "left_out": {"not hateful": 2, "hateful": 2},
        "kept": {"not hateful": 1, "hateful": 1},
    }
    assert held(out)["data"]["skip_missing_images"] is True
    assert json.loads((out / "metrics.json").read_bytes())["images"]["left_out"] == 4
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    said = (
        "4 posts of the set were left out, since their image wasn't there (2 hateful, 2 not hateful); 2 are left "
        "(1 hateful, 1 not hateful); 2 posts have an image"
    )
    assert said in html.unescape((out / "report.html").read_text("utf-8"))
    # With one image more it would be another run.
    memes(data, 6, there=3)
    changed = evaluated(data, out, "--skip-missing-images")
    assert (changed.exit_code, "images left_out: then 4, now 3" in changed.stderr) == (2, True)


def test_where_no_image_is_there_texts_are_judged_only_if_asked_for(tmp_path: Path) -> None:
    data = memes(tmp_path / "set", 3, there=0, pointers=2)
    refused = evaluated(data, tmp_path / "run")
    assert refused.exit_code == 2
    for fact in ("3 of its 3 images", "'img/0.png'", "2 are Git LFS pointers", "--columns image="):
        assert fact in refused.stderr
    assert evaluated(data, tmp_path / "run", "--columns", "image=").exit_code == 0
    assert held(tmp_path / "run")["images"] == {"named": 3, "here": 0}
    assert held(tmp_path / "run")["data"]["columns"] == {"image": ""}
    with pytest.raises(
        BadInput,
        match=r"there is no post in .*dev\.jsonl \(fhm: 3 posts were left out, since their",
    ):
        choose_samples(open_dataset("fhm", data, skip_missing_images=True))


def test_posts_that_never_had_an_image_stay(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "image": "here.png"},
        {"text": "b", "image": "gone.png"},
        {"text": "c", "image": ""},
    ]
    (tmp_path / "here.png").write_bytes(b"x")
    opened = open_dataset("table", table(tmp_path / "posts.csv", rows), skip_missing_images=True)
    assert [post.text for post in opened] == ["a", "c"]
    assert list(opened) == list(opened)
    assert opened.left_out_labels == {"unlabelled": 1}


def test_a_papers_sample_takes_what_is_there_and_says_how_many_are_lost(tmp_path: Path) -> None:
    """MMSD's 500, of a set of which so many images are there."""
    rows = [{"image_id": n, "text": "so sunny", "label": n % 2} for n in range(600)]
    written(tmp_path / "text_json_clean/test.json", rows)
    (tmp_path / "dataset_image").mkdir()
    for number in range(120):
        (tmp_path / f"dataset_image/{number}.jpg").write_bytes(b"x")
    plan = choose_samples(
        open_dataset("mmsd", tmp_path, skip_missing_images=True), protocol="paper"
    )
    assert (len(plan), plan.images) == (120, (120, 120, 480))
    assert plan.warnings[-1].startswith(
        "protocol: paper: 380 posts fewer than it took (MV-Debate, Setup: 500 at "
    )
    assert (
        len(
            choose_samples(
                open_dataset("mmsd", tmp_path, skip_missing_images=True),
                protocol="paper",
                samples=20,
            )
        )
        == 20
    )


def test_a_papers_table_says_who_was_left_out_and_that_it_took_more(tmp_path: Path) -> None:
    rows = [{"image_id": n, "text": "so sunny", "label": int(n < 400)} for n in range(600)]
    written(tmp_path / "text_json_clean/test.json", rows)
    (tmp_path / "dataset_image").mkdir()
    for number in range(390, 410):
        Image.new("RGB", (32, 32), "white").save(tmp_path / f"dataset_image/{number}.jpg")
    wanted = Evaluation(
        dataset="mmsd",
        data=tmp_path,
        protocol="mv-debate-table1",
        skip_missing_images=True,
        settings={"model": "rehearsal"},
    )
    run = prepare_run(wanted).held
    assert run["protocol"]["departures"] == {"samples": {"paper": 500, "run": 20}}
    columns = read_columns(write_run(tmp_path / "run", [], **run))
    assert list(run_warnings(columns, measure_columns(columns))) == [
        "not the paper's run: samples is 20, in the paper 500",
        "580 posts of the set were left out, since their image wasn't there (190 not sarcastic, 390 sarcastic); 20 are "
        "left (10 not sarcastic, 10 sarcastic)",
    ]


# -------------------------------------------------------------------------------------------------------------- extras


def kold(folder: Path, count: int) -> Path:
    rows = [
        {"guid": f"k{n}", "title": "새 공원이 열렸다", "comment": f"글 {n}", "OFF": n % 2 == 0}
        for n in range(count)
    ]
    return written(folder / "kold_v1.json", rows)


@pytest.mark.parametrize(
    ("more", "shown", "warned"),
    [
        ((), True, False),
        (("--no-extras",), False, False),
        (("--protocol", "predict-table1/base"), False, False),
        (("--protocol", "predict-table1/base", "--extras"), True, True),
    ],
)
def test_titles_are_shown_but_not_where_a_paper_is_followed(
    tmp_path: Path, more: tuple[str, ...], shown: bool, warned: bool
) -> None:
    kold(tmp_path, 2)
    command = ["eval", "--dataset", "kold", "--data", str(tmp_path), "--out", str(tmp_path / "run"), "--model",
               "rehearsal", "--samples", "2", "--set", "trace=true", *more]  # fmt: skip
    done = CliRunner().invoke(
        app, [*command, *([] if "--protocol" in more else ["--graph", "baseline"])]
    )
    assert done.exit_code == 0, done.output
    assert (held(tmp_path / "run")["data"].get("extras") == "title") == shown
    assert (
        "extras: posts are shown with their title, which the paper didn't show" in done.stderr
    ) == warned
