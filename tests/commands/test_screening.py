"""`tribunal screening` as a person uses it: fitted on decided posts, named by a run, watched by its audit."""

from __future__ import annotations

import asyncio
import csv
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.result_lines import line, write_run
from tribunal.cases.session import judge_post, submit_review
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.schema import Record
from tribunal.trust import check_request

CALM = [
    "morning", "coffee", "garden", "music", "train", "weather", "river", "bread", "window", "football", "market",
    "school", "teacher", "doctor",
]  # fmt: skip
FOUL = ["vermin", "filth", "parasites", "scum", "subhuman", "plague", "invaders", "trash"]


def text(at: int, *, hate: bool) -> str:
    """A post in English, the same for the same number."""
    drawn = random.Random(at)
    words = [drawn.choice(CALM) for _ in range(9)]
    for place in drawn.sample(range(9), 3 if hate else 0):
        words[place] = drawn.choice(FOUL)
    return f"those people and the {' '.join(words)}"


def posts(count: int, start: int = 0) -> list[tuple[str, str, str]]:
    """Rows of id, text and label; two in five are hate."""
    return [
        (f"p{at}", text(at, hate=at % 5 < 2), "hate" if at % 5 < 2 else "not") for at in range(start, start + count)
    ]


def table(path: Path, rows: Sequence[Sequence[str]], head: Sequence[str] = ("id", "text", "label")) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def changed(model: Path, **values: object) -> None:
    """Change what a manifest says; the screening classifier is another one then."""
    manifest = model / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text("utf-8")), **values}), "utf-8")


