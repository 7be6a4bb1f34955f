"""`tribunal batch` between object stores and folders: in and out, gone on with, and every way in which it can't."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.commands.test_startup import modules_of
from tests.doubles import Reply
from tests.openai_server import OpenAIServer
from tribunal.commands import app
from tribunal.eval.datasets.locations import parse_location, write_whole_at

SECRET = "wJalrXUtnFEMIKsecretbPxRfiCYEXAMPLEKEY"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    yield f"http://{host}:{port}"
    served.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket, which the environment has the key of."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    name = f"bucket-{uuid4()}"
    parse_location(f"s3://{name}?allow_bucket_creation=true").fs.create_dir(name)
    return f"s3://{name}"


def put(url: str, content: str | bytes) -> str:
    write_whole_at(parse_location(url), content.encode() if isinstance(content, str) else content)
    return url


def got(url: str) -> bytes:
    place = parse_location(url)
    with place.fs.open_input_stream(place.path, compression=None) as file:
        return bytes(file.read())


def names(url: str) -> list[str]:
    return sorted(each.path.partition("/")[2] for each in parse_location(url).files())


def batch(posts: object, out: object, *more: str, ends: int = 0) -> Result:
    done = CliRunner().invoke(
        app, ["batch", str(posts), "--out", str(out), "--graph", "baseline", *more]
    )
    assert done.exit_code == ends, done.output
    assert SECRET not in done.output
    return done


def refused(posts: object, out: object, *more: str) -> str:
    done = batch(posts, out, *more, ends=2)
    assert done.stdout == ""
    return done.stderr


def parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def rows_of(content: bytes) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_a_file_of_a_store_comes_back_to_it_whole(s3: str, tmp_path: Path) -> None:
    posts = put(f"{s3}/in/my posts 좋은%.csv", "id,text\na,Good morning.\nb,\n")
    done = batch(posts, f"{s3}/out/decided.csv")
    assert [(row["id"], row["outcome"]) for row in rows_of(got(f"{s3}/out/decided.csv"))] == [
        ("a", "verdict"),
        ("b", "failure"),
    ]
    # The folder of the run is told of, and holds the results; the copy of the input is gone.
    (folder,) = (tmp_path / "data" / "batches").iterdir()
    assert done.stdout.splitlines()[-2:] == [f"{s3}/out/decided.csv", f"Results: {folder}"]
    assert sorted(each.name for each in folder.iterdir() if not each.name.startswith(".")) == [
        "results.jsonl",
        "run.json",
    ]
    held = json.loads((folder / "run.json").read_bytes())
    assert held["data"]["files"] == ["my posts 좋은%.csv"]
    again = batch(posts, f"{s3}/out/decided.csv", "--json")
    assert json.loads(again.stdout)["out"] == f"{s3}/out/decided.csv"
    # The same command over another content is another run.
    put(posts, "id,text\na,Good evening.\n")
    assert "the files' contents differ" in refused(posts, f"{s3}/out/decided.csv")
    assert names(s3) == ["in/my posts 좋은%.csv", "out/decided.csv"]


def test_a_local_copy_and_a_store_give_the_same_run(s3: str, tmp_path: Path) -> None:
    content = parquet(
        [
            {"text": "Good morning.", "likes": 3, "tags": ["x"]},
            {"text": "", "likes": None, "tags": None},
        ]
    )
    (tmp_path / "posts.parquet").write_bytes(content)
    put(f"{s3}/posts.parquet", content)
    batch(tmp_path / "posts.parquet", tmp_path / "here.parquet")
    batch(f"{s3}/posts.parquet", f"{s3}/there.parquet", "--run-folder", str(tmp_path / "run"))
    here, there = (
        pq.read_table(tmp_path / "here.parquet"),
        pq.read_table(io.BytesIO(got(f"{s3}/there.parquet"))),
    )
    assert here.schema == there.schema
    assert there.schema.field("likes").type == pa.int64()
    assert here.to_pylist()[0] | {"case": None} == there.to_pylist()[0] | {"case": None}
    runs = [
        json.loads((tmp_path / name / "run.json").read_bytes())
        for name in ("here.parquet.run", "run")
    ]
    assert runs[0]["data"] == runs[1]["data"]


FOLDER: dict[str, str | bytes] = {
    "lang=en/b.jsonl": '{"text": "two"}\n{"text": "three"}\n',
    "lang=en/a.csv": "text,likes\none,1\n",
    "lang=ko/part 1.parquet": parquet([{"text": "four"}]),
    "lang=ko/part 2.csv.gz": gzip.compress(b"text\nfive\n"),
    "lang=__HIVE_DEFAULT_PARTITION__/x.tsv": "text\tlikes\nsix\t6\n",
    "empty.csv": "",
    "_SUCCESS": "",
    "_temporary/0.csv": "text\nno\n",
    ".a.csv.crc": "no",
    ".hidden/a.csv": "text\nno\n",
    "README.txt": "text\nno\n",
    "image.png": b"\x89PNG",
}
ORDER = ["six", "one", "two", "three", "four", "five"]


@pytest.mark.parametrize("remote", [True, False])
def test_a_folder_of_several_kinds_is_one_table(remote: bool, s3: str, tmp_path: Path) -> None:
    for name, content in FOLDER.items():
        if remote:
            put(f"{s3}/in/{name}", content)
        else:
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )
    given = f"{s3}/in/" if remote else f"{tmp_path}/in/"
    batch(given, tmp_path / "out.jsonl", "--columns", "language=lang")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [each["input"]["text"] for each in found] == ORDER
    assert [each["post_id"] for each in found] == ["1", "2", "3", "4", "5", "6"]
    assert [each["input"].get("lang") for each in found] == [None, "en", "en", "en", "ko", "ko"]
    held = json.loads((tmp_path / "out.jsonl.run" / "run.json").read_bytes())
    assert held["data"]["files"] == ["in"]
    again = batch(given, tmp_path / "out.jsonl", "--columns", "language=lang", "--json")
    assert json.loads(again.stdout)["done"] == 6
    # A file that comes along makes another table of it.
    more = "text\nseven\n"
    put(f"{s3}/in/lang=ko/z.csv", more) if remote else (
        tmp_path / "in" / "lang=ko" / "z.csv"
    ).write_text(more)
    assert "the files' contents differ" in refused(
        given, tmp_path / "out.jsonl", "--columns", "language=lang"
    )


def test_files_of_a_folder_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,text\n1,one\n")
    (tmp_path / "in" / "b.csv").write_text("number,words\n2,two\n")
    said = refused(tmp_path / "in", tmp_path / "out.csv")
    assert (
        f"{tmp_path}/in/b.csv: has no column 'text', which other files of {tmp_path}/in have (text)"
        in said
    )
    (tmp_path / "in" / "b.csv").write_text("words,text\nx,two\n")
    assert "b.csv: has no column 'id'" in refused(tmp_path / "in", tmp_path / "out.csv")
    (tmp_path / "in" / "b.csv").unlink()
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "two"}\n')
    batch(tmp_path / "in", tmp_path / "out.csv")
    assert [row["id"] for row in rows_of((tmp_path / "out.csv").read_bytes())] == ["1", ""]


def test_what_is_not_there_is_said_before_any_call(s3: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    posts = put(f"{s3}/posts.csv", "text\nGood morning.\n")
    assert f"{s3}/none.csv: no such file or folder, or no such bucket" in refused(
        f"{s3}/none.csv", out
    )
    assert "no such bucket" in refused("s3://there-is-none/posts.csv", out)
    assert "out: s3://there-is-none/x.csv: there is no bucket 'there-is-none'" in refused(
        posts, "s3://there-is-none/x.csv"
    )
    assert "its suffix is none of" in refused(posts, f"{s3}/out.xlsx")
    assert "is the input" in refused(posts, posts)
    assert "is in the input's folder" in refused(f"{s3}/", f"{s3}/out.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "posts.csv").write_text("text\nGood morning.\n")
    assert "is in the input's folder" in refused(tmp_path / "in", tmp_path / "in" / "out.csv")
    inside = refused(tmp_path / "in", out, "--run-folder", str(tmp_path / "in" / "run"))
    assert "run-folder" in inside
    put(f"{s3}/there.csv", "mine")
    assert "is there already, and no batch has written it" in refused(posts, f"{s3}/there.csv")
    (tmp_path / "no-table").mkdir()
    assert "there is no table in this folder" in refused(tmp_path / "no-table", out)
    put(f"{s3}/in/cut.csv.gz", gzip.compress(b"text\nhello\n" * 100)[:-20])
    assert f"{s3}/in/cut.csv.gz: isn't packed by gzip, or not all of it is there" in refused(
        f"{s3}/in", out
    )
    assert got(f"{s3}/there.csv") == b"mine"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "path: is empty"),
        ("  ", "path: is empty"),
        ("s3://", "names no bucket"),
        ("s3:///posts.csv", "names no bucket"),
        ("s3://bucket/../other/posts.csv", "has a part . or .."),
        ("s3://bucket/%2e%2e/posts.csv", "has a part . or .."),
        ("s3://bucket//posts.csv", "Empty path component"),
        ("s3://bucket/posts.csv?regio=x", "Unexpected query parameter"),
        (f"s3://key:{SECRET}@bucket/posts.csv", "s3://…: has a key or password in it"),
        (f"s3://key:a/{SECRET}@bucket/posts.csv", "s3://…: has a key or password in it"),
        (f"s3://bucket/posts.csv?secret_key={SECRET}", "s3://…: has a key or password in it"),
        (f"ftp://me:{SECRET}@host/posts.csv", "ftp://…: has a key or password in it"),
        ("hf://datasets/me/posts.csv", "pip install huggingface_hub"),
        ("zip://a.csv::s3://bucket/b.zip", "a file inside another one isn't read"),
        ("nowhere://bucket/posts.csv", "nowhere:// is not known"),
    ],
)
def test_a_url_that_names_no_table(url: str, said: str, s3: str, tmp_path: Path) -> None:
    assert said in refused(url, tmp_path / "out.csv")
    (tmp_path / "posts.csv").write_text("text\nhello\n")
    assert said.partition(" (")[0] in refused(tmp_path / "posts.csv", url)


def test_a_wrong_key_is_said_without_it(server: str, s3: str, tmp_path: Path) -> None:
    import requests

    put(f"{s3}/posts.csv", "text\nGood morning.\n")
    # From here on this server holds keys to those that it has given out: none.
    requests.post(f"{server}/moto-api/reset-auth", data="0")
    try:
        assert "ACCESS_DENIED" in refused(f"{s3}/posts.csv", tmp_path / "out.csv")
        (tmp_path / "posts.csv").write_text("text\nhello\n")
        assert "out: s3://" in refused(tmp_path / "posts.csv", f"{s3}/out.csv")
    finally:
        requests.post(f"{server}/moto-api/reset-auth", data="inf")


@pytest.mark.slow
def test_a_store_that_is_away(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "NETWORK_CONNECTION" in refused(f"{s3}/posts.csv", tmp_path / "out.csv")


@pytest.mark.long
def test_a_killed_run_goes_on_without_the_posts_that_it_has(s3: str, tmp_path: Path) -> None:
    posts = put(f"{s3}/in/posts.csv", "text\n" + "".join(f"word-{place}.\n" for place in range(40)))
    own = [
        "batch",
        posts,
        "--out",
        f"{s3}/out.jsonl",
        "--graph",
        "baseline",
        "--model",
        "openai:scripted",
    ]
    own += ["--scheme", "binary", "--concurrency", "4", "--run-folder", str(tmp_path / "run")]
    answer = Reply({"category": "NotHate", "explanation": "words"})
    with OpenAIServer(lambda request: answer, latency=0.1) as models:
        process = subprocess.Popen(
            [sys.executable, "-c", "import tribunal; tribunal.main()", *own],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(models.requests) < 12:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert names(s3) == ["in/posts.csv"]
        done = CliRunner().invoke(app, own)
        assert done.exit_code == 0, done.output
        assert len(models.requests) <= 40 + 4
    texts = [json.loads(line)["input"]["text"] for line in got(f"{s3}/out.jsonl").splitlines()]
    assert texts == [f"word-{place}." for place in range(40)]


class Elsewhere(MemoryFileSystem):  # type: ignore[misc]
    """A store that only fsspec knows; its client says its key when it is asked for what it doesn't give."""

    protocol = "elsewhere"
    full = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.replace("elsewhere://", "memory://")))

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if "w" in mode and Elsewhere.full:
            raise RuntimeError(
                f"quota of https://me:{SECRET}@store.example spent (token {os.environ['HF_TOKEN']})"
            )
        return super()._open(path, mode, **more)


