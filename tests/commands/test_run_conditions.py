"""A run is tied to what it began with: its index, images, server, prompts, version and order of posts."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.playing import Player

ANSWER = Reply({"category": "NotHate", "explanation": "words"})
PATTERNS = {"000": (0, 0, 0), "100": (1, 0, 0), "001": (0, 0, 1)}
PERSPECTIVE = """
name = "mine"
language = "en"
criterion = "Whether it is rude."
[source]
files = ["texts.csv"]
text = "text"
obtain = "our own"
label = { column = "label", hate = ["1"], not_hate = ["0"] }
"""


def command(*arguments: str) -> Result:
    """A command, which makes an event loop of its own, from within another one too."""
    from tribunal.commands import app

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(CliRunner().invoke, app, list(arguments)).result()


async def run(server: ScriptedServer, *arguments: str) -> Result:
    """The command, which has an event loop of its own, beside the server's."""
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(command, *arguments)


def evaluation(tmp_path: Path, number: int, *more: str, out: str = "run") -> list[str]:
    """What `tribunal eval` is given for so many posts."""
    rows = "".join(f"p{place},word-{place}.,{place % 2}\n" for place in range(number))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    return ["eval", "--dataset", "table", "--data", str(tmp_path / "posts.csv"), "--out", str(tmp_path / out),
            "--model", "openai:scripted", "--set", "attempts=1", "--concurrency", "1", *more]  # fmt: skip


def hvli(tmp_path: Path, number: int, *more: str, out: str = "run") -> list[str]:
    """The same for posts in H-VLI's form, sorted by their patterns as the set is."""
    posts = {}
    for place in range(number):
        text, image, final = PATTERNS[list(PATTERNS)[place * len(PATTERNS) // number]]
        posts[str(place)] = {"tweet_text": f"word-{place}.", "image_path": f"imgs/{place}.png", "text_label": text,
                             "image_label": image, "final_label": final}  # fmt: skip
    (tmp_path / "test_set.json").write_text(json.dumps(posts))
    return ["eval", "--dataset", "h-vli", "--data", str(tmp_path), "--out", str(tmp_path / out), "--graph", "baseline",
            "--model", "openai:scripted", "--set", "attempts=1", "--concurrency", "1", *more]  # fmt: skip


def draw_images(tmp_path: Path, number: int) -> None:
    (tmp_path / "imgs").mkdir()
    for place in range(number):
        Image.new("RGB", (16, 16), (place, 0, 0)).save(tmp_path / "imgs" / f"{place}.png")


def lines(tmp_path: Path, out: str = "run") -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (tmp_path / out / "results.jsonl").read_text("utf-8").splitlines()
    ]


def locked_after(number: int) -> tuple[Callable[[Request], Reply | Fault], dict[str, bool]]:
    """Answers so many requests, and then says that the key is wrong until it is opened."""
    lock = {"on": True}

    def script(request: Request) -> Reply | Fault:
        return (
            Fault(status=401, message="no such key")
            if lock["on"] and request.index >= number
            else ANSWER
        )

    return script, lock


def index_of(tmp_path: Path, *texts: str) -> None:
    rows = "".join(f"{text},{place % 2}\n" for place, text in enumerate(texts))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "mine.toml").write_text(PERSPECTIVE)
    built = command(
        "perspectives", "build", str(tmp_path / "mine.toml"), "--data", str(tmp_path), "--replace"
    )
    assert built.exit_code == 0, built.output


OLD, NEW = (
    ("an old word-1.", "an old word-2.", "an old thing", "old hat"),
    ("a new word-1.", "a new word-2.", "new hat"),
)


