"""`tribunal eval` and `batch` as a person runs them."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer

POSTS = [
    ("a", "Immigrants are vermin and should be deported.", "1", "x"),
    ("b", "Good morning, everybody.", "0", "=1+1"),
    ("c", 'I love my dog,\n"truly" – 좋은 아침.', "0", "z"),
]


def table(path: Path, rows: Sequence[tuple[str, ...]] = POSTS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "text", "label", "note"))
        writer.writerows(rows)
    return path


def run(*arguments: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text("utf-8").splitlines()]


def evaluate(tmp_path: Path, *more: str, out: str = "run") -> Result:
    data = tmp_path / "posts.csv"
    if not data.exists():
        table(data)
    return run(
        "eval", "--dataset", "table", "--data", str(data), "--out", str(tmp_path / out), "--graph", "arcade", *more
    )


def test_a_run_its_files_and_going_on(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["total"], printed["done"], printed["stopped"]) == (3, 3, None)
    assert printed["metrics"]["accuracy"] == 1.0
    assert json.loads((tmp_path / "run" / "metrics.json").read_bytes()) == printed["metrics"]
    held = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert (held["graph"], held["dataset"], held["n"], held["repeats"]) == ("arcade", "table", 3, 1)
    assert held["finished"] is not None
    assert sorted(line["post_id"] for line in lines(tmp_path / "run")) == ["a", "b", "c"]
    assert {line["fields"]["note"] for line in lines(tmp_path / "run")} == {"x", "=1+1", "z"}
    again = evaluate(tmp_path, "--json", "--concurrency", "2")
    assert json.loads(again.stdout)["now"] == 0
    # A torn last line is decided again, and nothing else.
    results = tmp_path / "run" / "results.jsonl"
    os.truncate(results, results.stat().st_size - 7)
    assert json.loads(evaluate(tmp_path, "--json").stdout)["now"] == 1
    assert len(lines(tmp_path / "run")) == 3
    shown = evaluate(tmp_path)
    assert "3 before" in shown.stdout
    assert "the rehearsal model took part" in shown.stdout


def test_a_changed_setting_is_refused_with_the_difference(tmp_path: Path) -> None:
    evaluate(tmp_path)
    changed = evaluate(tmp_path, "--rounds", "2", "--repeats", "2")
    assert changed.exit_code == 2
    assert "rounds: then the default, now 2" in changed.stderr
    assert "repeats: then 1, now 2" in changed.stderr
    table(tmp_path / "posts.csv", POSTS[:2])
    assert evaluate(tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--dataset", "nothing"), "nothing"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
        (("--graph", "nothing"), "nothing"),
        (("--balance", "colour"), "balance: give the number of samples as well"),
        (("--balance", "colour", "--samples", "1"), "balance: the posts of table have no colour; they have "),
        (("--retry", "verdicts"), "retry: 'verdicts'"),
        (("--prices", "none.toml"), "prices: none.toml"),
        (("--budget-from", "none"), "not the folder of a run"),
        (("--samples", "99"), "samples"),
        (("--columns", "text"), "columns: 'text'"),
        (("--model", "nobody:x"), "provider:model"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    done = evaluate(tmp_path, *more)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


async def test_retries_repeats_prices_and_text_over_the_wire(tmp_path: Path) -> None:
    broken = {"yes": True}

    def script(request: Request) -> Reply | Fault:
        if broken["yes"] and "Good morning" in request.text:
            return Fault(status=400, message="broken")
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        extra = {"usage": {**usage, "prompt_tokens_details": {"cached_tokens": 400}}}
        return Reply({"category": "NotHate", "explanation": "words"}, extra=extra)

    (tmp_path / "prices.toml").write_text('["openai:scripted"]\ninput = 2.0\ncached = 0.5\noutput = 10.0\n')
    prices, cache = str(tmp_path / "prices.toml"), str(tmp_path / "cache.sqlite")
    more = ("--graph", "baseline", "--model", "openai:scripted", "--repeats", "2", "--prices", prices,
            "--cache", cache, "--keep-text", "--json")  # fmt: skip
    async with ScriptedServer(script) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        first = json.loads((await asyncio.to_thread(evaluate, tmp_path, *more)).stdout)
        assert first["outcomes"] == {"negative": 4, "failure": 2}
        # 600 tokens at 2.0, 400 at 0.5 and 100 at 10.0, for a million each, four times.
        assert first["cost"] == pytest.approx(4 * (600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
        assert {line.get("text") for line in lines(tmp_path / "run")} == {text for _, text, _, _ in POSTS}
        broken["yes"] = False
        before = len(server.requests)
        second = json.loads((await asyncio.to_thread(evaluate, tmp_path, *more, "--retry", "failures")).stdout)
        assert (second["now"], second["outcomes"]) == (2, {"negative": 2})
        assert all("Good morning" in request.text for request in server.requests[before:])
        budget = ("--model", "openai:scripted", "--budget-from", str(tmp_path / "run"), "--json")
        cheap = await asyncio.to_thread(evaluate, tmp_path, *budget, out="cheap")
        assert cheap.exit_code == 4, cheap.stderr  # a model of the other kind: every post failed
    assert Counter(line["outcome"] for line in lines(tmp_path / "run")) == {"verdict": 6}


@pytest.mark.long
def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(tmp_path: Path) -> None:
    table(tmp_path / "posts.csv", [(str(number), f"word-{number}.", "0", "") for number in range(40)])

    def script(request: Request) -> Reply | Fault:
        return Reply({"category": "NotHate", "explanation": "words"}, delay=0.3)

    with ScriptedServer(script) as server:
        command = ["eval", "--dataset", "table", "--data", "posts.csv", "--out", "run", "--graph", "baseline",
                   "--model", "openai:scripted", "--concurrency", "4"]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "OPENAI_BASE_URL": f"{server.url}/v1"}
        process = subprocess.Popen(
            [sys.executable, "-c", "import tribunal; tribunal.main()", *command],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while len(server.requests) < 6:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "Run the same command again to go on" in complaints
    held = len(lines(tmp_path / "run"))
    assert 4 <= held < 40
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["finished"] is None


def test_the_published_set_by_name_balanced_over_its_patterns(tmp_path: Path) -> None:
    """H-VLI, in a small file of our own in its form."""
    digits = {"000": (0, 0, 0), "011": (0, 1, 1), "100": (1, 0, 0), "001": (0, 0, 1)}
    posts = {}
    for number in range(12):
        pattern = list(digits)[number % 4]
        text, image, final = digits[pattern]
        difficulty = {"000": "Easy", "011": "Easy", "100": "Normal", "001": "Hard"}[pattern]
        posts[str(number)] = {
            "tweet_text": f"words {number}", "image_path": f"{number}.jpg", "text_label": text, "image_label": image,
            "final_label": final, "type": pattern, "difficulty": difficulty,
        }  # fmt: skip
    (tmp_path / "train_set.json").write_text(json.dumps(posts))
    out = str(tmp_path / "run")
    done = run("eval", "--dataset", "h-vli", "--data", str(tmp_path), "--split", "train", "--out", out,
               "--graph", "baseline", "--samples", "4", "--balance", "pattern", "--json")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    measured = json.loads(done.stdout)["metrics"]
    assert measured["n"] == 4
    assert {pattern: each["n"] for pattern, each in measured["by_pattern"].items() if each["n"]} == dict.fromkeys(
        digits, 1
    )
    assert {line["fields"]["smi_pattern"] for line in lines(tmp_path / "run")} == set(digits)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_a_batch_gives_the_rows_back_in_order(tmp_path: Path, suffix: str) -> None:
    table(tmp_path / "posts.csv")
    out = tmp_path / f"decided{suffix}"
    done = run("batch", str(tmp_path / "posts.csv"), "--out", str(out), "--graph", "arcade")
    assert done.exit_code == 0, done.stderr
    if suffix == ".parquet":
        rows = pq.read_table(out).to_pylist()
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [row["input"]["text"] for row in rows] == [text for _, text, _, _ in POSTS]
        assert rows[0]["transcript"]
        return
    else:
        with out.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert [row["text"] for row in rows] == [text for _, text, _, _ in POSTS]
    assert [row["note"] for row in rows] == ["x", "=1+1", "z"]
    assert [row["label"] for row in rows] == ["1", "0", "0"]  # theirs; ours has another name
    assert [str(row["tribunal_label"]) for row in rows] == ["5", "0", "0"]
    assert {row["outcome"] for row in rows} == {"verdict"}
    again = run("batch", str(tmp_path / "posts.csv"), "--out", str(out), "--graph", "arcade", "--json")
    assert json.loads(again.stdout)["calls"] == 0


async def test_what_a_model_wrote_is_no_formula(tmp_path: Path) -> None:
    table(tmp_path / "posts.csv", POSTS[:1])
    ruled = {"category": "NotHate", "explanation": "=HYPERLINK(1)"}
    async with ScriptedServer(court_script(classifier=ruled)) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        arguments = ("batch", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "o.csv"), "--graph", "baseline")
        done = await asyncio.to_thread(run, *arguments, "--model", "openai:scripted")
    assert done.exit_code == 0, done.stderr
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["explanation"] == "'=HYPERLINK(1)"


def test_an_output_of_no_known_form_is_refused_before_any_call(tmp_path: Path) -> None:
    table(tmp_path / "posts.csv")
    done = run("batch", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "o.xlsx"))
    assert (done.exit_code, "its suffix is none of" in done.stderr) == (2, True)
