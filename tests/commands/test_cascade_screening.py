"""`tribunal cascade plan --screening`: a screening classifier before a court, and none of the posts of its fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_cascade import asked, run
from tests.commands.test_screening import posts, table
from tests.result_lines import line, write_run
from tribunal.text_similarity import text_signature

POSTS = 1_000


def court(folder: Path, **more: object) -> Path:
    """A court that is right on every post, of which each takes four calls."""
    lines = [
        line(name, truth, truth, scheme="binary", gold_scheme="binary", confidence=0.9, has_image=None, text=words,
             likeness=text_signature(words), **asked("openai:large", 4))
        for name, words, label in posts(POSTS)
        for truth in [int(label == "hate")]
    ]  # fmt: skip
    return write_run(folder, lines, **more)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A screening classifier that is fitted on half of the run's own posts."""
    folder = tmp_path_factory.mktemp("staged")
    told, _ = run("screening", "fit", court(folder / "court"), "--out", folder / "model", "--hold-out", 0.5)
    assert "posts that neither taught it nor chose its thresholds" in told
    return folder / "model"


@pytest.mark.long
def test_a_first_look_stands_before_the_court_on_posts_that_it_never_saw(tmp_path: Path, fitted: Path) -> None:
    held = json.loads((fitted / "manifest.json").read_text("utf-8"))
    assert held["n_held_out"] == pytest.approx(POSTS / 2, abs=20)
    folder = court(tmp_path / "court")
    told, _ = run("cascade", "plan", folder, "--screening", fitted)
    assert " posts on which a screening classifier was fitted, or on nearly the same" in told
    assert "plan: screening classifier → court → a person" in told
    assert "1. screening classifier is asked about 100.0% of posts" in told
    assert "those of which it is sure, without its audit" in told
    found = json.loads(run("cascade", "plan", folder, "--screening", fitted, "--json")[0])
    assert found["posts"] + found["fitted_on"] == POSTS
    assert held["n_held_out"] - 5 <= found["posts"] <= held["n_held_out"]
    first, second = found["plan"]["stages"]
    assert first["decided"] == pytest.approx(1 - second["reached"])
    assert first["decided"] > 0.5
    assert found["plan"]["calls"] == pytest.approx(4 * second["reached"])
    assert all(each["name"] != "screening classifier for all" for each in found["beside"])


@pytest.mark.long
def test_a_first_look_that_was_fitted_on_every_post_is_refused(tmp_path: Path) -> None:
    folder = court(tmp_path / "court")
    run("screening", "fit", folder, "--out", tmp_path / "model")
    _, said = run("cascade", "plan", folder, "--screening", tmp_path / "model", ends=2)
    assert "a screening classifier was fitted on each of its 1,000 labelled posts" in said
    assert "fit it with --hold-out" in said
    assert not (folder / "plans.jsonl").exists()


@pytest.mark.long
def test_a_run_that_had_a_first_look_is_planned_without_the_posts_of_its_fit(tmp_path: Path, fitted: Path) -> None:
    sha = json.loads(run("screening", "show", fitted, "--json")[0])["sha"]
    named = {"settings": {"triage": f"screening:{fitted}"}}
    held = json.loads(run("cascade", "plan", court(tmp_path / "a", first_look={"sha": sha}, **named), "--json")[0])
    assert (held["posts"] + held["fitted_on"], held["warnings"]) == (POSTS, [])
    assert held["fitted_on"] > POSTS // 3
    said, _ = run("report", tmp_path / "a", "--tables")
    assert f"the screening classifier was fitted on {held['fitted_on']} of these posts" in " ".join(said.split())
    run("report", tmp_path / "a", "--out", tmp_path / "report")
    assert (
        f"screening classifier was fitted on {held['fitted_on']} of these"
        in (tmp_path / "report" / "report.md").read_text()
    )
    other = court(tmp_path / "b", first_look={"sha": "f" * 64}, **named)
    held = json.loads(run("cascade", "plan", other, "--json")[0])
    assert (held["posts"], "its files are missing or changed" in held["warnings"][0]) == (POSTS, True)


@pytest.mark.long
def test_texts_that_a_run_does_not_hold_are_asked_for(tmp_path: Path, fitted: Path) -> None:
    folder = court(tmp_path / "court", dataset="table")
    lines = [json.loads(each) for each in (folder / "results.jsonl").read_text().splitlines()]
    bare = [{name: value for name, value in each.items() if name not in ("text", "likeness")} for each in lines]
    write_run(folder, bare, dataset="table")
    _, said = run("cascade", "plan", folder, "--screening", fitted, ends=2)
    assert "name the files of its data set with --data" in said
    data = table(tmp_path / "posts.csv", posts(POSTS))
    told, _ = run("cascade", "plan", folder, "--screening", fitted, "--data", data)
    assert "plan: screening classifier → court → a person" in told
    _, said = run("cascade", "plan", folder, "--data", data, ends=2)
    assert "give --screening, or leave it out" in said
