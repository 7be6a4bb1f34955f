"""`tribunal explain` and `judge --explain`: every way to a case, every form, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tribunal.commands import app

POST = "Immigrants: the weeds in our garden."
PRICES = '["rehearsal:court"]\ninput = 1.0\noutput = 2.0\n'


def ran(*arguments: str, ends: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    assert result.exit_code == ends, result.output
    return result


def judged(file: Path, *more: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        ran("judge", POST, "--graph", "arcade", "--json", *more).stdout
    )
    file.write_text(json.dumps(made), "utf-8")
    return made


def test_a_record_in_a_file_in_every_form(tmp_path: Path) -> None:
    file, prices = tmp_path / "record.json", tmp_path / "prices.toml"
    made = judged(file)
    prices.write_text(PRICES, "utf-8")
    written = ran("explain", str(file), "--text", POST, "--prices", str(prices)).stdout
    assert written.startswith("# HATE SPEECH\n")
    assert "**Immigrants: the weeds** \\[1\\] in our garden" in written
    assert "by the price table" in written
    assert "text isn't available" in ran("explain", "-", stdin=file.read_text("utf-8")).stdout
    held = json.loads(ran("explain", str(file), "--text", POST, "--format", "json").stdout)
    assert (held["told_to"], held["post"]["id"], held["trial"]["cues"][0]["marked"]) == (
        "auditor", made["post_id"], True,
    )  # fmt: skip
    for name, begins in (
        ("a.html", "<!DOCTYPE html>"),
        ("deep/a.md", "# HATE"),
        ("a.json", "{"),
        ("a", "<!DOCTYPE"),
    ):
        out = tmp_path / name
        assert ran("explain", str(file), "--out", str(out)).stdout.strip() == str(out)
        assert out.read_text("utf-8").startswith(begins)
    assert ran("explain", str(file), "--format", "html").stdout.startswith("<!DOCTYPE html>")


def test_for_the_person_who_posted(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    judged(file)
    told = ran("explain", str(file), "--text", POST, "--for", "poster")
    assert told.stdout.startswith("# Your post is against our rules\n")
    for words in ("rehearsal", "Prosecutor", "cue", "C1", "calls"):
        assert words not in told.stdout
    assert "note: Demo rules only" in told.stderr
    assert "note: the letter doesn't say what was done with the post" in told.stderr
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(ran("dsa", "statements", "--example-mapping").stdout, "utf-8")
    told = ran("explain", str(file), "--text", POST, "--for", "poster", "--mapping", str(mapping))
    assert "We removed your post." in told.stdout
    assert "doesn't say what was done" not in told.stderr
    german = ran(
        "explain",
        str(file),
        "--text",
        POST,
        "--for",
        "poster",
        "--language",
        "de",
        "--format",
        "json",
    )
    held = json.loads(german.stdout)
    assert (held["language"], held["source"]) == ("de", "fixed")
    assert "Ein Angriff auf Menschen" in held["rule"]


def test_a_kept_case_and_a_thread_of_the_docket(tmp_path: Path) -> None:
    kept = ran(
        "judge",
        POST,
        "--graph",
        "arcade",
        "--keep",
        "--json",
        "--explain",
        str(tmp_path / "as_judged.html"),
    )
    case = json.loads(kept.stdout)["kept"]
    assert str(tmp_path / "as_judged.html") in kept.stderr.splitlines()
    held = json.loads(ran("explain", case, "--format", "json").stdout)
    assert held["case"] == case
    assert "".join(each["text"] for each in held["post"]["segments"]) == POST
    assert held["decided"][0]["at"].endswith("UTC"), "a kept case knows when"
    assert held["applied"]["sentence"]
    ran("judge", POST, "--review", "--set", "review_rule=all", "--no-keep", ends=5)
    [listed] = json.loads(ran("review", "list", "--json").stdout)
    thread = listed["thread"]
    assert "Needs review" in ran("explain", thread).stdout
    assert "A person will look at it" in ran("explain", thread, "--for", "poster").stdout
    ran("review", "decide", thread, "--accept", "--reviewer", "kim")
    assert "| kim |" in ran("explain", thread).stdout


def test_a_record_in_a_file_is_shown_with_the_words_of_its_kept_case(tmp_path: Path) -> None:
    file = tmp_path / "rec.json"
    file.write_text(ran("judge", POST, "--graph", "arcade", "--keep", "--json").stdout, "utf-8")
    held = json.loads(ran("explain", str(file), "--format", "json").stdout)
    assert "".join(each["text"] for each in held["post"]["segments"]) == POST
    letter = json.loads(ran("explain", str(file), "--for", "poster", "--format", "json").stdout)
    assert letter["post"] == POST
    ran("cases", "forget", "--case", held["case"], "--yes")
    erased = json.loads(ran("explain", str(file), "--format", "json").stdout)
    assert (erased["post"]["segments"], bool(erased["erased"])) == ([], True)


def test_a_policy_that_has_changed_since_is_given_as_it_was(tmp_path: Path) -> None:
    from tribunal.prompts.policy import load_policy

    own, file = tmp_path / "own.toml", tmp_path / "record.json"
    own.write_text(
        load_policy("h-vli").source.replace(
            "an attack on another protected group", "words-as-they-were"
        ),
        "utf-8",
    )
    judged(file, "--policy", str(own))
    case = json.loads(ran("judge", POST, "--policy", str(own), "--keep", "--json").stdout)["kept"]
    was = tmp_path / "was.toml"
    own.rename(was)
    own.write_text(load_policy("h-vli").source, "utf-8")
    assert "words-as-they-were" in ran("explain", case).stdout, "a case keeps its policy"
    assert "words-as-they-were" in ran("explain", str(file), "--policy", str(was)).stdout
    refused = ran("explain", str(file), "--policy", str(own), ends=2)
    assert "give the policy as it was" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["case-000"], "case-000: there is no such case"),
        (["gone.json"], "case: gone.json: No such file"),
        (["empty.json"], "case: empty.json: is not JSON"),
        (["list.json"], "case: list.json: is no record"),
        (["other.json"], "case: other.json: is no record: outcome"),
        (["list.json", "--language", "ko"], "give --for poster as well"),
        (["list.json", "--mapping", "a.toml"], "give --for poster as well"),
        (
            ["list.json", "--for", "poster", "--mapping", "none.toml"],
            "tribunal dsa statements --example-mapping prints one",
        ),
        (["list.json", "--for", "poster", "--prices", "a.toml"], "has no costs"),
    ],
)
def test_what_is_refused_in_one_line(arguments: list[str], words: str) -> None:
    for name, text in (("empty.json", ""), ("list.json", "[]"), ("other.json", "{}")):
        Path(name).write_text(text, "utf-8")
    refused = ran("explain", *arguments, ends=2)
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_judge_sees_before_it_spends_anything_that_the_page_can_be_written() -> None:
    Path("there").mkdir()
    refused = ran("judge", POST, "--explain", "there", ends=2)
    assert "explain: there: can't be written" in refused.stderr
    assert not refused.stdout
    assert not list(Path("there").iterdir())
