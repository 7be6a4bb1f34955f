"""A folder with a sound file of every kind that a command reads, made by the commands themselves."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
from pathlib import Path

from PIL import Image

import tribunal.prompts as prompts
from tests.annotated import MAP, exported, write_posts
from tests.archived import a_run
from tests.commands.test_judge import run
from tests.eval.experiments.small_sets import write_small
from tests.prompts.published_clones import write_court
from tests.result_lines import line, write_run
from tests.service.test_label_studio import annotated
from tribunal.retrievers.web.archive import Archive

PROMPTS = Path(prompts.__file__).parent
JUDGE = ("judge", "Those people are vermin.")
SPEC = """
name = "forum"
title = "What our forum's moderators removed"
language = "en"
criterion = "Removed: vermin."
[labels]
hate = "Removed"
not_hate = "Kept"
[source]
files = ["table.csv"]
text = "text"
obtain = "the desk"
[source.label]
column = "label"
hate = ["hate"]
not_hate = ["not"]
"""


def done(*arguments: str, status: int = 0) -> str:
    """Run a command that must end with this status, and return what it printed."""
    ended = run(*arguments)
    assert ended.exit_code == status, (arguments, ended.output)
    return ended.stdout


def posts(count: int) -> list[tuple[str, str, str]]:
    """Rows of id, text and label; two in five are hate."""
    return [
        (
            f"p{n}",
            f"those people, the {'vermin' if n % 5 < 2 else 'bakers'} of street {n}",
            "hate" if n % 5 < 2 else "not",
        )
        for n in range(count)
    ]


def write_table(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text", "label"), *posts(count)])


def make_sound_files(folder: Path) -> None:
    """Fill a folder, which must be the working folder, and whose data folder must be the one in force."""
    write_table(folder / "table.csv", 40)
    write_table(folder / "few.csv", 6)
    Image.new("RGB", (8, 8), "red").save(folder / "image.png")
    (folder / "prices.toml").write_text("[rehearsal]\ninput = 1.0\noutput = 2.0\n")
    (folder / "line_up.toml").write_text('[seats]\njudge = "rehearsal"\n')
    (folder / "spec.toml").write_text(SPEC)
    shutil.copyfile(PROMPTS / "policies" / "h-vli.toml", folder / "policy.toml")
    setups = '[entries.one]\ngraph = "baseline"\n[entries.two]\ngraph = "baseline"\n'
    (folder / "setups.toml").write_text(setups)
    (folder / "prompts" / "arcade").mkdir(parents=True)
    shutil.copyfile(PROMPTS / "arcade" / "judge.md", folder / "prompts" / "arcade" / "judge.md")
    write_court(folder / "published")
    done("eval", "--dataset", "table", "--data", "few.csv", "--out", "run", "--graph", "baseline", "--keep-text",
         "--prices", "prices.toml")  # fmt: skip
    many = [
        line(
            f"p{n}",
            n % 2,
            n % 2,
            scheme="binary",
            gold_scheme="binary",
            confidence=0.9,
            text=f"words of post {n}",
        )
        for n in range(400)
    ]
    write_run(folder / "sure", many)
    done("fit", "sure", "--out", "threshold.json")
    done("perspectives", "build", "spec.toml", "--data", ".")
    decided = [
        {"case": f"case-{n}", "post_id": f"p{n}", "text": text, "category": "Racist" if kind == "hate" else "NotHate",
         "hateful": kind == "hate", "policy": "h-vli"}
        for n, text, kind in posts(6)
    ]  # fmt: skip
    (folder / "decided.jsonl").write_text("".join(json.dumps(each) + "\n" for each in decided))
    done("precedents", "build", "ours", "--from", "decided.jsonl")
    for _ in range(2):
        ended = run(*JUDGE, "--review", "--set", "review_rule=all", "--json")
        assert ended.exit_code == 5, ended.output
    thread = json.loads(ended.stdout)["thread"]
    done("review", "export", "--format", "label-studio", "--out", "tasks")
    done("review", "decide", thread, "--accept")
    (folder / "record.json").write_text(done(*JUDGE, "--json"))
    done("review", "export", "--out", "cases.jsonl")
    (folder / "mapping.toml").write_text(done("dsa", "statements", "--example-mapping"))
    write_posts(folder)
    done("annotate", "export", "posts.csv", "--out", "annotated", *MAP)
    tasks = json.loads((folder / "annotated" / "tasks.json").read_text("utf-8"))
    (folder / "labelled.json").write_text(json.dumps(exported(tasks)), "utf-8")
    asyncio.run(_make_archive(folder / "archive.sqlite"))
    write_small(folder / "sets")
    done("experiment", "run", "arcade-table8", "--data", "sets/h-vli", "--samples", "4", "--out", "tabled",
         "--model", "rehearsal")  # fmt: skip
    write_run(folder / "surer", many)
    [task] = json.loads((folder / "tasks" / "tasks.json").read_text("utf-8"))[:1]
    (folder / "exported.json").write_text(json.dumps([annotated(task, "Racist")]))
    (folder / ".env").write_text("TRIBUNAL_MODEL=rehearsal\n")


async def _make_archive(file: Path) -> None:
    archive = await Archive.open(file)
    await a_run(archive)
    await archive.close()