def run(*arguments: str | Path) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a screening classifier, and what the command said of it."""
    folder = tmp_path_factory.mktemp("fitted")
    done = run("screening", "fit", table(folder / "decided.csv", posts(700)), "--out", folder / "model")
    assert done.exit_code == 0, done.output
    changed(folder / "model", at="2026-01-01T00:00:00+00:00")  # so that each time the same posts are audited
    return folder / "model", done.output


@pytest.fixture
def model(fitted: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it, whose audit is this test's own."""
    here = tmp_path / "model"
    here.mkdir()
    for file in fitted[0].iterdir():
        (here / file.name).write_bytes(file.read_bytes())
    return here


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer(court_script(implicit=False)) as it:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{it.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield it


def asking(asked: Path, tmp_path: Path, model: Path) -> list[str | Path]:
    """The command of a batch."""
    return ["batch", asked, "--out", tmp_path / "out.jsonl", "--model", "openai:m", "--triage", f"screening:{model}"]


def batch(tmp_path: Path, model: Path, rows: Sequence[Sequence[str]], *more: str) -> list[dict[str, Any]]:
    """The records of a batch over these posts."""
    asked = table(tmp_path / "in.csv", [row[:2] for row in rows], ("id", "text"))
    done = run(*asking(asked, tmp_path, model), *more)
    assert done.exit_code == 0, done.output
    return [json.loads(each) for each in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]


# The fit


def test_a_fit_says_what_it_would_save_and_what_it_would_miss(fitted: tuple[Path, str]) -> None:
    model, said = fitted
    assert "calls a post harmless from confidence" in said
    assert "at most 5.0% hate at level 0.9" in said
    assert "would save: the trials of 9" in said
    assert "would miss: of 1" in said
    assert "are hate (0.0%, 0.0% to " in said
    assert "it decides" in said
    assert "of all hate among these posts" in said
    held = json.loads((model / "manifest.json").read_text("utf-8"))
    assert (held["languages"], held["n_fit"] + held["n_test"]) == (["en"], 700)
    assert sorted(file.suffix for file in model.iterdir()) == [".json", ".npz", ".npz"]  # and no pickle


@pytest.mark.long
def test_a_second_fit_on_the_same_posts_is_tested_more_strictly(tmp_path: Path) -> None:
    decided = table(tmp_path / "decided.csv", posts(500))
    errors = []
    for asked in ("0.05", "0.06", "0.05"):
        done = run("screening", "fit", decided, "--out", tmp_path / "model", "--missed-hate", asked, "--json")
        assert done.exit_code == 0, done.output
        errors.append(json.loads(done.stdout)["attempt"])
    assert errors == [1, 2, 1]


def test_texts_that_recur_with_opposite_labels_promise_nothing(tmp_path: Path) -> None:
    rows = [(f"{name}{at}", words, name) for at, words, _ in posts(200) for name in ("hate", "not")]
    done = run("screening", "fit", table(tmp_path / "torn.csv", rows), "--out", tmp_path / "model")
    assert done.exit_code == 2
    assert "can promise nothing here" in done.stderr
    assert "opposite label" in done.stderr
    assert not (tmp_path / "model").exists()


def test_labels_by_chance_promise_nothing(tmp_path: Path) -> None:
    drawn = random.Random(3)
    rows = [(name, words, drawn.choice(["hate", "not"])) for name, words, _ in posts(400)]
    done = run("screening", "fit", table(tmp_path / "noise.csv", rows), "--out", tmp_path / "model")
    assert (done.exit_code, "can promise nothing here" in done.stderr) == (2, True)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--missed-hate", "0"), "missed_hate: 0.0 is not between 0 and 1"),
        (("--audit", "1"), "audit: 1.0 is not between 0 and 1"),
        (("--level", "1.2"), "level: 1.2 is not between 0 and 1"),
        (("--missed-hate", "0.6"), "whoever calls every post harmless keeps this promise"),
        (("--data", "x.csv"), "data: x.csv: holds the texts of a run"),
    ],
)
def test_what_makes_no_promise_is_refused(tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    done = run("screening", "fit", table(tmp_path / "d.csv", posts(200)), "--out", tmp_path / "model", *more)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_models_labels_are_refused_and_posts_with_images_left_out(tmp_path: Path) -> None:
    rows = [(*row, "verdict", "true", "0.9", "why", "false", "3", "90") for row in posts(100)]
    head = ("id", "text", "label", "outcome", "hateful", "confidence", "explanation", "rehearsed", "calls", "tokens")
    done = run("screening", "fit", table(tmp_path / "batch.csv", rows, head), "--out", tmp_path / "model")
    assert (done.exit_code, "its labels are a model's" in done.stderr) == (2, True)
    pictured = [(*row, "meme.png") for row in posts(100)]
    decided = table(tmp_path / "memes.csv", pictured, ("id", "text", "label", "image"))
    done = run("screening", "fit", decided, "--out", tmp_path / "model")
    assert (done.exit_code, "an image (100)" in done.stderr) == (2, True)


def test_a_run_is_fitted_on_by_what_people_say_of_its_posts(tmp_path: Path) -> None:
    """The court's verdicts on posts with gold are all wrong here; where there is none, it teaches and tests nothing."""
    lines = []
    for name, words, label in posts(500):
        gold = int(label == "hate")
        lines.append(line(name, gold, 1 - gold, scheme="binary", gold_scheme="binary", has_image=None, text=words))
    lines += [line(f"alone{at}", None, 1, has_image=None, text=text(7_000 + at, hate=True)) for at in range(30)]
    ruled = [(f"rules{at}", text(7_100 + at, hate=True)) for at in range(10)]
    lines += [line(name, None, 0, text=words, has_image=None, rehearsed=True) for name, words in ruled]
    folder = write_run(tmp_path / "run", lines)
    done = run("screening", "fit", folder, "--out", tmp_path / "model", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["foretold"]["agreement"] > 0.95
    assert (told["left_out"], told["n_by_court"]) == ({"no label by people": 10}, 30)
    assert told["n_fit"] + told["n_test"] == 530
    assert told["foretold"]["posts"] == told["n_test"]
    bare = write_run(tmp_path / "bare", [{**each, "text": ""} for each in lines])
    assert "--data" in run("screening", "fit", bare, "--out", tmp_path / "model").stderr
    decided = table(tmp_path / "decided.csv", posts(500))
    (bare / "run.json").write_text(json.dumps({**json.loads((bare / "run.json").read_text()), "dataset": "table"}))
    done = run("screening", "fit", bare, "--out", tmp_path / "model2", "--data", decided, "--json")
    assert json.loads(done.stdout)["foretold"]["agreement"] > 0.95


# A run


def test_a_batch_spares_clear_posts_the_trial_and_says_who_decided(
    tmp_path: Path, model: Path, server: ScriptedServer
) -> None:
    rows = posts(40, start=5_000)
    korean = ("ko", "오늘 아침에는 커피를 마시고 정원에서 음악을 들었습니다")
    strange = ("odd", "quantum chromodynamics explains hadronic jets through asymptotic freedom")
    records = batch(tmp_path, model, [*rows, korean, strange], "--scheme", "binary")
    sha = json.loads(run("screening", "show", model, "--json").stdout)["sha"]
    by_track = Counter(record["track"] for record in records[:40])
    assert by_track["triage"] >= 26  # the audit takes about one in twenty of the clear ones, by chance
    for record, (_, _, label) in zip(records, rows, strict=False):
        assert record["first_look"] == sha
        if record["track"] == "triage":
            assert (record["hateful"], record["calls"]) == (label == "hate", [])
            assert sha[:12] in record["explanation"]
            assert record["saved"][0]["id"] == "triage"
    assert [record["track"] for record in records[40:]] == ["dismissed", "dismissed"]  # both went to trial
    assert len(server.requests) == 2 * (40 - by_track["triage"] + 2)
    assert not any(sha[:12] in request.text for request in server.requests)
    [kept] = tmp_path.glob("**/run.json")
    assert json.loads(kept.read_text("utf-8"))["first_look"]["sha"] == sha


def test_in_the_fine_scheme_hate_goes_to_trial(tmp_path: Path, model: Path, server: ScriptedServer) -> None:
    records = batch(tmp_path, model, posts(20, start=6_000))
    called = {record["hateful"] for record in records if record["track"] == "triage"}
    assert called == {False}
    assert sum(record["track"] == "dismissed" for record in records) >= 8


@pytest.mark.long
def test_an_audit_that_finds_the_promise_broken_switches_the_first_look_off(
    tmp_path: Path, model: Path, server: ScriptedServer
) -> None:
    """The court dismisses every post; the classifier calls two in five hateful. Which of them are audited follows from
    the model's hash, and so from the day of its fit: so many posts make it sure that some are."""
    changed(model, audit=0.5)
    records = batch(tmp_path, model, posts(120, start=7_000), "--scheme", "binary", "--concurrency", "1")
    warned = [any("switched off" in warning for warning in record["warnings"]) for record in records]
    assert not warned[0]
    assert all(warned[-10:])
    assert all(record["track"] == "dismissed" for record, off in zip(records, warned, strict=True) if off)
    assert any(record["track"] == "triage" for record in records)
    said = run("screening", "show", model).stdout
    assert "switched off: of " in said
    assert "that it called hateful" in said
    assert "are no hate by trials" in said
    assert "p7" not in (model / "audit.sqlite").read_bytes().decode("latin-1")  # ids are hashed
    done = run("screening", "reset", model, "--yes")
    assert (done.exit_code, "switched on" in run("screening", "show", model).stdout) == (0, True)


def test_the_same_posts_count_once_in_the_audit(tmp_path: Path, model: Path, server: ScriptedServer) -> None:
    changed(model, audit=0.5)
    tests = []
    for again in ("one", "two"):
        (tmp_path / again).mkdir()
        batch(tmp_path / again, model, [row for row in posts(30, start=8_000) if row[2] == "not"])
        tests.append(json.loads(run("screening", "show", model, "--json").stdout)["audit_so_far"]["tests"])
    assert tests[0] == tests[1]
    assert tests[0][0]["n"] > 4
    assert tests[0][0]["wrong"] == 0


def test_a_run_goes_on_with_no_other_first_look(tmp_path: Path, model: Path, server: ScriptedServer) -> None:
    batch(tmp_path, model, posts(5, start=9_000))
    changed(model, harmless=0.99)
    done = run(*asking(tmp_path / "in.csv", tmp_path, model))
    assert (done.exit_code, "the screening classifier's sha" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--triage", "screening:nowhere"), "screening: nowhere: No such file"),
        (("--triage", "screening:"), "names no folder"),
        (("--graph", "arcade", "--triage", "screening:model"), "is a setting of the graph tribunal"),
        (("--triage", "screening:model", "--triage-confidence", "0.5"), "the screening classifier has thresholds"),
        (("--triage", "screening:model", "--seat", "triage=openai:m"), "the screening classifier has thresholds"),
    ],
)
def test_a_wrong_first_look_is_refused_before_any_call(
    model: Path, server: ScriptedServer, more: tuple[str, ...], said: str
) -> None:
    done = run("judge", text(1, hate=False), "--model", "openai:m", *more)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert server.requests == []


def test_a_damaged_first_look_is_refused(model: Path, server: ScriptedServer) -> None:
    [weights] = model.glob("weights-*.npz")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    done = run("judge", text(1, hate=False), "--model", "openai:m", "--triage", f"screening:{model}")
    assert (done.exit_code, "was changed since it was fitted" in done.stderr) == (2, True)
    assert server.requests == []


def test_an_audit_that_can_not_be_read_lets_nothing_through(model: Path, server: ScriptedServer) -> None:
    (model / "audit.sqlite").write_bytes(b"no database, but long enough to be taken for one" * 40)
    done = run("judge", text(1, hate=False), "--model", "openai:m", "--triage", f"screening:{model}")
    assert (done.exit_code, "its audit can't be read" in done.stderr) == (2, True), done.output
    with pytest.raises(sqlite3.Error), sqlite3.connect(model / "audit.sqlite") as base:
        base.execute("SELECT * FROM off")


def test_a_persons_word_is_audited_beside_the_trials(model: Path, server: ScriptedServer) -> None:
    """The court dismisses the post as the screening classifier would; the reviewer finds hate in it."""
    changed(model, audit=0.999)
    settings = {"model": "openai:m", "triage": f"screening:{model}", "review": True, "review_rule": ["all"]}

    async def reviewed() -> tuple[Record, Record]:
        context = context_from(settings)
        waits = await judge_post(text(1_002, hate=False), post_id="one", graph="tribunal", context=context)
        answer = {"type": "edit", "args": {"action": "decide", "args": {"category": "Religious"}}, "reviewer": "ann"}
        return waits, await submit_review(str(waits.thread), answer)

    waits, ended = asyncio.run(reviewed())
    assert (waits.outcome, waits.track, ended.hateful) == ("pending", "dismissed", True)
    tests = json.loads(run("screening", "show", model, "--json").stdout)["audit_so_far"]["tests"]
    assert [(each["by"], each["kind"], each["n"], each["wrong"]) for each in tests] == [
        ("person", "harmless", 1, 1),
        ("trial", "harmless", 1, 0),
    ]


def test_an_explanation_says_that_the_screening_classifier_decided(
    tmp_path: Path, model: Path, server: ScriptedServer
) -> None:
    asked = text(3, hate=False)
    done = run("judge", asked, "--model", "openai:m", "--triage", f"screening:{model}", "--json")
    (tmp_path / "record.json").write_text(done.stdout)
    sha = json.loads(done.stdout)["first_look"]
    assert f"| the screening classifier ({sha[:12]}) |" in run("explain", tmp_path / "record.json").stdout
    shown = run("judge", "quantum chromodynamics", "--model", "openai:m", "--triage", f"screening:{model}").stdout
    assert "Screening: no decision" in shown


def test_what_the_rehearsal_model_says_is_nothing_to_the_audit(tmp_path: Path, model: Path) -> None:
    changed(model, audit=0.999)
    done = run("judge", text(2, hate=False), "--triage", f"screening:{model}", "--json")
    assert json.loads(done.stdout)["track"] != "triage"
    assert json.loads(run("screening", "show", model, "--json").stdout)["audit_so_far"]["tests"] == []


@pytest.mark.parametrize(("allowed", "may"), [("model", False), ("", False), ("triage=screening:/models/*", True)])
def test_a_client_names_no_folder_of_the_operators(monkeypatch: pytest.MonkeyPatch, allowed: str, may: bool) -> None:
    monkeypatch.setenv("TRIBUNAL_ALLOW", allowed)
    given = {"triage": "screening:/models/ours"}
    if may:
        check_request(given)
        given = {"triage": "screening:/models/../etc"}
    with pytest.raises(BadInput, match="may not set this"):
        check_request(given)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("cascade", "plan", "run", "--first-look", "model"), "--first-look: is called --screening now"),
        (("judge", "x", "--triage", "first-look:model"), "triage: first-look:model: is written screening:model now"),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(args: tuple[str, ...], named: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert named in done.stderr
