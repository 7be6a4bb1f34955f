"""The hash chain of results.jsonl: checked whenever a run is read, on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_runs import evaluate, lines, run
from tribunal.runner.results import find_chain_fault


def warned_of(caplog: pytest.LogCaptureFixture, folder: Path) -> bool:
    return any(str(folder / "results.jsonl") in each.getMessage() for each in caplog.records)


def test_a_changed_removed_or_swapped_line_is_named(tmp_path: Path) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    results, run_file = folder / "results.jsonl", folder / "run.json"
    assert find_chain_fault(folder) == ""
    first, second, third = whole = results.read_bytes().splitlines(keepends=True)
    changed_first = first.replace(b'"label":', b'"label":1', 1)
    changed_third = third.replace(b'"hateful":', b'"hateful": ', 1)
    for changed, fault in (
        ([changed_first, second, third], "line 2 does not follow line 1"),
        ([first, second, changed_third], "line 3 is not the last line"),
        ([second, third], "line 1 does not follow run.json"),
        ([first, third], "line 2 does not follow line 1"),
        ([first, second], "line 3: 1 line missing"),
        ([second, first, third], "line 1 does not follow run.json"),
        ([first, b'{"place":7}\n', second, third], "line 2 has no link"),
    ):
        results.write_bytes(b"".join(changed))
        assert find_chain_fault(folder).startswith(fault), fault
    results.write_bytes(b"".join(whole))
    text = run_file.read_text("utf-8")
    run_file.write_text(text.replace('"seed": 0', '"seed": 1'), "utf-8")
    assert find_chain_fault(folder).startswith("line 1 does not follow run.json")


def test_commands_that_read_a_run_warn_of_a_broken_chain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path)
    for command in (("report", "--tables"), ("report",), ("export", "--to", "csv")):
        folder = (tmp_path / "run").rename(tmp_path / f"run-{len(command)}")
        assert run(*command, str(folder)).exit_code == 0
        assert not warned_of(caplog, folder)
        results = folder / "results.jsonl"
        whole = results.read_bytes()
        results.write_bytes(whole.replace(b'"hateful":', b'"hateful": ', 1))
        caplog.clear()
        assert run(*command, str(folder)).exit_code == 0  # the figures are still computed
        assert warned_of(caplog, folder)
        assert "line 2 does not follow line 1" in caplog.text
        if command == ("report",):
            assert "line 2 does not follow line 1" in (folder / "report.md").read_text("utf-8")
        results.write_bytes(whole)
        folder.rename(tmp_path / "run")


def test_a_run_that_was_cut_is_read_and_resumed_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    results, run_file = folder / "results.jsonl", folder / "run.json"
    # As a kill leaves it: the last line is torn, and run.json doesn't know the end.
    results.write_bytes(results.read_bytes()[:-9])
    run_file.write_text(
        json.dumps({**json.loads(run_file.read_bytes()), "finished": None, "head": None}), "utf-8"
    )
    assert run("report", "--tables", str(folder)).exit_code == 0
    assert evaluate(tmp_path).exit_code == 0
    assert len(lines(folder)) == 3
    assert find_chain_fault(folder) == ""
    assert not warned_of(caplog, folder)


def test_a_run_says_what_it_was_made_with_and_its_chain_outlives_a_retry(tmp_path: Path) -> None:
    evaluate(tmp_path, "--seed", "3", "--concurrency", "1")
    folder = tmp_path / "run"
    written = json.loads((folder / "run.json").read_bytes())
    assert written["texts"]["policy"].strip()
    assert "prosecut" in "".join(written["texts"]["prompts"].values()).lower()
    assert written["environment"]["packages"]["langgraph"]
    assert written["environment"]["python"]
    assert written["served"]
    assert written["head"]
    assert written["finished"]
    # A torn line is decided again, and the chain goes on from the one before.
    results = folder / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-9])
    evaluate(tmp_path, "--seed", "3")
    assert find_chain_fault(folder) == ""
    assert len(lines(folder)) == 3


def test_a_run_of_an_earlier_version_is_read_and_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path)
    folder = tmp_path / "run"
    results, run_file = folder / "results.jsonl", folder / "run.json"
    written = json.loads(run_file.read_bytes())
    for name in ("chain", "head", "texts", "environment", "served"):
        del written[name]
    run_file.write_text(json.dumps(written), "utf-8")
    old = [
        {name: value for name, value in line.items() if name != "previous"}
        for line in lines(folder)
    ]
    results.write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in old[:2]), "utf-8"
    )
    assert run("report", str(folder)).exit_code == 0
    assert evaluate(tmp_path).exit_code == 0  # the third is decided
    assert ["previous" in line for line in lines(folder)] == [False, False, True]
    assert find_chain_fault(folder) == ""
    assert not warned_of(caplog, folder)