async def test_a_run_reads_the_index_it_began_with_and_goes_on_with_no_other(
    tmp_path: Path,
) -> None:
    index_of(tmp_path, *OLD)
    player, rebuilt = Player(), {"yes": False}

    def script(request: Request) -> Reply | Fault:
        if "criterion" in request.text and not rebuilt["yes"]:
            rebuilt["yes"] = True
            index_of(tmp_path, *NEW)  # in the middle of the run
        return (
            Fault(status=401, message="no such key")
            if "word-3." in request.text
            else player(request)
        )

    wanted = evaluation(
        tmp_path,
        5,
        "--graph",
        "predict",
        "--perspectives",
        "mine",
        "--set",
        "mode=single",
        "--in-order",
    )
    async with ScriptedServer(script) as server:
        stopped = await run(server, *wanted)
        assert (stopped.exit_code, len(lines(tmp_path))) == (1, 3), stopped.output
        shown = [
            example["text"]
            for line in lines(tmp_path)
            for example in line["opinions"][0]["examples"]
        ]
        assert len(shown) == 9
        assert set(shown) <= set(OLD)
        pinned = json.loads((tmp_path / "run" / "run.json").read_bytes())["perspectives"]["mine"]
        assert set(pinned) == {"sha", "embedding"}
        refused = await run(server, *wanted)
    assert refused.exit_code == 2
    said = refused.stderr.partition("perspective mine: then ")[2]
    then, _, now = said.partition(", now ")
    assert pinned["sha"] in then
    assert pinned["embedding"] in then
    assert '"sha": "' in now
    assert pinned["sha"] not in now
    assert "go on as it was begun, or take another folder" in now
    index_of(tmp_path, *OLD)  # the same content is the same index, whenever it was built
    again = command(*wanted)
    assert "perspective mine" not in again.stderr


async def test_the_runs_of_a_comparison_share_one_index_and_go_on_with_no_other(
    tmp_path: Path,
) -> None:
    index_of(tmp_path, *OLD)
    evaluation(tmp_path, 2)
    (tmp_path / "setups.toml").write_text(
        'graph = "predict"\nsettings = { model = "openai:scripted", perspectives = ["mine"], mode = "single" }\n'
        "[entries.one]\n[entries.two]\n"
    )
    command = ["compare", str(tmp_path / "setups.toml"), "--on", str(tmp_path / "posts.csv"), "--concurrency", "1",
               "--out", str(tmp_path / "runs"), "--yes"]  # fmt: skip
    player, asked = Player(), list[int]()

    def script(request: Request) -> Reply | Fault:
        asked.append(1)
        if len(asked) == 1:
            index_of(tmp_path, *NEW)
        return player(request)

    async with ScriptedServer(script) as server:
        done = await run(server, *command)
        assert done.exit_code == 0, done.output
        for cell in ("one", "two"):
            shown = {
                example["text"]
                for line in lines(tmp_path / "runs", cell)
                for example in line["opinions"][0]["examples"]
            }
            assert shown <= set(OLD)
        refused = await run(server, *command)
    assert (refused.exit_code, "perspective mine: then" in refused.stderr) == (2, True)


async def test_another_server_is_refused_and_no_secret_of_an_address_is_kept(
    tmp_path: Path,
) -> None:
    wanted = evaluation(tmp_path, 4, "--graph", "baseline")
    # four answers by the address with a query, two of the run that is cut off
    script, lock = locked_after(6)
    async with ScriptedServer(script) as server, ScriptedServer(lambda request: ANSWER) as other:
        where = server.url.removeprefix("http://")
        os.environ["OPENAI_BASE_URL"] = f"http://somebody:secret@{where}/v1/?token=hidden"
        await asyncio.to_thread(command, *wanted)
        begun = json.loads((tmp_path / "run" / "run.json").read_bytes())
        del begun["texts"]  # of the policy, which has such words
        held = json.dumps(begun)
        assert begun["servers"] == {"openai": f"{where}/v1"}
        assert "secret" not in held
        assert "hidden" not in held
        (tmp_path / "run" / "results.jsonl").unlink()
        assert (await run(server, *wanted)).exit_code == 1
        refused = await run(other, *wanted)
        lock["on"] = False
        last = await run(server, *wanted)
        assert last.exit_code == 0, last.stderr
    assert refused.exit_code == 2
    assert (
        f'the server of openai: then "{where}/v1", now "{other.url.removeprefix("http://")}/v1"'
        in refused.stderr
    )
    assert len(other.requests) == 0


