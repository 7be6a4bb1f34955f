"""`tribunal seal` and `verify`: a run in one archive; whatever is changed in it is found and named."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.commands.test_runs import evaluate, lines, run
from tribunal.eval.seal.outputs import find_batch_run


def verified(place: Path, *more: str) -> tuple[int, str]:
    ended = run("verify", str(place), *more)
    return ended.exit_code, ended.output


def rewrite(results: Path, kept: list[bytes]) -> None:
    results.write_bytes(b"".join(kept))


def test_a_changed_dropped_or_swapped_line_is_found_in_a_run_that_nobody_sealed(tmp_path: Path) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    results, held = folder / "results.jsonl", folder / "run.json"
    (folder / "metrics.json").unlink()  # the chain alone has to tell
    assert verified(folder)[0] == 0
    first, second, third = whole = results.read_bytes().splitlines(keepends=True)
    flipped = first.replace(b'"label":', b'"label":1', 1)
    for changed, says in (
        ([flipped, second, third], "line 2: doesn't follow line 1"),
        ([first, second, third.replace(b'"hateful":', b'"hateful": ', 1)], "line 3: isn't the last line"),
        ([second, third], "line 1: doesn't follow run.json"),
        ([first, second], "1 line missing"),
        ([second, first, third], "line 1: doesn't follow run.json"),
    ):
        rewrite(results, changed)
        status, said = verified(folder)
        assert status == 1, said
        assert says in said, said
    rewrite(results, whole)
    begun = held.read_text("utf-8")
    held.write_text(begun.replace('"seed": 0', '"seed": 1'), "utf-8")
    assert "line 1: doesn't follow run.json" in verified(folder)[1]
    held.write_text(begun, "utf-8")
    assert verified(folder)[0] == 0


def test_a_run_says_what_it_was_made_with_and_its_chain_outlives_a_retry(tmp_path: Path) -> None:
    evaluate(tmp_path, "--seed", "3", "--concurrency", "1")
    folder = tmp_path / "run"
    held = json.loads((folder / "run.json").read_bytes())
    assert held["texts"]["policy"].strip()
    assert "prosecut" in "".join(held["texts"]["prompts"].values()).lower()
    assert held["environment"]["packages"]["langgraph"]
    assert held["environment"]["python"]
    assert held["served"]
    assert held["head"]
    assert held["finished"]
    # A torn line is decided again, and the chain goes on from the one before.
    results = folder / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-9])
    evaluate(tmp_path, "--seed", "3")
    assert verified(folder)[0] == 0
    assert len(lines(folder)) == 3


def test_a_run_of_an_earlier_version_still_reads(tmp_path: Path) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    results, file = folder / "results.jsonl", folder / "run.json"
    held = json.loads(file.read_bytes())
    for name in ("chain", "head", "texts", "environment", "served"):
        del held[name]
    file.write_text(json.dumps(held), "utf-8")
    old = [{name: value for name, value in line.items() if name != "previous"} for line in lines(folder)]
    rewrite(results, [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in old[:2]])
    assert evaluate(tmp_path).exit_code == 0  # the third is decided
    assert ["previous" in line for line in lines(folder)] == [False, False, True]
    assert verified(folder)[0] == 0


def test_measures_of_an_earlier_version_still_verify_and_a_wrong_figure_in_them_is_named(tmp_path: Path) -> None:
    evaluate(tmp_path)
    file = tmp_path / "run" / "metrics.json"
    held = json.loads(file.read_bytes())
    del held["by_language"], held["calibration"]["coverage_at_risk"], held["calibration"]["notes"]
    del held["cost"]["calls"]["interval"]
    file.write_text(json.dumps(held), "utf-8")
    assert "metrics.json: by_language: stands as 'nothing'" in verified(tmp_path / "run")[1]  # this version writes it
    results, of_run = tmp_path / "run" / "results.jsonl", tmp_path / "run" / "run.json"
    begun = {**json.loads(of_run.read_bytes()), "tribunal": "0.0.1"}
    of_run.write_text(json.dumps({name: begun[name] for name in begun if name not in ("chain", "head")}), "utf-8")
    rewrite(results, [re.sub(rb',"previous":"\w+"', b"", line) for line in results.read_bytes().splitlines(True)])
    assert verified(tmp_path / "run")[0] == 0, verified(tmp_path / "run")
    held["cost"]["calls"]["mean"] += 1
    file.write_text(json.dumps(held), "utf-8")
    assert "metrics.json: cost.calls.mean" in verified(tmp_path / "run")[1]
    file.write_text("{", "utf-8")
    assert "run: metrics.json: can't be computed again: " in verified(tmp_path / "run")[1]


def test_a_report_that_does_not_say_how_it_was_made_is_altered_or_named_as_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    other = shutil.copytree(folder, tmp_path / "other")
    report = folder / "report.json"
    assert run("report", str(folder), "--out", str(folder)).exit_code == 0
    monkeypatch.chdir(folder)
    assert verified(Path())[0] == 0, verified(Path())
    assert run("seal", ".").exit_code == 0
    (folder / "seal.json").unlink()
    assert find_batch_run(Path("/")) is None
    held = json.loads(report.read_bytes())
    made = held.pop("made")
    report.write_text(json.dumps(held), "utf-8")
    assert "report.json: made: is missing" in verified(folder)[1]
    report.write_text(json.dumps({**held, "made": made, "runs": [{"name": ["run"]}]}), "utf-8")
    assert verified(folder)[1].startswith(f"{folder}: report.json: can't be computed again: TypeError: ")
    assert run("report", str(folder), str(other), "--out", str(folder)).exit_code == 0
    status, said = verified(folder)
    assert (status, said.splitlines()[1]) == (0, f"{folder}: not checked: report.json")
    assert json.loads(verified(folder, "--json")[1])["unchecked"] == ["report.json"]


@pytest.mark.long
@pytest.mark.parametrize("texts", ["--texts", "--no-texts"])
def test_a_byte_altered_in_any_file_of_a_sealed_run_is_found_and_named(tmp_path: Path, texts: str) -> None:
    evaluate(tmp_path, "--keep-text")
    folder, archive = tmp_path / "run", tmp_path / "sealed.zip"
    sealed = run("seal", str(folder), "--out", str(archive), texts)
    assert sealed.exit_code == 0, sealed.output
    seal = sealed.stdout.split()[-1]
    assert verified(folder)[0] == 0
    assert verified(archive, "--seal", seal)[0] == 0
    assert verified(archive, "--seal", "0" * 64)[0] == 1
    with zipfile.ZipFile(archive) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    assert (b"I love my dog" in held["results.jsonl"]) == (texts == "--texts")
    assert {"model-card.md", "data-statement.md", "run.json", "metrics.json", "seal.json"} <= held.keys()

    def pack(files: dict[str, bytes]) -> Path:
        with zipfile.ZipFile(tmp_path / "other.zip", "w") as into:
            for name, content in files.items():
                into.writestr(name, content)
        return tmp_path / "other.zip"

    for name, content in held.items():
        for at in (0, len(content) // 2, len(content) - 2):
            changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
            status, said = verified(pack({**held, name: changed}))
            assert status, (name, at, said)
            assert name in said, (name, at, said)
        status, said = verified(pack({each: value for each, value in held.items() if each != name}))
        assert status, (name, said)
        assert name in said, (name, said)
    for file in sorted(each for each in folder.iterdir() if not each.name.startswith(".")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
        status, said = verified(folder)
        assert status, (file.name, said)
        assert file.name in said, (file.name, said)
        file.write_bytes(whole)
    assert verified(folder)[0] == 0
    for hostile in ("../out.txt", "/out.txt", "run.json/x", "else.txt"):
        assert verified(pack({**held, hostile: b"x"}))[0] != 0
    assert not list(tmp_path.glob("out*"))
    assert not (tmp_path.parent / "out.txt").exists()
    bomb = pack({})
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as into:
        into.writestr("results.jsonl", bytes(2**27))
    assert "far more than its size" in verified(bomb)[1]