def test_any_file_system_of_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    put("elsewhere://set/in/1.csv", "text\nGood morning.\n")
    put("elsewhere://set/in/2.csv", "text\nGood evening.\n")
    monkeypatch.setattr(Elsewhere, "full", True)
    # What is decided is kept, and the same command does the rest.
    full = batch("elsewhere://set/in", "elsewhere://set/out.csv", ends=1)
    assert "quota of https://store.example spent (token [key])" in full.stderr
    assert "all 2 results are saved. Run the same command again to finish" in full.stderr
    assert full.stdout.splitlines()[-1].startswith("Results so far: ")
    monkeypatch.setattr(Elsewhere, "full", False)
    done = batch("elsewhere://set/in", "elsewhere://set/out.csv")
    assert "2 processed (0 now, 2 before)" in done.stdout
    assert [row["text"] for row in rows_of(got("elsewhere://set/out.csv"))] == [
        "Good morning.",
        "Good evening.",
    ]


@pytest.mark.long
def test_a_table_of_this_machine_waits_for_no_store(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("text\nGood morning.\n")
    there = modules_of(tmp_path, "batch", "posts.csv", "--out", "out.csv", "--graph", "baseline")
    assert (tmp_path / "out.csv").exists()
    assert there & {"fsspec", "pyarrow", "ray"} == set()


# Sends a file of so many megabytes, fetches it, and says the most memory that this took, in megabytes.
_SENT = """
import re, sys
from pathlib import Path
from tribunal.eval.datasets.locations import fetch, parse_location, put_whole
url, megabytes, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
with file.open("wb") as pieces:
    for _ in range(megabytes):
        pieces.write(bytes(2**20))
put_whole(parse_location(url), file)
fetch(parse_location(url), file)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_file(s3: str, tmp_path: Path) -> None:
    most = []
    for megabytes in (60, 240):
        command = [sys.executable, "-c", _SENT, f"{s3}/big", str(megabytes), str(tmp_path / "big")]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        most.append(
            int(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        )
    assert most[1] - most[0] < 60, most