async def test_another_version_and_other_prompts_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "prompts" / "system"
    prompts.mkdir(parents=True)
    (prompts / "court.md").write_text('Decide by "{{ name }}". {% include "marks" %}')
    wanted = evaluation(tmp_path, 3, "--graph", "baseline", "--prompts", str(prompts.parent))
    script, _ = locked_after(1)
    async with ScriptedServer(script) as server:
        assert (await run(server, *wanted)).exit_code == 1
        monkeypatch.setattr("tribunal.runner.pins.__version__", "9.9")
        refused = await run(server, *wanted)
        assert (refused.exit_code, 'now "9.9"' in refused.stderr) == (2, True)
        monkeypatch.undo()
        (prompts / "court.md").write_text('Decide well by "{{ name }}". {% include "marks" %}')
        refused = await run(server, *wanted)
    assert (refused.exit_code, "sha: then " in refused.stderr) == (2, True)


async def test_prompts_and_a_policy_that_change_under_a_run_don_t_change_it(tmp_path: Path) -> None:
    prompts, policy = tmp_path / "prompts" / "system", tmp_path / "policy.toml"
    prompts.mkdir(parents=True)

    def write(word: str) -> None:
        (prompts / "court.md").write_text(f'{word} {{{{ definition }}}} {{% include "marks" %}}')
        policy.write_text(
            f'name = "mine"\ndefinition = "defined-{word}"\nexclusions = "none"\nprotected_groups = ["religion"]\n'
            'fine = [{ name = "NotHate", meaning = "no" }, { name = "Bad", meaning = "yes" }]\n'
            'binary = [{ name = "NotHate", meaning = "no" }, { name = "Bad", meaning = "yes" }]\n'
        )

    def script(request: Request) -> Reply | Fault:
        write("second")
        return ANSWER

    write("first")
    more = ("--graph", "baseline", "--prompts", str(prompts.parent), "--policy", str(policy))
    async with ScriptedServer(script) as server:
        assert (await run(server, *evaluation(tmp_path, 3, *more))).exit_code == 0
        told = [request.messages[0][1] for request in server.requests]
    assert all(words.startswith("first defined-first") for words in told)
    assert len({line["prompts"]["sha"] for line in lines(tmp_path)}) == 1
    assert len({line["policy"]["sha"] for line in lines(tmp_path)}) == 1


# ------------------------------------------------------------------------------------------------------------- images


async def test_images_that_appear_or_vanish_are_refused(tmp_path: Path) -> None:
    script, _ = locked_after(2)
    async with ScriptedServer(script) as server:
        assert (await run(server, *hvli(tmp_path, 6, "--columns", "image="))).exit_code == 1
        draw_images(tmp_path, 6)
        refused = await run(server, *hvli(tmp_path, 6))
        assert refused.exit_code == 2
        assert "images here: then 0, now 6" in refused.stderr
        assert (await run(server, *hvli(tmp_path, 6, out="seeing"))).exit_code == 1
    async with ScriptedServer(script) as server:
        assert (await run(server, *hvli(tmp_path, 6, out="third"))).exit_code == 1
        (tmp_path / "imgs").rename(tmp_path / "away")
        refused = await run(server, *hvli(tmp_path, 6, out="third"))
    assert (refused.exit_code, "6 of its 6 images are missing" in refused.stderr) == (2, True)


def report(tmp_path: Path, out: str) -> tuple[str, str]:
    done = command("report", str(tmp_path / out), "--out", str(tmp_path / f"report-{out}"))
    assert done.exit_code == 0, done.output
    folder = tmp_path / f"report-{out}"
    return (folder / "report.html").read_text("utf-8"), (folder / "report.md").read_text("utf-8")


