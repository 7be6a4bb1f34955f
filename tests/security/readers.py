"""Every reader of outside bytes as a function of them, with a sound example, and the errors that it may raise."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from pydantic import BaseModel

from tribunal.docket.docket import Docket
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.models.image import store_image
from tribunal.models.role import UnreadableAnswer, read_answer
from tribunal.nodes.threshold import read_threshold
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set
from tribunal.retrievers.perspectives.perspective import load_perspective
from tribunal.retrievers.perspectives.store import PerspectiveManifest
from tribunal.retrievers.precedents.store import PrecedentManifest, read_decided_cases
from tribunal.retrievers.web.archive import Archive
from tribunal.retrievers.web.page_parsing import READERS as PAGES
from tribunal.retrievers.web.page_parsing import read_page
from tribunal.retrievers.web.page_reader import PageUnreadable
from tribunal.runner.prices import read_prices
from tribunal.runner.results import read_results, read_run_file


class Reader(NamedTuple):
    """`read` raises nothing but `errors`."""

    name: str
    read: Callable[[bytes], object]
    sound: bytes
    errors: tuple[type[Exception], ...] = (BadInput,)


class Form(BaseModel):
    """What a model is asked for here."""

    category: str
    confidence: float
    cues: list[str]


def in_a_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of files as one of bytes."""

    def read_bytes(body: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(body)
            return read(path)

    return read_bytes


async def _docket(path: Path) -> None:
    docket = await Docket.open(f"sqlite:///{path}")
    for case in await docket.entries(decided=True):
        await docket.record(case.thread)


async def _archive(path: Path) -> None:
    archive = await Archive.open(path)
    with suppress(AttributeError):
        await archive.close()


def _database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        with sqlite3.connect(path) as made:
            made.execute("CREATE TABLE cases (thread TEXT PRIMARY KEY, graph TEXT)")
            made.execute("INSERT INTO cases VALUES ('case-1', 'tribunal')")
        return path.read_bytes()


def _png() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (9, 7), "blue").save(made, "PNG")
    return made.getvalue()


RESULT = {"post_id": "p-1", "outcome": "verdict", "label": 0, "hateful": False, "repeat": 0}
READERS = (
    Reader(
        "a model's reply",
        lambda body: read_answer(body.decode("utf-8", "replace"), Form),
        b'{"category": "NotHate", "confidence": 0.5, "cues": ["a"]}',
        (UnreadableAnswer,),
    ),
    *(
        Reader(
            f"a page of {kind}",
            lambda body, kind=kind: read_page(body, kind, None, 5.0),  # type: ignore[misc]
            b"<html><title>t</title><body><p>Words of a page.</p></body></html>",
            (PageUnreadable,),
        )
        for kind in PAGES
        if kind != "application/xhtml+xml"
    ),
    Reader("an image", lambda body: asyncio.run(store_image("image.png", body)), _png()),
    Reader(
        "a policy",
        in_a_file("policy.toml", lambda path: load_policy(str(path))),
        (Path(__file__).parents[2] / "prompts" / "policies" / "sarcasm.toml").read_bytes(),
    ),
    Reader(
        "a set of prompts",
        in_a_file("_part.md", lambda path: read_prompt_set(str(path.parent))),
        b"{% if post %}{{ post }}{% endif %} words",
    ),
    Reader(
        "a perspective",
        in_a_file("p.toml", load_perspective),
        b'name = "p"\ntitle = "P"\ncriterion = "words"\n',
    ),
    Reader(
        "an index",
        in_a_file("manifest.json", lambda path: PerspectiveManifest.read(path.parent)),
        b'{"format": 3}',
    ),
    Reader(
        "precedents",
        in_a_file("manifest.json", lambda path: PrecedentManifest.read(path.parent)),
        b'{"format": 1, "rows": 1}',
    ),
    Reader(
        "decided cases",
        in_a_file("t.csv", lambda path: list(read_decided_cases(path))),
        b"id,text,category,how\n1,words,Racist,changed\n",
    ),
    Reader(
        "a data set, CSV",
        in_a_file("t.csv", lambda path: list(open_dataset("table", path))),
        b"id,text,label\n1,words,1\n2,other words,0\n",
    ),
    Reader(
        "a data set, JSON lines",
        in_a_file("t.jsonl", lambda path: list(open_dataset("table", path))),
        b'{"id": 1, "text": "words", "label": 1}\n',
    ),
    Reader(
        "a data set, Parquet",
        in_a_file("t.parquet", lambda path: list(open_dataset("table", path))),
        b"PAR1\x15\x04PAR1",
    ),
    Reader(
        "a run's conditions",
        in_a_file("run.json", lambda path: read_run_file(path.parent)),
        b'{"graph": "arcade"}',
    ),
    Reader(
        "a run's results",
        in_a_file("results.jsonl", lambda path: list(read_results(path.parent))),
        json.dumps(RESULT).encode() + b"\n",
    ),
    Reader(
        "a price table",
        in_a_file("p.toml", read_prices),
        b'["openai:m"]\ninput = 1.0\noutput = 2.0\n',
    ),
    Reader("a threshold", in_a_file("t.json", read_threshold), b'{"threshold": 0.8}'),
    Reader(
        "a docket",
        in_a_file("service.sqlite", lambda path: asyncio.run(_docket(path))),
        _database(),
    ),
    Reader(
        "an archive", in_a_file("e.sqlite", lambda path: asyncio.run(_archive(path))), _database()
    ),
)
