"""`tribunal view` over a run of 100,000 samples: how long its pages take, and what memory they cost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench.machine import in_a_process, resident
from bench.table import table
from tribunal.schema import JSON
from tribunal.terminal import say

_WORDS = (
    "neighbour", "garden", "weather", "train", "market", "school", "river", "teacher", "friend", "group", "people",
    "street", "city", "music", "letter", "winter", "summer", "morning", "evening", "coffee", "window", "bridge",
    "forest", "village", "member", "family", "sister", "brother", "office", "report",
)  # fmt: skip
_LABELS = ("NotHate", "Racist", "Sexist", "Homophobic", "Religious", "OtherHate")


# What is asked of the run, each at a page that wasn't asked for before.
_ASKED = {
    "the list again": "",
    "false positives": "kind=false-positive",
    "three filters": "kind=false-negative&difficulty=Hard&target=river&target=school",
    "sorted by confidence": "sort=confidence&order=down",
    "sorted by post, page 2,000": "sort=post&page=2000",
    "two words": "words=river+school",
    "a phrase": "words=%22river+school+train%22",
}
_PAGES = 200


def view(quick: bool) -> None:
    """Pages of a run of 100,000 samples, cold and warm, and what they cost in memory; the same in one file."""
    number = 2_000 if quick else 100_000
    say(f"### `tribunal view`: {number:,} samples\n", lines=True)
    with TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "one", number)
        write_run(Path(folder) / "two", number, seed=1)
        size = (run / "results.jsonl").stat().st_size / 1e6
        with _served(run) as (address, _):
            first = _seconds(address)
            began = time.perf_counter()
            while "being read" in _page(f"{address}samples"):
                time.sleep(0.2)
            whole = time.perf_counter() - began
        index = (run / ".view.sqlite").stat().st_size / 1e6
        say(f"results.jsonl {size:.0f} MB, its index {index:.0f} MB, made in {first + whole:.1f} s.\n", lines=True)
        with _served(run) as (address, process):
            rows = [
                ("the first page, no index yet", f"{first:.2f} s"),
                ("the first page", f"{_seconds(address):.2f} s"),
            ]
            rows += [(name, f"{_seconds(f'{address}samples?{query}'):.2f} s") for name, query in _ASKED.items()]
            rows.append(("a sample's case", f"{_seconds(f'{address}sample?post=post-000007'):.2f} s"))
            before = resident(process)
            began = time.perf_counter()
            for page in range(1, _PAGES + 1):
                _page(f"{address}samples?page={page * 7}&sort=seconds&read=yes")
            each = (time.perf_counter() - began) / _PAGES
            rows.append((f"each of {_PAGES} further pages", f"{each:.2f} s"))
            after = resident(process)
        with _served(run.parent) as (address, _):
            for name in ("one", "two"):
                while "being read" in _page(f"{address}samples?run={name}"):
                    time.sleep(0.2)
            rows.append(("where two runs differ", f"{_seconds(f'{address}pairs?run=one&with=two'):.2f} s"))
        table(("page", "seconds"), rows)
        say(f"Memory: {before:.0f} MB before those {_PAGES} pages, {after:.0f} MB after them.\n", lines=True)
    took = in_a_process(written, number)
    say(f"samples.html: {took['size']:.1f} MB, written in {took['seconds']:.0f} s.\n", lines=True)


def written(number: int) -> JSON:
    """samples.html of such a run: its size in MB, and the seconds that writing it took."""
    from tribunal.eval.view.samples_file import write_samples

    with TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", number)
        began = time.perf_counter()
        made = write_samples([run], run, most=50)
        return {"seconds": time.perf_counter() - began, "size": made.stat().st_size / 1e6}


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the address and the process of `tribunal view` of a folder."""
    command = [sys.executable, "-m", "tribunal", "view", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split()[1], process.pid
        finally:
            process.terminate()


def _page(address: str) -> str:
    with urlopen(address, timeout=600) as answer:  # noqa: S310
        said: str = answer.read().decode()
    return said


def _seconds(address: str) -> float:
    began = time.perf_counter()
    _page(address)
    return time.perf_counter() - began


def write_run(folder: Path, number: int, seed: int = 0) -> Path:
    """Return a run of so many samples, made up: four turns, two cues and six calls each, about 6 KB a line."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {"graph": "multiround", "dataset": "h-vli", "n": number, "repeats": 1, "settings": {"model": "openai:a"}}
    (folder / "run.json").write_text(json.dumps(run), "utf-8")
    chance = random.Random(seed)
    with (folder / "results.jsonl").open("w", encoding="utf-8") as file:
        for place in range(number):
            file.write(json.dumps(_line(place, chance)) + "\n")
    return folder


def _line(place: int, chance: random.Random) -> JSON:
    def words(number: int) -> str:
        return " ".join(chance.choices(_WORDS, k=number))

    gold, label = chance.randrange(6), chance.randrange(6)
    outcome = chance.choices(("verdict", "refusal", "failure"), (96, 3, 1))[0]
    cues = [
        {
            "id": f"C{at}", "type": "Direct", "target_group": words(2), "characteristic": "religion", "claim": words(6),
            "justification": words(20), "category": _LABELS[label],
        }
        for at in (1, 2)
    ]  # fmt: skip
    turns: list[JSON] = [
        {"id": "t1", "seat": "prosecutor", "stage": "indictment", "round": 1, "cues": cues, "text": words(10)}
    ]
    turns += [
        {
            "id": f"t{at}", "seat": seat, "stage": "argument", "round": 1, "cues": [], "text": words(12),
            "arguments": [
                {"cue_id": cue["id"], "target_group": words(2), "claim": cue["claim"], "stance": "press",
                 "argument": words(25)}
                for cue in cues
            ],
        }
        for at, seat in enumerate(("defender", "prosecutor", "defender"), start=2)
    ]  # fmt: skip
    calls = [
        {
            "id": f"{place}-{at}", "role": "argue", "seat": "prosecutor", "model": f"openai:{chance.choice('ab')}",
            "temperature": 0.0, "prompt_sha": "f" * 64, "prompt_tokens": chance.randrange(400, 2000),
            "completion_tokens": chance.randrange(20, 300), "seconds": chance.random(), "format": "json_schema",
            "shown": ["text", "policy"],
        }
        for at in range(6)
    ]  # fmt: skip
    verdict = outcome == "verdict"
    return {
        "place": place, "repeat": 0, "seconds": round(6 * chance.random(), 4), "outcome": outcome,
        "post_id": f"post-{place:06}", "graph": "multiround", "task": "hate", "scheme": "fine",
        "label": label if verdict else None, "category": _LABELS[label] if verdict else None,
        "hateful": label > 0 if verdict else None, "explanation": words(40),
        "track": chance.choice(("deep_dive", "dismissed")), "rounds": 1, "transcript": turns, "cues": cues,
        "calls": calls,
        "usage": {
            "calls": 6, "prompt_tokens": sum(call["prompt_tokens"] for call in calls),
            "completion_tokens": sum(call["completion_tokens"] for call in calls), "seconds": 3.0, "cached_tokens": 0,
        },
        "shown": ["text"], "policy": {"name": "h-vli", "sha": "f" * 64}, "warnings": [], "language": "en",
        "confidence": round(chance.random(), 3) if verdict else None, "uncertain": chance.random() < 0.1,
        "gold": {"label": gold, "scheme": "fine", "positive": gold > 0, "name": _LABELS[gold]}, "has_image": None,
        "fields": {
            "difficulty": chance.choice(("Easy", "Medium", "Hard")), "smi_pattern": chance.choice("ABCDEFG"),
            "functionality": f"F{chance.randrange(29)}", "target": chance.choice(_WORDS),
        },
        "text": words(25),
    }  # fmt: skip