async def test_the_report_says_at_its_head_and_by_the_papers_table_who_saw_which_images(
    tmp_path: Path,
) -> None:
    def blind(request: Request) -> Reply | Fault:
        return (
            Fault(status=400, message="image input is not supported") if request.images else ANSWER
        )

    async with ScriptedServer(lambda request: ANSWER) as server:
        assert (
            await run(server, *hvli(tmp_path, 6, "--columns", "image=", out="text"))
        ).exit_code == 0
        draw_images(tmp_path, 6)
        assert (await run(server, *hvli(tmp_path, 6, out="seeing"))).exit_code == 0
    async with ScriptedServer(blind) as server:
        assert (
            await run(server, *hvli(tmp_path, 6, "--model", "openai:blind", out="blind"))
        ).exit_code == 0
    for out, here, shown, image in (
        ("text", 0, 0, False),
        ("seeing", 6, 6, True),
        ("blind", 6, 0, True),
    ):
        assert {line["has_image"] for line in lines(tmp_path, out)} == {image}
        assert {tuple(line["shown"]) for line in lines(tmp_path, out)} == {
            ("text", "image") if shown else ("text",)
        }
        counted = f"6 posts have an image: it was here for {here}, and {shown} were shown to the models with it"
        for page in report(tmp_path, out):
            head, _, rest = page.partition("Headline")
            assert counted in head
            beside = rest.partition("Beside the paper")[2].partition("As printed in the paper")[0]
            assert ("Posts were judged without their image" in head) is (shown == 0)
            assert ("Posts were judged without their image" in beside) is (shown == 0)


async def test_a_post_that_failed_was_not_judged_without_its_image(tmp_path: Path) -> None:
    draw_images(tmp_path, 6)

    def broken(request: Request) -> Reply | Fault:
        return Fault(status=500) if "word-2." in request.text else ANSWER

    async with ScriptedServer(broken) as server:
        assert (await run(server, *hvli(tmp_path, 6))).exit_code == 0
    assert sum(line["outcome"] == "failure" for line in lines(tmp_path)) == 1
    counted = "it was here for 6, and 5 of the 5 that were judged were shown to the models with it"
    for page in report(tmp_path, "run"):
        assert counted in page
        assert "Posts were judged without their image" not in page


# -------------------------------------------------------------------------------------------------------------- order


@pytest.mark.long
async def test_posts_are_shuffled_by_the_seed_and_the_same_when_it_goes_on(tmp_path: Path) -> None:
    script, lock = locked_after(10)
    draw_images(tmp_path, 30)
    async with ScriptedServer(script) as server:
        assert (await run(server, *hvli(tmp_path, 30))).exit_code == 1
        first = [line["post_id"] for line in lines(tmp_path)]
        assert first != sorted(first, key=int)
        assert {line["fields"]["difficulty"] for line in lines(tmp_path)} == {
            "Easy",
            "Normal",
            "Hard",
        }
        lock["on"] = False
        assert (await run(server, *hvli(tmp_path, 30))).exit_code == 0
        for more, out in (
            ((), "whole"),
            (("--seed", "1"), "other"),
            (("--in-order",), "file"),
            (("--samples", "12"), "few"),
        ):
            assert (await run(server, *hvli(tmp_path, 30, *more, out=out))).exit_code == 0
    orders = {
        out: [line["post_id"] for line in lines(tmp_path, out)]
        for out in ("run", "whole", "other", "file", "few")
    }
    assert sorted(orders["run"], key=int) == orders["file"] == [str(place) for place in range(30)]
    assert orders["run"] == orders["whole"] != orders["other"]
    assert orders["few"] == orders["whole"][:12]
    for out, said in (("whole", "shuffled by the seed"), ("file", "as in the files")):
        assert json.loads((tmp_path / out / "run.json").read_bytes())["sampling"]["order"] == said
        assert all(f"posts taken {said}" in page for page in report(tmp_path, out))
    refused = command(*hvli(tmp_path, 30, "--in-order", out="whole"))
    assert (refused.exit_code, "order: then" in refused.stderr) == (2, True), refused.output
