"""`tribunal annotate`: people label posts in Label Studio, and a data set comes out."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree  # type: ignore[import-untyped]
from typer.testing import CliRunner, Result

from tests.annotated import CASES, MAP, NOT, RACIST, exported, in_short, write_posts
from tests.doubles import Reply, ScriptedServer
from tribunal.commands import app
from tribunal.eval.datasets import open_dataset


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(
        lambda request: Reply({"category": NOT, "explanation": "words"})
    ) as running:
        os.environ["OPENAI_BASE_URL"] = (
            f"{running.url}/v1"  # taken away again before the next test (conftest)
        )
        yield running


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def made(tmp_path: Path, *more: str) -> list[dict[str, Any]]:
    """The tasks of the nine posts, which lie in `annotation`."""
    posts = write_posts(tmp_path)
    done = run("annotate", "export", posts, "--out", tmp_path / "annotation", *MAP, *more)
    assert done.exit_code == 0, done.output
    tasks: list[dict[str, Any]] = json.loads(
        (tmp_path / "annotation" / "tasks.json").read_text("utf-8")
    )
    return tasks


def kept(tmp_path: Path, name: str, tasks: list[dict[str, Any]]) -> Path:
    (tmp_path / name).write_text(json.dumps(tasks), "utf-8")
    return tmp_path / name


def taken_in(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    done = run("annotate", "import", *arguments, "--tasks", tmp_path / "annotation", "--json")
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_tasks_hold_the_posts_and_no_gold(tmp_path: Path) -> None:
    tasks = made(tmp_path)
    assert tasks == made(tmp_path), "the same command writes the same"
    other = run("annotate", "export", tmp_path / "posts.csv", "--out", tmp_path / "annotation", *MAP,
                "--annotators", "2")  # fmt: skip
    assert (other.exit_code, "begun there with another annotators; go on" in other.stderr) == (
        2,
        True,
    ), other.output
    by_post = {task["data"]["post_id"]: task for task in tasks}
    assert by_post.keys() == CASES.keys()
    for name, task in by_post.items():
        assert task.keys() == {"data"}
        assert task["data"]["text"] == CASES[name].text
        held = task["data"]["image"]
        assert bool(held) == bool(CASES[name].colour)
        assert not held or (tmp_path / "annotation" / "images" / held.rpartition("/")[2]).is_file()
    assert "label" not in by_post["h"]["data"], "annotators aren't told what a post was written for"
    assert CASES["h"].intended not in json.dumps(by_post["h"])


def test_the_interface_has_the_controls_and_runs_nothing_of_a_stranger(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    ours = (Path(__file__).parents[3] / "prompts" / "policies" / "h-vli.toml").read_text("utf-8")
    policy.write_text(
        ours.replace("no attack on a protected group", 'no <b>attack</b> & \\"none\\"', 1), "utf-8"
    )
    [task, *_] = made(tmp_path, "--policy", str(policy))
    text = (tmp_path / "annotation" / "label_config.xml").read_text("utf-8")
    view = etree.fromstring(text)
    assert {each.tag for each in view.iter()} == {
        "View",
        "Header",
        "Text",
        "Image",
        "Choices",
        "Choice",
        "TextArea",
    }
    assert {each.get("valueType") for each in view.iter("Text")} == {"text"}, (
        "no text is fetched as an address"
    )
    controls = {
        each.get("name"): [choice.get("value") for choice in each] for each in view.iter("Choices")
    }
    assert list(controls) == [
        "text_label",
        "image_label",
        "joint_label",
        "intent",
        "target",
        "flags",
    ]
    assert controls["text_label"] == controls["image_label"] == controls["joint_label"]
    assert controls["joint_label"][:2] == [NOT, RACIST]
    assert "religion" in controls["target"]
    assert view.find(".//Choice[@value='NotHate']").get("hint") == 'no <b>attack</b> & "none"'
    shown = {each.get("value").removeprefix("$") for each in view if each.tag in ("Text", "Image")}
    assert shown <= task["data"].keys(), "Label Studio refuses a task that lacks one"


def test_what_annotators_choose_comes_to_the_labels_worked_by_hand(tmp_path: Path) -> None:
    tasks = made(tmp_path)
    first = kept(tmp_path, "first.json", exported(tasks))
    said = taken_in(tmp_path, first)
    assert said == taken_in(tmp_path, kept(tmp_path, "short.json", in_short(exported(tasks))))
    assert (said["labelled"], said["annotations"], said["low_quality"]) == (9, 26, 1)
    assert said["lacking"] == {"unsure": ["d"], "annotators": ["i"], "majority": ["e"]}
    # Eight posts have three labels each: NNN five times over a, f, h, once RRR (g), four divided ones. Of 24 labels 13
    # are N, 9 R, 2 S. Observed: (1 + 1/3 + 1/3 + 1/3 + 0 + 1 + 1 + 1) / 8 = 5/8; by chance: (169 + 81 + 4) / 576.
    chance = 254 / 576
    raw = said["steps"][0]
    assert (raw["posts"], raw["rated"]) == (9, 8)
    assert raw["categories"]["kappa"] == pytest.approx((5 / 8 - chance) / (1 - chance))
    # Hate or not: 13 and 11 of 24; a, b, f, g, h unanimous, c, d, e two to one.
    chance = (13**2 + 11**2) / 24**2
    assert raw["hate"]["kappa"] == pytest.approx((6 / 8 - chance) / (1 - chance))
    assert [(step["name"], step["posts"]) for step in said["steps"]] == [
        ("raw", 9), ("quality", 6), ("consensus", 5), ("alignment", 4),
    ]  # fmt: skip
    # After the steps a, b, c and g are left: NNN, RRS, NNR, RRR.
    chance = (5**2 + 6**2 + 1) / 12**2
    assert said["steps"][-1]["categories"]["kappa"] == pytest.approx(
        ((2 + 2 / 3) / 4 - chance) / (1 - chance)
    )
    assert said["alignment"] == {"compared": 5, "aligned": 4}
    one_two = said["pairs"][0]
    assert (one_two["one"], one_two["other"], one_two["agreement"]["raw"]) == (
        "1",
        "2",
        pytest.approx(8 / 9),
    )


def test_a_second_stage_settles_what_the_first_left_open(tmp_path: Path) -> None:
    first = kept(tmp_path, "first.json", exported(made(tmp_path)))
    again = run(
        "annotate", "again", first, "--tasks", tmp_path / "annotation", "--out", tmp_path / "second"
    )
    assert again.exit_code == 0, again.output
    tasks = json.loads((tmp_path / "second" / "tasks.json").read_text("utf-8"))
    assert {task["data"]["post_id"] for task in tasks} == {"d", "e", "i"}
    told = next(task["data"]["first"] for task in tasks if task["data"]["post_id"] == "d")
    assert told.startswith(
        "Here because an annotator wasn't sure.\nAnnotator 1: Racist; the text alone Racist; "
    )
    assert "Annotator 3: NotHate; " in told
    assert told.endswith("not sure")
    assert 'value="$first"' in (tmp_path / "second" / "label_config.xml").read_text("utf-8")
    second = kept(tmp_path, "second.json", exported(tasks, expert=True))
    said = taken_in(tmp_path, first, second)
    assert (said["lacking"], said["steps"][0]["rated"]) == ({}, 8), "before is as it was"
    assert said["levels"] == {"perfect": 5, "strong": 1, "weak": 1, "adjudicated": 1, "none": 0}
    assert said["patterns"] == {
        "000": 1,
        "001": 1,
        "010": 1,
        "100": 1,
        "101": 1,
        "110": 1,
        "none": 1,
    }
    assert said["difficulty"] == {"Easy": 2, "Normal": 2, "Hard": 2, "none": 1}
    paper = taken_in(tmp_path, first, second, "--keep", "perfect,strong,weak")
    assert (paper["rows"], paper["patterns"].get("110")) == (6, None), (
        "the paper drops what has no majority"
    )
    more = taken_in(tmp_path, first, second, "--misaligned")
    assert (more["rows"], [step["name"] for step in more["steps"]]) == (
        8,
        ["raw", "quality", "consensus"],
    )


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_data_set_is_one_that_eval_measures(
    tmp_path: Path, server: ScriptedServer, form: str
) -> None:
    first = exported(made(tmp_path))
    run(
        "annotate",
        "again",
        kept(tmp_path, "first.json", first),
        "--tasks",
        tmp_path / "annotation",
        "--out",
        tmp_path,
    )
    tasks = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    second = kept(tmp_path, "second.json", exported(tasks, expert=True))
    out = tmp_path / f"set.{form}"
    said = taken_in(tmp_path, tmp_path / "first.json", second, "--out", out)
    assert (said["rows"], said["images_lost"]) == (7, 0)
    posts = {sample.id: sample for sample in open_dataset("table", out)}
    assert {name: sample.gold and sample.gold.positive for name, sample in posts.items()} == {
        "a": False, "b": True, "c": False, "d": True, "e": False, "g": True, "i": False,
    }  # fmt: skip
    assert posts["d"].image is not None
    assert Path(posts["d"].image).is_file()
    held = posts["b"].fields
    assert (held["target"], held["intent"], held["text_label"], held["image_label"]) == (
        ["ethnicity", "religion"], "open attack", RACIST, NOT,
    )  # fmt: skip
    assert [each["by"] for each in json.loads(held["annotations"])] == [1, 2, 3]
    fine = open_dataset(
        "table", out, columns={"label": "category"}, labels={NOT: "0", RACIST: RACIST}
    )
    assert Counter(sample.gold.label for sample in fine if sample.gold) == {0: 4, 1: 3}
    if form != "csv":
        return
    done = run("eval", "--dataset", "table", "--data", out, "--out", tmp_path / "run", "--graph", "baseline",
               "--model", "openai:scripted", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)["metrics"]
    assert {name: group["n"] for name, group in measured["by_pattern"].items() if group["n"]} == {
        "000": 1, "001": 1, "010": 1, "100": 1, "101": 1, "110": 1,
    }  # fmt: skip
    assert [measured["by_difficulty"][name]["n"] for name in ("Easy", "Normal", "Hard")] == [
        2,
        2,
        2,
    ]
    assert {name: group["n"] for name, group in measured["by_target"].items()} == {
        "ethnicity": 3,
        "religion": 1,
    }


def test_a_post_whose_sides_nobody_labelled_has_no_pattern(tmp_path: Path) -> None:
    tasks = made(tmp_path, "--inline-images")
    assert {task["data"]["image"][:22] for task in tasks} == {"data:image/png;base64,", ""}
    labelled = exported(tasks)
    for task in labelled:
        for each in task["annotations"]:
            each["result"] = [
                given
                for given in each["result"]
                if given["from_name"] not in ("text_label", "image_label")
            ]
    said = taken_in(tmp_path, kept(tmp_path, "first.json", labelled), "--out", tmp_path / "set.csv")
    assert said["patterns"] == {"none": 4}
    with (tmp_path / "set.csv").open(encoding="utf-8", newline="") as file:
        assert {row["text_label"] for row in csv.DictReader(file)} == {""}


def test_later_labels_of_one_person_count_and_wrong_files_are_named(tmp_path: Path) -> None:
    tasks = exported(made(tmp_path))
    first = kept(tmp_path, "first.json", tasks)
    task = next(task for task in tasks if task["data"]["post_id"] == "c")
    anew = json.loads(json.dumps(task).replace("2026-01-03", "2026-02-03"))
    anew["annotations"] = [each for each in anew["annotations"] if each.get("completed_by") == 3]
    for each in anew["annotations"][0]["result"]:
        if each["from_name"] == "joint_label":
            each["value"] = {"choices": [NOT]}
    said = taken_in(tmp_path, first, kept(tmp_path, "anew.json", [anew]))
    assert (said["repeated"], said["levels"]["weak"], said["levels"]["perfect"]) == (1, 0, 4)

    def told(text: str, *more: object) -> str:
        (tmp_path / "bad.json").write_text(text, "utf-8")
        done = run(
            "annotate", "import", tmp_path / "bad.json", "--tasks", tmp_path / "annotation", *more
        )
        assert done.exit_code == 2, done.output
        return done.stderr

    assert "export from Label Studio as JSON" in told("[")
    assert "export from Label Studio as JSON" in told('[{"text": "x"}]')
    stranger = json.dumps([{**task, "data": {**task["data"], "post_id": "zz"}}])
    assert "post 'zz': isn't in" in told(stranger)
    wrong = json.dumps([task]).replace(
        f'"joint_label", "to_name": "text", "type": "choices", "value": {{"choices": ["{NOT}"',
        '"joint_label", "to_name": "text", "type": "choices", "value": {"choices": ["Nonsense"',
    )
    assert "joint_label: 'Nonsense': is none of NotHate, Racist" in told(wrong)
    assert "keep: 'most': a level of consensus is perfect, strong" in told("[]", "--keep", "most")
    done = run("annotate", "import", first, "--tasks", tmp_path)
    assert (
        done.exit_code,
        "give the folder that tribunal annotate export wrote" in done.stderr,
    ) == (2, True)
