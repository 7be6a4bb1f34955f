"""A data set in a store: evaluated as one of this machine, with the images beside its table and none outside."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.commands.test_stores import batch, put, rows_of, s3, server
from tests.doubles import Reply
from tests.models.classified import png
from tests.openai_server import OpenAIServer
from tribunal.commands import app

__all__ = ["s3", "server"]  # fixtures


def table_with_images(s3: str, tmp_path: Path) -> str:
    """A table in a folder of a store, whose first row names an image beside it, and the others what isn't read."""
    picture = png(tmp_path).read_bytes()
    refs = ["memes/meme.png", f"{tmp_path}/red.png", "../red.png", "s3://other/red.png", "gone.png"]
    put(f"{s3}/set/memes/meme.png", picture)
    put(f"{s3}/red.png", picture)
    rows = "".join(f"words,{ref}\n" for ref in refs)
    return put(f"{s3}/set/posts.csv", f"text,image\n{rows}words,\n")


def test_an_image_beside_a_table_in_a_store_is_shown_and_nothing_outside_its_folder(
    s3: str, tmp_path: Path
) -> None:
    posts = table_with_images(s3, tmp_path)
    with OpenAIServer(
        lambda request: Reply({"category": "NotHate", "explanation": "words"})
    ) as server:
        batch(posts, tmp_path / "out.csv", "--model", "openai:scripted")
        assert sorted(len(request.images) for request in server.requests) == [0, 1]
    rows = rows_of((tmp_path / "out.csv").read_bytes())
    assert [row["outcome"] for row in rows] == ["verdict", *["failure"] * 4, "verdict"]
    assert "image: ../red.png: is outside " in rows[2]["explanation"]
    assert "image: gone.png: isn't in " in rows[4]["explanation"]


def test_a_table_in_a_store_is_evaluated_with_its_images(s3: str, tmp_path: Path) -> None:
    put(f"{s3}/set/memes/meme.png", png(tmp_path).read_bytes())
    posts = put(f"{s3}/set/posts.csv", "text,meme,label\nwords,memes/meme.png,0\nothers,,0\n")
    command = [
        "eval",
        "--dataset",
        "table",
        "--data",
        posts,
        "--out",
        str(tmp_path / "run"),
        "--graph",
        "baseline",
    ]
    with OpenAIServer(
        lambda request: Reply({"category": "NotHate", "explanation": "words"})
    ) as server:
        done = CliRunner().invoke(
            app, [*command, "--model", "openai:scripted", "--columns", "image=meme"]
        )
        assert done.exit_code == 0, done.output
        assert sorted(len(request.images) for request in server.requests) == [0, 1]
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["data"]["files"] == [
        "posts.csv"
    ]
    lost = CliRunner().invoke(app, [*command[:4], f"{s3}/none.csv", *command[5:]])
    assert (
        lost.exit_code,
        "none.csv: no such file or folder, or no such bucket" in lost.output,
    ) == (2, True)


def test_a_published_set_in_a_folder_of_a_store_is_evaluated(s3: str, tmp_path: Path) -> None:
    head = "case_id,functionality,test_case,label_gold,target_ident,direction,templ_id"
    put(f"{s3}/hc/data/test_suite_cases.csv", f"{head}\n1,f,Good morning.,non-hateful,,,1\n")
    done = CliRunner().invoke(
        app,
        [
            "eval",
            "--dataset",
            "hatecheck",
            "--data",
            f"{s3}/hc",
            "--out",
            str(tmp_path / "run"),
            "--graph",
            "baseline",
        ],
    )
    assert done.exit_code == 0, done.output
